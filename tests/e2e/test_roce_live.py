"""Pods on Ethernet switches of several vendors: real frames, from order to receipt, beside the InfiniBand fabric."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.e2e.people import People, Person, assert_clean, connection
from weft.app.sitefile import load_site
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.ports.ledger import NoLedger
from weftlab.lab import Lab
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK, host_name, lab_ovs

pytestmark = pytest.mark.cloud

POD = """\
name: {name}
nodes: {{count: 2, flavor: a100x8, image: tiny}}
"""


def ordered(person: Person, name: str) -> dict[str, str]:
    """Address on the RDMA network -> namespace of the adapter, of a pod of two nodes that is READY."""
    (person.folder / f"{name}.yaml").write_text(POD.format(name=name))
    made = person.weft("pod", "create", "-f", f"{name}.yaml", "--wait", timeout=400)
    assert made.code == 0, made.err
    servers = person.weft("pod", "show", name, "--json").json["servers"]
    return {
        address: host_name(s["node"], f"mlx5_{n}")
        for s in servers
        for n, address in enumerate(s["rdma_addresses"])
    }


def pairs(from_: Mapping[str, str], to: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(space, address) for space in from_.values() for address in to if to[address] != space}


def carried(fabric: EthernetFabric, number: int) -> set[str]:
    """Every port of every switch, read again, that has the VLAN."""
    return {end for end, vlans in fabric.snapshot().ends.items() if number in vlans.numbers}


def test_two_tenants_on_one_fabric_reach_their_own_and_nobody_elses(lab: Lab, people: People) -> None:
    """Members by ping; strangers never, with addresses taken by root; drift is told; nothing is left on any port."""
    mine, others, operator = people("team-a"), people("team-b"), people("operator")
    train, serve = ordered(mine, "train"), ordered(others, "serve")
    reach = Reach(lab_ovs(lab.layout))
    inside = pairs(train, train)
    assert len(train) == 4 and reach.awaited(inside) == inside
    rogue = {space: f"10.128.255.{n}/9" for n, space in enumerate(train.values(), 1)}
    with reach.taken(rogue):
        assert reach.answered(pairs(train, serve)) == set()

    shown = mine.weft("pod", "show", "train", "--json").json
    number, mark = int(shown["segment"]), f"weft-{shown['id'][:8]}-"
    networks = connection(lab, "operator").network.networks()
    [network] = [n for n in networks if n.name == f"{mark}network-rdma"]
    assert (network.provider_physical_network, network.provider_segmentation_id) == (PHYSICAL_NETWORK, number)
    site = load_site(lab.site_path)
    fabric = open_fabric(site, FABRIC, NoLedger())
    try:
        placed = {n["node"] for n in shown["placed"]}
        ports = {h.port_id for n in site.nodes if n.name in placed for h in n.hcas_on(FABRIC)}
        assert carried(fabric, number) & {h.port_id for n in site.nodes for h in n.hcas_on(FABRIC)} == ports
        assert_clean(operator)

        assert mine.weft("pod", "release", "train", "--wait").code == 0
        receipt = mine.weft("pod", "receipt", "train", "--json")
        (mine.folder / "receipt.json").write_text(receipt.out)
        assert mine.weft("receipt", "verify", "receipt.json").code == 0
        assert carried(fabric, number) == set()
    finally:
        fabric.close()
    with reach.taken({space: f"{address}/24" for address, space in train.items()}):
        assert reach.answered(inside) == set()
    assert reach.awaited(pairs(serve, serve)) == pairs(serve, serve)
    assert others.weft("pod", "release", "serve", "--wait").code == 0
    assert_clean(operator)
