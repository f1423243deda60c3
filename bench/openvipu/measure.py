"""What is measured: partition create and remove, many cycles, and the controller's start."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.openvipu.processes import cpu_seconds, program, resident_kib
from openvipu.model.state import Settings
from openvipu.proto import admin_pb2, admin_pb2_grpc, vipuuser_pb2_grpc
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rpc import channel
from openvipu.store import Store

POLL_SECONDS = 0.005
CYCLES = 1000
LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class Rig:
    """A controller with 64 agents in one cluster of four torus domains."""

    folder: Path
    users: vipuuser_pb2_grpc.UserServiceStub
    admin: admin_pb2_grpc.AdminServiceStub
    controller: Any
    pod: Any

    @property
    def state_bytes(self) -> int:
        return (self.folder / "state").stat().st_size


@contextmanager
def rig() -> Generator[Rig]:
    """Start the POD and a controller, and make the cluster ``c``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Store.create(folder / "state", Settings("bench", "key"))
        sim = (
            "--pod",
            "256",
            "--port",
            "0",
            "--agents-file",
            str(folder / "agents"),
            "--control",
            "127.0.0.1:0",
        )
        with (
            program("openvipu.sim.main", *sim) as (pod, _),
            controller(folder) as (process, ports),
            channel(f"127.0.0.1:{ports[1]}") as link,
        ):
            users, admin = vipuuser_pb2_grpc.UserServiceStub(link), admin_pb2_grpc.AdminServiceStub(link)
            found = Rig(folder, users, admin, process, pod)
            _fill(found)
            yield found


@contextmanager
def controller(folder: Path) -> Generator[tuple[Any, tuple[int, int]]]:
    """A controller on free ports; its process and (user, admin) ports."""
    with program(
        "openvipu.server_main",
        *("--state", str(folder / "state"), "--user-address", "127.0.0.1:0"),
        *("--admin-address", "127.0.0.1:0", "--no-metrics"),
    ) as (process, line):
        words = line.replace(",", "").split()
        yield process, (int(words[4]), int(words[9]))


def create_remove(rig: Rig, size: int, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each create (request to ACTIVE) and remove (request to REMOVED)."""
    creates: list[float] = []
    removes: list[float] = []
    for _ in range(rounds):
        began = time.monotonic()
        wanted = pb.PartitionRequirements(id="p", size=size)
        rig.users.CreatePartition(pb.CreatePartitionRequest(requirements=wanted))
        _wait(rig, pb.PS_ACTIVE)
        made = time.monotonic()
        rig.users.RemovePartition(pb.RemovePartitionRequest(partition_id="p"))
        _wait(rig, pb.PS_REMOVED)
        creates.append(made - began)
        removes.append(time.monotonic() - made)
    return creates, removes


def growth(rig: Rig) -> tuple[int, int]:
    """KiB of memory and bytes of state that 1,000 cycles add, after 150 to warm up."""
    create_remove(rig, 4, 150)
    memory, state = resident_kib(rig.controller), rig.state_bytes
    create_remove(rig, 4, CYCLES)
    return resident_kib(rig.controller) - memory, rig.state_bytes - state


def start_seconds(rig: Rig) -> float:
    """Seconds from exec until both ports accept connections, for a controller that knows 64 agents."""
    times: list[float] = []
    rig.controller.terminate()
    rig.controller.wait(30)
    for _ in range(3):
        began = time.monotonic()
        with controller(rig.folder):
            times.append(time.monotonic() - began)
    return statistics.median(times)


def idle_share(rig: Rig, seconds: float = 5.0) -> float:
    """Share of one processor that 64 idle agents take."""
    before = cpu_seconds(rig.pod)
    time.sleep(seconds)
    return (cpu_seconds(rig.pod) - before) / seconds


def percentile(values: list[float], share: float) -> float:
    """The value that a share ``share`` of the values doesn't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _fill(rig: Rig) -> None:
    agents: list[str] = []
    for line in (rig.folder / "agents").read_text().splitlines():
        name, host, port = line.split()
        spec = admin_pb2.AgentSpec(host=host, port=int(port))
        rig.admin.CreateAgent(admin_pb2.CreateAgentRequest(id=name, spec=spec))
        agents.append(name)
    cluster = admin_pb2.ClusterSpec(
        topology="torus", cluster_topology="looped", num_ipulink_domains=4, agent_ids=agents
    )
    rig.admin.CreateCluster(admin_pb2.CreateClusterRequest(id="c", spec=cluster))


def _wait(rig: Rig, state: pb.PartitionReadyState) -> None:
    request = pb.GetPartitionStatusRequest(partition_id="p")
    ends = time.monotonic() + LONGEST_WAIT
    while True:
        status = rig.users.GetPartitionStatus(request, timeout=LONGEST_WAIT).status
        if status.ready_state == state:
            return
        if status.operation_state == pb.POS_FAILED or time.monotonic() > ends:
            raise RuntimeError(f"the partition doesn't get to the state: {status}")
        time.sleep(POLL_SECONDS)
