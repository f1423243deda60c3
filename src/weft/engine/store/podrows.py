"""Reads pods and their resources from the database."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.postgres import timed
from weft.engine.base.unreadable import UnreadableError
from weft.engine.book.occupancy import Sharing
from weft.engine.hold.fence import LATE_SECONDS
from weft.engine.rows.events import announce
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.engine.rows.shownrecords import FoundPod, ShownPod, ShownResource
from weft.engine.store.podlist import page
from weft.model.errors import ConflictError, NotFoundError, OutsideError, WeftError
from weft.model.ids import is_uuid
from weft.model.messages import orders
from weft.model.views import PodSearch, PodSummary
from weft.ports.fences import Fence

TOGETHER = 200
"""Most owners whose resources are read with one statement."""


@dataclass(frozen=True, slots=True)
class PodHome:
    """Where a pod of this name is; of an IPU pod `fabric` is its IPU-POD's name."""

    name: str
    fabric: str
    cloud: str
    flavor: str


class PodRows:
    """Reads pods and their resources, and writes single events of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def summaries(self, search: PodSearch, project_id: str | None) -> list[PodSummary]:
        """See `weft.engine.store.podlist.page`."""
        return page(self._database, search, project_id)

    def servers_on(self, nodes: Iterable[str]) -> dict[str, Sharing]:
        """Shared node -> servers of weft's pods that belong on it."""
        rows = self._database.rows("servers_on", nodes=list(nodes))
        return {r["node"]: Sharing(frozenset(r["ids"]), r["unanswered"]) for r in rows}

    def find(self, name: str, project_id: str | None) -> PodRecord:
        """A pod by id or name; `project_id` None searches all projects. Raises `NotFoundError`, `ConflictError`."""
        with self._database.statement() as tx:
            row = tx.row("pod_by_id", id=self._which(tx, name, project_id).id)
        if row is None:
            raise NotFoundError(orders.POD_NOT_FOUND(pod=name))
        return PodRecord.of(row)

    def find_shown(self, name: str, project_id: str | None) -> ShownPod:
        """Like `find`, as people see it. Raises `UnreadableError`, too, but not for other projects' pods."""
        if is_uuid(name):
            with suppress(NotFoundError):
                return self.to_show(UUID(name), project_id)
        return self.to_show(self.which(name, project_id).id)

    def to_show(self, pod_id: UUID, project_id: str | None = None) -> ShownPod:
        """A pod as people see it. Raises `NotFoundError`, `UnreadableError`.

        Args:
            project_id: the project it must belong to; None: any.
        """
        with self._database.statement() as tx:
            row = tx.row("pod_to_show", id=pod_id)
            if row is None or project_id not in (None, row["project_id"]):
                raise NotFoundError(orders.POD_NOT_FOUND(pod=str(pod_id)))
            rows = tx.rows("resources_to_show", owner_id=pod_id)
        resources = tuple(ShownResource.of(one) for one in rows)
        return ShownPod(
            PodRecord.of(row),
            resources,
            row["has_receipt"],
            tuple(map(timed, row["drains"])),
            tuple(map(timed, row["failures"])),
            tuple({**one, "since": datetime.fromisoformat(one["since"])} for one in row["checks"]),
            tuple(map(timed, row["bandwidth"])),
        )

    def which(self, name: str, project_id: str | None) -> FoundPod:
        """Like `find`, without reading documents: it also finds a pod whose row can't be read."""
        with self._database.statement() as tx:
            return self._which(tx, name, project_id)

    def _which(self, tx: Tx, name: str, project_id: str | None) -> FoundPod:
        rows = tx.rows("which_pod_by_id", id=UUID(name)) if is_uuid(name) else []
        if not rows and project_id is not None:
            rows = tx.rows("which_pod", project_id=project_id, name=name)
        elif not rows:
            rows = tx.rows("which_pod_anywhere", name=name)
            if sum(r["state"] != "RELEASED" for r in rows) > 1:
                raise ConflictError(orders.AMBIGUOUS_POD(pod=name))
        if not rows or project_id not in (None, rows[0]["project_id"]):
            raise NotFoundError(orders.POD_NOT_FOUND(pod=name))
        return FoundPod.of(rows[0])

    @staticmethod
    def under(tx: Tx, pod_id: UUID) -> PodRecord:
        """A pod as the caller's transaction sees it. Raises `NotFoundError`."""
        row = tx.row("pod_by_id", id=pod_id)
        if row is None:
            raise NotFoundError(f"there is no pod {pod_id}")
        return PodRecord.of(row)

    def live(self) -> list[PodRecord]:
        """Pods with, or possibly with, external resources that can be read; `every_live` also has the others."""
        return self.every_live()[0]

    def every_live(self) -> tuple[list[PodRecord], dict[UUID, str]]:
        """Pods with, or possibly with, external resources; and those whose rows can't be read: id -> why.

        Nothing may be concluded about external resources of the latter: whose they are is unknown.
        """
        rows = self._database.rows("live_pods")
        found = {row["id"]: _readable(row) for row in rows}
        unread = {pod: str(why) for pod, why in found.items() if isinstance(why, UnreadableError)}
        return [pod for pod in found.values() if isinstance(pod, PodRecord)], unread

    def under_repair(self) -> frozenset[UUID]:
        """Pods with a requested repair that isn't finished."""
        return frozenset(row["id"] for row in self._database.rows("owners_under_repair"))

    @staticmethod
    def homes(tx: Tx) -> list[PodHome]:
        """Where each pod is that has, or may have, external resources."""
        return tx.all(PodHome, "homes")

    def note_event(self, pod_id: UUID, kind: str, message: str, key: str | None) -> None:
        """Record an event of a pod outside of its visits, and notify its followers."""
        with self._database.transaction() as tx:
            announce(tx, pod_id, kind, message, key)

    @contextmanager
    def acting(self, pod: PodRecord, server: ResourceRecord) -> Generator[Fence]:
        """A request about a pod's server: nothing is returned before the request can't take effect any more.

        Yields a function to call right before each request; it raises `ConflictError` if the server is being removed.
        """
        asked: list[Row] = []

        def fence() -> None:
            self._may_act(pod)
            with self._database.transaction() as tx:
                if tx.row("lock_present", id=pod.id) is None:
                    only = "only servers of a READY or DEGRADED pod can be operated"
                    raise ConflictError(f"pod {pod.name} is being released: {only}")
                row = tx.row("begin_act", id=pod.id, key=server.key, late=LATE_SECONDS)
            if row is None:
                where, why = server.resource.node, "it isn't wanted any more"
                raise ConflictError(f"pod {pod.name}: the server of {where} isn't there: {why}")
            asked.append(row)

        try:
            yield fence
        except OutsideError:
            raise  # the outcome is unknown
        except WeftError:
            self._answered(pod.id, asked)
            raise
        else:
            self._answered(pod.id, asked)

    def _may_act(self, pod: PodRecord) -> None:
        """Raise `ConflictError` or `UnknownError` while the gate is closed: the machine may be another pod's by now."""
        closed = self._database.gate.closed({pod.plan.cloud})
        if closed is None:
            return
        raise ConflictError(str(closed)) if closed.alarming else closed

    def _answered(self, pod_id: UUID, asked: Sequence[Row]) -> None:
        if asked:
            with suppress(WeftError), self._database.statement() as tx:  # else it counts as unknown
                tx.run("end_act", id=pod_id, before=asked[0]["before"], until=asked[-1]["until"])

    def resources_of_each(
        self, owners: Iterable[UUID]
    ) -> Iterator[tuple[UUID, list[ResourceRecord] | UnreadableError]]:
        """Owners, in their order, with their resources or why these can't be read; `TOGETHER` with each statement."""
        ids = list(owners)
        for some in (ids[i : i + TOGETHER] for i in range(0, len(ids), TOGETHER)):
            rows = self._database.rows("resources_of", owners=some, at=None)
            found: dict[UUID, list[Row]] = {owner_id: [] for owner_id in some}
            for row in rows:
                found[row["owner_id"]].append(row)
            for owner_id, its in found.items():
                try:
                    yield owner_id, [ResourceRecord.of(row) for row in its]
                except UnreadableError as error:
                    yield owner_id, error

    def resources(self, pod_id: UUID) -> list[ResourceRecord]:
        """Rows of the owner's resources. Raises `UnreadableError`."""
        return [
            ResourceRecord.of(row) for row in self._database.rows("resources_of", owners=[pod_id], at=None)
        ]


def _readable(row: Row) -> PodRecord | UnreadableError:
    try:
        return PodRecord.of(row)
    except UnreadableError as error:
        return error
