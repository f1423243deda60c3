"""Writes a pod's next generation: for a changed order, or with a node replaced.

The difference is computed without the lock, checked externally (what is on the added nodes, quotas), and computed
again under the claim lock; the pod's generation shows whether someone else was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from weft.app.desk import Desk
from weft.app.orderdesk import Orders, check_extension, check_longest
from weft.app.verbs import Request
from weft.engine.base.database import Tx
from weft.engine.base.epoch import check_epoch
from weft.engine.book.capacity import Capacity, read_capacity, seconds_of
from weft.engine.queue.changes import check_lease, overtaken, write_change
from weft.engine.queue.claim import MOST_TRIES
from weft.engine.queue.gather import PlanningInput, Window, refused
from weft.engine.rows.records import PodRecord, RowState
from weft.model.change import PodChange, Replacement
from weft.model.errors import ConflictError, InputError, TemporaryError
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.model.resources import Graph
from weft.model.site import Site
from weft.planning.shapes.resolve import as_placed


@dataclass(frozen=True, slots=True)
class NextGeneration:
    """A changed pod: its plan with the difference, and the end of its lease."""

    plan: Plan
    lease_end: datetime | None

    @property
    def change(self) -> PodChange:
        """What it changes: it was planned for a pod that exists."""
        assert self.plan.change is not None
        return self.plan.change

    @property
    def assigned(self) -> tuple[str, ...]:
        """Nodes that get a server, or are held, from this generation on."""
        return (*self.change.nodes_added, *self.change.spares_used)


@dataclass(frozen=True, slots=True)
class Replacing:
    """A change that replaces a node: the old server is gone before the new one is requested, so that together they
    need no more of quotas and the project's limits than the old one did. On shared nodes they overlap.

    Attributes:
        beside: whether the new server is requested while the old one may still be there.
        also: written in the same transaction.
        check: asked under the lock, before anything is written, with the pod as it is there; raises to write nothing.
    """

    also: Callable[[Tx, NextGeneration, Site], None]
    check: Callable[[Tx, PodRecord], None] = lambda tx, pod: None
    beside: bool = False


class Generations:
    """Next generations of pods that have nodes."""

    def __init__(self, desk: Desk, orders: Orders) -> None:
        self._desk, self._orders = desk, orders

    def write(
        self,
        request: Request,
        pod: PodRecord,
        given: PlanningInput,
        following: Callable[[PodRecord, PlanningInput, Capacity], NextGeneration],
        replaces: Replacing | None = None,
    ) -> PodChange:
        """Compute the next generation, check externally what it adds, and write it under the claim lock."""
        beside = replaces is None or replaces.beside
        for _ in range(MOST_TRIES):
            found = following(pod, given, self._desk.store.capacity())
            if found.change.nothing:
                return found.change
            looked_at = frozenset(found.assigned)
            if found.change.added and (without := self._look(pod, found, given, beside)):
                given = without
                continue
            with self._desk.store.database.placing() as tx:
                # As it is under the lock: a number that turned out to be taken is replaced without a new generation.
                now = self._desk.store.pods.under(tx, pod.id)
                if now.generation != pod.generation:
                    raise ConflictError(overtaken(tx, pod))
                pod = now
                if replaces is not None:
                    replaces.check(tx, pod)
                capacity = read_capacity(tx)
                given.check_site(capacity)
                found = following(pod, given, capacity)
                if looked_at.issuperset(
                    found.assigned
                ):  # otherwise someone else was faster: check the others
                    check_lease(pod, found.lease_end, tx.now())
                    by = request.caller.named_to(pod.project_id)
                    write_change(tx, pod, found.plan, given.site, found.lease_end, by, replaces is None)
                    if replaces is not None:
                        replaces.also(tx, found, given.site)
                    return found.change
        why = f"the chosen nodes were taken or in use by others, {MOST_TRIES} times in a row"
        raise TemporaryError(f"place pod {pod.name}", "weft", why, "apply again")

    def _look(
        self, pod: PodRecord, found: NextGeneration, given: PlanningInput, beside: bool
    ) -> PlanningInput | None:
        """Check externally what would be added; returns the occupancy without nodes in use by others, if any.

        Args:
            beside: it is requested while what is removed may still be there.
        """
        plan = found.plan
        facts = given.world.clouds[plan.cloud]
        check_epoch(self._desk.store.database, facts, given.site.name, plan.cloud)
        if without := given.without_occupied(plan, self._desk.store.pods.servers_on, found.assigned):
            return without
        self.check_quotas(pod, found, given, beside)
        return None

    def check_quotas(self, pod: PodRecord, found: NextGeneration, given: PlanningInput, beside: bool) -> None:
        """Raise `RefusedError` if what would be added exceeds the project's quotas. Args: as for `_look`."""
        there = found.plan.graph.by_key()
        new = Graph(resources=tuple(there[key] for key in found.change.added))
        missing = (RowState.WANTED, RowState.CREATING, RowState.ABSENT)
        is_there = {r.key for r in self._desk.store.pods.resources(pod.id) if r.state not in missing}
        gone = () if beside else tuple(r for r in found.change.removed if r.key in is_there)
        plan = found.plan.model_copy(update={"graph": new})
        given.check_quotas(pod.project_id, plan, Graph(resources=gone))

    def next(
        self,
        pod: PodRecord,
        order: Order,
        given: PlanningInput,
        capacity: Capacity,
        remove: Sequence[str] = (),
        replaces: Replacement | None = None,
    ) -> NextGeneration:
        """The next generation for this order; nothing is written. Raises `RefusedError` if there is no capacity for
        more nodes, `InputError` for an impossible lease."""
        order, end = self._lease(pod, order, capacity)
        now = self._desk.clock.now().timestamp()
        window = Window(now, now, seconds_of(end), seconds_of(end), str(pod.id))
        made = given.change(pod.plan, order, capacity, window, remove, replaces)
        if isinstance(made, Refusal):
            raise refused(made)
        return NextGeneration(made, end)

    def _lease(self, pod: PodRecord, order: Order, capacity: Capacity) -> tuple[Order, datetime | None]:
        """The order with its lease, and when that ends; an unchanged lease stays as it was."""
        before, lease = pod.plan.order.lease, order.lease
        end = lease.ends(pod.placed_at or pod.created_at)
        if lease == before or end == pod.lease_end:
            same = order.model_copy(update={"lease": before.model_copy(update={"start": lease.start})})
            return same, pod.lease_end
        site, now = self._desk.store.site().site, self._desk.clock.now()
        field, given = ("lease.duration", lease.duration) if lease.duration else ("lease.end", lease.end)
        check_longest(field, given, seconds_of(end), now.timestamp(), site)
        if end is not None and end <= now:
            value = given.isoformat() if isinstance(given, datetime) else given
            raise InputError(field, value, instead("a time in the future"))
        if seconds_of(end) > seconds_of(pod.lease_end):
            check_extension(pod, end, capacity, site)
        return order, end

    def given_now(self, pod: PodRecord, order: Order) -> PlanningInput:
        """The planning input for nodes that are added to a pod."""
        order = as_placed(order, pod.plan)
        given, _ = self._orders.gather(pod.project_id, order)
        cloud = pod.plan.cloud
        given.world.clouds[cloud].check_order(pod.project_id, order, pod.plan.flavor)
        return given

    def blank(self) -> PlanningInput:
        """The active site with nothing held, to resolve an order by."""
        record = self._desk.store.site()
        return PlanningInput(
            record.site, self._desk.keeper.world_of(record), {}, {}, generation=record.generation
        )
