"""Switch ports of a site's own networks: planned, set, kept, adopted and taken back by the site's loop, on simulated
switches behind weft's own driver."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.sitehouse import SiteHouse
from tests.helpers.ownports import TRUNK, interfaces, own_ports
from tests.helpers.sitenetworks import GATEWAYS as GATEWAY_ROW
from weft.app.sitefile import checked
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.names import vlan_name
from weft.engine.base.database import Database
from weft.engine.rows.ledger import FabricLedger
from weft.engine.site.siteowner import set_desired
from weft.engine.site.siteplan import SitePlanner
from weft.model.errors import ConflictError, UnknownError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.site import Interface, Site, SiteNetwork
from weft.model.specs import SegmentSpec
from weft.model.views import Finding
from weft.planning.site.plantext import site_plan_text
from weft.testing.ethernet import FakeEthernet, PortConfig
from weftlab.switches.labsite import FABRIC

GATEWAYS, STORAGE = 13, 12
ACCESS = {"tor01/Ethernet31": 13, "tor01/Ethernet32": 13, "tor02/Ethernet31": 13, "tor01/Ethernet33": 12}
FOREIGN = "tor01/Ethernet39"
SWITCHES = ("tor01", "tor02", "agg01")
LINKS = frozenset(Cabling.of(own_ports(), FABRIC, own_ports().fabrics[FABRIC].manager.switching).uplinks)
"""Ends of links between both leaves and the spine."""


class PortsHouse(SiteHouse):
    """Two networks on two simulated leaves."""

    def __init__(self, database: Database, url: str) -> None:
        super().__init__(database, url)
        self.activate(own_ports())
        words = self.site.fabrics[FABRIC].words
        self.fake = FakeEthernet(self.site, FABRIC, ledger=FabricLedger(database, FABRIC, words), linked=True)
        for switch in self.fake.switches.values():
            switch.config.ports |= {f"Ethernet{n}": PortConfig() for n in range(30, 41)}
        resources = {"lab": self.world.resources["lab"], FABRIC: self.fake}
        self.world = replace(self.world, resources=resources, fabrics={FABRIC: self.fake})

    def activate(self, site: Site) -> None:
        super().activate(site)
        if hasattr(self, "fake"):  # a new site has new drivers; these switches stay what they are
            vars(self.fake)["_site"] = site

    def port(self, end: str) -> PortConfig:
        switch, _, name = end.partition("/")
        return self.fake.switches[switch].config.ports[name]

    def access(self) -> dict[str, int]:
        ends = {f"{s}/{p}": c for s, one in self.fake.switches.items() for p, c in one.config.ports.items()}
        return {end: c.access for end, c in ends.items() if c.access is not None}

    def links(self) -> dict[str, set[int]]:
        """Ends of links that carry something."""
        return {end: found for end in LINKS if (found := self.port(end).trunk)}

    def findings(self) -> list[Finding]:
        """Findings of the audit without those about hosts: the simulated cloud has none of this lab's."""
        return [f for f in self.service.audits.run(self.operator).findings if f.kind != "node"]

    def vlans(self) -> dict[str, set[int]]:
        return {s: set(one.config.vlans) for s, one in self.fake.switches.items() if one.config.vlans}

    def segment_steps(self, adopt: bool = False) -> dict[str, list[tuple[str, str, str]]]:
        """`action key` -> field, was, becomes."""
        return {
            f"{s.action} {s.key}": [(f.field, f.was, f.becomes) for f in s.fields]
            for s in self.plan(adopt).steps
            if s.kind == "segment"
        }


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[PortsHouse]:
    house = PortsHouse(database, database_url)
    yield house
    house.close()


def test_switch_ports_work_from_plan_to_receipt(house: PortsHouse) -> None:
    """Exactly the described ports, each network's VLAN on the switches that need it; a second apply does nothing; after
    the removal each port is read without it."""
    assert house.segment_steps().keys() == {"create segment/gateways", "create segment/storage"}
    assert "VLAN 13, 3 members" in site_plan_text(house.plan())
    assert house.access() == {} and house.vlans() == {}
    house.applied()
    assert house.access() == ACCESS and house.port(TRUNK).trunk == {STORAGE}
    assert house.vlans() == {switch: {12, 13} for switch in SWITCHES}
    assert house.links() == {end: {12, 13} for end in LINKS}
    revisions = {s: one.config.revision for s, one in house.fake.switches.items()}
    assert revisions == {"tor01": 1, "tor02": 1, "agg01": 1}, "one change of each switch"
    assert house.ask().nothing and house.findings() == []
    house.destroyed()
    receipt = house.service.site.receipt(house.operator).receipt
    assert receipt.clean
    read = {(i.plane, i.subject): i.result for i in receipt.items}
    assert {read["switch port", end] for end in (*ACCESS, TRUNK)} == {"clean"}
    assert read["switch", "VLAN 13"] == "clean" and house.links() == {}
    assert read["link between switches", f"{len(LINKS)} ends of links of {FABRIC}"] == "clean"
    assert house.access() == {} and house.port(TRUNK).trunk == set() and house.vlans() == {}


def test_drift_is_planned_reported_and_repaired(house: PortsHouse) -> None:
    house.applied()
    house.fake.put("tor01/Ethernet31", 12)
    house.port("tor02/Ethernet31").access = None
    house.port("tor01/Ethernet32").trunk = {77}
    house.fake.switches["tor02"].config.vlans[13] = "by-hand"
    steps = house.segment_steps()
    assert set(steps["change segment/gateways"]) == {
        ("port tor01/Ethernet31", "in VLAN 12", "access"),
        ("port tor02/Ethernet31", "no member", "access"),
        ("port tor01/Ethernet32", "access with VLAN 77 besides", "access"),
        ("name on tor02", "by-hand", "weft's"),
    }
    findings = house.findings()
    assert any("tor02/Ethernet31" in f.what for f in findings)
    house.visits(3)
    assert house.access() == ACCESS and house.port("tor01/Ethernet32").trunk == set()
    assert house.plan().nothing


def test_foreign_ports_are_reported_and_block_the_removal(house: PortsHouse) -> None:
    """A port that weft knows nothing of, put into the VLAN by hand: its VLAN isn't removed."""
    house.applied()
    house.fake.put(FOREIGN, GATEWAYS)
    assert house.plan().nothing
    house.visits(2)
    assert house.port(FOREIGN).access == GATEWAYS and house.site_owner().state is PodState.READY
    [found] = house.findings()
    assert found.id == FOREIGN and "VLAN 13" in found.what
    house.service.site.destroy(house.operator)
    owner = house.visits(3)
    assert owner.state is PodState.RELEASING and FOREIGN in owner.reason
    assert house.access()["tor01/Ethernet31"] == GATEWAYS, "nothing of that switch is changed meanwhile"
    house.fake.put(FOREIGN, None)
    house.visit(house.site_owner(), PodState.RELEASED)
    assert house.service.site.receipt(house.operator).receipt.clean and house.access() == {}


def test_removed_row_leaves_its_port_and_a_moved_one_follows(house: PortsHouse) -> None:
    house.applied()
    rows = tuple(i for i in interfaces(m2_bmc="Ethernet36") if (i.device, i.name) != ("m1", "gw"))
    house.activate(checked(house.site.model_copy(update={"interfaces": rows})))
    assert house.segment_steps() == {
        "change segment/gateways": [
            ("port tor01/Ethernet32", "access", "no member"),
            ("port tor02/Ethernet31", "access", "no member"),
            ("port tor02/Ethernet36", "no member", "access"),
        ]
    }
    house.applied()
    assert house.access() == {"tor01/Ethernet31": 13, "tor02/Ethernet36": 13, "tor01/Ethernet33": 12}
    assert house.plan().nothing and house.ask().nothing


def test_changed_vlan_makes_a_new_segment(house: PortsHouse) -> None:
    house.applied()
    house.change(gateways={"vlan": 14})
    assert "recreate segment/gateways" in house.segment_steps()
    house.applied()
    assert house.access() == {end: 14 if n == GATEWAYS else n for end, n in ACCESS.items()}
    assert house.vlans() == {switch: {12, 14} for switch in SWITCHES} and house.plan().nothing


def test_port_moving_between_networks_does_not_flap(house: PortsHouse) -> None:
    """A port of one network becomes another's: one adds it, and the other doesn't remove it again."""
    house.applied()
    rows = tuple(
        i.model_copy(update={"port": "Ethernet32"})
        if i.device == "nas1"
        else i.model_copy(update={"port": "Ethernet33"})
        if i.name == "gw"
        else i
        for i in interfaces()
    )
    house.activate(checked(house.site.model_copy(update={"interfaces": rows})))
    house.applied()
    assert house.access() == {**ACCESS, "tor01/Ethernet32": 12, "tor01/Ethernet33": 13}
    house.visits(2)
    assert house.plan().nothing and house.findings() == []


# -- what others have made --------------------------------------------------------------------------------------


def by_hand(house: PortsHouse) -> None:
    """Configure switches as an operator did before: the VLAN under a name, and some of its ports in it."""
    for switch in ("tor01", "tor02"):
        house.fake.switches[switch].config.vlans[GATEWAYS] = "ipu-gw"
    house.fake.put("tor01/Ethernet31", GATEWAYS)


def test_foreign_vlan_is_a_conflict_or_adopted(house: PortsHouse) -> None:
    by_hand(house)
    [conflict] = house.plan().conflicts
    assert conflict.key == "segment/gateways" and conflict.adoptable
    assert conflict.what == (
        "VLAN 13 has the name 'ipu-gw' on tor01, tor02: adopt it with --adopt, or remove it"
    )
    with pytest.raises(ConflictError, match="ipu-gw"):
        house.ask()
    assert house.access() == {"tor01/Ethernet31": GATEWAYS}
    steps = house.segment_steps(adopt=True)["adopt segment/gateways"]
    assert ("port tor02/Ethernet31", "no member", "access") in steps
    assert not [field for field, _, _ in steps if field == "port tor01/Ethernet31"]
    house.applied(adopt=True)
    assert house.access() == ACCESS
    mark = Mark("lab", house.site_owner().owner, "segment/gateways")
    assert house.fake.switches["tor01"].config.vlans[GATEWAYS] == vlan_name(mark)
    house.destroyed()
    assert house.vlans() == {} and house.access() == {}


def test_port_in_a_foreign_vlan_is_a_conflict(house: PortsHouse) -> None:
    """Also with --adopt: only its operator knows whether the VLAN may be removed."""
    house.fake.put("tor01/Ethernet31", 20)
    house.port("tor01/Ethernet33").trunk = {20, 21}
    for adopt in (False, True):
        said = sorted(c.what for c in house.plan(adopt).conflicts)
        assert said == [
            "port tor01/Ethernet31 has VLAN 20, which isn't this network's: take it out of that, or correct the site",
            "port tor01/Ethernet33 has VLAN 20, 21 with a tag: take it out of that, or correct the site",
        ]
        with pytest.raises(ConflictError, match="2 things in the way"):
            house.ask(adopt)
    assert house.access() == {"tor01/Ethernet31": 20}


def test_port_added_later_is_checked_too(house: PortsHouse) -> None:
    """The network exists already, and everything of it is weft's, but not the new port."""
    house.applied()
    house.fake.put("tor01/Ethernet35", 300)
    config = house.port("tor01/Ethernet36")
    config.access, config.trunk = 1, set(range(1, 4095))
    rows = interfaces(m1_bmc="Ethernet35", m1_gw="Ethernet36")
    house.activate(checked(house.site.model_copy(update={"interfaces": rows})))
    said = sorted(c.what for c in house.plan().conflicts)
    assert [w.split(":")[0] for w in said] == [
        "port tor01/Ethernet35 has VLAN 300, which isn't this network's",
        "port tor01/Ethernet36 has every VLAN, as a trunk",
    ]
    with pytest.raises(ConflictError, match="2 things in the way"):
        house.ask()
    assert house.access() == {**ACCESS, "tor01/Ethernet35": 300, "tor01/Ethernet36": 1}


def test_trunk_of_every_vlan_is_not_a_hardware_port(house: PortsHouse) -> None:
    """It may be the way to the rest of the site."""
    config = house.port("tor02/Ethernet31")
    config.access, config.trunk = 1, set(range(1, 4095))
    [conflict] = house.plan().conflicts
    assert "every VLAN, as a trunk" in conflict.what


def test_native_vlan_on_a_trunk_is_a_conflict(house: PortsHouse) -> None:
    house.fake.put(TRUNK, STORAGE)
    [conflict] = house.plan().conflicts
    assert f"port {TRUNK} has 12 as its VLAN without a tag" in conflict.what


def test_trunk_keeps_its_other_vlans(house: PortsHouse) -> None:
    house.port(TRUNK).trunk = {20, 21}
    house.port(TRUNK).access = 5
    house.applied()
    assert house.port(TRUNK) == PortConfig(5, {STORAGE, 20, 21})
    house.destroyed()
    assert house.port(TRUNK) == PortConfig(5, {20, 21})


def test_trunk_of_every_vlan_is_reported(house: PortsHouse) -> None:
    """Its VLANs weren't chosen deliberately, so it is no conflict: what is behind it reaches the BMCs all the same."""
    config = house.port(FOREIGN)
    config.access, config.trunk = 1, set(range(1, 4095))
    [note] = [n for n in house.plan().notes if FABRIC in n]
    assert note == (
        f"fabric {FABRIC}: {FOREIGN} carry every VLAN, so what is behind them reaches VLAN 12, VLAN 13, too"
    )
    assert note in site_plan_text(house.plan())
    house.applied()
    assert note in house.plan().notes
    house.destroyed()
    assert config.trunk == set(range(1, 4095))


def test_trunk_of_every_vlan_stays_so(house: PortsHouse) -> None:
    every = set(range(1, 4095))
    house.port(TRUNK).trunk = set(every)
    house.applied()
    assert house.port(TRUNK).trunk == every
    house.destroyed()
    assert house.port(TRUNK).trunk == every


def test_pods_vlan_name_is_never_adopted(house: PortsHouse) -> None:
    mark = Mark("lab", Owner.pod("00000001-0000-4000-8000-000000000001"), "segment")
    house.fake.switches["tor01"].config.vlans[GATEWAYS] = vlan_name(mark)
    [conflict] = house.plan(adopt=True).conflicts
    assert "release that first" in conflict.what and not conflict.adoptable


# -- of a weft whose database was lost --------------------------------------------------------------------------

GHOST = Owner("site", "00000001-0000-4000-8000-00000000000f")


def left_behind(house: PortsHouse) -> None:
    """Leave on the switches what a weft had set whose database is lost."""
    name = vlan_name(Mark("lab", GHOST, "segment/gateways"))
    for switch in SWITCHES:
        house.fake.switches[switch].config.vlans[GATEWAYS] = name
    for end, number in ACCESS.items():
        if number == GATEWAYS:
            house.fake.put(end, GATEWAYS)
    for end in LINKS:
        house.port(end).trunk = {GATEWAYS}


def test_settings_of_a_lost_database_are_adopted(house: PortsHouse) -> None:
    left_behind(house)
    [conflict] = house.plan().conflicts
    assert conflict.adoptable and "that its database no longer knows" in conflict.what
    with pytest.raises(ConflictError, match="--adopt"):
        house.ask()
    house.applied(adopt=True)
    mark = Mark("lab", house.site_owner().owner, "segment/gateways")
    named = {s: one.config.vlans[GATEWAYS] for s, one in house.fake.switches.items()}
    assert set(named.values()) == {vlan_name(mark)} and len(named) == 3
    assert house.access() == ACCESS and house.plan().nothing
    house.destroyed()
    assert house.access() == {} and house.vlans() == {} and house.links() == {}


def test_settings_of_a_lost_database_are_removed_once_unused(house: PortsHouse) -> None:
    """Whose the ports are isn't known any more: their VLAN isn't removed while they are in it."""
    left_behind(house)

    def repaired() -> list[Finding]:
        report = house.service.audits.run(house.operator, repair=True, unknown_pods=(GHOST.id,))
        return [f for f in report.findings if f.kind == "segment"]

    [found] = repaired()
    assert "ports are in it: tor01/Ethernet31" in f"{found.repair} {found.what}", found
    assert house.links() == {end: {GATEWAYS} for end in LINKS} and len(house.access()) == 3
    for end in house.access():
        house.fake.put(end, None)
    repaired()
    assert house.vlans() == {} and house.links() == {}


def test_another_sites_vlan_is_not_adopted(house: PortsHouse) -> None:
    house.fake.switches["tor01"].config.vlans[GATEWAYS] = vlan_name(Mark("elsewhere", GHOST, "segment/x"))
    [conflict] = house.plan(adopt=True).conflicts
    assert "which is another site's" in conflict.what and not conflict.adoptable


# -- from one network to another --------------------------------------------------------------------------------


def test_port_moves_to_a_new_network_in_one_apply(house: PortsHouse) -> None:
    house.applied()
    fresh = {**GATEWAY_ROW, "vlan": 15, "fabric": FABRIC, "physical_network": "physnet-f"}
    fresh["subnets"] = {"bmc": {"role": "bmc", "addresses": "10.203.0.0/24", "dhcp": False}}
    moved = {"device": "m1", "name": "gw", "network": "fresh", "address": "10.203.0.11"}
    rows = tuple(i for i in interfaces() if (i.device, i.name) != ("m1", "gw"))
    row = {**moved, "switch": "tor01", "port": "Ethernet32", "mac": "02:00:00:0f:00:02"}
    networks = {**house.site.networks, "fresh": SiteNetwork.model_validate(fresh)}
    update = {"networks": networks, "interfaces": (*rows, Interface.model_validate(row))}
    house.activate(checked(house.site.model_copy(update=update)))
    assert [c for c in house.plan().conflicts if c.key.startswith("segment/")] == []
    house.port("tor01/Ethernet32").trunk = {77}
    [conflict] = [c for c in house.plan().conflicts if c.key.startswith("segment/")]
    assert "VLAN 77 with a tag" in conflict.what, "what else it carries belongs to others"
    house.port("tor01/Ethernet32").trunk = set()
    house.applied()
    assert house.access() == {**ACCESS, "tor01/Ethernet32": 15} and house.plan().nothing


def test_port_set_during_planning_is_not_forgotten(house: PortsHouse) -> None:
    """The planner read the rows before the loop wrote the last generation; the next one lacks the port. The graph is
    the stored one: the loop knows what it has set since."""
    house.applied()
    before = house.site
    house.activate(own_ports(m1_bmc="Ethernet35"))
    house.ask()
    house.activate(before)
    stale = SitePlanner(house.store, house.world, house.store.site()).plan()
    house.settle()
    assert house.access()["tor01/Ethernet35"] == GATEWAYS
    plan, database = stale.plan, house.store.database
    [segment] = [r for r in stale.graph.resources if r.key == "segment/gateways"]
    assert isinstance(segment.spec, SegmentSpec) and "tor01/Ethernet35" not in segment.spec.former
    set_desired(database, plan.site, plan.generation, stale.graph, stale.adopted, "test")
    house.settle()
    assert house.access() == ACCESS and house.plan().nothing and house.ask().nothing


def test_port_missing_on_the_switch_is_a_conflict(house: PortsHouse) -> None:
    del house.fake.switches["tor01"].config.ports["Ethernet31"]
    [conflict] = house.plan().conflicts
    assert "tor01 has no port Ethernet31" in conflict.what


# -- silence, loss, death ---------------------------------------------------------------------------------------


def test_silent_switch_is_unknown(house: PortsHouse) -> None:
    """Neither planned over, nor repaired, nor clean."""
    house.applied()
    house.fake.switches["tor02"].reachable = False
    with pytest.raises(UnknownError, match="tor02"):
        house.plan()
    house.visits(2)
    assert house.site_owner().state is not PodState.READY
    findings = house.findings()
    assert "unknown" in {f.category for f in findings} and "missing" not in {f.category for f in findings}
    house.service.site.destroy(house.operator)
    owner = house.visits(3)
    assert owner.state is PodState.RELEASING and "tor02" in owner.reason
    house.fake.switches["tor02"].reachable = True
    house.visit(house.site_owner(), PodState.RELEASED)
    assert house.service.site.receipt(house.operator).receipt.clean and house.access() == {}


def test_silent_switch_does_not_delay_other_networks(house: PortsHouse) -> None:
    """Only the gateways network has a port on it, and passes through it."""
    networks = {n: net.model_copy(update={"trunks": ()}) for n, net in house.site.networks.items()}
    house.activate(checked(house.site.model_copy(update={"networks": networks})))
    house.applied()
    house.fake.switches["tor02"].reachable = False
    house.fake.put("tor01/Ethernet33", None)
    house.fake.put("tor01/Ethernet31", None)
    house.visits(3)
    assert house.access()["tor01/Ethernet33"] == STORAGE, "mended"
    assert "tor01/Ethernet31" not in house.access(), "not over what can't be read"
    owner = house.site_owner()
    assert owner.state is not PodState.READY and "tor02" in owner.reason
    house.service.site.destroy(house.operator)
    assert house.visits(3).state is PodState.RELEASING
    assert "tor01/Ethernet33" not in house.access() and STORAGE not in house.vlans()["tor02"]
    house.fake.switches["tor02"].reachable = True
    house.visit(house.site_owner(), PodState.RELEASED)
    assert house.access() == {} and house.vlans() == {} and house.links() == {}


def test_switch_with_stale_answers_prevents_the_receipt(house: PortsHouse) -> None:
    house.applied()
    house.fake.switches["tor01"].freeze()
    house.service.site.destroy(house.operator)
    assert house.visits(3).state is PodState.RELEASING
    house.fake.switches["tor01"].thaw()
    house.visit(house.site_owner(), PodState.RELEASED)


def test_change_with_a_lost_answer_is_found(house: PortsHouse) -> None:
    house.fake.lose_answer = True
    house.applied()
    assert house.access() == ACCESS and house.plan().nothing


def test_killed_worker_is_replaced_between_switches(house: PortsHouse) -> None:
    """After the first switch was changed: the next worker continues from the actual state."""

    class DiedError(BaseException):
        pass

    house.ask()
    switch, send = house.fake.switches["tor02"], house.fake.sessions.change

    def die(*args: Any, **more: Any) -> None:
        switch.reachable = False
        try:
            send(*args, **more)
        finally:
            switch.reachable = True
            raise DiedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.fake.sessions, "change", die)
        with pytest.raises(DiedError):
            house.visit(house.site_owner())
    assert set(house.access()) == {e for e in ACCESS if e.startswith("tor01")}
    house.run_out()
    house.settle()
    assert house.access() == ACCESS and house.plan().nothing


def test_fabric_stays_described_while_it_has_resources(house: PortsHouse) -> None:
    house.applied()
    document = house.site.model_dump(mode="json")
    plain = {n: {**net, "fabric": None, "trunks": []} for n, net in document["networks"].items()}
    renamed = json.loads(json.dumps(document).replace(f'"{FABRIC}"', '"other"'))
    with pytest.raises(ConflictError, match="fabrics: roce is missing, but resources of the site are there"):
        house.service.site.activate(house.operator, renamed)
    house.service.site.activate(house.operator, {**document, "networks": plain})
    assert house.access() == ACCESS, "nothing changes before it is applied"
    house.site = house.store.site().site
    assert set(house.segment_steps()) == {"remove segment/storage", "remove segment/gateways"}
    house.applied()
    assert house.access() == {} and house.vlans() == {}


@pytest.mark.parametrize("switch", ["tor02", "agg01"])
@pytest.mark.parametrize("how", ["gone", "generic", "neutron"])
def test_switch_stays_managed_while_networks_are_on_it(house: PortsHouse, how: str, switch: str) -> None:
    """Even a switch that is only between others."""
    house.applied()
    document = house.site.model_dump(mode="json")
    plain = {n: {**net, "fabric": None, "trunks": []} for n, net in document["networks"].items()}
    switching = document["fabrics"][FABRIC]["manager"]["switching"]
    if how == "neutron":
        switching["configured_by"] = "neutron"
    for one in switching["switches"]:
        if one["name"] == switch and how == "generic":
            one |= {"interface": "generic", "device_type": "netmiko_juniper", "url": "ssh://127.0.0.1:22"}
    if how == "gone":
        switching["switches"] = [s for s in switching["switches"] if s["name"] != switch]
        left = [k for k in switching["links"] if switch not in f"{k['a']} {k['b']}"]
        switching["links"] = left or [{"a": "tor01/Ethernet5", "b": "tor02/Ethernet5"}]
        document["fabrics"][FABRIC]["traffic"] = None
        for table in ("switches", "links", "nodes", "interfaces"):
            document[table] = [row for row in document[table] if switch not in str(row)]
    with pytest.raises(ConflictError, match=switch if how != "neutron" else "agg01"):
        house.service.site.activate(house.operator, {**document, "networks": plain})


def test_ports_no_longer_described_are_still_removed(house: PortsHouse) -> None:
    """The site's file has changed; what was applied is removed all the same."""
    house.applied()
    document = house.site.model_dump(mode="json")
    house.service.site.activate(house.operator, {**document, "networks": {}, "interfaces": [], "devices": []})
    house.destroyed()
    assert house.access() == {} and house.service.site.receipt(house.operator).receipt.clean


def test_changes_by_others_after_the_end_are_left_alone(house: PortsHouse) -> None:
    """The VLAN belongs to the operator again."""
    from weft.engine.audit.sweep import Sweeper

    house.applied()
    house.destroyed()
    by_hand(house)
    world, site = (lambda: house.world), (lambda: house.site)
    Sweeper(house.store, world, site, house.clock).sweep()
    assert house.access() == {"tor01/Ethernet31": GATEWAYS}
    assert house.fake.switches["tor01"].config.vlans == {GATEWAYS: "ipu-gw"}
    assert house.port("tor02/Ethernet31").access is None
