"""Real frames behind real interfaces: weft's driver, the simulated vendors' APIs, and Open vSwitch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from tests.drivers.switches.switchlab import SwitchLab
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.drivers.switches.ovs import Ovs as OvsSession
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Outcome, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger
from weft.ports.resources import Scope
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.bridge import Vlans
from weftlab.switches.eapi import Eapi, Port, Vlan
from weftlab.switches.front import PARKING
from weftlab.switches.fronts import Fronts
from weftlab.switches.nvue import BRIDGE, Nvue
from weftlab.switches.plan import Speaks
from weftlab.switches.restconf import Restconf
from weftlab.switches.site import ethernet_site

MIXED: Mapping[str, Speaks] = {"leaf1": "eos", "leaf2": "nvue", "spine1": "sonic", "spine2": "ovs"}
KINDS = ("eos", "nvue", "sonic", "ovs", "mixed")
ALONE_AT_NIGHT = (
    *(
        pytest.param(
            k,
            marks=pytest.mark.nightly(reason="by day a switch of each kind, and the contract of each alone"),
        )
        for k in KINDS
        if k != "mixed"
    ),
    "mixed",
)
"""Parameters of tests with frames, which take seconds each."""
CONFIRM = 3.0


class Records(NoLedger):
    """weft's records of segments: written before a segment is made, as the engine does."""

    def __init__(self) -> None:
        self.marks: dict[Mark, SegmentSpec] = {}
        self.unsettled: set[Mark] = set()
        self.planned: dict[Mark, SegmentSpec] = {}

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        return {m: s for m, s in self.marks.items() if not settled or m not in self.unsettled}

    def ever(self, mark: Mark) -> SegmentSpec | None:
        return self.planned.get(mark)

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        return {m: False for m in marks if m in self.marks}

    def write(self, mark: Mark, spec: SegmentSpec) -> None:
        if all(s.number != spec.number or m == mark for m, s in self.marks.items()):
            self.marks[mark] = spec


class Recorded:
    """A driver whose calls are recorded."""

    def __init__(self, driver: EthernetFabric, records: Records) -> None:
        self._driver, self._records = driver, records

    def __getattr__(self, name: str) -> object:
        return getattr(self._driver, name)

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            assert isinstance(resource.spec, SegmentSpec)
            self._records.write(scope.mark(resource.key), resource.spec)
        return self._driver.create(scope, wanted, ids)

    update = create

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            self._records.marks.pop(scope.mark(resource.key), None)
        return self._driver.delete(scope, wanted, ids)


class RealSwitches:
    """Two leaves that are an MLAG pair and two spines; started once for each kind of interface."""

    by_manager = True

    def __init__(self, kind: str) -> None:
        self.kind = kind
        speaks: Mapping[str, Speaks] | Speaks = MIXED if kind == "mixed" else kind  # type: ignore[assignment]
        plan = leaf_spine(speaks, mlag=True)
        self.lab = SwitchLab(plan)
        self.hosts = self.lab.hosts
        self.fronts = Fronts(Path(self.lab.ovs.folder) / "fronts", plan, self.lab.ovs)
        self.site: Site = ethernet_site(plan, self.fronts.urls, self.fronts.ca, self.fronts.credentials)
        self._drivers: list[EthernetFabric] = []
        self.reset()

    def reset(self) -> None:
        self.mode = Mode.ACCESS
        self.fronts.reset()
        self.records = Records()
        self.fabric = self.another()
        self.driver = Recorded(self.fabric, self.records)

    def another(self) -> EthernetFabric:
        """The driver of another process."""
        driver = open_fabric(self.site, FABRIC, self.records, CONFIRM)
        self._drivers.append(driver)
        return driver

    def close(self) -> None:
        for driver in self._drivers:
            driver.close()
        self.fronts.close()
        self.lab.close()

    def ports(self) -> list[str]:
        return [h.port_id for n in self.site.nodes for h in n.hcas]

    def port(self, host: str) -> str:
        return self.site.node_by_name[host].hcas[0].port_id

    def add(self, port: str, number: int) -> None:
        """Make the port an access port of the VLAN, by the switch's own configuration."""
        switch, _, name = port.partition("/")
        front = self.fronts.by_name.get(switch)
        if front is None:
            bridge = self.fronts.bridges[switch]
            bridge.forget()
            bridge.apply({bridge.plan.by_name()[name]: Vlans(number)})
            return
        with front.lock:
            if isinstance(front, Eapi):
                front.running.ports[name] = Port(access=number)
            elif isinstance(front, Nvue):
                front.running["bridge"]["domain"][BRIDGE]["vlan"].setdefault(str(number), {})
                front.running["interface"][name]["bridge"] = {"domain": {BRIDGE: {"access": number}}}
            else:
                assert isinstance(front, Restconf)
                members = front.running["members"]
                for key in [k for k in members if k[1] == name]:
                    del members[key]
                front.running["vlans"].add(f"Vlan{number}")
                members[f"Vlan{number}", name] = "untagged"
            front.follow()

    def tag(self, port: str, number: int) -> None:
        """Add the VLAN with its tag to the port, past weft."""
        switch, _, name = port.partition("/")
        untagged = self.fabric.snapshot().ends[port].untagged
        front = self.fronts.by_name.get(switch)
        if front is None:
            bridge = self.fronts.bridges[switch]
            bridge.forget()
            bridge.apply({bridge.plan.by_name()[name]: Vlans(untagged, frozenset({number}))})
            return
        with front.lock:
            if isinstance(front, Eapi):
                native = untagged or PARKING
                front.running.vlans.setdefault(number, Vlan(f"net-{number}"))
                front.running.ports[name] = Port("trunk", 1, native, frozenset({native, number}))
            elif isinstance(front, Nvue):
                listed = {str(n): {} for n in {number, untagged} - {None}}
                front.running["bridge"]["domain"][BRIDGE]["vlan"].setdefault(str(number), {})
                mine = {"untagged": untagged or "none", "vlan": listed}
                front.running["interface"][name]["bridge"] = {"domain": {BRIDGE: mine}}
            else:
                assert isinstance(front, Restconf)
                front.running["vlans"].add(f"Vlan{number}")
                front.running["members"][f"Vlan{number}", name] = "tagged"
            front.follow()

    def define(self, number: int) -> None:
        """Define the VLAN past weft, under another name if the switch stores names."""
        for front in self.fronts.by_name.values():
            if isinstance(front, Eapi):
                with front.lock:
                    front.running.vlans.setdefault(number, Vlan(f"net-{number}"))

    def remove(self, port: str, number: int) -> None:
        switch, _, name = port.partition("/")
        front = self.fronts.by_name.get(switch)
        if front is None:
            bridge = self.fronts.bridges[switch]
            bridge.forget()
            bridge.apply({bridge.plan.by_name()[name]: Vlans()})
            return
        with front.lock:
            if isinstance(front, Eapi):
                front.running.ports[name] = Port(access=1)
            elif isinstance(front, Nvue):
                front.running["interface"][name].pop("bridge", None)
            else:
                front.running["members"].pop((f"Vlan{number}", name), None)
            front.follow()

    def blind(self, port: str) -> None:
        switch = port.partition("/")[0]
        front = self.fronts.by_name.get(switch)
        if front is not None:
            front.faults.down = True
            return
        session = self.fabric.session(switch)
        assert isinstance(session, OvsSession)
        session.point_at("unix:/nowhere/db.sock")


def scope(pod: int = 1) -> Scope:
    return Scope("lab", Owner.pod(f"{pod:08x}-0000-4000-8000-000000000001"), f"pod{pod}", "project-a")


def vlan(number: int, ports: Sequence[str], mode: Mode = Mode.ACCESS) -> Resource:
    members = tuple(Membership(port=p, mode=mode) for p in sorted(ports))
    spec = SegmentSpec(number=number, fabric_type=FabricKind.ETHERNET, members=members)
    return Resource(key="partition", name="weft-partition", where=FABRIC, spec=spec)
