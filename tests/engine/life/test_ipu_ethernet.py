"""IPU pods with a data network on switches: their RNICs are put in the pod's VLAN, and observed there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.engine.house import nothing_lands
from tests.engine.ipuhouse import POD, IpuHouse, order
from tests.engine.timehouse import HandClock
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, UnknownError
from weft.model.fabrictypes import Mode
from weft.model.pod import PodState
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.shapes.resolve import resolve
from weft.planning.site.check import check_site
from weft.testing.ethernet import FakeEthernet

FABRIC, SERVER = "roce", "tor1/Ethernet40"


def switched(site: Site) -> Site:
    """The lab's IPU-POD on a switch that weft configures, with an adapter of the Poplar server."""
    document = site.model_dump(mode="json")
    data = document["ipu_pods"][POD]["data"]
    switching = {
        "parking": 4000,
        "switches": [{"name": "tor1", "interface": "ovs", "url": "unix:/run/tor1.sock"}],
    }
    document["fabrics"][FABRIC] = {
        **document["fabrics"]["ib0"],
        "type": "ethernet",
        "physical_network": data.pop("physical_network"),
        "segments": data.pop("segments"),
        "manager": {"driver": "switches", "switching": switching},
    }
    data["fabric"] = FABRIC
    document["switches"].append({"name": "tor1", "fabric": FABRIC, "level": "leaf", "ports": 64})
    for number, machine in enumerate(document["ipu_machines"], 1):
        machine |= {"rnic_switch": "tor1", "rnic_port": number, "rnic_switch_port": f"Ethernet{number}"}
    adapter = {
        "name": "mlx5_0",
        "fabric": FABRIC,
        "guid": "0x00000000feed0001",
        "port_guid": "0x00000000feed0001",
        "pci": "0000:c5:00.0",
        "switch_port": SERVER,
    }
    for node in document["nodes"]:
        if node["role"] == "poplar":
            node["hcas"] = [adapter]
    return Site.model_validate(document)


class SwitchedHouse(IpuHouse):
    fake: FakeEthernet


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[SwitchedHouse]:
    house = SwitchedHouse(database, database_url, clock)
    house.site = switched(house.site)
    assert check_site(house.site) == []
    house.fake = FakeEthernet(house.site, FABRIC)
    house.world.resources[FABRIC] = house.fake  # type: ignore[index]
    house.world.fabrics[FABRIC] = house.fake  # type: ignore[index]
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def segment(pod: PodRecord) -> SegmentSpec:
    [found] = [r.spec for r in pod.plan.graph.resources if isinstance(r.spec, SegmentSpec)]
    return found


def rnics(house: SwitchedHouse, pod: PodRecord) -> set[str]:
    return {house.site.machine_by_name[n].port_id for n in pod.nodes}


def test_ipu_pod_works_from_order_to_receipt_on_ethernet(house: SwitchedHouse) -> None:
    """The machines' ports are access ports, the server's is tagged; each is read back before the receipt."""
    pod = house.booted()
    vlan = segment(pod).number
    assert pod.plan.allotment.numbers[f"segment/{FABRIC}"] == vlan
    assert house.fake.snapshot().ports_in[vlan] == rnics(house, pod) | {SERVER}
    modes = {m.port: m.mode for m in segment(pod).members}
    assert modes.pop(SERVER) is Mode.TRUNK and set(modes.values()) == {Mode.ACCESS}
    assert house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json")).valid and signed.receipt.clean
    read = {i.subject for i in signed.receipt.items if i.plane == "switch port"}
    assert all(any(port in subject for subject in read) for port in (*rnics(house, pod), SERVER))
    assert vlan not in house.fake.snapshot().ports_in


def test_no_traffic_before_the_ports_are_in_the_vlan(house: SwitchedHouse) -> None:
    pod = house.order(order())
    house.fake.switches["tor1"].reachable = False
    for _ in range(12):
        house.store.wake(pod.id)
        house.worker.run_once()
    made = {r.key for r in house.store.pods.resources(pod.id) if r.outside_id}
    assert not any(key.startswith(("server/poplar", "vipu_agent/")) for key in made)
    assert "tor1" in house.store.pods.find(str(pod.id), None).reason


def test_removed_machine_is_found_and_restored(house: SwitchedHouse) -> None:
    pod = house.booted()
    one = sorted(rnics(house, pod))[0]
    house.fake.put(one, None)
    assert any(one in f.what for f in house.service.audits.run(house.operator).findings)
    for _ in range(4):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert one in house.fake.snapshot().ports_in[segment(pod).number]


def test_machines_port_left_in_the_vlan_prevents_the_receipt(house: SwitchedHouse) -> None:
    pod = house.booted()
    house.release(pod)
    house.fake.lose_answer = True
    one = sorted(rnics(house, pod))[0]
    while house.store.pods.find(str(pod.id), None).state is not PodState.RELEASED:
        house.fake.put(one, segment(pod).number)
        house.clock.sleep(20)
        house.store.wake(pod.id)
        house.worker.run_once()
        if house.store.pods.find(str(pod.id), None).reason:
            break
    assert house.store.records.receipt(pod.id) is None
    house.fake.put(one, None)
    nothing_lands(house.database)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_silent_fabric_refuses_the_order(house: SwitchedHouse) -> None:
    """Its numbers aren't known: one that is in use might be assigned."""
    house.fake.switches["tor1"].reachable = False
    with pytest.raises(UnknownError, match="tor1"):
        house.order(order())


def test_number_present_on_switches_is_not_assigned(house: SwitchedHouse) -> None:
    first = house.site.fabrics[FABRIC].segments.first
    house.fake.switches["tor1"].config.vlans[first] = "the operator's own"
    assert segment(house.booted()).number == first + 1


def test_machine_of_a_pod_cannot_be_recabled(house: SwitchedHouse) -> None:
    pod = house.booted()
    document = house.site.model_dump(mode="json")
    document["ipu_machines"][0]["rnic_switch_port"] = "Ethernet63"
    with pytest.raises(ConflictError, match=pod.nodes[0]):
        house.service.site.activate(house.operator, document)
    document = house.site.model_dump(mode="json")
    document["ipu_pods"][POD]["data"] |= {
        "fabric": None,
        "physical_network": "physdata",
        "segments": {"first": 3000, "last": 3001},
    }
    for machine in document["ipu_machines"]:
        machine["rnic_switch_port"] = None
    with pytest.raises(ConflictError, match=pod.nodes[0]):
        house.service.site.activate(house.operator, document)


def poplars(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [n for n in document["nodes"] if n["role"] == "poplar"]


def renamed(document: dict[str, Any]) -> None:
    document["fabrics"]["roce2"] = document["fabrics"].pop(FABRIC)
    document["ipu_pods"][POD]["data"]["fabric"] = "roce2"
    document["switches"][-1]["fabric"] = poplars(document)[0]["hcas"][0]["fabric"] = "roce2"


@pytest.mark.parametrize(
    "change",
    [
        lambda d: poplars(d)[0]["hcas"][0].update(switch_port="tor1/Ethernet41"),
        lambda d: d["nodes"].remove(poplars(d)[0]),
        renamed,
    ],
    ids=["another port", "removed", "another fabric"],
)
def test_poplar_server_of_a_pod_cannot_be_recabled(
    house: SwitchedHouse, change: Callable[[dict[str, Any]], None]
) -> None:
    house.booted()
    document = house.site.model_dump(mode="json")
    change(document)
    with pytest.raises(ConflictError, match="release the pod first"):
        house.service.site.activate(house.operator, document)


def test_only_the_ordered_ipu_pods_fabric_must_answer(house: SwitchedHouse) -> None:
    anywhere, there = order(), order(ipus={"count": 16, "ipu_pod": POD})
    assert resolve(anywhere, "p", house.site).wired == resolve(there, "p", house.site).wired == (FABRIC,)
    document = house.site.model_dump(mode="json")
    document["ipu_pods"]["other"] = {**document["ipu_pods"][POD]}
    document["ipu_pods"]["other"]["data"] = {
        **document["ipu_pods"][POD]["data"],
        "fabric": None,
        "physical_network": "physother",
        "segments": {"first": 3000, "last": 3001},
    }
    site = Site.model_validate(document)
    elsewhere = order(ipus={"count": 16, "ipu_pod": "other"})
    assert resolve(elsewhere, "p", site).wired == () and resolve(anywhere, "p", site).wired == (FABRIC,)


def neutrons(document: dict[str, Any]) -> None:
    document["fabrics"][FABRIC]["manager"]["switching"]["configured_by"] = "neutron"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: d["ipu_pods"][POD]["data"].update(fabric="ib0"), "Ethernet fabrics whose VLANs weft sets"),
        (lambda d: d["ipu_pods"][POD]["data"].update(fabric=None), "required, or a fabric"),
        (
            lambda d: d["ipu_pods"][POD]["data"].update(physical_network="x"),
            "omitted: it is that of fabric roce",
        ),
        (lambda d: d["ipu_machines"][0].update(rnic_switch_port=None), "required: the data network is"),
        (neutrons, "Ethernet fabrics whose VLANs weft sets"),
        (
            lambda d: d["ipu_machines"][0].update(rnic_switch_port="Ethernet2"),
            "a switch port must be unique",
        ),
        (lambda d: d["ipu_machines"][0].update(rnic_switch="tor9"), "switches of fabric roce"),
        (
            lambda d: [n.update(hcas=[]) for n in d["nodes"] if n["role"] == "poplar"],
            "an adapter on fabric roce, the data network of IPU-POD",
        ),
    ],
)
def test_impossible_data_network_of_ipus_is_reported(
    house: SwitchedHouse, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    document = house.site.model_dump(mode="json")
    change(document)
    found = [allowed for _, _, allowed in check_site(Site.model_validate(document))]
    assert any(sentence in allowed for allowed in found), found


def widened(document: dict[str, Any]) -> None:
    document["fabrics"][FABRIC]["segments"]["last"] += 1


def moved(document: dict[str, Any]) -> None:
    first, last = document["fabrics"][FABRIC]["segments"].values()
    document["fabrics"][FABRIC]["segments"] = {"first": last + 1, "last": last + 1 + last - first}


def test_range_of_a_live_pods_number_stays_in_the_site(house: SwitchedHouse) -> None:
    """weft leaves numbers outside of the range alone: a moved range would leave the pod's forever."""
    pod = house.booted()
    document = house.site.model_dump(mode="json")
    moved(document)
    with pytest.raises(ConflictError, match=rf"{FABRIC}.segments .*{segment(pod).number} is held"):
        house.service.site.activate(house.operator, document)
    document = house.site.model_dump(mode="json")
    widened(document)
    house.service.site.activate(house.operator, document)
