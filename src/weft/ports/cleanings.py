"""Port: what weft has seen of cleanings of bare-metal machines itself: Ironic's history lacks the steps of most, and
its database may be set back to a backup.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Watched:
    """The last automated cleaning of a machine that weft saw with steps, and didn't lose sight of.

    Attributes:
        plan: its steps as interface.step, in their order; those on other machines left out.
        agent: when Ironic asked the agent for its steps (as Ironic has it); empty: never.
        since: the first look that showed this plan, by the database's clock.
        looked: the last look that belongs to it, by the same clock.
        ended: when the machine became available after it: the node's `provision_updated_at`, as Ironic has it; empty:
            it goes on.
    """

    plan: tuple[str, ...]
    agent: str
    since: datetime
    looked: datetime
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Taken:
    """By which cleaning a machine was last taken for a pod.

    Attributes:
        ended: when that ended, as Ironic had it.
        used: the machine was seen in another state than `available` since.
    """

    ended: datetime
    used: bool


class Cleanings(Protocol):
    """All raise `TemporaryError` or `PermanentError` if the database can't be asked now."""

    def watched(self, machine: str) -> Watched | None:
        """None: weft has watched none."""
        ...

    def taken(self, machine: str) -> Taken | None:
        """None: weft has never taken it."""
        ...

    def take(self, machine: str, ended: datetime) -> None:
        """To be called before it is marked. An older cleaning than of the last time changes nothing."""
        ...


class NoCleanings:
    """Where no pods are: nothing was seen."""

    def watched(self, machine: str) -> Watched | None:
        return None

    def taken(self, machine: str) -> Taken | None:
        return None

    def take(self, machine: str, ended: datetime) -> None:
        pass
