"""Shares (NFS) and their access rules.

Sources: Manila's api-ref (shares, access rules with metadata from microversion 2.45, soft deletion from 2.69, resource
locks from 2.81) and its code where that is silent: 404 of a share doesn't name it, that of its export locations does;
the rules of a share that doesn't exist are answered with 400.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_network

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, Row, outcomes_of
from weft.drivers.openstack.service import Json, Service
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.storage import REFUSED, StorageKind, addresses_of, types_seen
from weft.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, WeftError
from weft.model.mark import Mark
from weft.model.resources import Kind, Observed, Outcome, Resource, Status
from weft.model.specs import ShareAccessSpec, ShareSpec

LOCKS, SOFT_DELETION = "2.81", "2.69"
"""Microversions."""
RULES, ADDRESSES = "weft:rules", "weft:addresses"
"""Fields that are added to rows: all access rules of a share; addresses of the pod's ports by their keys."""
_APPLYING = frozenset({"queued_to_apply", "applying", "queued_to_update", "updating"})
_DENYING = frozenset({"queued_to_deny", "denying"})
_EXISTS = "exists"
"""In Manila's answer (400) if the share has a rule for the address already."""


class Shares(StorageKind):
    """NFS shares. Only the pod's own rules may be on one: others are removed."""

    kind = Kind.SHARE
    threads = "share"
    item, collection = "share", "shares"
    settled = frozenset({"available"})
    updatable = frozenset({"mark", "others", "public"})

    def service(self, project: Project) -> Service:
        return project.share

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec
        assert isinstance(spec, ShareSpec)
        share_type = {} if spec.share_type is None else {"share_type": spec.share_type}
        return {"share_proto": "NFS", "size": spec.gib, "is_public": False, **share_type}

    def named(self, name: str, description: str) -> Json:
        return {"display_name": name, "display_description": description}

    def one_row(self, project: Project, thing_id: str) -> Row | None:
        asked = f"look at share {thing_id}"
        answer = project.share.ask(asked, "GET", f"/shares/{thing_id}", ok=(404,))
        if answer.status != 404:
            return self.row(project.share.part(asked, answer, "share"))
        named = project.share.ask(asked, "GET", f"/shares/{thing_id}/export_locations", ok=(404,))
        if not named.proves_absent(thing_id):
            raise project.share.error(asked, named if named.status == 404 else answer, reading=True)
        return None

    def observe(self, call: Call, resource: Resource, row: Row) -> Observed:
        if self.status(row)[0] is not Status.SETTLED:
            return super().observe(call, resource, row)
        return super().observe(call, resource, self._with_rules(call, resource, row))

    def wanted(self, call: Call, resource: Resource) -> Fields:
        return {"others": frozenset[str](), "public": False}

    def seen(self, call: Call, row: Row) -> Fields:
        if RULES not in row.raw:
            return {}
        others = frozenset(str(r["access_to"]) for r in _foreign(call, row))
        return {"others": others, "public": bool(row.raw.get("is_public"))}

    def repair(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        """Who else may mount it comes first, and what can't be done keeps nothing of the rest from being tried."""
        share = call.project.share
        steps: list[Callable[[], object]] = []
        if "others" in fields:
            foreign = _foreign(call, self._with_rules(call, resource, row))
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

    def let_go(self, call: Call, resource: Resource, row: Row) -> None:
        """One in the recycle bin can't be renamed, and would end with it."""
        restore(call.project, row.id)
        super().let_go(call, resource, row)

    def clear(self, project: Project, row: Row) -> str:
        """Locks and snapshots: of the share that was ordered to be deleted with everything on it."""
        gone = unlock(project, row.id)
        asked = f"list snapshots of share {row.name}"
        for one in project.share.listing(asked, "/snapshots/detail", "snapshots", only={"share_id": row.id}):
            path = f"/snapshots/{one['id']}"
            project.share.ask(f"delete snapshot {one['id']}", "DELETE", path, ok=(404, *REFUSED))
            gone.append(f"snapshot {one['id']}")
        return ", ".join(gone)

    def _with_rules(self, call: Call, resource: Resource, row: Row) -> Row:
        spec = resource.spec
        assert isinstance(spec, ShareSpec)
        addresses = addresses_of(call, spec.ports)
        return replace(row, raw={**row.raw, RULES: _rules(call.project, row.id), ADDRESSES: addresses})


class ShareAccess(KindDriver):
    """One rule for each address of the pod's. The mark is in its metadata, its identity its id."""

    kind = Kind.SHARE_ACCESS
    threads = "share"
    updatable = frozenset({"mark"})

    def control(self, call: Call) -> str:
        return types_seen(call.project.share, "share")

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[Row]:
        shares = sorted({share for r in wanted if (share := _share(call, r))})
        found = [
            _rule_row(raw, share, call.scope.project_id)
            for share in shares
            for raw in _rules(call.project, share, gone=True)
        ]
        ports = {r.spec.port for r in wanted if isinstance(r.spec, ShareAccessSpec)}
        addresses = addresses_of(call, ports) if found else {}
        return [replace(row, raw={**row.raw, ADDRESSES: addresses}) for row in found]

    def all_rows(self, own: Project) -> list[Row]:
        """Rules are listed for one share each; a share that is gone has none, and others are the tenants' own."""
        return []

    def one_row(self, project: Project, thing_id: str) -> Row | None:
        asked, path = f"look at access rule {thing_id}", f"/share-access-rules/{thing_id}"
        raw = project.share.item_or_absent(asked, path, "access", thing_id)
        return None if raw is None else _rule_row(raw, raw["share_id"], project.project_id)

    def observe(self, call: Call, resource: Resource, row: Row) -> Observed:
        spec = resource.spec
        assert isinstance(spec, ShareAccessSpec)
        seen = super().observe(call, resource, row)
        wanted, found = row.raw.get(ADDRESSES, {}).get(spec.port), row.raw["access_to"]
        if wanted is None or wanted == found:
            return seen
        # A rule can't be changed: what lets another address in is made again.
        why = f"it is for {found}, and {spec.port} has {wanted}"
        return Observed(row.id, Status.BROKEN, why, seen.differences, seen.facts)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec
        assert isinstance(spec, ShareAccessSpec)
        return {"share": _share(call, resource), "level": "ro" if spec.read_only else "rw"}

    def seen(self, call: Call, row: Row) -> Fields:
        return {"share": row.raw["share_id"], "level": row.raw["access_level"]}

    def status(self, row: Row) -> tuple[Status, str]:
        state = str(row.raw["state"])
        if state == "active":
            return Status.SETTLED, ""
        if state in _APPLYING:
            return Status.PENDING, state
        if state in _DENYING:
            return Status.PENDING, "being revoked"
        return Status.BROKEN, f"Manila reports the rule in state {state}"

    def facts(self, row: Row) -> dict[str, object]:
        return {"address": row.raw["access_to"], "state": row.raw["state"], "share": row.raw["share_id"]}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        addresses = addresses_of(call, {r.spec.port for r in wanted if isinstance(r.spec, ShareAccessSpec)})

        def one(resource: Resource) -> str:
            spec, share = resource.spec, _share(call, resource)
            assert isinstance(spec, ShareAccessSpec)
            asked = f"create access rule {resource.name}"
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
            same, hidden = _in_the_way(call, _rules(call.project, share), address)
            for rule in (r for r in same if r["access_to"] == address and r["state"] not in _DENYING):
                mark = _rule_row(rule, share, None).mark
                if mark is not None and (mark.owner, mark.key) == (call.scope.owner, resource.key):
                    return str(rule["id"])  # a lost answer's
            if same or (hidden and _EXISTS in answer.message):
                return self._instead(call, resource, share, same or hidden, asked)
            if _EXISTS in answer.message:
                raise TemporaryError(asked, "Manila", answer.sentence())  # it has gone meanwhile
            raise call.project.share.error(asked, answer)

        return outcomes_of(call, wanted, one)

    def _instead(self, call: Call, resource: Resource, share: str, others: list[Json], asked: str) -> str:
        """Somebody else made a rule for the address, perhaps one of several hidden ones: of the pod's own share they
        go."""
        spec = resource.spec
        assert isinstance(spec, ShareAccessSpec)
        staying = [str(r["id"]) for r in others if r["state"] not in _DENYING]
        if spec.share_id is not None and staying:
            why = f"share {share} has the rule {' or '.join(staying)} for the same address"
            raise PermanentError(asked, "Manila", why, "remove that rule, or release the pod that has it")
        for rule in staying:
            deny(call.project, share, rule)
        names = ", ".join(str(r["id"]) for r in others)
        raise TemporaryError(
            asked, "Manila", f"rule {names} of somebody else has the address, and is being revoked"
        )

    def repair(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        asked, path = f"update access rule {resource.name}", f"/share-access-rules/{row.id}/metadata"
        call.project.share.ask(asked, "PUT", path, json={"metadata": {"weft": call.text(resource.key)}})

    def remove(self, project: Project, row: Row, fence: Fence) -> None:
        if row.raw["state"] not in _DENYING:
            deny(project, row.raw["share_id"], row.id)


def deny(project: Project, share: str, rule: str) -> None:
    """Revoke a rule; fine if it is absent. A tenant's lock on it, or the share's stay in the recycle bin, is undone
    first."""
    asked, path = f"revoke access rule {rule} of share {share}", f"/shares/{share}/action"
    body = {"deny_access": {"access_id": rule}}
    answer = project.share.ask(asked, "POST", path, json=body, ok=(404, *REFUSED))
    if answer.fine or answer.status == 404:
        return
    undone = unlock(project, rule)
    if restore(project, share):
        undone.append("its soft deletion")
    told = f"{answer.sentence()}" + (f"; undone: {', '.join(undone)}" if undone else "")
    raise TemporaryError(asked, "Manila", told, alarming=not undone)


def restore(project: Project, share: str) -> bool:
    """Take a share out of the recycle bin; whether it was in there. A Manila without one has nothing in it."""
    asked, path = f"restore share {share}", f"/shares/{share}"
    found = project.share.ask(asked, "GET", path, ok=(404, 406), microversion=SOFT_DELETION)
    if found.status != 200 or not project.share.part(asked, found, "share").get("is_soft_deleted"):
        return False
    body = {"restore": None}
    project.share.ask(asked, "POST", f"{path}/action", json=body, microversion=SOFT_DELETION)
    return True


def unlock(project: Project, thing_id: str) -> list[str]:
    """Remove the locks on a share or a rule; which ones. A Manila without locks has none."""
    asked = f"list locks on {thing_id}"
    params = {"resource_id": thing_id}
    answer = project.share.ask(
        asked, "GET", "/resource-locks", params=params, ok=(404, 406), microversion=LOCKS
    )
    if not answer.fine:
        return []
    found = project.share.rows(asked, answer, "resource_locks")
    if any(lock.get("resource_id") != thing_id for lock in found):
        raise UnknownError(asked, "Manila", "asked for the locks on this, it shows others")
    locks = [str(lock["id"]) for lock in found]
    for lock in locks:
        path = f"/resource-locks/{lock}"
        project.share.ask(f"remove lock {lock}", "DELETE", path, ok=(404,), microversion=LOCKS)
    return [f"lock {lock}" for lock in locks]


def export_location(project: Project, share: str) -> str:
    """Where a share is mounted from. Raises `TemporaryError` if it has no place yet."""
    asked = f"read where share {share} is mounted from"
    answer = project.share.ask(asked, "GET", f"/shares/{share}/export_locations")
    rows = project.share.rows(asked, answer, "export_locations")
    for row in sorted(rows, key=lambda r: (not r.get("preferred"), str(r["path"]))):
        if not row.get("is_admin_only"):
            return str(row["path"])
    raise TemporaryError(asked, "Manila", "it has no export location")


def _share(call: Call, resource: Resource) -> str | None:
    spec = resource.spec
    assert isinstance(spec, ShareAccessSpec)
    return spec.share_id or call.ids.get(spec.share)


def _rules(project: Project, share: str, gone: bool = False) -> list[Json]:
    """All access rules of a share. Args: gone: the share may be gone, and has none then."""
    asked = f"list access rules of share {share}"
    params = {"share_id": share}
    answer = project.share.ask(asked, "GET", "/share-access-rules", params=params, ok=(400, 404))
    if answer.status == 200:
        rows = project.share.rows(asked, answer, "access_list")
        if any(
            row.get("share_id", share) != share for row in rows
        ):  # a listing doesn't show it in each release
            raise UnknownError(asked, "Manila", "asked for the rules of this share, it shows others")
        return rows
    if gone and SHARES.one_row(project, share) is None:
        return []
    raise project.share.error(asked, answer, reading=True)


def _in_the_way(call: Call, rules: list[Json], address: str) -> tuple[list[Json], list[Json]]:
    """Rules for the same address, as Manila compares them (ADDRESS/32 is), and foreign ones that aren't shown."""
    own, wanted = set(call.ids.values()), ip_network(address)
    networks = [(rule, _network(rule)) for rule in rules]
    same = [rule for rule, network in networks if network == wanted]
    return same, [rule for rule, network in networks if network is None and rule["id"] not in own]


def _network(rule: Json) -> IPv4Network | IPv6Network | None:
    """Whom a rule lets in; None: it isn't shown, or no address."""
    try:
        return ip_network(str(rule["access_to"]), strict=False)
    except ValueError:
        return None


def _rule_row(raw: Json, share: str, project_id: str | None) -> Row:
    metadata: Mapping[str, str] = raw.get("metadata") or {}
    mark = Mark.parse(metadata.get("weft") or "")
    name = mark.name() if mark else f"{raw['access_to']} on share {share}"
    return Row(raw["id"], name, mark, project_id, raw.get("created_at") or "", {**raw, "share_id": share})


def _foreign(call: Call, row: Row) -> list[Json]:
    """Rules that let others in: neither one of the pod's by its id, nor for an address of the pod's.

    A tenant can copy metadata, and hide an address (it is shown as asterisks).
    """
    own, addresses = set(call.ids.values()), set(row.raw[ADDRESSES].values())
    return [
        r
        for r in row.raw[RULES]
        if r["id"] not in own and r["access_to"] not in addresses and r["state"] not in _DENYING
    ]


SHARES = Shares()
