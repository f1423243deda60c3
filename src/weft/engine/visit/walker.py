"""Walks a pod's graph once, as far as possible now: forwards to create it, backwards to remove it.

Independent branches go in parallel, on the few threads of the process; resources of one kind that are ready at the same
time go to their driver as one batch (`weft.engine.visit.moves`). Each is attempted once a walk. One write stores what
was observed of batches and what the next ones are about to request; answers that arrive within `TOGETHER` share a
write.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, suppress
from itertools import groupby
from typing import Any, Self

from weft.engine.base.world import World
from weft.engine.hold.defects import known
from weft.engine.hold.held import Held
from weft.engine.hold.settings import LoopSettings
from weft.engine.proof.traffic import OfFabric
from weft.engine.rows.records import ResourceRecord, RowState
from weft.engine.visit.moves import Ask, Batch, Guard, Move, Moves, worst
from weft.engine.visit.waits import Wait, soonest
from weft.model.errors import NotYetError, WeftError
from weft.model.kindrow import Home

AT_ONCE = Wait("what is wanted of it has changed", 0.0)
"""Why a walk ends early: what is wanted changed, the worker should hand back, or what was left for later is due."""

_Asked = tuple[Batch, Move, Ask]

TOGETHER = 0.005
"""Seconds for which an answer waits for others, to share a write, which costs more than that."""


class Walker:
    """One visit's walk over one pod.

    Args:
        pool: the process's own, for batches that can go at the same time.
        booting: called before servers are requested.
        first: runs before that, if one of them was never requested; an error in it keeps them from being requested.
        guard: yields what must not be changed.
    """

    def __init__(
        self,
        held: Held,
        world: World,
        settings: LoopSettings,
        pool: Executor,
        booting: Callable[[], None] = lambda: None,
        first: Callable[[], Move] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._held, self._pool, self._booting, self._first = held, pool, booting, first
        self._moves = Moves(held, world, settings, guard)
        self.records = self._moves.records
        self._dependents: dict[str, set[str]] = {key: set() for key in self.records}
        for record in self.records.values():
            for need in self._needs(record):
                self._dependents[need].add(record.key)

    # -- the two directions -------------------------------------------------------------------------------------

    def build(self, later: Collection[str] = (), without: Collection[str] = ()) -> Wait | None:
        """Create what is wanted; None once everything is settled. Raises the worst error, after all else has advanced.

        Args:
            later: keys not requested in this walk; if they are ready at its end, another one follows at once.
            without: nodes whose resources aren't requested; None doesn't mean that these are settled.
        """
        settled = {
            key
            for key, r in self.records.items()
            if r.state is RowState.SETTLED or not r.wanted or r.resource.node in without
        }

        def ready(record: ResourceRecord) -> bool:
            return record.key not in settled and settled.issuperset(record.resource.needs)

        def advance(batch: Batch) -> Move:
            return self._boot(batch) if batch[0].kind.row.boots else self._moves.advance(batch)

        return self._walk(settled, ready, advance, RowState.SETTLED, "present", later)

    def _boot(self, batch: Batch) -> Move:
        if self._first is not None and any(r.state is RowState.WANTED for r in batch):
            yield from self._first()
        self._booting()
        return (yield from self._moves.advance(batch))

    def retire(self) -> Wait | None:
        """Remove what the newest generation doesn't want, as a release would; None once all of it is seen absent."""
        return self._take_away({key for key, r in self.records.items() if r.wanted}, frozenset(), "present")

    def tear_down(self, at_once: frozenset[Home] = frozenset(), wanted: str = "absent") -> Wait | None:
        """Remove everything that was ever requested, dependents first; None once all of it is seen absent.

        Args:
            at_once: homes whose resources don't wait for their dependents: a release that lasts too long takes the
                fabric's network away from a server that can't be deleted, so that the other nodes can be freed.
            wanted: the desired state meanwhile; `present`: everything is recreated afterwards.
        """
        return self._take_away(set(), at_once, wanted)

    def _take_away(self, stay: set[str], at_once: frozenset[Home], wanted: str) -> Wait | None:
        gone = stay | {key for key, r in self.records.items() if r.is_nowhere}

        # What ends along with another resource isn't asked and blocks nothing: a tenant could keep it from being
        # removed.
        ending = {key: ends for key, r in self.records.items() if (ends := self._ends_with(r) - stay)}

        def ready(record: ResourceRecord) -> bool:
            if record.key in gone:
                return False
            if record.key in ending:
                return gone.issuperset(ending[record.key])
            before = {k for k in self._dependents[record.key] if record.key not in ending.get(k, ())}
            return record.kind.row.home in at_once or gone.issuperset(before)

        return self._walk(gone, ready, self._moves.retreat, RowState.ABSENT, wanted)

    def _ends_with(self, record: ResourceRecord) -> set[str]:
        """Keys of resources whose removal removes it, too."""
        other = record.kind.row.ends_with
        return {need for need in self._needs(record) if other and self.records[need].kind == other}

    def _needs(self, record: ResourceRecord) -> list[str]:
        """Needs that have a row: a tombstone may outlive the tombstones of what it needed."""
        return [need for need in record.resource.needs if need in self.records]

    def _walk(
        self,
        done: set[str],
        ready: Callable[[ResourceRecord], bool],
        work: Callable[[Batch], Move],
        end: RowState,
        wanted: str,
        later: Collection[str] = (),
    ) -> Wait | None:
        """Hand out batches that are ready until all is done, or no other is ready now."""
        round_ = _Round(self._held, self._pool)
        tried = set(later)
        waits: list[Wait] = []
        errors: list[WeftError] = []
        with round_:
            while len(done) < len(self.records):
                batches: list[Batch] = []
                if self._goes_on(wanted):
                    batches = _batches(r for r in self.records.values() if r.key not in tried and ready(r))
                    tried |= {r.key for batch in batches for r in batch}
                for batch in batches:
                    round_.begin(batch, work(batch))
                ended = round_.ended() or round_.go_on()
                if not ended:
                    break
                for batch, outcome in ended:
                    done |= {r.key for r in self._moves.fresh(batch) if r.state is end}
                    waits += [outcome] if isinstance(outcome, Wait) else []
                    errors += [outcome] if isinstance(outcome, WeftError) else []
        if len(done) == len(self.records):
            return None
        if not self._goes_on(wanted) or (not errors and any(ready(self.records[key]) for key in later)):
            return AT_ONCE
        if waits and not errors:
            return soonest(waits)
        raise worst(errors)

    def _goes_on(self, wanted: str) -> bool:
        return self._held.wanted == wanted and not self._held.fence.leave.is_set()


class _Round:
    """Moves under way; their notes are written together.

    The visit's own thread steps them, writes, and asks where it would only wait; the pool's threads only ask.
    """

    def __init__(self, held: Held, pool: Executor) -> None:
        self._held, self._pool = held, pool
        self._to_ask: list[_Asked] = []
        self._asked: dict[Future[Any], _Asked] = {}
        self._over: list[tuple[Batch, Wait | WeftError | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait for every request: none may be in flight when the pod is handed back. The error that ended the walk is
        raised; the other answers are still noted, above all what may take effect later.
        """
        wait(self._asked)
        for future, (batch, move, _ask) in self._asked.items():
            with suppress(Exception):
                self._answered(batch, move, future)

    def begin(self, batch: Batch, move: Move) -> None:
        self._step(batch, move, lambda: next(move))

    def ended(self) -> list[tuple[Batch, Wait | WeftError | None]]:
        """Batches that have ended, each with a `Wait` or the error that stopped it."""
        over, self._over = self._over, []
        return over

    def go_on(self) -> list[tuple[Batch, Wait | WeftError | None]]:
        """Write and ask until a batch ends; nothing if none is under way."""
        while not self._over and (self._to_ask or self._asked):
            self._held.about_to_ask()
            to_ask, self._to_ask = self._to_ask, []
            if len(to_ask) == 1 and self._goes_here(to_ask[0]):
                (batch, move, ask), *_ = to_ask
                with self._place([*to_ask, *self._asked.values()]):
                    answer = _answer(ask)
                self._answered(batch, move, answer)
                self._end([future for future in self._asked if future.done()])
                continue
            for batch, move, ask in to_ask:
                self._asked[self._pool.submit(ask)] = (batch, move, ask)
            with self._place(self._asked.values()):
                wait(self._asked, return_when=FIRST_COMPLETED)
                # Answers that arrive at about the same time are written together.
                over, _ = wait(self._asked, TOGETHER)
            self._end(over)
        return self.ended()

    def _place(self, asked: Iterable[_Asked]) -> AbstractContextManager[None]:
        """Free the visit's place within the block: at once if a fabric is asked, else once an answer takes long."""
        return self._held.lane.aside() if any(map(_is_of_fabric, asked)) else self._held.lane.outside()

    def _goes_here(self, asked: _Asked) -> bool:
        """Whether this thread asks by itself: nothing runs beside it, or only a fabric, which takes long, and what
        waits for the fabric nearly always waits for this, too.
        """
        others = self._asked.values()
        return not others or (not _is_of_fabric(asked) and all(map(_is_of_fabric, others)))

    def _end(self, answered: Iterable[Future[Any]]) -> None:
        for future in answered:
            batch, move, _ = self._asked.pop(future)
            self._answered(batch, move, future)

    def _answered(self, batch: Batch, move: Move, answer: Future[Any]) -> None:
        error = answer.exception()
        if error is None:
            self._step(batch, move, lambda: move.send(answer.result()))
        else:
            self._step(batch, move, lambda: move.throw(error))

    def _step(self, batch: Batch, move: Move, step: Callable[[], Ask]) -> None:
        try:
            self._to_ask.append((batch, move, step()))
        except StopIteration as end:
            self._over.append((batch, end.value))
        except NotYetError as caught:
            self._over.append((batch, Wait(caught.answer, caught.delay)))
        except Exception as caught:
            error = known(caught)
            self._held.notes.may_land([error])
            self._held.note((), [("error", error.message, None)])
            self._over.append((batch, error))


def _is_of_fabric(asked: _Asked) -> bool:
    batch, _, ask = asked
    return batch[0].kind.row.home is Home.FABRIC or isinstance(ask, OfFabric)


def attempt(held: Held, move: Move) -> Wait | None:
    """Run one move on its own, in this thread. Raises what stops it."""
    try:
        ask = next(move)
        while True:
            held.about_to_ask()
            ask = move.send(ask())
    except StopIteration as end:
        return end.value
    except WeftError as error:
        held.notes.may_land([error])
        raise
    except Exception as caught:
        raise known(caught) from caught


def _answer(ask: Ask) -> Future[Any]:
    """Ask in this thread; the answer as a pool returns it."""
    future: Future[Any] = Future()
    try:
        future.set_result(ask())
    except BaseException as error:
        future.set_exception(error)
    return future


def _batches(records: Iterable[ResourceRecord]) -> list[Batch]:
    """Group by place and kind."""

    def place(record: ResourceRecord) -> tuple[str, str]:
        return (record.resource.where, record.kind)

    return [list(group) for _, group in groupby(sorted(records, key=place), key=place)]
