"""Walks a pod's graph once: forwards to make it true, backwards to take it away, as far as it goes now.

Independent branches go in parallel, on the few threads of the process; resources of one kind that are ready at the same
time go to their driver as one batch (`weft.engine.moves`). Each is attempted once a walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from itertools import groupby

from weft.engine.held import Held
from weft.engine.moves import Batch, Moves, worst
from weft.engine.records import ResourceRecord, RowState
from weft.engine.settings import LoopSettings
from weft.engine.waits import Wait, soonest
from weft.engine.world import World
from weft.model.errors import NotYetError, WeftError
from weft.model.kinds import Home

AT_ONCE = Wait("the wish for it changed", 0.0)
"""What is wanted is another thing than a moment ago, or the worker is to let go."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of a batch: the keys of it that are done, and what stopped the others."""

    done: frozenset[str]
    wait: Wait | None = None
    error: WeftError | None = None


class Walker:
    """One visit's walk over one pod.

    Args:
        pool: the process's own, for batches that can go at the same time.
        booting: called once, before the first server is asked for.
    """

    def __init__(
        self,
        held: Held,
        world: World,
        settings: LoopSettings,
        pool: Executor,
        booting: Callable[[], None] = lambda: None,
    ) -> None:
        self._held, self._pool, self._booting = held, pool, booting
        self._moves = Moves(held, world, settings)
        self.records = self._moves.records
        self._dependents: dict[str, set[str]] = {key: set() for key in self.records}
        for record in self.records.values():
            for need in record.resource.needs:
                self._dependents[need].add(record.key)

    # -- the two directions -------------------------------------------------------------------------------------

    def build(self) -> Wait | None:
        """None once everything is settled. Raises the worst error in the way, after the rest has gone on."""
        settled = {key for key, r in self.records.items() if r.state is RowState.SETTLED or not r.wanted}

        def ready(record: ResourceRecord) -> bool:
            return record.key not in settled and settled.issuperset(record.resource.needs)

        def advance(batch: Batch) -> Progress:
            if batch[0].kind.row.boots:
                self._booting()
            return self._progress(batch, RowState.SETTLED, self._moves.advance)

        return self._walk(settled, ready, advance, "present")

    def retire(self) -> Wait | None:
        """None once everything that the newest generation doesn't want is seen absent; it goes as in a release."""
        return self._take_away({key for key, r in self.records.items() if r.wanted}, frozenset(), "present")

    def tear_down(self, at_once: frozenset[Home] = frozenset(), wanted: str = "absent") -> Wait | None:
        """None once everything that was ever asked for is seen to be absent; the first that are needed go last.

        What is at home in `at_once` doesn't wait for what needs it: a release that lasts too long takes the fabric's
        network away from a server that can't be deleted, so that the other nodes can be given back. `wanted`: what is
        wished for the pod meanwhile; `present`: it is to be made again after that.
        """
        return self._take_away(set(), at_once, wanted)

    def _take_away(self, stay: set[str], at_once: frozenset[Home], wanted: str) -> Wait | None:
        gone = stay | {key for key, r in self.records.items() if r.is_nowhere}

        def ready(record: ResourceRecord) -> bool:
            free = record.kind.row.home in at_once or gone.issuperset(self._dependents[record.key])
            return record.key not in gone and free

        def retreat(batch: Batch) -> Progress:
            return self._progress(batch, RowState.ABSENT, self._moves.retreat)

        return self._walk(gone, ready, retreat, wanted)

    def _walk(
        self,
        done: set[str],
        ready: Callable[[ResourceRecord], bool],
        work: Callable[[Batch], Progress],
        wanted: str,
    ) -> Wait | None:
        """Hand out batches that are ready until all is done, or no other is ready now."""
        running: set[Future[Progress]] = set()
        tried: set[str] = set()
        waits: list[Wait] = []
        errors: list[WeftError] = []
        try:
            while len(done) < len(self.records):
                batches: list[Batch] = []
                if self._goes_on(wanted):
                    batches = _batches(r for r in self.records.values() if r.key not in tried and ready(r))
                    tried |= {r.key for batch in batches for r in batch}
                if not running and not batches:
                    break
                if not running and len(batches) == 1:
                    ended = [work(batches[0])]  # there is nothing that could go beside it in another thread
                else:
                    running |= {self._pool.submit(work, batch) for batch in batches}
                    over, running = wait(running, return_when=FIRST_COMPLETED)
                    ended = [future.result() for future in over]
                for progress in ended:
                    done |= progress.done
                    waits += [progress.wait] if progress.wait else []
                    errors += [progress.error] if progress.error else []
        finally:
            wait(running)  # who lets go of a pod has nothing of it under way
        if len(done) == len(self.records):
            return None
        if not self._goes_on(wanted):
            return AT_ONCE
        if waits and not errors:
            return soonest(waits)
        raise worst(errors)

    def _goes_on(self, wanted: str) -> bool:
        return self._held.wanted == wanted and not self._held.leave.is_set()

    def _progress(self, batch: Batch, end: RowState, work: Callable[[Batch], Wait | None]) -> Progress:
        """Do the work on a batch; what of it got to the end counts, also if something else of it did not."""
        left: Wait | None = None
        error: WeftError | None = None
        try:
            left = work(batch)
        except NotYetError as caught:
            left = Wait(caught.answer, caught.delay)
        except WeftError as caught:
            error = caught
            self._held.say("error", str(caught))
        done = frozenset(r.key for r in self._moves.fresh(batch) if r.state is end)
        return Progress(done, left, error)


def _batches(records: Iterable[ResourceRecord]) -> list[Batch]:
    """Those of one place and kind together."""

    def place(record: ResourceRecord) -> tuple[str, str]:
        return (record.resource.where, record.kind)

    return [list(group) for _, group in groupby(sorted(records, key=place), key=place)]
