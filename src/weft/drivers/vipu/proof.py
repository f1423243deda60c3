"""Proof of readiness: the tenant's user creates a partition through the public user API, and removes it."""

from __future__ import annotations

import time

from openvipu.proto import vipuuser_pb2 as pb
from weft.drivers.vipu.channels import READ_TIMEOUT, Channel, MissingError, NoRoomError
from weft.model.errors import PermanentError, TemporaryError
from weft.model.ipusite import IPUS_PER_MACHINE
from weft.model.resources import VipuAllocationSpec

NAME = "weft-proof"
PATIENCE = 60.0
"""Seconds until a partition must be active, or gone."""
PAUSE = 0.1


def prove_partition(channel: Channel, allocation: VipuAllocationSpec) -> str:
    """A partition of all the pod's IPUs. Raises `TemporaryError` or `PermanentError`."""
    size = len(allocation.machines) * IPUS_PER_MACHINE
    _remove(channel)  # left by an interrupted earlier proof
    requirements = pb.PartitionRequirements(id=NAME, size=size, allocation_id=allocation.name)
    request = pb.CreatePartitionRequest(requirements=requirements)
    asked = f"create a partition of {size} IPUs as the tenant"
    try:
        channel.ask(asked, lambda stub: stub.CreatePartition, request)
    except NoRoomError:
        names = _own(channel, allocation.name)
        if not names:
            raise
        return f"the tenant's user has partitions: {', '.join(names)}"
    begun = time.monotonic()
    try:
        _active(channel, asked)
    finally:
        _remove(channel)
    return f"the tenant's user created a partition of {size} IPUs in {time.monotonic() - begun:.2f} s and removed it"


def _own(channel: Channel, allocation: str) -> list[str]:
    request = pb.ListPartitionsRequest(allocation_id=allocation)
    reply = channel.ask(
        "list partitions as the tenant", lambda stub: stub.ListPartitions, request, READ_TIMEOUT
    )
    return [p.id for p in reply.partitions if p.id != NAME]


def _status(channel: Channel) -> pb.PartitionStatus | None:
    """None if there is no such partition, or it was removed."""
    request = pb.GetPartitionStatusRequest(partition_id=NAME)
    try:
        reply = channel.ask(
            f"read partition {NAME}", lambda stub: stub.GetPartitionStatus, request, READ_TIMEOUT
        )
    except MissingError:
        return None
    status: pb.PartitionStatus = reply.status
    return None if status.ready_state == pb.PS_REMOVED else status


def _active(channel: Channel, asked: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        status = _status(channel)
        if status is not None and status.ready_state == pb.PS_ACTIVE:
            return
        said = "; ".join(status.errors) if status is not None else "it is gone"
        if status is None or status.operation_state == pb.POS_FAILED:
            raise PermanentError(asked, channel.of, said or "FAILED", "check the IPU-Machines")
        if time.monotonic() > deadline:
            raise TemporaryError(
                asked, channel.of, f"not active after {PATIENCE:.0f} s ({said or 'no reason'})"
            )
        time.sleep(PAUSE)


def _remove(channel: Channel) -> None:
    deadline = time.monotonic() + PATIENCE
    asked = f"remove partition {NAME}"
    while (status := _status(channel)) is not None:
        if status.operation_state != pb.POS_REMOVING:
            request = pb.RemovePartitionRequest(partition_id=NAME)
            try:
                channel.ask(asked, lambda stub: stub.RemovePartition, request)
            except MissingError:
                return
        if time.monotonic() > deadline:
            raise TemporaryError(asked, channel.of, f"still there after {PATIENCE:.0f} s")
        time.sleep(PAUSE)
