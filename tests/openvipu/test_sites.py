"""Agents, clusters, their tests, allocations and several domains, on a running controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from openvipu.clients.config import Connection
from openvipu.clients.session import CommandError, Session
from openvipu.hardware.fabric import Fault
from openvipu.proto import admin_pb2, catalog_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.vipuhouse import POD4, POD64, Controller, controlling, house, new_config, refused, until


def test_options_and_allocations_are_listed(pod16: Controller) -> None:
    """Options say which is free and which is preferred."""
    pod16.add_allocation("a", 8)
    pod16.create_active("p", 4, allocation_id="a")
    wanted = pb.PartitionRequirements(id="q", size=4, allocation_id="a")
    options = pod16.catalog.ListPartitionOptions(
        catalog_pb2.ListPartitionOptionsRequest(requirements=wanted)
    ).options
    assert [(option.index, option.free, option.preferred) for option in options] == [
        (0, False, False),
        (1, True, True),
    ]
    listed = pod16.catalog.ListAllocations(catalog_pb2.ListAllocationsRequest()).allocations
    assert [(entry.id, list(entry.spec.agent_ids)) for entry in listed] == [("a", ["ipum1", "ipum2"])]


def test_cluster_tests_find_every_fault(pod16: Controller) -> None:
    """A healthy cluster passes; bad cables and a dead IPU fail the tests that concern them."""
    results = pod16.admin.TestCluster(admin_pb2.TestClusterRequest(id="c")).results
    assert [result.test_type for result in results] == [
        "Version", "Cabling", "Sync-Link", "Link-Training", "Traffic", "GW-Link", "GW-Traffic",
    ]  # fmt: skip
    assert all(result.passed == result.total for result in results)
    pod16.pod.plant(Fault("bad-cable", "ipum2", "up3"))
    pod16.pod.plant(Fault("bad-cable", "ipum1", "sync-up0"))
    pod16.pod.plant(Fault("dead-ipu", "ipum4", "0"))
    failed = {
        result.test_type: list(result.failures)
        for result in pod16.admin.TestCluster(admin_pb2.TestClusterRequest(id="c")).results
        if result.failures
    }
    assert failed == {
        "Cabling": ["cable ipum2:up3 to ipum3:down3 has no link"],
        "Sync-Link": ["Sync-Link ipum1:sync-up0 to ipum2:sync-down0 has no link"],
        "Link-Training": [
            "ipum2: up3 didn't train",
            "ipum3: down3 didn't train",
            "ipum4: IPU 0 doesn't respond",
        ],
        "Traffic": ["ipum2: up3 lost packets", "ipum3: down3 lost packets", "ipum4: IPU 0 doesn't respond"],
    }


def test_cluster_tests_are_refused_while_partitions_exist(pod16: Controller) -> None:
    """Tests disturb traffic. An unknown test is refused by name."""
    pod16.create_active("p", 1)
    code, words = refused(lambda: pod16.admin.TestCluster(admin_pb2.TestClusterRequest(id="c")))
    assert (code, "partition 'p'" in words) == (grpc.StatusCode.FAILED_PRECONDITION, True)
    code, words = refused(lambda: pod16.admin.TestCluster(admin_pb2.TestClusterRequest(id="c", tests=["X"])))
    assert (code, "test 'X' is not known" in words) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_wrong_cabling_is_refused_at_creation(tmp_path: Path) -> None:
    """No cluster is made of agents out of cable order, or of a torus without its loop."""
    with (
        SimulatedPod(PodConfig(POD64, port=0)) as pod,
        controlling(pod, new_config(tmp_path)) as controller,
    ):
        controller.add_agents("ipum1", "ipum2", "ipum3", "ipum4")
        code, words = refused(lambda: controller.add_cluster("c", "ipum1", "ipum3"))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "ipum1:up0 must lead to ipum3:down0; it leads to 0024.0002.8000002:down0" in words
        loop = ("ipum1", "ipum2", "ipum3", "ipum4")
        code, words = refused(lambda: controller.add_cluster("c", *loop, topology="torus"))
        assert "ipum4:up0 must lead to ipum1:down0" in words
        controller.add_cluster("c", *loop)


def test_agent_is_added_once_and_not_removed_from_a_cluster(pod16: Controller) -> None:
    """A taken id and a taken address are refused; an address that doesn't answer is UNAVAILABLE."""
    agent = pod16.pod.agents["ipum1"]
    spec = admin_pb2.AgentSpec(host=agent.host, port=agent.port)
    for id_, words in [
        ("ipum1", "agent 'ipum1' exists"),
        ("other", f"{agent.host}:{agent.port} is agent 'ipum1'"),
    ]:
        request = admin_pb2.CreateAgentRequest(id=id_, spec=spec)
        code, sentence = refused(lambda request=request: pod16.admin.CreateAgent(request))
        assert (code, words in sentence) == (grpc.StatusCode.ALREADY_EXISTS, True)
    missing = admin_pb2.CreateAgentRequest(id="x", spec=admin_pb2.AgentSpec(host="127.0.0.1", port=1))
    code, sentence = refused(lambda: pod16.admin.CreateAgent(missing))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "agent x at 127.0.0.1:1 can't be reached for Claim" in sentence
    code, sentence = refused(lambda: pod16.admin.RemoveAgent(admin_pb2.RemoveAgentRequest(id="ipum1")))
    assert (code, "is in cluster 'c'" in sentence) == (grpc.StatusCode.FAILED_PRECONDITION, True)


def test_failed_command_says_whether_agent_or_controller_was_unreachable(pod16: Controller) -> None:
    """Both are UNAVAILABLE; `apply` waits for either by this cause, not by the sentence."""
    spec = admin_pb2.AgentSpec(host="127.0.0.1", port=1)
    create = admin_pb2.CreateAgentRequest(id="x", spec=spec)

    def cause(port: int, call: Callable[[Session], tuple[Any, Any]]) -> str:
        session = Session(Connection("127.0.0.1", port, "", "", ""), False, True)
        with pytest.raises(CommandError) as failed:
            session.call("try", *call(session))
        session.channel.close()
        return failed.value.cause

    port = pod16.server.admin_port
    assert cause(port, lambda s: (s.admin.CreateAgent, create)) == "agent"
    assert cause(1, lambda s: (s.admin.CreateAgent, create)) == "controller"
    missing = admin_pb2.RemoveAgentRequest(id="x")
    assert cause(port, lambda s: (s.admin.RemoveAgent, missing)) == "missing"


def test_removed_agent_is_free_for_another_controller(tmp_path: Path) -> None:
    """Removing releases the machine. If it doesn't answer the refusal names --force."""
    with (
        SimulatedPod(PodConfig(POD4, port=0)) as pod,
        controlling(pod, new_config(tmp_path)) as one,
        controlling(pod, new_config(tmp_path, "controller-b")) as two,
    ):
        one.add_agents()
        assert refused(two.add_agents)[0] is grpc.StatusCode.PERMISSION_DENIED
        pod.plant(Fault("agent-gone", "ipum1"))
        request = admin_pb2.RemoveAgentRequest(id="ipum1")
        code, words = refused(lambda: one.admin.RemoveAgent(request))
        assert (code, "--force" in words) == (grpc.StatusCode.UNAVAILABLE, True)
        pod.heal()

        def removed() -> bool:
            try:
                one.admin.RemoveAgent(request)
            except grpc.RpcError:
                return False
            return True

        until(removed)
        two.add_agents()


@pytest.mark.parametrize("switched", [False, True])
def test_partition_spans_domains(tmp_path: Path, switched: bool) -> None:
    """A POD128 has 128 IPUs in two domains, whose gateways carry packets; the tests of gateways pass."""
    from openvipu.hardware.simulated import pod_plan

    with house(tmp_path, pod_plan(128, switched)) as controller:
        results = controller.admin.TestCluster(admin_pb2.TestClusterRequest(id="c")).results
        assert all(result.passed == result.total and result.total for result in results)
        controller.create_active("p", 128, num_gcds=2)
        assert controller.pod.probe(("ipum1", 0), ("ipum32", 3)) is not None
        spec = controller.users.ListPartitions(pb.ListPartitionsRequest()).partitions[0].spec
        assert spec.gw_routing_type == (pb.GRT_SWRING if switched else pb.GRT_RING)
        assert spec.num_ipulink_segments == 2
        assert {ipu.ipulink_domain_routing_id for ipu in spec.ipus} == {0, 1}
        controller.remove_whole("p")
