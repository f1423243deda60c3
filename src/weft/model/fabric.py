"""What a fabric and its managers are seen to be; all read, nothing wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Guid, PKey


class Capabilities(Document):
    """What a fabric manager can do; asked at order time, so that no `if` on a driver's name is needed."""

    virtual_functions: bool = Field(description="Whether VFs can be partition members of their own.")
    why_no_virtual_functions: str = ""
    max_pkeys_per_port: int = Field(description="Keys a host's port holds, the default one included.")
    reads_wire: bool = Field(description="Whether tables are read from the ports themselves.")


class Membership(StrEnum):
    FULL = "full"
    LIMITED = "limited"


@dataclass(frozen=True, slots=True)
class PortTable:
    """The P_Key table of one host port and of the leaf port it is cabled to, as read by SubnGet(P_KeyTable).

    Attributes:
        port_guid: GUID of the host's port.
        keys: 16-bit entries (membership bit included), zeros left out.
        leaf_keys: the same of the leaf's external port; None if that port has no table (enforcement off).
        capacity: entries that the host's table has.
        unreachable: why it could not be read; then the rest says nothing.
    """

    port_guid: int
    keys: frozenset[int] = frozenset()
    leaf_keys: frozenset[int] | None = None
    capacity: int = 0
    leaf: str = ""
    leaf_port: int = 0
    unreachable: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as configured: in the manager's own file or database, not on the wire.

    Attributes:
        members: port GUID -> membership, of those that are named.
        everybody: whether every host port is a member, named or not.
    """

    pkey: int
    name: str
    members: Mapping[int, Membership] = field(default_factory=dict)
    everybody: bool = False


@dataclass(frozen=True, slots=True)
class ManagerFiles:
    """What the fabric's managers are told, each in a file (or database) of its own, as read just now.

    Attributes:
        master: name of the manager that is master.
        read: manager -> P_Key (15 bits) -> partition, weft's and foreign ones, the default included.
        unread: manager -> why what it is told could not be read. A standby uses its own file when it takes over.
    """

    master: str
    read: Mapping[str, Mapping[int, Partition]]
    unread: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def in_force(self) -> Mapping[int, Partition]:
        """What the master is told."""
        return self.read[self.master]

    @property
    def pkeys(self) -> frozenset[int]:
        """P_Keys that any manager is told of: the others may be given out."""
        return frozenset().union(*self.read.values())

    def stale(self, pkey: int) -> dict[str, str]:
        """Managers besides the master that may still have a partition that the master has not -> why."""
        unread = {name: f"its file could not be read: {why}" for name, why in self.unread.items()}
        still = {
            name: "its file still has the partition"
            for name, partitions in self.read.items()
            if name != self.master and pkey in partitions
        }
        return unread | still


class ManagerState(StrEnum):
    MASTER = "master"
    STANDBY = "standby"
    DOWN = "down"
    UNKNOWN = "unknown"


class ManagerStatus(Document):
    """One subnet manager (or UFM) with its agent."""

    name: str
    state: ManagerState
    problems: tuple[str, ...] = Field(default=(), description="What is wrong, each with what to do.")
    configuration_digest: str = Field(default="", description="SHA-256 of its partition file.")


class FabricStatus(Document):
    """The fabric's managers together."""

    fabric: str
    managers: tuple[ManagerStatus, ...]
    problems: tuple[str, ...] = Field(
        default=(), description="Of the fabric as a whole: no master, files differ …"
    )

    @property
    def known(self) -> bool:
        """Whether a master is there and can be read: anything less is unknown, not fine."""
        return any(m.state is ManagerState.MASTER for m in self.managers)


class End(Document):
    """One end of an observed cable."""

    guid: Guid = Field(description="Node GUID.")
    port: int
    name: str = Field(default="", description="Node description.")


class ObservedNode(Document):
    """A switch or host adapter as discovered."""

    guid: Guid
    kind: str = Field(description="`switch` or `ca`.")
    name: str
    ports: int
    port_guids: tuple[Guid, ...] = ()


class ObservedFabric(Document):
    """Everything that discovery saw."""

    nodes: tuple[ObservedNode, ...]
    links: tuple[tuple[End, End], ...]


class FabricDifference(Document):
    """One place where site and fabric differ."""

    kind: Literal[
        "missing node", "unknown node", "wrong name", "missing cable", "moved cable", "unknown cable"
    ]
    subject: str = Field(description="What it is about: a name in the site, a GUID, or a cable's end.")
    described: str = Field(default="", description="What the site says; nothing: it says nothing.")
    observed: str = Field(default="", description="What was discovered; nothing: not there.")
    what: str = Field(description="One sentence.")


class PathProbe(Document):
    """What the subnet administrator answered for a pair of port GUIDs."""

    source: Guid
    destination: Guid
    path: bool
    pkey: PKey | None = None
