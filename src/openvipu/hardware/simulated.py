"""Simulated IPU-Machines: an M2000 each, on one shared fabric."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from openvipu.hardware.fabric import Board, Fabric, Fault, wire_gateways, wire_ring
from openvipu.hardware.protocol import HardwareError
from openvipu.model.errors import BadRequest
from openvipu.model.hardware import MachineStatus, Setting, SettingStatus
from openvipu.model.site import IPUS_PER_MACHINE, Ipu, Machine, Port
from openvipu.rules.board import DOWN, GATEWAY, INNER, SYNC, UP, inner_links, port_position, position_of

SOFTWARE_VERSION = "2.6.0"
GATEWAY_VERSION = "2.6.0"
FAULT_KINDS = ("dead-ipu", "bad-cable", "slow-reset", "agent-gone")
PORTS = UP + DOWN + GATEWAY + SYNC


@dataclass(frozen=True, slots=True)
class PodPlan:
    """A POD to simulate: ``domains`` IPU-Link domains of ``machines`` machines each."""

    domains: int
    machines: int
    torus: bool
    switched: bool = False


def pod_plan(ipus: int, switched: bool = False) -> PodPlan:
    """The plan of a POD of ``ipus`` IPUs; BadRequest for a size that isn't built.

    POD4 and POD16 are meshes of 1 and 4 machines; a POD64 is one torus of 16; a POD128 has two such
    domains, a POD256 four (data sheets).
    """
    if ipus in (4, 16):
        return PodPlan(1, ipus // IPUS_PER_MACHINE, torus=False)
    if ipus in (64, 128, 256):
        return PodPlan(ipus // 64, 16, torus=True, switched=switched)
    raise BadRequest(f"pod {ipus} is not allowed; use 4, 16, 64, 128 or 256")


class SimulatedMachine:
    """One machine on a fabric; a :class:`~openvipu.hardware.protocol.Hardware`."""

    def __init__(self, fabric: Fabric, board: Board, rnic_address: str, delay: float = 0.0) -> None:
        self._fabric = fabric
        self._board = board
        self._rnic_address = rnic_address
        self._delay = delay

    @property
    def name(self) -> str:
        return self._board.name

    @property
    def serial(self) -> str:
        """Serial number of its board."""
        return self._board.serial

    def describe(self) -> Machine:
        with self._fabric.lock:
            return Machine(
                serial=self.serial,
                name=self.name,
                product="IPU-M2000",
                software_version=SOFTWARE_VERSION,
                gateway_version=GATEWAY_VERSION,
                rnic_address=self._rnic_address,
                server_port=10000,
                rdma_port=10001,
                ipus=self._ipus(),
                ports=tuple(self._port(name) for name in PORTS),
            )

    def configure(self, setting: Setting) -> None:
        _pause(self._delay)
        with self._fabric.lock:
            self._check(setting)
            self._board.settings[setting.partition_id] = setting

    def reset(self, setting: Setting) -> None:
        with self._fabric.lock:
            self._check(setting)
            slow = sum(
                fault.seconds
                for fault in self._fabric.faults
                if fault.kind == "slow-reset" and fault.machine == self.name
            )
        _pause(self._delay + slow)
        with self._fabric.lock:
            self._check(setting)
            self._board.settings[setting.partition_id] = setting

    def train(self, partition_id: str, generation: int) -> tuple[str, ...]:
        with self._fabric.lock:
            setting = self._board.settings.get(partition_id)
            if setting is None or setting.generation != generation:
                raise HardwareError(f"partition {partition_id!r} is not configured on {self.name}")
            return self._failures(setting)

    def clear(self, partition_id: str, generation: int) -> None:
        _pause(self._delay)
        with self._fabric.lock:
            setting = self._board.settings.get(partition_id)
            if setting is not None and setting.generation <= generation:
                del self._board.settings[partition_id]

    def status(self) -> MachineStatus:
        with self._fabric.lock:
            settings = tuple(
                SettingStatus(setting.partition_id, setting.generation, self._failures(setting))
                for setting in self._board.settings.values()
            )
            return MachineStatus(self.serial, self._ipus(), settings)

    def run_test(self, test: str, ports: tuple[str, ...]) -> tuple[str, ...]:
        """Both tests fail on the same simulated faults: a bad cable, or a dead IPU at its end."""
        if test not in ("link-training", "traffic"):
            raise HardwareError(f"test {test!r} is not known; use link-training or traffic")
        with self._fabric.lock:
            if self._board.settings:
                raise HardwareError(f"{self.name} has partitions; tests disturb them")
            unknown = [port for port in ports if port not in PORTS]
            if unknown:
                raise HardwareError(f"port {unknown[0]!r} is not one of {', '.join(PORTS)}")
            bad = [port for port in ports if not self._fabric.is_cable_good(self.serial, port)]
            dead = [f"IPU {ipu.number} doesn't respond" for ipu in self._ipus() if not ipu.healthy]
            words = "didn't train" if test == "link-training" else "lost packets"
            return (*dead, *(f"{port} {words}" for port in bad))

    def sensors(self) -> Mapping[str, Mapping[str, float]]:
        """Steady, plausible readings: a busy IPU is warmer and takes more power than an idle one."""
        with self._fabric.lock:
            busy = {ipu.number for setting in self._board.settings.values() for ipu in setting.ipus}
            units = {f"ipu{number}": number in busy for number in range(IPUS_PER_MACHINE)}
        return {
            "temperature_celsius": {
                "board": 38.0,
                **{unit: 55.0 if on else 36.0 for unit, on in units.items()},
            },
            "power_watts": {"board": 250.0, **{unit: 130.0 if on else 45.0 for unit, on in units.items()}},
        }

    def _check(self, setting: Setting) -> None:
        numbers = {ipu.number for ipu in setting.ipus}
        if not setting.partition_id or not numbers or not numbers <= set(range(IPUS_PER_MACHINE)):
            raise HardwareError(f"a setting needs a partition and IPUs 0 to {IPUS_PER_MACHINE - 1}")
        unknown = set(setting.open_links) - set(INNER) - set(PORTS)
        if unknown:
            raise HardwareError(f"link {sorted(unknown)[0]!r} is not on this machine")
        self._check_others(setting, numbers)
        own = self._board.settings.get(setting.partition_id)
        if own is not None and own.generation > setting.generation:
            raise HardwareError(
                f"partition {setting.partition_id!r} has the newer setting {own.generation}; "
                f"{setting.generation} is refused"
            )

    def _check_others(self, setting: Setting, numbers: set[int]) -> None:
        """An IPU, and so a link end, belongs to one partition."""
        positions = {position_of(number) for number in numbers}
        own = set(inner_links(positions))
        own |= {port for port in UP + DOWN if port_position(port) in positions}
        own |= set(GATEWAY) if len(positions) == IPUS_PER_MACHINE else set()
        if not own.issuperset(setting.open_links):
            raise HardwareError("a setting may open only the links of its own IPUs")
        for other in self._board.settings.values():
            shared = numbers & {ipu.number for ipu in other.ipus}
            if other.partition_id != setting.partition_id and shared:
                raise HardwareError(
                    f"IPU {min(shared)} of {self.name} belongs to partition {other.partition_id!r}"
                )

    def _failures(self, setting: Setting) -> tuple[str, ...]:
        fabric, serial = self._fabric, self.serial
        dead = [fabric.ipu_fault(serial, ipu.number) for ipu in setting.ipus]
        links = [fabric.link_fault(serial, link) for link in setting.open_links if link not in GATEWAY]
        peers = [fabric.gateway_fault(serial, setting.partition_id, peer) for peer in setting.gateway_peers]
        return tuple(f"{self.name}: {fault}" for fault in (*dead, *links, *peers) if fault)

    def _ipus(self) -> tuple[Ipu, ...]:
        return tuple(self._ipu(number) for number in range(IPUS_PER_MACHINE))

    def _ipu(self, number: int) -> Ipu:
        fault = self._fabric.ipu_fault(self.serial, number)
        attributes = (
            ("board ipu index", str(number)),
            ("board serial number", self.serial),
            ("board type", "M2000"),
            ("clock", "1330MHz"),
            ("ipu architecture", "ipu2"),
            ("number of tiles", "1472"),
            ("software version", SOFTWARE_VERSION),
        )
        return Ipu(number, f"{self.serial}-{number}", not fault, fault, attributes)

    def _port(self, name: str) -> Port:
        serial, port = self._fabric.peer(self.serial, name)
        return Port(name, serial, port, self._fabric.is_cable_good(self.serial, name))


def build_pod(
    plan: PodPlan, names: list[str], rnic_addresses: list[str], delay: float = 0.0
) -> tuple[Fabric, list[SimulatedMachine]]:
    """A fabric with the plan's machines, cabled. ``delay`` is what every change costs, in seconds."""
    fabric = Fabric()
    machines: list[SimulatedMachine] = []
    for place, (name, address) in enumerate(zip(names, rnic_addresses, strict=True)):
        board = Board(serial=f"0024.0002.8{place + 1:06d}", name=name)
        fabric.add(board)
        machines.append(SimulatedMachine(fabric, board, address, delay))
    serials = [machine.serial for machine in machines]
    domains = [serials[first : first + plan.machines] for first in range(0, len(serials), plan.machines)]
    for domain in domains:
        wire_ring(fabric, domain, closed=plan.torus)
    wire_gateways(fabric, domains, plan.switched)
    return fabric, machines


def check_fault(fault: Fault, names: set[str]) -> Fault:
    """``fault`` if it can be planted, in its one spelling; else BadRequest."""
    if fault.kind not in FAULT_KINDS:
        raise BadRequest(f"kind {fault.kind!r} is not allowed; use one of {', '.join(FAULT_KINDS)}")
    if fault.machine not in names:
        raise BadRequest(f"machine {fault.machine!r} is not simulated here")
    if fault.kind == "dead-ipu" and fault.unit not in [str(n) for n in range(IPUS_PER_MACHINE)]:
        raise BadRequest(f"unit {fault.unit!r} is not allowed; a dead-ipu has the unit 0, 1, 2 or 3")
    if fault.kind == "bad-cable" and fault.unit not in PORTS:
        raise BadRequest(f"unit {fault.unit!r} is not allowed; a bad-cable has one of {', '.join(PORTS)}")
    if fault.kind == "slow-reset" and not 0 < fault.seconds <= 3600:
        raise BadRequest(f"seconds {fault.seconds} is not allowed; a slow-reset takes up to 3600")
    return replace(fault, unit=fault.unit if fault.kind in ("dead-ipu", "bad-cable") else "")


def _pause(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)
