"""Writes a pod's next generation: of a changed order, or with a node replaced.

The difference is computed without the lock, checked externally (what is on the added nodes, quotas), and computed
again under the claim lock; the pod's generation shows whether someone else was faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from weft.app.podverbs import PodVerbs
from weft.app.verbs import Request
from weft.engine.capacity import Capacity, read_capacity
from weft.engine.changes import check_lease, overtaken, write_change
from weft.engine.claim import MOST_TRIES
from weft.engine.database import Tx
from weft.engine.epoch import check_epoch
from weft.engine.gather import PlanningInput
from weft.engine.records import PodRecord
from weft.model.change import PodChange
from weft.model.errors import ConflictError, TemporaryError
from weft.model.plan import Plan
from weft.model.resources import Graph
from weft.model.site import Site


@dataclass(frozen=True, slots=True)
class NextGeneration:
    """A changed pod: its plan with the difference, and the end of its lease."""

    plan: Plan
    lease_end: datetime | None

    @property
    def change(self) -> PodChange:
        assert self.plan.change is not None
        return self.plan.change

    @property
    def assigned(self) -> tuple[str, ...]:
        """Nodes that get a server, or are held, from this generation on."""
        return (*self.change.nodes_added, *self.change.spares_used)


@dataclass(frozen=True, slots=True)
class Replacing:
    """A change that replaces a node: the old server is gone before the new one is requested, so that together they
    need no more than the old one, of quotas and of what a project may have.

    Attributes:
        also: written in the same transaction.
        check: asked under the lock, before anything is written, with the pod as it is there; raises to write nothing.
    """

    also: Callable[[Tx, NextGeneration, Site], None]
    check: Callable[[Tx, PodRecord], None] = lambda tx, pod: None


class Generations(PodVerbs):
    """Base of the verbs that change pods."""

    def _write_next(
        self,
        request: Request,
        pod: PodRecord,
        given: PlanningInput,
        following: Callable[[PodRecord, PlanningInput, Capacity], NextGeneration],
        replaces: Replacing | None = None,
    ) -> PodChange:
        """Compute the next generation, check externally what it adds, and write it under the claim lock."""
        for _ in range(MOST_TRIES):
            found = following(pod, given, self._store.capacity())
            if found.change.nothing:
                return found.change
            looked_at = frozenset(found.assigned)
            if found.change.added and (without := self._look(pod, found, given, replaces is None)):
                given = without
                continue
            with self._store.database.placing() as tx:
                # As it is under the lock: a number that turned out to be taken is replaced without a new generation.
                now = self._store.pod_under(tx, pod.id)
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
                    by = request.caller.user_name
                    write_change(tx, pod, found.plan, given.site, found.lease_end, by, replaces is None)
                    if replaces is not None:
                        replaces.also(tx, found, given.site)
                    return found.change
        why = f"the chosen nodes were taken or in use by others, {MOST_TRIES} times in a row"
        raise TemporaryError(f"place pod {pod.name}", "weft", why, "apply again")

    def _look(
        self, pod: PodRecord, found: NextGeneration, given: PlanningInput, within_quota: bool
    ) -> PlanningInput | None:
        """Check externally what would be added; returns the occupancy without nodes in use by others, if any.

        Args:
            within_quota: whether what is added counts against the project's quotas.
        """
        plan, change = found.plan, found.change
        facts = given.world.clouds[plan.cloud]
        check_epoch(self._store.database, facts, given.site.name, plan.cloud)
        if without := given.without_occupied(plan, self._store.servers_on, found.assigned):
            return without
        if not within_quota:
            return None
        there = plan.graph.by_key()
        new = Graph(resources=tuple(there[key] for key in change.added))
        given.check_quotas(pod.project_id, plan.model_copy(update={"graph": new}))
        return None
