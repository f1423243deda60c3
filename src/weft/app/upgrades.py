"""`weft upgrade`: how far a database's upgrade is, and its second half; without the API, on weft's host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.app.backups import database_url
from weft.app.settings import ServeSettings
from weft.engine.base.postgres import address_of
from weft.engine.base.schema import State, WeftProcess, finish_at, known_after
from weft.engine.store.inspection import inspecting
from weft.model.errors import ConflictError
from weft.model.messages import outside

SECONDS = 10.0
"""Limit for connecting, and for each statement of a look."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How far an upgrade is.

    Attributes:
        processes: those at work; `older` of them know fewer after-halves than this version.
    """

    state: State
    processes: Sequence[WeftProcess]

    @property
    def older(self) -> tuple[WeftProcess, ...]:
        """Processes at work that don't know all halves of this version."""
        return tuple(one for one in self.processes if one.halves < known_after())


def look(settings: ServeSettings) -> Upgrade:
    """Read how far the upgrade is; nothing is changed. Raises `ConflictError` for a database without this version's
    tables, and `OutsideError`."""
    with database_url(settings, made=False) as url, inspecting(url, SECONDS) as inspection:
        found = inspection.schema()
        if found is None or not inspection.has_versions():
            raise ConflictError(outside.NO_VERSIONS_YET(database=address_of(url)))
        return Upgrade(found, inspection.processes())


def finish(settings: ServeSettings) -> tuple[str, ...]:
    """Make the halves that come after; returns their names. Raises what `weft.engine.base.schema.finish` raises, and
    `OutsideError`."""
    with database_url(settings, made=False) as url:
        return finish_at(url)
