"""States of a partition: which step leads where. Numbers and names as the user API has them.

==========  ===================  ===================================================================
step        (ready, operation)   when
==========  ===================  ===================================================================
admitted    PENDING, CREATING    the request is accepted, the IPUs are reserved
activated   ACTIVE, IDLE         every machine is configured and every link trained
recovering  ERROR, RESETTING     automatic resets run or wait for their turn (PENDING before the first
                                 success, so that a client that waits for its partition continues waiting)
resetting   unchanged, RESETTING a user asked for a reset
failed      ERROR, FAILED        no more tries, or automatic reset is off
removing    unchanged, REMOVING  until every machine has been cleared
==========  ===================  ===================================================================
"""

from __future__ import annotations

from dataclasses import replace

from openvipu.model.errors import Conflict
from openvipu.model.partition import Operation, Partition, ReadyState, RemovedPartition
from openvipu.model.state import State

MAX_AUTO_RESETS = 3
"""Attempts before a partition is FAILED. The number of the closed controller isn't public: our choice."""


def activated(partition: Partition) -> Partition:
    """The partition after success: ACTIVE, without past errors and tries."""
    return replace(partition, ready=ReadyState.ACTIVE, operation=Operation.IDLE, errors=(), retries=0)


def failed(partition: Partition, errors: tuple[str, ...]) -> Partition:
    """The partition as FAILED, until a user resets or removes it."""
    return replace(partition, ready=ReadyState.ERROR, operation=Operation.FAILED, errors=errors)


def may_retry(partition: Partition) -> bool:
    """Whether another automatic reset is allowed."""
    return partition.auto_reset and partition.retries < MAX_AUTO_RESETS


def recovering(partition: Partition, errors: tuple[str, ...], now: float) -> Partition:
    """The next automatic reset is on its way. ``now`` is seconds since the epoch."""
    return replace(
        partition,
        ready=ReadyState.PENDING if partition.ready is ReadyState.PENDING else ReadyState.ERROR,
        operation=Operation.RESETTING,
        errors=errors,
        retries=partition.retries + 1,
        last_auto_reset=now,
    )


def relocating(partition: Partition) -> Partition:
    """The partition on other IPUs, where a reset sets it up."""
    return replace(partition, operation=Operation.RESETTING)


def resetting(partition: Partition, relocatable: bool) -> Partition:
    """A user's reset begins; the counter of automatic ones starts again.

    ``relocatable`` true overrides what was said at creation, false leaves it [API].
    """
    if partition.operation is Operation.REMOVING:
        raise Conflict(f"partition {partition.id!r} is being removed")
    return replace(
        partition,
        operation=Operation.RESETTING,
        retries=0,
        relocatable=partition.relocatable or relocatable,
    )


def removing(partition: Partition, force: bool) -> Partition:
    """The removal begins. A second request for it is no error; ``force`` once given stays."""
    return replace(partition, operation=Operation.REMOVING, force_removal=partition.force_removal or force)


REMEMBERED = 128
"""Removed partitions of one allocation whose status is still answered with REMOVED; bounded, so nothing grows."""


def removed(state: State, partition: Partition) -> State:
    """The state without the partition, which a client that polls for its end still reads, after a restart too.

    Each allocation has a memory of its own: one tenant's many partitions don't push out another's.
    """
    gone = state.without_partition(partition.id).with_removed(
        RemovedPartition(partition.id, partition.allocation_id)
    )
    own = [entry.id for entry in gone.removed.values() if entry.allocation_id == partition.allocation_id]
    return gone.without_removed(own[:-REMEMBERED]) if len(own) > REMEMBERED else gone


def backoff_seconds(base: float, retries: int) -> float:
    """Pause before the next automatic reset: ``base`` times 1, 2, 4. Exponential is our choice."""
    return base * 2.0 ** max(0, retries - 1)
