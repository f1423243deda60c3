"""What Neutron's resources have in common: bulk creation, listings in one project, the mark as description."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from weft.drivers.openstack.base import Call, Fence, KindDriver, ListedResource, ours, outcomes_of
from weft.drivers.openstack.errors import QUOTA, CloudAnswer
from weft.drivers.openstack.filters import Filters
from weft.drivers.openstack.onnetworks import ALWAYS
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.uses import in_the_way
from weft.model.errors import TemporaryError, WeftError
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import Outcome, Resource
from weft.model.uses import InUseError, Use

BATCH = 16
"""Resources of one bulk creation: Neutron makes all or none of them, in one answer's time. That grows faster than
their number: 96 ports with names took 42 s at once, 27 s as four requests one after the other, 17 s as four at a time,
and 70 s one by one. With an API of two processes without threads, sizes from 5 to 25 took 5.6 to 6.5 s for 100 ports,
and one by one 16.4 s; eight requests keep an API of more processes busy, too. The time is spent in Neutron's
own processing, about 0.1 s a port, of which a quarter goes to its name in DNS (network and subnets are read
again for each) and a quarter to its address. A port takes 134 database queries, 107 without a name, whatever
its other fields.
"""


class NeutronKind(KindDriver):
    """A resource of Neutron's core or router API."""

    threads = "network"
    collection: ClassVar[str]
    item: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]
    bulk: ClassVar[bool] = True

    @property
    def path(self) -> str:
        """Path of the collection, below `/v2.0`."""
        return "/" + self.collection.replace("_", "-")

    @abstractmethod
    def body(self, call: Call, resource: Resource) -> Json:
        """Body of the creation, without name and mark."""
        ...

    @abstractmethod
    def changes(self, call: Call, resource: Resource, fields: frozenset[str]) -> Json:
        """Body of the PUT that repairs these fields."""
        ...

    def narrowed(self, call: Call, wanted: Sequence[Resource]) -> Filters:
        """Filters of the pod's listing."""
        return {}

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        filters = {"project_id": call.scope.project_id, **self.narrowed(call, wanted)}
        return self._listed(call.project, filters)

    def all_rows(self, own: Project) -> list[ListedResource]:
        return [row for row in self._listed(own, {}) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked, path = f"read {self.item} {thing_id}", f"{self.path}/{thing_id}"
        raw = project.network.item_or_absent(asked, path, self.item, thing_id)
        return None if raw is None else self.row(raw)

    def control(self, call: Call) -> str:
        return default_group(call.project, call.scope.project_id)

    def row(self, raw: Json) -> ListedResource:
        """A row of a listing; the mark is its description."""
        mark = Mark.parse(raw.get("description") or "")
        return ListedResource(
            id=raw["id"],
            # A floating IP has no name of its own.
            name=raw.get("name") or (mark.name() if mark else ""),
            mark=mark,
            project_id=raw.get("project_id"),
            created=raw.get("created_at") or "",
            raw=raw,
        )

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        """Create in bulk, several requests at a time. After a refusal, resources that exist already are used,
        and the rest is created one by one. Raises the error of a single request; of several, it is the
        outcome of the resources in it."""
        if len(wanted) == 1 or not self.bulk:
            call.scope.fence()
            return self._create_singly(call, wanted)
        batches = [wanted[start : start + BATCH] for start in range(0, len(wanted), BATCH)]
        if len(batches) == 1:
            call.scope.fence()
            return self._made(call, wanted, self._ask_bulk(call, wanted))

        def ask(batch: Sequence[Resource]) -> CloudAnswer | WeftError:
            call.scope.fence()
            try:
                return self._ask_bulk(call, batch)
            except WeftError as error:
                return error

        outcomes: dict[str, Outcome] = {}
        # Only the requests are spread here: the handling of a refusal spreads its own.
        for batch, answer in zip(batches, list(call.spread.map(ask, batches)), strict=True):
            if isinstance(answer, WeftError):
                outcomes |= {r.key: Outcome(error=answer) for r in batch}
                continue
            call.scope.fence()
            outcomes |= self._made(call, batch, answer)
        return outcomes

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        body = self.changes(call, resource, fields)
        if "mark" in fields:
            body["description"] = call.text(resource.key)
        if body:
            asked = outside.REQUEST(verb="update", what=f"{self.item} {resource.name}")
            answer = call.project.network.ask(asked, "PUT", f"{self.path}/{row.id}", json={self.item: body})
            error = self.dropped(resource, call.project.network.part(asked, answer, self.item, reading=False))
            if error is not None:
                raise error

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        asked, path = outside.REQUEST(verb="delete", what=f"{self.item} {row.name}"), f"{self.path}/{row.id}"
        answer = project.network.ask(asked, "DELETE", path, ok=(404, 409))
        if answer.status == 409:
            error = project.network.error(asked, answer)
            if isinstance(error, TemporaryError):
                raise self._in_use(project, row, error)
            raise error

    def _in_use(self, project: Project, row: ListedResource, error: TemporaryError) -> InUseError:
        """The error with what still uses the resource: a tenant may have put resources of its own on it."""
        owner = row.mark.owner.kind if row.mark is not None else "pod"
        seen, uses = error.answer, list[Use]()
        try:
            uses = in_the_way(project, self.kind, row.id)
        except WeftError as unread:
            seen = f"{seen}; what uses it is unknown: {unread}"
        return InUseError(
            error.asked,
            error.of,
            seen,
            error.then,
            error.delay,
            error.alarming,
            uses,
            project.project_id or "",
            owner,
        )

    def dropped(self, resource: Resource, raw: Json) -> WeftError | None:
        """The error for what the service accepted and then didn't do, by its own answer; None: it did everything."""
        return None

    def created(self, call: Call, resource: Resource, raw: Json) -> None:
        """Called after the creation, for what must follow it, such as a group's rules. Raises the error."""

    def _listed(self, project: Project, filters: Filters) -> list[ListedResource]:
        asked, params = (
            outside.REQUEST(verb="list", what=self.collection),
            {"fields": (*ALWAYS, *self.fields)},
        )
        rows = project.network.listing(asked, self.path, self.collection, params, only=filters)
        return [self.row(raw) for raw in rows]

    def _full_body(self, call: Call, resource: Resource) -> Json:
        return {
            "name": resource.name,
            "description": call.text(resource.key),
            **self.body(call, resource),
        }

    def _ask_bulk(self, call: Call, wanted: Sequence[Resource]) -> CloudAnswer:
        body = {self.collection: [self._full_body(call, r) for r in wanted]}
        return call.project.network.ask(self._asked(call, wanted), "POST", self.path, json=body, ok=_REFUSED)

    def _asked(self, call: Call, wanted: Sequence[Resource]) -> str:
        return f"create {len(wanted)} {self.collection} of {call.scope.owner.kind} {call.scope.name}"

    def _made(self, call: Call, wanted: Sequence[Resource], answer: CloudAnswer) -> dict[str, Outcome]:
        if answer.fine:
            # Neutron answers in the order of the request; the mark verifies that. What isn't in the answer
            # has no outcome, and will be searched for.
            made = answer.body.get(self.collection)
            by_mark: dict[str, Json] = (
                {raw.get("description"): raw for raw in made} if isinstance(made, list) else {}
            )
            there = {r.key: raw for r in wanted if (raw := by_mark.get(call.text(r.key))) is not None}
            return {
                r.key: Outcome(there[r.key].get("id"), self.dropped(r, there[r.key]))
                for r in wanted
                if r.key in there
            }
        if answer.error_type in QUOTA:
            error = call.project.network.error(self._asked(call, wanted), answer)
            return {r.key: Outcome(error=error) for r in wanted}
        there = ours(self.rows(call, wanted), call.scope, wanted, call.ids)
        left = [r for r in wanted if r.key not in there]
        outcomes = {key: Outcome(rows[0].id) for key, rows in there.items()}
        if there and len(left) > 1:
            return outcomes | self._made(call, left, self._ask_bulk(call, left))
        return outcomes | self._create_singly(call, left)

    def _create_singly(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            asked = outside.REQUEST(verb="create", what=f"{self.item} {resource.name}")
            body = {self.item: self._full_body(call, resource)}
            answer = call.project.network.ask(asked, "POST", self.path, json=body, ok=_REFUSED)
            if not answer.fine:
                return self._made_before(call, resource, asked, answer)
            raw = call.project.network.part(asked, answer, self.item, reading=False)
            self.created(call, resource, raw)
            if (error := self.dropped(resource, raw)) is not None:
                raise error
            return str(raw["id"])

        return outcomes_of(call, wanted, one) if wanted else {}

    def _made_before(self, call: Call, resource: Resource, asked: str, answer: CloudAnswer) -> str:
        """A conflict with a resource whose answer was lost is no conflict; any other is an error."""
        if answer.status == 409:
            there = ours(self.rows(call, [resource]), call.scope, [resource], call.ids)
            if resource.key in there:
                return there[resource.key][0].id
        if answer.error_type == "NetworkNotFound" and call.lookups.forget_networks(answer.message):
            # It was recreated since it was looked up by name.
            raise TemporaryError(asked, "network", answer.sentence())
        raise call.project.network.error(asked, answer)


_REFUSED = (400, 404, 409)


def default_group(eyes: Project, project_id: str) -> str:
    """Observe a project's group `default` with a token: Neutron creates it itself, and no tenant can delete
    it. Callers that may not see a project's resources get an empty list, and 404 by id. Returns what was
    seen. Raises `UnknownError` if the group wasn't.
    """
    asked = f"look for the default security group of project {project_id}"
    only, params = {"project_id": project_id, "name": "default"}, {"fields": ("id",)}
    groups = eyes.network.listing(asked, "/security-groups", "security_groups", params, only=only)
    seen = [g["id"] for g in groups if g.get("project_id") == project_id]
    if not seen:
        raise eyes.network.unseen(asked, "Neutron doesn't show it, and every project has one")
    return f"security group default {seen[0]} was seen with it"
