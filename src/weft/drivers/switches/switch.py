"""One switch: read, and changed in batches that are confirmed or rolled back, and saved.

All vendors share this: one change at a time, nothing outside weft's VLANs and ports, and no trust in an
answer that is older than weft's own change. Each vendor's interface has its own module.
"""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from weft.drivers.switches.access import JSON, UnheardError
from weft.drivers.switches.doubts import Doubts
from weft.drivers.switches.floor import OldestAnswer
from weft.drivers.switches.interface import Asked, Edit
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.parts import ChangedTogether, SwitchPart, UndoneError, composed
from weft.drivers.switches.turn import turn
from weft.drivers.switches.vlans import Batch, SwitchState, inverse, joined, within
from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError
from weft.model.portcounters import PortCounters
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import LldpNeighbour

CONFIRM_SECONDS = 10.0
"""Seconds within which a change must be read back."""
DOUBT_SECONDS = 30.0
"""Seconds for which an answer that doesn't show an unconfirmed change counts as outdated."""
RECENT_SECONDS = 1.0
"""Maximum age, in seconds, of the reading that a change starts from, if this process has changed nothing since: the
same as that of the proof that the change may be made."""


def pauses() -> Iterator[float]:
    """Pauses in seconds while a switch completes something: a fifth of the time it has taken so far, so that
    little is added."""
    waited = 0.0
    while True:
        pause = min(max(0.05, waited / 5), 0.2)
        yield pause
        waited += pause


class SwitchSession(ChangedTogether):
    """What all vendors' switches have in common. Thread-safe.

    Args:
        address: where it is reached; other processes of this host change it, too.
        monotonic, sleep: of `time`, for tests.
        confirm: seconds within which a change must be read back.
    """

    keeps_names = True
    media = JSON
    """Media type of requests' bodies, if they have any."""
    serials_go_on = True
    """Whether the serials of its states are times."""
    lands_seconds = DOUBT_SECONDS
    """Seconds for which an unconfirmed change may still take effect; the error says so, for other processes."""

    def __init__(
        self,
        name: str,
        limits: SwitchLimits,
        address: str | None,
        confirm: float = CONFIRM_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, monotonic)
        self.limits, self._address = limits, address
        self._confirm_seconds, self._sleep = confirm, sleep
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._floor = OldestAnswer(self.serials_go_on)
        self._doubts = Doubts(monotonic)
        self._latest: tuple[SwitchState, float] | None = None
        self._changes = 0
        self._unsaved = self._kept = False

    @abstractmethod
    def _read(self) -> SwitchState:
        """The switch's current state. Raises `UnknownError`."""

    def _read_since(self, since: float) -> SwitchState:
        """The switch's current state; where several switches are read together, a reading that began after `since`
        suffices."""
        return self._read()

    @abstractmethod
    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        """Make a change; returns the answer's `serial`. Raises `PermanentError` if it was refused or rolled back.

        VLANs that the batch removes from a port are removed even if `before` doesn't show them: they may
        still appear. Raises `UnknownError` if it isn't known what was done; `UndoneError` if nothing was.
        """

    def _coming(self) -> tuple[SwitchState, ...]:
        """The states in `SwitchState.coming`. Raises `UnknownError`."""
        return ()

    def _replaces(self, batch: Batch, state: SwitchState) -> bool:
        """Whether a port becomes a trunk, or ceases to be one: its list is set as a whole then, and a worker
        on another host may just have set it.
        """
        after = batch.on(state).ports
        return any(after[port].trunk != state.ports[port].trunk for port in batch.ports)

    @abstractmethod
    def _keep(self) -> None:
        """Save the configuration for the next start."""

    def _undo(self, batch: Batch, before: SwitchState) -> None:
        """Roll back a change that could not be read back."""
        back = inverse(batch, before)
        self._send(back, batch.on(before), before)

    @abstractmethod
    def close(self) -> None:
        """Close what is held open."""

    def qos(self) -> SwitchQos | str:
        return "its settings for RoCE can't be read"

    def neighbours(self, ports: Sequence[str]) -> Sequence[LldpNeighbour] | str:
        return "what it hears by LLDP can't be read"

    def counters(self) -> Sequence[PortCounters] | str:
        return "its counters can't be read"

    def links(self) -> Mapping[str, bool] | str:
        return "whether links are up can't be read"

    def read(self, since: float | None = None) -> SwitchState:
        began, changes = self._monotonic(), self._changes
        coming = self._coming()  # read first, so that a change that ends meanwhile is in the reading
        state = self._fresh(since)
        if self._doubted(state):
            said = "it may not show weft's last change yet"
            raise UnknownError("read the configuration", f"switch {self.name}", said)
        with self._lock:
            if changes == self._changes:
                self._latest = (state, began if since is None else min(began, since))
        return replace(state, unsaved=self._unsaved, coming=coming)

    def change(self, edit: Edit, *, recent: bool = False, save: bool = False) -> SwitchState:
        """Make a single change, as in `Asked`. Raises its error; returns the last reading."""
        part = SwitchPart(Asked(edit, recent=recent, save=save))
        state = self._together([part])
        if part.error is not None:
            raise part.error
        return state

    def _together(self, parts: Sequence[SwitchPart]) -> SwitchState:
        with turn(self._changing, self.name, self._address) as mine:
            known = self._recent(mine.changed) if all(p.edit.recent for p in parts) else None
            before = known or self._fresh()
            began = self._monotonic()
            batch = self._composed(parts, before)
            if known is not None and self._replaces(batch, known):
                before = self._fresh()
                began = self._monotonic()
                batch = self._composed(parts, before)
            if batch and not self._is_old(began, parts):
                self._outdate()
                mine.begins()
                try:
                    before = self._made(batch, before, [p.batch for p in parts if p.batch])
                except Exception as error:
                    self._fail(parts, error)
                finally:
                    mine.ends()
                    self._outdate()  # also readings made meanwhile
            self._end(parts)
            return before

    def _fail(self, parts: Sequence[SwitchPart], error: Exception) -> None:
        """Fail the parts. If there are several, each is tried alone: at once if nothing was made, otherwise
        when retried."""
        undone = isinstance(error, OutsideError) and not error.lands
        heard = not isinstance(error.__cause__, UnheardError)
        for part in parts:
            part.fail(error, apart=undone and heard and len(parts) > 1)
        self._apart = not undone and len(parts) > 1

    def _end(self, parts: Sequence[SwitchPart]) -> None:
        """Save the configuration if something was changed; fail the parts if that fails."""
        mine = [p for p in parts if p.error is None and (p.batch or p.edit.save)]
        if mine:
            try:
                self._save()
            except Exception as error:
                for part in mine:
                    part.fail(error)
        elif (self._unsaved or not self._kept) and any(p.error is None for p in parts):
            # Another process may have changed it, and have ended before saving. A reading shows that; callers
            # without a change here don't depend on it.
            with suppress(OutsideError):
                self._save()

    def _save(self) -> None:
        try:
            self._keep()
        except BaseException:
            self._unsaved = True
            raise
        self._unsaved, self._kept = False, True

    def _composed(self, parts: Sequence[SwitchPart], state: SwitchState) -> Batch:
        """The batch of all parts, made to hold even if an unconfirmed change still takes effect."""
        doubted = [b for b in self._doubted(state) if b.ports.keys() <= state.ports.keys()]

        def batch_of(asked: Asked, before: Batch) -> Batch:
            batch = asked.edit(self._shown(before, state))
            for doubt in doubted:
                batch = joined(asked.edit(self._shown(before, doubt.on(state))), batch)
            self.limits.check(batch, self.name, asked.own)
            return batch

        return composed(parts, batch_of, state)

    def _shown(self, batch: Batch, state: SwitchState) -> SwitchState:
        """What a reading would show after a batch."""
        after = batch.on(state)
        if self.keeps_names:
            return after
        return replace(after, vlans={**after.vlans, **dict.fromkeys(batch.define, "")})

    def _doubted(self, state: SwitchState) -> list[Batch]:
        """Unconfirmed changes that a reading doesn't show."""
        return self._doubts.left(state)

    def _made(self, batch: Batch, before: SwitchState, parts: Sequence[Batch]) -> SwitchState:
        """Send a batch and wait until it is read back.

        Args:
            parts: its parts; each is doubted separately.
        """
        wanted, unsure = batch.on(before), True
        try:
            try:
                self._floor.rise(self._send(batch, before, wanted), self._monotonic())
            except (PermanentError, UndoneError):
                unsure = False
                raise
            if (seen := self._await(batch)) is not None:
                unsure = False
                self._doubts.override(batch)
                return seen
            try:
                self._go_on()
                self._undo(batch, before)
            except OutsideError as error:
                said = f"it isn't read back as it was made, and can't be taken back: {error.answer}"
            else:
                unsure, self._unsaved = False, True
                said = "it isn't read back as it was made, and was taken back"
            raise UnknownError("change VLANs", f"switch {self.name}", said)
        except OutsideError as error:
            error.lands = self.lands_seconds if unsure else 0.0
            raise
        finally:
            if unsure:
                self._unsaved = True
                self._doubts.add((within(batch, p) for p in parts), DOUBT_SECONDS)

    def _await(self, batch: Batch) -> SwitchState | None:
        end, between = self._monotonic() + self._confirm_seconds, pauses()
        while True:
            try:
                seen = self._fresh()
                if batch.done(seen):
                    return seen
            except TemporaryError:
                pass  # an outdated answer, or none: try the next one
            if self._monotonic() >= end:
                return None
            self._sleep(next(between))

    def _recent(self, changed: float) -> SwitchState | None:
        """The last reading, if it is recent enough, and weft has changed nothing since it began: neither this
        process nor, according to their turns, others on this host.
        """
        with self._lock:
            state, began = self._latest or (None, float("-inf"))
        return state if began > changed and self._monotonic() - began <= RECENT_SECONDS else None

    def _outdate(self) -> None:
        with self._lock:
            self._changes += 1
            self._latest = None

    def _fresh(self, since: float | None = None) -> SwitchState:
        """A reading that isn't older than those before the call; it may be older than concurrent ones."""
        highest = self._floor.highest
        state = self._read() if since is None else self._read_since(since)
        if not self._floor.takes(state.serial, highest, self._monotonic()):
            said = "the answer is older than one before it"
            raise UnknownError("read the configuration", f"switch {self.name}", said)
        return state

    def refused(self, answer: str, then: str = "see the switch's own log") -> PermanentError:
        """The error of a change that the switch refused."""
        return PermanentError("change VLANs", f"switch {self.name}", answer, then)

    def unknown(self, asked: str, answer: str) -> UnknownError:
        """The error of a request whose outcome isn't known."""
        return UnknownError(asked, f"switch {self.name}", answer)

    @contextmanager
    def reading(self, asked: str) -> Generator[None]:
        """Raise `UnknownError` if parsing an answer fails: an answer of another shape says nothing."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self.unknown(asked, f"its answer can't be read: {error!r}") from None
