"""Why operators keep a node from new orders; pods that are there stay."""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.database import Row


@dataclass(frozen=True, slots=True)
class Stops:
    """Of one node.

    Attributes:
        holds: rows of node, what, since, held_by; the oldest first.
    """

    holds: tuple[Row, ...] = ()

    @property
    def why_held(self) -> str:
        """For what it is held, in one sentence; empty: it isn't."""
        return f"held for {'; '.join(row['what'] for row in self.holds)}" if self.holds else ""


NO_STOPS = Stops()
