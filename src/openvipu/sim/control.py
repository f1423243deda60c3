"""The control API of a simulated POD: gRPC service and the client's commands."""

# ruff: noqa: N802 - the methods are named as on the wire

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from openvipu.hardware.fabric import Fault
from openvipu.proto import simulation_pb2 as pb
from openvipu.proto import simulation_pb2_grpc as pb_grpc
from openvipu.rpc import Guard, serve
from openvipu.sim.pod import SimulatedPod

SERVICE = "openvipu.simulation.v1.SimulationService"


class SimulationService(pb_grpc.SimulationServiceServicer):
    """Faults and probes, for testers: without authentication, so it listens on loopback alone."""

    def __init__(self, pod: SimulatedPod) -> None:
        self._pod = pod

    def Plant(self, request: pb.PlantRequest, context: Any) -> pb.PlantReply:
        self._pod.plant(_fault(request.fault))
        return pb.PlantReply()

    def Heal(self, request: pb.HealRequest, context: Any) -> pb.HealReply:
        self._pod.heal(_fault(request.fault) if request.fault.kind else None)
        return pb.HealReply()

    def ListFaults(self, request: pb.ListFaultsRequest, context: Any) -> pb.ListFaultsReply:
        return pb.ListFaultsReply(
            faults=[
                pb.Fault(kind=fault.kind, machine=fault.machine, unit=fault.unit, seconds=fault.seconds)
                for fault in self._pod.faults()
            ]
        )

    def Probe(self, request: pb.ProbeRequest, context: Any) -> pb.ProbeReply:
        hops = self._pod.probe((request.from_machine, request.from_ipu), (request.to_machine, request.to_ipu))
        return pb.ProbeReply(delivered=hops is not None, hops=hops or 0)


def start_control(pod: SimulatedPod, address: str, executor: ThreadPoolExecutor) -> tuple[grpc.Server, int]:
    """Serve the control API at ``host:port``; returns the server and its port."""

    def register(server: grpc.Server) -> None:
        pb_grpc.add_SimulationServiceServicer_to_server(SimulationService(pod), server)

    return serve(executor, address, (register,), (SERVICE,), Guard())


def _fault(wire: pb.Fault) -> Fault:
    return Fault(wire.kind, wire.machine, wire.unit, wire.seconds)
