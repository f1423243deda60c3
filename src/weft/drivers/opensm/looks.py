"""Readings of single ports, for many pods at a time: requests that wait are combined into one reading of all their
ports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.drivers.joined import Queued, Submission, make_all
from weft.drivers.opensm.observe import IndexedReading


@dataclass(slots=True, eq=False)
class _Look(Submission[tuple[int, ...]]):
    """Ports (GUIDs) that one caller asks about, and the reading that shows them along with those of other callers."""

    seen: IndexedReading | None = field(default=None, kw_only=True)


class Looks(Queued[_Look]):
    """Queue of the readings of single ports of one fabric. Thread-safe.

    Args:
        read: reads the managers' files and the tables of these ports, in bounded time.
    """

    def __init__(self, fabric: str, read: Callable[[tuple[int, ...]], IndexedReading]) -> None:
        super().__init__(self._make, "looks", "read ports' tables", f"the agents of {fabric}", paced=True)
        self._read = read

    def look(self, ports: tuple[int, ...], patient: bool = False) -> IndexedReading:
        """A reading of these ports that began after the call.

        Args:
            patient: it may begin a moment later (`weft.drivers.pace`).

        Raises what the reading raises, in all callers whose ports were in it.
        """
        mine = _Look(ports)
        self.line.ask(mine, patient).result()
        assert mine.seen is not None
        return mine.seen

    def _make(self, looks: Sequence[_Look]) -> None:
        make_all(looks, self._attempt, self._closed, 0.0)

    def _attempt(self, looks: Sequence[_Look]) -> None:
        seen = self._read(tuple(sorted({guid for look in looks for guid in look.edit})))
        for look in looks:
            look.seen = seen
