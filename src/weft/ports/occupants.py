"""Port: what is really on a cloud's compute hosts, whoever put it there, and how servers ended."""

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
        id: of the server; of a claim that of its consumer, which for a migration is the migration's id.
        name: chosen by its owner; proves nothing, and only operators may see it.
        nova: Nova says that it is on the host, deleted ones that can still be restored included.
        placement: Placement has an allocation of the host's resources for it.
        ironic: Ironic says that it is on the machine, which Nova doesn't have.
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
        """Whether the service that runs servers there says that it is there."""
        return self.nova or self.ironic

    def text(self) -> str:
        """For operators."""
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
        busy: bare metal: what is done with the machine, or was deployed on it, so that something other than what weft
            has checked runs on it; empty: nothing.
        withheld: what of it Placement gives to nobody, so that no new server comes onto it; empty: nothing, or not read
            yet. It says nothing of what is there.
        by: services that were asked, for receipts.
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
    """It never was on a nova-compute."""
    DESTROYED = "destroyed"
    """Each nova-compute that ever had it has removed it from its host since, successfully."""
    NOT_DESTROYED = "not destroyed"
    """A nova-compute had it and never removed it: Nova only deleted it from its database. It may still run."""
    LEFT_BEHIND = "left behind"
    """A host had it and never removed it: it was evacuated, or the host was cut off. It may still run there."""
    NO_RECORD = "no record"
    """Nova has no record: it never reached a cell, or its record was archived."""
    UNKNOWN = "unknown"
    """Nova's record can't be read, or is inconclusive."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one server ended.

    Attributes:
        text: what was read, as a sentence without its subject.
        at: when it was taken off its host.
        by: whose record it is.
        hosts: where it may still run: names of Nova's hosts, or `hostId`s of hosts that Nova doesn't list.
        cut: only the newest of the record was read: of what was done before, nothing says that it was undone.
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
        use: what is done with it, so that no pod's server runs on it; empty: nothing is.
        state: Ironic's provision state; empty: Ironic doesn't list it so that it could be read.
        changed: when that changed last: `provision_updated_at`, as Ironic has it.
        automated: what is under way ends in `available`: a cleaning isn't one that a person asked for.
        plan: steps of its cleaning on this machine, as interface.step; None: Ironic shows none.
        agent: when Ironic asked an agent for its cleaning steps last, as Ironic has it; empty: never.
        others: who besides operators may act on it in Ironic, whoever's pod has it; empty: nobody.
    """

    use: str = ""
    state: str = ""
    changed: str = ""
    automated: bool = False
    plan: tuple[str, ...] | None = None
    agent: str = ""
    others: str = ""


class Occupants(Protocol):
    """Reading only."""

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
        """Each of the site's bare-metal machines in the cloud -> what Ironic shows of it now.

        One question about all. Raises `UnknownError`.
        """
        ...

    def changed_machines(self) -> Mapping[str, SeenMachine]:
        """Those of them with servers whose state changed last, some dozens -> their use and state now, and no more.

        A short answer, however many machines there are. Raises `UnknownError`.
        """
        ...

    def made_by(self, project_id: str, servers: Collection[str]) -> Mapping[str, datetime]:
        """Those of these ids that are servers of the project -> when they were made, by the cloud's clock.

        Raises `UnknownError` or `PermanentError` if the cloud can't be asked about one of them.
        """
        ...

    def endings(
        self, project_id: str, servers: Collection[str], whole: Collection[str] = ()
    ) -> Mapping[str, Ending]:
        """Each of these ids of deleted servers -> how they ended; never raises either.

        Args:
            project_id: project of the servers; empty: the service user's own.
            whole: those that had a bare-metal machine.
        """
        ...
