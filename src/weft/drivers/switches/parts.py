"""What several ask of one switch at the same time, made in one change, each with an answer of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.drivers.switches.interface import Asked
from weft.drivers.switches.turn import TURN_SECONDS
from weft.drivers.switches.vlans import Batch, SwitchState, joined
from weft.model.errors import OutsideError, UnknownError

YOUNG_SECONDS = 1.0
"""How old a proof may be that a change may be made, when it is sent (`weft.engine.fence`)."""


class UndoneError(UnknownError):
    """A change failed, and is known not to have been applied or to have been rolled back; it may work the next time."""

    @classmethod
    def of_error(cls, error: UnknownError, more: str = "") -> UndoneError:
        return cls(error.asked, error.of, error.answer + more, alarming=error.alarming)


@dataclass(slots=True)
class Part:
    """One of those that are made together.

    Attributes:
        batch: what it comes to after those before it.
        error: why it isn't made, or nobody knows.
        apart: the error is of all together, and nothing was made: alone it may succeed.
    """

    asked: Asked
    batch: Batch = field(default_factory=Batch)
    error: Exception | None = None
    apart: bool = False

    def fail(self, error: Exception, apart: bool = False) -> None:
        """By what has befallen all; who has failed before that, or changes nothing, has nothing to do with it."""
        if self.error is None:
            self.error, self.apart = _own(error, lands=bool(self.batch)), apart


class Together(ABC):
    """A switch that is changed by one caller of `change_all` at a time.

    Args:
        monotonic: monotonic seconds.
    """

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self.name, self._monotonic = name, monotonic
        self._making: Sequence[Part] = ()
        self._proved = float("-inf")
        self._apart = (
            False  # those that come next: nobody knows what became of the ones before, nor by whose fault
        )

    @abstractmethod
    def _together(self, parts: Sequence[Part]) -> object:
        """Make them in one change. Raises what has befallen all before anything was sent."""

    def change_all(self, asked: Sequence[Asked]) -> Sequence[Exception | None]:
        """As `Switch.change_all`."""
        parts = [Part(one) for one in asked]
        left, self._apart = (parts if self._apart else []), False
        if not left:
            self._attempt(parts)
            left = [p for p in parts if p.apart]
        end = self._monotonic() + TURN_SECONDS
        for part in left:
            if self._monotonic() < end:
                part.error = None
                self._attempt([part])
            elif part.error is None:
                said = f"others were changed one by one for {TURN_SECONDS:.0f} s before it"
                part.error = UndoneError("change VLANs", f"switch {self.name}", said)
        return [p.error for p in parts]

    def _is_old(self, began: float, parts: Sequence[Part]) -> bool:
        """Whether it took too long to see who of several may still change something: then each is tried alone. Of one
        that is alone it is seen again.
        """
        self._making, self._proved = [p for p in parts if p.batch], began
        if len(parts) == 1:
            self._prove()
            return False
        if self._monotonic() - began < YOUNG_SECONDS:
            return False
        error = UndoneError("change VLANs", f"switch {self.name}", "it took too long to see who may")
        for part in parts:
            part.fail(error, apart=True)
        return True

    def _prove(self) -> None:
        """See again whether all may still be made, if that was seen a while ago. Raises what a fence says."""
        now = self._monotonic()
        if now - self._proved >= YOUNG_SECONDS:
            for part in self._making:
                part.asked.fence()
            self._proved = now

    def _go_on(self) -> None:
        """Before each further request of a change: the ones before it may have taken long. Raises `UnknownError`: the
        rest isn't sent, of nobody's.
        """
        try:
            self._prove()
        except Exception as error:
            said = f"not all of it may be made any more ({str(error) or type(error).__name__})"
            raise UnknownError("change VLANs", f"switch {self.name}", said) from error

    def _attempt(self, parts: Sequence[Part]) -> None:
        try:
            self._together(parts)
        except Exception as error:
            for part in parts:
                part.fail(error)


def composed(parts: Sequence[Part], batch_of: Callable[[Asked, Batch], Batch], state: SwitchState) -> Batch:
    """One batch of all parts, each made after those before it; whoever can't be is left out, with its error.

    Args:
        batch_of: what is asked for comes to, after a batch of those before it.
        state: the switch's.
    """
    whole = Batch()
    for part in parts:
        part.batch, part.error = Batch(), None
        try:
            mine = batch_of(part.asked, whole)
            more = joined(whole, mine)
            more.on(state)
            if mine:
                part.asked.fence()
        except Exception as error:  # also of weft's own: the others have nothing to do with it
            part.error = error
        else:
            part.batch, whole = mine, more
    return whole


def _own(error: Exception, lands: bool) -> Exception:
    """The same error for one of several: each is told how long its own change may land."""
    if not isinstance(error, OutsideError):
        return error
    mine = type(error).__new__(type(error), *error.args)
    mine.__dict__.update(error.__dict__)
    mine.__cause__, mine.lands = error.__cause__, error.lands if lands else 0.0
    return mine
