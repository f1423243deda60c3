"""Many clients at once: hardware works in parallel, admission is serial, and a waiting call blocks no other call."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from openvipu.hardware.fabric import Fault
from openvipu.model.partition import Operation
from openvipu.proto import admin_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules import users
from openvipu.sim.pod import PodConfig, SimulatedPod
from openvipu.store import Store
from tests.openvipu.test_isolation import ADMIN, user, wanting
from tests.openvipu.vipuhouse import (
    LONGEST_WAIT,
    POD16,
    POD64,
    Controller,
    controlling,
    house,
    new_config,
    until,
)

SOON = 60.0
"""Seconds within which a call that needn't wait is answered, on a busy machine."""


class Hold:
    """While it is closed, stops the work of every partition at one step, before it reaches the hardware."""

    def __init__(self) -> None:
        self.at = "configuring"
        self.open = threading.Event()
        self.open.set()

    def __call__(self, step: str) -> None:
        if step == self.at:
            assert self.open.wait(LONGEST_WAIT)


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
def secure(tmp_path: Path, hold: Hold) -> Iterator[Controller]:
    """A secure controller with the allocations red and blue, two machines each."""
    config = new_config(tmp_path, secure=True)
    store = Store.open(config.state)
    store.save(store.state.with_user(users.make(store.state, "admin", "salt", "admin-key", (), True)))
    store.close()
    with SimulatedPod(PodConfig(POD16, port=0)) as pod, controlling(pod, config, hold) as controller:
        controller.metadata = ADMIN
        controller.add_agents()
        controller.add_cluster("c")
        controller.add_allocation("red", 8)
        controller.add_allocation("blue", 8)
        yield controller
        hold.open.set()


def crowd(number: int, ask: Callable[[], object], answers: list[grpc.StatusCode]) -> list[threading.Thread]:
    """Start this many clients that all call `ask`; `answers` collects their status codes."""

    def client() -> None:
        try:
            ask()
            answers.append(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            answers.append(error.code())

    threads = [threading.Thread(target=client) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def test_waiting_requests_block_no_other_user(secure: Controller, hold: Hold) -> None:
    """Of a hundred resets by one user sixteen wait, the others are refused at once, and other calls are served."""
    alice, bob = user(secure, "alice", "red"), user(secure, "bob", "blue")
    secure.users.CreatePartition(wanting("p"), metadata=alice)
    until(lambda: secure.state.partitions["p"].operation is Operation.IDLE)
    hold.open.clear()
    request = pb.ResetPartitionRequest(partition_id="p")
    secure.users.ResetPartition(request, metadata=alice)
    answers: list[grpc.StatusCode] = []
    threads = crowd(
        100, lambda: secure.users.ResetPartition(request, metadata=alice, timeout=LONGEST_WAIT), answers
    )
    until(lambda: len(answers) == 84)
    assert Counter(answers) == {grpc.StatusCode.ABORTED: 84}
    # bob reads and creates, and alice reads, while sixteen of hers wait
    assert not secure.users.ListPartitions(pb.ListPartitionsRequest(), metadata=bob, timeout=SOON).partitions
    secure.users.CreatePartition(wanting("q"), metadata=bob, timeout=SOON)
    status = pb.GetPartitionStatusRequest(partition_id="p")
    assert secure.users.GetPartitionStatus(status, metadata=alice, timeout=SOON).status.operation_state == (
        pb.POS_RESETTING
    )
    assert secure.server.core.waiting.count() == 16
    assert len(answers) == 84
    hold.open.set()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert Counter(answers) == {grpc.StatusCode.ABORTED: 84, grpc.StatusCode.OK: 16}


def test_hardware_works_for_partitions_in_parallel(tmp_path: Path) -> None:
    """Sixteen creates of one allocation reach the hardware at the same time; each was accepted before any was done."""
    together = threading.Barrier(16)

    def step(name: str) -> None:
        if name == "configuring" and not done.is_set():
            together.wait(LONGEST_WAIT)

    done = threading.Event()
    with (
        SimulatedPod(PodConfig(POD64, port=0)) as pod,
        controlling(pod, new_config(tmp_path), step) as controller,
    ):
        controller.add_agents()
        controller.add_cluster("c", topology="torus")
        controller.add_allocation("all", 64)
        for number in range(16):
            controller.create(f"p{number}", 4, allocation_id="all")
        # the barrier opens once all sixteen are there, so serial creation would never get past it
        for number in range(16):
            controller.wait(f"p{number}", pb.PS_ACTIVE)
        done.set()
        places = [ipu.agent_id for entry in controller.state.partitions.values() for ipu in entry.ipus]
        assert Counter(places) == dict.fromkeys(pod.agents, 4)


def test_create_waits_for_ipus_of_a_removal(tmp_path: Path) -> None:
    """A create waits for IPUs and a name that are being removed, and is refused for those of a living partition."""
    with house(tmp_path, delay=0.5) as controller:
        controller.create_active("p", 16)
        answers: list[grpc.StatusCode] = []
        (full,) = crowd(1, lambda: controller.create("other", 4), answers)
        full.join(LONGEST_WAIT)
        assert answers == [grpc.StatusCode.RESOURCE_EXHAUSTED]
        controller.remove("p")
        controller.create("p", 8)
        controller.create("other", 8)
        for name in ("p", "other"):
            controller.wait(name, pb.PS_ACTIVE)
        # a removal that fails frees nothing, so the create that waits for it is refused at once
        lost = controller.state.partitions["p"].agent_ids[0]
        controller.pod.plant(Fault("agent-gone", lost))
        controller.remove("p")
        waiting = crowd(1, lambda: controller.create("p", 8), answers)
        waiting[0].join(LONGEST_WAIT)
        assert answers[1:] == [grpc.StatusCode.ALREADY_EXISTS]


def test_user_removed_while_waiting_gets_no_partition(secure: Controller, hold: Hold) -> None:
    """Nor does a user who loses the allocation while a request waits for a removal."""
    alice, anna = user(secure, "alice", "red"), user(secure, "anna", "red")
    secure.users.CreatePartition(wanting("p", 8), metadata=alice)
    until(lambda: secure.state.partitions["p"].operation is Operation.IDLE)
    hold.at = "cleared"
    hold.open.clear()
    secure.users.RemovePartition(pb.RemovePartitionRequest(partition_id="p"), metadata=alice)
    answers: list[grpc.StatusCode] = []
    threads = [
        *crowd(1, lambda: secure.users.CreatePartition(wanting("q"), metadata=alice, timeout=60), answers),
        *crowd(1, lambda: secure.users.CreatePartition(wanting("r"), metadata=anna, timeout=60), answers),
        *crowd(1, lambda: secure.users.ResetPartition(_reset("p"), metadata=alice, timeout=60), answers),
    ]
    until(lambda: secure.server.core.waiting.count() == 3)
    secure.admin.RemoveUser(admin_pb2.RemoveUserRequest(id="alice"), metadata=ADMIN)
    secure.admin.UpdateUser(admin_pb2.UpdateUserRequest(id="anna", allocation_ids=[]), metadata=ADMIN)
    hold.open.set()
    for thread in threads:
        thread.join(LONGEST_WAIT)
    assert Counter(answers) == {
        grpc.StatusCode.UNAUTHENTICATED: 2,
        grpc.StatusCode.RESOURCE_EXHAUSTED: 1,
    }
    assert not secure.state.partitions


def _reset(name: str) -> pb.ResetPartitionRequest:
    return pb.ResetPartitionRequest(partition_id=name)
