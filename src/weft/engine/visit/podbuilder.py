"""Steps of a visit to a pod: check the nodes' occupants, create what is missing, verify, test."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.settings import LoopSettings
from weft.engine.hold.status import News
from weft.engine.proof.membership import WatchedNodes, has_followers, has_outsiders, watch_nodes
from weft.engine.proof.seen import left_alone
from weft.engine.proof.traffic import tried, tried_first
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.engine.visit.moves import Moves, is_booting
from weft.engine.visit.news import news_of
from weft.engine.visit.successors import PlaceAwaitedError, waiting_successors
from weft.engine.visit.verifier import Verdict, just_seen, verify
from weft.engine.visit.waits import Wait
from weft.engine.visit.walker import Walker, attempt
from weft.model.errors import TemporaryError, UnknownError
from weft.model.kindrow import Home
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause, is_true
from weft.model.problem import render

_ON_ITS_WAY = frozenset({RowState.SETTLED, RowState.PENDING})
"""States in which nothing more is requested for a resource, unless it breaks."""


class PodBuilder:
    """Steps of a visit to a pod; `weft.engine.visit.podvisitor` decides which are due.

    Args:
        pool: for requests that can go at the same time.
    """

    def __init__(self, settings: LoopSettings, pool: Executor) -> None:
        self._settings, self._pool = settings, pool

    def build(self, held: HeldPod) -> Wait | None:
        """Create what is wanted and missing; None once all of it is settled."""

        def booting() -> None:
            if not is_true(held.status.conditions, Aspect.WIRED):
                booting = News(Aspect.BOOTED, "false", Cause.UNDER_WAY)
                held.become(News(Aspect.WIRED, "true", Cause.DONE), booting)

        walker, later = self._walker(held, booting), _waiting(held)
        if self._wants_look(held, [r for r in walker.records.values() if r.wanted]):
            wait = self._before_building(held, arriving=True)
            if wait is not None:
                return wait
            walker, later = self._walker(held, booting), frozenset[str]()
        wait = self._walk(held, walker, later)
        if wait is None and has_followers(walker.records.values()):
            # Its servers are there now: decide the members before a verdict could call them wrong.
            self.watch_nodes(held, arriving=True)
            wait = self.renew_segment(held)
        return wait

    def repair(self, held: HeldPod) -> Wait | None:
        """Repair everything except servers and data: servers that a tenant deleted, or that broke, are recreated only
        when an operator asks, and data never."""
        held.note(left_alone([r for r in held.resources() if r.wanted]))
        unsettled = [r for r in held.resources() if r.wanted and r.state is not RowState.SETTLED]
        records = [r for r in unsettled if r.generation <= held.pod.ready_generation]
        new = len(records) < len(unsettled) and self._wants_look(held, unsettled)
        if new or (held.pod.repair and has_followers(held.resources())):
            wait = self._before_building(held, arriving=held.pod.repair)
            if wait is not None:
                return wait
        away = frozenset[str]() if held.pod.repair else held.nodes.withheld()
        stuck = [
            r
            for r in records
            if _is_never_replaced(r)
            or (not held.pod.repair and (not _repaired_unasked(r) or r.resource.node in away))
        ]
        held.note(
            [Change(r.key, RowState.SETTLED, reason=r.reason, attempts=r.attempts) for r in stuck],
            [
                ("repair", pods.REPAIRING(name=r.resource.name, why=r.reason), r.key)
                for r in records
                if r not in stuck
            ],
        )
        return self._walk(held, self._walker(held))

    def _walk(self, held: HeldPod, walker: Walker, later: Collection[str] = ()) -> Wait | None:
        """As `Walker.build`, but nothing is requested for a node that takes over the place of one that isn't clean yet:
        two servers must never have the same addresses, nor one volume.

        Raises `PlaceAwaitedError` if only such nodes are left.
        """
        waiting = waiting_successors(held)
        wait = walker.build(later, waiting)
        if wait is None and waiting:
            by, node = min(waiting.items())
            asked, why = pods.REPLACE_NODE(node=node, by=by), pods.PLACE_AWAITED(node=node)
            raise PlaceAwaitedError(asked, "weft", why, delay=self._settings.first_poll)
        return wait

    def _walker(self, held: HeldPod, booting: Callable[[], None] = lambda: None) -> Walker:
        # A serving pod isn't delayed by a test: a server that is recreated there has adapters that were tested.
        serves = held.pod.ready_generation == held.pod.generation
        first = partial(tried_first, held, held.world) if held.world.probers and not serves else None
        return Walker(held, held.world, self._settings, self._pool, booting, first)

    def _before_building(self, held: HeldPod, arriving: bool) -> Wait | None:
        """Before anything is requested, check the nodes' occupants.

        A segment that follows its servers waits until all of them are created: adapters that must leave it leave it
        here, before any of their servers is removed or recreated.
        """
        cloud = held.pod.plan.cloud
        held.gate.note_epoch(held.world.clouds[cloud], cloud)
        watched = self.watch_nodes(held, arriving)
        if watched.foreign or watched.unknown:
            self.renew_segment(held)
            kind = TemporaryError if watched.foreign else UnknownError
            raise kind("check the nodes", f"cloud {held.pod.plan.cloud}", render(watched.problems))
        return self.until_left(held) if has_followers(held.resources()) else None

    def _wants_look(self, held: HeldPod, records: Iterable[ResourceRecord]) -> bool:
        """Whether to check the nodes. Each server that boots causes a visit, and a check asks about every node:
        resources that only wait for booting servers, or for a place that isn't free, don't need one."""
        if self.watch_is_due(held):
            return True
        waiting, awaiting = _waiting(held), waiting_successors(held)
        to_ask = (r for r in records if r.state not in _ON_ITS_WAY and r.key not in waiting)
        return any(r.resource.node not in awaiting for r in to_ask)

    def watch_is_due(self, held: HeldPod) -> bool:
        """Whether the nodes were checked so long ago that this visit checks them, whatever else it has to do."""
        last = held.pod.watched_at
        return last is None or (held.at - last).total_seconds() >= self._settings.watch_every

    def watch_nodes(self, held: HeldPod, arriving: bool, max_age: float = 0.0) -> WatchedNodes:
        """Check the nodes' occupants, and keep adapters of nodes without the right one out of the segment."""
        with held.lane.outside():
            return watch_nodes(held, held.world, held.site, arriving, max_age)

    def verdict(self, held: HeldPod, max_age: float = 0.0, waited_for: bool = True) -> Verdict:
        """Check the nodes' occupants, which decide what the segment must be; then verify.

        Args:
            waited_for: whether anything waits for the result; otherwise it may take longer, and uses fewer threads.
        """
        held.about_to_ask()  # a reading may take long
        watched = self.watch_nodes(held, held.pod.repair, max_age)
        records = held.resources()
        pool = self._pool if waited_for else None
        verdict = verify(held.pod, records, held.world, pool, max_age, held.lane, known=just_seen(held))
        held.note(news_of(records, verdict.changes))
        problems, notes = (*watched.problems, *verdict.problems), (*watched.notes, *verdict.notes)
        verdict = replace(verdict, problems=problems, notes=notes)
        return self._tried(held, verdict) if verdict.fine else verdict

    def _tried(self, held: HeldPod, verdict: Verdict) -> Verdict:
        """The verdict, with a test of frames if the pod isn't READY yet, or is being changed."""
        changing = held.pod.ready_generation < held.pod.generation
        if not held.world.probers or (is_true(held.status.conditions, Aspect.READY) and not changing):
            return verdict
        with held.lane.aside():
            found = tried(held.resources(), held.world, held.site)
        looked_at = {**verdict.looked_at, **found.looked_at}
        return replace(
            verdict, problems=found.problems, notes=(*verdict.notes, *found.notes), looked_at=looked_at
        )

    def renew_segment(self, held: HeldPod) -> Wait | None:
        """Take adapters that must not be in the segment out of it, whatever else fails."""
        moves = Moves(held, held.world, self._settings)
        made = [r for r in moves.records.values() if r.kind.row.home is Home.FABRIC and r.outside_id]
        if any(r.state is not RowState.SETTLED for r in made):
            return attempt(held, moves.advance(made))
        return None

    def until_left(self, held: HeldPod) -> Wait | None:
        """None once every port that must be out of the segment is out; a missing member delays nothing."""
        error: TemporaryError | None = None
        try:
            wait = self.renew_segment(held)
        except TemporaryError as caught:
            error, wait = caught, Wait(caught.message, caught.delay)
        if wait is None or not has_outsiders(held):
            return None
        if error is not None:
            raise error
        return wait


def _waiting(held: HeldPod) -> frozenset[str]:
    """Keys of resources that aren't requested before the servers that boot have booted."""
    records = held.resources()
    booting = {r.key for r in records if is_booting(r)}
    waiting = (r for r in records if r.state not in _ON_ITS_WAY and not booting.isdisjoint(r.resource.needs))
    return frozenset(r.key for r in waiting)


def _is_never_replaced(record: ResourceRecord) -> bool:
    """A machine that broke with its server, as by a failed rescue, recovers only when the server is deleted."""
    return record.kind.row.lent and record.state is RowState.BROKEN


def _repaired_unasked(record: ResourceRecord) -> bool:
    """Whether it is repaired without being asked; changing what exists in place loses nothing."""
    there = record.state is RowState.PENDING and bool(record.differences)
    return record.kind.row.repaired_unasked or (there and bool(record.kind.row.in_place))
