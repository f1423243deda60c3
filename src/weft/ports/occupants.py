"""Port: what is on a cloud's compute hosts, whatever its origin, and how deleted servers ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Occupant:
    """A server on a host, or a claim on the host's devices.

    Attributes:
        id: id of the server; of a claim its consumer's id, which for a migration is the migration's.
        name: chosen by its owner; proves nothing, and only operators may see it.
        nova: whether Nova reports it on the host; that includes deleted servers that can still be restored.
        placement: whether Placement has an allocation of the host's resources for it.
        ironic: whether Ironic reports it on the machine, which Nova doesn't have.
        devices: resource classes that may be devices of the host, of Placement's allocation; None: unknown.
    """

    id: str
    name: str = ""
    nova: bool = False
    placement: bool = False
    ironic: bool = False
    devices: tuple[str, ...] | None = None

    @property
    def runs(self) -> bool:
        """Whether the service that runs servers there reports it."""
        return self.nova or self.ironic

    def text(self) -> str:
        """What it is, in words for operators."""
        sayers = (("Nova", self.nova), ("Placement", self.placement), ("Ironic", self.ironic))
        said = [who for who, says in sayers if says]
        what = f"server {self.id}" if self.runs else f"an allocation of {self.id}"
        return f"{what}{f' {self.name!r}' if self.name else ''} (by {' and '.join(said)})"


@dataclass(frozen=True, slots=True)
class OnHost:
    """One compute host.

    Attributes:
        occupants: what was seen on it, sorted by id.
        unknown: why the list may be incomplete; empty: it is complete.
        down: why its nova-compute is considered down; empty: it is up.
        busy: bare metal: what is being done with the machine, or was deployed on it, so that it runs something that
            weft hasn't checked; empty: nothing.
        withheld: what Placement keeps of it, so that no new server is scheduled there; empty: nothing, or not read yet.
            It doesn't show what is on the host.
        by: services that were queried, for receipts.
    """

    occupants: tuple[Occupant, ...] = ()
    unknown: str = ""
    down: str = ""
    busy: str = ""
    withheld: str = ""
    by: Literal["Nova and Placement", "Ironic"] = "Nova and Placement"


class Ended(StrEnum):
    """How a server that Nova no longer shows ended, according to Nova's record of its actions."""

    NEVER_RAN = "never ran"
    """It was never on a nova-compute."""
    DESTROYED = "destroyed"
    """Each nova-compute that ever had it has removed it from its host since, successfully."""
    NOT_DESTROYED = "not destroyed"
    """A nova-compute had it and never removed it: Nova only deleted it from its database. It may still run."""
    LEFT_BEHIND = "left behind"
    """A host had it and never removed it: it was evacuated, or the host was cut off. It may still run there."""
    NO_RECORD = "no record"
    """Nova has no record: the server never reached a cell, or its record was archived."""
    UNKNOWN = "unknown"
    """Nova's record can't be read, or is inconclusive."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one server ended.

    Attributes:
        text: what was read, as a sentence without its subject.
        at: when it was taken off its host.
        by: the service whose record it is.
        hosts: where it may still run: names of Nova's hosts, or `hostId`s of hosts that Nova doesn't list.
        cut: only the newest part of the record was read: earlier actions may not have been undone.
    """

    how: Ended
    text: str
    at: datetime | None = None
    by: Literal["Nova", "Ironic"] = "Nova"
    hosts: tuple[str, ...] = ()
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SeenMachine:
    """A bare-metal machine in a listing of all of its cloud.

    Attributes:
        use: what is being done with it, so that no pod's server runs on it; empty: nothing.
        state: Ironic's provision state; empty: Ironic's listing had none that could be read.
        changed: when the state last changed: Ironic's `provision_updated_at`.
        automated: what is under way ends in `available`: a cleaning is automated, not requested by a person.
        plan: steps of its cleaning on this machine, as interface.step; None: Ironic shows none.
        agent: when Ironic last asked an agent for its cleaning steps, by Ironic's clock; empty: never.
        others: who besides operators may act on it in Ironic, whichever pod has it; empty: no one.
    """

    use: str = ""
    state: str = ""
    changed: str = ""
    automated: bool = False
    plan: tuple[str, ...] | None = None
    agent: str = ""
    others: str = ""


class Occupants(Protocol):
    """Reads what is on compute hosts and bare-metal machines; changes nothing."""

    def servers_on_hosts(self) -> Mapping[str, OnHost]:
        """Nova host -> what is on it according to Nova, of all projects; up to half a minute old. Of a host on which
        Nova has nothing: what Placement has, which on large clouds is some minutes old.

        For placement and overviews. Hosts that Nova doesn't list (or of a cell that is down) are missing: nothing is
        known about them. Raises `UnknownError` or `PermanentError` if Nova is unreachable.
        """
        ...

    def on_hosts(self, hosts: Collection[str]) -> Mapping[str, OnHost]:
        """Each of these hosts -> what Nova and Placement report now; never raises if they are unreachable."""
        ...

    def seen_machines(self) -> Mapping[str, SeenMachine]:
        """Each of the site's bare-metal machines in the cloud -> what Ironic reports of it now.

        One request for all. Raises `UnknownError`.
        """
        ...

    def changed_machines(self) -> Mapping[str, SeenMachine]:
        """The machines with servers whose state changed last, some dozens -> only their use and state now.

        A short answer, however many machines there are. Raises `UnknownError`.
        """
        ...

    def made_by(self, project_id: str, servers: Collection[str]) -> Mapping[str, datetime]:
        """Those of the ids that are servers of the project -> when each was created, by the cloud's clock.

        Raises `UnknownError` or `PermanentError` if the cloud can't be asked about one of them.
        """
        ...

    def endings(
        self, project_id: str, servers: Collection[str], whole: Mapping[str, str] | None = None
    ) -> Mapping[str, Ending]:
        """Id of each of these deleted servers -> how it ended. Never raises: what can't be read is in the ending.

        Args:
            project_id: project of the servers; empty: the service user's own.
            whole: those that had a bare-metal machine -> which.
        """
        ...
