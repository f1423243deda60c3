"""Nova's row of a deleted server: whether a host had it by then.

Nova deletes a server that no host has on its own, without an action `delete`, while its row has no host: a
constraint of the same statement (nova 34, `compute.api.API._delete`, `objects.Instance.destroy`). A
nova-compute puts itself into the row before it makes anything (`ResourceTracker.instance_claim`), which fails
once the row is deleted. Its event says `Success` all the same. But between two reads of `_delete` a host may
have got into the row, and then Nova deletes the server without that host, and without an action too: only the
row distinguishes the two.

A host also removes itself from the row: after a build that it cleaned up and that continues elsewhere (task
`scheduling` then), but also while a build fails that it couldn't clean up (task `spawning`, later ERROR).

Source: Nova's api-ref "List Servers Detailed": `deleted` and `uuid` require `servers:allow_all_filters`, and
are silently dropped otherwise.
"""

from __future__ import annotations

from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError

_HOST, _LAUNCHED = "OS-EXT-SRV-ATTR:host", "OS-SRV-USG:launched_at"
_STATE, _TASK = "OS-EXT-STS:vm_state", "OS-EXT-STS:task_state"
_POLICY = "let weft's user filter by it (`servers:allow_all_filters`, docs/operating-roles.md)"


def had_no_host(own: Project, project_id: str, server: str) -> bool:
    """Whether no host had a server of a project when Nova deleted it, while it was being built for the first time.

    Args:
        own: weft's own project, whose token sees servers of all projects.
        project_id: project of the server.

    Raises `UnknownError` if Nova doesn't show its row, or still shows it as existing.
    """
    asked, compute = f"read the row of deleted server {server}", own.compute
    params = {"all_tenants": "1", "deleted": "true", "uuid": server, "limit": 1}
    rows = compute.rows(asked, compute.ask(asked, "GET", "/servers/detail", params=params), "servers")
    if not rows:
        raise UnknownError(
            asked, compute.name, "Nova shows none: it was archived, or its cell doesn't answer"
        )
    row = rows[0]
    if row.get("id") != server:
        seen = f"Nova shows server {row.get('id')} instead"
        raise UnknownError(asked, compute.name, seen, _POLICY)
    # If a proxy or policy drops only `deleted`, an existing server is shown.
    if compute.item_or_absent(asked, f"/servers/{server}", "server", server) is not None:
        raise UnknownError(asked, compute.name, "Nova hasn't deleted it")
    missing = [name for name in (_HOST, _LAUNCHED, _STATE, _TASK) if name not in row]
    if missing or row.get("tenant_id") != project_id:
        seen = f"Nova shows no {missing[0]} of it" if missing else f"it is project {row.get('tenant_id')}'s"
        raise UnknownError(asked, compute.name, seen)
    began = row[_STATE] != "building" or row[_TASK] not in (None, "scheduling") or row[_LAUNCHED] is not None
    return row[_HOST] is None and not began
