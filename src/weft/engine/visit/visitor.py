"""What visits to owners of any kind share: errors become reasons, and a release ends with a proof."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Generic, TypeVar, cast
from uuid import uuid4

from weft.engine.base.gate import ClosedError
from weft.engine.base.unreadable import UnreadableError
from weft.engine.base.world import World
from weft.engine.hold.fence import LATE
from weft.engine.hold.held import Held
from weft.engine.hold.settings import LoopSettings
from weft.engine.hold.status import News
from weft.engine.proof.readback import ReadBack, unfree
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.engine.visit.verifier import Verdict, verify
from weft.engine.visit.walker import Walker
from weft.model.errors import NotYetError, PermanentError, TemporaryError, WeftError
from weft.model.kindrow import Home
from weft.model.messages import outside, pods, problems
from weft.model.pod import Aspect, Cause, Phase, PodState, find
from weft.model.receipt import Abandoned, Receipt, ReceiptItem, SignedReceipt
from weft.model.site import Site
from weft.model.spaces import SEGMENT
from weft.planning.owners.numbers import numbers_of
from weft.ports.clock import Clock

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Held)

TRIES = 3
"""Visits in a row that must fail before an abandoned release ends with what is left; two, if it takes long."""


_NO_REASON = "no reason known"


@dataclass(frozen=True, slots=True)
class NextVisit:
    """When the owner is due again.

    Attributes:
        delay: seconds.
        failures: how many visits in a row made no progress; decides the next back-off.
    """

    delay: float
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Tools:
    """What every visit works with; one set per process.

    Attributes:
        pool: a few threads, shared by all visits, for requests that can go at the same time.
    """

    sign: Callable[[Receipt], SignedReceipt]
    clock: Clock
    settings: LoopSettings
    pool: Executor


class Visitor(ABC, Generic[H]):
    """One visit to one owner: compare desired and observed state, do what can be done now, say when it is due again.

    Keeps no state of an owner between visits, and waits for nothing within one.
    """

    def __init__(self, tools: Tools) -> None:
        self._sign, self._clock = tools.sign, tools.clock
        self._settings, self._pool = tools.settings, tools.pool
        self._life = uuid4().hex

    def visit(self, held: H, current: Callable[[Held], tuple[World, Site]]) -> NextVisit:
        """Do what can be done now. Every error becomes a reason and a time of the next visit: the loop goes on."""
        try:
            held.notes.records()  # also sets `held.at`
            held.world, held.site = current(held)
            closed = self._closed(held)
            if held.wanted == "absent" or held.owner.changed_at is not None:
                held.work.count(self._life, closed is None)
            if closed is not None:
                look = self._only_observe(held, closed)
            else:
                look = self._release(held) if held.wanted == "absent" else self._present(held)
        except ClosedError as error:
            look = self._only_observe(held, error)
        except UnreadableError:
            raise  # never act on rows that can't be read: the worker parks the owner
        except NotYetError as error:
            look = NextVisit(error.delay)
        except TemporaryError as error:
            look = self._again(held, error)
        except PermanentError as error:
            look = self._permanent(held, error)
        except WeftError as error:
            look = self._permanent(
                held, PermanentError(outside.SERVE_ORDER(), "weft", error.message, outside.CHANGE_ORDER())
            )
        self._watch(held)
        return look

    def _closed(self, held: H) -> TemporaryError | None:
        """Why nothing of it may be changed outside (`weft.engine.base.gate`); None: changes are allowed."""
        held.fence.places = {r.resource.where for r in held.resources()}
        return self._shut(held)

    def _shut(self, held: H) -> TemporaryError | None:
        """As `_closed`, as far as the gate says."""
        closed, asked = held.gate.closed(held.world.clouds), held.owner.abandoned
        if asked is not None and not asked.own and not isinstance(closed, ClosedError):
            return None  # a cloud that is gone must not block it: nothing changes, what is unseen is kept
        return closed

    def _check_open(self, held: H) -> None:
        """Call before anything of it is returned or signed: whatever a reading says, the database may be behind by
        now."""
        if (closed := self._shut(held)) is not None:
            raise closed

    def _only_observe(self, held: H, closed: TemporaryError) -> NextVisit:
        """Observe without changing anything, and report the state and why nothing is done; no resource row changes."""
        if held.wanted == "present" and held.status.phase is Phase.SERVING:
            verdict = verify(held.owner, held.resources(), held.world, self._pool, lane=held.lane)
            if verdict.fine:
                known = find(held.status.conditions, Aspect.READY)
                held.become(
                    News(Aspect.READY, known.status if known else "unknown", Cause.WAITING, closed.message)
                )
            else:
                both = problems.SEVERAL(problems=[verdict.reason(), closed.message])
                held.become(not_ready(verdict)._replace(message=both))
        else:
            held.explain(closed.message)
        if closed.alarming:
            held.alarm(pods.STATE(state=held.status.state, why=closed.message))
        return NextVisit(closed.delay, held.owner.failures)  # nothing was tried

    @abstractmethod
    def _present(self, held: H) -> NextVisit:
        """A visit to an owner that is wanted."""

    @abstractmethod
    def _read_back(self, held: H) -> ReadBack:
        """Read everything it ever had, on every plane."""

    @abstractmethod
    def _receipt(self, held: H, read: ReadBack, abandoned: Abandoned | None = None) -> Receipt:
        """The receipt to be signed."""

    def _keep_back(self, held: H, read: ReadBack) -> None:
        """When a release lasts too long: free what was read back clean, and quarantine the other nodes."""
        held.quarantine.add(read.unclean)
        self._give_back_numbers(held, read, held.holdings.numbers())

    def _give_back_numbers(
        self,
        held: H,
        read: ReadBack,
        numbers: Collection[tuple[str, int]],
        items: Sequence[ReceiptItem] = (),
    ) -> None:
        """Return those that nothing of the owner uses any more, except numbers of rows that still have to be removed: a
        request for these could affect another owner's.

        Args:
            items: readings that go into the receipt, if other than the fabric's.
        """
        there = numbers_of((r.resource for r in held.resources() if not r.is_nowhere), held.site)
        free = frozenset(numbers) - unfree(read, numbers) - there
        if free:
            held.numbers.keep_stale(s for s in read.stale if (SEGMENT + s.fabric, s.number) in free)
            # The fabric isn't read again for these; everything else is, until the end.
            mine = [i for n in sorted(free) for i in read.of_numbers.get(n, ()) if i in read.of_fabric]
            held.numbers.give_back(free, items or mine)

    def _set_aside(self, held: H, read: ReadBack) -> None:
        """Before an abandoned release ends, keep back what must not be assigned again."""
        held.quarantine.add({n: f"abandoned: {why}" for n, why in read.unclean.items()})

    @abstractmethod
    def _ends(self, held: H) -> float | None:
        """Seconds of work after which its release is abandoned; None: only on request."""

    def _fabric_age(self, held: H) -> float:
        """Greatest age in seconds of the reading by which it is judged: the reading is from after its last change."""
        if held.status.state is not PodState.READY or held.owner.repair:
            return 0.0
        # This process's driver doesn't know another process's change; the segment's row does.
        changed = (r.since for r in held.resources() if r.kind.row.home is Home.FABRIC and r.since)
        since = max(held.status.since, held.owner.ready_at or held.status.since, *changed)
        return min(self._settings.fabric_age, max(0.0, (held.at - since).total_seconds()))

    # -- absent -------------------------------------------------------------------------------------------------

    def _release(self, held: H) -> NextVisit:
        self._begin_release(held)
        self._end_in_time(held)
        at_once = frozenset({Home.FABRIC}) if self._overdue(held) else frozenset[Home]()
        try:
            wait = Walker(held, held.world, self._settings, self._pool).tear_down(at_once)
            if wait is not None and self._is_long(held):
                raise TemporaryError(
                    outside.TAKE_AWAY(), held.owner.site or "weft", outside.NOT_YET(why=wait.reason)
                )
        except WeftError:
            self._check_open(held)
            if held.owner.abandoned is not None:
                self._wait_for_late(held)
                if self._abandons_now(held):
                    return self._abandon(held, self._read_back(held))
            elif self._overdue(held) and not held.notes.late():
                self._keep_back(held, self._read_back(held))
            raise
        if wait is not None:
            return NextVisit(wait.delay)
        self._wait_for_late(held)
        with held.lane.aside():  # waits for a reading of the fabric, which other visits share
            read = self._read_back(held)
        if not read.over:
            self._check_open(held)
            if held.owner.abandoned is not None and self._abandons_now(held):
                return self._abandon(held, read)
            # Something we removed may be back: recreated by a person, or by a delayed request.
            held.note(seen_again(read))
            if self._overdue(held):
                self._keep_back(held, read)
            raise TemporaryError(outside.READ_BACK(), held.owner.site or "weft", read.reason())
        self._check_open(held)
        held.numbers.keep_stale(read.stale)
        held.released(self._sign(self._receipt(held, read)))
        return NextVisit(0.0)

    def _end_in_time(self, held: H) -> None:
        """Abandon a release that exceeds its limit: what it waits for may never come."""
        limit = self._ends(held)
        if limit is not None and held.owner.abandoned is None and held.work.seconds >= limit:
            held.abandon(f"its release has lasted longer than {limit / 3600:g} h")  # its project reads this

    def _is_long(self, held: H) -> bool:
        """Whether a resource has been on its way for too long: the release goes on with what is left."""
        patience = self._settings.patience_servers
        if held.owner.abandoned is not None:
            return self._since_asked(held) >= patience
        return held.work.seconds >= self._settings.limits[PodState.RELEASING] + patience

    def _since_asked(self, held: H) -> float:
        """Seconds of work on it since it was abandoned."""
        asked = held.owner.abandoned
        assert asked is not None
        return min((held.at - asked.at).total_seconds(), held.work.seconds - asked.worked)

    def _abandons_now(self, held: H) -> bool:
        """Whether an abandoned release ends with what is in its way now; the next visit may find it gone."""
        failed = held.owner.failures
        late = self._since_asked(held) >= self._settings.patience_servers
        return failed + 1 >= TRIES or (failed > 0 and late)

    def _begin_release(self, held: H) -> None:
        if held.status.phase is not Phase.RELEASING:
            held.gate.note_end(held.world.clouds)
            over = (Aspect.READY, Aspect.PROVED, Aspect.REPAIRING, Aspect.CHANGING, Aspect.FAILED)
            clean = News(Aspect.CLEAN, "false", Cause.UNDER_WAY)
            held.become(clean, phase=Phase.RELEASING, without=over)

    def _abandon(self, held: H, read: ReadBack) -> NextVisit:
        """End the release as it is, as requested: what wasn't seen clean is kept back, and the receipt says so."""
        asked = held.owner.abandoned
        assert asked is not None
        self._check_open(held)
        self._set_aside(held, read)
        kept = unfree(read, held.holdings.numbers())
        named = tuple(f"{space} {number}" for space, number in sorted(kept))
        abandoned = Abandoned(by=asked.by, at=asked.at, reason=asked.reason, kept=named)
        remains = pods.ABANDONED_WITH_REMAINS(what=read.reason() or "nothing visible")
        held.note((), [("alarm", remains, None)])
        receipt = self._sign(self._receipt(held, read, abandoned))
        held.numbers.keep_stale(read.stale)
        held.released(receipt, kept, pods.ABANDONED(user=asked.by, reason=asked.reason))
        return NextVisit(0.0)

    def _wait_for_late(self, held: H) -> None:
        """A request with an unknown outcome may take effect after everything was removed: read back only after that."""
        left = held.notes.late()
        if left > 0:
            raise TemporaryError(
                outside.READ_BACK(),
                "weft",
                f"{LATE}, which may take effect until {held.owner.late_until:%Y-%m-%dT%H:%M:%SZ}",
                "it is read back, and nodes and numbers are released, after that",
                delay=left,
            )

    def _overdue(self, held: H) -> bool:
        return held.work.seconds >= self._settings.limits[PodState.RELEASING]

    # -- errors -------------------------------------------------------------------------------------------------

    def _again(self, held: H, error: TemporaryError) -> NextVisit:
        failures = held.owner.failures + 1
        held.explain(error.message)
        if error.alarming:
            held.alarm(pods.STATE(state=held.status.state, why=error.message))
        return NextVisit(max(error.delay, self._settings.delay(failures)), failures)

    def _permanent(self, held: H, error: PermanentError) -> NextVisit:
        """What is being built can't go on; what serves, or goes, is worked on as before."""
        failures = held.owner.failures + 1
        if held.status.phase is Phase.BUILDING and held.status.state is not PodState.FAILED:
            held.become(News(Aspect.FAILED, "true", Cause.PERSON_NEEDED, error.message))
            held.alarm(pods.STATE(state="FAILED", why=error.message))
        else:
            held.explain(error.message, Cause.PERSON_NEEDED)
        return NextVisit(self._settings.delay(failures), failures)

    def _watch(self, held: H) -> None:
        """A state that outlasts its limit raises an alarm, once."""
        changed = held.owner.changed_at
        if changed is not None and held.status.phase is Phase.SERVING:
            most = self._settings.limits.get(PodState.BOOTING, self._settings.patience_servers)
            if (lasted := (held.at - changed).total_seconds()) > most:
                held.alarm(
                    pods.CHANGE_LASTS(
                        lasted=round(lasted), limit=round(most), why=held.status.reason or _NO_REASON
                    )
                )
        limit = self._settings.limits.get(held.status.state)
        if limit is not None and (lasted := (held.at - held.status.since).total_seconds()) > limit:
            why = held.status.reason or _NO_REASON
            message = pods.STATE_LASTS(
                state=held.status.state, lasted=round(lasted), limit=round(limit), why=why
            )
            held.alarm(message)
            log.warning("%s (%s): %s", held.owner, held.owner.id, message)


def seen_again(read: ReadBack) -> list[Change]:
    """Changes that remove again what was seen though its row says that it is gone."""
    return [Change(key, RowState.DELETING, reason=pods.REAPPEARED()) for key in read.again]


def not_ready(verdict: Verdict, otherwise: str = "") -> News:
    """The news that an owner isn't READY, or that this is unknown, from a verdict."""
    unknown = bool(verdict.problems) and all(p.unknown for p in verdict.problems)
    cause = Cause.UNREADABLE if unknown else Cause.DIFFERENT
    return News(Aspect.READY, "unknown" if unknown else "false", cause, verdict.reason() or otherwise)


def news_of(records: Iterable[ResourceRecord], changes: Iterable[Change]) -> list[Change]:
    """Only the changes that differ from the row."""
    old = {r.key: r for r in records}
    return [c for c in changes if _is_news(c, old[c.key])]


def _is_news(change: Change, old: ResourceRecord) -> bool:
    if (change.state, change.reason, change.differences) != (old.state, old.reason, old.differences):
        return True
    return bool(change.facts) and _as_stored(change.facts) != old.facts


def _as_stored(value: object) -> object:
    """A fact as the database returns it."""
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, object], value)
        return {name: _as_stored(field) for name, field in fields.items()}
    if isinstance(value, list | tuple):
        return [_as_stored(item) for item in cast(Sequence[object], value)]
    return value
