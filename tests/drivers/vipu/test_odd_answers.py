"""Answers of a controller about something else than was asked are not believed, since the controller is the
tenant's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openvipu.proto import admin_pb2, vipuuser_pb2
from weft.drivers.vipu.channels import At, Channel, Channels, NoRoomError
from weft.drivers.vipu.controller import Controller
from weft.drivers.vipu.proof import prove_partition
from weft.model.errors import PermanentError, UnknownError
from weft.model.resources import Resource
from weft.model.specs import VipuAgentSpec, VipuAllocationSpec, VipuUserSpec
from weft.ports.fences import unfenced
from weft.ports.resources import Scope

ALLOCATION = VipuAllocationSpec(controller="10.0.0.1", name="pod", machines=("m1", "m2"), cluster="pod")


class Stub:
    """Answers each method with the given replies, and records the requests."""

    def __init__(self, **answers: Any) -> None:
        self._answers, self.asked = answers, list[tuple[str, Any]]()

    def __getattr__(self, method: str) -> Any:
        def call(request: Any, timeout: float, metadata: object) -> Any:
            self.asked.append((method, request))
            answer = self._answers[method]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def channel(stub: Stub) -> Channel:
    return Channel("the controller", stub, cast(Any, None))


class Opened:
    """Channels to one stub."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    @contextmanager
    def admin(self, pod_id: str, at: At) -> Iterator[Channel]:
        yield channel(self._stub)

    @contextmanager
    def user(self, pod_id: str, at: At, tenant: bool) -> Iterator[Channel]:
        yield channel(self._stub)


def controller(stub: Stub) -> Controller:
    scope = SimpleNamespace(owner=SimpleNamespace(id="1"), fence=unfenced)
    return Controller(cast(Channels, Opened(stub)), cast(Scope, scope), At("10.0.0.1", True))


def status(name: str, ready: int = vipuuser_pb2.PS_ACTIVE) -> Any:
    found = vipuuser_pb2.PartitionStatus(partition_id=name, ready_state=cast(Any, ready))
    return vipuuser_pb2.GetPartitionStatusReply(status=found)


def partition(name: str, allocation: str = "pod", ipus: int = 4) -> Any:
    spec = vipuuser_pb2.PartitionSpec(allocation_id=allocation, ipus=[vipuuser_pb2.PartitionIpu()] * ipus)
    return vipuuser_pb2.Partition(id=name, spec=spec)


def agent(name: str, ipus: int = 4, reachable: bool = True) -> Any:
    infos = [admin_pb2.IpuInfo(number=n, healthy=True) for n in range(ipus)]
    return admin_pb2.Agent(id=name, status=admin_pb2.AgentStatus(reachable=reachable, ipus=infos))


@pytest.mark.parametrize("answer", [status("another"), vipuuser_pb2.GetPartitionStatusReply()])
def test_state_of_another_partition_proves_nothing(answer: Any) -> None:
    with pytest.raises(UnknownError, match=r"it answers about partition '(another)?'"):
        prove_partition(channel(Stub(GetPartitionStatus=answer)), ALLOCATION, "mine")


def test_state_that_is_unknown_here_is_not_active() -> None:
    with pytest.raises(Exception, match="it is not active yet"):
        prove_partition(channel(Stub(GetPartitionStatus=status("mine", 9))), ALLOCATION, "mine")


@pytest.mark.parametrize("rows", [[], [partition("a", "others")], [partition("a", ipus=0)]])
def test_partitions_of_others_do_not_explain_missing_room(rows: list[Any]) -> None:
    removed = vipuuser_pb2.PartitionStatus(partition_id="mine", ready_state=vipuuser_pb2.PS_REMOVED)
    stub = Stub(
        GetPartitionStatus=vipuuser_pb2.GetPartitionStatusReply(status=removed),
        CreatePartition=NoRoomError("create", "the controller", "full", "remove partitions"),
        ListPartitions=vipuuser_pb2.ListPartitionsReply(partitions=rows),
    )
    with pytest.raises(NoRoomError):
        prove_partition(channel(stub), ALLOCATION, "mine")


@pytest.mark.parametrize(
    ("agents", "says"),
    [
        ([agent("m1")], "m2 has 0 of 4 IPUs in its list"),
        ([agent("m1"), agent("m2", ipus=3)], "m2 has 3 of 4 IPUs in its list"),
        ([agent("m1"), agent("m2", reachable=False)], "m2 doesn't answer"),
    ],
)
def test_machine_that_is_not_listed_is_not_healthy(agents: list[Any], says: str) -> None:
    whole = controller(Stub(ListAgents=admin_pb2.ListAgentsReply(agents=[agent("m1"), agent("m2")])))
    whole.check_health(("m1", "m2"))
    with pytest.raises(PermanentError, match=says):
        controller(Stub(ListAgents=admin_pb2.ListAgentsReply(agents=agents))).check_health(("m1", "m2"))


def test_only_partitions_of_the_allocation_are_removed() -> None:
    """Also if the controller ignores the filter."""
    rows = [partition("theirs", "others"), partition("bare", "")]
    stub = Stub(
        ListPartitions=vipuuser_pb2.ListPartitionsReply(partitions=rows),
        RemoveAllocation=admin_pb2.RemoveAllocationReply(),
    )
    controller(stub).remove(Resource(key="vipu_allocation", name="pod", where="p", spec=ALLOCATION), 0.0)
    assert "RemovePartition" not in [method for method, _ in stub.asked]


def test_id_that_is_listed_twice_is_unknown() -> None:
    """One of the two may have another address, or be an administrator."""
    machine = VipuAgentSpec(controller="10.0.0.1", machine="m1", address="10.0.0.9", port=8080)
    user = VipuUserSpec(controller="10.0.0.1", name="tenant", machines=("m1",), allocation="pod")
    users = [admin_pb2.User(id="tenant", admin=True), admin_pb2.User(id="tenant", allocation_ids=["pod"])]
    stub = Stub(
        ListAgents=admin_pb2.ListAgentsReply(agents=[agent("m1"), agent("m1")]),
        ListUsers=admin_pb2.ListUsersReply(users=users),
    )
    for spec in (machine, user):
        resource = Resource(key="x", name="x", where="p", spec=spec)
        with pytest.raises(UnknownError, match="twice"):
            controller(stub).listed([resource])
