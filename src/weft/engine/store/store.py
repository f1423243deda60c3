"""What the API and the audit read and write: pods, the site, quarantine, records. The loop writes through `Held`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from psycopg.types.json import Jsonb

import weft
from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import message_json
from weft.engine.base.schema import SEEN_SECONDS
from weft.engine.base.sealing import Seal
from weft.engine.base.unreadable import NewerRowError, UnreadableError
from weft.engine.book.capacity import Capacity, read_capacity
from weft.engine.hold.fence import HOLD_SECONDS, LATE_SECONDS
from weft.engine.hold.held import Held
from weft.engine.hold.ownerclaims import UnreadableOwner
from weft.engine.hold.ownerstore import hold, read_owner, release_owner
from weft.engine.rows.basis import check_revision
from weft.engine.rows.events import announce
from weft.engine.rows.recordrows import RecordRows
from weft.engine.rows.records import PodRecord
from weft.engine.rows.revival import revive
from weft.engine.rows.seenfabric import SeenFabric
from weft.engine.rows.siteparts import SiteRecord, Sites
from weft.engine.store.counts import (
    WORKER_SECONDS,
    Counts,
    MonitoredNode,
    MonitoredServer,
    number,
    read_counts,
)
from weft.engine.store.podlist import UNREADABLE
from weft.engine.store.podrows import PodRows
from weft.engine.store.secrets import Secrets
from weft.model.errors import PreconditionError
from weft.model.messages import orders, outside, pods
from weft.model.pod import PodState
from weft.model.site import Site

log = logging.getLogger(__name__)

PARKED_FOR = 3600.0
"""Seconds after which a row that couldn't be read is tried again: it may have been corrected, or weft upgraded."""


@dataclass(frozen=True, slots=True)
class Due:
    """Periodic work that is due.

    Attributes:
        leases: whether any lease has ended, or ends soon, without having been dealt with.
        queue: seconds until the queue must be processed again; 0: now.
    """

    leases: bool
    queue: float


class Store:
    """Named reads and writes over one `Database`.

    Attributes:
        pods: pods and their resources.
        records: events, receipts and the audit log.
        secrets: the site's own keys.
        sites: generations of the site.
    """

    def __init__(self, database: Database, seal: Seal | None = None) -> None:
        self.database = database
        self.pods = PodRows(database)
        self.records = RecordRows(database)
        self.secrets = Secrets(database, seal or Seal())
        self.sites = Sites(database)

    # -- site ---------------------------------------------------------------------------------------------------

    def site(self) -> SiteRecord:
        """The active site. Raises `NotFoundError` before the first `weft site activate`."""
        return self.sites.current()

    def activate_site(
        self, site: Site, by: str, base: int | None = None, check: Callable[[Tx, Site], None] | None = None
    ) -> SiteRecord:
        """Activate a new generation; see `Sites.apply`."""
        return self.sites.apply(site, by, base, check)

    # -- capacity -----------------------------------------------------------------------------------------------

    def capacity(self) -> Capacity:
        with self.database.transaction() as tx:
            return read_capacity(tx)

    def nodes_in_use(self) -> frozenset[str]:
        """Names of the nodes that pods hold."""
        return frozenset(row["node"] for row in self.database.rows("nodes_of_pods"))

    def quarantine(self, node: str, reason: str, by: str = "") -> None:
        """Keep a node from being assigned until it is cleared. Args: by: the user."""
        self.database.gate.foretell()
        with self.database.transaction() as tx:
            tx.run("quarantine", node=node, reason=reason, at=tx.now(), pod_id=None, by=by)
            tx.run("touch_queue", at=tx.now())
        self.database.gate.hurry()

    def clear_quarantine(self, node: str, by: str = "", revision: int | None = None) -> bool:
        """End a node's quarantine; returns whether it was in quarantine.

        Args:
            by: the user.
            revision: `PreconditionError` unless it has this one.
        """
        with self.database.transaction() as tx:
            row = tx.row("lock_quarantine", node=node)
            if row is not None:
                check_revision(f"quarantine of node {node}", row["revision"], revision)
            cleared = tx.run("clear_quarantine", node=node, at=tx.now(), by=by) > 0
            tx.run("touch_queue", at=tx.now())
            tx.run("notify", owner_id="")
        self.database.gate.hurry()
        return cleared

    # -- pods ---------------------------------------------------------------------------------------------------

    def park(self, unread: UnreadableOwner) -> None:
        """Set aside an owner held by a worker whose row can't be read, with the reason and an alarm, and hand it back.
        It is retried later, or at once if it was woken meanwhile.

        If a newer weft has worked with the database, it is handed back for that instead: its place in the loop and its
        failures stay, and workers of this version leave it alone until it is woken.

        Its nodes, numbers and everything outside stay untouched.
        """
        fence = {"token": unread.token, "woken": unread.woken, "lands": unread.lands}
        if (why := self._for_newer(unread.error)) is None:
            self._park("park_held", unread.id, unread.error, **fence)
            return
        with self.database.transaction() as tx:
            row = tx.row("leave_held", id=unread.id, **fence)
            if row is not None and row["news"]:
                announce(tx, unread.id, "warning", why)
        log.info("owner %s is left to a newer weft: %s", unread.id, why)

    def newer_at_work(self) -> bool:
        """Whether a worker of a newer weft is alive."""
        row = self.database.row("newer_at_work", seconds=SEEN_SECONDS)
        return row is not None and row["yes"]

    def park_waiting(self, pod_id: UUID, version: str, error: UnreadableError) -> None:
        """Set aside a waiting order whose row can't be read, unless the row has another version by now."""
        if self._for_newer(error) is None:
            self._park("park_waiting", pod_id, error, version=version)
        else:
            self.database.run("leave_waiting", id=pod_id, version=version)

    def _for_newer(self, error: UnreadableError) -> str | None:
        """Why an unreadable row is left to a newer weft; None: there was none."""
        if isinstance(error, NewerRowError):
            return error.answer
        row = self.database.row("newer_has_worked")
        return outside.NEEDS_NEWER(found=error.answer) if row is not None and row["yes"] else None

    def _park(self, query: str, owner_id: UUID, error: UnreadableError, **fence: object) -> None:
        with self.database.transaction() as tx:
            row = tx.row(query, id=owner_id, why=error.answer, delay=PARKED_FOR, **fence)
            if row is not None and row["news"]:
                announce(tx, owner_id, "alarm", f"{UNREADABLE}: {error.answer}")
                log.error("owner %s: %s", owner_id, error)

    def release(self, pod_id: UUID, message: str, generation: int | None = None) -> bool:
        """Request an owner's release; False if that was done before. A waiting order ends at once.

        Args:
            generation: only of a pod that has it; `PreconditionError` otherwise.
        """
        with self.database.statement() as tx:
            row = tx.row(
                "release_pod",
                id=pod_id,
                message=message_json(message),
                withdrawn=_withdrawn(),
                at=tx.given,
                late=False,
                generation=generation,
            )
            if row is None and generation is not None:
                now = PodRows.under(tx, pod_id)
                raise PreconditionError(orders.CHANGED_MEANWHILE(pod=now.name, now=now.generation))
            return release_owner(tx, pod_id, message, tx.given) if row is None else row["asked"]

    def claim_owner(self, owner_id: UUID, worker: str) -> Held | None:
        """Claim an owner out of turn, like a worker; None if a worker holds it, or it is released."""
        with self.database.transaction() as tx:
            row = tx.row("claim_owner", id=owner_id, worker=worker, hold=HOLD_SECONDS, late=LATE_SECONDS)
            owner = read_owner(tx, owner_id) if row is not None else None
        return None if owner is None else hold(self.database, owner)

    def abandon(self, pod_id: UUID, by: str, reason: str) -> bool:
        """Request to end a release as it is; False if it was requested before, or the pod isn't being released."""
        with self.database.transaction() as tx:
            values = {"by": by, "why": reason, "at": tx.now(), "own": False}
            asked = tx.row("abandon_owner", id=pod_id, **values) is not None
            if asked:
                announce(tx, pod_id, "release", pods.ABANDON_REQUESTED(user=by, reason=reason))
        return asked

    def wake(self, pod_id: UUID) -> None:
        """Make the owner due now, and notify workers."""
        with self.database.transaction() as tx:
            tx.run("wake_owner", id=pod_id)
            tx.run("notify", owner_id=str(pod_id))

    def request_repair(self, pod_id: UUID) -> None:
        """Let the loop repair everything of a pod, including servers."""
        with self.database.transaction() as tx:
            tx.run("request_repair", id=pod_id)
            tx.run("notify", owner_id=str(pod_id))

    def due(self) -> Due:
        """Which periodic work is due."""
        with self.database.statement() as tx:
            row = tx.row("due", at=tx.given)
        assert row is not None
        return Due(row["leases"], max(0.0, (row["queue"] - row["at"]).total_seconds()))

    def end_leases(self, unread: Collection[str] = ()) -> list[UUID]:
        """Request the release of every pod whose lease has ended, and announce leases that end soon.

        Args:
            unread: clouds in which no lease ends now; while there are any, no waiting order ends either, since it may
                have been placed in one of them.
        """
        with self.database.statement() as tx:
            now = tx.now()
            late = [] if unread else [row["id"] for row in tx.rows("late_waiting_pods", at=now)]
            ended = [
                row["id"]
                for row in tx.rows(
                    "end_leases", at=now, unread=sorted(unread), message=message_json(pods.LEASE_ENDED())
                )
            ]
        with self.database.transaction() as tx:
            soon = {row["id"]: row["lease_end"] for row in tx.rows("warn_leases", at=now)}
            texts = {pod_id: pods.LEASE_ENDS_SOON(end=end) for pod_id, end in soon.items()}
            values = {"at": now, "type": "lease", "key": None}
            tx.many(
                "insert_event", [{"owner_id": p, "message": message_json(texts[p]), **values} for p in texts]
            )
            tx.many("notify", [{"owner_id": str(pod_id)} for pod_id in texts])
        over = pods.LEASE_ENDED_BEFORE_START()
        given = {"withdrawn": _withdrawn(), "at": now, "late": True, "generation": None}
        with self.database.statement() as tx:  # unless it was extended or started since it was read
            late = [i for i in late if tx.row("release_pod", id=i, message=message_json(over), **given)]
        return [*late, *ended]

    def retry(self, pod_id: UUID, message: str) -> PodState | None:
        """Resume a FAILED pod where it failed; None if it isn't FAILED, or is being released."""
        with self.database.transaction() as tx:
            now = tx.now()
            row = tx.row("retry_pod", id=pod_id, at=now)
            if row is None:
                return None
            state = revive(tx, PodRecord.of(row), pods.RETRY_REQUESTED(), now)
            announce(tx, pod_id, "state", pods.STATE(state=state, why=message))
            tx.run("touch_queue", at=now)
        return state

    def count_waiting(self) -> int:
        """Orders in the queue."""
        with self.database.statement() as tx:
            return number(tx, "count_queue")

    def counts(self) -> Counts:
        """Numbers of pods and nodes, without reading documents."""
        with self.database.transaction() as tx:
            return read_counts(tx)

    def fabrics_seen(self) -> list[SeenFabric]:
        """The last reading of each fabric."""
        return self.database.all(SeenFabric, "fabrics_seen")

    def monitored_servers(self, most: int) -> list[MonitoredServer]:
        """Servers of pods that serve, and where they are reached."""
        return self.database.all(MonitoredServer, "monitored_servers", most=most)

    def monitored_controllers(self, port: str, most: int) -> list[MonitoredServer]:
        """Pods with a controller of their own, and its address. Args: port: key of the port that it is reached by."""
        return self.database.all(MonitoredServer, "monitored_controllers", port=port, most=most)

    def monitored_nodes(self, most: int) -> list[MonitoredNode]:
        """Nodes of pods, with the pods' names and projects."""
        return self.database.all(MonitoredNode, "monitored_nodes", most=most)

    def count_workers(self) -> int:
        """Worker processes with a heartbeat within `WORKER_SECONDS`."""
        with self.database.statement() as tx:
            return number(tx, "count_workers", seconds=WORKER_SECONDS)

    def worker_lives(self, name: str) -> None:
        """Record a heartbeat of a worker process."""
        self.database.run("worker_lives", name=name, version=weft.__version__)

    def worker_ends(self, name: str) -> None:
        """Stop counting a worker that ends in order."""
        self.database.run("worker_ends", name=name)

    def ping(self) -> None:
        """Raise if the database is unusable."""
        self.database.row("time")


def _withdrawn() -> Jsonb:
    """The event of an order that ends before anything was claimed."""
    return message_json(pods.STATE(state="RELEASED", why=pods.NOTHING_CLAIMED()))
