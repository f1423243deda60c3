"""A pod of IPUs shows its IPUs, its controller and its data network, to tenants too; other pods have none."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine import ipuhouse
from weft.cli.podrecord import record
from weft.engine.base.database import Database
from weft.model.pod import PodState
from weft.model.specs import NetworkSpec, PortSpec


@pytest.fixture
def ipus(database: Database, database_url: str) -> Generator[ipuhouse.IpuHouse]:
    house = ipuhouse.IpuHouse(database, database_url)
    yield house
    house.close()


def test_pod_of_ipus_shows_how_they_are_reached(ipus: ipuhouse.IpuHouse) -> None:
    """The values are those of the graph that was made: controller's port, VLAN and addresses of the data network."""
    pod = ipus.booted()
    graph = pod.plan.graph.by_key()
    port, network = graph["port/controller/management"].spec, graph["network/data"].spec
    assert isinstance(port, PortSpec) and isinstance(network, NetworkSpec)
    shown = ipus.service.pods.show(ipus.request(), "bert")
    assert shown.ipus is not None
    assert (shown.ipus.count, shown.ipus.ipu_pod) == (16, ipuhouse.POD)
    assert shown.ipus.machines == tuple(n.node for n in pod.plan.placement.nodes)
    assert shown.ipus.controller == f"{port.address}:8090"
    assert (shown.ipus.data_vlan, shown.ipus.data_addresses) == (
        network.segment,
        pod.plan.allotment.rdma_cidr,
    )
    fields = record(shown.model_dump(mode="json")).fields
    assert fields["ipus"] == f"16 of {ipuhouse.POD}"
    assert fields["controller"] == f"{port.address}:8090"
    assert fields["data_network"] == f"VLAN {network.segment}, {pod.plan.allotment.rdma_cidr}"


def test_pod_without_ipus_shows_none(ipus: ipuhouse.IpuHouse) -> None:
    """Neither a waiting one, nor one of GPU nodes."""
    pod = ipus.run(ipus.order(), PodState.READY)
    shown = ipus.service.pods.show(ipus.request(), pod.name)
    assert shown.ipus is None
    assert "ipus" not in record(shown.model_dump(mode="json")).fields
