"""Access rules of Manila's shares: listed, compared, and revoked.
A tenant can prevent revocation with a lock, or by moving the share into the recycle bin: both are undone.

Sources: see `weft.drivers.openstack.manila`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network

from weft.drivers.openstack.base import Call, ListedResource
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.storage import REFUSED
from weft.model.errors import TemporaryError, UnknownError
from weft.model.mark import Mark

LOCKS, SOFT_DELETION = "2.81", "2.69"
"""Microversions."""
RULES, ADDRESSES = "weft:rules", "weft:addresses"
"""Fields added to rows: all access rules of a share; addresses of the pod's ports by their keys."""
DENYING = frozenset({"queued_to_deny", "denying"})


def rules_of(project: Project, share: str, is_gone: Callable[[], bool] | None = None) -> list[Json]:
    """All access rules of a share. Args: is_gone: called if none can be read, since a deleted share has
    none."""
    asked = f"list access rules of share {share}"
    params = {"share_id": share}
    answer = project.share.ask(asked, "GET", "/share-access-rules", params=params, ok=(400, 404))
    if answer.status == 200:
        rows = project.share.rows(asked, answer, "access_list")
        if any(
            row.get("share_id", share) != share for row in rows
        ):  # not every release shows it in a listing
            raise UnknownError(asked, "Manila", "asked for the rules of this share, it shows others")
        return rows
    if is_gone is not None and is_gone():
        return []
    raise project.share.error(asked, answer, reading=True)


def deny(project: Project, share: str, rule: str) -> None:
    """Revoke a rule; no error if it is absent. A tenant's lock is removed, and a share restored from the
    recycle bin, first."""
    asked, path = f"revoke access rule {rule} of share {share}", f"/shares/{share}/action"
    body = {"deny_access": {"access_id": rule}}
    answer = project.share.ask(asked, "POST", path, json=body, ok=(404, *REFUSED))
    if answer.fine or answer.status == 404:
        return
    undone = unlock(project, rule)
    if restore(project, share):
        undone.append("its soft deletion")
    text = f"{answer.sentence()}" + (f"; undone: {', '.join(undone)}" if undone else "")
    raise TemporaryError(asked, "Manila", text, alarming=not undone)


def restore(project: Project, share: str) -> bool:
    """Restore a share from the recycle bin; returns whether it was in it. A Manila without a recycle bin has nothing in
    it."""
    asked, path = f"restore share {share}", f"/shares/{share}"
    found = project.share.ask(asked, "GET", path, ok=(404, 406), microversion=SOFT_DELETION)
    if found.status != 200 or not project.share.part(asked, found, "share").get("is_soft_deleted"):
        return False
    body = {"restore": None}
    project.share.ask(asked, "POST", f"{path}/action", json=body, microversion=SOFT_DELETION)
    return True


def unlock(project: Project, thing_id: str) -> list[str]:
    """Remove the locks on a share or a rule, and return which. A Manila without locks has none."""
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


def in_the_way(call: Call, rules: list[Json], address: str) -> tuple[list[Json], list[Json]]:
    """Rules for the same address, as Manila compares them (ADDRESS/32 is the same), and foreign rules with
    hidden addresses."""
    own, wanted = set(call.ids.values()), ip_network(address)
    networks = [(rule, _network(rule)) for rule in rules]
    same = [rule for rule, network in networks if network == wanted]
    return same, [rule for rule, network in networks if network is None and rule["id"] not in own]


def _network(rule: Json) -> IPv4Network | IPv6Network | None:
    """The network a rule admits; None if it is hidden, or isn't an address."""
    try:
        return ip_network(str(rule["access_to"]), strict=False)
    except ValueError:
        return None


def rule_row(raw: Json, share: str, project_id: str | None) -> ListedResource:
    """An access rule as Manila shows it, named by its mark or by the address that it admits."""
    metadata: Mapping[str, str] = raw.get("metadata") or {}
    mark = Mark.parse(metadata.get("weft") or "")
    name = mark.name() if mark else f"{raw['access_to']} on share {share}"
    return ListedResource(
        raw["id"], name, mark, project_id, raw.get("created_at") or "", {**raw, "share_id": share}
    )


def foreign_rules(call: Call, row: ListedResource) -> list[Json]:
    """Rules that admit others: neither the pod's by id, nor for one of the pod's addresses. Metadata doesn't
    count, since a tenant can copy it; a tenant can also hide an address (shown as asterisks).
    """
    own, addresses = set(call.ids.values()), set(row.raw[ADDRESSES].values())
    return [
        r
        for r in row.raw[RULES]
        if r["id"] not in own and r["access_to"] not in addresses and r["state"] not in DENYING
    ]
