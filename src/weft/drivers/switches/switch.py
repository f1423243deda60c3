"""One switch: read, and changed in batches that are confirmed or rolled back, and saved.

This is what all vendors share: one change at a time, nothing outside weft's VLANs and ports, and no trust in an answer
older than weft's own change. Each vendor's interface has its own module.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from weft.drivers.switches.limits import Limits
from weft.drivers.switches.turn import turn
from weft.drivers.switches.vlans import Batch, SwitchState, inverse, joined
from weft.model.errors import OutsideError, PermanentError, TemporaryError, UnknownError
from weft.model.resources import SegmentSpec
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import Neighbour

Edit = Callable[[SwitchState], Batch]
"""From what a switch is to what is to change; called while nobody else of this process changes the switch, and once
more if it was better read again."""

CONFIRM_SECONDS = 10.0
"""How long a change may take until it is read back."""
PAUSE = 0.2
DOUBT_SECONDS = 30.0
"""How long an answer that doesn't show an unconfirmed change is taken for an old one."""
RECENT_SECONDS = 1.0
"""How old a reading may be that a change begins with, if this process has changed nothing since: as old as the proof
that the change may be made."""
FLOOR_SECONDS = 600.0
"""How long a switch's own time is remembered: its clock may be set back."""


class UndoneError(UnknownError):
    """A change failed, and is known not to have been applied or to have been rolled back; it may work the next time."""

    @classmethod
    def of_error(cls, error: UnknownError, more: str = "") -> UndoneError:
        return cls(error.asked, error.of, error.answer + more, alarming=error.alarming)


class Switch(Protocol):
    """What the fabric's driver needs from a switch. Every call may raise `UnknownError` or `PermanentError`."""

    @property
    def name(self) -> str: ...

    @property
    def keeps_names(self) -> bool:
        """Whether the switch stores a VLAN's name."""
        ...

    def read(self, since: float | None = None) -> SwitchState:
        """A reading that began after the call.

        Args:
            since: one that others have begun will do if it began after this moment, in monotonic seconds.
        """
        ...

    def change(
        self,
        edit: Edit,
        about: SegmentSpec | None = None,
        own: Sequence[SegmentSpec] = (),
        *,
        recent: bool = False,
        save: bool = False,
    ) -> SwitchState:
        """Make what `edit` says, read it back and save it; an empty batch changes nothing.

        Args:
            about: the segment that it is about, for switches that can't be read back.
            own: segments of the site's own, whose VLANs and ports may be changed besides those for pods.
            recent: a reading of the last `RECENT_SECONDS` will do to begin with.
            save: also if nothing is to be changed: what was changed may be another process's, which never saved it.
        """
        ...

    def qos(self) -> SwitchQos | str:
        """Its ports' settings for RoCE; text: why it can't say them."""
        ...

    def neighbours(self, ports: Sequence[str]) -> Sequence[Neighbour] | str:
        """What it hears by LLDP on these ports; text: why it can't say it."""
        ...

    def close(self) -> None: ...


class Session(ABC):
    """What all vendors' switches have in common. Thread-safe.

    Args:
        address: where it is reached; other processes of this host change what is there, too.
        monotonic, sleep: of `time`, for tests.
        confirm: seconds within which a change must be read back.
    """

    keeps_names = True
    lands_seconds = DOUBT_SECONDS
    """How long a change may still land of which nobody knows what became; other processes hear of it by the error."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        address: str | None,
        confirm: float = CONFIRM_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name, self.limits, self._address = name, limits, address
        self._confirm_seconds, self._monotonic, self._sleep = confirm, monotonic, sleep
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._floor: tuple[float, float] = (float("-inf"), float("-inf"))
        self._doubts: list[tuple[Batch, float]] = []
        self._latest: tuple[SwitchState, float] | None = None
        self._changes = 0
        self._unsaved = self._kept = False

    @abstractmethod
    def _read(self) -> SwitchState:
        """The switch's current state. Raises `UnknownError`."""

    def _read_since(self, since: float) -> SwitchState:
        """The same; where several switches are read at once, a reading of that time will do."""
        return self._read()

    @abstractmethod
    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        """Make a change; returns the answer's `serial`. Raises `PermanentError` if it was refused or rolled back.

        VLANs that the batch takes off a port are taken off it also if `before` doesn't show them: they may land yet.
        `UnknownError`: nobody knows what was done; `UndoneError`: nothing.
        """

    def _coming(self) -> tuple[SwitchState, ...]:
        """As `SwitchState.coming`. Raises `UnknownError`."""
        return ()

    def _replaces(self, batch: Batch, state: SwitchState) -> bool:
        """Whether a port becomes a trunk, or is none any more: its list is set as a whole, not changed, and a worker of
        another host may have set it just now.
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

    def neighbours(self, ports: Sequence[str]) -> Sequence[Neighbour] | str:
        return "what it hears by LLDP can't be read"

    def read(self, since: float | None = None) -> SwitchState:
        began, changes = self._monotonic(), self._changes
        coming = self._coming()  # first: what has ended meanwhile is in the reading
        state = self._fresh(since)
        if self._doubted(state):
            said = "it may not show weft's last change yet"
            raise UnknownError("read the configuration", f"switch {self.name}", said)
        with self._lock:
            if changes == self._changes:
                self._latest = (state, began if since is None else min(began, since))
        return replace(state, unsaved=self._unsaved, coming=coming)

    def change(
        self,
        edit: Edit,
        about: SegmentSpec | None = None,
        own: Sequence[SegmentSpec] = (),
        *,
        recent: bool = False,
        save: bool = False,
    ) -> SwitchState:
        with turn(self._changing, self.name, self._address) as mine:
            known = self._recent(mine.changed) if recent else None
            before = known or self._fresh()
            batch = self._edited(edit, before)
            if known is not None and self._replaces(batch, known):
                before = self._fresh()
                batch = self._edited(edit, before)
            if batch:
                self.limits.check(batch, self.name, own)
                self._outdate()
                mine.begins()
                try:
                    before = self._made(batch, before)
                finally:
                    mine.ends()
                    self._outdate()  # also what was read meanwhile
            if batch or save:
                self._save()
            elif self._unsaved or not self._kept:
                # Another process may have changed it, and have ended before it was saved. A reading says that it
                # isn't; whoever has nothing to change here doesn't depend on it.
                with suppress(OutsideError):
                    self._save()
            return before

    def _save(self) -> None:
        try:
            self._keep()
        except BaseException:
            self._unsaved = True
            raise
        self._unsaved, self._kept = False, True

    def _edited(self, edit: Edit, state: SwitchState) -> Batch:
        """What an edit comes to, also if a change lands yet of which nobody knows what became."""
        batch = edit(state)
        for doubted in self._doubted(state):
            if doubted.ports.keys() <= state.ports.keys():
                batch = joined(edit(doubted.on(state)), batch)
        return batch

    def _doubted(self, state: SwitchState) -> list[Batch]:
        """Changes of which nobody knows what became, and which a reading doesn't show."""
        now = self._monotonic()
        with self._lock:
            self._doubts = [(b, until) for b, until in self._doubts if now < until and not b.done(state)]
            return [b for b, _ in self._doubts]

    def _made(self, batch: Batch, before: SwitchState) -> SwitchState:
        """Send it and wait until it is read back."""
        wanted, unsure = batch.on(before), True
        try:
            try:
                self._raise_floor(self._send(batch, before, wanted))
            except (PermanentError, UndoneError):
                unsure = False
                raise
            if (seen := self._await(batch)) is not None:
                unsure = False
                with self._lock:
                    # What was sent before it has landed by now, or never will, where it says something else itself.
                    self._doubts = [(b, until) for b, until in self._doubts if not batch.overrides(b)]
                return seen
            try:
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
                with self._lock:
                    self._doubts.append((batch, self._monotonic() + DOUBT_SECONDS))

    def _await(self, batch: Batch) -> SwitchState | None:
        end = self._monotonic() + self._confirm_seconds
        while True:
            try:
                seen = self._fresh()
                if batch.done(seen):
                    return seen
            except TemporaryError:
                pass  # an old answer, or none: try the next one
            if self._monotonic() >= end:
                return None
            self._sleep(PAUSE)

    def _recent(self, changed: float) -> SwitchState | None:
        """The last reading, if it is young enough, and weft has changed nothing since it began: neither this process
        nor, by their turns, others of this host.
        """
        with self._lock:
            state, began = self._latest or (None, float("-inf"))
        return state if began > changed and self._monotonic() - began <= RECENT_SECONDS else None

    def _outdate(self) -> None:
        with self._lock:
            self._changes += 1
            self._latest = None

    def _fresh(self, since: float | None = None) -> SwitchState:
        """A reading that is no older than an earlier one; than one of meanwhile it may be."""
        with self._lock:
            floor, when = self._floor
        state = self._read() if since is None else self._read_since(since)
        if state.serial < floor and self._monotonic() - when < FLOOR_SECONDS:
            said = "the answer is older than one before it"
            raise UnknownError("read the configuration", f"switch {self.name}", said)
        self._raise_floor(state.serial)
        return state

    def _raise_floor(self, serial: float) -> None:
        now = self._monotonic()
        with self._lock:
            floor, when = self._floor
            if serial >= floor or now - when >= FLOOR_SECONDS:
                self._floor = (serial, now)

    def refused(self, answer: str, then: str = "see the switch's own log") -> PermanentError:
        return PermanentError("change VLANs", f"switch {self.name}", answer, then)

    def unknown(self, asked: str, answer: str) -> UnknownError:
        return UnknownError(asked, f"switch {self.name}", answer)
