"""The release of an owner: back through its graph, then a reading of every plane, and a receipt, within its limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from weft.engine.hold.fence import LATE
from weft.engine.hold.held import Held
from weft.engine.hold.status import News
from weft.engine.proof.readback import ReadBack, unfree
from weft.engine.visit.news import seen_again
from weft.engine.visit.tools import NextVisit, Tools
from weft.engine.visit.walker import Walker
from weft.model.errors import TemporaryError, WeftError
from weft.model.kindrow import Home
from weft.model.messages import outside, pods
from weft.model.pod import Aspect, Cause, Phase, PodState
from weft.model.receipt import Abandoned, Receipt, ReceiptItem
from weft.model.spaces import SEGMENT
from weft.planning.owners.numbers import numbers_of

H = TypeVar("H", bound=Held)
H_contra = TypeVar("H_contra", bound=Held, contravariant=True)

TRIES = 3
"""Visits in a row that must fail before an abandoned release ends with what is left; two, if it takes long."""


class OwnersEnding(Protocol[H_contra]):
    """How owners of one kind end."""

    def read_back(self, held: H_contra) -> ReadBack:
        """Read everything it ever had, on every plane."""
        ...

    def receipt(self, held: H_contra, read: ReadBack, abandoned: Abandoned | None = None) -> Receipt:
        """The receipt to be signed."""
        ...

    def free_clean(self, held: H_contra, read: ReadBack) -> None:
        """When a release lasts too long: free the nodes that were read back clean."""
        ...

    def unclean(self, held: H_contra, read: ReadBack) -> Mapping[str, str]:
        """Node that it still keeps -> why it wasn't seen clean."""
        ...

    def ends(self, held: H_contra) -> float | None:
        """Seconds of work after which its release is abandoned; None: only on request."""
        ...


class Releasing(Generic[H]):
    """Releases owners of one kind."""

    def __init__(self, tools: Tools, ending: OwnersEnding[H]) -> None:
        self._tools, self._settings, self._ending = tools, tools.settings, ending

    def release(self, held: H) -> NextVisit:
        """One attempt. Raises what is in its way."""
        self.begin(held)
        self._end_in_time(held)
        at_once = frozenset({Home.FABRIC}) if self._overdue(held) else frozenset[Home]()
        try:
            wait = Walker(held, held.world, self._settings, self._tools.pool).tear_down(at_once)
            if wait is not None and self._is_long(held):
                raise TemporaryError(
                    outside.TAKE_AWAY(), held.owner.site or "weft", outside.NOT_YET(why=wait.reason)
                )
        except WeftError:
            held.gate.check_open(held.world.clouds)
            if held.owner.abandoned is not None:
                wait_for_late(held)
                if self.abandons_now(held):
                    return self.abandon(held, self._ending.read_back(held))
            elif self._overdue(held) and not held.notes.late():
                self._keep_back(held, self._ending.read_back(held))
            raise
        if wait is not None:
            return NextVisit(wait.delay)
        wait_for_late(held)
        with held.lane.aside():  # waits for a reading of the fabric, which other visits share
            read = self._ending.read_back(held)
        if not read.over:
            held.gate.check_open(held.world.clouds)
            if held.owner.abandoned is not None and self.abandons_now(held):
                return self.abandon(held, read)
            # Something we removed may be back: recreated by a person, or by a delayed request.
            held.note(seen_again(read))
            if self._overdue(held):
                self._keep_back(held, read)
            raise TemporaryError(outside.READ_BACK(), held.owner.site or "weft", read.reason())
        held.gate.check_open(held.world.clouds)
        held.numbers.keep_stale(read.stale)
        held.released(self._tools.sign(self._ending.receipt(held, read)))
        return NextVisit(0.0)

    def begin(self, held: H) -> None:
        """Note that it is being released, which the clouds know before anything is removed."""
        if held.status.phase is not Phase.RELEASING:
            held.gate.note_end(held.world.clouds)
            over = (Aspect.READY, Aspect.PROVED, Aspect.REPAIRING, Aspect.CHANGING, Aspect.FAILED)
            clean = News(Aspect.CLEAN, "false", Cause.UNDER_WAY)
            held.become(clean, phase=Phase.RELEASING, without=over)

    def _keep_back(self, held: H, read: ReadBack) -> None:
        """A release lasts too long: return what was read back clean, and quarantine the other nodes."""
        held.quarantine.add(read.unclean)
        give_back_numbers(held, read, held.holdings.numbers())
        self._ending.free_clean(held, read)

    def abandon(self, held: H, read: ReadBack) -> NextVisit:
        """End the release as it is, as requested: what wasn't seen clean is kept back, and the receipt says so."""
        asked = held.owner.abandoned
        assert asked is not None
        held.gate.check_open(held.world.clouds)
        unclean = self._ending.unclean(held, read)
        held.quarantine.add({n: f"abandoned: {why}" for n, why in unclean.items()})
        kept = unfree(read, held.holdings.numbers())
        named = tuple(f"{space} {number}" for space, number in sorted(kept))
        abandoned = Abandoned(by=asked.by, at=asked.at, reason=asked.reason, kept=named)
        remains = pods.ABANDONED_WITH_REMAINS(what=read.reason() or "nothing visible")
        held.note((), [("alarm", remains, None)])
        receipt = self._tools.sign(self._ending.receipt(held, read, abandoned))
        held.numbers.keep_stale(read.stale)
        held.released(receipt, kept, pods.ABANDONED(user=asked.by, reason=asked.reason))
        return NextVisit(0.0)

    def abandons_now(self, held: H) -> bool:
        """Whether an abandoned release ends with what is in its way now; the next visit may find it gone."""
        failed = held.owner.failures
        late = self._since_asked(held) >= self._settings.patience_servers
        return failed + 1 >= TRIES or (failed > 0 and late)

    def _end_in_time(self, held: H) -> None:
        """Abandon a release that exceeds its limit: what it waits for may never come."""
        limit = self._ending.ends(held)
        if limit is not None and held.owner.abandoned is None and held.work.seconds >= limit:
            held.abandon(f"its release has lasted longer than {limit / 3600:g} h")  # its project reads this

    def _is_long(self, held: H) -> bool:
        """Whether a resource has been on its way for too long: the release continues with what is left."""
        patience = self._settings.patience_servers
        if held.owner.abandoned is not None:
            return self._since_asked(held) >= patience
        return held.work.seconds >= self._settings.limits[PodState.RELEASING] + patience

    def _since_asked(self, held: H) -> float:
        """Seconds of work on it since it was abandoned."""
        asked = held.owner.abandoned
        assert asked is not None
        return min((held.at - asked.at).total_seconds(), held.work.seconds - asked.worked)

    def _overdue(self, held: H) -> bool:
        return held.work.seconds >= self._settings.limits[PodState.RELEASING]


def wait_for_late(held: Held) -> None:
    """Raise while a request with an unknown outcome may still take effect: the release is read back only after that."""
    left = held.notes.late()
    if left > 0:
        raise TemporaryError(
            outside.READ_BACK(),
            "weft",
            f"{LATE}, which may take effect until {held.owner.late_until:%Y-%m-%dT%H:%M:%SZ}",
            "it is read back, and nodes and numbers are released, after that",
            delay=left,
        )


def give_back_numbers(
    held: Held,
    read: ReadBack,
    numbers: Collection[tuple[str, int]],
    items: Sequence[ReceiptItem] = (),
) -> None:
    """Return numbers that nothing of the owner uses any more, except those of rows that still have to be removed: a
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
