"""An Ethernet fabric in memory: weft's own driver on simulated switches, with VLANs, access and trunk ports.

    fabric = FakeEthernet(site, "eth0")
    fabric.switches["leaf01"].reachable = False                  # it can't be read: unknown, not ok
    fabric.put("leaf01/Ethernet9", 101)                          # someone else puts a port into a VLAN
    fabric.switches["leaf01"].freeze()                           # a proxy keeps answering with the old state
    fabric.lose_answer = True                                    # the next change is made, its answer is lost
    fabric.late = True                                           # the next change comes when arrive() is called
    fabric.switches["leaf01"].full = True                        # its configuration can't be saved for its next start
    fabric.switches["leaf01"].settings = SwitchQos({…})          # its ports' settings for RoCE, as it reports them

It has nothing in common with OpenSM, and so shows that engine, app and API don't depend on InfiniBand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.fabric import EthernetFabric
from weft.drivers.switches.interface import Asked, SwitchDriver
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.looks import QosReading
from weft.drivers.switches.neutrons import NeutronsFabric
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.sessions import Edits, SwitchSessions
from weft.drivers.switches.switch import SwitchSession
from weft.drivers.switches.vlans import Batch, PortVlans, SwitchState
from weft.model.fabrictypes import Level, Mode
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.qos import SwitchQos
from weft.ports.fences import Fence, unfenced
from weft.ports.ledger import NoLedger, SegmentLedger

PARKING = 4000


@dataclass
class PortConfig:
    """What a switch has configured on one port."""

    access: int | None = None
    trunk: set[int] = field(default_factory=set[int])


@dataclass
class Config:
    """A switch's configuration. `revision` grows with every change."""

    vlans: dict[int, str]
    ports: dict[str, PortConfig]
    revision: int = 0

    def state(self) -> SwitchState:
        """The switch's state as its driver reads it."""
        ports = {p: PortVlans(c.access, frozenset(c.trunk), bool(c.trunk)) for p, c in self.ports.items()}
        return SwitchState(dict(self.vlans), ports, self.revision)


class FakeSwitch(SwitchSession):
    """One switch, with faults.

    Attributes:
        meanwhile: called before each change is made.
        level: how close its reports are to what it forwards; `beyond`: what it forwards contrary to its configuration.
        down, unclear: ports whose links are down, or not reported.
    """

    serials_go_on = False

    def __init__(
        self,
        name: str,
        ports: Iterable[str],
        limits: SwitchLimits,
        lost: Callable[[], bool],
        late: Callable[[], bool],
    ) -> None:
        super().__init__(name, limits, address=None, confirm=0.0)
        self._late, self._on_its_way = late, list[Batch]()
        self.reachable = True
        self.settings: SwitchQos | str = "this simulated switch has none"
        self.no_settings = False  # whether it doesn't answer when asked for them
        self.full = False  # whether there is no space to save its configuration
        self.asked = 0  # number of changes requested
        self.config = Config({}, {p: PortConfig() for p in ports})
        self.saved = deepcopy(self.config)
        self._frozen: Config | None = None
        self._lost = lost
        self.reads = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self.level = Level.CONFIGURATION
        self.beyond: dict[str, frozenset[int]] = {}
        self.down, self.unclear = set[str](), set[str]()

    def freeze(self) -> None:
        """Answer reads with the present configuration until `thaw`, whatever changes."""
        self._frozen = deepcopy(self.config)

    def thaw(self) -> None:
        """End `freeze`."""
        self._frozen = None

    def close(self) -> None:
        """There is nothing to close."""

    def qos(self) -> SwitchQos | str:
        if not self.reachable or self.no_settings:
            raise self.unknown("read the settings for RoCE", "no answer")
        return self.settings

    def links(self) -> dict[str, bool]:
        if not self.reachable:
            raise self.unknown("read the states of links", "no answer")
        return {port: port not in self.down for port in self.config.ports if port not in self.unclear}

    def _read(self) -> SwitchState:
        self.reads += 1
        if not self.reachable:
            raise self.unknown("read the configuration", "no answer")
        state = (self._frozen or self.config).state()
        return replace(state, level=self.level, beyond=dict(self.beyond))

    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        self.meanwhile()
        if not self.reachable:
            raise UndoneError("change VLANs", f"switch {self.name}", "no connection")
        if self._late():
            self._on_its_way.append(batch)
            raise self.unknown("change VLANs", "no answer")
        self._make(batch)
        self._floor.rise(self.config.revision, self._monotonic())
        if self._lost():
            raise self.unknown("change VLANs", "no answer")
        return self.config.revision

    def _make(self, batch: Batch) -> None:
        after = batch.on(self.config.state())
        for port in batch.ports:
            self.config.ports[port] = PortConfig(after.ports[port].untagged, set(after.ports[port].tagged))
        self.config.vlans = dict(after.vlans)
        self.config.revision += 1

    def arrive(self) -> None:
        """Make the changes that were sent and delayed."""
        come, self._on_its_way = self._on_its_way, []
        for batch in come:
            self._make(batch)

    def _keep(self) -> None:
        if self.full or not self.reachable:
            raise self.unknown("save the configuration", "no space left on device")
        self.saved = deepcopy(self.config)

    def change_all(self, asked: Sequence[Asked]) -> Sequence[Exception | None]:
        self.asked += len(asked)
        return super().change_all(asked)


class _Answering(SwitchSessions):
    """Sessions of simulated switches. Args: done: called after each change of one or more switches."""

    def __init__(self, fabric: str, switches: Sequence[SwitchDriver], done: Callable[[], None]) -> None:
        super().__init__(fabric, switches, save_seconds=0.0)
        self._done = done

    def change(
        self,
        edits: Edits,
        only: Collection[str],
        about: SegmentSpec | None = None,
        own: Sequence[SegmentSpec] = (),
        recent: bool = False,
        save: Collection[str] = (),
        fence: Fence = unfenced,
        silent: Collection[str] = (),
    ) -> None:
        try:
            super().change(edits, only, about, own, recent, save, fence, silent)
        finally:
            self._done()


class _Simulated(EthernetFabric):
    """The real driver on simulated switches. Args: linked: with the site's links between them."""

    def __init__(
        self, site: Site, fabric: str, ledger: SegmentLedger | None = None, linked: bool = False
    ) -> None:
        cabling = Cabling.of(site, fabric, site.fabrics[fabric].manager.switching if linked else None)
        self.lose_answer = self.late = False
        vlans = site.fabrics[fabric].segments

        def switch(name: str) -> FakeSwitch:
            ports = cabling.ports(name)
            return FakeSwitch(
                name, ports, SwitchLimits(vlans, ports, PARKING), lambda: self.lose_answer, lambda: self.late
            )

        self.switches = {name: switch(name) for name in cabling.switches}
        switches = tuple(self.switches.values())
        super().__init__(site, fabric, cabling, switches, ledger or NoLedger())
        self._sessions = self.sessions = _Answering(fabric, switches, self._answer)
        self._settings = QosReading(switches, self.sessions.readers, seconds=0.0)

    def _answer(self) -> None:
        self.lose_answer = self.late = False

    def arrive(self) -> None:
        """Make the change that was sent and delayed."""
        for switch in self.switches.values():
            switch.arrive()

    def share(self, other: _Simulated) -> None:
        """Use another driver's switches, as a second process would."""
        for name, switch in self.switches.items():
            switch.config = other.switches[name].config

    def put(self, port: str, number: int | None, mode: Mode = Mode.ACCESS) -> None:
        """Put a port into a VLAN as another user would, or (None) remove it from all."""
        switch, _, name = port.partition("/")
        trunk = {number} if number is not None and mode is Mode.TRUNK else set[int]()
        access = number if mode is Mode.ACCESS else None
        self.switches[switch].config.ports[name] = PortConfig(access, trunk)


class FakeEthernet(_Simulated):
    """`FabricDriver` of one fabric of a site whose VLANs weft sets."""


class FakeNeutrons(_Simulated, NeutronsFabric):
    """`FabricDriver` of a fabric whose VLANs Neutron sets: nothing changes unless the test acts as Neutron (`put`)."""
