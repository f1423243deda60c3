"""Walks a pod's graph: forwards to make it true, backwards to take it away.

Independent branches go in parallel; resources of one kind that are ready at the same time go to their driver as one
batch (`weft.engine.moves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import groupby

from weft.engine.held import Held, InterruptedWalkError
from weft.engine.moves import Batch, Moves, worst
from weft.engine.records import ResourceRecord, RowState
from weft.engine.settings import LoopSettings
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.kinds import Home
from weft.ports.clock import Clock


@dataclass(frozen=True, slots=True)
class Progress:
    """What became of a batch: the keys of it that are done, and what stopped the others."""

    done: frozenset[str]
    error: WeftError | None = None


class Walker:
    """One visit's walk over one pod.

    Args:
        booting: called once, before the first server is asked for.
    """

    def __init__(
        self,
        held: Held,
        world: World,
        clock: Clock,
        settings: LoopSettings,
        pool: ThreadPoolExecutor,
        booting: Callable[[], None] = lambda: None,
    ) -> None:
        self._held, self._pool, self._booting = held, pool, booting
        self._moves = Moves(held, world, clock, settings)
        self.records = self._moves.records
        self._dependents: dict[str, set[str]] = {key: set() for key in self.records}
        for record in self.records.values():
            for need in record.resource.needs:
                self._dependents[need].add(record.key)

    # -- the two directions -------------------------------------------------------------------------------------

    def build(self) -> None:
        """Until everything is settled. Raises the first error that stands in the way, after the rest has gone on."""
        settled = {key for key, r in self.records.items() if r.state is RowState.SETTLED}

        def ready(record: ResourceRecord) -> bool:
            return record.key not in settled and settled.issuperset(record.resource.needs)

        def advance(batch: Batch) -> Progress:
            if batch[0].kind.row.boots:
                self._booting()
            return self._progress(batch, RowState.SETTLED, self._moves.advance)

        self._walk(settled, ready, advance, "present")

    def tear_down(self, at_once: frozenset[Home] = frozenset(), wanted: str = "absent") -> None:
        """Until everything that was ever asked for is seen to be absent; the first that are needed go last.

        What is at home in `at_once` doesn't wait for what needs it: a release that lasts too long takes the fabric's
        network away from a server that can't be deleted, so that the other nodes can be given back. `wanted`: what is
        wished for the pod meanwhile; `present`: it is to be made anew after that.
        """
        gone = {key for key, r in self.records.items() if r.state in (RowState.ABSENT, RowState.WANTED)}

        def ready(record: ResourceRecord) -> bool:
            free = record.kind.row.home in at_once or gone.issuperset(self._dependents[record.key])
            return record.key not in gone and free

        def retreat(batch: Batch) -> Progress:
            return self._progress(batch, RowState.ABSENT, self._moves.retreat)

        self._walk(gone, ready, retreat, wanted)

    def _walk(
        self,
        done: set[str],
        ready: Callable[[ResourceRecord], bool],
        work: Callable[[Batch], Progress],
        wanted: str,
    ) -> None:
        """Hand out batches that are ready until all is done, or nothing goes on because of errors."""
        running: dict[Future[Progress], Batch] = {}
        stuck: set[str] = set()
        errors: list[WeftError] = []
        while len(done) < len(self.records):
            if self._held.wanted != wanted and not running:
                raise InterruptedWalkError
            taken = {r.key for batch in running.values() for r in batch} | stuck
            if self._held.wanted == wanted:
                for batch in _batches(r for r in self.records.values() if r.key not in taken and ready(r)):
                    running[self._pool.submit(work, batch)] = batch
            if not running:
                raise worst(errors)
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                batch, progress = running.pop(future), future.result()
                done |= progress.done
                stuck |= {r.key for r in batch} - progress.done
                if progress.error is not None:
                    errors.append(progress.error)

    def _progress(self, batch: Batch, end: RowState, work: Callable[[Batch], None]) -> Progress:
        """Do the work on a batch; what of it got to the end counts, also if something else of it did not."""
        error: WeftError | None = None
        try:
            work(batch)
        except WeftError as caught:
            error = caught
            self._held.say("error", str(caught))
        return Progress(frozenset(r.key for r in self._moves.fresh(batch) if r.state is end), error)


def _batches(records: Iterable[ResourceRecord]) -> list[Batch]:
    """Those of one place and kind together."""

    def place(record: ResourceRecord) -> tuple[str, str]:
        return (record.resource.where, record.kind)

    return [list(group) for _, group in groupby(sorted(records, key=place), key=place)]
