"""One visit to a pod: build it, observe and repair it, change it, release it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from weft.engine.hold.fence import LATE, Event
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.status import News
from weft.engine.proof.membership import has_followers
from weft.engine.proof.readback import ReadBack
from weft.engine.proof.seen import left_alone
from weft.engine.queue.renumber import renumber
from weft.engine.rows.ownerrecord import TakenNumber
from weft.engine.rows.records import ResourceRecord
from weft.engine.visit.doubt import DoubtError, doubt
from weft.engine.visit.leaving import Remaining, overdue, pause, remove_unwanted
from weft.engine.visit.news import news_of, not_ready, seen_again
from weft.engine.visit.podbuilder import PodBuilder
from weft.engine.visit.podending import PodEnding
from weft.engine.visit.releasing import Releasing, wait_for_late
from weft.engine.visit.successors import PlaceAwaitedError, give_own_numbers
from weft.engine.visit.tools import NextVisit, Tools
from weft.engine.visit.verifier import Verdict, reading_age, verify
from weft.engine.visit.waits import Wait
from weft.engine.visit.walker import Walker
from weft.model.errors import PermanentError, TakenError, TemporaryError, WeftError
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause, Phase, PodState, find, is_true
from weft.model.specs import NetworkSpec, SegmentSpec
from weft.ports.resources import HandoverTest


class PodVisitor:
    """`weft.engine.visit.visitor.Visits` of pods: handles a pod in each of its states."""

    def __init__(self, tools: Tools) -> None:
        self._settings, self._pool = tools.settings, tools.pool
        self._builder, self._ending = PodBuilder(tools.settings, tools.pool), PodEnding(tools)
        self._releasing = Releasing(tools, self._ending)

    def doubt(self, held: HeldPod) -> TemporaryError | None:
        return doubt(held)

    def only_observe(self, held: HeldPod, closed: TemporaryError) -> None:
        if isinstance(closed, DoubtError) and held.wanted == "absent":
            self._releasing.begin(held)  # so that an operator may abandon it

    def absent(self, held: HeldPod) -> NextVisit:
        if held.owner.abandoned is not None and self._is_doubted(held):
            wait_for_late(held)  # what it had may be another pod's: nothing is removed
            self._releasing.begin(held)
            read = self._ending.read_back(held)
            if read.over or self._releasing.abandons_now(held):
                return self._releasing.abandon(held, read)
            raise TemporaryError("read back what it had", held.pod.site or "weft", read.reason())
        return self._releasing.release(held)

    def permanent(self, held: HeldPod, error: PermanentError) -> None:
        """Fail a pod that is being built; a pod that serves, or is released, is worked on as before."""
        if held.status.phase is Phase.BUILDING and held.status.state is not PodState.FAILED:
            held.become(News(Aspect.FAILED, "true", Cause.PERSON_NEEDED, error.message))
            held.alarm(pods.STATE(state="FAILED", why=error.message))
        else:
            held.explain(error.message, Cause.PERSON_NEEDED)

    def _is_doubted(self, held: HeldPod) -> bool:
        """Whether there is a doubt, or the cloud can't tell: a cloud that is gone must not block the end."""
        try:
            return doubt(held) is not None
        except WeftError:
            if not self._releasing.abandons_now(held):
                raise
            return True

    # -- present ------------------------------------------------------------------------------------------------

    def present(self, held: HeldPod) -> NextVisit:
        if is_true(held.status.conditions, Aspect.FAILED):
            return self._stay(held)
        if held.pod.taken is not None and held.status.phase is not Phase.SERVING:
            return self._renumber(held, held.pod.taken)
        left = self._remove_unwanted(held)
        if left is not None and (late := overdue(held, self._settings)):
            give_own_numbers(held, late)
        look = self._onward(held, left)
        # A node in quarantine is looked at as often as the pod: it may stay there for weeks.
        return replace(look, delay=min(look.delay, left.wait.delay)) if left and not left.kept else look

    def _onward(self, held: HeldPod, left: Remaining | None) -> NextVisit:
        """Go on with a pod that is wanted. Args: left: what still waits to be removed."""
        if held.status.phase is Phase.SERVING:
            changing = held.pod.ready_generation < held.pod.generation
            return self._change(held, left) if changing else self._observe(held, left)
        if find(held.status.conditions, Aspect.WIRED) is None:
            held.become(News(Aspect.WIRED, "false", Cause.UNDER_WAY))
        if not is_true(held.status.conditions, Aspect.BOOTED):
            try:
                wait = self._builder.build(held)
            except PlaceAwaitedError as error:
                held.explain(error.message)
                return NextVisit(self._settings.last_delay)
            except TakenError as error:
                if is_true(held.status.conditions, Aspect.WIRED):
                    raise
                held.numbers.taken(TakenNumber(error.asked, error.of, error.answer, error.key))
                return NextVisit(0.0, held.pod.failures + 1)
            if wait is not None:
                return NextVisit(wait.delay)
            made = [News(a, "true", Cause.DONE) for a in (Aspect.WIRED, Aspect.BOOTED)]
            held.become(*made, News(Aspect.READY, "unknown", Cause.UNDER_WAY))
        return self._verify(held, left)

    # -- a change -----------------------------------------------------------------------------------------------

    def _remove_unwanted(self, held: HeldPod) -> Remaining | None:
        """Remove what the newest generation doesn't want; None once all of it is gone."""
        try:
            wait = self._leave_first(held)
        except WeftError as error:
            wait = Wait(error.message, pause(held, self._settings))
        if wait is not None:
            return Remaining(wait)
        walker = Walker(held, held.world, self._settings, self._pool)

        def read(nodes: frozenset[str]) -> ReadBack:
            found = self._ending.reader(held, nodes).read_nodes(nodes)
            held.quarantine.add(found.elsewhere)
            return found

        return remove_unwanted(held, walker, read, self._settings)

    def _leave_first(self, held: HeldPod) -> Wait | None:
        """Take adapters of nodes that are cleaned out of the segment first: the cleaning system isn't the tenant's."""
        going = (r for r in held.resources() if r.kind.row.cleaned and not r.wanted)
        if all(r.is_nowhere for r in going) or not has_followers(held.resources()):
            return None
        self._builder.watch_nodes(held, arriving=held.pod.repair)
        wait = self._builder.until_left(held)
        if wait is None and (late := held.notes.late()) > 0:
            return Wait(LATE, late)  # a late request may put one of them back
        return wait

    def _change(self, held: HeldPod, left: Remaining | None) -> NextVisit:
        """Create what the newest generation added; meanwhile the pod keeps its state and continues serving."""
        n = held.pod.generation
        try:
            wait = self._builder.repair(held)
        except PlaceAwaitedError as error:
            # The removal decides when the next visit is: none of them is a failure, nor looks at the whole pod again.
            ready = is_true(held.status.conditions, Aspect.READY)
            if not ready or self._builder.watch_is_due(held):
                self._stuck(held, error)
            else:
                self._changing(held, pods.CHANGING(n=n, why=error.message))
            return NextVisit(self._settings.last_delay)
        except WeftError as error:
            return self._stuck(held, error)
        if wait is not None:
            self._changing(held, pods.CHANGING(n=n))
            return NextVisit(wait.delay)
        verdict = self._builder.verdict(held)
        if not verdict.fine:
            self._changing(held, pods.CHANGING(n=n))  # whatever it waited for before is there
            if self._newest(held) < self._settings.verify_patience:
                return NextVisit(self._settings.poll(self._newest(held)))
        if left is not None and not left.kept and verdict.fine:
            self._changing(
                held, pods.CHANGING(n=n, why=left.wait.reason), News(Aspect.READY, "true", Cause.DONE)
            )
            return NextVisit(left.wait.delay)
        return self._judge(held, verdict, left)

    def _changing(self, held: HeldPod, why: str, *news: News) -> None:
        """Note that the pod is being changed. A repair under way becomes part of the change, and isn't resumed."""
        changing = News(Aspect.CHANGING, "true", Cause.UNDER_WAY, why)
        held.become(changing, *news, without=(Aspect.REPAIRING,))

    def _newest(self, held: HeldPod) -> float:
        """Seconds since the last resource of the change came to rest; lost data never does, and isn't counted."""
        records, last = held.resources(), held.pod.ready_generation
        alone = {c.key for c in left_alone(records)}
        new = [r for r in records if r.wanted and r.generation > last and r.key not in alone]
        return min(((held.at - (r.since or held.at)).total_seconds() for r in new), default=1e9)

    def _stuck(self, held: HeldPod, error: WeftError) -> NextVisit:
        """Report that the change makes no progress; what existed before it is still observed, and decides READY."""
        old = [r for r in held.resources() if r.wanted and r.generation <= held.pod.ready_generation]
        watched = self._builder.watch_nodes(held, arriving=held.pod.repair)
        records, keys, lane = held.resources(), {r.key for r in old}, held.lane
        verdict = verify(held.pod, records, held.world, self._pool, lane=lane, only=keys)
        held.note(news_of(old, verdict.changes))
        on = {r.resource.node for r in old}
        known = (p for p in watched.problems if not p.nodes or on.intersection(p.nodes))
        verdict = replace(verdict, problems=(*known, *verdict.problems))
        failures, n = held.pod.failures + 1, held.pod.generation
        about, why = pods.CHANGING(n=n), pods.CHANGING(n=n, why=error.message)
        temporary = error if isinstance(error, TemporaryError) else None
        if not verdict.fine:
            self._changing(held, why, not_ready(verdict))
        elif temporary is None:
            self._changing(held, why, News(Aspect.READY, "false", Cause.PERSON_NEEDED, why))
        else:
            self._changing(held, why, News(Aspect.READY, "true", Cause.DONE, about))
        if temporary is None or temporary.alarming:
            held.alarm(pods.STATE(state=held.status.state, why=held.status.reason))
        return NextVisit(max(temporary.delay if temporary else 0.0, self._settings.delay(failures)), failures)

    def _renumber(self, held: HeldPod, taken: TakenNumber) -> NextVisit:
        """A number is in use by someone else: remove everything that was created, then recreate it with another
        number."""
        walker = Walker(held, held.world, self._settings, self._pool)
        wait = walker.tear_down(wanted="present")
        if wait is not None:
            return NextVisit(wait.delay)
        self._give_up_number(held, taken)
        renumber(held, taken, held.world, held.site)
        return NextVisit(0.0, held.pod.failures + 1)

    def _give_up_number(self, held: HeldPod, taken: TakenNumber) -> None:
        """Read segments that lose their number back as at a release: a manager that was away may still have the
        number."""
        records = held.resources()
        network = next(r.resource.spec for r in records if r.key == taken.key)
        number = network.segment if isinstance(network, NetworkSpec) else None
        specs = {r.key: r.resource.spec for r in records if r.started_at is not None}
        keys = {key for key, s in specs.items() if isinstance(s, SegmentSpec) and s.number == number}
        if not keys:
            return
        wait_for_late(held)
        with held.lane.aside():
            read = self._ending.reader(held, ()).read_segments(keys)
        if not read.over:
            held.note(seen_again(read))
            raise TemporaryError("give up a number", held.pod.site or "weft", read.reason())
        held.numbers.keep_stale(read.stale)

    def _verify(self, held: HeldPod, left: Remaining | None) -> NextVisit:
        """The first verdict; a port may come up a moment after its server, so problems aren't reported at once."""
        verdict = self._builder.verdict(held)
        age = (held.at - held.status.since).total_seconds()
        if verdict.fine or age >= self._settings.verify_patience:
            return self._judge(held, verdict, left)
        return NextVisit(self._settings.poll(age))

    def _stay(self, held: HeldPod) -> NextVisit:
        """Watch the servers that a FAILED pod may have, like any pod's; change only memberships that must not be."""
        delay = self._settings.observe_every
        watched = self._builder.watch_nodes(held, arriving=True)
        self._builder.renew_segment(held)
        made = [r for r in held.resources() if r.outside_id]
        if not made:
            return NextVisit(delay)
        verdict = verify(held.pod, made, held.world, self._pool, lane=held.lane)
        held.note(news_of(made, verdict.changes))
        self._report(
            held,
            replace(verdict, problems=(*watched.problems, *verdict.problems)),
            "not everything was created",
        )
        return NextVisit(delay)

    def _report(
        self, held: HeldPod, verdict: Verdict, otherwise: str = "", phase: Phase | None = None
    ) -> None:
        """Report what keeps the pod from being READY."""
        held.become(not_ready(verdict, otherwise), phase=phase)

    def _judge(self, held: HeldPod, verdict: Verdict, left: Remaining | None) -> NextVisit:
        """READY if everything is as wanted; otherwise the pod is due again soon."""
        if not verdict.fine:
            failures = held.pod.failures + 1
            self._report(held, verdict, phase=Phase.SERVING)
            if held.pod.repair and {p.key for p in verdict.problems} <= _of_data(held.resources()):
                held.repaired()
            return NextVisit(self._settings.delay(failures), failures)
        events: list[Event] = []
        if not is_true(held.status.conditions, Aspect.READY):
            self._prove(held)
            seen = [f"{n} {plane}" for plane, n in sorted(verdict.looked_at.items())]
            notes = [p.message() for p in verdict.notes]
            events = [("verified", pods.VERIFIED(read=seen, notes=notes), None)]
        ready, done = News(Aspect.READY, "true", Cause.DONE, verdict.noted()), left is None or left.kept
        over = (Aspect.PROVED, Aspect.REPAIRING, *((Aspect.CHANGING,) if done else ()))
        held.become(ready, phase=Phase.SERVING, without=over, events=events)
        if done:
            held.change_done()
        if held.pod.repair:
            held.repaired()
        return NextVisit(self._settings.observe_every)

    def _prove(self, held: HeldPod) -> None:
        """Try the pod out as its tenant would, where that is possible: it isn't READY before that succeeds."""
        resources = [r.resource for r in held.resources()]
        world, scope = held.world, replace(held.pod.scope, fence=held.fence)
        for where in sorted({r.where for r in resources}):
            driver = world.driver(where)
            if isinstance(driver, HandoverTest):
                if not is_true(held.status.conditions, Aspect.PROVED):
                    held.notes.flush()
                    said = driver.prove(scope, resources)
                    held.become(
                        News(Aspect.PROVED, "true", Cause.DONE, said), events=[("verified", said, None)]
                    )
                held.notes.flush()
                driver.clear_proof(scope, resources)

    def _observe(self, held: HeldPod, left: Remaining | None) -> NextVisit:
        """Observe a pod that was built; repair what weft may repair unasked."""
        if is_true(held.status.conditions, Aspect.REPAIRING):
            wait = self._go_on_repairing(held)
            if wait is not None:
                return NextVisit(wait.delay)
        verdict = self._builder.verdict(
            held, reading_age(held, self._settings), waited_for=held.status.state is not PodState.READY
        )
        if verdict.fine or all(p.unknown for p in verdict.problems):
            return self._judge(held, verdict, left)
        self._report(held, verdict)
        wait = self._builder.repair(held)
        if wait is None:
            return self._judge(held, self._builder.verdict(held), left)
        held.become(News(Aspect.REPAIRING, "true", Cause.UNDER_WAY))
        return NextVisit(wait.delay)

    def _go_on_repairing(self, held: HeldPod) -> Wait | None:
        """Continue without observing everything at each visit; once it ends, the next visit observes everything."""
        wait: Wait | None = None
        try:
            wait = self._builder.build(held)
        finally:
            if wait is None:
                held.become(News(Aspect.REPAIRING, "false", Cause.DONE))
        return wait


def _of_data(records: Collection[ResourceRecord]) -> set[str]:
    """Keys of data, and of resources that serve only data: no repair restores these."""
    data = {r.key for r in records if r.kind.row.data}
    return data | {r.key for r in records if r.kind.row.detachable and data.intersection(r.resource.needs)}
