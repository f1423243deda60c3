"""What Manila's and Cinder's resources have in common: the mark as description, and handing over what
stays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from weft.drivers.openstack.base import Call, Fence, KindDriver, ListedResource, ours, outcomes_of
from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project
from weft.model.errors import WeftError
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import Outcome, Resource, Status
from weft.model.specs import ShareSpec, VolumeSpec
from weft.model.uses import InUseError, Use

GOING = frozenset({"deleting", "deferred_deleting"})
REFUSED = (400, 403, 409)
"""Statuses of a refused deletion: something depends on it, or it is locked or in use."""


class StorageKind(KindDriver):
    """A share or a volume: data with a size, in a project."""

    by_project = True
    item: ClassVar[str]
    collection: ClassVar[str]
    settled: ClassVar[frozenset[str]]
    updatable: ClassVar[frozenset[str]] = frozenset({"mark"})

    @abstractmethod
    def service(self, project: Project) -> CloudService:
        """The API that has it."""
        ...

    @abstractmethod
    def body(self, call: Call, resource: Resource) -> Json:
        """Body of the creation, without name and mark."""
        ...

    @abstractmethod
    def named(self, name: str, description: str) -> Json:
        """Body of a PUT that changes both."""
        ...

    @abstractmethod
    def clear(self, project: Project, row: ListedResource) -> str:
        """Remove what others put on it and prevents its deletion; returns what that was, or an empty
        string."""
        ...

    @abstractmethod
    def uses(self, project: Project, row: ListedResource) -> list[Use]:
        """What prevents its deletion now. Raises `UnknownError`."""
        ...

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        return self.project_rows(call.project)

    def project_rows(self, project: Project) -> list[ListedResource]:
        asked, path = outside.REQUEST(verb="list", what=self.collection), f"/{self.collection}/detail"
        return [self.row(raw) for raw in self.service(project).listing(asked, path, self.collection)]

    def all_rows(self, own: Project) -> list[ListedResource]:
        return []  # `by_project`

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked, path = f"read {self.item} {thing_id}", f"/{self.collection}/{thing_id}"
        raw = self.service(project).item_or_absent(asked, path, self.item, thing_id)
        return None if raw is None else self.row(raw)

    def row(self, raw: Json) -> ListedResource:
        """A row of a listing; the mark is its description."""
        mark = Mark.parse(raw.get("description") or "")
        owner = raw.get("project_id") or raw.get("os-vol-tenant-attr:tenant_id")
        return ListedResource(raw["id"], raw.get("name") or "", mark, owner, raw.get("created_at") or "", raw)

    def control(self, call: Call) -> str:
        return types_seen(self.service(call.project), self.item)

    def status(self, row: ListedResource) -> tuple[Status, str]:
        status = str(row.raw["status"])
        if status in self.settled:
            return Status.SETTLED, ""
        if status in GOING:
            return Status.PENDING, outside.BEING_DELETED()
        if "error" in status:
            return Status.BROKEN, f"{self.item} is in status {status}"
        return Status.PENDING, outside.STATE_OF_CLOUD(state=status)

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"gib": row.raw.get("size"), "status": row.raw["status"]}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        """Create what is missing. Neither service has unique names, so what a request without an answer may have
        created is searched for first."""
        there = ours(self.rows(call, wanted), call.scope, wanted, {})

        def one(resource: Resource) -> str:
            if resource.key in there:
                return there[resource.key][0].id
            service, asked = (
                self.service(call.project),
                outside.REQUEST(verb="create", what=f"{self.item} {resource.name}"),
            )
            named = {"name": resource.name, "description": call.text(resource.key)}
            body = {self.item: {**named, **self.body(call, resource)}}
            answer = service.ask(asked, "POST", f"/{self.collection}", json=body)
            return str(service.part(asked, answer, self.item, reading=False)["id"])

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        if "mark" in fields:
            self._rename(call.project, row, resource.name, call.text(resource.key))

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        spec = resource.spec
        assert isinstance(spec, ShareSpec | VolumeSpec) and spec.kept_as is not None
        self._rename(
            call.project, row, spec.kept_as, f"kept from pod {call.scope.name} ({call.scope.owner.id})"
        )

    def kept(self, call: Call, row: ListedResource) -> str:
        return (
            f"{self.item} {row.id} ({row.raw.get('size')} GiB) stays in project {row.project_id} as {row.name}, "
            "without weft's mark"
        )

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        if row.raw["status"] in GOING:
            return
        asked, service = outside.REQUEST(verb="delete", what=f"{self.item} {row.name}"), self.service(project)
        answer = service.ask(asked, "DELETE", f"/{self.collection}/{row.id}", ok=(404, *REFUSED))
        if answer.status not in REFUSED:
            return
        cleared, uses = self.clear(project, row), list[Use]()
        seen = f"{answer.sentence()}; removed from it: {cleared}" if cleared else answer.sentence()
        try:
            uses = self.uses(project, row)
        except WeftError as unread:
            seen = f"{seen}; what uses it is unknown: {unread}"
        owner = row.mark.owner.kind if row.mark is not None else "pod"
        raise InUseError(
            asked,
            service.name,
            seen,
            alarming=not cleared,
            uses=uses,
            project_id=project.project_id or "",
            owner=owner,
        )

    def _rename(self, project: Project, row: ListedResource, name: str, description: str) -> None:
        body = {self.item: self.named(name, description)}
        asked = f"rename {self.item} {row.name}"
        self.service(project).ask(asked, "PUT", f"/{self.collection}/{row.id}", json=body)


def types_seen(service: CloudService, item: str) -> str:
    """Observe the service's types, as proof that the token sees anything: every project sees at least one. Raises
    `UnknownError`."""
    asked, collection = f"list {item} types", "share_types" if item == "share" else "volume_types"
    types = service.listing(asked, "/types", collection)
    if not types:
        raise service.unseen(asked, f"none are shown, and a cloud with {item}s has some")
    return f"{len(types)} {item} types were seen with it"


def addresses_of(call: Call, keys: Iterable[str]) -> Mapping[str, str]:
    """Key of a port -> its current IPv4 address in Neutron; ports that don't exist (yet, or any more) are left out."""
    ids = {call.ids[key]: key for key in keys if key in call.ids}
    found: dict[str, str] = {}
    asked, params = "read the addresses of ports that mount shares", {"fields": ("id", "fixed_ips")}
    for port in call.project.network.listing(asked, "/ports", "ports", params, only={"id": sorted(ids)}):
        addresses = [f["ip_address"] for f in port["fixed_ips"] if ":" not in f["ip_address"]]
        if addresses:
            found[ids[port["id"]]] = addresses[0]
    return found
