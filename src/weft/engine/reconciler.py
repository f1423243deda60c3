"""One visit to one pod: compare desired and observed state, do what can be done now, say when to check again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from weft.engine.held import Event, Held, News
from weft.engine.leaving import Left, let_go
from weft.engine.membership import Watched, watch_nodes
from weft.engine.moves import Moves
from weft.engine.records import Change, ResourceRecord, RowState, Taken, UnreadableError
from weft.engine.release import ReadBack, Reader, make_receipt, unfree
from weft.engine.renumber import renumber
from weft.engine.settings import LoopSettings
from weft.engine.verifier import Verdict, verify
from weft.engine.waits import Wait
from weft.engine.walker import Walker
from weft.engine.world import World
from weft.model.errors import NotYetError, PermanentError, TakenError, TemporaryError, UnknownError, WeftError
from weft.model.fabric import Membership
from weft.model.kinds import Home
from weft.model.pod import Aspect, Cause, Phase, PodState, find, is_true
from weft.model.problem import render
from weft.model.receipt import Abandoned, Receipt, SignedReceipt
from weft.model.site import Site
from weft.ports.clock import Clock
from weft.ports.resources import Acceptance

log = logging.getLogger(__name__)

_ON_ITS_WAY = frozenset({RowState.SETTLED, RowState.PENDING})
"""Nothing more is asked for of a resource in these, unless it breaks."""


@dataclass(frozen=True, slots=True)
class Look:
    """When to look again.

    Attributes:
        delay: seconds.
        failures: how many visits in a row did not get on; decides the next back-off.
    """

    delay: float
    failures: int = 0


class Reconciler:
    """Handlers of a pod's states. Stateless between visits, and never blocks within one.

    One a process: what can go at the same time, of all its visits, shares a few threads.
    """

    def __init__(
        self,
        world: Callable[[], World],
        site: Callable[[], Site],
        sign: Callable[[Receipt], SignedReceipt],
        clock: Clock,
        settings: LoopSettings,
    ) -> None:
        self._world, self._site, self._sign, self._clock, self._settings = world, site, sign, clock, settings
        self._pool = ThreadPoolExecutor(settings.calls_at_once, thread_name_prefix="call")

    def visit(self, held: Held) -> Look:
        """Do what can be done now. Every error becomes the pod's reason and a time to retry: the loop goes on."""
        try:
            held.records()  # and what time it is
            held.world, held.site = self._world(), self._site()
            look = self._release(held) if held.wanted == "absent" else self._present(held)
        except UnreadableError:
            raise  # nobody may judge a pod by rows that can't be read: the worker sets it apart
        except NotYetError as error:
            look = Look(error.delay)
        except TemporaryError as error:
            look = self._again(held, error)
        except PermanentError as error:
            look = self._permanent(held, error)
        except WeftError as error:
            look = self._permanent(
                held, PermanentError("serve the order", "weft", str(error), "change the order")
            )
        self._watch(held)
        return look

    # -- present ------------------------------------------------------------------------------------------------

    def _present(self, held: Held) -> Look:
        if is_true(held.conditions, Aspect.FAILED):
            return self._stay(held)
        if held.pod.taken is not None and held.phase is not Phase.SERVING:
            return self._renumber(held, held.pod.taken)
        left = self._let_go(held)
        look = self._onward(held, left)
        return replace(look, delay=min(look.delay, left.wait.delay)) if left else look

    def _onward(self, held: Held, left: Left | None) -> Look:
        """Args: left: of what the newest generation doesn't want."""
        if held.phase is Phase.SERVING:
            changing = held.pod.ready_generation < held.pod.generation
            return self._change(held, left) if changing else self._observe(held, left)
        if find(held.conditions, Aspect.WIRED) is None:
            held.set(News(Aspect.WIRED, "false", Cause.UNDER_WAY))
        if not is_true(held.conditions, Aspect.BOOTED):
            try:
                wait = self._build(held)
            except TakenError as error:
                if is_true(held.conditions, Aspect.WIRED):
                    raise
                held.number_taken(Taken(error.asked, error.of, error.answer, error.key))
                return Look(0.0, held.pod.failures + 1)
            if wait is not None:
                return Look(wait.delay)
            made = [News(a, "true", Cause.DONE) for a in (Aspect.WIRED, Aspect.BOOTED)]
            held.set(*made, News(Aspect.READY, "unknown", Cause.UNDER_WAY))
        return self._verify(held, left)

    # -- a change -----------------------------------------------------------------------------------------------

    def _let_go(self, held: Held) -> Left | None:
        """Take away what the newest generation doesn't want; None: nothing of it is left."""
        walker = Walker(held, held.world, self._settings, self._pool)

        def read(nodes: frozenset[str]) -> ReadBack:
            return self._reader(held, nodes).read_nodes(nodes)

        return let_go(held, walker, read, self._settings)

    def _change(self, held: Held, left: Left | None) -> Look:
        """Make what the newest generation brought; the pod stays what it is, and goes on, meanwhile."""
        about = f"changing to generation {held.pod.generation}"
        try:
            wait = self._repair(held)
        except WeftError as error:
            return self._stuck(held, about, error)
        if wait is not None:
            self._changing(held, about)
            return Look(wait.delay)
        verdict = self._verdict(held)
        if not verdict.fine and self._newest(held) < self._settings.verify_patience:
            self._changing(held, about)
            return Look(self._settings.poll(self._newest(held)))
        if left is not None and not left.kept and verdict.fine:
            self._changing(held, f"{about}: {left.wait.reason}", News(Aspect.READY, "true", Cause.DONE))
            return Look(left.wait.delay)
        return self._judge(held, verdict, left)

    def _changing(self, held: Held, why: str, *news: News) -> None:
        """A repair that was under way is part of the change: it isn't gone on with by itself after that."""
        changing = News(Aspect.CHANGING, "true", Cause.UNDER_WAY, why)
        held.set(changing, *news, without=(Aspect.REPAIRING,))

    def _newest(self, held: Held) -> float:
        """Seconds since the last of what the change brought was seen at rest."""
        new = [r for r in held.resources() if r.wanted and r.generation > held.pod.ready_generation]
        return min(((held.at - (r.since or held.at)).total_seconds() for r in new), default=1e9)

    def _stuck(self, held: Held, about: str, error: WeftError) -> Look:
        """The change doesn't get on; what was there before goes on being looked at, and says how it is."""
        old = [r for r in held.resources() if r.wanted and r.generation <= held.pod.ready_generation]
        watched = self._watch_nodes(held, arriving=held.pod.repair)
        verdict = verify(held.pod, old, held.world, self._pool)
        held.change(_news(old, verdict.changes))
        on = {r.resource.node for r in old}
        known = (p for p in watched.problems if not p.nodes or on.intersection(p.nodes))
        verdict = replace(verdict, problems=(*known, *verdict.problems))
        failures, why = held.pod.failures + 1, f"{about}: {error}"
        temporary = error if isinstance(error, TemporaryError) else None
        if not verdict.fine:
            self._changing(held, why, _not_ready(verdict))
        elif temporary is None:
            self._changing(held, why, News(Aspect.READY, "false", Cause.PERSON_NEEDED))
        else:
            self._changing(held, why, News(Aspect.READY, "true", Cause.DONE))
        if temporary is None or temporary.alarming:
            held.alarm(f"{held.state}: {held.reason}")
        return Look(max(temporary.delay if temporary else 0.0, self._settings.delay(failures)), failures)

    def _build(self, held: Held) -> Wait | None:
        def booting() -> None:
            if not is_true(held.conditions, Aspect.WIRED):
                booting = News(Aspect.BOOTED, "false", Cause.UNDER_WAY)
                held.set(News(Aspect.WIRED, "true", Cause.DONE), booting)

        walker = Walker(held, held.world, self._settings, self._pool, booting)
        if self._wants_look(held, [r for r in walker.records.values() if r.wanted]):
            self._before_building(held, arriving=True)
            walker = Walker(held, held.world, self._settings, self._pool, booting)
        return walker.build()

    def _wants_look(self, held: Held, records: Iterable[ResourceRecord]) -> bool:
        return self._watch_is_due(held) or any(r.state not in _ON_ITS_WAY for r in records)

    def _watch_is_due(self, held: Held) -> bool:
        last = held.pod.watched_at
        return last is None or (held.at - last).total_seconds() >= self._settings.watch_every

    def _before_building(self, held: Held, arriving: bool) -> None:
        """Before anything is asked for, look who is on the nodes."""
        held.note_epoch(held.world.clouds[held.pod.plan.cloud])
        watched = self._watch_nodes(held, arriving)
        if watched.foreign or watched.unknown:
            self._renew_segment(held)
            kind = TemporaryError if watched.foreign else UnknownError
            raise kind("check the nodes", f"cloud {held.pod.plan.cloud}", render(watched.problems))

    def _renumber(self, held: Held, taken: Taken) -> Look:
        """A number is in use by somebody else: all that was made is taken away, then made again with another."""
        walker = Walker(held, held.world, self._settings, self._pool)
        wait = walker.tear_down(wanted="present")
        if wait is not None:
            return Look(wait.delay)
        renumber(held, taken, held.world, held.site)
        return Look(0.0, held.pod.failures + 1)

    def _verify(self, held: Held, left: Left | None) -> Look:
        """The first verdict; a port may come up a moment after its server: for a while it isn't called wrong."""
        verdict = self._verdict(held)
        age = (held.at - held.since).total_seconds()
        if verdict.fine or age >= self._settings.verify_patience:
            return self._judge(held, verdict, left)
        return Look(self._settings.poll(age))

    def _verdict(self, held: Held, max_age: float = 0.0) -> Verdict:
        """Who is on the nodes comes first: it decides what the segment must be."""
        watched = self._watch_nodes(held, arriving=held.pod.repair)
        records = held.resources()
        verdict = verify(held.pod, records, held.world, self._pool, max_age)
        held.change(_news(records, verdict.changes))
        return replace(verdict, problems=(*watched.problems, *verdict.problems))

    def _watch_nodes(self, held: Held, arriving: bool) -> Watched:
        return watch_nodes(held, held.world, held.site, arriving)

    def _stay(self, held: Held) -> Look:
        """A pod that FAILED may have servers: they are watched as any pod's, and only what must not be is changed."""
        delay = self._settings.observe_every
        watched = self._watch_nodes(held, arriving=True)
        self._renew_segment(held)
        made = [r for r in held.resources() if r.outside_id]
        if not made:
            return Look(delay)
        verdict = verify(held.pod, made, held.world, self._pool)
        held.change(_news(made, verdict.changes))
        self._tell(
            held,
            replace(verdict, problems=(*watched.problems, *verdict.problems)),
            "not everything was created",
        )
        return Look(delay)

    def _tell(self, held: Held, verdict: Verdict, otherwise: str = "", phase: Phase | None = None) -> None:
        """What keeps the pod from being READY."""
        held.set(_not_ready(verdict, otherwise), phase=phase)

    def _renew_segment(self, held: Held) -> None:
        """Whatever else is in the way: adapters that must not be in the segment are taken out of it."""
        moves = Moves(held, held.world, self._settings)
        made = [r for r in moves.records.values() if r.kind.row.home is Home.FABRIC and r.outside_id]
        if any(r.state is not RowState.SETTLED for r in made):
            moves.advance(made)

    def _judge(self, held: Held, verdict: Verdict, left: Left | None) -> Look:
        """READY if everything is as wanted; else it is looked at again soon."""
        if not verdict.fine:
            failures = held.pod.failures + 1
            self._tell(held, verdict, phase=Phase.SERVING)
            return Look(self._settings.delay(failures), failures)
        events: list[Event] = []
        if not is_true(held.conditions, Aspect.READY):
            self._prove(held)
            seen = ", ".join(f"{n} {plane}" for plane, n in sorted(verdict.looked_at.items()))
            events = [("verified", f"as desired: {seen}", None)]
        ready, done = News(Aspect.READY, "true", Cause.DONE), left is None or left.kept
        over = (Aspect.PROVED, Aspect.REPAIRING, *((Aspect.CHANGING,) if done else ()))
        held.set(ready, phase=Phase.SERVING, without=over, events=events)
        if done:
            held.change_done()
        if held.pod.repair:
            held.repaired()
        return Look(self._settings.observe_every)

    def _prove(self, held: Held) -> None:
        """Where a pod can be tried out as its tenant would, it isn't ready before that was done."""
        resources = [r.resource for r in held.resources()]
        world = held.world
        for where in sorted({r.where for r in resources}):
            driver = world.driver(where)
            if isinstance(driver, Acceptance):
                if not is_true(held.conditions, Aspect.PROVED):
                    said = driver.prove(held.pod.scope, resources)
                    held.set(News(Aspect.PROVED, "true", Cause.DONE, said))
                    held.say("verified", said)
                driver.clear_proof(held.pod.scope, resources)

    def _fabric_age(self, held: Held) -> float:
        """How many seconds old the reading may be that the pod is judged by: it is from after its last change."""
        if held.state is not PodState.READY or held.pod.repair:
            return 0.0
        since = max(held.since, held.pod.ready_at or held.since)
        return min(self._settings.fabric_age, max(0.0, (held.at - since).total_seconds()))

    def _observe(self, held: Held, left: Left | None) -> Look:
        """Look at a pod that was made; repair what weft may repair by itself."""
        if is_true(held.conditions, Aspect.REPAIRING):
            wait = self._go_on_repairing(held)
            if wait is not None:
                return Look(wait.delay)
        verdict = self._verdict(held, self._fabric_age(held))
        if verdict.fine or all(p.unknown for p in verdict.problems):
            return self._judge(held, verdict, left)
        self._tell(held, verdict)
        wait = self._repair(held)
        if wait is None:
            return self._judge(held, self._verdict(held), left)
        held.set(News(Aspect.REPAIRING, "true", Cause.UNDER_WAY))
        return Look(wait.delay)

    def _go_on_repairing(self, held: Held) -> Wait | None:
        """Without looking at everything again each time. Whatever ends it, the next look is at everything."""
        wait: Wait | None = None
        try:
            wait = self._build(held)
        finally:
            if wait is None:
                held.set(News(Aspect.REPAIRING, "false", Cause.DONE))
        return wait

    def _repair(self, held: Held) -> Wait | None:
        """Everything but servers: one that a tenant deleted or that broke is replaced only when an operator asks."""
        unsettled = [r for r in held.resources() if r.wanted and r.state is not RowState.SETTLED]
        records = [r for r in unsettled if r.generation <= held.pod.ready_generation]
        if len(records) < len(unsettled) and self._wants_look(held, unsettled):
            self._before_building(held, arriving=held.pod.repair)
        away = frozenset[str]() if held.pod.repair else held.withheld()
        stuck = (
            []
            if held.pod.repair
            else [r for r in records if not r.kind.row.repaired_unasked or r.resource.node in away]
        )
        held.change(
            [Change(r.key, RowState.SETTLED, reason=r.reason, attempts=r.attempts) for r in stuck],
            [
                ("repair", f"repairing {r.resource.name}: {r.reason}", r.key)
                for r in records
                if r not in stuck
            ],
        )
        return Walker(held, held.world, self._settings, self._pool).build()

    # -- absent -------------------------------------------------------------------------------------------------

    def _release(self, held: Held) -> Look:
        if held.phase is not Phase.RELEASING:
            over = (Aspect.READY, Aspect.PROVED, Aspect.REPAIRING, Aspect.CHANGING, Aspect.FAILED)
            clean = News(Aspect.CLEAN, "false", Cause.UNDER_WAY)
            held.set(clean, phase=Phase.RELEASING, without=over)
        at_once = frozenset({Home.FABRIC}) if self._overdue(held) else frozenset[Home]()
        try:
            wait = Walker(held, held.world, self._settings, self._pool).tear_down(at_once)
        except WeftError:
            if held.pod.abandoned is not None:
                self._wait_for_late(held)
                return self._abandon(held, self._read_back(held))
            if self._overdue(held) and not held.late():
                self._keep_back(held, self._read_back(held))
            raise
        if wait is not None:
            return Look(wait.delay)
        self._wait_for_late(held)
        read = self._read_back(held)
        if not read.clean:
            if held.pod.abandoned is not None:
                return self._abandon(held, read)
            # A careless hand, or a late answer, may have brought back what was seen absent once.
            held.change(
                Change(key, RowState.DELETING, reason="reappeared after its removal") for key in read.again
            )
            if self._overdue(held):
                self._keep_back(held, read)
            raise TemporaryError("read back what was removed", held.pod.plan.site, read.reason())
        held.keep_stale_numbers(read.stale)
        quarantined = sorted(held.nodes() & held.quarantined())
        held.released(self._sign(make_receipt(held.pod, read, quarantined, self._clock, held.given_back())))
        return Look(0.0)

    def _abandon(self, held: Held, read: ReadBack) -> Look:
        """End it as it is, as an operator asked: what wasn't seen clean is kept back, and the receipt says so."""
        asked, mine = held.pod.abandoned, held.nodes()
        assert asked is not None
        held.quarantine({n: f"abandoned: {why}" for n, why in read.unclean.items() if n in mine})
        kept = unfree(read, held.numbers())
        named = tuple(f"{space} {number}" for space, number in sorted(kept.items()))
        abandoned = Abandoned(by=asked.by, at=asked.at, reason=asked.reason, kept=named)
        quarantined = sorted(mine & held.quarantined())
        held.say("alarm", f"abandoned with remains: {read.reason() or 'nothing visible'}")
        made = make_receipt(held.pod, read, quarantined, self._clock, held.given_back(), abandoned)
        receipt = self._sign(made)
        held.keep_stale_numbers(read.stale)
        held.released(receipt, kept, f"abandoned by {asked.by}: {asked.reason}")
        return Look(0.0)

    def _read_back(self, held: Held) -> ReadBack:
        return self._reader(held, held.nodes()).read()

    def _reader(self, held: Held, holding: Collection[str]) -> Reader:
        former: dict[str, tuple[Membership, ...]] = {}
        for node, ports in held.leaving().items():
            for key, members in ports.items() if node in holding else ():
                former[key] = (*former.get(key, ()), *members)
        return Reader(held.pod, held.read_resources(), held.world, held.site, self._clock, holding, former)

    def _wait_for_late(self, held: Held) -> None:
        """What a worker asked for that lost the pod may come to be after all was taken away: read back after that."""
        left = held.late()
        if left > 0:
            raise TemporaryError(
                "read back what was removed",
                "weft",
                f"a worker lost the pod while a request may have been in flight, which may take effect until "
                f"{held.pod.late_until:%Y-%m-%dT%H:%M:%SZ}",
                "it is read back, and nodes and numbers are released, after that",
                delay=left,
            )

    def _overdue(self, held: Held) -> bool:
        return (held.at - held.since).total_seconds() >= self._settings.limits[PodState.RELEASING]

    def _keep_back(self, held: Held, read: ReadBack) -> None:
        """Quarantine what isn't seen clean, give the other nodes back: one bad node must not strand a hundred."""
        held.quarantine(read.unclean)
        held.give_back_nodes([n for n in sorted(held.nodes()) if n not in read.unclean])

    # -- errors -------------------------------------------------------------------------------------------------

    def _again(self, held: Held, error: TemporaryError) -> Look:
        failures = held.pod.failures + 1
        held.explain(str(error))
        if error.alarming:
            held.alarm(f"{held.state}: {error}")
        return Look(max(error.delay, self._settings.delay(failures)), failures)

    def _permanent(self, held: Held, error: PermanentError) -> Look:
        """What is being built can't go on; what serves, or goes, is worked on as before."""
        failures = held.pod.failures + 1
        if held.phase is Phase.BUILDING and held.state is not PodState.FAILED:
            held.set(News(Aspect.FAILED, "true", Cause.PERSON_NEEDED, str(error)))
            held.alarm(f"FAILED: {error}")
        else:
            held.explain(str(error), Cause.PERSON_NEEDED)
        return Look(self._settings.delay(failures), failures)

    def _watch(self, held: Held) -> None:
        """A state that outlasts its limit raises an alarm, once."""
        changed = held.pod.changed_at
        if changed is not None and held.phase is Phase.SERVING:
            most = self._settings.limits.get(PodState.BOOTING, self._settings.patience_servers)
            if (lasted := (held.at - changed).total_seconds()) > most:
                held.alarm(
                    f"a change for {lasted:.0f} s, more than {most:.0f} s: {held.reason or 'no reason known'}"
                )
        limit = self._settings.limits.get(held.state)
        if limit is not None and (lasted := (held.at - held.since).total_seconds()) > limit:
            message = f"{held.state} for {lasted:.0f} s, more than {limit:.0f} s: {held.reason or 'no reason known'}"
            held.alarm(message)
            log.warning("pod %s (%s): %s", held.pod.name, held.pod.id, message)


def _not_ready(verdict: Verdict, otherwise: str = "") -> News:
    unknown = bool(verdict.problems) and all(p.unknown for p in verdict.problems)
    cause = Cause.UNREADABLE if unknown else Cause.DIFFERENT
    return News(Aspect.READY, "unknown" if unknown else "false", cause, verdict.reason() or otherwise)


def _news(records: Iterable[ResourceRecord], changes: Iterable[Change]) -> list[Change]:
    """Only the rows that say something new."""
    old = {r.key: r for r in records}
    return [
        c
        for c in changes
        if (c.state, c.reason, c.differences) != (old[c.key].state, old[c.key].reason, old[c.key].differences)
        or dict(c.facts or {}) != dict(old[c.key].facts)
    ]
