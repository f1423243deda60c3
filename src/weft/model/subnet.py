"""Observed state of an InfiniBand subnet and its managers, for the driver and the agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.model.base import Document
from weft.model.fabrictypes import Mode
from weft.model.ids import PKey, WireGuid


@dataclass(frozen=True, slots=True)
class PortTable:
    """The P_Key table of one host port and of the leaf port it is cabled to, as read by SubnGet(P_KeyTable).

    Attributes:
        port_guid: GUID of the host's port.
        keys: 16-bit entries (membership bit included), zeros left out.
        leaf_keys: the same of the leaf's external port; None if that port has no table (enforcement off).
        capacity: entries that the host's table has.
        unreachable: why it could not be read; the rest is then meaningless.
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
        members: port GUID -> membership, for explicitly named ports.
        everybody: whether every host port is a member, named or not.
    """

    pkey: int
    name: str
    members: Mapping[int, Mode] = field(default_factory=dict)
    everybody: bool = False


class PathProbe(Document):
    """What the subnet administrator answered for a pair of port GUIDs."""

    source: WireGuid
    destination: WireGuid
    path: bool
    pkey: PKey | None = None
