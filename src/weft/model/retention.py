"""How long records are kept that nothing needs any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator

from weft.model.base import Document
from weft.model.ids import Duration, span

SHORTEST_TOMBSTONES = timedelta(days=2)
"""The sweep looks for what a released pod had for a day after its release, by its rows."""


class RetentionPolicy(Document):
    """How long records are kept. Receipts, corrections of receipts and the rows of pods themselves stay forever."""

    events: Duration = Field(
        default="90d", description="Events of a released pod, from its release; older ones of a live pod."
    )
    events_of_live_pods: int = Field(
        default=1000,
        ge=100,
        le=100_000,
        description="The last events of a live pod stay, however old they are.",
    )
    tombstones: Duration = Field(
        default="30d",
        description="What a released pod had outside, row by row, from its release; at least 2d, while the sweep "
        "looks for it.",
    )
    traces: Duration = Field(
        default="365d",
        description="What the sweep found of others on a released pod's nodes, from when it was seen gone.",
    )
    audit_log: Duration = Field(default="365d", description="Entries of the audit log.")
    site_generations: Duration = Field(
        default="365d", description="Earlier generations of the site, from when they were replaced."
    )

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        if span(self.tombstones) < SHORTEST_TOMBSTONES:
            raise ValueError("tombstones: at least 2d, while the sweep looks for what released pods had")
        return self
