"""The sessions of one fabric's switches, which are read and changed many at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from weft.drivers.switches.interface import Asked, Switch
from weft.drivers.switches.line import Line
from weft.drivers.switches.vlans import Batch, SwitchState
from weft.model.errors import OutsideError, PermanentError, WeftError
from weft.model.specs import SegmentSpec

AT_ONCE = 16
"""Switches that are asked at a time."""

Edits = Callable[[str, SwitchState], Batch]
"""From a switch's name and what it is to what is to change there."""


class Sessions:
    """Thread-safe; opens no connection yet.

    Attributes:
        by_name: each switch's session; `lines`: the changes that wait for it.
        readers: threads for readings; changes may take as long as a slow switch does, and have others.
    """

    def __init__(self, fabric: str, switches: Sequence[Switch]) -> None:
        self.by_name: Mapping[str, Switch] = {s.name: s for s in switches}
        self.readers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"readings-{fabric}")
        self._changers = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"switches-{fabric}")
        self.lines = {s.name: Line(s, self._changers) for s in switches}

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

    def change(
        self,
        edits: Edits,
        only: Collection[str],
        about: SegmentSpec | None = None,
        own: Sequence[SegmentSpec] = (),
        recent: bool = False,
        save: Collection[str] = (),
    ) -> None:
        """Change some switches, all at once; on each, together with others' changes that wait for it. One without an
        answer makes the outcome unknown; a refusal is reported first, and before it whatever the fence said.

        Args:
            only: the switches; names that the fabric doesn't have are nobody's.
            about, own, recent: as `Asked`.
            save: switches that save even if nothing is to be changed there.
        """
        asked = {
            name: Asked(partial(edits, name), about, own, recent, name in save)
            for name in sorted(self.by_name.keys() & set(only))
        }
        changes = [self.lines[name].ask(one) for name, one in asked.items()]
        errors = [e for change in changes if (e := change.exception()) is not None]
        if errors:
            first = min(errors, key=lambda e: (isinstance(e, WeftError), not isinstance(e, PermanentError)))
            if isinstance(first, OutsideError):
                first.lands = max(e.lands for e in errors if isinstance(e, OutsideError))
            raise first
