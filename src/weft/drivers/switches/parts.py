"""Several callers' changes of one switch, made in one change, each with its own outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.drivers.joined import Submission, make_all, own_error
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.turn import TURN_SECONDS
from weft.drivers.switches.vlans import Batch, SwitchState, joined
from weft.model.errors import OutsideError, UnknownError

YOUNG_SECONDS = 1.0
"""Maximum age, in seconds, of the proof that a change may be made (`weft.engine.hold.fence`) when the change is
sent."""


class UndoneError(UnknownError):
    """A change failed, and is known not to have been applied, or to have been rolled back; it may succeed the
    next time."""

    @classmethod
    def of_error(cls, error: UnknownError, more: str = "") -> UndoneError:
        """The error as that of a change that is known not to be in effect. Args: more: appended to the answer."""
        return cls(error.asked, error.of, error.answer + more, alarming=error.alarming)


@dataclass(slots=True, eq=False)
class SwitchPart(Submission[Asked]):
    """One of several changes of a switch that are made together.

    Attributes:
        batch: its effect after the changes before it.
    """

    batch: Batch = field(default_factory=Batch)

    def fail(self, error: Exception, apart: bool = False) -> None:
        """Fail this part. If it changes nothing, the error doesn't say that it may still take effect."""
        if self.error is None:
            self.error, self.apart = own_error(error), apart
            if isinstance(self.error, OutsideError) and not self.batch:
                self.error.lands = 0.0


class ChangedTogether(ABC):
    """A switch that is changed by one caller of `change_all` at a time.

    Args:
        monotonic: monotonic seconds.
    """

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self.name, self._monotonic = name, monotonic
        self._making: Sequence[SwitchPart] = ()
        self._proved = float("-inf")
        self._apart = False  # for the next changes, after an outcome that is unknown and can't be attributed

    @abstractmethod
    def _together(self, parts: Sequence[SwitchPart]) -> object:
        """Make the parts in one change. Raises an error that concerned all of them before anything was sent."""

    def change_all(self, asked: Sequence[Asked]) -> Sequence[Exception | None]:
        """See `SwitchDriver.change_all`."""
        parts = [SwitchPart(one) for one in asked]
        each, self._apart = self._apart, False
        make_all(parts, self._together, self._no_time, TURN_SECONDS, each, self._monotonic)
        return [p.error for p in parts]

    def _no_time(self) -> UndoneError:
        said = f"others were changed one by one for {TURN_SECONDS:.0f} s before it"
        return UndoneError("change VLANs", f"switch {self.name}", said)

    def _is_old(self, began: float, parts: Sequence[SwitchPart]) -> bool:
        """Whether checking the fences took too long. If so, several parts are tried one by one; for a single one, the
        fence is checked again.
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
        """Check all fences again if the last check is too old. Raises a fence's error."""
        now = self._monotonic()
        if now - self._proved >= YOUNG_SECONDS:
            for part in self._making:
                part.edit.fence()
            self._proved = now

    def _go_on(self) -> None:
        """Call before each further request of a change, since earlier ones may have taken long. Raises
        `UnknownError` if the rest must not be sent, for any part.
        """
        try:
            self._prove()
        except Exception as error:
            said = f"not all of it may be made any more ({str(error) or type(error).__name__})"
            raise UnknownError("change VLANs", f"switch {self.name}", said) from error


def composed(
    parts: Sequence[SwitchPart], batch_of: Callable[[Asked, Batch], Batch], state: SwitchState
) -> Batch:
    """One batch of all parts, each applied after those before it; a part that can't be applied is left out,
    with its error.

    Args:
        batch_of: the batch of a change, after a batch of those before it.
        state: the switch's state.
    """
    whole = Batch()
    for part in parts:
        part.batch, part.error = Batch(), None
        try:
            mine = batch_of(part.edit, whole)
            more = joined(whole, mine)
            more.on(state)
            if mine:
                part.edit.fence()
        except Exception as error:  # also an internal error: the others are unaffected
            part.error = error
        else:
            part.batch, whole = mine, more
    return whole
