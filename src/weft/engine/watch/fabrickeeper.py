"""Keeps the fabrics' managers in sync, independently of orders: a standby must not take over with a stale file.

It checks every fabric periodically. Each reachable manager gets the desired state of the database; numbers of released
pods that a manager may still have configured are freed once it is seen not to have them. The managers' own status is
kept for the metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from weft.engine.base.database import Database
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.model.errors import WeftError
from weft.model.fabric import Configured
from weft.ports.fabric import FabricDriver, KeepsStandbys

log = logging.getLogger(__name__)

LEVEL_EVERY = 60.0
"""Seconds between checks."""
LIMIT = 900.0
"""Seconds without a check after which the thread counts as stuck: unresponsive agents time out one by one."""


class FabricKeeper(Periodic):
    """Keeps the managers in sync. Any number may run: a file is only changed if it still is the one that was read."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        pulse: Pulse | None = None,
        every: float = LEVEL_EVERY,
    ) -> None:
        self._database, self._world = database, world
        super().__init__(
            "fabrics", self.tend, pulse, LIMIT, every=every, first=every, again=every, defect=every
        )

    def tend(self) -> None:
        """Check every fabric once; an unreachable one doesn't block others."""
        world = self._world()
        fabrics = world.fabrics
        self._database.run("fabrics_left", fabrics=list(fabrics))
        for name, fabric in sorted(fabrics.items()):
            prober = world.probers.get(name)
            self._note(name, fabric, prober.troubles() if prober else ())
            try:
                if (closed := self._database.gate.closed()) is not None:
                    log.warning("fabric %s isn't brought up to date: %s", name, closed)
                    continue
                configured = fabric.level() if isinstance(fabric, KeepsStandbys) else fabric.configured()
                self._give_back(name, configured)
            except WeftError as error:
                log.warning("fabric %s can't be brought up to date: %s", name, error)

    def _note(self, name: str, fabric: FabricDriver, troubles: Sequence[str]) -> None:
        """Keep the managers' status, or their silence, for the metrics.

        Args:
            troubles: problems of the probe agents.
        """
        known, problems, errors = False, 1, None
        for said in troubles:
            log.warning("fabric %s: %s", name, said)
        try:
            status = fabric.status()
            known, problems = (
                status.known,
                sum(len(m.problems) for m in status.managers) + len(status.problems),
            )
            errors = status.bad_ports
        except WeftError as error:
            log.warning("fabric %s: its managers can't be queried: %s", name, error)
        self._database.run(
            "saw_fabric", fabric=name, known=known, problems=problems + len(troubles), port_errors=errors
        )

    def _give_back(self, fabric: str, configured: Configured) -> None:
        there = {name: list(numbers) for name, numbers in configured.read.items()}
        with self._database.transaction() as tx:
            freed = False
            for manager in sorted({row["manager"] for row in tx.rows("stale_numbers", fabric=fabric)}):
                if manager in configured.unread:
                    continue
                rows = tx.rows(
                    "give_back_stale_numbers", fabric=fabric, manager=manager, there=there.get(manager, [])
                )
                if rows:
                    freed = True
                    numbers = ", ".join(f"{row['number']:#x}" for row in rows)
                    log.info("fabric %s: %s was read without %s: free again", fabric, manager, numbers)
            if freed:
                tx.run("touch_queue", at=tx.now())  # an order may wait for them
