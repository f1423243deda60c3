"""The running POD: a fabric, its machines, and a gRPC server for each agent."""

from __future__ import annotations

import ipaddress
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from openvipu.agent import beacon
from openvipu.agent.binding import Binding
from openvipu.agent.exporter import start_exporter
from openvipu.agent.service import start
from openvipu.hardware.fabric import Fault
from openvipu.hardware.simulated import PodPlan, SimulatedMachine, build_pod, check_fault
from openvipu.model.errors import BadRequest
from openvipu.model.names import check_id
from openvipu.rpctls import Tls
from openvipu.rules.board import position_of


@dataclass(frozen=True, slots=True)
class PodConfig:
    """Where a simulated POD listens. Machine m of domain d has the address ``base`` + 256·d + m + 1.

    Port 0 gives each agent a free port. ``exporters`` is the exporters' port, None for none.
    """

    plan: PodPlan
    base: str = "127.86.0.0"
    port: int = 8080
    prefix: str = "ipum"
    delay: float = 0.0
    exporters: int | None = None
    announce: str = ""
    bindings: Path | None = None
    controller_key: str = ""
    tls: Tls | None = None


@dataclass(slots=True)
class SimulatedAgent:
    """One agent: its machine, its owner, and its server while it isn't gone."""

    machine: SimulatedMachine
    binding: Binding
    host: str
    port: int
    server: grpc.Server | None = field(default=None)


class SimulatedPod:
    """All agents of a POD; faults can be planted and probes sent while it runs."""

    def __init__(self, config: PodConfig) -> None:
        """Start everything; BadRequest says which address can't be listened on."""
        self._config = config
        self._lock = threading.Lock()
        check_id("prefix", config.prefix)
        count = config.plan.domains * config.plan.machines
        names = [f"{config.prefix}{place + 1}" for place in range(count)]
        hosts = [_host(config, place) for place in range(count)]
        self.fabric, machines = build_pod(config.plan, names, hosts, config.delay)
        self.agents: dict[str, SimulatedAgent] = {}
        self.exporter_ports: dict[str, int] = {}
        with ExitStack() as stack:
            self._executor = ThreadPoolExecutor(64, thread_name_prefix="agent")
            stack.callback(self._executor.shutdown, wait=False)
            stack.callback(self._stop_all)
            for machine, host in zip(machines, hosts, strict=True):
                self._start_agent(machine, host, stack)
            if config.announce:
                bodies = [beacon.encode(agent.host, agent.port, name) for name, agent in self.agents.items()]
                stack.callback(beacon.Beacon(config.announce, bodies).close)
            self._stack = stack.pop_all()

    def plant(self, fault: Fault) -> None:
        """Add a fault; it acts at once. BadRequest if there is no such thing to break."""
        fault = check_fault(fault, set(self.agents))
        with self._lock:
            with self.fabric.lock:
                self.fabric.faults.add(fault)
            if fault.kind == "agent-gone":
                self._stop(self.agents[fault.machine])

    def heal(self, fault: Fault | None = None) -> None:
        """Remove a fault, or all of them; agents come back with the state that they had."""
        with self._lock, self.fabric.lock:
            healed = set(self.fabric.faults) if fault is None else {fault}
            self.fabric.faults -= healed
        for entry in healed:
            if entry.kind == "agent-gone" and entry.machine in self.agents:
                self._serve(self.agents[entry.machine])

    def faults(self) -> list[Fault]:
        """The planted faults, in a steady order."""
        with self.fabric.lock:
            return sorted(self.fabric.faults, key=lambda fault: (fault.machine, fault.kind, fault.unit))

    def probe(self, source: tuple[str, int], target: tuple[str, int]) -> int | None:
        """Links that a packet crosses from one IPU (agent name, number) to another; None if blocked."""
        nodes: list[tuple[str, int]] = []
        for name, number in (source, target):
            if name not in self.agents or not 0 <= number <= 3:
                raise BadRequest(f"IPU {number} of machine {name!r} is not simulated here")
            nodes.append((self.agents[name].machine.serial, position_of(number)))
        return self.fabric.probe(nodes[0], nodes[1])

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> SimulatedPod:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_agent(self, machine: SimulatedMachine, host: str, stack: ExitStack) -> None:
        path = self._config.bindings / f"{machine.name}.json" if self._config.bindings else None
        binding = Binding(path, self._config.controller_key)
        agent = SimulatedAgent(machine, binding, host, self._config.port)
        self.agents[machine.name] = agent
        if self._config.exporters is not None:
            exporter = start_exporter(machine, host, self._config.exporters)
            self.exporter_ports[machine.name] = int(exporter.server_address[1])
            stack.callback(exporter.server_close)
            stack.callback(exporter.shutdown)
        self._serve(agent)

    def _serve(self, agent: SimulatedAgent) -> None:
        with self._lock:
            if agent.server is None:
                address = f"{agent.host}:{agent.port}"
                agent.server, agent.port = start(
                    agent.machine,
                    agent.binding,
                    address,
                    self._executor,
                    self._config.tls,
                    self.exporter_ports.get(agent.machine.name, 0),
                )

    def _stop(self, agent: SimulatedAgent) -> None:
        if agent.server is not None:
            agent.server.stop(grace=None).wait()
            agent.server = None

    def _stop_all(self) -> None:
        with self._lock:
            stopping = [agent.server.stop(grace=None) for agent in self.agents.values() if agent.server]
            for done in stopping:
                done.wait()


def _host(config: PodConfig, place: int) -> str:
    try:
        base = ipaddress.ip_address(config.base)
        domain, machine = divmod(place, config.plan.machines)
        return str(base + 256 * domain + machine + 1)
    except ValueError:
        raise BadRequest(f"base {config.base!r} is not an IP address with room for the POD") from None
