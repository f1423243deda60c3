"""The verbs about capacity over time: what can be ordered, and what is reserved."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from weft.app.desk import DeskVerbs, project_id
from weft.app.offline import capacity_of, shown_shapes
from weft.app.verbs import Request
from weft.engine.book.reservations import reservations_of, reserve, unreserve
from weft.engine.book.samples import capacity_noted
from weft.engine.queue.gather import gather, health
from weft.model.errors import InputError, NotFoundError, WeftError
from weft.model.ids import Duration
from weft.model.localityorder import Level
from weft.model.messages.orders import instead
from weft.model.reservation import Reservation, ReservationView
from weft.model.site import Site
from weft.model.views import CapacityHistory, CapacitySearch, CapacityView
from weft.planning.fabric.places import nodes_of_leaves
from weft.planning.shapes.shape import all_of

_ID = re.compile(r"[0-9a-f]{32}")
"""What Keystone's ids of projects look like."""


class TimeVerbs(DeskVerbs):
    """Verbs about capacity and reservations; see `weft.app.verbs`."""

    def show(
        self,
        request: Request,
        accelerator: str | None = None,
        level: Level | None = None,
        duration: Duration = "24h",
    ) -> CapacityView:
        """What can be ordered now and later, for orders that run for `duration`."""
        caller = request.caller
        self._desk.policy.check("capacity:show", caller, caller.project_id)
        record = self._desk.store.site()
        site, world = record.site, self._desk.keeper.world_of(record)
        shapes = shown_shapes(site, accelerator, level)
        inputs = [
            gather(record, world, cloud, all_of(shape.needs(site, cloud) for shape in shapes))
            for cloud in sorted(site.clouds)
        ]
        held, now = self._desk.store.capacity(), self._desk.clock.now()
        view = capacity_of(
            site,
            health(site, inputs, held, caller.project_id or ""),
            held.book(),
            now,
            duration,
            caller.project_id or "",
            accelerator,
            level,
        )
        return view.model_copy(update={"waiting": self._desk.store.count_waiting()})

    def history(
        self, request: Request, search: CapacitySearch, length: timedelta = timedelta(days=7)
    ) -> CapacityHistory:
        """What was free in a period, and how many orders waited, for operators.

        Args:
            length: of a period whose begin isn't given, by the database's clock.
        """
        self._desk.policy.check("nodes:list", request.caller)
        database, site = self._desk.store.database, self._desk.store.site().site
        until = search.until or database.now()
        since = search.since or until - length
        if until <= since:
            raise InputError("since", since, instead("must be before the end of the period"))
        points = capacity_noted(database, since, until, search.points)
        return CapacityHistory(since=since, until=until, kept=site.retention.use, points=tuple(points))

    def reservations(self, request: Request) -> list[ReservationView]:
        """All reservations, for operators."""
        self._desk.policy.check("reservations:list", request.caller)
        return reservations_of(self._desk.store.capacity())

    def calendar(self, request: Request) -> tuple[list[ReservationView], datetime]:
        """All reservations, and the time now by the database's clock, for operators."""
        return self.reservations(request), self._desk.store.database.now()

    def reservation(self, request: Request, name: str) -> ReservationView:
        """A reservation by its name, for operators. Raises `NotFoundError`."""
        found = next((one for one in self.reservations(request) if one.name == name), None)
        if found is None:
            raise NotFoundError(f"there is no reservation {name!r}")
        return found

    def reserve(self, request: Request, reservation: Reservation) -> ReservationView:
        """Set nodes aside for a project. Raises `InputError` for nodes and leaves that the site doesn't have."""
        with self._desk.logged(request, "reservation create", reservation.name):
            self._desk.policy.check("reservations:change", request.caller)
            project = self._project_id(reservation.project_id)
            reservation = reservation.model_copy(update={"project_id": project})
            site = self._desk.store.site().site
            nodes = _nodes_of(reservation, site)
            return reserve(self._desk.store.database, site, reservation, nodes, request.caller.user_name)

    def _project_id(self, given: str) -> str:
        """A project's id, looked up by name if necessary; ids are accepted without a lookup."""
        if _ID.fullmatch(given):
            return given
        known: dict[str, str] = {}
        try:
            for cloud in self._desk.keeper.world().clouds.values():
                known.update(cloud.projects())
        except WeftError as error:
            allowed = f"the project's id, since its name can't be looked up now: {error}"
            raise InputError("project_id", given, allowed) from error
        return project_id(given, known, "project_id")

    def end_reservation(self, request: Request, name: str, revision: int | None = None) -> ReservationView:
        """Delete a reservation, and return it as it was.

        Args:
            revision: `PreconditionError` unless the reservation has this one.
        """
        with self._desk.logged(request, "reservation delete", name):
            self._desk.policy.check("reservations:change", request.caller)
            return unreserve(self._desk.store.database, name, revision)


def _nodes_of(reservation: Reservation, site: Site) -> list[str]:
    """The nodes by name and by leaf. Raises `InputError` for what the site doesn't have."""
    for node in reservation.nodes:
        if (found := site.units.get(node)) is None or not found.is_whole:
            also = " and machines" if site.machine_by_name else ""
            raise InputError("nodes", node, f"compute nodes{also} of site {site.name}")
    compute = {n.name for n in site.nodes if n.role == "compute"}
    leaves = {leaf: [n for n in members if n in compute] for leaf, members in nodes_of_leaves(site).items()}
    for leaf in reservation.leaves:
        if not leaves.get(leaf):
            known = ", ".join(sorted(name for name, members in leaves.items() if members))
            raise InputError("leaves", leaf, f"leaves of site {site.name} with compute nodes: {known}")
    return sorted({*reservation.nodes, *(n for leaf in reservation.leaves for n in leaves[leaf])})
