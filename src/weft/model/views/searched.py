"""Texts that searches compare with, and what they find."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.pod import PodState

Searched = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00]*$")]


class SearchHit(Document):
    """Something with the value that was searched for."""

    kind: str = Field(description="pod, network, site; node, adapter, switch, rack, interface, IPU-Machine …")
    name: str
    what: str = Field(description="Which of its values it is.")
    id: str | None = Field(default=None, description="Of a pod, a network or the site, in weft.")
    project_id: str | None = Field(default=None, description="Of a pod or network.")
    state: PodState | None = Field(default=None, description="Of a pod, a network or the site.")
    unit: str | None = Field(
        default=None, description="Node or IPU-Machine that it is, or that it is in (operators)."
    )


class SearchResult(Document):
    """What has exactly this value."""

    text: str
    hits: tuple[SearchHit, ...] = Field(description="At most 50.")
    more: bool = Field(default=False, description="Whether there are more.")
