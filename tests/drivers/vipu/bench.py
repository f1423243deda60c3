"""What the contract of an IPU-POD's driver runs on: an order's graph, and methods that disturb it."""

from __future__ import annotations

import atexit
import os
import socket
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Network
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, TypeVar

from openvipu.controller import authority
from openvipu.hardware.fabric import Fault
from openvipu.hardware.protocol import HardwareError
from openvipu.hardware.simulated import pod_plan
from openvipu.model.hardware import IpuSetting, Setting
from openvipu.proto import admin_pb2, agent_pb2, agent_pb2_grpc, vipuuser_pb2
from openvipu.rpc import Tls, channel
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.helpers import forks
from tests.helpers.paths import EXAMPLES
from tests.helpers.waiting import wait_for
from weft.app.sitefile import load_site
from weft.drivers.vipu import VipuDriver
from weft.drivers.vipu.channels import At, Channels
from weft.generate.podtls import text_of
from weft.model.errors import NotYetError
from weft.model.kindrow import Home
from weft.model.order import Order
from weft.model.owner import Owner
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.podkeys import place
from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.specs import ServerSpec
from weft.planning.shapes.plan import make_plan
from weft.ports.machines import MachineReader
from weft.ports.resources import ResourceDriver, Scope
from weft.testing.seen import there
from weft.testing.vipu import FakeVipu
from weftlab.guests import Guest

EXAMPLE = EXAMPLES / "sites" / "ipupod64" / "site.yaml"
PATIENCE = 120.0
STRANGER = "someone-else"

_FOLDER = tempfile.TemporaryDirectory()
atexit.register(_FOLDER.cleanup)
TLS = Path(_FOLDER.name) / "tls"
"""The agents' certificates, which a site's operator makes once."""
authority.create(TLS, [])


class PlainKeys:
    """Keys that differ for each pod and name."""

    def key(self, pod_id: str, name: str) -> str:
        return f"{pod_id}.{name}"


T = TypeVar("T")


def _asked(attempt: Callable[[], T]) -> T:
    for _ in range(100):
        try:
            return attempt()
        except NotYetError:
            time.sleep(0.1)
    raise AssertionError("not within 10 s")


class Bench(ABC):
    """An IPU-POD under test with a pod of two machines."""

    driver: ResourceDriver
    machines: MachineReader

    def __init__(self, site: Site) -> None:
        self.scope = Scope(site.name, Owner.pod(str(uuid.uuid4())), "bert", "team")
        document = {
            "name": "bert",
            "ipus": {"count": 8},
            "nodes": {"count": 1, "flavor": "poplar", "image": "ubuntu"},
        }
        order = Order.model_validate(document)
        plan = make_plan(self.scope.owner.id, "team", order, site, Occupancy(), UsedNumbers(), {})
        assert isinstance(plan, Plan)
        self.graph = plan.graph
        self.names = [n.node for n in plan.placement.nodes]
        self.wanted = [r for r in plan.graph.resources if r.kind.row.home is Home.MACHINES]

    def of(self, *keys: str) -> list[Resource]:
        return [r for r in self.wanted if r.key.split("/")[0] in keys]

    def seen(self) -> set[str]:
        """Keys of all resources that are found."""
        return set(there(self.driver.find(self.scope, self.wanted, {})))

    def delete_all(self) -> None:
        """Delete in reverse order, as a release does."""
        for resource in reversed(self.wanted):
            for _ in range(100):
                outcome = self.driver.delete(self.scope, [resource], {})[resource.key]
                if not isinstance(outcome.error, NotYetError):
                    break
                time.sleep(0.1)
            assert outcome.error is None, outcome.error

    def proved(self) -> str:
        """The proof's result once all is cleared, asked repeatedly as the loop does."""
        said = _asked(lambda: self.machines.prove(self.scope, self.wanted))
        _asked(lambda: self.machines.clear_proof(self.scope, self.wanted))
        return said

    @abstractmethod
    def boot(self) -> None:
        """Start the controller's virtual machine and run its cloud-init to the end."""

    @abstractmethod
    def power_off(self) -> None:
        """End the controller at once."""

    @abstractmethod
    def tenant_makes_partition(self, name: str) -> None: ...

    @abstractmethod
    def partitions(self) -> set[str]: ...

    @abstractmethod
    def take_allocation(self) -> None:
        """Remove the tenant's allocation from its user, from outside."""

    @abstractmethod
    def stranger_claims(self, machine: str) -> None: ...

    @abstractmethod
    def agent_forgets(self, machine: str) -> None:
        """Make the agent unbound; what is set up on its machine stays."""

    @abstractmethod
    def controller_forgets(self, machine: str) -> None:
        """Remove the agent from the controller's list; it stays bound. There is no cluster."""

    @abstractmethod
    def stick(self, machine: str, stuck: bool) -> None:
        """Make clearing this machine fail, or work again."""

    @abstractmethod
    def leave(self, machine: str, name: str) -> None:
        """Set up a former controller's partition on the machine."""

    @abstractmethod
    def settings(self) -> set[str]:
        """What is set up on any machine."""

    @abstractmethod
    def agent_gone(self, machine: str) -> None: ...

    @abstractmethod
    def agent_back(self, machine: str) -> None: ...


class FakeBench(Bench):
    def __init__(self) -> None:
        super().__init__(load_site(EXAMPLE))
        self.fake = FakeVipu("pod1", [m.name for m in load_site(EXAMPLE).ipu_machines])
        self.driver = self.machines = self.fake

    def boot(self) -> None:
        self.fake.boot(self.scope, self.graph)

    def power_off(self) -> None:
        self.fake.lose_controller(self.scope.owner.id)

    def tenant_makes_partition(self, name: str) -> None:
        self.fake.make_partition(self.scope.owner.id, name)

    def partitions(self) -> set[str]:
        return self.fake.controllers[self.scope.owner.id].partitions

    def take_allocation(self) -> None:
        self.fake.controllers[self.scope.owner.id].taken.add("vipu_user")

    def stranger_claims(self, machine: str) -> None:
        self.fake.owners[machine] = STRANGER

    def agent_forgets(self, machine: str) -> None:
        self.fake.owners[machine] = ""

    def controller_forgets(self, machine: str) -> None:
        del self.fake.controllers[self.scope.owner.id].has[f"vipu_agent/{machine}"]

    def stick(self, machine: str, stuck: bool) -> None:
        self.fake.stuck = {machine} if stuck else set()

    def leave(self, machine: str, name: str) -> None:
        self.fake.settings[machine].add(name)

    def settings(self) -> set[str]:
        return set[str]().union(*self.fake.settings.values())

    def agent_gone(self, machine: str) -> None:
        self.fake.away.add(machine)

    def agent_back(self, machine: str) -> None:
        self.fake.away.discard(machine)


class Forked:
    """A forked process with the methods of a process that `Guest` uses."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self._process.pid:
            os.kill(self._process.pid, number)

    def wait(self) -> None:
        self._process.join()


class ForkedGuest(Guest):
    """A guest whose programs are forked from a process that has imported them (`tests.helpers.forks`)."""

    def _start(self, words: Sequence[str], log: str) -> Any:
        inside = [str(self.path(w)) if w.startswith("/") else w for w in words[1:]]
        said = [self._folder / f"{log}.{len(self._processes)}.{name}" for name in ("out", "err")]
        env = {"PATH": os.environ.get("PATH", ""), "HOME": str(self._folder)}
        process: Any = Forked(forks.start(words[0], inside, env, self._folder, *said))
        self._processes.append(process)
        return process


class RealBench(Bench):
    """openvipu: a controller booted with the graph's own cloud-init, over a simulated POD16."""

    def __init__(self, folder: Path, net: str, pod: SimulatedPod) -> None:
        self._folder, self._pod = folder, pod
        super().__init__(_on_loopback(load_site(EXAMPLE), net, pod))
        site = _on_loopback(load_site(EXAMPLE), net, pod)
        self.driver = self.machines = VipuDriver(site, "pod1", PlainKeys(), patience=0.0)
        gateway = site.ipu_pods["pod1"].gateway
        self._channels, self._address = (
            Channels(PlainKeys(), gateway),
            At(str(gateway.controllers[1]), tls=True),
        )
        self._guest: Guest | None = None

    def boot(self) -> None:
        spec = self.graph.by_key()["server/controller"].spec
        assert isinstance(spec, ServerSpec) and spec.user_data is not None
        text = spec.user_data
        for name in spec.secrets:
            text = text.replace(place(name), text_of(PlainKeys(), self.scope.owner.id, name))
        said: list[str] = []
        self._guest = ForkedGuest(self._folder, [self._address.address], str, said.append)
        self._guest.boot(text)
        wait_for(lambda: any("vipu-admin" in line for line in said))
        logs = [log.read_text() for log in self._folder.glob("boot.log.*")]
        assert said[-1].endswith("exit code 0"), (said, logs)

    def power_off(self) -> None:
        assert self._guest is not None
        self._guest.end()
        self._guest = None

    def close(self) -> None:
        if self._guest is not None:
            self._guest.end()
        self._pod.heal()
        for name in self._pod.agents:
            self._pod.agents[name].binding.release()
            machine = self._pod.agents[name].machine
            for setting in machine.status().settings:
                machine.clear(setting.partition_id, setting.generation)

    def tenant_makes_partition(self, name: str) -> None:
        needs = vipuuser_pb2.PartitionRequirements(id=name, size=8)
        request = vipuuser_pb2.CreatePartitionRequest(requirements=needs)
        with self._channels.user(self.scope.owner.id, self._address, tenant=True) as channel:
            channel.ask("create", lambda s: s.CreatePartition, request)
            looked = vipuuser_pb2.GetPartitionStatusRequest(partition_id=name)
            active = vipuuser_pb2.PS_ACTIVE
            wait_for(
                lambda: (
                    channel.ask("look", lambda s: s.GetPartitionStatus, looked).status.ready_state == active
                )
            )

    def partitions(self) -> set[str]:
        with self._channels.user(self.scope.owner.id, self._address, tenant=False) as channel:
            request = vipuuser_pb2.ListPartitionsRequest()
            return {p.id for p in channel.ask("list", lambda s: s.ListPartitions, request).partitions}

    def take_allocation(self) -> None:
        with self._channels.admin(self.scope.owner.id, self._address) as channel:
            request = admin_pb2.UpdateUserRequest(id="tenant", allocation_ids=[])
            channel.ask("take", lambda s: s.UpdateUser, request)

    def stranger_claims(self, machine: str) -> None:
        agent = self._pod.agents[_simulated(machine)]
        metadata = (("openvipu-controller", STRANGER), ("openvipu-key", "another-key"))
        with channel(f"{agent.host}:{agent.port}", Tls.trusting(TLS / "ca.crt"), "openvipu-agent") as link:
            agent_pb2_grpc.AgentServiceStub(link).Claim(agent_pb2.ClaimRequest(), metadata=metadata)

    def agent_forgets(self, machine: str) -> None:
        self._pod.agents[_simulated(machine)].binding.release()

    def controller_forgets(self, machine: str) -> None:
        self.agent_gone(machine)
        with self._channels.admin(self.scope.owner.id, self._address) as channel:
            request = admin_pb2.RemoveAgentRequest(id=machine, force=True)
            channel.ask("forget", lambda s: s.RemoveAgent, request)
        self.agent_back(machine)

    def stick(self, machine: str, stuck: bool) -> None:
        def broken(partition_id: str, generation: int) -> None:
            raise HardwareError("the board doesn't answer")

        board: Any = self._pod.agents[_simulated(machine)].machine
        if stuck:
            board.clear = broken
        else:
            del board.clear

    def leave(self, machine: str, name: str) -> None:
        setting = Setting(name, 57, (IpuSetting(0, 0, 0),), (), (), 1, 1)
        self._pod.agents[_simulated(machine)].machine.configure(setting)

    def settings(self) -> set[str]:
        boards = [a.machine.status() for a in self._pod.agents.values()]
        return {s.partition_id for board in boards for s in board.settings}

    def agent_gone(self, machine: str) -> None:
        self._pod.plant(Fault("agent-gone", _simulated(machine)))

    def agent_back(self, machine: str) -> None:
        self._pod.heal()


@contextmanager
def simulated_pod() -> Iterator[tuple[str, SimulatedPod]]:
    """A POD16 on loopback addresses that no other run uses, and the first two bytes of its controllers' addresses."""
    with _own_net() as second, _simulated_pod(second) as pod:
        yield f"127.{second}", pod


@contextmanager
def _own_net() -> Iterator[int]:
    """The second byte of a loopback network; the process that listens on its last port owns it."""
    for second in range(110, 210):
        try:
            taken = socket.create_server((f"127.{second}.255.254", 65535))
        except OSError:
            continue
        with taken:
            yield second
        return
    raise AssertionError("every network from 127.110.0.0/16 to 127.209.0.0/16 is in use")


def _simulated_pod(second: int) -> SimulatedPod:
    tls = Tls.read(TLS, "agent", mutual=False)
    config = PodConfig(pod_plan(16), base=f"127.{second}.2.0", port=0, tls=tls)
    return SimulatedPod(config)


def _simulated(machine: str) -> str:
    return machine.removeprefix("lr75-")


def _on_loopback(site: Site, net: str, pod: SimulatedPod) -> Site:
    """The example's site with only its first four machines, at the simulated machines' addresses."""
    changes = {
        "addresses": IPv4Network(f"{net}.0.0/16"),
        "controllers": IPv4Network(f"{net}.3.0/24"),
        "agents_ca": (TLS / "ca.crt").read_text(),
    }
    gateway = site.ipu_pods["pod1"].gateway.model_copy(update=changes)
    one = site.ipu_pods["pod1"].model_copy(update={"gateway": gateway, "topology": "mesh"})
    machines = tuple(
        m.model_copy(
            update={
                "gw_address": IPv4Address(pod.agents[_simulated(m.name)].host),
                "agent_port": pod.agents[_simulated(m.name)].port,
            }
        )
        for m in site.ipu_machines[:4]
    )
    return site.model_copy(update={"ipu_pods": {"pod1": one}, "ipu_machines": machines})
