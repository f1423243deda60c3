"""Port: cleanings of bare-metal machines that weft has watched, since Ironic's history lacks the steps of most."""

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


class Cleanings(Protocol):
    """Reading only."""

    def watched(self, machine: str) -> Watched | None:
        """None: weft has watched none. Raises `TemporaryError` or `PermanentError` if that can't be known now."""
        ...
