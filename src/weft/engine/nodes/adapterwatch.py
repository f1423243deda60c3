"""Records adapters of pods' nodes that their fabric doesn't show: a broken adapter, cable or leaf port.

Unknown is never gone: only whole readings count, of fabrics whose adapters can be listed, and not the first one alone.
Where switches report links, a link that is down counts if it was up while the pod had the node.
Many that are gone at once are taken for a fabric that fell apart. What follows is decided in
`weft.engine.nodes.failures`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.nodes.hostwatch import GAP
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.site import Site
from weft.planning.fabric.unseen import Unseen, unplugged_adapters, unseen_adapters
from weft.ports.fabric import FabricDriver, ReadsLinks

log = logging.getLogger(__name__)

EVERY = 120.0
"""Seconds between readings."""
PAUSE = timedelta(seconds=60)
"""Least time between two readings of a fabric, of all workers: each asks the whole fabric."""
LIMIT = 900.0
"""Seconds without a reading after which the thread counts as stuck."""


@dataclass(frozen=True, slots=True)
class UnseenAdapters:
    """Adapters that a fabric doesn't show.

    Attributes:
        seen: ports of those that it shows; None: all others.
    """

    unseen: tuple[Unseen, ...]
    seen: frozenset[str] | None = None


def read_adapters(site: Site, fabric: str, driver: FabricDriver) -> UnseenAdapters:
    """Which adapters a fabric shows, asked now.

    Raises `UnknownError` if the reading isn't whole, `PermanentError` if its adapters can't be listed.
    """
    if isinstance(driver, ReadsLinks):
        links = driver.links()
        return UnseenAdapters(unplugged_adapters(site, fabric, links), links.up)
    seen = driver.topology()
    if seen.partial:
        raise UnknownError("read the adapters", f"fabric {fabric}", "the reading is partial")
    return UnseenAdapters(unseen_adapters(site, fabric, seen))


class AdapterWatch(Periodic):
    """Watches adapters. Any number may run: the database decides which one reads; the latest reading counts."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        site: Callable[[], Site],
        pulse: Pulse | None = None,
    ) -> None:
        self._database, self._world, self._site = database, world, site
        super().__init__(
            "adapters", self.tend, pulse, LIMIT, every=EVERY, first=EVERY, again=EVERY, defect=2 * EVERY
        )

    def tend(self) -> None:
        """Read every fabric once; one that can't be read doesn't block others."""
        if (closed := self._database.gate.closed()) is not None:
            log.warning("adapters aren't watched: %s", closed)
            return
        site = self._site()
        for name, fabric in sorted(self._world().fabrics.items()):
            with self._database.transaction() as tx:
                row = tx.row("begin_adapter_reading", fabric=name, at=tx.now(), pause=PAUSE)
            if row is None:
                continue
            try:
                self._write(site, name, row["at"], read_adapters(site, name, fabric))
            except PermanentError as error:
                log.debug("adapters of fabric %s aren't watched: %s", name, error)  # switches list none
            except WeftError as error:
                log.warning("adapters of fabric %s aren't watched: %s", name, error)

    def _write(self, site: Site, fabric: str, at: datetime, found: UnseenAdapters) -> None:
        """Write a reading. Args: at: a time before the fabric was asked."""
        gone = [one._asdict() for one in found.unseen]
        with self._database.transaction() as tx:
            tx.run("lock_failures")
            if tx.now() - at > GAP:
                log.warning("adapters of fabric %s aren't watched: its answer took more than %s", fabric, GAP)
                return
            values = {"fabric": fabric, "at": at, "gap": GAP}
            seen = None if found.seen is None else sorted(found.seen)
            tx.run("adapters_seen", ports=[one["port"] for one in gone], seen=seen, **values)
            if seen is not None:
                known = [port for port in seen if (fabric, port) in site.port_by_id]
                nodes = [site.port_by_id[fabric, port][0].name for port in known]
                tx.run("adapters_up", fabric=fabric, nodes=nodes, seen=known)
            where = {"nodes": [one["node"] for one in gone], "ports": [one["port"] for one in gone]}
            row = tx.row("count_nodes_with_adapters_gone", fabric=fabric, links=seen is not None, **where)
            outage = row is not None and row["number"] > site.repair.outage
            if row is not None and outage:
                log.error(
                    "fabric %s: adapters of %d nodes of pods are gone, more than %d: taken for an outage of the fabric",
                    *(fabric, row["number"], site.repair.outage),
                )
            tx.run("adapters_gone", gone=Jsonb(gone), outage=outage, links=seen is not None, **values)
