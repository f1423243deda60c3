"""What drivers of all fabrics share: their resources are segments, and one shared reading shows all of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from weft.drivers.reading import SharedReading
from weft.model.errors import PermanentError, WeftError
from weft.model.fabric import Snapshot
from weft.model.mark import Mark
from weft.model.resources import AnyKind, Kind, Marked, Observed, Outcome, Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Ids, Observations, Outcomes, Scope

S = TypeVar("S", bound=Snapshot)


class SegmentDriver(ABC, Generic[S]):
    """Base of `FabricDriver` implementations.

    Args:
        ledger: weft's own records of this fabric's segments.
        snapshots: class of this driver's snapshots.
        holder: name of what holds the segments, for errors.

    Attributes:
        glances: most segments that are read one by one; if more are asked about, one reading of all is cheaper.
    """

    glances = 4

    def __init__(
        self, site: Site, fabric: str, ledger: SegmentLedger, snapshots: type[S], holder: str
    ) -> None:
        self._site, self._fabric, self._ledger = site, fabric, ledger
        self._range, self._words = site.fabrics[fabric].segments, site.fabrics[fabric].words
        self._snapshots, self._holder = snapshots, holder
        self._reading = SharedReading(self._read)
        self._glances = threading.BoundedSemaphore(self.glances)

    @abstractmethod
    def _read(self, began: float) -> S:
        """Read the whole fabric; `began` is now, by the monotonic clock."""

    @abstractmethod
    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed: ...

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return frozenset({Kind.SEGMENT})

    def snapshot(self, max_age: float = 0.0, patient: bool = False) -> S:
        return self._reading.get(max_age, patient)

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        found = self._glanced(scope, wanted)
        if len(found) < len(wanted):
            snapshot = self._reading_for(scope)
            found |= {r.key: self._seen(scope, r, snapshot) for r in wanted if r.key not in found}
        return found

    def _glanced(self, scope: Scope, wanted: Sequence[Resource]) -> dict[str, Observed]:
        """Observe segments whose change isn't complete (`Observed.on_its_way`) by their own ports alone."""
        if not (wanted and scope.glance and self._glances.acquire(blocking=False)):
            return {}
        try:
            return {key: seen for key, seen in self._glance(scope, wanted).items() if seen.on_its_way}
        finally:
            self._glances.release()

    def _glance(self, scope: Scope, wanted: Sequence[Resource]) -> Mapping[str, Observed]:
        """What is observed of segments by a reading of their ports alone; none: there is no such reading."""
        return {}

    def _seen(self, scope: Scope, resource: Resource, snapshot: S) -> Observed:
        """What `find` says of one segment."""
        return self.observe(scope.mark(resource.key), segment_of(resource), snapshot)

    def _reading_for(self, scope: Scope) -> S:
        """The reading that `find` uses."""
        return self._reading.since_change() if scope.changed else self.snapshot(patient=scope.patient)

    def _own(self, snapshot: Snapshot) -> S:
        """The snapshot as this driver's. Raises `TypeError` for another driver's."""
        if not isinstance(snapshot, self._snapshots):
            raise TypeError(f"a snapshot of fabric {snapshot.fabric} that another driver took")
        return snapshot

    def _outside_range(self, number: int) -> PermanentError | None:
        """Why a number can't be used; None if it is in weft's range."""
        if number in self._range:
            return None
        first, last = self._words.text(self._range.first), self._words.text(self._range.last)
        return self._taken(number, f"outside of weft's range {first} to {last}")

    def _taken(self, number: int, why: str) -> PermanentError:
        asked, then = f"set {self._words.named(number)}", f"give the pod another {self._words.word}"
        return PermanentError(asked, self._holder, why, then)


class OneByOne(SegmentDriver[S]):
    """A driver that changes one segment at a time."""

    @abstractmethod
    def _put(self, scope: Scope, resource: Resource) -> None:
        """Give the segment exactly its members; safe to repeat."""

    @abstractmethod
    def _take(self, scope: Scope, resource: Resource) -> None:
        """Delete the segment if it is still the scope's; safe to repeat."""

    @abstractmethod
    def _take_marked(self, thing: Marked) -> None:
        """Delete what the audit found, if it hasn't changed since."""

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        return {r.key: self._change(r, lambda r=r: self._put(scope, r)) for r in wanted}

    update = create

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        return {r.key: self._change(r, lambda r=r: self._take(scope, r)) for r in wanted}

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        mine = [t for t in things if t.kind is Kind.SEGMENT and t.where == self._fabric]
        return {t.id: self._remove(t) for t in mine}

    def _change(self, resource: Resource, change: Callable[[], None]) -> Outcome:
        try:
            change()
        except PermanentError as error:
            return Outcome(error=error)
        finally:
            self._reading.changed()  # also without an answer: it may have been done
        return Outcome(segment_of(resource).text)

    def _remove(self, thing: Marked) -> Outcome:
        try:
            self._take_marked(thing)
        except WeftError as error:
            return Outcome(error=error)
        finally:
            self._reading.changed()
        return Outcome(thing.id)


def segment_of(resource: Resource) -> SegmentSpec:
    """Raises `TypeError` for a resource of another kind."""
    return resource.spec_as(SegmentSpec)
