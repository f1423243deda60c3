"""Placeholder for a driver whose Python packages aren't installed: calls fail, and say what to install."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from weft.model.errors import PermanentError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.resources import AnyKind, Marked, Outcome, Resource
from weft.ports.resources import Ids, Observations, Outcomes, Scope


class NotInstalled:
    """A `MachineDriver` and `HandoverTest` whose every call raises the same `PermanentError`: everything there is
    unknown."""

    def __init__(self, error: PermanentError) -> None:
        self._error = error

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return kinds_at(Home.MACHINES)

    def unfit(self) -> Mapping[str, str]:
        self._fail()

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        self._fail()

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        self._fail()

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        self._fail()

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        self._fail()

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        self._fail()

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        self._fail()

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        self._fail()

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        self._fail()

    def _fail(self) -> NoReturn:
        raise PermanentError(self._error.asked, self._error.of, self._error.answer, self._error.then)
