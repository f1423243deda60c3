"""What the doors and the audit read and write: pods, the site, quarantine, logs. The loop writes through `Held`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from weft.engine.capacity import PKEYS, VLANS, Capacity, read_capacity
from weft.engine.database import Database, Row, Tx
from weft.engine.held import HOLD_SECONDS, Held
from weft.engine.records import PodRecord, ResourceRecord
from weft.model.errors import ConflictError, NotFoundError
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState, check_transition
from weft.model.receipt import SignedReceipt
from weft.model.site import Site
from weft.model.views import AuditLogEntry, AuditLogSearch, EventView, PodSummary
from weft.planning.book import when
from weft.ports.clock import Clock

_EXTEND = "the pod is released then, unless it is extended (weft pod extend)"
SHOWN_AFTER_RELEASE = timedelta(days=1)
"""How long a list goes on showing a released pod."""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """The site in force."""

    generation: int
    site: Site
    applied_at: datetime
    applied_by: str


class Store:
    """Named reads and writes over one `Database`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self._site: SiteRecord | None = None

    # -- site ---------------------------------------------------------------------------------------------------

    def site(self) -> SiteRecord:
        """The site in force. Raises `NotFoundError` before the first `weft site apply`."""
        with self.database.transaction() as tx:
            newest = tx.row("current_site_generation")
            if newest and self._site and newest["generation"] == self._site.generation:
                return self._site
            row = tx.row("current_site")
        if row is None:
            raise NotFoundError(
                "no site has been described yet: an operator runs `weft site apply FILE` first"
            )
        self._site = SiteRecord(
            row["generation"], Site.model_validate(row["document"]), row["applied_at"], row["applied_by"]
        )
        return self._site

    def apply_site(self, site: Site, by: str) -> SiteRecord:
        """Put a new generation in force; live pods keep the plan they were made with."""
        with self.database.transaction() as tx:
            tx.row(
                "insert_site",
                name=site.name,
                document=Jsonb(site.model_dump(mode="json")),
                at=self.clock.now(),
                by=by,
            )
            tx.run("touch_queue", at=self.clock.now())
        return self.site()

    # -- capacity -----------------------------------------------------------------------------------------------

    def capacity(self) -> Capacity:
        with self.database.transaction() as tx:
            return read_capacity(tx, self.clock.now())

    def quarantine(self, node: str, reason: str) -> None:
        with self.database.transaction() as tx:
            tx.run("quarantine", node=node, reason=reason, at=self.clock.now(), pod_id=None)
            tx.run("touch_queue", at=self.clock.now())

    def clear_quarantine(self, node: str) -> bool:
        """Whether it was in quarantine."""
        with self.database.transaction() as tx:
            tx.run("touch_queue", at=self.clock.now())
            tx.run("notify", pod_id="")
            return tx.run("clear_quarantine", node=node) > 0

    # -- pods ---------------------------------------------------------------------------------------------------

    def insert_pod(self, tx: Tx, plan: Plan, project_id: str, created_by: str) -> None:
        """Pod, resources, holds and first events in the caller's transaction (which holds `lock_capacity`)."""
        now, order = self.clock.now(), plan.order
        self.insert_row(
            tx,
            order,
            id=plan.pod_id,
            project_id=project_id,
            created_by=created_by,
            at=now,
            plan=Jsonb(plan.model_dump(mode="json")),
            state="PLACED",
            lease_end=order.lease.ends(now),
            placed_at=now,
        )
        tx.run("insert_event", pod_id=plan.pod_id, at=now, type="state", message="PENDING: ordered", key=None)
        self.claim(tx, plan)

    def insert_row(self, tx: Tx, order: Order, **values: Any) -> None:
        """A pod's row. Raises `ConflictError` if the project has a live pod of this name."""
        waits = {"placed_at": None, "not_before": None, "fixed": False, "expected_start": None, "reason": ""}
        document = Jsonb(order.model_dump(mode="json"))
        try:
            tx.run("insert_pod", **{**waits, "name": order.name, "ordered": document, **values})
        except UniqueViolation:
            raise ConflictError(
                f"name: there is a pod {order.name!r} already; release it first or take another name"
            ) from None

    def claim(self, tx: Tx, plan: Plan) -> None:
        """Resources, nodes and numbers of a plan, for a pod whose row is there."""
        now, pod_id = self.clock.now(), plan.pod_id
        tx.many(
            "insert_resource",
            [
                {
                    "pod_id": pod_id,
                    "key": r.key,
                    "kind": r.kind,
                    "position": i,
                    "document": Jsonb(r.model_dump(mode="json")),
                }
                for i, r in enumerate(plan.graph.resources)
            ],
        )
        spares = {n.node for n in plan.placement.spares}
        tx.many(
            "hold_node",
            [{"node": n, "pod_id": pod_id, "at": now, "spare": n in spares} for n in plan.placement.held],
        )
        numbers = {VLANS + plan.cloud: plan.allotment.vlan, **plan.allotment.numbers}
        if plan.allotment.pkey is not None:
            numbers[PKEYS + plan.fabric] = plan.allotment.pkey
        for space, number in sorted(numbers.items()):
            tx.run("hold_number", space=space, number=number, pod_id=pod_id)
        nodes = ", ".join(n.node for n in plan.placement.nodes)
        nodes += f"; spare: {', '.join(sorted(spares))}" if spares else ""
        tx.run("insert_event", pod_id=pod_id, at=now, type="state", message=f"PLACED: {nodes}", key=None)
        tx.run("notify", pod_id=pod_id)

    def summaries(self, project_id: str | None) -> list[PodSummary]:
        since = self.clock.now() - SHOWN_AFTER_RELEASE
        with self.database.transaction() as tx:
            rows = tx.rows("pods_of_project", project_id=project_id, since=since)
        return [PodSummary.model_validate({**row, "id": str(row["id"])}) for row in rows]

    def find_pod(self, name: str, project_id: str | None) -> PodRecord:
        """By id or name; `project_id` None searches all projects. Raises `NotFoundError`, `ConflictError`."""
        with self.database.transaction() as tx:
            row = self._by_id(tx, name)
            if row is None and project_id is not None:
                row = tx.row("pod_by_name", project_id=project_id, name=name)
            elif row is None:
                rows = tx.rows("pods_by_name_anywhere", name=name)
                live = [r for r in rows if r["state"] != "RELEASED"]
                if len(live) > 1:
                    raise ConflictError(f"several projects have a pod {name!r}: give its id")
                row = rows[0] if rows else None
        if row is None or (project_id is not None and row["project_id"] != project_id):
            raise NotFoundError(f"there is no pod {name!r} in this project")
        return PodRecord.of(row)

    @staticmethod
    def pod_under(tx: Tx, pod_id: UUID) -> PodRecord:
        """A pod as the caller's transaction sees it. Raises `NotFoundError`."""
        row = tx.row("pod_by_id", id=pod_id)
        if row is None:
            raise NotFoundError(f"there is no pod {pod_id}")
        return PodRecord.of(row)

    @staticmethod
    def _by_id(tx: Tx, name: str) -> Row | None:
        try:
            return tx.row("pod_by_id", id=UUID(name))
        except ValueError:
            return None

    def live_pods(self) -> list[PodRecord]:
        with self.database.transaction() as tx:
            return [PodRecord.of(row) for row in tx.rows("live_pods")]

    def released_pods(self, since: datetime, limit: int = 1000) -> list[PodRecord]:
        """Those that had something outside and were released since then, the last one first."""
        with self.database.transaction() as tx:
            return [PodRecord.of(row) for row in tx.rows("pods_released_since", since=since, limit=limit)]

    def resources(self, pod_id: UUID) -> list[ResourceRecord]:
        with self.database.transaction() as tx:
            return [ResourceRecord.of(row) for row in tx.rows("resources_of", pod_id=pod_id)]

    def release(self, pod_id: UUID, message: str) -> bool:
        """Ask for a pod's release; False if it was asked before. An order that waits has ended with this."""
        now = self.clock.now()
        with self.database.transaction() as tx:
            withdrawn = tx.row("withdraw_pod", id=pod_id, at=now) is not None
            asked = withdrawn or tx.row("release_pod", id=pod_id) is not None
            if asked:
                tx.run("insert_event", pod_id=pod_id, at=now, type="release", message=message, key=None)
                tx.run("touch_queue", at=now)
            if withdrawn:
                tx.run("drop_promise", pod_id=pod_id)
                ended = "RELEASED: it had nothing yet"
                tx.run("insert_event", pod_id=pod_id, at=now, type="state", message=ended, key=None)
            tx.run("wake_pod", id=pod_id)
            tx.run("notify", pod_id=str(pod_id))
        return asked

    def take(self, pod_id: UUID, worker: str) -> Held | None:
        """A pod out of turn, as a worker takes it; None if one has it in hand, or it is released."""
        with self.database.transaction() as tx:
            row = tx.row("take_this_pod", id=pod_id, worker=worker, hold=HOLD_SECONDS)
        return None if row is None else Held(self.database, self.clock, PodRecord.of(row))

    def abandon(self, pod_id: UUID, by: str, reason: str) -> bool:
        """Ask for the end of a release as it is; False unless the pod is being released, or if it was asked before."""
        now = self.clock.now()
        with self.database.transaction() as tx:
            asked = tx.row("abandon_pod", id=pod_id, by=by, why=reason, at=now) is not None
            if asked:
                message = f"abandon asked by {by}: {reason}"
                tx.run("insert_event", pod_id=pod_id, at=now, type="release", message=message, key=None)
                tx.run("notify", pod_id=str(pod_id))
        return asked

    def wake(self, pod_id: UUID) -> None:
        with self.database.transaction() as tx:
            tx.run("wake_pod", id=pod_id)
            tx.run("notify", pod_id=str(pod_id))

    def mend(self, pod_id: UUID) -> None:
        """Ask the loop to mend everything of a pod, servers included."""
        with self.database.transaction() as tx:
            tx.run("mend_pod", id=pod_id)
            tx.run("notify", pod_id=str(pod_id))

    def end_leases(self) -> list[UUID]:
        """Ask for the release of every pod whose lease has ended; say of those that end soon that they do."""
        now = self.clock.now()
        with self.database.transaction() as tx:
            late = [row["id"] for row in tx.rows("late_waiting_pods", at=now)]
            ended = [row["id"] for row in tx.rows("end_leases", at=now)]
            soon = [(row["id"], row["lease_end"]) for row in tx.rows("warn_leases", at=now)]
            said = [(pod, "release", "lease ended") for pod in ended]
            said += [
                (pod, "lease", f"the lease ends at {when(end.timestamp())}: {_EXTEND}") for pod, end in soon
            ]
            for pod_id, kind, message in said:
                tx.run("insert_event", pod_id=pod_id, at=now, type=kind, message=message, key=None)
                tx.run("notify", pod_id=str(pod_id))
        for pod_id in late:
            self.release(pod_id, "the lease ended before it could start")
        return [*late, *ended]

    def retry(self, pod_id: UUID, message: str) -> PodState | None:
        """A pod that FAILED goes back to where it failed; None if it hasn't, or is being released."""
        now = self.clock.now()
        with self.database.transaction() as tx:
            row = tx.row("retry_pod", id=pod_id, at=now)
            if row is None:
                return None
            state = PodState(row["state"])
            check_transition(PodState.FAILED, state)
            tx.run("forget_attempts", pod_id=pod_id)
            tx.run(
                "insert_event", pod_id=pod_id, at=now, type="state", message=f"{state}: {message}", key=None
            )
            tx.run("touch_queue", at=now)
            tx.run("notify", pod_id=str(pod_id))
        return state

    def count_waiting(self) -> int:
        """Orders in the queue."""
        with self.database.transaction() as tx:
            return sum(not row["fixed"] for row in tx.rows("waiting_pods"))

    def counts(self) -> list[Row]:
        """Rows of state, number, oldest (since when), alarmed (how many are in it for too long)."""
        with self.database.transaction() as tx:
            return tx.rows("count_pods")

    # -- records ------------------------------------------------------------------------------------------------

    def events(self, pod_id: UUID, after: int) -> list[EventView]:
        with self.database.transaction() as tx:
            return [EventView.model_validate(row) for row in tx.rows("events_of", pod_id=pod_id, after=after)]

    def receipt(self, pod_id: UUID) -> SignedReceipt | None:
        with self.database.transaction() as tx:
            row = tx.row("receipt_of", pod_id=pod_id)
        return SignedReceipt.model_validate(row["document"]) if row else None

    def log(self, **entry: Any) -> None:
        """Write the audit log; the values are those of `insert_audit_log`."""
        with self.database.transaction() as tx:
            tx.run("insert_audit_log", **entry)

    def audit_log(self, search: AuditLogSearch) -> list[AuditLogEntry]:
        """The newest first."""
        with self.database.transaction() as tx:
            rows = tx.rows("audit_log", **search.model_dump())
        return [AuditLogEntry.model_validate(row) for row in rows]

    def secret(self, name: str, first: bytes) -> bytes:
        """A secret kept in the database; `first` becomes it if there is none yet."""
        with self.database.transaction() as tx:
            tx.run("insert_secret", name=name, value=first)
            row = tx.row("secret", name=name)
        assert row is not None
        return bytes(row["value"])
