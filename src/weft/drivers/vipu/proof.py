"""Proof of readiness: the tenant's user creates a partition through the public user API."""

from __future__ import annotations

from contextlib import suppress

from openvipu.proto import vipuuser_pb2 as pb
from weft.drivers.vipu.channels import READ_TIMEOUT, Channel, MissingError, NoRoomError
from weft.model.errors import NotYetError, PermanentError
from weft.model.resources import VipuAllocationSpec
from weft.model.site import IPUS_PER_MACHINE

NAME = "weft-proof"
PAUSE = 0.3
"""Seconds after which to look again."""


def prove_partition(channel: Channel, allocation: VipuAllocationSpec) -> str:
    """One of all the pod's IPUs, made and seen active. Raises `NotYetError`, `TemporaryError` or `PermanentError`."""
    size = len(allocation.machines) * IPUS_PER_MACHINE
    asked = f"create a partition of {size} IPUs as the tenant"
    status = _status(channel)
    if status is None:
        requirements = pb.PartitionRequirements(id=NAME, size=size, allocation_id=allocation.name)
        request = pb.CreatePartitionRequest(requirements=requirements)
        try:
            channel.ask(asked, lambda stub: stub.CreatePartition, request)
        except NoRoomError:
            names = _own(channel, allocation.name)
            if not names:
                raise
            return f"the tenant's user has partitions: {', '.join(names)}"
        status = _status(channel)
    if status is not None and status.operation_state == pb.POS_FAILED:
        with suppress(NotYetError):
            clear_partition(channel)
        said = "; ".join(status.errors) or "FAILED"
        raise PermanentError(asked, channel.of, said, "check the IPU-Machines")
    if status is None or status.ready_state != pb.PS_ACTIVE:
        raise NotYetError(asked, channel.of, "it is not active yet", delay=PAUSE)
    return f"the tenant's user created a partition of {size} IPUs"


def clear_partition(channel: Channel) -> None:
    """Raises `NotYetError` until it was seen to be gone."""
    asked = f"remove partition {NAME}"
    status = _status(channel)
    if status is not None and status.operation_state != pb.POS_REMOVING:
        request = pb.RemovePartitionRequest(partition_id=NAME)
        try:
            channel.ask(asked, lambda stub: stub.RemovePartition, request)
        except MissingError:
            return
        status = _status(channel)
    if status is not None:
        raise NotYetError(asked, channel.of, "it is still there", delay=PAUSE)


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
