"""What every kind of resource has in common: rows as listed, the mark on them, one call's surroundings, and the one
place where it is decided that something is absent."""

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
                f"use {key} of {self.scope.owner.kind} {self.scope.name}",
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
        """That thing now; None only if the service itself says that it has none. Raises `UnknownError`."""

    @abstractmethod
    def control(self, call: Call) -> str:
        """See, by the same token, something of which weft knows that it is there; what it was, for the receipt.

        Some services answer with an empty list, and 404, to a caller who may not look. Raises `UnknownError` if it
        isn't seen: then what else wasn't seen proves nothing.
        """

    def project(self, call: Call) -> Project:
        """Whose token is used for this kind."""
        return call.project

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
        call.scope.fence()
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
    """Key -> rows that are the pod's: that whose id is known, then the oldest.

    A row is the pod's by the id that the cloud gave us when we made it, whatever its description says: tenants may
    edit descriptions. Where no id is known, because an answer was lost, it is the pod's by its mark.
    """
    found: dict[str, list[Row]] = {}
    keys = {r.key for r in wanted}
    key_of_id = {ids[key]: key for key in keys if key in ids}
    for row in sorted(rows, key=lambda r: (r.id not in key_of_id, r.created, r.id)):
        mark = row.mark
        if row.id in key_of_id:
            found.setdefault(key_of_id[row.id], []).append(row)
        elif mark is not None and (mark.site, mark.owner) == (scope.site, scope.owner):
            found.setdefault(mark.key, []).append(row)
    return {key: rows for key, rows in found.items() if key in keys}


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen of a batch of one kind.

    Attributes:
        rows: key -> rows that are the pod's, that which counts first.
        proofs: key -> what proves that there is none. Every key of the batch is in one of the two.
    """

    rows: Mapping[str, list[Row]]
    proofs: Mapping[str, str]


def look(kind: KindDriver, call: Call, wanted: Sequence[Resource]) -> Sight:
    """The one place where something is found to be absent, which takes three things:

    a listing that was answered with the collection, and doesn't show it; where its id is known, a GET by that id that
    the service itself answered with 404; and, by the same token in the same look, the sight of something that is known
    to be there. Raises `UnknownError` for everything else.
    """
    listed = kind.rows(call, wanted)
    shown = {row.id for row in listed}
    hidden = [(r, call.ids[r.key]) for r in wanted if call.ids.get(r.key, "") not in {"", *shown}]
    project = kind.project(call)
    # What a listing leaves out may be there all the same: filtered by a tag that was taken off, soft-deleted, late.
    single = list(call.spread.map(lambda one: kind.one_row(project, one[1]), hidden))
    rows = ours([*listed, *(row for row in single if row is not None)], call.scope, wanted, call.ids)
    absent = [r for r in wanted if r.key not in rows]
    if not absent:
        return Sight(rows, {})
    control = kind.control(call)
    asked = {r.key for r, _ in hidden}
    told = {
        True: f"404 by its id, and not among the {len(listed)} listed",
        False: f"not among the {len(listed)} listed",
    }
    where = f"project {call.scope.project_id}"
    return Sight(rows, {r.key: f"{told[r.key in asked]} in {where}; {control}" for r in absent})
