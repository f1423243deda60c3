"""A lab whose fabric is managed by the stand-in for UFM: pods from order to receipt, and networks that tenants made."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.ownnetworks import LAST, Cloud, adapters, cloud_of
from tests.e2e.people import People, assert_clean, connection, wait_for
from tests.helpers.ownlab import own_lab
from weft.planning.fabric.functions import adapter_at, guid_of
from weftlab.fabric.faults import Faults
from weftlab.lab import Lab
from weftlab.ufm.control import UfmControl

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own; the driver's contract on the same stand-in runs by day"),
]


@pytest.fixture(scope="module")
def lab() -> Generator[Lab]:
    with own_lab(fabric_manager="ufm", tenant_networks=True, ipus=0) as lab:
        yield lab


def test_pod_on_ufm_goes_from_order_to_receipt(lab: Lab, people: People) -> None:
    """What the ports' own tables and their leaf ports' show is read past weft and past UFM."""
    tenant, operator = (replace(people(who), program=True) for who in ("team-a", "operator"))
    faults, ufm = Faults(lab.layout, lab.site, lab.supervisor), UfmControl(lab.layout.port("ufm-control"))
    adapters = [h.port_guid for n in lab.site.nodes for h in n.hcas_on("ib0")]

    def wired(number: int) -> set[int]:
        """Host ports that have the P_Key as full members, each with its leaf's port."""
        found = faults.read_tables(adapters)
        for host, leaf in found.values():
            assert (0x8000 | number in host) == (0x8000 | number in leaf)
        return {g for g, (host, _) in found.items() if 0x8000 | number in host}

    made = tenant.order("train", 2, "--wait", "--json")
    assert made.code == 0, made.err
    pod = tenant.weft("pod", "show", "train", "--json").json
    number = int(pod["segment"], 16)
    members = {h.port_guid for n in pod["placed"] for h in lab.site.node_by_name[n["node"]].hcas_on("ib0")}
    assert pod["state"] == "READY" and wired(number) == members
    assert_clean(operator)

    before = ufm.status()["active"]
    ufm.do("failover")
    assert ufm.status()["active"] != before
    grown = tenant.order("second", 1, "--wait", "--json")
    assert grown.code == 0, grown.err
    assert tenant.weft("pod", "show", "train", "--json").json["state"] == "READY"
    assert wired(number) == members
    assert_clean(operator)

    for name in ("train", "second"):
        assert tenant.weft("pod", "release", name, "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "train", "--json")
    assert receipt.json["receipt"]["clean"]
    (tenant.folder / "receipt.json").write_text(receipt.out)
    assert tenant.verify("receipt.json").code == 0
    assert wired(number) == set()
    assert_clean(operator)


FUNCTIONS = """\
name: {name}
nodes: {{count: {count}, accelerators: {{type: h100, count: 1}}, image: tiny, sharing: shared}}
fabric: {{hcas: shared}}
"""


def test_virtual_functions_on_ufm_go_from_order_to_receipt(lab: Lab, people: People) -> None:
    """Nova picks them, Neutron binds their ports; UFM lists exactly their GUIDs, until the release."""
    tenant, operator = (replace(people(who), program=True) for who in ("team-b", "operator"))
    admin = connection(lab, "operator")
    ufm = UfmControl(lab.layout.port("ufm-control"))

    def order(name: str, count: int) -> dict[str, Any]:
        (tenant.folder / f"{name}.yaml").write_text(FUNCTIONS.format(name=name, count=count))
        made = tenant.weft("pod", "create", "-f", f"{name}.yaml", "--wait", "--json")
        assert made.code == 0, made.err
        return tenant.weft("pod", "show", name, "--json").json

    def bound(pod: dict[str, Any]) -> dict[str, str]:
        """GUID of each of the pod's functions -> GUID of the port that it is behind, by Nova's PCI addresses."""
        found: dict[str, str] = {}
        servers = {s.id for s in admin.compute.servers(all_projects=True, project_id=pod["project_id"])}
        for port in admin.network.ports(project_id=pod["project_id"]):
            if port.binding_vnic_type != "direct" or port.device_id not in servers:
                continue
            assert port.binding_vif_type == "hw_veb" and port.status == "ACTIVE"
            node = next(n for n in lab.site.nodes if n.nova_host == port.binding_host_id)
            hca = adapter_at(node, port.binding_profile["pci_slot"])
            (adapter,) = (h for h in node.hcas if h.name == hca)
            found[f"{guid_of(port.mac_address):016x}"] = f"{adapter.port_guid:016x}"
        return found

    one = order("one", 2)
    mine = bound(one)
    assert len(mine) == 2 and one["state"] == "READY"
    assert {n["node"] for n in one["placed"]} != set() and ufm.members(one["segment"]) == mine.keys()
    two = order("two", 1)
    assert two["segment"] != one["segment"]
    others = bound(two).keys() - mine.keys()
    assert len(others) == 1 and ufm.members(two["segment"]) == others
    assert {n["node"] for n in two["placed"]} <= {n["node"] for n in one["placed"]}, "they share a host"
    assert ufm.members(one["segment"]) == mine.keys()
    assert_clean(operator)

    released = tenant.weft("pod", "release", "one", "--wait", "--json")
    assert released.code == 0, released.err
    receipt = tenant.weft("pod", "receipt", "one", "--json")
    assert receipt.code == 0, receipt.out
    assert ufm.members(one["segment"]) == set()
    assert bound(two).keys() == others and ufm.members(two["segment"]) == others
    assert tenant.weft("pod", "show", "two", "--json").json["state"] == "READY"
    assert tenant.weft("pod", "release", "two", "--wait").code == 0
    assert_clean(operator)


@pytest.fixture
def cloud(lab: Lab, people: People) -> Iterator[Cloud]:
    yield from cloud_of(lab, people)


def test_tenants_own_network_takes_a_virtual_function(cloud: Cloud) -> None:
    """Nova picks the function of a `direct` port, UFM lists its GUID; both are gone with the server."""
    network, ufm = cloud.network(LAST), UfmControl(cloud.lab.layout.port("ufm-control"))
    server, port = cloud.server(network, "direct")
    mine = {f"{guid_of(port.mac_address):016x}"}

    def said() -> str:
        shown = cloud.person.weft("network", "show", network.id, "--json")
        return shown.json["ports"][0]["state"] if shown.out and shown.json.get("ports") else ""

    wait_for(lambda: said() == "in")
    assert ufm.members(f"{LAST:#x}") == mine and cloud.wired(LAST) == set()
    assert f"port {port.id} is in segment {LAST:#x}" in cloud.person.weft("network", "events", network.id).out
    cloud.end(server)
    wait_for(lambda: ufm.members(f"{LAST:#x}") == set())


def test_networks_move_to_weft_and_back_to_ufms_plugin(cloud: Cloud) -> None:
    """docs/fabric-managers.md, there and back: partitions that UFM's service for Neutron made are taken over without a
    request, but for one with a member that Neutron doesn't know. Without weft everything stays.
    """
    ufm, places = UfmControl(cloud.lab.layout.port("ufm-control")), adapters(cloud.site, 8, 5)
    cloud.lab.supervisor.stop(["weft"], giving_up=False)
    same, other = cloud.network(LAST - 1), cloud.network(LAST - 2)
    for host, hca in places[:2]:
        cloud.bare_metal(same, host, hca)
    cloud.bare_metal(other, *places[2])
    guids = [f"{hca.port_guid:016x}" for _, hca in places]
    ufm.foreign(f"{LAST - 1:#x}", dict.fromkeys(guids[:2], "full"))
    ufm.foreign(f"{LAST - 2:#x}", dict.fromkeys(guids[2:4], "full"))
    before = ufm.status()["changes"]
    cloud.lab.up()
    assert len(cloud.settled(same, LAST - 1)) == 2

    def shown() -> str:
        return cloud.person.weft("network", "show", other.id).out

    wait_for(lambda: guids[3] in shown())
    assert ufm.members(f"{LAST - 2:#x}") == set(guids[2:4])
    assert ufm.status()["changes"] == before
    ufm.foreign(f"{LAST - 2:#x}", {guids[2]: "full"})
    assert len(cloud.settled(other, LAST - 2)) == 1
    cloud.bare_metal(same, *places[4])
    assert len(cloud.settled(same, LAST - 1)) == 3
    cloud.lab.supervisor.stop(["weft"], giving_up=False)
    assert len(cloud.wired(LAST - 1)) == 3 and len(cloud.wired(LAST - 2)) == 1
