"""Asks every second which servers have booted or failed, and makes their pods due at once.

A server takes half a minute to ten minutes to boot, and thousands boot at a time: one query for everything that changed
costs a cloud and weft less than polling each, and is faster. Of all workers on all machines one asks: the first
that claims the turn in the database. An answer is only a hint: whether a server runs is read by its pod's visit.
Without an answer these visits come at their own time, half a minute after the server was requested and then once a
minute, and report why nothing is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from weft.engine.base.asking import CloudThreads
from weft.engine.base.database import Database, Row
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.model.errors import WeftError
from weft.model.kinds import every_kind
from weft.ports.servers import ServerActions

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between queries; a cloud in which none of weft's servers boots isn't asked."""
SOONEST = 0.9
"""Share of that after which any worker may ask again: turns come a little late, and none should be missed."""
ANSWER = 10.0
"""Seconds that a cloud has for its answer; after that another worker asks, in case the first has died."""
TOGETHER = 15.0
"""Seconds after which a pod is visited of whose servers only some have booted; once the last one has, it is at once. A
visit reads all of them in detail, for which Nova asks Neutron: for each server of many, that would delay the others."""
OVERLAP = timedelta(seconds=30)
"""How far before its last query a cloud is asked for changes: clocks differ, its database may be behind, and the
pod's visit may have read the server before."""
LATEST = timedelta(seconds=60)
"""Longest time that is asked about: what changed earlier has had a visit since."""
LONGEST = 900.0
"""Seconds after which a booting server is left to its pod's visits, so that one that never boots isn't asked about
without a limit."""
LIMIT = 300.0
"""Seconds without a query after which the thread counts as stuck."""


class BootKeeper(Periodic):
    """Any number may run: one of them asks, and wakes a pod once for each change that its visit hasn't recorded."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        pulse: Pulse | None = None,
        every: float = EVERY,
        together: float = TOGETHER,
    ) -> None:
        self._database, self._world, self._every, self._together = database, world, every, together
        self._asking = CloudThreads("boots")
        self._silent: set[str] = set()
        super().__init__("boots", self.look, pulse, LIMIT, every=every, again=every)

    def look(self) -> None:
        """Ask every cloud with booting servers that no other worker asks, unless its last answer is still awaited."""
        world = self._world()
        clouds = self._asking.free(world.clouds)
        rows = self._database.rows(
            "take_boot_looks", clouds=clouds, kinds=_kinds(), answer=ANSWER, longest=LONGEST
        )
        self._asking.ask({row["cloud"]: partial(self._ask, world.clouds[row["cloud"]], row) for row in rows})

    def _ask(self, facts: ServerActions, row: Row) -> None:
        """Ask one cloud. If this ends early, no other worker asks for `ANSWER` seconds.

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
                    tx.run("wake_built", servers=sorted(built), kinds=_kinds(), together=self._together)
                every = self._every * SOONEST
                values = {"asked": at, "answered": answered, "answer": ANSWER, "every": every}
                tx.run("end_boot_look", cloud=cloud, **values)
        except WeftError as error:
            log.warning("cloud %s: booted servers can't be recorded: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)

    def _built(self, facts: ServerActions, cloud: str, since: datetime) -> Collection[str] | None:
        """Ids of servers that changed, or None without an answer. That is logged once, and isn't unhealthy: pods' own
        visits report what is unknown, and another worker may get an answer."""
        try:
            built = facts.built(since, partial(self._awaited, cloud))
        except WeftError as error:
            if cloud not in self._silent:
                log.warning("cloud %s: booted servers are unknown: %s", cloud, error)
            self._silent.add(cloud)
            return None
        self._silent.discard(cloud)
        return built

    def _awaited(self, cloud: str) -> Collection[str]:
        rows = self._database.rows("awaited_servers", cloud=cloud, kinds=_kinds(), longest=LONGEST)
        return [row["id"] for row in rows]


def _kinds() -> list[str]:
    """Kinds that boot on a host, as in a cloud's list of servers."""
    return [str(kind) for kind in every_kind() if kind.row.boots and kind.row.on_host]
