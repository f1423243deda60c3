"""What the API and the audit read and write: pods, the site, quarantine, logs. The loop writes through `Held`."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from weft.engine.capacity import Capacity, read_capacity
from weft.engine.database import Database, Row, Tx
from weft.engine.documents import read, written
from weft.engine.fence import HOLD_SECONDS, LATE_SECONDS
from weft.engine.held import Held
from weft.engine.ownerstore import hold, read_owner
from weft.engine.partholds import hold_parts
from weft.engine.podlist import UNREADABLE, page
from weft.engine.records import FoundPod, PodRecord, ResourceRecord, ShownPod, ShownResource
from weft.engine.revival import revive
from weft.engine.siteparts import SiteRecord, Sites
from weft.engine.unreadable import READING, UnreadableError, unreadable
from weft.model.errors import ConflictError, NotFoundError
from weft.model.ids import is_uuid
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.receipt import Correction, SignedReceipt
from weft.model.site import Site
from weft.model.views import AuditLogEntry, AuditLogSearch, EventView, PodSearch, PodSummary
from weft.planning.queue.book import when
from weft.planning.shapes.resolve import shape_of

_EXTEND = "the pod is released then, unless it is extended (weft pod extend)"
log = logging.getLogger(__name__)

PARKED_FOR = 3600.0
"""Seconds after which a row that couldn't be read is tried again: it may have been corrected, or weft upgraded."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of everything.

    Attributes:
        pods: rows of state, number, oldest (for how many seconds), alarmed (how many have an alarm).
        busy, quarantined: nodes.
        parked: pods and orders whose rows can't be read.
        traces: what was found after a receipt was signed: `open`, still there; `gone`, taken back since.
        swept: seconds since the last sweep came to its end; None: none has yet.
        removed: what was old -> how many rows of it have been removed ever since.
        networks: tenants' own: number, ports by state, `oldest` waiting and `unread` in seconds.
    """

    pods: tuple[Row, ...]
    busy: int
    quarantined: int
    parked: int
    traces: Row
    swept: float | None
    removed: Mapping[str, int]
    networks: Row


@dataclass(frozen=True, slots=True)
class Due:
    """What has its time.

    Attributes:
        leases: some have ended, or end soon, and nothing was done about it yet.
        queue: seconds until it is looked at again; 0: now.
    """

    leases: bool
    queue: float


class Store:
    """Named reads and writes over one `Database`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.sites = Sites(database)

    # -- site ---------------------------------------------------------------------------------------------------

    def site(self) -> SiteRecord:
        """The active site. Raises `NotFoundError` before the first `weft site apply`."""
        return self.sites.current()

    def apply_site(self, site: Site, by: str, base: int | None = None) -> SiteRecord:
        """Put a new generation in force; see `Sites.apply`."""
        return self.sites.apply(site, by, base)

    # -- capacity -----------------------------------------------------------------------------------------------

    def capacity(self) -> Capacity:
        with self.database.transaction() as tx:
            return read_capacity(tx)

    def quarantine(self, node: str, reason: str) -> None:
        with self.database.transaction() as tx:
            tx.run("quarantine", node=node, reason=reason, at=tx.now(), pod_id=None)
            tx.run("touch_queue", at=tx.now())

    def clear_quarantine(self, node: str) -> bool:
        """Whether it was in quarantine."""
        with self.database.transaction() as tx:
            tx.run("touch_queue", at=tx.now())
            tx.run("notify", owner_id="")
            return tx.run("clear_quarantine", node=node) > 0

    # -- pods ---------------------------------------------------------------------------------------------------

    def insert_pod(self, tx: Tx, plan: Plan, project_id: str, created_by: str, delay: float = 0.0) -> None:
        """Pod, resources, holds and first events in the caller's transaction (which holds `lock_capacity`).

        Args:
            delay: seconds for which workers leave it alone: see `weft.engine.claim`.
        """
        now = tx.now()
        row = self._row(
            plan.order,
            id=plan.pod_id,
            project_id=project_id,
            created_by=created_by,
            at=now,
            plan=written(plan),
            state="PLACED",
            lease_end=plan.order.lease.ends(now),
            placed_at=now,
            delay=delay,
        )
        with _one_of_a_name(plan.order):
            tx.row("claim_new", **row, **_claims(plan), messages=["PENDING: ordered", _placed(plan)])
        hold_parts(tx, plan)

    def confirm(self, plan: Plan) -> None:
        """Hand a claimed pod to the workers."""
        with self.database.statement() as tx:
            tx.run("confirm_pod", id=plan.pod_id)

    def drop_claim(self, plan: Plan) -> bool:
        """Take a claim back that wasn't confirmed, as if it had never been. False: the pod goes its own way."""
        with self.database.transaction() as tx:
            if tx.row("drop_claim", id=plan.pod_id) is None:
                return False
            tx.run("give_back_nodes", pod_id=plan.pod_id)
            tx.run("give_back_numbers", owner_id=plan.pod_id, kept=[])
            tx.run("give_back_subnets", owner_id=plan.pod_id)
            tx.run("drop_resources", owner_id=plan.pod_id)
            tx.run("drop_events", owner_id=plan.pod_id)
            tx.run("touch_queue", at=tx.now())
            tx.run("notify", owner_id=plan.pod_id)
        return True

    def insert_row(self, tx: Tx, order: Order, **values: Any) -> None:
        """A pod's row. Raises `ConflictError` if the project has a live pod of this name."""
        with _one_of_a_name(order):
            tx.run("insert_pod", **self._row(order, **values))

    @staticmethod
    def _row(order: Order, **values: Any) -> dict[str, Any]:
        unset: dict[str, Any] = dict.fromkeys(("placed_at", "not_before", "expected_start"))
        waits = {**unset, "fixed": False, "reason": "", "delay": 0.0}
        return {**waits, "name": order.name, "ordered": written(order), **values}

    def claim(self, tx: Tx, plan: Plan) -> None:
        """Resources, nodes and numbers of a plan, for a pod whose row is there."""
        tx.row("claim", at=tx.now(), **_claims(plan), messages=[_placed(plan)])
        hold_parts(tx, plan)

    def summaries(self, search: PodSearch, project_id: str | None) -> list[PodSummary]:
        """See `weft.engine.podlist.page`."""
        return page(self.database, search, project_id)

    def servers_on(self, nodes: Iterable[str]) -> dict[str, frozenset[str]]:
        """Shared node -> servers of weft's pods that belong on it: ids, and names of those that have none yet."""
        found: dict[str, set[str]] = {}
        with self.database.statement() as tx:
            for row in tx.rows("servers_on", nodes=list(nodes)):
                found.setdefault(row["node"], set()).add(row["server"])
        return {node: frozenset(servers) for node, servers in found.items()}

    def find_pod(self, name: str, project_id: str | None) -> PodRecord:
        """By id or name; `project_id` None searches all projects. Raises `NotFoundError`, `ConflictError`."""
        with self.database.statement() as tx:
            row = tx.row("pod_by_id", id=self._which(tx, name, project_id).id)
        if row is None:
            raise NotFoundError(f"there is no pod {name!r} in this project")
        return PodRecord.of(row)

    def pod_to_show(self, pod_id: UUID) -> ShownPod:
        """What people are shown of a pod. Raises `NotFoundError`, `UnreadableError`."""
        with self.database.statement() as tx:
            row = tx.row("pod_to_show", id=pod_id)
            rows = tx.rows("resources_to_show", owner_id=pod_id)
        if row is None:
            raise NotFoundError(f"there is no pod {pod_id}")
        return ShownPod(PodRecord.of(row), tuple(ShownResource.of(one) for one in rows), row["has_receipt"])

    def which_pod(self, name: str, project_id: str | None) -> FoundPod:
        """As `find_pod`, without reading what it is: it may be one whose row can't be read."""
        with self.database.statement() as tx:
            return self._which(tx, name, project_id)

    def _which(self, tx: Tx, name: str, project_id: str | None) -> FoundPod:
        rows = tx.rows("which_pod_by_id", id=UUID(name)) if is_uuid(name) else []
        if not rows and project_id is not None:
            rows = tx.rows("which_pod", project_id=project_id, name=name)
        elif not rows:
            rows = tx.rows("which_pod_anywhere", name=name)
            if sum(r["state"] != "RELEASED" for r in rows) > 1:
                raise ConflictError(f"several projects have a pod {name!r}: give its id")
        if not rows or project_id not in (None, rows[0]["project_id"]):
            raise NotFoundError(f"there is no pod {name!r} in this project")
        return FoundPod.of(rows[0])

    @staticmethod
    def pod_under(tx: Tx, pod_id: UUID) -> PodRecord:
        """A pod as the caller's transaction sees it. Raises `NotFoundError`."""
        row = tx.row("pod_by_id", id=pod_id)
        if row is None:
            raise NotFoundError(f"there is no pod {pod_id}")
        return PodRecord.of(row)

    def live_pods(self) -> list[PodRecord]:
        """All that have, or may have, something outside and can be read; `every_live_pod` tells of the others too."""
        return self.every_live_pod()[0]

    def every_live_pod(self) -> tuple[list[PodRecord], dict[UUID, str]]:
        """Pods that have, or may have, something outside; and of those whose rows can't be read: id -> why.

        What of these is outside is nobody's to judge: it isn't known to be theirs, and not known not to be.
        """
        with self.database.statement() as tx:
            rows = tx.rows("live_pods")
        found = {row["id"]: _readable(row) for row in rows}
        unread = {pod: str(why) for pod, why in found.items() if isinstance(why, UnreadableError)}
        return [pod for pod in found.values() if isinstance(pod, PodRecord)], unread

    def under_repair(self) -> frozenset[UUID]:
        """Pods that were asked to be repaired and aren't yet."""
        with self.database.statement() as tx:
            return frozenset(row["id"] for row in tx.rows("owners_under_repair"))

    def park(self, pod_id: UUID, error: UnreadableError) -> None:
        """Set a pod or an order apart whose row can't be read, with the reason and an alarm; it is tried again later.

        Nothing of it is touched: nodes, numbers and what is outside stay its own.
        """
        with self.database.transaction() as tx:
            row = tx.row("park", id=pod_id, why=error.answer, delay=PARKED_FOR)
            if row is not None and row["news"]:
                message = f"{UNREADABLE}: {error.answer}"
                tx.run("insert_event", owner_id=pod_id, at=tx.now(), type="alarm", message=message, key=None)
                tx.run("notify", owner_id=str(pod_id))
                log.error("pod %s: %s", pod_id, error)

    def homes(self) -> list[Row]:
        """Rows of name, fabric and cloud of every pod that has, or may have, something outside."""
        with self.database.statement() as tx:
            return tx.rows("homes")

    def released_pods(self, since: datetime, limit: int = 1000) -> list[PodRecord]:
        """Those that had something outside and were released since then, the last one first."""
        with self.database.statement() as tx:
            rows = tx.rows("pods_released_since", since=since, limit=limit)
        return [pod for row in rows if isinstance(pod := _readable(row), PodRecord)]

    def resources(self, pod_id: UUID) -> list[ResourceRecord]:
        with self.database.statement() as tx:
            return [ResourceRecord.of(row) for row in tx.rows("resources_of", owners=[pod_id], at=None)]

    def release(self, pod_id: UUID, message: str) -> bool:
        """Ask for an owner's release; False if it was asked before. An order that waits has ended with this."""
        with self.database.statement() as tx:
            row = tx.row("release_pod", id=pod_id, message=message, at=tx.given)
            if row is None:  # an owner of another kind
                row = tx.row("release_owner", id=pod_id, message=message, at=tx.given)
        return row is not None and row["asked"]

    def take(self, owner_id: UUID, worker: str) -> Held | None:
        """An owner out of turn, as a worker takes it; None if one has it in hand, or it is released."""
        with self.database.transaction() as tx:
            row = tx.row("take_this_owner", id=owner_id, worker=worker, hold=HOLD_SECONDS, late=LATE_SECONDS)
            owner = read_owner(tx, owner_id) if row is not None else None
        return None if owner is None else hold(self.database, owner)

    def abandon(self, pod_id: UUID, by: str, reason: str) -> bool:
        """Ask for the end of a release as it is; False unless the pod is being released, or if it was asked before."""
        with self.database.transaction() as tx:
            now = tx.now()
            asked = tx.row("abandon_owner", id=pod_id, by=by, why=reason, at=now) is not None
            if asked:
                message = f"abandon requested by {by}: {reason}"
                tx.run("insert_event", owner_id=pod_id, at=now, type="release", message=message, key=None)
                tx.run("notify", owner_id=str(pod_id))
        return asked

    def wake(self, pod_id: UUID) -> None:
        with self.database.transaction() as tx:
            tx.run("wake_owner", id=pod_id)
            tx.run("notify", owner_id=str(pod_id))

    def request_repair(self, pod_id: UUID) -> None:
        """Ask the loop to repair everything of a pod, servers included."""
        with self.database.transaction() as tx:
            tx.run("request_repair", id=pod_id)
            tx.run("notify", owner_id=str(pod_id))

    def due(self) -> Due:
        """What of that which has its time is due."""
        with self.database.statement() as tx:
            row = tx.row("due", at=tx.given)
        assert row is not None
        return Due(row["leases"], max(0.0, (row["queue"] - row["at"]).total_seconds()))

    def end_leases(self) -> list[UUID]:
        """Ask for the release of every pod whose lease has ended; say of those that end soon that they do."""
        with self.database.transaction() as tx:
            now = tx.now()
            late = [row["id"] for row in tx.rows("late_waiting_pods", at=now)]
            ended = [row["id"] for row in tx.rows("end_leases", at=now)]
            soon = [(row["id"], row["lease_end"]) for row in tx.rows("warn_leases", at=now)]
            said = [(pod, "release", "lease ended") for pod in ended]
            said += [
                (pod, "lease", f"the lease ends at {when(end.timestamp())}: {_EXTEND}") for pod, end in soon
            ]
            for pod_id, kind, message in said:
                tx.run("insert_event", owner_id=pod_id, at=now, type=kind, message=message, key=None)
                tx.run("notify", owner_id=str(pod_id))
        for pod_id in late:
            self.release(pod_id, "the lease ended before it could start")
        return [*late, *ended]

    def retry(self, pod_id: UUID, message: str) -> PodState | None:
        """A pod that FAILED goes on where it failed; None if it hasn't, or is being released."""
        with self.database.transaction() as tx:
            now = tx.now()
            row = tx.row("retry_pod", id=pod_id, at=now)
            if row is None:
                return None
            state = revive(tx, PodRecord.of(row), "retry requested", now)
            tx.run(
                "insert_event", owner_id=pod_id, at=now, type="state", message=f"{state}: {message}", key=None
            )
            tx.run("touch_queue", at=now)
            tx.run("notify", owner_id=str(pod_id))
        return state

    def count_waiting(self) -> int:
        """Orders in the queue."""
        with self.database.statement() as tx:
            return _number(tx, "count_queue")

    def counts(self) -> Counts:
        """What the metrics say of pods and nodes: no document is read for it."""
        with self.database.transaction() as tx:
            return Counts(
                tuple(tx.rows("count_pods", at=tx.now())),
                _number(tx, "count_busy"),
                _number(tx, "count_quarantined"),
                _number(tx, "count_parked"),
                tx.row("count_traces") or {"open": 0, "gone": 0},
                _swept(tx),
                (tx.row("retention") or {"removed": {}})["removed"],
                tx.row("count_tenant_ports") or {},
            )

    def ping(self) -> None:
        """Raises what stands between weft and the database."""
        with self.database.statement() as tx:
            tx.row("time")

    # -- records ------------------------------------------------------------------------------------------------

    def events(self, pod_id: UUID, after: int) -> list[EventView]:
        with self.database.statement() as tx:
            return [
                EventView.model_validate(row) for row in tx.rows("events_of", owner_id=pod_id, after=after)
            ]

    def receipt(self, pod_id: UUID) -> SignedReceipt | None:
        with self.database.statement() as tx:
            row = tx.row("receipt_of", owner_id=pod_id)
            traces = tx.rows("traces_of", owner_id=pod_id)
        try:
            signed = read(SignedReceipt, row["document"]) if row else None
            found = tuple(Correction.model_validate(t) for t in traces)
            return signed and signed.model_copy(update={"corrections": found})
        except READING as error:
            raise unreadable(f"the receipt of pod {pod_id}", error) from error

    def log(self, **entry: Any) -> None:
        """Write the audit log; the values are those of `insert_audit_log`."""
        with self.database.statement() as tx:
            tx.run("insert_audit_log", **entry)

    def audit_log(self, search: AuditLogSearch) -> list[AuditLogEntry]:
        """The newest first."""
        with self.database.statement() as tx:
            rows = tx.rows("audit_log", **search.model_dump())
        return [AuditLogEntry.model_validate(row) for row in rows]

    def secret(self, name: str, first: bytes) -> bytes:
        """A secret kept in the database; `first` becomes it if there is none yet."""
        with self.database.transaction() as tx:
            tx.run("insert_secret", name=name, value=first)
            row = tx.row("secret", name=name)
        assert row is not None
        return bytes(row["value"])


@contextmanager
def _one_of_a_name(order: Order) -> Generator[None]:
    """Raise `ConflictError` if the project has a live pod of this name."""
    try:
        yield
    except UniqueViolation as error:
        if error.diag.constraint_name != "pod_live_name":
            raise
        raise ConflictError(
            f"name: pod {order.name!r} already exists; release it first or use another name"
        ) from None


def _claims(plan: Plan) -> dict[str, Any]:
    """Parameters of `claim`, but for time and messages."""
    spares = {n.node for n in plan.placement.spares}
    shared = {n.node for n in plan.placement.nodes if n.part is not None}
    resources = [
        {"key": r.key, "kind": r.kind, "position": i, "document": written(r).obj}
        for i, r in enumerate(plan.graph.resources)
    ]
    nodes = [{"node": n, "spare": n in spares, "whole": n not in shared} for n in plan.placement.held]
    numbers = [{"space": s, "number": n} for s, n in sorted(plan.allotment.numbers.items())]
    subnets = [{"plane": p, "cidr": c} for p, c in shape_of(plan.order).cut(plan).items()]
    return {
        "owner_id": plan.pod_id,
        "cloud": plan.cloud,
        "resources": Jsonb(resources),
        "nodes": Jsonb(nodes),
        "numbers": Jsonb(numbers),
        "subnets": Jsonb(subnets),
    }


def _placed(plan: Plan) -> str:
    spares = sorted(n.node for n in plan.placement.spares)
    nodes = ", ".join(n.node for n in plan.placement.nodes)
    return f"PLACED: {nodes}" + (f"; spare: {', '.join(spares)}" if spares else "")


def _readable(row: Row) -> PodRecord | UnreadableError:
    try:
        return PodRecord.of(row)
    except UnreadableError as error:
        return error


def _number(tx: Tx, name: str) -> int:
    row = tx.row(name)
    assert row is not None
    return int(row["number"])


def _swept(tx: Tx) -> float | None:
    row = tx.row("sweep")
    ended = row["ended_at"] if row else None
    return (tx.now() - ended).total_seconds() if ended else None
