"""Keeps the fabrics' managers level, with nobody's order: a standby that was away must not take over with an old file.

It looks at every fabric from time to time. Each manager that can be reached is brought to what the database wants; and
the numbers of released pods that a manager could not be shown to have forgotten are free again once it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from weft.engine.database import Database
from weft.engine.periodic import Periodic
from weft.engine.pulse import Pulse
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import Told
from weft.ports.fabric import KeepsStandbys

log = logging.getLogger(__name__)

LEVEL_EVERY = 60.0
"""Seconds between two looks."""
LIMIT = 900.0
"""Seconds without a look after which the thread counts as stuck: silent agents take their timeouts, one by one."""


class FabricKeeper(Periodic):
    """Any number may run: a change of a file is taken only if the file still is the one that was read."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        pulse: Pulse | None = None,
        every: float = LEVEL_EVERY,
    ) -> None:
        self._database, self._world, self._every = database, world, every
        super().__init__(
            "fabrics", self._look, pulse or Pulse(), LIMIT, first=every, again=every, defect=every
        )

    def _look(self) -> float:
        self.tend()
        return self._every

    def tend(self) -> None:
        """One look at every fabric; one that can't be asked stands in no other's way."""
        for name, fabric in sorted(self._world().fabrics.items()):
            try:
                told = fabric.level() if isinstance(fabric, KeepsStandbys) else fabric.told()
                self._give_back(name, told)
            except WeftError as error:
                log.warning("fabric %s can't be brought level: %s", name, error)

    def _give_back(self, fabric: str, told: Told) -> None:
        there = {name: list(numbers) for name, numbers in told.read.items()}
        with self._database.transaction() as tx:
            for manager in {row["manager"] for row in tx.rows("stale_numbers", fabric=fabric)}:
                if manager in told.unread:
                    continue
                rows = tx.rows(
                    "give_back_stale_numbers", fabric=fabric, manager=manager, there=there.get(manager, [])
                )
                if rows:
                    tx.run("hurry_queue")
                    numbers = ", ".join(f"{row['number']:#x}" for row in rows)
                    log.info("fabric %s: %s was read without %s: free again", fabric, manager, numbers)
