"""Proof of readiness: the tenant's user creates a partition through the public user API."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass

from openvipu.proto import vipuuser_pb2 as pb
from weft.drivers.vipu.channels import READ_TIMEOUT, Channel, MissingError, NoRoomError
from weft.model.errors import NotYetError, PermanentError, UnknownError
from weft.model.site import IPUS_PER_MACHINE
from weft.model.specs import VipuAllocationSpec

PROOF_KEY = "vipu-proof"
"""Name of the pod's key that the partition's name comes from."""
PAUSE = 0.3
"""Seconds between two readings of the partition's state."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of the proof. `tenants`: the tenant's own partitions left no room for weft's."""

    words: str
    tenants: bool = False


def proof_name(key: str) -> str:
    """The partition's name, which the tenant can't guess and so can't have used."""
    return f"weft-proof-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def prove_partition(channel: Channel, allocation: VipuAllocationSpec, name: str) -> Proof:
    """Create a partition of all the pod's IPUs, and see it active. Raises `NotYetError`, `TemporaryError` or
    `PermanentError`."""
    size = len(allocation.machines) * IPUS_PER_MACHINE
    asked = f"create a partition of {size} IPUs as the tenant"
    status = _status(channel, name)
    if status is None:
        requirements = pb.PartitionRequirements(id=name, size=size, allocation_id=allocation.name)
        request = pb.CreatePartitionRequest(requirements=requirements)
        try:
            channel.ask(asked, lambda stub: stub.CreatePartition, request)
        except NoRoomError:
            own = _own(channel, allocation.name, name)
            if not own:
                raise
            used = f"{sum(own.values())} of {size} IPUs"
            return Proof(f"the tenant's user has partitions of {used}: {', '.join(own)}", tenants=True)
        status = _status(channel, name)
    if status is not None and status.operation_state == pb.POS_FAILED:
        with suppress(NotYetError):
            clear_partition(channel, name)
        said = "; ".join(status.errors) or "FAILED"
        raise PermanentError(asked, channel.of, said, "check the IPU-Machines")
    if status is None or status.ready_state != pb.PS_ACTIVE:
        raise NotYetError(asked, channel.of, "it is not active yet", delay=PAUSE)
    return Proof(f"the tenant's user created a partition of {size} IPUs")


def clear_partition(channel: Channel, name: str) -> None:
    """Remove the partition. Raises `NotYetError` until it is gone."""
    asked = f"remove partition {name}"
    status = _status(channel, name)
    if status is not None and status.operation_state != pb.POS_REMOVING:
        request = pb.RemovePartitionRequest(partition_id=name)
        try:
            channel.ask(asked, lambda stub: stub.RemovePartition, request)
        except MissingError:
            return
        status = _status(channel, name)
    if status is not None:
        raise NotYetError(asked, channel.of, "it is still there", delay=PAUSE)


def _own(channel: Channel, allocation: str, proof: str) -> dict[str, int]:
    """The tenant's partitions, and the number of IPUs of each."""
    request = pb.ListPartitionsRequest(allocation_id=allocation)
    reply = channel.ask(
        "list partitions as the tenant", lambda stub: stub.ListPartitions, request, READ_TIMEOUT
    )
    mine = (p for p in reply.partitions if p.id != proof and p.spec.allocation_id == allocation)
    return {p.id: len(p.spec.ipus) for p in mine if p.spec.ipus}


def _status(channel: Channel, name: str) -> pb.PartitionStatus | None:
    """State of a partition; None: it doesn't exist, or was removed."""
    request, asked = pb.GetPartitionStatusRequest(partition_id=name), f"read partition {name}"
    try:
        reply = channel.ask(asked, lambda stub: stub.GetPartitionStatus, request, READ_TIMEOUT)
    except MissingError:
        return None
    status: pb.PartitionStatus = reply.status
    if status.partition_id != name:
        raise UnknownError(asked, channel.of, f"it answers about partition {status.partition_id[:63]!r}")
    return None if status.ready_state == pb.PS_REMOVED else status
