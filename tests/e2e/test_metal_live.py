"""Pods of machines on a real Ironic, Neutron and OpenSM, by Nova's ironic driver and without Nova."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from tests.e2e.people import People, Person, assert_clean, connection, wait_for
from tests.helpers.ownlab import own_lab
from weft.model.site import Node
from weft.planning.fabric.addressing import mac_of_guid
from weftlab.lab import Lab
from weftlab.metal.enroll import system
from weftlab.metal.machines import FLAVOR, machines
from weftlab.metaldemo import in_iso

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="two labs of its own; the driver runs on a real Ironic by day, and both ways are demos"
    ),
]
POD = f"""\
name: metal
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: tiny}}
fabric: {{isolation: partition}}
"""
PATIENCE = 240.0


@pytest.fixture(scope="module", params=["ironic", "nova"])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    folder = tmp_path_factory.mktemp(f"metal-{request.param}")
    with own_lab(folder, nodes=4, computes=1, ipus=0, metal=2, machines_by=request.param) as lab:
        yield lab


def state(who: Person) -> str:
    return str(who.weft("pod", "show", "metal", "--json").json["state"])


def nodes(lab: Lab) -> dict[str, Any]:
    bare: Any = system(lab.layout).baremetal
    return {node.name: bare.get_node(node.machine) for node in machines(lab.site)}


def addresses_in_drive(lab: Lab, node: Node) -> dict[str, str]:
    """MAC address of a link -> static address on it, as the machine's own config drive has them."""
    drive = lab.layout.data / "machines" / str(node.machine) / "config-drive"
    told = json.loads(in_iso(drive, "/openstack/latest/network_data.json"))
    macs = {link["id"]: link["ethernet_mac_address"] for link in told["links"]}
    return {macs[n["link"]]: n["ip_address"] for n in told["networks"] if n["type"] == "ipv4"}


def test_a_pod_of_machines_from_order_to_receipt_with_reboot_and_rescue(lab: Lab, people: People) -> None:
    tenant, operator = people("team-a"), people("operator")
    (tenant.folder / "metal.yaml").write_text(POD)
    made = tenant.weft("pod", "create", "-f", str(tenant.folder / "metal.yaml"), "--wait", timeout=500)
    assert made.code == 0, made.err
    by_nova = lab.site.clouds["lab"].machines_by == "nova"
    assert len(list(connection(lab, "team-a").compute.servers())) == (2 if by_nova else 0)

    ports: Any = connection(lab, "operator").network.ports()
    there = {str(p.mac_address): str(p.fixed_ips[0]["ip_address"]) for p in ports if p.fixed_ips}
    for node in machines(lab.site):
        mac = mac_of_guid(node.hcas[0].port_guid)
        assert addresses_in_drive(lab, node)[mac] == there[mac]

    one = machines(lab.site)[0].name
    assert tenant.weft("pod", "reboot", "metal", one, "--hard").code == 0
    wait_for(lambda: nodes(lab)[one].power_state == "power on" and state(tenant) == "READY", PATIENCE)
    rescued = tenant.weft("pod", "rescue", "metal", one)
    assert rescued.code == 0, rescued.err
    wait_for(lambda: nodes(lab)[one].provision_state == "rescue", PATIENCE)
    wait_for(lambda: state(tenant) == "DEGRADED", PATIENCE)
    ended = wait_for(lambda: tenant.weft("pod", "unrescue", "metal", one), PATIENCE)
    assert ended.code == 0, ended.err
    wait_for(lambda: state(tenant) == "READY", PATIENCE)
    assert tenant.weft("pod", "console", "metal", one).code != 0, "these machines have none"
    assert_clean(operator)

    gone = tenant.weft("pod", "release", "metal", "--wait", timeout=500)
    assert gone.code == 0, gone.err
    receipt = tenant.weft("pod", "receipt", "metal", "--json").json["receipt"]
    assert receipt["clean"]
    assert len([i for i in receipt["items"] if i["plane"] == "machine" and "disks erased" in i["seen"]]) == 2
    assert {(n.provision_state, n.extra.get("weft"), n.instance_id) for n in nodes(lab).values()} == {
        ("available", None, None)
    }
    assert_clean(operator)
