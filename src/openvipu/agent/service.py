"""The agent's gRPC service over one machine's hardware."""

# ruff: noqa: N802 - the methods are named as on the wire

from __future__ import annotations

import logging
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc

from openvipu.agent.binding import Binding
from openvipu.convert import machine_to_wire, setting_from_wire, status_to_wire
from openvipu.hardware.protocol import Hardware, HardwareError
from openvipu.model.errors import BadRequest, Busy
from openvipu.model.names import check_id
from openvipu.proto import agent_pb2 as pb
from openvipu.proto import agent_pb2_grpc as pb_grpc
from openvipu.rpc import CONTROLLER_HEADER, CONTROLLER_KEY_HEADER, Guard, metadata_of, serve
from openvipu.rpctls import Tls

log = logging.getLogger("openvipu")

SERVICE = "openvipu.agent.v1.AgentService"

LONGEST_WAIT = 60.0
"""Most seconds that a call waits for the changes before it; less if its deadline is earlier."""


class AgentService(pb_grpc.AgentServiceServicer):
    """Every call but Claim and GetOwner is for the owner only; Claim makes the first caller the owner.

    One change at a time: a slow Reset ends before its machine is released, so it sets up nothing after that.
    """

    def __init__(self, hardware: Hardware, binding: Binding, exporter_port: int = 0) -> None:
        self._hardware = hardware
        self._binding = binding
        self._exporter_port = exporter_port
        self._changing = threading.Lock()
        self._reading, self._noting = threading.Lock(), threading.Lock()
        self._changes = 0
        self._settings: int | None = None  # how many the hardware has; None: it must be asked

    def Claim(self, request: pb.ClaimRequest, context: Any) -> pb.ClaimReply:
        self._binding.claim(*_caller(context))
        return pb.ClaimReply(machine=self._machine())

    def Release(self, request: pb.ReleaseRequest, context: Any) -> pb.ReleaseReply:
        """Clear every partition, then forget the owner: the machine is returned clean."""
        with self._change(context):
            _clear_all(self._hardware)
            self._binding.release()
        return pb.ReleaseReply()

    def GetOwner(self, request: pb.GetOwnerRequest, context: Any) -> pb.GetOwnerReply:
        """The controller's id and the number of settings, for all callers: they open nothing without the key.

        From memory: otherwise any client that reaches the port could keep the hardware busy.
        """
        owner = self._binding.owner  # first: a machine without an owner gets no setting before it has one
        settings = self._count()
        return pb.GetOwnerReply(controller_id=owner.controller_id if owner else "", settings=settings)

    def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:
        self._check(context)
        return pb.DescribeReply(machine=self._machine())

    def Configure(self, request: pb.ConfigureRequest, context: Any) -> pb.ConfigureReply:
        with self._change(context):
            self._hardware.configure(setting_from_wire(_checked(request.setting)))
        return pb.ConfigureReply()

    def Train(self, request: pb.TrainRequest, context: Any) -> pb.TrainReply:
        self._check(context)
        failures = self._hardware.train(request.partition_id, request.generation)
        return pb.TrainReply(failures=failures)

    def Reset(self, request: pb.ResetRequest, context: Any) -> pb.ResetReply:
        with self._change(context):
            self._hardware.reset(setting_from_wire(_checked(request.setting)))
        return pb.ResetReply()

    def Clear(self, request: pb.ClearRequest, context: Any) -> pb.ClearReply:
        with self._change(context):
            self._hardware.clear(request.partition_id, request.generation)
        return pb.ClearReply()

    def GetStatus(self, request: pb.GetStatusRequest, context: Any) -> pb.GetStatusReply:
        self._check(context)
        return status_to_wire(self._hardware.status())

    def RunTest(self, request: pb.RunTestRequest, context: Any) -> pb.RunTestReply:
        self._check(context)
        return pb.RunTestReply(failures=self._hardware.run_test(request.test, tuple(request.ports)))

    def _machine(self) -> pb.Machine:
        return machine_to_wire(replace(self._hardware.describe(), exporter_port=self._exporter_port))

    def _count(self) -> int:
        """How many settings the hardware has, as read after the last change; while there is one, as it is now."""
        known = self._settings
        if known is None:
            with self._reading:
                known = self._settings
                if known is None:
                    changes = self._changes
                    known = len(self._hardware.status().settings)
                    with self._noting:
                        if changes == self._changes and not self._changing.locked():
                            self._settings = known
        return known

    def _check(self, context: Any) -> None:
        self._binding.check(*_caller(context))

    @contextmanager
    def _change(self, context: Any) -> Generator[None]:
        """The owner's turn to change the machine. Busy if the changes before it take longer than the caller waits."""
        self._check(context)
        remaining = context.time_remaining()
        seconds = LONGEST_WAIT if remaining is None else max(0.0, min(LONGEST_WAIT, remaining))
        if not self._changing.acquire(timeout=seconds):
            raise Busy("the machine is busy with an earlier change; try again")
        try:
            self._check(context)  # it may have been released meanwhile
            with self._noting:
                self._settings, self._changes = None, self._changes + 1
            yield
        finally:
            self._changing.release()


def start(
    hardware: Hardware,
    binding: Binding,
    address: str,
    executor: ThreadPoolExecutor,
    tls: Tls | None = None,
    exporter_port: int = 0,
) -> tuple[grpc.Server, int]:
    """Serve one machine at ``host:port``. With mutual TLS only certificates with the name ``controller`` get in.

    Whatever is set up on a machine without an owner is cleared first: no controller is left to do it.
    ``exporter_port`` is where the machine's exporter listens, 0 if it has none.
    """
    if binding.owner is None:
        try:
            _clear_all(hardware)
        except HardwareError as error:
            log.warning("partitions of a former owner are left, and GetOwner says so: %s", error)
    service = AgentService(hardware, binding, exporter_port)

    def register(server: grpc.Server) -> None:
        pb_grpc.add_AgentServiceServicer_to_server(service, server)

    guard = Guard(tls.roles("controller") if tls else frozenset(), keyed=True)
    return serve(executor, address, (register,), (SERVICE,), guard, tls)


def _clear_all(hardware: Hardware) -> None:
    for setting in hardware.status().settings:
        hardware.clear(setting.partition_id, setting.generation)


def _caller(context: Any) -> tuple[str, str]:
    metadata = metadata_of(context)
    return metadata.get(CONTROLLER_HEADER, ""), metadata.get(CONTROLLER_KEY_HEADER, "")


def _checked(setting: pb.Setting) -> pb.Setting:
    check_id("setting.partition_id", setting.partition_id)
    numbers = [ipu.number for ipu in setting.ipus]
    if len(set(numbers)) != len(numbers):
        raise BadRequest("setting.ipus names an IPU twice")
    return setting
