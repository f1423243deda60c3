"""Bare-metal machines on Ethernet: VLANs of their switch ports from deployment to cleaning."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import psycopg
import pytest

from tests.engine.fabric.test_ethernet_life import ethernet, ports, released, visits
from tests.engine.fabric.test_neutrons_fabric import Ml2Cloud, by_neutron
from tests.engine.house import House, nothing_lands
from tests.engine.metalhouse import ORDER, site, sized
from weft.drivers.switches.cabling import Cabling
from weft.engine.base.database import Database
from weft.engine.rows.ledger import FabricLedger
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind, Outcome, Resource
from weft.model.site import Site
from weft.model.specs import MachineSpec, ServerSpec
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud, Fault
from weft.testing.cloud_state import FakeFlavor
from weft.testing.ethernet import FakeEthernet, FakeNeutrons, PortConfig
from weftlab.metal.machines import FLAVOR

PROVISIONING, CLEANING = 3001, 3002
"""VLANs of Ironic's own networks, outside of weft's range."""


class MetalHouse(House):
    fake: FakeEthernet | FakeNeutrons


class MetalMl2(Ml2Cloud):
    """A cloud whose Neutron puts machines' ports into the networks that Ironic asks for, one after the other."""

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            if isinstance(resource.spec, ServerSpec):
                self._set(resource.node, PROVISIONING)
        return super().create(scope, wanted, ids)

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            if isinstance(resource.spec, ServerSpec):
                self._set(resource.node, CLEANING)
        done = super().delete(scope, wanted, ids)
        for resource in wanted:
            if isinstance(resource.spec, MachineSpec) and not done[resource.key].error:
                self._set(resource.node, None)
        return done


def furnish(house: MetalHouse, found: Site, cloud: FakeCloud) -> None:
    house.site, house.cloud = found, cloud
    cloud.offers.images.add("tiny")
    cloud.offers.flavors[FLAVOR] = FakeFlavor(96, 1_048_576)
    cloud.offers.hosts |= {n.machine: "up" for n in found.nodes if n.machine is not None}
    ledger = FabricLedger(house.database, "ib0", found.fabrics["ib0"].words)
    made = (FakeNeutrons if found.fabrics["ib0"].is_neutrons else FakeEthernet)(found, "ib0", ledger)
    house.fake = made
    house.world = replace(
        house.world,
        resources={"lab": cloud, "ib0": made},
        fabrics={"ib0": made},
        clouds={"lab": cloud},
    )
    house.store.activate_site(found, "test")


@pytest.fixture
def house(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[MetalHouse]:
    """A house in which weft's own drivers set the VLANs."""
    monkeypatch.setattr("tests.engine.house.small_site", site)
    house = MetalHouse(database, database_url)
    furnish(house, ethernet(house.site), house.cloud)
    yield house
    house.close()


@pytest.fixture
def neutrons(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[MetalHouse]:
    """A house in which Neutron sets the VLANs, as Ironic asks it to."""
    monkeypatch.setattr("tests.engine.house.small_site", site)
    house = MetalHouse(database, database_url)
    cloud = MetalMl2(seed=1, name="lab", latency=0.0)
    furnish(house, by_neutron(house.site), cloud)
    assert isinstance(house.fake, FakeNeutrons)
    cloud.fabric, cloud.site = house.fake, house.site
    yield house
    house.close()


def untagged(house: MetalHouse, port: str) -> int | None:
    switch, _, name = port.partition("/")
    return house.fake.switches[switch].config.ports[name].access


def ports_at(house: MetalHouse, monkeypatch: pytest.MonkeyPatch, verb: str) -> list[tuple[str, int | None]]:
    """Kind of what is asked for, and the VLAN of its machine's port at that moment."""
    seen: list[tuple[str, int | None]] = []
    do = getattr(house.cloud, verb)

    def recorded(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        for r in wanted:
            if r.kind in (Kind.SERVER, Kind.MACHINE):
                [port] = [h.port_id for h in house.site.node_by_name[r.node].hcas_on("ib0")]
                seen.append((r.kind, untagged(house, port)))
        return do(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, verb, recorded)
    return seen


def test_weft_parks_a_port_during_deployment_and_cleaning(
    house: MetalHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed, cleaned = ports_at(house, monkeypatch, "create"), ports_at(house, monkeypatch, "delete")
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    pod = visits(house, house.order(ORDER), 6)
    number = pod.plan.segment
    assert len(house.cloud.servers) == 2 and number not in house.fake.snapshot().ports_in
    for server in house.cloud.servers:
        server.stuck = ""
    pod = house.run(pod, PodState.READY)
    assert {untagged(house, p) for p in ports(house, pod)} == {number}
    house.release(pod)
    assert released(house, pod).receipt.clean
    assert {v for _, v in deployed} == {None} and {v for _, v in cleaned} == {None}
    assert {k for k, _ in cleaned} == {Kind.SERVER, Kind.MACHINE}


def test_every_worker_waits_for_a_port_that_may_land_in_the_vlan(house: MetalHouse) -> None:
    """It follows its machine into the VLAN, by a move of its own; the switch doesn't answer."""
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    pod = visits(house, house.order(ORDER), 6)
    assert pod.late_until is None and len(house.cloud.servers) == 2
    for server in house.cloud.servers:
        server.stuck = ""

    def follow() -> None:
        house.fake.late = True

    # Occupants of its nodes are checked before anything is created, and once its servers are there.
    house.cloud.meanwhile("occupants", lambda: house.cloud.meanwhile("occupants", follow))
    pod = visits(house, pod, 1)
    assert not house.fake.late and pod.late_until is not None
    assert (pod.late_until - house.time.now()).total_seconds() > 5.0


def test_machine_is_not_cleaned_while_its_port_may_rejoin_the_vlan(
    house: MetalHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pod goes on, with a tenant who is root on the others: the cleaning system is out of their reach."""
    pod = house.ready(ORDER)
    requests = ports_at(house, monkeypatch, "delete")
    house.service.pods.apply(house.request(), "train", sized(1))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET late_until = now() + interval '1 h'")
    pod = visits(house, pod, 6)
    number = pod.plan.segment or 0
    assert house.fake.snapshot().ports_in[number] == frozenset(ports(house, pod)) and not requests
    assert pod.changed_at is not None and pod.state is PodState.READY
    nothing_lands(house.database)
    pod = visits(house, pod, 8)
    assert {kind for kind, _ in requests} == {Kind.SERVER, Kind.MACHINE} and pod.changed_at is None


def test_neutron_moves_a_port_through_ironics_networks(
    neutrons: MetalHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned = ports_at(neutrons, monkeypatch, "delete")
    pod = neutrons.ready(ORDER)
    number = pod.plan.segment
    assert {untagged(neutrons, p) for p in ports(neutrons, pod)} == {number}
    assert neutrons.service.audits.run(neutrons.operator).findings == ()
    neutrons.release(pod)
    receipt = released(neutrons, pod).receipt
    assert receipt.clean and sum(i.plane == "switch port" for i in receipt.items) == 2
    assert (Kind.SERVER, number) in cleaned and (Kind.MACHINE, CLEANING) in cleaned
    assert {untagged(neutrons, p) for p in ports(neutrons, pod)} == {None}
    assert [s.config.revision for s in neutrons.fake.switches.values()] == [0] * len(neutrons.fake.switches)


def test_machines_joining_one_by_one_are_not_foreign(neutrons: MetalHouse) -> None:
    """The second is in its VLAN before the first is ACTIVE: the pod's number doesn't count as foreign for that."""
    neutrons.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    pod = visits(neutrons, neutrons.order(ORDER), 6)
    number = pod.plan.segment
    for server in neutrons.cloud.servers:
        server.stuck = ""
    pod = neutrons.run(pod, PodState.READY)
    assert pod.plan.segment == number


def test_pod_of_machines_shrinks_and_grows_by_neutron(neutrons: MetalHouse) -> None:
    pod = neutrons.ready(ORDER)
    neutrons.service.pods.apply(neutrons.request(), "train", sized(1))
    pod = visits(neutrons, pod, 8)
    assert pod.state is PodState.READY and len(pod.nodes) == 1
    assert neutrons.fake.snapshot().ports_in[pod.plan.segment or 0] == frozenset(ports(neutrons, pod))
    neutrons.service.pods.apply(neutrons.request(), "train", sized(2))
    pod = visits(neutrons, pod, 8)
    assert pod.state is PodState.READY and len(pod.nodes) == 2


def test_port_that_stays_in_the_tenants_vlan_keeps_its_machine(neutrons: MetalHouse) -> None:
    pod = neutrons.ready(ORDER)
    assert isinstance(neutrons.cloud, MetalMl2)
    neutrons.cloud.deaf = True
    neutrons.release(pod)
    assert visits(neutrons, pod, 8).state is PodState.RELEASING
    assert set(neutrons.store.capacity().holds) >= set(pod.nodes)


@pytest.mark.parametrize("who", ["house", "neutrons"])
def test_audit_reports_a_port_that_trunks_every_vlan(who: str, request: pytest.FixtureRequest) -> None:
    """On an unassigned machine: what networking-generic-switch leaves without a default VLAN."""
    chosen: MetalHouse = request.getfixturevalue(who)
    [port, *_] = [h.port_id for n in chosen.site.nodes if n.machine for h in n.hcas_on("ib0")]
    switch, _, name = port.partition("/")
    chosen.fake.switches[switch].config.ports[name] = PortConfig(None, set(range(1, 4095)))
    said = [f.what for f in chosen.service.audits.run(chosen.operator).findings]
    assert [s for s in said if f"host port {port} is a trunk of every VLAN" in s], said


def with_bmc(found: Site, end: str) -> Site:
    """The site with its first machine's BMC at this switch port, on a network of its own."""
    switch, _, port = end.partition("/")
    document = found.model_dump(mode="json")
    subnet = {"role": "bmc", "addresses": "192.168.7.0/24", "dhcp": False}
    network = {"cloud": "lab", "physical_network": "oob", "vlan": 99, "subnets": {"bmc": subnet}}
    row = {"device": "bm01", "name": "bmc", "network": "oob", "mac": "02:00:00:00:b1:01"}
    row |= {"address": "192.168.7.11", "switch": switch, "port": port}
    return Site.model_validate(document | {"networks": {"oob": network}, "interfaces": [row]})


def test_bmc_port_with_an_unknown_name_is_reported(house: MetalHouse) -> None:
    """A number without a name, or a typo: whether it is among pods can't be known."""
    switch = house.site.switches[0].name
    found = with_bmc(by_neutron(house.site), f"{switch}/17")
    furnish(house, found, house.cloud)
    house.fake.cabling = Cabling.of(found, "ib0", found.fabrics["ib0"].manager.switching)
    said = [f.what for f in house.service.audits.run(house.operator).findings]
    assert [s for s in said if f"port {switch}/17 of bm01's bmc isn't known to its switch" in s], said


@pytest.mark.parametrize(
    ("access", "trunk", "reported"),
    [
        (99, set[int](), None),
        (None, set[int](), None),
        (301, set[int](), "is in VLAN 301; network oob has 99"),
        (99, {301, 302}, "is in VLAN 301, 302; network oob has 99"),
        (None, set(range(1, 4095)), "is a trunk of every VLAN"),
    ],
)
def test_audit_reports_a_bmc_among_pods(
    house: MetalHouse, access: int | None, trunk: set[int], reported: str | None
) -> None:
    switch = house.site.switches[0].name
    found = with_bmc(by_neutron(house.site), f"{switch}/Ethernet90")
    furnish(house, found, house.cloud)
    house.fake.cabling = Cabling.of(found, "ib0", found.fabrics["ib0"].manager.switching)
    house.fake.switches[switch].config.ports["Ethernet90"] = PortConfig(access, trunk)
    found_now = house.service.audits.run(house.operator).findings
    said = [f.what for f in found_now if f.kind == "fabric manager" and "Ethernet90" in f.what]
    assert (not said) if reported is None else (len(said) == 1 and reported in said[0]), said


def test_order_without_a_fabric_gets_machines(house: MetalHouse) -> None:
    document = ORDER.model_dump(mode="json") | {"fabric": "none"}
    pod = house.ready(Order.model_validate(document))
    house.release(pod)
    assert released(house, pod).receipt.clean
