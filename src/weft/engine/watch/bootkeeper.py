"""Asks which servers have booted or failed, and makes their pods due at once.

A server takes half a minute to ten minutes to boot, and thousands boot at a time: one query for everything that changed
costs a cloud and weft less than polling each, and is faster. Of all workers on all machines one asks: the first
that claims the turn in the database. It asks soon after a server was requested, since it may have failed, before its
pod's first visit, and from when a server of its flavor can have booted, by what was seen before: every second, and less
often the longer it takes.
An answer is only a hint: whether a server runs is read by its pod's visit.
Without an answer these visits come at their own time, half a minute after the server was requested and then once a
minute, and report why nothing is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial

from psycopg.types.json import Jsonb

from weft.engine.base.asking import CloudThreads
from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.model.errors import WeftError
from weft.model.kinds import every_kind
from weft.ports.servers import ServerActions

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between queries; a cloud in which none of weft's servers boots isn't asked."""
SOON = 3.0
"""Seconds after a request of servers when a cloud is asked for the first time: what can't boot often fails at once.
What fails later is seen once a server of its flavor can have booted."""
BEFORE_VISIT = 25.0
"""Seconds after a request of servers when a cloud is asked in any case: the visit after half a minute would read first
what boots faster than before, and nothing would be learned of it."""
GROWTH = 30.0
"""Seconds of a boot for each second between queries, from which they are rarer: a pod is READY a sixtieth of its boot
later on average."""
RAREST = 10.0
"""Most seconds between queries."""
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
            every, built, earliest = self._every * SOONEST, None, dict[str, float]()
            if self._is_due(cloud, every):
                built = self._built(facts, cloud, since)
            with self._database.statement() as tx:
                if built:
                    earliest = self._wake(tx, built, row)
                answered = None if built is None else at
                values = {"asked": at, "answered": answered, "answer": ANSWER, "every": every}
                tx.run("end_boot_look", cloud=cloud, earliest=Jsonb(earliest), **values)
        except WeftError as error:
            log.warning("cloud %s: booted servers can't be recorded: %s", cloud, error)
        except Exception:
            log.exception("cloud %s: defect in weft", cloud)

    def _is_due(self, cloud: str, every: float) -> bool:
        settings = {"soon": SOON, "visit": BEFORE_VISIT, "growth": GROWTH, "rarest": RAREST, "every": every}
        row = self._database.row("boot_look_is_due", cloud=cloud, kinds=_kinds(), longest=LONGEST, **settings)
        return row is not None and bool(row["due"])

    def _wake(self, tx: Tx, built: Collection[str], row: Row) -> dict[str, float]:
        """Make pods of these servers due. Returns what it shows of flavors: the age at which their servers weren't all
        booted yet. It follows what is seen within a factor, as one pod may fail, or wait for an image.

        Args:
            row: of `take_boot_looks`.
        """
        known = dict[str, float](row["earliest"])
        values = {"servers": sorted(built), "kinds": _kinds(), "together": self._together}
        for pod in tx.rows("wake_built", **values, before=row["answered"]):
            if pod["flavor"] is not None and not pod["boot"]:
                seen = max(0.0, pod["age"] or 0.0)
                was = known.get(pod["flavor"], seen)
                known[pod["flavor"]] = min(max(seen, was / 2), was + max(1.0, was / 4))
        return known

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
