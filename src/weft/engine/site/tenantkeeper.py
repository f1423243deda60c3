"""Keeps the segments of networks that tenants created in a cloud: looks periodically, and soon after a hint.

A hint (`notify_tenant_networks`) may be lost, late, or wrong: the periodic look finds the same. What a look finds is
recorded (`weft.engine.site.tenantlook`); the loop realizes it, as for every owner.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.engine.base.database import Database
from weft.engine.base.documents import message_json, read
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.hold.ownerstore import release_owner
from weft.engine.rows.basis import SiteChangedError, SiteFence
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.site.tenantlook import TenantLook
from weft.engine.visit.resourcerules import ResourceRule
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.resources import Graph
from weft.model.site import Site
from weft.model.tenantnetwork import ServedNetwork
from weft.planning.owners.tenantports import segment_graph

log = logging.getLogger(__name__)

HINT = "tenant networks"
"""Payload of the notification that something changed in a cloud."""
LIMIT = 900.0
"""Seconds without a look after which the thread counts as stuck."""
STALE = 300.0
"""Seconds after which what was read of a network is too old to say what is wanted of it."""


@dataclass(frozen=True, slots=True)
class TenantSettings:
    """Pauses in seconds.

    Attributes:
        every: between two looks without a hint.
        soon: between two looks while a port is about to become a member.
        pause: between two looks at least, however many hints there are.
    """

    every: float = 30.0
    soon: float = 2.0
    pause: float = 1.0


class TenantKeeper(Periodic):
    """Any number may run: of two readings of the cloud the one that began later counts. A `Follower` of events."""

    def __init__(
        self,
        database: Database,
        world: Callable[[], World],
        site: Callable[[], Site],
        pulse: Pulse | None = None,
        settings: TenantSettings | None = None,
    ) -> None:
        self._database, self._world, self._site = database, world, site
        self._settings = settings or TenantSettings()
        self._looked_at = -self._settings.pause
        super().__init__("tenant networks", self._look, pulse, LIMIT)

    # -- called by the listener ----------------------------------------------------------------------------------

    def came(self, pod_id: str) -> None:
        if pod_id == HINT:
            self.hurry()

    def may_have_missed(self) -> None:
        self.hurry()

    # -- its thread ----------------------------------------------------------------------------------------------

    def _look(self) -> float:
        rest = self._looked_at + self._settings.pause - time.monotonic()
        if rest > 0 and self.stopped.wait(rest):
            return 0.0
        try:
            return self._settings.soon if self.look() else self._settings.every
        finally:
            self._looked_at = time.monotonic()

    def look(self) -> bool:
        """Look once at every fabric and cloud; returns whether a port is about to become a member.

        Raises the error of a place that couldn't be read, after all others were read.
        """
        fence = SiteFence.now(self._database)
        world, site = self._world(), self._site()
        served, errors, under_way = set(places(site)), list[WeftError](), False
        try:
            for cloud, fabric in sorted(served):
                try:
                    if cloud in world.clouds and fabric in world.fabrics:
                        under_way |= TenantLook(self._database, world, site, fence, cloud, fabric).run()
                except WeftError as error:
                    errors.append(error)
            self._end_others(site, fence, served)
        except SiteChangedError as changed:
            log.info("looking at tenants' networks again: %s", changed)
            under_way = True
        for error in errors[1:]:
            log.warning("tenants' networks: %s", error)
        if errors:
            raise errors[0]  # which is logged like any turn that failed
        return under_way

    def _end_others(self, site: Site, fence: SiteFence, served: set[tuple[str, str]]) -> None:
        """Release networks in places that the site doesn't serve any more, or leave them to another manager."""
        places = {(r["cloud"], r["fabric"]) for r in self._database.rows("tenant_network_places")}
        for cloud, fabric in sorted(places - served):
            rows = self._database.rows("tenant_networks", cloud=cloud, fabric=fabric)
            left = fabric in site.fabrics and site.fabrics[fabric].leave_tenant_networks
            why = f"the site doesn't serve tenants' networks of cloud {cloud} on fabric {fabric} any more"
            for row in rows:
                with self._database.transaction() as tx:
                    fence.hold(tx)
                    if left:
                        message = f"{why}: the segment stays as it is, for another manager"
                        tx.run("leave_owner", id=row["owner_id"], message=message_json(message), at=tx.now())
                    else:
                        release_owner(tx, row["owner_id"], why, tx.now())


def hint_networks_changed(database: Database) -> None:
    """Wake the keeper. Raises `TemporaryError` if the database can't be reached."""
    database.run("notify_tenant_networks")


def places(site: Site) -> Iterable[tuple[str, str]]:
    """Cloud and fabric, wherever tenants' networks are served: the cloud must have a host on the fabric."""
    for name, fabric in site.fabrics.items():
        if not fabric.tenant_networks:
            continue
        for cloud in site.clouds:
            only = len(site.clouds) == 1
            if any(n.hcas_on(name) for n in site.nodes if n.cloud == cloud or (n.cloud is None and only)):
                yield cloud, name


def tenant_network(database: Database) -> ResourceRule[ServedNetwork]:
    """What is wanted of an owner of kind network: what the keeper last read."""

    def look(owner: OwnerRecord, world: World) -> ServedNetwork:
        with database.statement() as tx:
            row, now = tx.row("tenant_network", owner_id=owner.id), tx.now()
        if row is None:
            then = "release it"
            raise PermanentError("find what is wanted", str(owner), "the database has no record of it", then)
        if (now - row["read_at"]).total_seconds() > STALE:
            asked, of = f"read network {row['network_id']}", f"cloud {row['cloud']}"
            raise UnknownError(asked, of, f"it was read last at {row['read_at']:%Y-%m-%dT%H:%M:%SZ}")
        return read(ServedNetwork, row["document"])

    def graph(owner: OwnerRecord, site: Site, seen: ServedNetwork) -> Graph:
        if seen.fabric not in site.fabrics:
            asked, then = f"find the fabric {seen.fabric!r}", "activate a site that has it"
            raise PermanentError(asked, "the active site", "it names no such fabric", then)
        return segment_graph(str(owner.id), site, seen.fabric, seen.number, seen.members)

    return ResourceRule(look, graph)
