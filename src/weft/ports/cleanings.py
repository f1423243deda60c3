"""Port: what weft itself has observed of cleanings of bare-metal machines: Ironic's history lacks the steps of most,
and its database may be restored from a backup.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WatchedCleaning:
    """A machine's last automated cleaning whose steps weft saw and that weft watched without a gap.

    Attributes:
        plan: its steps as interface.step, in order; without steps on other machines.
        agent: when Ironic asked the agent for its steps (as Ironic has it); empty: never.
        since: the first observation of this plan, by the database's clock.
        looked: the last observation that belongs to it, by the same clock.
        ended: when the machine became available after it: the node's `provision_updated_at`, as Ironic has it; empty:
            it is still running.
    """

    plan: tuple[str, ...]
    agent: str
    since: datetime
    looked: datetime
    ended: str = ""


@dataclass(frozen=True, slots=True)
class LastClaim:
    """The cleaning after which a machine was last claimed for a pod.

    Attributes:
        ended: when that ended, as Ironic had it.
        used: whether the machine was seen in a state other than `available` since.
    """

    ended: datetime
    used: bool


class Cleanings(Protocol):
    """weft's records of cleanings and claims. All methods raise `TemporaryError` or `PermanentError` if the database
    can't be queried now."""

    def watched(self, machine: str) -> WatchedCleaning | None:
        """The last cleaning of the machine that weft watched; None: it watched none."""
        ...

    def taken(self, machine: str) -> LastClaim | None:
        """The cleaning after which the machine was last claimed; None: it was never claimed."""
        ...

    def take(self, machine: str, ended: datetime) -> None:
        """Record a claim; call it before the machine is marked. A cleaning older than the recorded one changes
        nothing."""
        ...


class NoCleanings:
    """`Cleanings` of tools without pods: nothing was ever observed, and a claim is not recorded."""

    def watched(self, machine: str) -> WatchedCleaning | None:
        return None

    def taken(self, machine: str) -> LastClaim | None:
        return None

    def take(self, machine: str, ended: datetime) -> None:
        pass
