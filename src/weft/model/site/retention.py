"""How long records that are no longer needed are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator

from weft.model.base import Document
from weft.model.ids import Duration, span

SHORTEST_TOMBSTONES = timedelta(days=2)
"""For a day after a release the sweep looks for remains of the pod, using its rows."""


class RetentionPolicy(Document):
    """How long records are kept. Receipts, their corrections and the pods' own rows are kept forever."""

    events: Duration = Field(
        default="90d", description="Events of released pods, counted from the release, and of live pods."
    )
    events_of_live_pods: int = Field(
        default=1000,
        ge=100,
        le=100_000,
        description="Number of latest events, and of generations of its order, that are kept for each live pod "
        "regardless of age.",
    )
    tombstones: Duration = Field(
        default="30d",
        description="Resource rows of released pods, and readings of nodes that were returned before the "
        "pod's end, counted from the release; of live pods and the site, rows of what was removed from them (not of "
        "data, nor of segments), and readings of nodes that were returned again later; at least 2d, since the sweep "
        "uses them.",
    )
    traces: Duration = Field(
        default="365d",
        description="Foreign objects that the sweep found on a released pod's nodes, counted from when they were gone.",
    )
    audit_log: Duration = Field(default="365d", description="Audit log entries.")
    node_history: Duration = Field(default="730d", description="Entries of nodes' histories.")
    use: Duration = Field(
        default="1095d",
        description="Who had which nodes from when to when (`weft site use`), counted from the end of each; what goes "
        "on is kept. What was free, and how many orders waited (`weft capacity --history`).",
    )
    site_generations: Duration = Field(
        default="365d", description="Earlier generations of the site, counted from when they were replaced."
    )

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if span(self.tombstones) < SHORTEST_TOMBSTONES:
            raise ValueError("tombstones: at least 2d, since the sweep uses them")
        return self
