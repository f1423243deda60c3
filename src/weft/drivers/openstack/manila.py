"""Shares (NFS) and their access rules.

Sources: Manila's api-ref (shares, access rules with metadata from microversion 2.45, soft deletion from 2.69, resource
locks from 2.81) and its code for what that omits: a 404 for a share doesn't name it, one for its export
locations does; a request for the rules of a share that doesn't exist is answered with 400.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.sharerules import (
    ADDRESSES,
    DENYING,
    RULES,
    deny,
    foreign_rules,
    in_the_way,
    restore,
    rule_row,
    rules_of,
    unlock,
)
from weft.drivers.openstack.storage import REFUSED, StorageKind, addresses_of, types_seen
from weft.drivers.openstack.storageuses import of_share
from weft.model.errors import NotYetError, PermanentError, TemporaryError, WeftError
from weft.model.messages import outside
from weft.model.resources import Kind, Observed, Outcome, Resource, Status
from weft.model.specs import ShareAccessSpec, ShareSpec
from weft.model.uses import Use

_APPLYING = frozenset({"queued_to_apply", "applying", "queued_to_update", "updating"})
_EXISTS = "exists"
"""A word in Manila's answer (400) that the share already has a rule for the address."""


class Shares(StorageKind):
    """NFS shares. A share may have only the pod's own access rules: others are removed."""

    kind = Kind.SHARE
    threads = "share"
    item, collection = "share", "shares"
    settled = frozenset({"available"})
    updatable = frozenset({"mark", "others", "public"})

    def service(self, project: Project) -> CloudService:
        return project.share

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(ShareSpec)
        share_type = {} if spec.share_type is None else {"share_type": spec.share_type}
        return {"share_proto": "NFS", "size": spec.gib, "is_public": False, **share_type}

    def named(self, name: str, description: str) -> Json:
        return {"display_name": name, "display_description": description}

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked = f"read share {thing_id}"
        answer = project.share.ask(asked, "GET", f"/shares/{thing_id}", ok=(404,))
        if answer.status != 404:
            return self.row(project.share.part(asked, answer, "share"))
        named = project.share.ask(asked, "GET", f"/shares/{thing_id}/export_locations", ok=(404,))
        if not named.proves_absent(thing_id):
            raise project.share.error(asked, named if named.status == 404 else answer, reading=True)
        return None

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        if self.status(row)[0] is not Status.SETTLED:
            return super().observe(call, resource, row)
        return super().observe(call, resource, self._with_rules(call, resource, row))

    def wanted(self, call: Call, resource: Resource) -> Fields:
        return {"others": frozenset[str](), "public": False}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        if RULES not in row.raw:
            return {}
        others = frozenset(str(r["access_to"]) for r in foreign_rules(call, row))
        return {"others": others, "public": bool(row.raw.get("is_public"))}

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        """Make changes in place. Others' access rules are removed first; a failed change doesn't keep the rest from
        being tried."""
        share = call.project.share
        steps: list[Callable[[], object]] = []
        if "others" in fields:
            foreign = foreign_rules(call, self._with_rules(call, resource, row))
            steps += [partial(deny, call.project, row.id, rule["id"]) for rule in foreign]
        if "public" in fields:
            body = {"share": {"is_public": False}}
            steps.append(lambda: share.ask(f"hide share {row.name}", "PUT", f"/shares/{row.id}", json=body))
        steps.append(partial(super().repair, call, resource, row, fields))
        errors: list[WeftError] = []
        for step in steps:
            try:
                step()
            except WeftError as error:
                errors.append(error)
        if errors:
            raise min(errors, key=lambda e: isinstance(e, TemporaryError))

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        """A share in the recycle bin can't be renamed, and would be deleted with it."""
        restore(call.project, row.id)
        super().let_go(call, resource, row)

    def clear(self, project: Project, row: ListedResource) -> str:
        """Remove locks and snapshots: the share was ordered to be deleted with everything on it."""
        gone = unlock(project, row.id)
        asked = f"list snapshots of share {row.name}"
        for one in project.share.listing(asked, "/snapshots/detail", "snapshots", only={"share_id": row.id}):
            path = f"/snapshots/{one['id']}"
            answer = project.share.ask(f"delete snapshot {one['id']}", "DELETE", path, ok=(404, *REFUSED))
            gone += [f"snapshot {one['id']}"] if answer.fine else []
        return ", ".join(gone)

    def uses(self, project: Project, row: ListedResource) -> list[Use]:
        return of_share(project, row.id)

    def _with_rules(self, call: Call, resource: Resource, row: ListedResource) -> ListedResource:
        spec = resource.spec_as(ShareSpec)
        addresses = addresses_of(call, spec.ports)
        return replace(row, raw={**row.raw, RULES: rules_of(call.project, row.id), ADDRESSES: addresses})


class ShareAccess(KindDriver):
    """One rule for each of the pod's addresses. Its mark is in its metadata; it is identified by its id."""

    kind = Kind.SHARE_ACCESS
    threads = "share"
    updatable = frozenset({"mark"})

    def control(self, call: Call) -> str:
        return types_seen(call.project.share, "share")

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        shares = sorted({share for r in wanted if (share := _share(call, r))})
        found = [
            rule_row(raw, share, call.scope.project_id)
            for share in shares
            for raw in rules_of(call.project, share, partial(_is_gone, call.project, share))
        ]
        ports = {r.spec.port for r in wanted if isinstance(r.spec, ShareAccessSpec)}
        addresses = addresses_of(call, ports) if found else {}
        return [replace(row, raw={**row.raw, ADDRESSES: addresses}) for row in found]

    def all_rows(self, own: Project) -> list[ListedResource]:
        """None: rules can be listed for one share only; a share that is gone has none, and other rules are
        tenants' own."""
        return []

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked, path = f"read access rule {thing_id}", f"/share-access-rules/{thing_id}"
        raw = project.share.item_or_absent(asked, path, "access", thing_id)
        return None if raw is None else rule_row(raw, raw["share_id"], project.project_id)

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        spec = resource.spec_as(ShareAccessSpec)
        seen = super().observe(call, resource, row)
        wanted, found = row.raw.get(ADDRESSES, {}).get(spec.port), row.raw["access_to"]
        if wanted is None or wanted == found:
            return seen
        # A rule can't be changed: one with another address is recreated.
        why = f"it is for {found}, and {spec.port} has {wanted}"
        return Observed(row.id, Status.BROKEN, why, seen.differences, seen.facts)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(ShareAccessSpec)
        return {"share": _share(call, resource), "level": "ro" if spec.read_only else "rw"}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        return {"share": row.raw["share_id"], "level": row.raw["access_level"]}

    def status(self, row: ListedResource) -> tuple[Status, str]:
        state = str(row.raw["state"])
        if state == "active":
            return Status.SETTLED, ""
        if state in _APPLYING:
            return Status.PENDING, outside.STATE_OF_CLOUD(state=state)
        if state in DENYING:
            return Status.PENDING, outside.BEING_REVOKED()
        return Status.BROKEN, f"Manila reports the rule in state {state}"

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"address": row.raw["access_to"], "state": row.raw["state"], "share": row.raw["share_id"]}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        addresses = addresses_of(call, {r.spec.port for r in wanted if isinstance(r.spec, ShareAccessSpec)})

        def one(resource: Resource) -> str:
            spec, share = resource.spec, _share(call, resource)
            assert isinstance(spec, ShareAccessSpec)
            asked = outside.REQUEST(verb="create", what=f"access rule {resource.name}")
            address = addresses.get(spec.port)
            if share is None or address is None:
                raise NotYetError(asked, "Manila", "the share or the port isn't there yet")
            rule = {
                "access_type": "ip",
                "access_to": address,
                "access_level": "ro" if spec.read_only else "rw",
                "metadata": {"weft": call.text(resource.key)},
            }
            path, body = f"/shares/{share}/action", {"allow_access": rule}
            answer = call.project.share.ask(asked, "POST", path, json=body, ok=REFUSED)
            if answer.fine:
                return str(call.project.share.part(asked, answer, "access", reading=False)["id"])
            same, hidden = in_the_way(call, rules_of(call.project, share), address)
            for rule in (r for r in same if r["access_to"] == address and r["state"] not in DENYING):
                mark = rule_row(rule, share, None).mark
                if mark is not None and (mark.owner, mark.key) == (call.scope.owner, resource.key):
                    return str(rule["id"])  # a lost answer's
            if same or (hidden and _EXISTS in answer.message):
                return self._instead(call, resource, share, same or hidden, asked)
            if _EXISTS in answer.message:
                raise TemporaryError(asked, "Manila", answer.sentence())  # it is gone meanwhile
            raise call.project.share.error(asked, answer)

        return outcomes_of(call, wanted, one)

    def _instead(self, call: Call, resource: Resource, share: str, others: list[Json], asked: str) -> str:
        """Someone else created a rule for the address, perhaps one of several hidden ones: remove them from
        the pod's own share."""
        spec = resource.spec_as(ShareAccessSpec)
        staying = [str(r["id"]) for r in others if r["state"] not in DENYING]
        if spec.share_id is not None and staying:
            why = f"share {share} has the rule {' or '.join(staying)} for the same address"
            raise PermanentError(asked, "Manila", why, "remove that rule, or release the pod that has it")
        for rule in staying:
            deny(call.project, share, rule)
        names = ", ".join(str(r["id"]) for r in others)
        raise TemporaryError(
            asked, "Manila", f"rule {names} of someone else has the address, and is being revoked"
        )

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        asked, path = (
            outside.REQUEST(verb="update", what=f"access rule {resource.name}"),
            f"/share-access-rules/{row.id}/metadata",
        )
        call.project.share.ask(asked, "PUT", path, json={"metadata": {"weft": call.text(resource.key)}})

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        if row.raw["state"] not in DENYING:
            deny(project, row.raw["share_id"], row.id)


def _is_gone(project: Project, share: str) -> bool:
    return SHARES.one_row(project, share) is None


def export_location(project: Project, share: str) -> str:
    """Where a share is mounted from. Raises `TemporaryError` if it has no export location yet."""
    asked = f"read where share {share} is mounted from"
    answer = project.share.ask(asked, "GET", f"/shares/{share}/export_locations")
    rows = project.share.rows(asked, answer, "export_locations")
    for row in sorted(rows, key=lambda r: (not r.get("preferred"), str(r["path"]))):
        if not row.get("is_admin_only"):
            return str(row["path"])
    raise TemporaryError(asked, "Manila", "it has no export location")


def _share(call: Call, resource: Resource) -> str | None:
    spec = resource.spec_as(ShareAccessSpec)
    return spec.share_id or call.ids.get(spec.share)


SHARES = Shares()
