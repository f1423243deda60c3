"""What all kinds of resources share: listed rows, the mark on them, the context of one call, and the one
place that decides that something is absent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar

from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.mark import Mark
from weft.model.resources import Difference, Kind, Observed, Outcome, Resource, Status
from weft.ports.fences import unfenced
from weft.ports.podkeys import PodKeys
from weft.ports.resources import Scope

Fence = Callable[[], None]
"""See `Scope.fence`."""
Fields = Mapping[str, Any]
"""Name of a spec's field -> its value, with the cloud's ids in it; for desired and observed values."""


@dataclass(frozen=True, slots=True)
class ListedResource:
    """One resource as listed. `created` sorts by age (ISO 8601, as returned by the services)."""

    id: str
    name: str
    mark: Mark | None
    project_id: str | None
    created: str
    raw: Json

    @property
    def age(self) -> tuple[str, str]:
        """Sorts rows from the oldest on."""
        return (self.created, self.id)


@dataclass(frozen=True, slots=True)
class Call:
    """The context of one driver call.

    Attributes:
        project: services with a token of the pod's project.
        own: services with a token of the service user's own project.
        tenant: services with a token of the tenant's project; `project`, unless the resources are the site's own.
        keys: the pod's keys, for user data; None: there are none.
        ids: key of a resource of the pod -> its cloud id.
        spread: runs calls with limited concurrency; they must not spread again.
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
        """The cloud id of a dependency. Raises `PermanentError`: the loop called too early."""
        try:
            return self.ids[key]
        except KeyError:
            raise PermanentError(
                f"use {key} of {self.scope.owner.kind} {self.scope.name}",
                "weft",
                "its id isn't known",
                "report this bug",
            ) from None

    def text(self, key: str) -> str:
        """The mark as written in a description."""
        return self.scope.mark(key).text()


class KindDriver(ABC):
    """One kind of resource: how it is listed, compared, created, repaired and removed."""

    kind: ClassVar[Kind]
    threads: ClassVar[str]
    """The service's type, which selects the pool of threads: waiting for one service doesn't delay
    another."""
    updatable: ClassVar[frozenset[str]]
    """Fields that can be changed in place."""
    no_such_id: ClassVar[str] = "404 by its id"
    """Proof that nothing with a known id exists, in words for receipts."""
    by_project: ClassVar[bool] = False
    """Whether the audit lists it with each project's token (`project_rows`): listing all at once takes an
    administrator."""
    by_own_project: ClassVar[bool] = False
    """Whether it is asked with a token of the service user's own project, not the pod's."""
    by_policy: ClassVar[bool] = False
    """Whether listing it requires a policy that only sites with such resources have."""

    def serves(self, resource: Resource) -> bool:
        """Whether this driver creates the resource: servers have two drivers."""
        return resource.kind is self.kind

    def knows(self, thing_id: str) -> bool:
        """Whether an id of this kind belongs to this driver."""
        return True

    @abstractmethod
    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        """Everything of this kind that might be the pod's, marked or not, in one listing."""
        ...

    @abstractmethod
    def all_rows(self, own: Project) -> list[ListedResource]:
        """Everything of this kind in the cloud that carries any mark of weft."""
        ...

    @abstractmethod
    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        """That resource now; None only if the service itself says that it doesn't exist. Raises `UnknownError`."""
        ...

    def project_rows(self, project: Project) -> list[ListedResource]:
        """Everything of this kind in one project, marked or not; for kinds `by_project`."""
        raise AssertionError(f"{self.kind} isn't listed by project")

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        """Remove weft's mark from a resource that stays, and give it the name under which it stays. Raises the
        error."""
        raise AssertionError(f"a {self.kind} never stays")

    def is_given_back(self, row: ListedResource) -> bool:
        """Whether a resource that stays, and has lost weft's mark, has nothing else of weft's either."""
        return True

    def kept(self, call: Call, row: ListedResource) -> str:
        """Where it stays, for the receipt."""
        raise AssertionError(f"a {self.kind} never stays")

    def proof(self, call: Call, resource: Resource, text: str) -> str:
        """What proves that it is absent, for the receipt.

        Args:
            text: the usual proof: neither listed nor found by its id, and what was seen instead.
        """
        return text

    @abstractmethod
    def control(self, call: Call) -> str:
        """See, with the same token, something that weft knows to exist; returns what it was, for the receipt.

        Some services answer with an empty list, and 404, to callers without permission. Raises `UnknownError` if it
        isn't seen: then nothing else that wasn't seen counts as absent.
        """
        ...

    def project(self, call: Call) -> Project:
        """The project whose token this kind needs."""
        return call.own if self.by_own_project else call.project

    def wanted(self, call: Call, resource: Resource) -> Fields:
        """What its row must have besides the mark."""
        return {}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        """What is compared with `wanted`; fields that can't be determined yet are left out."""
        return {}

    def status(self, row: ListedResource) -> tuple[Status, str]:
        """Status of a row, and the reason. Most kinds are settled as soon as they exist."""
        return Status.SETTLED, ""

    def facts(self, row: ListedResource) -> dict[str, object]:
        """Facts of a row for the resource's record, such as addresses."""
        return {}

    @abstractmethod
    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        """Create what is missing, in few requests; an error of one is its outcome."""
        ...

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        """Change these fields, which are `updatable`, in place. Raises the error."""
        raise AssertionError(f"a {self.kind} can't be changed")

    @abstractmethod
    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """Request removal; fine if it is absent already. Raises the error.

        Args:
            fence: was called right before; again before each request that may come late.
        """

    def remove_left(self, project: Project, row: ListedResource) -> None:
        """Remove a resource with the mark of an owner that is gone, identified by that mark alone. Raises the error."""
        self.remove(project, row, unfenced)

    def prepare(self, call: Call, rows: Sequence[ListedResource]) -> Sequence[ListedResource]:
        """Rows with whatever else must be read to compare them; called once for all rows to observe."""
        return rows

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        """Compare a row with the desired state."""
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
    """A field's value in words."""
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(str(v) for v in value)) or "none"
    if value is None or isinstance(value, bool):
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


def outcomes_of(
    call: Call, wanted: Sequence[Resource], one: Callable[[Resource], str | None]
) -> dict[str, Outcome]:
    """Run `one` for each resource, with limited concurrency; an error is that resource's outcome."""

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
    rows: Sequence[ListedResource], scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
) -> dict[str, list[ListedResource]]:
    """Key -> rows that are the pod's: the one with the known id, then the oldest.

    A row is the pod's by the id that the cloud returned when it was created, whatever its description says: tenants can
    edit descriptions. If no id is known, because an answer was lost, it is the pod's by its mark (not where the scope
    is of ids alone).
    """
    found: dict[str, list[ListedResource]] = {}
    keys = {r.key for r in wanted}
    key_of_id = {ids[key]: key for key in keys if key in ids}
    for row in sorted(rows, key=lambda r: (r.id not in key_of_id, r.created, r.id)):
        mark = row.mark
        if row.id in key_of_id:
            found.setdefault(key_of_id[row.id], []).append(row)
        elif not scope.by_id and mark is not None and (mark.site, mark.owner) == (scope.site, scope.owner):
            found.setdefault(mark.key, []).append(row)
    return {key: rows for key, rows in found.items() if key in keys}


@dataclass(frozen=True, slots=True)
class Presence:
    """What was seen of a batch of one kind.

    Attributes:
        rows: key -> rows that are the pod's, the decisive one first.
        proofs: key -> what proves that there is none. Every key of the batch is in one of the two.
    """

    rows: Mapping[str, list[ListedResource]]
    proofs: Mapping[str, str]


def look(kind: KindDriver, call: Call, wanted: Sequence[Resource]) -> Presence:
    """The one place that decides that something is absent, which requires three things:

    a listing that was answered with the collection, and doesn't contain it; if its id is known, a GET by that id that
    the service itself answered with 404; and, with the same token in the same pass, the sight of something known
    to exist. Raises `UnknownError` otherwise.
    """
    listed = kind.rows(call, wanted)
    shown = {row.id for row in listed}
    hidden = [(r, call.ids[r.key]) for r in wanted if call.ids.get(r.key, "") not in {"", *shown}]
    project = kind.project(call)
    # What a listing omits may exist all the same: filtered by a removed tag, soft-deleted, delayed.
    single = list(call.spread.map(lambda one: kind.one_row(project, one[1]), hidden))
    for (resource, known), row in zip(hidden, single, strict=True):
        if row is not None and row.id != known:
            seen = f"the answer about {known[:80]} is about another {kind.kind}, {row.id[:80]}"
            raise UnknownError(f"read {kind.kind} {resource.name}", "the cloud", seen)
    rows = ours([*listed, *(row for row in single if row is not None)], call.scope, wanted, call.ids)
    absent = [r for r in wanted if r.key not in rows]
    if not absent:
        return Presence(rows, {})
    control = kind.control(call)
    asked = {r.key for r, _ in hidden}
    phrases = {
        True: f"{kind.no_such_id}, and not among the {len(listed)} listed",
        False: f"not among the {len(listed)} listed",
    }
    where = f"project {call.scope.project_id}"
    proofs = {r.key: f"{phrases[r.key in asked]} in {where}; {control}" for r in absent}
    return Presence(rows, {r.key: kind.proof(call, r, proofs[r.key]) for r in absent})
