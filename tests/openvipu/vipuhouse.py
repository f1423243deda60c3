"""A simulated POD and controllers over it, in this process, for the tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc

from openvipu.clients.config import Connection
from openvipu.clients.session import Session
from openvipu.controller.core import Tuning
from openvipu.hardware.simulated import PodPlan
from openvipu.model.state import Settings
from openvipu.proto import admin_pb2, admin_pb2_grpc, catalog_pb2_grpc, version_pb2_grpc, vipuuser_pb2_grpc
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rpc import channel
from openvipu.server import Config, ControllerServer
from openvipu.sim.pod import PodConfig, SimulatedPod
from openvipu.store import Store

POD4 = PodPlan(1, 1, torus=False)
POD16 = PodPlan(1, 4, torus=False)
POD64 = PodPlan(1, 16, torus=True)
LONGEST_WAIT = 60.0


@dataclass
class Controller:
    """A running controller, and stubs of both its APIs."""

    server: ControllerServer
    config: Config
    pod: SimulatedPod
    metadata: tuple[tuple[str, str], ...] = ()
    channels: list[grpc.Channel] = field(default_factory=list)

    def __post_init__(self) -> None:
        user = channel(f"127.0.0.1:{self.server.user_port}")
        admin = channel(f"127.0.0.1:{self.server.admin_port}")
        self.channels = [user, admin]
        self.user_channel = user
        self.users = vipuuser_pb2_grpc.UserServiceStub(user)
        self.versions = version_pb2_grpc.VersionServiceStub(user)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(user)
        self.admin = admin_pb2_grpc.AdminServiceStub(admin)

    @property
    def state(self) -> Any:
        return self.server.core.state

    def close(self) -> None:
        for link in self.channels:
            link.close()
        self.server.close()

    def add_agents(self, *names: str) -> None:
        """Add these agents of the POD (default: all)."""
        for name in names or tuple(self.pod.agents):
            agent = self.pod.agents[name]
            spec = admin_pb2.AgentSpec(host=agent.host, port=agent.port)
            self.admin.CreateAgent(admin_pb2.CreateAgentRequest(id=name, spec=spec), metadata=self.metadata)

    def add_cluster(
        self, id_: str, *agents: str, topology: str = "mesh", gateway: str = "none", ilds: int = 1
    ) -> None:
        spec = admin_pb2.ClusterSpec(
            topology=topology,
            cluster_topology=gateway,
            num_ipulink_domains=ilds,
            agent_ids=agents or tuple(self.pod.agents),
        )
        self.admin.CreateCluster(admin_pb2.CreateClusterRequest(id=id_, spec=spec), metadata=self.metadata)

    def add_allocation(self, id_: str, size: int = 0, agents: tuple[str, ...] = ()) -> None:
        request = admin_pb2.CreateAllocationRequest(id=id_, size=size, agent_ids=agents)
        self.admin.CreateAllocation(request, metadata=self.metadata)

    def create(self, id_: str, size: int, **wanted: Any) -> None:
        """Ask for a partition, without waiting for it."""
        extra = {key: wanted.pop(key) for key in ("disable_auto_reset", "relocatable") if key in wanted}
        requirements = pb.PartitionRequirements(id=id_, size=size, **wanted)
        self.users.CreatePartition(pb.CreatePartitionRequest(requirements=requirements, **extra))

    def create_active(self, id_: str, size: int, **wanted: Any) -> None:
        self.create(id_, size, **wanted)
        self.wait(id_, pb.PS_ACTIVE)

    def remove(self, id_: str, force: bool = False) -> None:
        self.users.RemovePartition(pb.RemovePartitionRequest(partition_id=id_, force=force))

    def remove_whole(self, id_: str, force: bool = False) -> None:
        self.remove(id_, force)
        self.wait(id_, pb.PS_REMOVED)

    def reset(self, id_: str, relocatable: bool = False) -> None:
        self.users.ResetPartition(pb.ResetPartitionRequest(partition_id=id_, relocatable=relocatable))

    def status(self, id_: str) -> pb.PartitionStatus:
        return self.users.GetPartitionStatus(pb.GetPartitionStatusRequest(partition_id=id_)).status

    def wait(self, id_: str, ready: Any, operation: Any = pb.POS_IDLE) -> pb.PartitionStatus:
        """The partition's status once it is ``ready`` and ``operation``."""
        found: list[pb.PartitionStatus] = []

        def reached() -> bool:
            found.append(self.status(id_))
            return found[-1].ready_state == ready and found[-1].operation_state == operation

        until(reached, lambda: f"partition {id_}: {found[-1]}")
        return found[-1]


def until(reached: Callable[[], bool], words: Callable[[], str] = lambda: "never") -> None:
    """Wait until ``reached``, for a generous time."""
    ends = time.monotonic() + LONGEST_WAIT
    while not reached():
        if time.monotonic() > ends:
            raise AssertionError(words())
        time.sleep(0.005)


def tuning(**changes: Any) -> Tuning:
    """Only the test polls; retries follow at once."""
    return replace(Tuning(poll=0, backoff=0.01, agent_timeout=20.0), **changes)


def new_config(folder: Path, id_: str = "controller-a", secure: bool = False, **changes: Any) -> Config:
    """A controller's configuration with a new state file in ``folder``."""
    state = folder / f"{id_}.sqlite"
    Store.create(state, Settings(id_, f"key-of-{id_}", secure))
    return Config(state, "127.0.0.1:0", "127.0.0.1:0", metrics_port=None, tuning=tuning(**changes))


@contextmanager
def controlling(
    pod: SimulatedPod, config: Config, step: Callable[[str], None] = lambda _: None
) -> Iterator[Controller]:
    controller = Controller(ControllerServer(config, step=step), config, pod)
    try:
        yield controller
    finally:
        controller.close()


@contextmanager
def house(
    folder: Path, plan: PodPlan = POD16, id_: str = "controller-a", delay: float = 0.0, **changes: Any
) -> Iterator[Controller]:
    """A POD with a controller that has all its agents and the cluster ``c`` over them."""
    with (
        SimulatedPod(PodConfig(plan, port=0, delay=delay)) as pod,
        controlling(pod, new_config(folder, id_, **changes)) as controller,
    ):
        controller.add_agents()
        controller.add_cluster(
            "c",
            topology="torus" if plan.torus else "mesh",
            gateway=("switched" if plan.switched else "looped") if plan.domains > 1 else "none",
            ilds=plan.domains,
        )
        yield controller


@contextmanager
def user_session(controller: Controller) -> Iterator[Session]:
    """A command line's session at the user API."""
    session = Session(Connection("127.0.0.1", controller.server.user_port, "", "", ""), False, False)
    with session.channel:
        yield session


def refused(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    """The status and the sentence with which a call is refused."""
    try:
        call()
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        return error.code(), error.details()
    raise AssertionError("the call was not refused")
