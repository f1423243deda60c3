"""A pod of machines from enrolment to receipt where Neutron sets the switches, on the lab's own switches.

A second weft, with a site of two machines that are cabled to the lab's switches. A real Ironic deploys and cleans them
over these adapters, asked by weft itself or by Nova's ironic driver, and Neutron with networking-generic-switch and
weft's drivers puts each port into a VLAN whenever Ironic asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from openstack.connection import Connection

from tests.drivers.openstack.real_ironic import RealIronic, real_ironic
from tests.e2e.people import Answer, connection, wait_for
from tests.e2e.secondweft import Elsewhere, clouds_of, second_weft
from tests.e2e.switchedironic import CLEANING, PROVISIONING, ironics, networks
from tests.e2e.switchedmetal import (
    CABLED,
    MANAGEMENT,
    SEGMENTS,
    Watch,
    database_of,
    list_of,
    machine_of,
    site_of,
    watched,
)
from tests.e2e.switchedneutron import operator_of, switched_neutron
from tests.e2e.switchednova import nova_with_machines, offered
from weftlab.lab import Lab
from weftlab.metal.machines import FLAVOR, mac, machine_id
from weftlab.site import write_site
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import FABRIC, host_name, lab_ovs

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="minutes of Ironic's deployments; Neutron with the switches runs by day, and pods by fakes"
    ),
]

POD = f"""\
name: metal
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: tiny}}
"""
STRANGERS = ("roce01", "roce03")
"""Nodes of the lab on the same leaves."""


@dataclass(frozen=True, slots=True)
class Rig:
    """A second weft's site of machines on the lab's switches, and what serves it.

    Attributes:
        cloud: an administrator's connection to the Neutron that sets switches.
        by: who deploys.
    """

    lab: Lab
    watch: Watch
    cloud: Connection
    ironic: RealIronic
    people: Elsewhere
    by: str

    def typed(self, cloud: str, *words: str) -> Answer:
        answer = self.people.weft(cloud, *words)
        assert answer.code == 0, answer.out + answer.err
        return answer

    def pod(self) -> Any:
        return self.typed("team-a", "pod", "show", "metal", "--json").json

    def awaited(self, state: str) -> Any:
        return wait_for(lambda: pod if (pod := self.pod())["state"] == state else None)

    def servers(self, pod: Any) -> dict[str, str]:
        """Machine -> state of the pod's server on it, by Nova; empty: Nova has none of them."""
        compute: Any = connection(self.lab, "operator").compute
        ids = [r["id"] for r in pod["resources"] if r["key"].startswith("server/")]
        found = {s.id: s for s in compute.servers(all_projects=True)}
        return {found[i].hypervisor_hostname: found[i].status for i in ids if i in found}

    def ports(self, pod: str) -> list[Any]:
        listed: Any = self.cloud.network.ports()
        return [port for port in listed if str(port.name).startswith(f"weft-{pod[:8]}-")]


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="weft-switched-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(params=["ironic", "nova"])
def rig(request: pytest.FixtureRequest, lab: Lab, folder: Path) -> Iterator[Rig]:
    """A rig whose machines are enrolled, and free."""

    def made(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name

    by: str = request.param
    with ExitStack() as undo:
        watch = undo.enter_context(watched(lab))
        neutron = undo.enter_context(switched_neutron(lab, made("neutron")))
        cloud = operator_of(lab, neutron)
        sections = ironics(lab, neutron, undo.enter_context(networks(cloud)))
        sections |= undo.enter_context(database_of(lab))
        ironic = undo.enter_context(real_ironic(made("ironic"), sections, count=len(CABLED)))
        described = site_of(lab, by)
        site = write_site(described, made("site"))
        if by == "nova":
            undo.enter_context(nova_with_machines(lab, neutron, ironic, made("nova")))
        people = undo.enter_context(second_weft(lab, site, clouds_of(lab, neutron, ironic, folder)))
        rig = Rig(lab, watch, cloud, ironic, people, by)
        rig.typed("enroller", "site", "enroll", str(site), str(list_of(lab, ironic, watch, by)))
        if by == "nova":
            offered(lab, described)
        yield rig


def test_pods_switch_ports_follow_ironics_and_its_own_vlans(rig: Rig) -> None:
    """Cleaning, provisioning, the pod's, cleaning: each port in none but one, and in none when its machine is free."""
    watch, people = rig.watch, rig.people
    (people.folder / "metal.yaml").write_text(POD)
    rig.typed("team-a", "pod", "create", "-f", "metal.yaml", "--wait")
    shown = rig.pod()
    number, now = int(shown["segment"]), watch.now()
    assert {now[f"{name} rdma"] for name in CABLED} == {frozenset({number})}
    [management] = {now[f"{name} management"] for name in CABLED}
    assert number in SEGMENTS and management <= {*MANAGEMENT} and len(management) == 1
    assert_bound(rig, shown["id"])
    on = CABLED if rig.by == "nova" else ()
    assert rig.servers(shown) == {machine_id(name): "ACTIVE" for name in on}
    assert_frames(rig.lab, members=True)
    rig.typed("operator", "audit")
    taken_off_and_put_back(rig, shown["id"])

    rig.typed("team-a", "pod", "release", "metal", "--wait")
    (people.folder / "receipt.json").write_text(rig.typed("team-a", "pod", "receipt", "metal", "--json").out)
    (people.folder / "weft.pub").write_text(rig.typed("team-a", "receipt", "key").out)
    rig.typed("team-a", "receipt", "verify", "receipt.json", "--key", "weft.pub")
    assert_clean_receipt(json.loads((people.folder / "receipt.json").read_text())["receipt"])
    rig.typed("operator", "audit")
    wait_for(lambda: not any(watch.all_of(end) for end in watch.ends.values()), 60)
    assert_nothing_is_left(rig, shown)
    for name in CABLED:
        turns = [{CLEANING}, {PROVISIONING}, {number}, {CLEANING}]
        assert watch.used(f"{name} management") == [*turns[:2], management, turns[3]], watch.seen
        if name == next(iter(CABLED)):
            turns.insert(2, {number})  # it was taken off
        assert watch.used(f"{name} rdma") == turns, watch.seen


def assert_bound(rig: Rig, pod: str) -> None:
    """Neutron has each of its ports bound and up, with a machine's adapter and the switch port that it is cabled to."""
    ports, ends = rig.ports(pod), rig.watch.ends
    states = {(p.status, p.binding_vif_type, p.binding_vnic_type) for p in ports}
    assert states == {("ACTIVE", "other", "baremetal")}, ports
    found = {(p.binding_host_id, p.mac_address): cabled(p) for p in ports}
    wanted: dict[tuple[str, str], str] = {}
    for index, name in enumerate(CABLED):
        wanted[machine_id(name), str(machine_of(rig.lab, name).hcas[0].mac)] = ends[f"{name} rdma"]
        wanted[machine_id(name), mac(index)] = ends[f"{name} management"]
    assert found == wanted and len(ports) == len(wanted)


def cabled(port: Any) -> str:
    [link] = port.binding_profile["local_link_information"]
    return f"{link['switch_info']}/{link['port_id']}"


def assert_frames(lab: Lab, members: bool) -> None:
    """Fail unless what is behind these switch ports reaches the other machine by each of its networks, and nothing
    else. Args: members: otherwise it reaches nothing."""
    rdma, management = ([space(lab, node, place) for node in CABLED.values()] for place in range(2))
    others = [space(lab, node, 0) for node in STRANGERS]
    address = {name: f"10.129.0.{n}" for n, name in enumerate([*rdma, *management, *others], 1)}
    reach = Reach(lab_ovs(lab.layout))
    with reach.taken({name: f"{own}/24" for name, own in address.items()}):
        every = {(here, own) for here in address for there, own in address.items() if there != here}
        inside = {(a, address[b]) for pair in (rdma, management) for a in pair for b in pair if a != b}
        expected = inside if members else set[tuple[str, str]]()
        assert reach.awaited(expected, 40) == expected
        assert reach.answered(every - expected) == set()


def space(lab: Lab, node: str, place: int) -> str:
    """Namespace of an adapter of a node."""
    return host_name(node, lab.site.node_by_name[node].hcas_on(FABRIC)[place].name)


def taken_off_and_put_back(rig: Rig, pod: str) -> None:
    """An adapter's port detached in Ironic is parked on its switch, and the pod is DEGRADED until it is attached."""
    name = next(iter(CABLED))
    end = f"{name} rdma"
    [port] = [p for p in rig.ports(pod) if cabled(p) == rig.watch.ends[end]]
    vifs = f"nodes/{machine_id(name)}/vifs"
    rig.ironic.ask("DELETE", f"{vifs}/{port.id}")
    wait_for(lambda: not rig.watch.now()[end], 60)
    rig.awaited("DEGRADED")
    rig.ironic.ask("POST", vifs, {"id": port.id})
    rig.awaited("READY")
    assert rig.watch.now()[end] == {int(rig.pod()["segment"])}
    assert_bound(rig, pod)


def assert_clean_receipt(receipt: Any) -> None:
    """Each machine with the record of its cleaning, each switch port read without the VLAN."""
    items = receipt["items"]
    assert receipt["clean"] and {i["result"] for i in items} == {"clean"}, items
    machines = [i["seen"] for i in items if i["plane"] == "machine"]
    assert len(machines) == len(CABLED) and all("disks erased" in seen for seen in machines), items
    assert sum(i["plane"] == "switch port" for i in items) == len(CABLED), items


def assert_nothing_is_left(rig: Rig, pod: Any) -> None:
    """Fail if something of the pod is left in Neutron, Nova, Ironic or on the wire: parked ports reach nothing."""
    assert not rig.ports(pod["id"]) and not rig.servers(pod)
    for name in CABLED:
        node = rig.ironic.ask("GET", f"nodes/{machine_id(name)}")
        left = (node["instance_uuid"], node["extra"].get("weft"))
        assert (node["provision_state"], *left) == ("available", None, None)
        assert rig.ironic.ask("GET", f"nodes/{machine_id(name)}/vifs")["vifs"] == []
    assert_frames(rig.lab, members=False)
