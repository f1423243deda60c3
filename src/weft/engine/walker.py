"""Walks a pod's graph once: forwards to make it true, backwards to take it away, as far as it goes now.

Independent branches go in parallel, on the few threads of the process; resources of one kind that are ready at the same
time go to their driver as one batch (`weft.engine.moves`). Each is attempted once a walk. What was seen of batches, and
what is about to be asked of the next ones, is one write; quick answers of several waves are one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import AbstractContextManager, suppress
from itertools import groupby
from typing import Any, Self

from weft.engine.held import Held
from weft.engine.moves import Ask, Batch, Guard, Move, Moves, worst
from weft.engine.records import ResourceRecord, RowState
from weft.engine.settings import LoopSettings
from weft.engine.traffic import OfFabric
from weft.engine.waits import Wait, soonest
from weft.engine.world import World
from weft.model.errors import NotYetError, WeftError
from weft.model.kindrow import Home

AT_ONCE = Wait("what is wanted of it has changed", 0.0)
"""What is wanted is another thing than a moment ago, or the worker is to let go, or what was left for later is due."""

_Asked = tuple[Batch, Move, Ask]

TOGETHER = 0.005
"""Seconds for which an answer waits for those of the same time: a write costs more than that."""


class Walker:
    """One visit's walk over one pod.

    Args:
        pool: the process's own, for batches that can go at the same time.
        booting: called before servers are asked for.
        first: what goes before that, if one of them was never asked for; an error in it keeps them from being so.
        guard: what must not be changed.
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

    def build(self, later: Collection[str] = ()) -> Wait | None:
        """None once everything is settled. Raises the worst error in the way, after the rest has gone on.

        Args:
            later: keys of what isn't asked for in this walk, but in another one at once, when it is ready by then.
        """
        settled = {key for key, r in self.records.items() if r.state is RowState.SETTLED or not r.wanted}

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
        """None once everything that the newest generation doesn't want is seen absent; it goes as in a release."""
        return self._take_away({key for key, r in self.records.items() if r.wanted}, frozenset(), "present")

    def tear_down(self, at_once: frozenset[Home] = frozenset(), wanted: str = "absent") -> Wait | None:
        """None once everything that was ever asked for is seen to be absent; the first that are needed go last.

        What is at home in `at_once` doesn't wait for what needs it: a release that lasts too long takes the fabric's
        network away from a server that can't be deleted, so that the other nodes can be given back. `wanted`: what is
        asked of the pod meanwhile; `present`: it is to be made again after that.
        """
        return self._take_away(set(), at_once, wanted)

    def _take_away(self, stay: set[str], at_once: frozenset[Home], wanted: str) -> Wait | None:
        gone = stay | {key for key, r in self.records.items() if r.is_nowhere}

        # What ends with another isn't asked, and holds nothing back: a tenant could keep it from being removed.
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
        """Keys of what takes it along."""
        other = record.kind.row.ends_with
        return {need for need in self._needs(record) if other and self.records[need].kind == other}

    def _needs(self, record: ResourceRecord) -> list[str]:
        """A tombstone may outlive that of what it needed: retention keeps those of data and of the fabric."""
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
        return self._held.wanted == wanted and not self._held.leave.is_set()


class _Round:
    """Moves that are under way. Their notes are written together.

    Its own thread steps them, writes, and asks what it would only wait for; the pool's only ask.
    """

    def __init__(self, held: Held, pool: Executor) -> None:
        self._held, self._pool = held, pool
        self._to_ask: list[_Asked] = []
        self._asked: dict[Future[Any], _Asked] = {}
        self._over: list[tuple[Batch, Wait | WeftError | None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Who lets go of a pod has nothing of it under way. What has ended the walk is told; but what others were
        answered meanwhile is known, and above all what of it may come to be later.
        """
        wait(self._asked)
        for future, (batch, move, _ask) in self._asked.items():
            with suppress(Exception):
                self._answered(batch, move, future)

    def begin(self, batch: Batch, move: Move) -> None:
        self._step(batch, move, lambda: next(move))

    def ended(self) -> list[tuple[Batch, Wait | WeftError | None]]:
        """Batches that have come to their end, and what is left of them or stopped them."""
        over, self._over = self._over, []
        return over

    def go_on(self) -> list[tuple[Batch, Wait | WeftError | None]]:
        """Write and ask until a batch comes to its end; nothing, if none is under way."""
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
                # Who answers at about the same time is written together.
                over, _ = wait(self._asked, TOGETHER)
            self._end(over)
        return self.ended()

    def _place(self, asked: Iterable[_Asked]) -> AbstractContextManager[None]:
        """The visit's place while it waits: another may have it if a fabric is among those that are asked, or if no
        answer comes for long."""
        return self._held.way.aside() if any(map(_is_of_fabric, asked)) else self._held.way.outside()

    def _goes_here(self, asked: _Asked) -> bool:
        """Whether this thread asks by itself: there is nothing beside it, or only a fabric, which takes long, and what
        waits for that nearly always waits for this, too.
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
        except WeftError as caught:
            self._held.may_land([caught])
            self._held.note((), [("error", caught.message, None)])
            self._over.append((batch, caught))


def _is_of_fabric(asked: _Asked) -> bool:
    batch, _, ask = asked
    return batch[0].kind.row.home is Home.FABRIC or isinstance(ask, OfFabric)


def attempt(held: Held, move: Move) -> Wait | None:
    """One move on its own, in this thread. Raises what stops it."""
    try:
        ask = next(move)
        while True:
            held.about_to_ask()
            ask = move.send(ask())
    except StopIteration as end:
        return end.value
    except WeftError as error:
        held.may_land([error])
        raise


def _answer(ask: Ask) -> Future[Any]:
    """As a pool gives it, in this thread."""
    future: Future[Any] = Future()
    try:
        future.set_result(ask())
    except BaseException as error:
        future.set_exception(error)
    return future


def _batches(records: Iterable[ResourceRecord]) -> list[Batch]:
    """Those of one place and kind together."""

    def place(record: ResourceRecord) -> tuple[str, str]:
        return (record.resource.where, record.kind)

    return [list(group) for _, group in groupby(sorted(records, key=place), key=place)]
