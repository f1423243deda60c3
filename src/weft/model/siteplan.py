"""What the active site needs in its clouds, compared with what is there. Returned by the API, stored nowhere."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.change import SpecChange

SiteAction = Literal["create", "adopt", "change", "recreate", "remove"]


class SiteStep(Document):
    """What would be done with one resource."""

    action: SiteAction = Field(
        description="recreate: what differs can't be changed in place, so it is removed with all that needs it, and "
        "created again."
    )
    key: str
    kind: str
    name: str
    where: str = Field(description="Cloud or fabric.")
    what: str = Field(default="", description="What it is, in a few words.")
    id: str | None = Field(default=None, description="Its id in the cloud, if it is there.")
    fields: tuple[SpecChange, ...] = Field(default=(), description="Fields that differ.")


class SiteConflict(Document):
    """Something that isn't weft's and is in the way."""

    key: str = Field(description="Resource that can't be created as described.")
    id: str
    what: str = Field(description="What is there, and what to do about it.")
    adoptable: bool = Field(default=False, description="Whether it could be adopted in its place.")


class SitePlan(Document):
    """The difference between the active site and its clouds."""

    site: str
    generation: int = Field(description="Generation of the site.")
    resources: int = Field(description="Number of resources that the site needs.")
    steps: tuple[SiteStep, ...] = ()
    conflicts: tuple[SiteConflict, ...] = Field(
        default=(), description="Conflicts to solve first; nothing is applied while there are any."
    )
    notes: tuple[str, ...] = Field(default=(), description="Possible mistakes, which don't stop anything.")

    @property
    def nothing(self) -> bool:
        """Whether everything is as the site says."""
        return not (self.steps or self.conflicts)
