"""An InfiniBand fabric in memory behind the real OpenSM driver: agents that answer at once, managers that fail.

    fabric = FakeFabric(site, "ib0", seed=1)                 # a driver of a fabric with OpenSM
    fabric.manager("sm1").stop()                             # the standby takes over, with its own file
    fabric.manager("sm2").reachable = False                  # its agent doesn't answer
    fabric.manager("sm1").text = "no partition file"         # someone else's edit, then .sweep()
    fabric.cut(guid); fabric.write_key(guid, 0x8101)         # a disconnected cable; drift unknown to the manager
    fabric.plant(Fault.LOST_ANSWER)                          # the change is made, the answer is lost

The driver is the real one, and so is the code that reads and writes partitions.conf. Only OpenSM is simulated: it fails
open, trusts its memory of the tables, and silently drops the last new keys of a full table. It passes the same contract
suite as the real one over ibsim.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from weft.drivers.opensm import OpenSmDriver
from weft.model.fabric import Capabilities, Membership
from weft.model.ids import format_guid
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.functions import guid_of, mac_of
from weft.ports.ledger import NoLedger, SegmentLedger
from weft.testing.fabric_manager import FakeManager
from weft.testing.fabric_wire import FakeWire

__all__ = ["FakeFabric", "Fault", "segment"]


def segment(pkey: int, members: Iterable[int]) -> SegmentSpec:
    """A desired partition: full members by their port GUIDs."""
    ports = tuple(Membership(port=format_guid(g)) for g in sorted(members))
    return SegmentSpec(number=pkey, members=ports)


def function_guids(site: Site, fabric: str) -> tuple[int, ...]:
    """Port GUIDs of every virtual function that the site describes on a fabric."""
    hcas = (h for n in site.nodes for h in n.hcas_on(fabric))
    return tuple(guid_of(mac_of(h, i)) for h in hcas for i in range(h.vfs))


class Fault(StrEnum):
    """What can go wrong with the master's next change."""

    LOST_ANSWER = "lost answer"
    """The change is made, and the answer never comes."""
    SLOW = "slow"
    """The manager only sweeps after the tables were read three more times."""
    STOPPED = "stopped"
    """The subnet managers end right after the file is written."""


class FakeFabric(OpenSmDriver):
    """`FabricDriver` of one fabric of a site. Thread-safe.

    Args:
        seed, latency: every request takes a seeded random time of up to `latency` seconds.
        capacity: entries of every port's table (ibsim's are 64).
        virtual_functions: whether it reports, as no real OpenSM does, that virtual functions can be members; each one
            that the site describes then has a port of its own.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        seed: int = 0,
        latency: float = 0.0,
        capacity: int = 64,
        ledger: SegmentLedger | None = None,
        virtual_functions: bool = False,
    ) -> None:
        functions = function_guids(site, fabric) if virtual_functions else ()
        self.wire = FakeWire(site, fabric, capacity, functions)
        pause = _Pause(seed, latency)
        managers = site.fabrics[fabric].manager.agents
        ports = [site.node_by_name[a.node or a.name].hcas_on(fabric)[0].port_guid for a in managers]
        self.managers = tuple(
            FakeManager(a.name, guid, site.name, self.wire, ports, pause)
            for a, guid in zip(managers, ports, strict=True)
        )
        self.wire.managers = self.managers
        self.wire.elect()
        super().__init__(site, fabric, ledger or NoLedger(), agents=self.managers, takes=0.5)
        self._changer.takes = 0.0  # the fake sweeps at once, and tests' clocks stand still between visits
        self._ports = self._ports.union(functions)
        self._functions = virtual_functions

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(virtual_functions=True) if self._functions else super().capabilities

    def manager(self, name: str) -> FakeManager:
        """The subnet manager of this name."""
        return next(m for m in self.managers if m.name == name)

    def plant(self, fault: Fault) -> None:
        """Apply this fault to the master's next change, once."""
        self.wire.faults.append(fault)

    def cut(self, port_guid: int) -> None:
        """Disconnect the cable of a host port."""
        self.wire.cut.add(port_guid)

    def switch_off(self, port_guid: int) -> None:
        """Switch a host off: nothing is seen at its leaf's port, whose table stays."""
        self.wire.off.add(port_guid)

    def overlook(self, *port_guids: int) -> None:
        """Let these time out in discoveries, which are partial then; without any, discoveries are whole again.

        They run, and their tables and leaf ports stay as they are.
        """
        self.wire.overlooked = set(port_guids)

    def change_guid(self, port_guid: int, other: int) -> None:
        """Give an adapter another GUID; the old one no longer appears."""
        wire = self.wire
        wire.hosts[other], wire.leaves[other] = wire.hosts.pop(port_guid), wire.leaves.pop(port_guid)
        wire.places[other] = wire.places.pop(port_guid)
        wire.believed.pop(port_guid, None)

    def repair(self, port_guid: int) -> None:
        """Reconnect the port: the manager reads its table again and corrects it."""
        self.wire.cut.discard(port_guid)
        self.wire.believed.pop(port_guid, None)
        self.wire.sweep()

    def write_key(self, port_guid: int, key: int, leaf: bool = False) -> None:
        """Write a 16-bit key into a table, bypassing the managers."""
        (self.wire.leaves if leaf else self.wire.hosts)[port_guid].add(key)

    def erase_key(self, port_guid: int, key: int, leaf: bool = False) -> None:
        """Remove a 16-bit key from a table, bypassing the managers."""
        (self.wire.leaves if leaf else self.wire.hosts)[port_guid].discard(key)


@dataclass
class _Pause:
    """Seeded latency."""

    seed: int
    longest: float
    _random: random.Random = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self) -> None:
        if self.longest:
            with self._lock:
                seconds = self._random.uniform(0, self.longest)
            time.sleep(seconds)
