"""A function's MAC address or GUID that exists elsewhere, too: it is in no partition until it is unique."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.fabric.test_ethernet_life import ethernet
from tests.engine.house import QUICK, House
from tests.engine.life.test_functions import furnished, port, small, with_functions, with_ufm
from tests.engine.ufmhouse import UfmOfAHouse
from weft.app.shown import shown
from weft.engine.base.database import Database
from weft.engine.proof.duplicatemacs import is_ironics
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.fabric import Snapshot
from weft.model.pod import PodState
from weft.model.resources import Kind, Resource
from weft.model.specs import PortSpec
from weft.planning.fabric.functions import guid_of
from weft.ports.tenantnetworks import TenantPort
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing
from weft.testing.ethernet import FakeEthernet
from weftlab.ufm.inventory import VirtualPort


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def visits(house: House, pod: PodRecord, number: int = 3) -> PodRecord:
    for _ in range(number):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def inside(manager: UfmOfAHouse, pod: PodRecord, guid: int) -> bool:
    known = manager.ufm.pkeys.get(pod.plan.segment or 0)
    return known is not None and guid in {int(g, 16) for g in known.guids}


def stolen(house: House, mac: str, *, network: str, taken: set[str], **fields: object) -> Thing:
    """Another project's port that has this MAC address, bound to a function of a node that no pod has."""
    host = next(n for n in house.site.nodes if n.role == "compute" and n.name not in taken)
    slot = house.cloud.offers.functions[host.nova_host][0]
    known = {"vnic_type": "direct", "pci_slot": slot, "bound_host": host.nova_host, **fields}
    return house.cloud.add(Kind.PORT, "stolen", "team-b", None, network=network, mac=mac, **known)


def test_port_with_the_mac_of_anothers_function_takes_that_function_out(house: House, tmp_path: Path) -> None:
    """On the network of a pod of its own project: the GUID leaves the partition until it is unique. The victim's reason
    and the audit name the port; a repair removes it from the closed network of the other pod."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    view = house.service.pods.create(house.request("team-b"), small("mine"))
    mine = house.run(house.store.pods.find(str(view.id), None), PodState.READY)
    (network,) = [
        t
        for t in house.cloud.things(Kind.NETWORK)
        if t.project_id == "team-b" and t.mark and t.mark.key == "network/rdma"
    ]
    mac = port(victim).mac
    assert mac is not None
    theirs = stolen(house, mac, network=network.id, taken={*victim.nodes, *mine.nodes})
    victim = visits(house, victim)
    assert victim.state is PodState.DEGRADED and "is not the only one with its MAC address" in victim.reason
    assert not inside(manager, victim, guid_of(mac))
    said = shown(house.service.pods.show(house.request(), str(victim.id))).reason or ""
    assert "MAC address" in said and theirs.id not in said and "team-b" not in said
    findings = house.service.audits.run(house.operator).findings
    assert [f.pod for f in findings if f.id == theirs.id and "MAC address" in f.what] == ["victim"]
    house.service.audits.run(house.operator, repair=True)
    assert theirs not in house.cloud.things(Kind.PORT)
    victim = house.run(victim, PodState.READY)
    assert inside(manager, victim, guid_of(mac))


def test_port_elsewhere_with_the_mac_is_only_named(house: House, tmp_path: Path) -> None:
    """Bound or not yet, on a network that isn't weft's: it is its owner's, or an operator's, to remove."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    mac = port(victim).mac
    assert mac is not None
    theirs = stolen(house, mac.upper(), network="theirs", taken={*victim.nodes}, bound_host="", pci_slot="")
    victim = visits(house, victim)
    assert victim.state is PodState.DEGRADED and not inside(manager, victim, guid_of(mac))
    house.service.audits.run(house.operator, repair=True)
    assert theirs in house.cloud.things(Kind.PORT)
    for vnic in ("normal", "baremetal", "direct-physical"):
        theirs.fields["vnic_type"] = vnic
        victim = house.run(victim, PodState.READY)
        assert inside(manager, victim, guid_of(mac))


def named(house: House, thing: Thing) -> list[str]:
    """Pods for which the audit names this port of others."""
    found = house.service.audits.run(house.operator, repair=True).findings
    return [f.pod or "" for f in found if f.id == thing.id and f.category == "foreign"]


@pytest.mark.parametrize(
    ("vnic", "project"), [("normal", "team-b"), ("baremetal", "team-b"), ("normal", "service")]
)
def test_port_without_a_function_with_the_mac_is_only_named(
    house: House, tmp_path: Path, vnic: str, project: str
) -> None:
    """Someone's, or one that the site has adopted: its server is on no fabric with it. The pod keeps everything."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    mac = port(victim).mac
    assert mac is not None
    theirs = house.cloud.add(Kind.PORT, "theirs", project, network="x", mac=mac.upper(), vnic_type=vnic)
    victim = visits(house, victim)
    assert victim.state is PodState.READY and inside(manager, victim, guid_of(mac))
    assert named(house, theirs) == ["victim"] and theirs in house.cloud.things(Kind.PORT)


def test_port_that_may_send_from_the_mac_is_only_named(house: House, tmp_path: Path) -> None:
    """By `allowed_address_pairs`, whatever its own address; what can't be listed is unknown."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    mac = port(victim).mac
    assert mac is not None
    pairs = (f"10.0.0.1 {mac.upper()}",)
    theirs = house.cloud.add(
        Kind.PORT, "theirs", "team-b", network="x", mac="fa:16:3e:1:2:3", address_pairs=pairs
    )
    victim = visits(house, victim)
    assert victim.state is PodState.READY and inside(manager, victim, guid_of(mac))
    assert named(house, theirs) == ["victim"] and theirs in house.cloud.things(Kind.PORT)
    house.cloud.plant(Fault.UNREACHABLE, verb="ports", times=None)
    assert "unknown" in {f.category for f in house.service.audits.run(house.operator).findings}


@pytest.mark.parametrize(
    ("pair", "inside", "said"),
    [
        ("{address}", True, True),
        ("10.0.0.0/8", True, True),
        ("{address}", False, False),
        ("11.0.0.1", True, False),
    ],
)
def test_port_that_may_send_from_the_ip_address_is_named(
    house: House, pair: str, inside: bool, said: bool
) -> None:
    """A pair without a MAC address has its port's own: on the pod's network that is the pod's address all the same, and
    may be a whole subnet. On another network, or with another address, it concerns no pod."""
    pod = house.run(house.order(count=1), PodState.READY)
    its = next(t for t in house.cloud.ports if t.mark and t.mark.key == f"port/{pod.nodes[0]}/management")
    network = str(its.fields["network"]) if inside else "elsewhere"
    pairs = (pair.format(address=its.fields["address"]),)
    theirs = house.cloud.add(
        Kind.PORT, "theirs", "team-a", network=network, mac="fa:16:3e:1:2:3", address_pairs=pairs
    )
    found = [f for f in house.service.audits.run(house.operator).findings if f.id == theirs.id]
    assert any("may send from it (allowed_address_pairs)" in f.what for f in found) is said


@pytest.mark.parametrize("bound", ["its machine", "another", ""])
def test_only_a_port_bound_to_the_machine_is_ironics(bound: str) -> None:
    """A project can't bind a port of its own to a machine, though it can set type and MAC address."""
    spec = PortSpec(
        network="network/x",
        subnet="subnet/x",
        address="",
        mac="02:00:00:00:00:01",
        vnic_type="baremetal",
        host="m-1",
    )
    resource = Resource(key="port/x", name="x", where="lab", spec=spec)
    own = {str(spec.mac): ResourceRecord(resource, RowState.SETTLED, "id", "", (), {}, 0, None, None)}
    host = {"its machine": "m-1", "another": "m-2", "": ""}[bound]
    port = TenantPort("p", "p", "02:00:00:00:00:01", "baremetal", "other", host)
    assert is_ironics(port, own) is (bound == "its machine")


def test_unlisted_ports_change_no_membership(house: House, tmp_path: Path) -> None:
    """A member stays one, and one that was taken out stays out; neither is healthy."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    mac = port(victim).mac
    assert mac is not None
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="ports", times=None)
    victim = visits(house, victim)
    assert victim.state is PodState.DEGRADED and inside(manager, victim, guid_of(mac))
    planted.lift()
    theirs = stolen(house, mac, network="theirs", taken={*victim.nodes})
    assert not inside(manager, visits(house, victim), guid_of(mac))
    house.cloud.lose(theirs)
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="ports", times=None)
    assert not inside(manager, visits(house, victim), guid_of(mac))
    planted.lift()
    house.run(victim, PodState.READY)
    assert inside(manager, victim, guid_of(mac))


def test_guid_shown_elsewhere_leaves_the_partition(house: House, tmp_path: Path) -> None:
    """For example one that a server with a whole adapter gave to a function of it, past Neutron."""
    manager = with_ufm(house, tmp_path)
    victim = house.run(house.order(small("victim")), PodState.READY)
    mac = port(victim).mac
    assert mac is not None
    other = next(n for n in house.site.nodes if n.role == "compute" and n.name not in victim.nodes)
    manager.strays.append(VirtualPort(f"{guid_of(mac):016x}", f"{other.hcas[0].port_guid:016x}"))
    victim = visits(house, victim)
    assert victim.state is PodState.DEGRADED and "also appears elsewhere" in victim.reason
    assert not inside(manager, victim, guid_of(mac))
    manager.strays.clear()
    victim = house.run(victim, PodState.READY)
    assert inside(manager, victim, guid_of(mac))


def test_search_for_duplicate_addresses_shares_the_fabrics_reading(house: House, tmp_path: Path) -> None:
    """A READY pod is judged by a reading that may be as old as its verdict's, and that others wait for, too."""
    with_ufm(house, tmp_path)
    pod = house.run(house.order(small("pod")), PodState.READY)
    house.worker = house.new_worker("w2", replace(QUICK, fabric_age=5.0))
    driver = house.keeper.world().fabric("ib0")
    read, asked = driver.snapshot, list[tuple[float, bool]]()

    def snapshot(max_age: float = 0.0, patient: bool = False) -> Snapshot:
        asked.append((max_age, patient))
        return read(max_age, patient)

    driver.snapshot = snapshot  # type: ignore[method-assign]
    assert visits(house, pod, 1).state is PodState.READY
    assert len(asked) >= 2 and all(age > 0 and patient for age, patient in asked)


def test_mac_address_is_not_an_identity_on_ethernet(house: House) -> None:
    """The VLAN is the function's, by Neutron's agent: the pod stays READY and says it, and the audit names the port."""
    furnished(house, with_functions(ethernet(house.site)), lambda site: FakeEthernet(site, "ib0"))
    pod = house.run(house.order(small("victim")), PodState.READY)
    mac = port(pod).mac
    assert mac is not None
    theirs = stolen(house, mac, network="theirs", taken={*pod.nodes})
    pod = visits(house, pod)
    assert pod.state is PodState.READY and "MAC address" in pod.reason
    assert theirs.id in {f.id for f in house.service.audits.run(house.operator).findings}
