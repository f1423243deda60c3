"""The verbs about capacity over time: what can be ordered, and what is reserved."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from psycopg.errors import UniqueViolation

from weft.app.desk import Desk, project_id
from weft.app.offline import capacity_of, shown_shapes
from weft.app.verbs import Request
from weft.engine.capacity import Capacity, read_capacity, seconds_of
from weft.engine.database import Row
from weft.engine.gather import gather, health
from weft.model.errors import ConflictError, InputError, NotFoundError, WeftError
from weft.model.ids import Duration
from weft.model.order import Level
from weft.model.reservation import Reservation, ReservationView
from weft.model.site import Site
from weft.model.views import CapacityView
from weft.planning.fabric.topology import Topology
from weft.planning.queue.book import when
from weft.planning.queue.extension import closed_to
from weft.planning.shapes.shape import all_of

_ID = re.compile(r"[0-9a-f]{32}")
"""What Keystone's ids of projects look like."""


class TimeVerbs(Desk):
    """Of capacity and reservations; see `weft.app.verbs`."""

    def capacity(
        self,
        request: Request,
        accelerator: str | None = None,
        level: Level | None = None,
        duration: Duration = "24h",
    ) -> CapacityView:
        """What can be ordered now and later, for orders that run for `duration`."""
        caller = request.caller
        self._policy.check("capacity:show", caller, caller.project_id)
        site, world = self._store.site().site, self._keeper.world()
        shapes = shown_shapes(site, accelerator, level)
        inputs = [
            gather(site, world, cloud, all_of(shape.needs(site, cloud) for shape in shapes))
            for cloud in sorted(site.clouds)
        ]
        held, now = self._store.capacity(), self._clock.now()
        view = capacity_of(
            site,
            health(site, inputs, held),
            held.book(),
            now,
            duration,
            caller.project_id or "",
            accelerator,
            level,
        )
        return view.model_copy(update={"waiting": self._store.count_waiting()})

    def reservations(self, request: Request) -> list[ReservationView]:
        self._policy.check("reservations:list", request.caller)
        return [_view(row) for row in self._store.capacity().reservations]

    def create_reservation(self, request: Request, reservation: Reservation) -> ReservationView:
        with self._logged(request, "reservation create", reservation.name):
            self._policy.check("reservations:change", request.caller)
            project = self._project_id(reservation.project_id)
            reservation = reservation.model_copy(update={"project_id": project})
            site = self._store.site().site
            nodes = _nodes_of(reservation, site)
            with self._store.database.placing() as tx:
                now = tx.now()
                start = max(reservation.start or now, now)
                if reservation.end is not None and reservation.end <= now:
                    raise InputError("end", reservation.end.isoformat(), "a time in the future")
                _check_free(site, read_capacity(tx), reservation, nodes, start)
                try:
                    tx.run(
                        "insert_reservation",
                        name=reservation.name,
                        project_id=reservation.project_id,
                        nodes=nodes,
                        start=start,
                        end=reservation.end,
                        reason=reservation.reason,
                        created_by=request.caller.user_name,
                        at=now,
                    )
                except UniqueViolation:
                    raise ConflictError(
                        f"name: reservation {reservation.name!r} already exists; delete it first"
                    ) from None
                tx.run("touch_queue", at=now)
            return next(r for r in self.reservations(request) if r.name == reservation.name)

    def _project_id(self, given: str) -> str:
        """A project's id, looked up by name if necessary; ids are accepted without a lookup."""
        if _ID.fullmatch(given):
            return given
        known: dict[str, str] = {}
        try:
            for cloud in self._keeper.world().clouds.values():
                known.update(cloud.projects())
        except WeftError as error:
            allowed = f"the project's id, since its name can't be looked up now: {error}"
            raise InputError("project_id", given, allowed) from error
        return project_id(given, known, "project_id")

    def delete_reservation(self, request: Request, name: str) -> ReservationView:
        with self._logged(request, "reservation delete", name):
            self._policy.check("reservations:change", request.caller)
            found = [r for r in self.reservations(request) if r.name == name]
            with self._store.database.transaction() as tx:
                gone = tx.run("delete_reservation", name=name)
                tx.run("touch_queue", at=tx.now())
                tx.run("notify", owner_id="")
            if not gone or not found:
                raise NotFoundError(f"there is no reservation {name!r}")
            return found[0]


def _nodes_of(reservation: Reservation, site: Site) -> list[str]:
    """The nodes by name and by leaf. Raises `InputError` for what the site doesn't have."""
    machines = site.machine_by_name
    for node in reservation.nodes:
        found = site.node_by_name.get(node)
        if node not in machines and (found is None or found.role != "compute"):
            also = " and machines" if machines else ""
            raise InputError("nodes", node, f"compute nodes{also} of site {site.name}")
    leaves: dict[str, list[str]] = {}
    for fabric in sorted(site.fabrics):
        topology = Topology.of(site, fabric)
        for leaf, whole in topology.rails.items():
            members = topology.leaves[whole]
            leaves[leaf] = [n for n in members if site.node_by_name[n].role == "compute"]
    for leaf in reservation.leaves:
        if not leaves.get(leaf):
            known = ", ".join(sorted(name for name, members in leaves.items() if members))
            raise InputError("leaves", leaf, f"leaves of site {site.name} with compute nodes: {known}")
    return sorted({*reservation.nodes, *(n for leaf in reservation.leaves for n in leaves[leaf])})


def _check_free(
    site: Site, capacity: Capacity, reservation: Reservation, nodes: list[str], start: datetime
) -> None:
    """Reserved nodes must be available for their project: nobody else may hold or have booked them at that time."""
    book, wanted = capacity.book(), set(nodes)
    begin, end = start.timestamp(), seconds_of(reservation.end)
    for keep in (*book.leases, *book.bookings, *book.reservations):
        shared = sorted(wanted & set(keep.nodes))
        if shared and keep.project != reservation.project_id and keep.overlaps(begin, end):
            until = f"until {when(keep.end)}" if seconds_of(None) != keep.end else "without an end"
            raise ConflictError(
                f"nodes: {shared[0]} is taken by {keep.label} of project {keep.project} {until}: choose another node, "
                "or a later start"
            )
    there = [k for k in (*book.leases, *book.bookings) if k.overlaps(begin, end)]
    if why := closed_to(site, reservation.project_id, nodes, there):
        raise ConflictError(f"nodes: {why}: choose another node, or a later start")


def _view(row: Row) -> ReservationView:
    return ReservationView(
        name=row["name"],
        project_id=row["project_id"],
        nodes=tuple(row["nodes"]),
        start=row["start_at"].astimezone(UTC),
        end=row["end_at"].astimezone(UTC) if row["end_at"] else None,
        reason=row["reason"],
        created_by=row["created_by"],
        created_at=row["created_at"],
    )
