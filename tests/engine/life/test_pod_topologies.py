"""Topologies of pods of each shape: servers on shared nodes, machines, IPUs."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import pytest

from tests.engine import ipuhouse, metalhouse
from tests.engine.house import House
from tests.engine.life.test_parts import small
from weft.engine.base.database import Database
from weft.model.errors import ConflictError
from weft.model.pod import PodState

metal = metalhouse.house


@pytest.fixture
def ipus(database: Database, database_url: str) -> Generator[ipuhouse.IpuHouse]:
    house = ipuhouse.IpuHouse(database, database_url)
    yield house
    house.close()


def _hosts(house: House, pod: str, format_: str = "hostfile") -> list[str]:
    text = house.service.pods.topology(house.request(), pod, format_).text
    return [line for line in text.splitlines() if not line.startswith("#")]


def _known(house: House, pod: str) -> dict[str, Any]:
    return json.loads(house.service.pods.topology(house.request(), pod, "json").text)


def _refused(house: House, pod: str, format_: str) -> str:
    with pytest.raises(ConflictError) as refused:
        house.service.pods.topology(house.request(), pod, format_)
    return refused.value.message.code


def test_servers_on_one_shared_node_are_listed_each(house: House) -> None:
    """With the accelerators of a server, not of the node; without an RDMA network, no place."""
    house.run(house.order(small("p", 2)), PodState.READY)
    assert _hosts(house, "p") == ["p-0 slots=1", "p-1 slots=1"]
    assert len({s["node"] for s in _known(house, "p")["servers"]}) == 1
    assert _refused(house, "p", "slurm-conf") == "TOPOLOGY_NO_FABRIC"


def test_machines_have_places_and_no_rankfile(metal: House) -> None:
    """The site doesn't have a machine's cores; Slurm's tree has each machine under its leaf."""
    pod = metal.run(metal.order(metalhouse.ORDER), PodState.READY)
    lines = _hosts(metal, "train", "slurm-conf")
    leaves = {n.leaf for n in pod.plan.placement.nodes}
    assert {line.split()[0] for line in lines if "Nodes=" in line} == {
        f"SwitchName={leaf}" for leaf in leaves
    }
    assert len(_hosts(metal, "train")) == 2
    assert _refused(metal, "train", "rankfile") == "TOPOLOGY_UNREAD"


def test_ipu_pod_has_its_poplar_servers_alone(ipus: ipuhouse.IpuHouse) -> None:
    """Not the site's controller; its IPUs are on no fabric of switches."""
    ipus.booted()
    known = _known(ipus, "bert")
    assert [s["name"] for s in known["servers"]] == ["bert-0"] and known["left_out"] == {}
    assert known["fabric_type"] is None and known["pkey"] is None
    assert _hosts(ipus, "bert") == ["bert-0"]
    for name in ("slurm-conf", "kubernetes", "nccl-env", "topograph"):
        assert _refused(ipus, "bert", name) == "TOPOLOGY_NO_FABRIC"
