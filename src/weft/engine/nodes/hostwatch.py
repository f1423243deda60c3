"""Reports hosts that are down for longer than the site's limit: to the pods there, and in the nodes' histories.

Unknown is never down: a cloud that doesn't answer, a host that it doesn't list, one that is disabled, and a gap between
readings begin nothing. Many hosts that are down at once are taken for an outage of what watches them (Nova's message
queue, a control network), and for a day reported in the log alone. Nothing is replaced here: see `weft.app.repairs`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from weft.engine.base.database import Database, Tx
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.rows.events import announce
from weft.model.errors import WeftError
from weft.model.ids import span
from weft.model.messages import nodes
from weft.model.messages.message import Code
from weft.model.site import Site

log = logging.getLogger(__name__)

EVERY = 30.0
"""Seconds between readings."""
LIMIT = 900.0
"""Seconds without a reading after which the thread counts as stuck."""
OUTAGE = timedelta(days=1)
"""How long many hosts that went down may be an outage of what watches them; and how long a host that isn't read is
remembered as down."""
GAP = timedelta(minutes=5)
"""Longest time between two readings for a host to count as down in between; an answer that took longer is discarded."""
_INNER = {
    nodes.HOSTS_DOWN.name: nodes.INNER_HOSTS_DOWN,
    nodes.HOSTS_UP.name: nodes.INNER_HOSTS_UP,
}
"""Code -> code of the event for hosts that have only servers of weft's own."""


class HostWatch(Periodic):
    """Watches hosts. Any number may run: the database decides which one reports a host."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        site: Callable[[], Site],
        pulse: Pulse | None = None,
    ) -> None:
        self._database, self._world, self._site = database, world, site
        super().__init__(
            "hosts", self.tend, pulse, LIMIT, every=EVERY, first=EVERY, again=EVERY, defect=2 * EVERY
        )

    def tend(self) -> None:
        """Read every cloud once; one that can't be read doesn't block others."""
        if (closed := self._database.gate.closed()) is not None:
            log.warning("hosts aren't watched: %s", closed)
            return
        site = self._site()
        for cloud, facts in sorted(self._world().clouds.items()):
            hosts = {n.name: n.nova_host for n in site.nodes if n.cloud == cloud and n.maintenance is None}
            at = self._database.now()
            try:
                states = facts.hosts()
            except WeftError as error:
                log.warning("hosts of cloud %s aren't watched: %s", cloud, error)
                continue
            down = sorted(
                node for node, host in hosts.items() if states.get(host, "").partition(":")[0] == "down"
            )
            up = sorted(node for node, host in hosts.items() if states.get(host) == "up")
            unknown = sorted(hosts.keys() - {*down, *up})
            self._write(site, cloud, at, down, up, unknown)

    def _write(
        self,
        site: Site,
        cloud: str,
        now: datetime,
        down: Sequence[str],
        up: Sequence[str],
        unknown: Sequence[str],
    ) -> None:
        """Write an answer. Args: now: before the cloud was asked; others may have asked later, and written earlier."""
        most = site.repair.outage
        with self._database.transaction() as tx:
            tx.run("lock_hosts")
            if tx.now() - now > GAP:
                log.warning("hosts of cloud %s aren't watched: its answer took more than %s", cloud, GAP)
                return
            tx.run("host_reading", cloud=cloud, at=now, unknown=list(unknown), gap=GAP)
            tx.run("forget_hosts", cloud=cloud, at=now, after=OUTAGE)
            back = [row["node"] for row in tx.rows("hosts_seen_up", nodes=list(up), at=now, gap=GAP)]
            self._notify(tx, back, nodes.HOSTS_UP, now)
            if down:
                tx.run("hosts_seen_down", nodes=list(down), cloud=cloud, at=now, gap=GAP)
            limit, row = span(site.repair.host_down), tx.row("count_hosts_down", cloud=cloud, at=now)
            if row is not None and row["number"] > most:
                log.error(
                    "cloud %s: %d hosts went down, more than %d: taken for an outage of what watches them, and not "
                    "reported to pods",
                    *(cloud, row["number"], most),
                )
                limit = max(limit, OUTAGE)
            late = [row["node"] for row in tx.rows("hosts_down_too_long", cloud=cloud, at=now, limit=limit)]
            self._notify(tx, late, nodes.HOSTS_DOWN, now)
        for node in late:
            log.warning("the host of node %s is down for more than %s", node, site.repair.host_down)

    def _notify(self, tx: Tx, changed: Sequence[str], code: Code, now: datetime) -> None:
        """Write an event for each pod there; for hosts with weft's own servers, one for operators."""
        pods: dict[tuple[UUID, Code], list[str]] = {}
        for row in tx.rows("pods_of_nodes", nodes=list(changed)) if changed else ():
            said = _INNER[code.name] if row["inner_host"] else code
            pods.setdefault((row["pod_id"], said), []).append(row["node"])
        for (pod, said), mine in pods.items():
            announce(tx, pod, "node", said(nodes=mine), at=now)
