"""The sessions of one fabric's switches, which are read and changed many at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weft.drivers.switches.interface import Asked, Switch
from weft.drivers.switches.line import Line
from weft.drivers.switches.vlans import Batch, SwitchState
from weft.model.errors import OutsideError, PermanentError, WeftError
from weft.model.specs import SegmentSpec
from weft.ports.fences import Fence, unfenced

AT_ONCE = 16
"""Switches that are asked at a time."""
SAVE_SECONDS = 30.0
"""Between two attempts to save what could not be saved."""

Edits = Callable[[str, SwitchState], Batch]
"""From a switch's name and what it is to what is to change there."""


class Sessions:
    """Thread-safe; opens no connection yet.

    Attributes:
        by_name: each switch's session; `lines`: the changes that wait for it.
        readers: threads for readings; changes may take as long as a slow switch does, and have others.
        save_seconds: see `SAVE_SECONDS`.
    """

    def __init__(self, fabric: str, switches: Sequence[Switch], save_seconds: float = SAVE_SECONDS) -> None:
        self.by_name: Mapping[str, Switch] = {s.name: s for s in switches}
        self.readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"readings-{fabric}")
        self._changers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"switches-{fabric}")
        self.lines = {s.name: Line(s, self._changers) for s in switches}
        self._lock, self._save_seconds = threading.Lock(), save_seconds
        self._saving: dict[str, float] = {}

    def close(self) -> None:
        for pool in (self._changers, self.readers):
            pool.shutdown(wait=False, cancel_futures=True)
        for session in self.by_name.values():
            session.close()

    def read(self, since: float) -> tuple[Mapping[str, SwitchState], Mapping[str, str]]:
        """What each switch is, at this moment (monotonic) or later, and why others could not be read, by name."""

        def one(session: Switch) -> SwitchState | OutsideError:
            try:
                return session.read(since)
            except OutsideError as error:
                return error

        answers = dict(zip(self.by_name, self.readers.map(one, self.by_name.values()), strict=True))
        states = {s: a for s, a in answers.items() if isinstance(a, SwitchState)}
        return states, {s: a.answer for s, a in answers.items() if isinstance(a, OutsideError)}

    def save(self, names: Collection[str]) -> None:
        """Have switches save their configurations, if nobody has tried it lately; whoever wants to know reads them."""
        now = time.monotonic()
        with self._lock:
            due = [n for n in names if now - self._saving.get(n, float("-inf")) >= self._save_seconds]
            self._saving.update(dict.fromkeys(due, now))
        for name in due:
            self.lines[name].ask(Asked(lambda _: Batch(), save=True))

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
        """Change some switches, all at once; on each, together with others' changes that wait for it. One without an
        answer makes the outcome unknown; a refusal is reported first, and before it whatever the fence said, unless
        something may land yet: whoever has lost the pod says that, too.

        Args:
            only: the switches; names that the fabric doesn't have are nobody's.
            about, own, recent, fence: as `Asked`.
            save: switches that save even if nothing is to be changed there.
            silent: switches that may have failed, as long as nothing is known to have been sent there.
        """
        asked = {
            name: Asked(partial(edits, name), about, own, recent, name in save, fence)
            for name in sorted(self.by_name.keys() & set(only))
        }
        changes = {name: self.lines[name].ask(one) for name, one in asked.items()}
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


def _is_nothing(error: BaseException) -> bool:
    """Whether nothing was made, nor may be."""
    return isinstance(error, OutsideError) and not error.lands
