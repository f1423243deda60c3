"""What the doors and the audit read and write: pods, the site, quarantine, logs. The loop writes through `Held`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from weft.engine.database import Database, Row, Tx
from weft.engine.records import PodRecord, ResourceRecord
from weft.model.errors import ConflictError, NotFoundError
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.receipt import SignedReceipt
from weft.model.site import Site
from weft.model.views import AuditLogEntry, EventView, PodSummary
from weft.ports.clock import Clock

SHOWN_AFTER_RELEASE = timedelta(days=1)
"""How long a list goes on showing a released pod."""


@dataclass(frozen=True, slots=True)
class SiteRecord:
    """The site in force."""

    generation: int
    site: Site
    applied_at: datetime
    applied_by: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is held by whom, read in one transaction.

    Attributes:
        holds: node -> row of node, pod_id, since, pod (its name), project_id.
        quarantines: node -> row of node, reason, since, pod_id.
        used: P_Keys, VLANs and subnets of live pods.
    """

    holds: Mapping[str, Row]
    quarantines: Mapping[str, Row]
    used: UsedNumbers

    def occupancy(self) -> Occupancy:
        return Occupancy(
            busy={node: row["pod"] for node, row in self.holds.items()},
            quarantined={node: row["reason"] for node, row in self.quarantines.items()},
        )


PKEYS, VLANS = "pkey/", "vlan/"
"""Prefixes of the spaces that numbers are held in: `pkey/<fabric>`, `vlan/<cloud>`."""


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
        return self.site()

    # -- capacity -----------------------------------------------------------------------------------------------

    def capacity(self) -> Capacity:
        with self.database.transaction() as tx:
            return read_capacity(tx)

    def quarantine(self, node: str, reason: str) -> None:
        with self.database.transaction() as tx:
            tx.run("quarantine", node=node, reason=reason, at=self.clock.now(), pod_id=None)

    def clear_quarantine(self, node: str) -> bool:
        """Whether it was in quarantine."""
        with self.database.transaction() as tx:
            return tx.run("clear_quarantine", node=node) > 0

    # -- pods ---------------------------------------------------------------------------------------------------

    def insert_pod(self, tx: Tx, plan: Plan, project_id: str, created_by: str) -> None:
        """Pod, resources, holds and first events in the caller's transaction (which holds `lock_capacity`)."""
        now, pod_id = self.clock.now(), plan.pod_id
        try:
            tx.run(
                "insert_pod",
                id=pod_id,
                project_id=project_id,
                name=plan.order.name,
                created_by=created_by,
                at=now,
                plan=Jsonb(plan.model_dump(mode="json")),
                state="PLACED",
                lease_end=plan.order.lease.end,
            )
        except UniqueViolation:
            raise ConflictError(
                f"name: there is a pod {plan.order.name!r} already; release it first or take another name"
            ) from None
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
        tx.many("hold_node", [{"node": n.node, "pod_id": pod_id, "at": now} for n in plan.placement.nodes])
        tx.run("hold_number", space=PKEYS + plan.fabric, number=plan.allotment.pkey, pod_id=pod_id)
        tx.run("hold_number", space=VLANS + plan.cloud, number=plan.allotment.vlan, pod_id=pod_id)
        nodes = ", ".join(n.node for n in plan.placement.nodes)
        for kind, message in (("state", "PENDING: ordered"), ("state", f"PLACED: {nodes}")):
            tx.run("insert_event", pod_id=pod_id, at=now, type=kind, message=message, key=None)
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
    def _by_id(tx: Tx, name: str) -> Row | None:
        try:
            return tx.row("pod_by_id", id=UUID(name))
        except ValueError:
            return None

    def live_pods(self) -> list[PodRecord]:
        with self.database.transaction() as tx:
            return [PodRecord.of(row) for row in tx.rows("live_pods")]

    def resources(self, pod_id: UUID) -> list[ResourceRecord]:
        with self.database.transaction() as tx:
            return [ResourceRecord.of(row) for row in tx.rows("resources_of", pod_id=pod_id)]

    def release(self, pod_id: UUID, message: str) -> bool:
        """Ask for a pod's release; False if it was asked before."""
        with self.database.transaction() as tx:
            asked = tx.row("release_pod", id=pod_id, at=self.clock.now()) is not None
            if asked:
                tx.run(
                    "insert_event",
                    pod_id=pod_id,
                    at=self.clock.now(),
                    type="release",
                    message=message,
                    key=None,
                )
            tx.run("wake_pod", id=pod_id, at=self.clock.now())
            tx.run("notify", pod_id=str(pod_id))
        return asked

    def wake(self, pod_id: UUID) -> None:
        with self.database.transaction() as tx:
            tx.run("wake_pod", id=pod_id, at=self.clock.now())
            tx.run("notify", pod_id=str(pod_id))

    def mend(self, pod_id: UUID) -> None:
        """Ask the loop to mend everything of a pod, servers included."""
        with self.database.transaction() as tx:
            tx.run("mend_pod", id=pod_id, at=self.clock.now())
            tx.run("notify", pod_id=str(pod_id))

    def end_leases(self) -> list[UUID]:
        """Ask for the release of every pod whose lease has ended."""
        with self.database.transaction() as tx:
            ended = [row["id"] for row in tx.rows("end_leases", at=self.clock.now())]
            for pod_id in ended:
                tx.run(
                    "insert_event",
                    pod_id=pod_id,
                    at=self.clock.now(),
                    type="release",
                    message="lease ended",
                    key=None,
                )
                tx.run("notify", pod_id=str(pod_id))
        return ended

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
        """Write the audit log: user_name, project_id, action, subject, address, request_id, outcome."""
        with self.database.transaction() as tx:
            tx.run("insert_audit_log", at=self.clock.now(), **entry)

    def audit_log(self, after: int, limit: int) -> list[AuditLogEntry]:
        with self.database.transaction() as tx:
            rows = tx.rows("audit_log", after=after, limit=limit)
        return [AuditLogEntry.model_validate(row) for row in rows]

    def secret(self, name: str, first: bytes) -> bytes:
        """A secret kept in the database; `first` becomes it if there is none yet."""
        with self.database.transaction() as tx:
            tx.run("insert_secret", name=name, value=first)
            row = tx.row("secret", name=name)
        assert row is not None
        return bytes(row["value"])


def read_capacity(tx: Tx) -> Capacity:
    """Holds and quarantines, inside a transaction of the caller's."""
    numbers: dict[str, set[int]] = {}
    for row in tx.rows("number_holds"):
        numbers.setdefault(row["space"], set()).add(row["number"])
    rdma: dict[str, set[str]] = {}
    management: dict[str, set[str]] = {}
    for row in tx.rows("subnets_in_use"):
        rdma.setdefault(row["cloud"], set()).add(row["rdma"])
        management.setdefault(row["cloud"], set()).add(row["management"])
    return Capacity(
        holds={row["node"]: row for row in tx.rows("node_holds")},
        quarantines={row["node"]: row for row in tx.rows("quarantines")},
        used=UsedNumbers(
            pkeys={s.removeprefix(PKEYS): frozenset(n) for s, n in numbers.items() if s.startswith(PKEYS)},
            vlans={s.removeprefix(VLANS): frozenset(n) for s, n in numbers.items() if s.startswith(VLANS)},
            rdma_cidrs={cloud: frozenset(n) for cloud, n in rdma.items()},
            management_cidrs={cloud: frozenset(n) for cloud, n in management.items()},
        ),
    )
