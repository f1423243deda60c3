"""Partitions on a running controller over simulated machines: create, break, repair, relocate, remove."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc
import pytest

from openvipu.hardware import simulated
from openvipu.hardware.fabric import Fault
from openvipu.model.errors import StateError
from openvipu.proto import admin_pb2
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rules import lifecycle
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.vipuhouse import LONGEST_WAIT, POD4, Controller, controlling, new_config, refused, until


def machine_of(controller: Controller, partition: str) -> str:
    return controller.state.partitions[partition].agent_ids[0]


def settings_on(controller: Controller, agent: str) -> list[str]:
    return [setting.partition_id for setting in controller.pod.agents[agent].machine.status().settings]


def test_partition_is_created_used_and_removed(pod16: Controller) -> None:
    """It becomes ACTIVE, has its configuration, carries packets, and is gone after its removal."""
    pod16.create_active("p", 8, num_gcds=2)
    listed = pod16.users.ListPartitions(pb.ListPartitionsRequest()).partitions
    assert [(entry.id, len(entry.spec.ipus), entry.ready_state) for entry in listed] == [
        ("p", 8, pb.PS_ACTIVE)
    ]
    config = pod16.users.GetPartitionIpuofConfig(
        pb.GetPartitionIpuofConfigRequest(partition_id="p")
    ).ipuof_config
    assert [len(gcd.devices) for gcd in config.gcd_configs] == [4, 4]
    assert pod16.pod.probe(("ipum1", 0), ("ipum2", 3)) is not None
    pod16.remove_whole("p")
    assert pod16.pod.probe(("ipum1", 0), ("ipum1", 1)) is None
    assert not pod16.users.ListPartitions(pb.ListPartitionsRequest()).partitions
    assert not any(settings_on(pod16, agent) for agent in pod16.pod.agents)


def test_name_can_be_reused_at_once(pod16: Controller) -> None:
    """A create that follows a remove of the same name waits for its turn and succeeds, 25 times."""
    for _ in range(25):
        pod16.create("p", 16)
        pod16.remove("p")
    pod16.create_active("p", 16)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda c: c.create("p", 3), grpc.StatusCode.INVALID_ARGUMENT, "size 3"),
        (lambda c: c.create("", 4), grpc.StatusCode.INVALID_ARGUMENT, "partition id is empty"),
        (lambda c: c.create("a b", 4), grpc.StatusCode.INVALID_ARGUMENT, "'a b' is not allowed"),
        (lambda c: c.create("p", 32), grpc.StatusCode.INVALID_ARGUMENT, "needs 2 IPU-Link domains"),
        (lambda c: c.create("p", 4, cluster_id="x"), grpc.StatusCode.NOT_FOUND, "cluster 'x' doesn't exist"),
        (
            lambda c: c.create("p", 4, allocation_id="x"),
            grpc.StatusCode.NOT_FOUND,
            "allocation 'x' doesn't exist",
        ),
        (
            lambda c: c.create("p", 4, sync_type=99),
            grpc.StatusCode.INVALID_ARGUMENT,
            "sync_type 99 is not allowed",
        ),
        (lambda c: c.remove("p"), grpc.StatusCode.NOT_FOUND, "partition 'p' doesn't exist"),
        (lambda c: c.reset("p"), grpc.StatusCode.NOT_FOUND, "partition 'p' doesn't exist"),
        (lambda c: c.status("p"), grpc.StatusCode.NOT_FOUND, "partition 'p' doesn't exist"),
    ],
)
def test_refusal_has_a_status_and_a_sentence(
    pod16: Controller, call, code: grpc.StatusCode, words: str
) -> None:
    """The sentence names field and value; the state is unchanged."""
    before = pod16.state
    found, sentence = refused(lambda: call(pod16))
    assert found is code
    assert words in sentence
    assert pod16.state is before


def test_duplicate_name_and_full_cluster_are_refused(pod16: Controller) -> None:
    """ALREADY_EXISTS for a taken name; RESOURCE_EXHAUSTED with the count for a full cluster."""
    pod16.create_active("p", 16)
    assert refused(lambda: pod16.create("p", 1))[0] is grpc.StatusCode.ALREADY_EXISTS
    code, words = refused(lambda: pod16.create("q", 1))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "16 of its 16 IPUs are in use" in words


def test_pending_partition_has_no_configuration(tmp_path: Path) -> None:
    """Until it is ACTIVE for the first time, it could still move."""
    proceed = threading.Event()

    def step(name: str) -> None:
        if name == "configuring":
            assert proceed.wait(LONGEST_WAIT)

    request = pb.GetPartitionIpuofConfigRequest(partition_id="p")
    with (
        SimulatedPod(PodConfig(POD4, port=0)) as pod,
        controlling(pod, new_config(tmp_path), step) as controller,
    ):
        controller.add_agents()
        controller.add_cluster("c")
        controller.create("p", 2)
        try:
            code, words = refused(lambda: controller.users.GetPartitionIpuofConfig(request))
        finally:
            proceed.set()
        assert (code, "is not ready yet" in words) == (grpc.StatusCode.FAILED_PRECONDITION, True)
        controller.wait("p", pb.PS_ACTIVE)
        assert controller.users.GetPartitionIpuofConfig(request).ipuof_config.gcd_configs


def test_new_partition_without_auto_reset_fails_at_the_first_error(pod16: Controller) -> None:
    """Its creation isn't tried again, and it can be removed."""
    pod16.pod.plant(Fault("bad-cable", "ipum1", "up0"))
    pod16.create("p", 8, disable_auto_reset=True, cluster_id="c")
    assert pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED).auto_reset_retry_count == 0
    pod16.remove_whole("p")


def test_configuration_of_a_reconfigurable_partition_says_so(pod16: Controller) -> None:
    """It has one GCD and the only sync type that is possible."""
    pod16.create_active("q", 4, reconfigurable=True)
    request = pb.GetPartitionIpuofConfigRequest(
        partition_id="q", gcd_id=pb.GetPartitionIpuofConfigRequest.GcdID(id=0)
    )
    config = pod16.users.GetPartitionIpuofConfig(request).ipuof_config
    assert config.reconfigurable
    assert config.sync_type == pb.ST_GS2_DEFAULT
    request.gcd_id.id = 1
    assert (
        refused(lambda: pod16.users.GetPartitionIpuofConfig(request))[0] is grpc.StatusCode.INVALID_ARGUMENT
    )


def test_error_is_reset_automatically(pod16: Controller) -> None:
    """An IPU dies and comes back: the poll sees it, resets follow, the partition is ACTIVE again."""
    pod16.create_active("p", 4)
    fault = Fault("dead-ipu", machine_of(pod16, "p"), "1")
    pod16.pod.plant(fault)
    pod16.server.watch.poll()
    until(lambda: pod16.status("p").auto_reset_retry_count >= 1)
    pod16.pod.heal(fault)
    pod16.wait("p", pb.PS_ACTIVE)
    assert not pod16.status("p").errors
    assert pod16.status("p").last_auto_reset_time.seconds > 0


def test_automatic_resets_end_after_three_tries(pod16: Controller) -> None:
    """A lasting fault makes the partition FAILED with its reason; after the repair a user's reset makes it ACTIVE."""
    pod16.create_active("p", 8)
    pod16.pod.plant(Fault("bad-cable", "ipum1", "up1"))
    pod16.server.watch.poll()
    status = pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED)
    assert (status.auto_reset_retry_count, status.max_auto_reset_retries) == (3, 3)
    assert any("IPU-Link up1 is down" in error for error in status.errors)
    pod16.pod.heal()
    pod16.reset("p")
    pod16.wait("p", pb.PS_ACTIVE)


def test_partition_without_auto_reset_fails_at_once(pod16: Controller) -> None:
    """disable_auto_reset leaves the repair to the user."""
    pod16.create_active("p", 4, disable_auto_reset=True)
    pod16.pod.plant(Fault("dead-ipu", machine_of(pod16, "p"), "0"))
    pod16.server.watch.poll()
    status = pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED)
    assert (status.auto_reset_retry_count, status.max_auto_reset_retries) == (0, 0)


def test_relocatable_partition_moves_to_healthy_machines(pod16: Controller) -> None:
    """The machine that it left is clean."""
    pod16.create_active("p", 4, relocatable=True)
    old = machine_of(pod16, "p")
    pod16.pod.plant(Fault("dead-ipu", old, "3"))
    pod16.server.watch.poll()
    until(lambda: machine_of(pod16, "p") != old)
    pod16.wait("p", pb.PS_ACTIVE)
    assert settings_on(pod16, old) == []
    assert settings_on(pod16, machine_of(pod16, "p")) == ["p"]


def test_relocation_ends_when_no_ipus_are_left(pod16: Controller) -> None:
    """If every other machine is broken too, a relocatable partition fails."""
    pod16.create_active("p", 4, relocatable=True)
    for agent in pod16.pod.agents:
        pod16.pod.plant(Fault("dead-ipu", agent, "0"))
    pod16.server.watch.poll()
    status = pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED)
    assert any("IPU 0 doesn't respond" in error for error in status.errors)


def test_dead_ipu_is_not_assigned(pod16: Controller) -> None:
    """After a poll; a partition of the whole POD is refused then."""
    pod16.pod.plant(Fault("dead-ipu", "ipum1", "3"))
    pod16.server.watch.poll()
    pod16.create_active("p", 1)
    assert pod16.state.partitions["p"].ipus[0].number != 3
    pod16.remove_whole("p")
    code, words = refused(lambda: pod16.create("q", 16))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "1 are not healthy (ipum1)" in words


def test_unreachable_agent_fails_removal_unless_forced(pod16: Controller) -> None:
    """A forced removal removes the partition, and the machine isn't used until it is clean."""
    pod16.create_active("p", 4)
    gone = machine_of(pod16, "p")
    pod16.pod.plant(Fault("agent-gone", gone))
    pod16.remove("p")
    status = pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED)
    assert f"agent {gone}" in status.errors[0]
    pod16.remove_whole("p", force=True)
    assert refused(lambda: pod16.create("all", 16))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    pod16.pod.heal()
    assert settings_on(pod16, gone) == ["p"]

    def clean() -> bool:
        pod16.server.watch.poll()
        return settings_on(pod16, gone) == []

    until(clean)
    pod16.create_active("all", 16)


def test_lost_agent_is_an_error_only_after_three_polls(pod16: Controller) -> None:
    """One missed poll doesn't change the partition."""
    pod16.create_active("p", 4)
    gone = machine_of(pod16, "p")
    pod16.pod.plant(Fault("agent-gone", gone))
    pod16.server.watch.poll()
    assert pod16.status("p").ready_state == pb.PS_ACTIVE
    pod16.server.watch.poll()
    pod16.server.watch.poll()
    status = pod16.wait("p", pb.PS_ERROR, pb.POS_FAILED)
    assert status.errors
    pod16.pod.heal()

    def repaired() -> bool:
        pod16.server.watch.poll()
        return pod16.server.core.health.is_reachable(gone)

    until(repaired)
    pod16.reset("p")
    pod16.wait("p", pb.PS_ACTIVE)


def test_slow_reset_does_not_delay_others(pod16: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one allocation resets slowly, another creates and removes, and reading doesn't wait."""
    pod16.add_allocation("slow", agents=("ipum1",))
    pod16.add_allocation("quick", agents=("ipum2",))
    pod16.create_active("s", 4, allocation_id="slow")
    through = threading.Event()
    monkeypatch.setattr(simulated, "_pause", lambda seconds: seconds < 1 or through.wait(LONGEST_WAIT))
    pod16.pod.plant(Fault("slow-reset", "ipum1", seconds=3600.0))
    pod16.reset("s")
    pod16.create_active("q", 4, allocation_id="quick")
    pod16.remove_whole("q")
    assert pod16.status("s").operation_state == pb.POS_RESETTING
    code, words = refused(
        lambda: pod16.users.RemovePartition(pb.RemovePartitionRequest(partition_id="s"), timeout=0.3)
    )
    assert code in (grpc.StatusCode.ABORTED, grpc.StatusCode.DEADLINE_EXCEEDED), words
    through.set()
    pod16.wait("s", pb.PS_ACTIVE)


def test_concurrent_creates_get_each_ipu_once(pod16: Controller) -> None:
    """Forty clients ask for sixteen IPUs: sixteen get one each, the others are refused, and all are removed again."""
    outcomes: list[object] = []

    def client(number: int) -> None:
        try:
            pod16.create(f"p{number}", 1)
            outcomes.append(f"p{number}")
        except grpc.RpcError as error:
            assert isinstance(error, grpc.Call)
            outcomes.append(error.code())

    threads = [threading.Thread(target=client, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(winners) == 16
    assert outcomes.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 24
    ipus = [(ipu.agent_id, ipu.number) for entry in pod16.state.partitions.values() for ipu in entry.ipus]
    assert len(set(ipus)) == 16
    for id_ in winners:
        pod16.remove_whole(id_)
    assert not pod16.state.partitions


def test_full_disk_loses_nothing(tmp_path: Path) -> None:
    """While the state can't be written requests are refused, and a job under way is done again later."""
    full = threading.Event()

    def step(name: str) -> None:
        if name == "in-transaction" and full.is_set():
            raise StateError("state file can't be written: disk is full")
        if name == "configured" and not passed.is_set():
            full.set()
            passed.set()

    passed = threading.Event()
    with SimulatedPod(PodConfig(POD4, port=0)) as pod:
        config = new_config(tmp_path, state_retry=0.05)
        with controlling(pod, config, step) as controller:
            controller.add_agents()
            controller.add_cluster("c")
            controller.create("p", 2)
            until(full.is_set)
            code, words = refused(lambda: controller.create("q", 2))
            assert (code, "disk is full" in words) == (grpc.StatusCode.INTERNAL, True)
            full.clear()
            controller.wait("p", pb.PS_ACTIVE)
            controller.create_active("q", 2)


def test_partition_created_during_a_poll_is_not_reported_broken(pod16: Controller) -> None:
    """A poll that began before the partition existed doesn't judge it; the next poll does."""
    before = pod16.server.watch.look()
    pod16.create_active("p", 16)
    pod16.server.watch.repair(before)
    assert pod16.status("p").ready_state == pb.PS_ACTIVE
    pod16.server.watch.poll()
    status = pod16.wait("p", pb.PS_ACTIVE)
    assert (status.auto_reset_retry_count, status.last_auto_reset_time.seconds) == (0, 0)


def test_lost_setting_is_restored(pod16: Controller) -> None:
    """A machine that lost its partition's setting, as when its gateway restarts, gets it again."""
    pod16.create_active("p", 8)
    generation = pod16.state.partitions["p"].generation
    pod16.pod.agents["ipum2"].machine.clear("p", generation)
    pod16.server.watch.poll()
    until(lambda: settings_on(pod16, "ipum2") == ["p"])
    assert pod16.wait("p", pb.PS_ACTIVE).last_auto_reset_time.seconds > 0


def test_requests_waiting_at_shutdown_are_refused(tmp_path: Path) -> None:
    """Closing the controller refuses what waits, and the next start completes what was under way."""
    with SimulatedPod(PodConfig(POD4, port=0)) as pod:
        config = new_config(tmp_path)
        answers: list[object] = []
        with controlling(pod, config) as controller:
            controller.add_agents()
            controller.add_cluster("c")
            controller.create_active("p", 2)
            pod.plant(Fault("slow-reset", "ipum1", seconds=1.5))
            controller.reset("p")
            waiting = threading.Thread(target=lambda: answers.append(refused(lambda: controller.remove("p"))))
            waiting.start()
            until(lambda: bool(controller.server.core.waiting.count()))
        waiting.join()
        assert len(answers) == 1
        pod.heal()
        with controlling(pod, config) as controller:
            controller.wait("p", pb.PS_ACTIVE)
            controller.create_active("q", 2)


def test_removed_state_is_answered_after_a_restart(tmp_path: Path) -> None:
    """A client that polls for the end of its partition reads REMOVED, also after restarts."""
    with SimulatedPod(PodConfig(POD4, port=0)) as pod:
        config = new_config(tmp_path)
        with controlling(pod, config) as controller:
            controller.add_agents()
            controller.add_cluster("c")
            controller.create_active("p", 2)
            controller.remove_whole("p")
        for _ in range(2):
            with controlling(pod, config) as controller:
                assert controller.status("p").ready_state == pb.PS_REMOVED
        with controlling(pod, config) as controller:
            controller.create_active("p", 2)
            assert controller.status("p").ready_state == pb.PS_ACTIVE


def test_removals_are_remembered_for_each_allocation(
    pod16: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last 128 removed names of each (here 16), until the allocation is removed."""
    assert lifecycle.REMEMBERED == 128
    monkeypatch.setattr(lifecycle, "REMEMBERED", 16)
    pod16.add_allocation("busy", agents=("ipum1",))
    pod16.add_allocation("quiet", agents=("ipum2",))
    pod16.create_active("once", 4, allocation_id="quiet")
    pod16.remove_whole("once")
    for number in range(18):
        pod16.create(f"p{number}", 4, allocation_id="busy")
        pod16.remove_whole(f"p{number}")
    assert pod16.status("once").ready_state == pb.PS_REMOVED
    assert pod16.status("p2").ready_state == pb.PS_REMOVED
    assert refused(lambda: pod16.status("p1"))[0] is grpc.StatusCode.NOT_FOUND
    pod16.admin.RemoveAllocation(admin_pb2.RemoveAllocationRequest(id="busy"))
    assert refused(lambda: pod16.status("p2"))[0] is grpc.StatusCode.NOT_FOUND
