"""Uses, by anyone, that prevent the deletion of shares and volumes once weft has removed what it may.

Sources: Cinder's api-ref (volumes, with `group_id` from microversion 3.13; snapshots; backups), Manila's (shares;
snapshots; share replicas, experimental before microversion 2.56). Both services show a project only what is
its own.
"""

from __future__ import annotations

from dataclasses import replace

from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.uses import with_server
from weft.model.kinds import Kind
from weft.model.uses import MOST_SHOWN, Use, UseKind

GROUPS = "3.13"
"""Microversion."""
_EXPERIMENTAL = {"X-OpenStack-Manila-API-Experimental": "true"}
_GOING = frozenset({"deleting", "deleted"})
_BACKING_UP = frozenset({"creating", "restoring"})
"""Statuses of a backup that needs its volume; a finished one doesn't."""
_COPIED = "active"
"""State of the replica that is the share itself."""


def of_volume(project: Project, volume: str) -> list[Use]:
    """Attachments, snapshots, backups in progress, its group. Raises `UnknownError`."""
    mine = project.project_id or ""
    base = Use("snapshot", "", Kind.VOLUME, volume, project_id=mine)
    raw = project.volume.item(f"read volume {volume}", f"/volumes/{volume}", "volume", microversion=GROUPS)
    # Each by its server: the pod's own are known by these ids, and weft detaches it from them itself.
    found = [
        replace(
            base, kind="attachment", id=str(one["server_id"]), owner="compute:", device=str(one["server_id"])
        )
        for one in raw.get("attachments") or ()
    ]
    found += _listed(project.volume, base, "snapshots", "/snapshots", {"volume_id": volume})
    found += [
        replace(base, kind="backup", id=str(one["id"]), name=str(one.get("name") or ""))
        for one in project.volume.listing(
            f"list backups of volume {volume}", "/backups/detail", "backups", only={"volume_id": volume}
        )
        if one.get("status") in _BACKING_UP
    ]
    return _with_servers(project, [*found, *_group(base, "group", raw.get("group_id"))])


def of_share(project: Project, share: str) -> list[Use]:
    """Snapshots, replicas, its group. Raises `UnknownError`."""
    base = Use("snapshot", "", Kind.SHARE, share, project_id=project.project_id or "")
    raw = project.share.item(f"read share {share}", f"/shares/{share}", "share")
    found = _listed(project.share, base, "snapshots", "/snapshots/detail", {"share_id": share})
    if raw.get("has_replicas"):
        asked, params = f"list replicas of share {share}", {"share_id": share}
        answer = project.share.ask(
            asked, "GET", "/share-replicas/detail", params=params, headers=_EXPERIMENTAL
        )
        found += [
            replace(base, kind="replica", id=str(one["id"]))
            for one in project.share.rows(asked, answer, "share_replicas")
            if one.get("share_id") == share and one.get("replica_state") != _COPIED
        ]
    return [*found, *_group(base, "share_group", raw.get("share_group_id"))]


def _listed(service: CloudService, base: Use, collection: str, path: str, only: dict[str, str]) -> list[Use]:
    asked = f"list {collection} of {base.of.row.one} {base.on}"
    rows: list[Json] = service.listing(asked, path, collection, only=only)
    return [
        replace(base, id=str(one["id"]), name=str(one.get("name") or ""))
        for one in rows
        if one.get("status") not in _GOING
    ]


def _group(base: Use, kind: UseKind, group: object) -> list[Use]:
    return [replace(base, kind=kind, id=str(group))] if group else []


def _with_servers(project: Project, uses: list[Use]) -> list[Use]:
    return [*(with_server(project, use) for use in uses[:MOST_SHOWN]), *uses[MOST_SHOWN:]]
