"""Settings that one controller leaves on a machine reach no other: at the agent's start, release, next controller."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from openvipu.agent.binding import Binding
from openvipu.agent.service import start
from openvipu.hardware.fabric import Fault
from openvipu.hardware.protocol import HardwareError
from openvipu.hardware.simulated import SimulatedMachine, build_pod
from openvipu.model.hardware import IpuSetting, Setting
from openvipu.proto import agent_pb2, agent_pb2_grpc
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, channel
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.vipuhouse import POD4, Controller, controlling, new_config, refused, until

RED = ((CONTROLLER_HEADER, "red"), (CONTROLLER_KEY_HEADER, "key-of-red"))


def left(name: str = "p", generation: int = 57, number: int = 0) -> Setting:
    """A setting for one IPU, as a former controller left it."""
    return Setting(name, generation, (IpuSetting(number, 0, 0),), (), (), 1, 1)


def ids(machine: SimulatedMachine) -> list[tuple[str, int]]:
    return [(setting.partition_id, setting.generation) for setting in machine.status().settings]


@contextmanager
def serving(machine: SimulatedMachine, binding: Binding) -> Iterator[Any]:
    """A stub of an agent that was started over this machine."""
    with ThreadPoolExecutor(8) as executor:
        server, port = start(machine, binding, "127.0.0.1:0", executor)
        try:
            with channel(f"127.0.0.1:{port}") as link:
                yield agent_pb2_grpc.AgentServiceStub(link)
        finally:
            server.stop(None).wait()


@pytest.fixture
def machine() -> SimulatedMachine:
    return build_pod(POD4, ["ipum1"], ["127.0.0.1"])[1][0]


def test_agent_without_its_binding_clears_the_machine(machine: SimulatedMachine, tmp_path: Path) -> None:
    """Restarted without its file it has no controller that would clear it; with the file the partition continues."""
    remembered, forgetful = Binding(tmp_path / "binding"), Binding()
    for binding in (remembered, forgetful):
        binding.claim("red", "key-of-red")
    machine.configure(left())
    with serving(machine, Binding(tmp_path / "binding")) as agent:
        owner = agent.GetOwner(agent_pb2.GetOwnerRequest())
        assert (owner.controller_id, owner.settings) == ("red", 1)
    with serving(machine, Binding()) as agent:
        owner = agent.GetOwner(agent_pb2.GetOwnerRequest())
        assert (owner.controller_id, owner.HasField("settings"), owner.settings) == ("", True, 0)
    assert ids(machine) == []


def test_uncleared_remains_are_reported(machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent serves unbound and reports how many settings are left."""
    machine.configure(left())

    def broken(partition_id: str, generation: int) -> None:
        raise HardwareError("the board doesn't answer")

    monkeypatch.setattr(machine, "clear", broken)
    with serving(machine, Binding()) as agent:
        owner = agent.GetOwner(agent_pb2.GetOwnerRequest())
        assert (owner.controller_id, owner.settings) == ("", 1)
        agent.Claim(agent_pb2.ClaimRequest(), metadata=RED)
        code, words = refused(lambda: agent.Release(agent_pb2.ReleaseRequest(), metadata=RED))
        assert (code, words) == (grpc.StatusCode.FAILED_PRECONDITION, "the board doesn't answer")
        assert agent.GetOwner(agent_pb2.GetOwnerRequest()).controller_id == "red"


def test_release_waits_for_a_slow_reset(machine: SimulatedMachine) -> None:
    """No setting is made on a machine after its release, however slow the reset was."""
    machine._fabric.faults.add(Fault("slow-reset", "ipum1", seconds=1.0))
    with serving(machine, Binding()) as agent, ThreadPoolExecutor(1) as pool:
        agent.Claim(agent_pb2.ClaimRequest(), metadata=RED)
        setting = agent_pb2.Setting(partition_id="p", generation=1, ipus=[agent_pb2.IpuSetting(number=0)])
        # the caller ends at its time limit, the handler goes on
        code, _ = refused(
            lambda: agent.Reset(agent_pb2.ResetRequest(setting=setting), metadata=RED, timeout=0.2)
        )
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        code, _ = refused(lambda: agent.Release(agent_pb2.ReleaseRequest(), metadata=RED, timeout=0.2))
        assert code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.ABORTED)
        assert agent.GetOwner(agent_pb2.GetOwnerRequest()).controller_id == "red"
        assert pool.submit(agent.Release, agent_pb2.ReleaseRequest(), metadata=RED, timeout=60).result(60)
        assert agent.GetOwner(agent_pb2.GetOwnerRequest()).controller_id == ""
        assert ids(machine) == []
        # after the release the caller isn't the owner any more
        code, _ = refused(lambda: agent.Clear(agent_pb2.ClearRequest(partition_id="p"), metadata=RED))
        assert code is grpc.StatusCode.PERMISSION_DENIED
    assert ids(machine) == []


def test_release_during_several_resets_leaves_no_setting(machine: SimulatedMachine) -> None:
    """A reset that succeeds before the release is cleared by it; a later one is refused."""
    machine._fabric.faults.add(Fault("slow-reset", "ipum1", seconds=0.05))
    with serving(machine, Binding()) as agent:
        agent.Claim(agent_pb2.ClaimRequest(), metadata=RED)

        def reset(number: int) -> None:
            setting = agent_pb2.Setting(
                partition_id=f"p{number}", generation=1, ipus=[agent_pb2.IpuSetting(number=number)]
            )
            try:
                agent.Reset(agent_pb2.ResetRequest(setting=setting), metadata=RED, timeout=60)
            except grpc.RpcError as error:
                assert isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.PERMISSION_DENIED

        threads = [threading.Thread(target=reset, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        agent.Release(agent_pb2.ReleaseRequest(), metadata=RED, timeout=60)
        for thread in threads:
            thread.join(60)
    assert ids(machine) == []


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Controller]:
    """A controller without agents, over a machine that is bound to it and has two old settings."""
    with SimulatedPod(PodConfig(POD4, port=0)) as pod, controlling(pod, new_config(tmp_path)) as controller:
        agent = pod.agents["ipum1"]
        agent.binding.claim("controller-a", "key-of-controller-a")
        agent.machine.configure(left())
        agent.machine.configure(left("other", 3, number=1))
        yield controller


def test_new_agent_is_cleared_before_use(alone: Controller) -> None:
    """The first partition gets all IPUs without a poll, with the name of an old one and a lower generation."""
    alone.add_agents()
    assert ids(alone.pod.agents["ipum1"].machine) == []
    alone.add_cluster("c")
    alone.create_active("p", 4)
    alone.remove_whole("p")
    assert ids(alone.pod.agents["ipum1"].machine) == []


def test_new_agent_that_cannot_be_cleared_is_not_used(
    alone: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a poll has cleared it there is no room, and no partition fails because of it."""
    machine = alone.pod.agents["ipum1"].machine

    def broken(partition_id: str, generation: int) -> None:
        raise HardwareError("the board doesn't answer")

    with monkeypatch.context() as patch:
        patch.setattr(machine, "clear", broken)
        alone.add_agents()
        alone.add_cluster("c")
        assert refused(lambda: alone.create("p", 4))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    alone.server.watch.poll()
    alone.create_active("p", 4)


def test_setting_of_an_unknown_generation_is_cleared(pod16: Controller) -> None:
    """The poll clears the setting with a partition's name and another generation, and sets the partition up again."""
    pod16.create_active("p", 4)
    partition = pod16.state.partitions["p"]
    machine = pod16.pod.agents[partition.agent_ids[0]].machine
    machine.configure(left("p", partition.generation + 50))
    pod16.server.watch.poll()
    until(lambda: ids(machine) in ([], [("p", partition.generation)]))
    pod16.server.watch.poll()
    pod16.wait("p", pb.PS_ACTIVE)
    until(lambda: ids(machine) == [("p", partition.generation)])
