"""Looks every second which servers have booted or failed, and has their pods visited at once.

A server takes half a minute or ten, and so do thousands of them at a time: one question about all that changed costs a
cloud and weft less than asking for each again and again, and it is known sooner. Of all workers on all machines one
asks: whose turn comes first takes it, in the database. What is answered is only a hint: whether a server runs is read
in its pod's visit. Without an answer these come at their own time, half a minute after the server was asked for and
then once a minute, and say themselves why nothing is known of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from weft.engine.asking import Asking
from weft.engine.database import Database, Row
from weft.engine.periodic import Periodic
from weft.engine.pulse import Pulse
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.kinds import every_kind
from weft.ports.servers import Servers

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between looks; nothing is asked of a cloud in which none of weft's servers boots."""
SOONEST = 0.9
"""Share of that after which anybody may ask again: whoever asks is a moment late, and must not miss its own turn."""
ANSWER = 10.0
"""Seconds that a cloud has for its answer. Who has asked may have died: then another one does."""
OVERLAP = timedelta(seconds=30)
"""So far before its last look a cloud is asked for changes: clocks differ, its database may be behind, and a visit
of the pod may have read it before."""
LATEST = timedelta(seconds=60)
"""What changed before has had a visit of its own since."""
LONGEST = 900.0
"""Seconds after which a server that boots is left to its pod's visits: one that never does isn't asked for for ever."""
LIMIT = 300.0
"""Seconds without a look after which the thread counts as stuck."""


class BootKeeper(Periodic):
    """Any number may run: one of them asks, and a pod is woken once for what its visit hasn't written down yet."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        pulse: Pulse | None = None,
        every: float = EVERY,
    ) -> None:
        self._database, self._world, self._every = database, world, every
        self._asking = Asking("boots")
        self._silent: set[str] = set()
        super().__init__("boots", self._look, pulse or Pulse(), LIMIT, again=every)

    def _look(self) -> float:
        self.look()
        return self._every

    def look(self) -> None:
        """Ask every cloud in which servers boot and that nobody else asks, unless its last answer is still awaited."""
        world = self._world()
        clouds = self._asking.free(world.clouds)
        with self._database.statement() as tx:
            rows = tx.rows("take_boot_looks", clouds=clouds, kinds=_kinds(), answer=ANSWER, longest=LONGEST)
        self._asking.ask({row["cloud"]: partial(self._ask, world.clouds[row["cloud"]], row) for row in rows})

    def _ask(self, facts: Servers, row: Row) -> None:
        """What ends it early keeps others from asking for `ANSWER` seconds.

        Args:
            row: of `take_boot_looks`.
        """
        cloud: str = row["cloud"]
        at: datetime = row["at"]
        try:
            since = max(row["answered"] or at, at - LATEST) - OVERLAP
            built = self._built(facts, cloud, since)
            answered = None if built is None else at
            with self._database.statement() as tx:
                if built:
                    tx.run("wake_built", servers=sorted(built), kinds=_kinds())
                every = self._every * SOONEST
                values = {"asked": at, "answered": answered, "answer": ANSWER, "every": every}
                tx.run("end_boot_look", cloud=cloud, **values)
        except WeftError as error:
            log.warning("cloud %s: what has booted can't be written down: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)

    def _built(self, facts: Servers, cloud: str, since: datetime) -> Collection[str] | None:
        """None: no answer. That is no reason to call weft unwell: pods' own visits say what isn't known of them; and
        another worker may be answered, so it is said once."""
        try:
            built = facts.built(since, partial(self._awaited, cloud))
        except WeftError as error:
            if cloud not in self._silent:
                log.warning("cloud %s: which servers have booted is unknown: %s", cloud, error)
            self._silent.add(cloud)
            return None
        self._silent.discard(cloud)
        return built

    def _awaited(self, cloud: str) -> Collection[str]:
        with self._database.statement() as tx:
            rows = tx.rows("awaited_servers", cloud=cloud, kinds=_kinds(), longest=LONGEST)
        return [row["id"] for row in rows]


def _kinds() -> list[str]:
    """What boots on a host, as a cloud's list of servers has it."""
    return [str(kind) for kind in every_kind() if kind.row.boots and kind.row.on_host]
