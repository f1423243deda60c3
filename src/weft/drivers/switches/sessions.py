"""The sessions of one fabric's switches, which are read and changed concurrently."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from weft.drivers.joined import Joined, Submission
from weft.drivers.switches.interface import Asked, SwitchDriver
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.vlans import Batch, SwitchState
from weft.model.errors import OutsideError, PermanentError, WeftError
from weft.model.specs import SegmentSpec
from weft.ports.fences import Fence, unfenced

AT_ONCE = 16
"""Number of switches that are asked concurrently."""
MOST_TOGETHER = 64
"""Most changes of a switch that are made at once, since the size of a request is limited."""
SAVE_SECONDS = 30.0
"""Seconds between attempts to save a configuration."""

Edits = Callable[[str, SwitchState], Batch]
"""Makes the changes of a switch from its name and state."""


class SwitchSessions:
    """The sessions of one fabric's switches. Thread-safe; opens no connection yet.

    Attributes:
        by_name: each switch's session; `lines`: its queue of changes.
        readers: threads for readings; changes, which may be slow, have other threads.
        save_seconds: see `SAVE_SECONDS`.
    """

    def __init__(
        self, fabric: str, switches: Sequence[SwitchDriver], save_seconds: float = SAVE_SECONDS
    ) -> None:
        self.by_name: Mapping[str, SwitchDriver] = {s.name: s for s in switches}
        self.readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"readings-{fabric}")
        self._changers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"switches-{fabric}")
        self.lines = {s.name: _line(s, self._changers) for s in switches}
        self._lock, self._save_seconds = threading.Lock(), save_seconds
        self._saving: dict[str, float] = {}

    def close(self) -> None:
        for pool in (self._changers, self.readers):
            pool.shutdown(wait=False, cancel_futures=True)
        for session in self.by_name.values():
            session.close()

    def read(self, since: float) -> tuple[Mapping[str, SwitchState], Mapping[str, str]]:
        """State of each switch, read at this moment (monotonic) or later, and why others could not be read,
        by name."""

        def one(session: SwitchDriver) -> SwitchState | OutsideError:
            try:
                return session.read(since)
            except OutsideError as error:
                return error

        answers = dict(zip(self.by_name, self.readers.map(one, self.by_name.values()), strict=True))
        states = {s: a for s, a in answers.items() if isinstance(a, SwitchState)}
        return states, {s: a.answer for s, a in answers.items() if isinstance(a, OutsideError)}

    def save(self, names: Collection[str]) -> None:
        """Have switches save their configurations, unless that was tried recently; a reading shows the
        result."""
        now = time.monotonic()
        with self._lock:
            due = [n for n in names if now - self._saving.get(n, float("-inf")) >= self._save_seconds]
            self._saving.update(dict.fromkeys(due, now))
        for name in due:
            self.lines[name].ask(Submission(Asked(lambda _: Batch(), save=True)))

    def change(
        self,
        edits: Edits,
        only: Collection[str],
        about: SegmentSpec | None = None,
        own: Sequence[SegmentSpec] = (),
        recent: bool = False,
        save: Collection[str] = (),
        fence: Fence = unfenced,
        silent: Collection[str] = (),
    ) -> None:
        """Change some switches concurrently; on each, together with other waiting changes. A switch without
        an answer makes the outcome unknown. A fence's error takes precedence, then a refusal, unless
        something may still take effect: then a lost owner reports that, too.

        Args:
            only: the switches; names unknown to the fabric are ignored.
            about, own, recent, fence: as in `Asked`.
            save: switches that save even if nothing is to be changed there.
            silent: switches that may fail without consequence if nothing was sent there.
        """
        asked = {
            name: Asked(partial(edits, name), about, own, recent, name in save, fence)
            for name in sorted(self.by_name.keys() & set(only))
        }
        changes = {name: self.lines[name].ask(Submission(one)) for name, one in asked.items()}
        failed = {name: e for name, change in changes.items() if (e := change.exception()) is not None}
        lands = max((e.lands for e in failed.values() if isinstance(e, OutsideError)), default=0.0)
        errors = [e for name, e in failed.items() if name not in silent or not _is_nothing(e)]
        if errors:
            first = min(errors, key=lambda e: (isinstance(e, WeftError), not isinstance(e, PermanentError)))
            if lands and not isinstance(first, OutsideError):
                first = next(e for e in errors if isinstance(e, OutsideError) and e.lands == lands)
            if isinstance(first, OutsideError):
                first.lands = lands
            raise first


def _line(switch: SwitchDriver, pool: Executor) -> Joined[Submission[Asked]]:
    """The queue of a switch's changes. Each one's fence is tested by the switch, after it has been read."""

    def make(parts: Sequence[Submission[Asked]]) -> None:
        errors = switch.change_all([part.edit for part in parts])
        for part, error in zip(parts, errors, strict=True):
            part.error = error

    def closed() -> UndoneError:
        said = "weft doesn't use this site any more"
        return UndoneError("change VLANs", f"switch {switch.name}", said)

    return Joined(make, pool, closed, MOST_TOGETHER)


def _is_nothing(error: BaseException) -> bool:
    """Whether the error shows that the change has had no effect, and can't have any."""
    return isinstance(error, OutsideError) and not error.lands
