"""A pod from order to receipt on a lab whose fabric is managed by the stand-in for UFM, which fails over meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.e2e.people import People, assert_clean
from weftlab.fabric.faults import Faults
from weftlab.lab import Lab
from weftlab.layout import free_ports
from weftlab.ufm.control import UfmControl

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own; the driver's contract on the same stand-in runs by day"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    made = Lab(tmp_path_factory.mktemp("ufm"), ports=free_ports(), say=print, fabric_manager="ufm", ipus=0)
    made.up()
    try:
        yield made
    finally:
        made.down()
        assert made.layout.taken_ports() == {}


def test_from_order_to_receipt(lab: Lab, people: People) -> None:
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
    assert tenant.weft("receipt", "verify", "receipt.json").code == 0
    assert wired(number) == set()
    assert_clean(operator)
