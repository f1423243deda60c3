"""Hours of nodes and accelerators as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Instant
from weft.model.views.searched import Searched

UseState = Literal["used", "spare", "booked"]
UseBy = Literal["pod", "project", "type"]


class UseSearch(Document):
    """Period and projects whose use is asked for."""

    since: Instant = Field(description="Begin of the period.")
    until: Instant | None = Field(default=None, description="Its end. Default: now.")
    by: UseBy = Field(default="pod", description="What each row is about.")
    all_projects: bool = Field(default=False, description="Of all projects (operators).")
    project: Searched | None = Field(
        default=None, description="Only of this project, by id; with `all_projects`."
    )


class UseRow(Document):
    """Hours in the period."""

    project_id: str | None = Field(default=None, description="Null: of all, by type.")
    pod: str | None = None
    pod_id: str | None = None
    type: str = Field(
        description="Type of the node's accelerators; none: it has none; unknown: the site doesn't describe the node "
        "any more."
    )
    state: UseState = Field(
        description="used: by its servers, until it was returned clean; spare: held to replace nodes that fail; "
        "booked: assigned for later, in the part of the period that is yet to come."
    )
    node_hours: float = Field(description="A part of a node counts by its share of the accelerators.")
    accelerator_hours: float | None = Field(description="Null: how many there were is unknown.")


class UseReport(Document):
    """Hours of nodes and accelerators. What waits for nodes has none."""

    since: datetime
    until: datetime
    at: datetime = Field(description="Now: what goes on is counted until then.")
    kept: str = Field(description="For how long the site keeps what is counted here.")
    rows: tuple[UseRow, ...]
