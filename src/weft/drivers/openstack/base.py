"""What every kind of resource has in common: rows as listed, the mark on them, and one call's surroundings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.session import Json, Project
from weft.model.errors import PermanentError, WeftError
from weft.model.mark import Mark
from weft.model.resources import Difference, Kind, Observed, Outcome, Resource, Status
from weft.ports.podkeys import PodKeys
from weft.ports.resources import Scope

Fields = Mapping[str, Any]
"""Name of a spec's field -> value with the cloud's ids in it; both what is wanted and what is seen."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing as a listing shows it. `created` sorts by age (ISO 8601, as the services give it)."""

    id: str
    name: str
    mark: Mark | None
    project_id: str | None
    created: str
    raw: Json

    @property
    def age(self) -> tuple[str, str]:
        return (self.created, self.id)


@dataclass(frozen=True, slots=True)
class Call:
    """The surroundings of one call of the driver.

    Attributes:
        project: services with a token of the pod's project.
        own: services with a token of the service user's own project.
        tenant: services with a token of the tenant's project; `project`, unless the resources are the site's own.
        keys: the pod's keys, for user data; none: there are none.
        ids: key of a resource of the pod -> its outside id.
        spread: runs calls a few at a time; what it runs must not spread again.
    """

    scope: Scope
    project: Project
    own: Project
    ids: Mapping[str, str]
    lookups: Lookups
    tenant: Project
    keys: PodKeys | None
    spread: ThreadPoolExecutor = field(repr=False)

    def id_of(self, key: str) -> str:
        """The outside id of a needed resource. Raises `PermanentError`: the loop has gone too early."""
        try:
            return self.ids[key]
        except KeyError:
            raise PermanentError(
                f"use {key} of pod {self.scope.pod_name}",
                "weft",
                "its id isn't known",
                "tell weft's developers",
            ) from None

    def text(self, key: str) -> str:
        """The mark as it stands in a description."""
        return self.scope.mark(key).text()


class KindDriver(ABC):
    """One kind of resource: how it is listed, compared, made, mended and removed."""

    kind: ClassVar[Kind]
    mendable: ClassVar[frozenset[str]]
    """Fields that can be changed in place."""

    @abstractmethod
    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[Row]:
        """Everything of this kind that might be the pod's, marked or not, in one listing."""

    @abstractmethod
    def all_rows(self, own: Project) -> list[Row]:
        """Everything of this kind in the cloud that bears any mark of weft."""

    @abstractmethod
    def one_row(self, project: Project, thing_id: str) -> Row | None:
        """That thing now, or None if it isn't there."""

    @abstractmethod
    def wanted(self, call: Call, resource: Resource) -> Fields: ...

    @abstractmethod
    def seen(self, call: Call, row: Row) -> Fields:
        """What is compared with `wanted`; a field that can't be told yet is left out."""

    @abstractmethod
    def status(self, row: Row) -> tuple[Status, str]: ...

    @abstractmethod
    def facts(self, row: Row) -> dict[str, object]: ...

    @abstractmethod
    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]: ...

    @abstractmethod
    def mend(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        """Change these fields in place. Raises the error."""

    @abstractmethod
    def remove(self, project: Project, row: Row) -> None:
        """Ask for removal; that it is absent already is fine. Raises the error."""

    def prepare(self, call: Call, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows with what else must be asked to compare them; called once for all rows that will be observed."""
        return rows

    def observe(self, call: Call, resource: Resource, row: Row) -> Observed:
        """Compare a row with what is wanted."""
        status, reason = self.status(row)
        seen = {"mark": row.mark.text() if row.mark else "none", **self.seen(call, row)}
        wanted = {"mark": call.text(resource.key), **self.wanted(call, resource)}
        differences = tuple(
            Difference(field=name, wanted=as_text(value), observed=as_text(seen[name]))
            for name, value in wanted.items()
            if name in seen and seen[name] != value
        )
        return Observed(row.id, status, reason, differences, self.facts(row))


def as_text(value: object) -> str:
    """A field's value for people."""
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(str(v) for v in value)) or "none"
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


def outcomes_of(
    call: Call, wanted: Sequence[Resource], one: Callable[[Resource], str | None]
) -> dict[str, Outcome]:
    """Do `one` for each resource, a few at a time; an error is that resource's outcome."""

    def guarded(resource: Resource) -> Outcome:
        try:
            return Outcome(one(resource))
        except WeftError as error:
            return Outcome(error=error)

    if len(wanted) == 1:
        return {wanted[0].key: guarded(wanted[0])}
    return dict(zip([r.key for r in wanted], call.spread.map(guarded, wanted), strict=True))


def ours(
    rows: Sequence[Row], scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
) -> dict[str, list[Row]]:
    """Key -> rows that are the pod's, the oldest first.

    A row is the pod's by its mark. One whose mark was taken off (a tenant may edit descriptions) is still the
    pod's if the cloud gave its id to us when we made it.
    """
    found: dict[str, list[Row]] = {}
    keys = {r.key for r in wanted}
    key_of_id = {ids[key]: key for key in keys if key in ids}
    # Ages are whole seconds: of two made in the same one, that which is known stays the one that counts.
    for row in sorted(rows, key=lambda r: (r.created, r.id not in key_of_id, r.id)):
        mark = row.mark
        if mark is not None and (mark.site, mark.pod_id) == (scope.site, scope.pod_id):
            found.setdefault(mark.key, []).append(row)
        elif mark is None and row.id in key_of_id:
            found.setdefault(key_of_id[row.id], []).append(row)
    return {key: rows for key, rows in found.items() if key in keys}
