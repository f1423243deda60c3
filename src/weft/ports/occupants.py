"""Port: what is really on a cloud's compute hosts, whoever put it there, and how servers ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Occupant:
    """A server on a host, or a claim on the host's devices.

    Attributes:
        id: of the server; of a claim its consumer's, which for a migration is the migration's own id.
        name: as its owner calls it. It proves nothing, and only operators may read it.
        nova: Nova says that it is on the host, deleted ones that can still be restored included.
        placement: Placement has an allocation of the host's resources for it.
    """

    id: str
    name: str = ""
    nova: bool = False
    placement: bool = False

    def text(self) -> str:
        """For operators."""
        said = [who for who, says in (("Nova", self.nova), ("Placement", self.placement)) if says]
        what = f"server {self.id}" if self.nova else f"an allocation of {self.id}"
        return f"{what}{f' {self.name!r}' if self.name else ''} (by {' and '.join(said)})"


@dataclass(frozen=True, slots=True)
class OnHost:
    """One compute host.

    Attributes:
        occupants: what was seen on it, sorted by id.
        unknown: why that can't be all, or isn't known; empty: it is all.
        down: why its nova-compute can't be relied on; empty: it gives signs of life.
    """

    occupants: tuple[Occupant, ...] = ()
    unknown: str = ""
    down: str = ""


class Ended(StrEnum):
    """How a server that Nova doesn't show any more ended, by Nova's own record of its actions."""

    NEVER_RAN = "never ran"
    """No nova-compute ever had it."""
    DESTROYED = "destroyed"
    """The last thing that a nova-compute did with it was to take it off its host, with success."""
    NOT_DESTROYED = "not destroyed"
    """A nova-compute had it and never took it off: Nova deleted it from its database alone. It may run on."""
    NO_RECORD = "no record"
    """Nova itself says that it has none: it never reached a cell, or its record was archived away."""
    UNKNOWN = "unknown"
    """Nova's record can't be read, or doesn't say."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one server ended.

    Attributes:
        text: what was read, as a sentence without its subject.
        at: when it was taken off its host.
    """

    how: Ended
    text: str
    at: datetime | None = None


class Occupants(Protocol):
    """Reading only."""

    def servers_on_hosts(self) -> Mapping[str, OnHost]:
        """Nova host -> what Nova alone says is on it, of all projects; it may be half a minute old.

        For choosing and for overviews. A host that Nova doesn't list (a cell that is down, too) isn't here: of that
        nothing is known. Raises `UnknownError` or `PermanentError` if Nova can't be asked.
        """
        ...

    def on_hosts(self, hosts: Collection[str]) -> Mapping[str, OnHost]:
        """Each of these hosts -> what Nova and Placement say now; never raises for what can't be asked."""
        ...

    def endings(self, project_id: str, servers: Collection[str]) -> Mapping[str, Ending]:
        """Each of these ids of servers that are gone -> how they ended; never raises either.

        Args:
            project_id: whose servers they were; empty: the service user's own project.
        """
        ...
