"""Volumes, and their attachments to servers.

Sources: Cinder's api-ref (volumes, deletion with `cascade`, volume transfers), Nova's (volume attachments).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.nova import compute_control, unlock_server
from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.storage import StorageKind
from weft.drivers.openstack.storageuses import of_volume
from weft.model.errors import NotYetError, TemporaryError, UnknownError
from weft.model.resources import Kind, Observed, Outcome, Resource
from weft.model.specs import VolumeAttachmentSpec, VolumeSpec
from weft.model.uses import Use

ATTACHMENTS = "3.27"
"""Microversion."""


class Volumes(StorageKind):
    """Volumes of a pod's servers."""

    kind = Kind.VOLUME
    threads = "volume"
    item, collection = "volume", "volumes"
    settled = frozenset({"available", "in-use", "reserved", "attaching", "detaching", "backing-up"})

    def service(self, project: Project) -> CloudService:
        return project.volume

    def body(self, call: Call, resource: Resource) -> Json:
        spec = resource.spec_as(VolumeSpec)
        return {"size": spec.gib, **({} if spec.volume_type is None else {"volume_type": spec.volume_type})}

    def named(self, name: str, description: str) -> Json:
        return {"name": name, "description": description}

    def clear(self, project: Project, row: ListedResource) -> str:
        """End attachments, a transfer and snapshots: the volume was ordered to be deleted with everything on
        it."""
        gone = [*_detach(project, self.one_row(project, row.id) or row), *_unreserve(project, row)]
        asked = "list volume transfers"
        for one in project.volume.listing(asked, "/os-volume-transfer/detail", "transfers"):
            if one["volume_id"] == row.id:
                path = f"/os-volume-transfer/{one['id']}"
                project.volume.ask(f"end transfer {one['id']}", "DELETE", path, ok=(404,))
                gone.append(f"transfer {one['id']}")
        asked, only = f"list snapshots of volume {row.name}", {"volume_id": row.id}
        for one in project.volume.listing(asked, "/snapshots", "snapshots", only=only):
            path = f"/snapshots/{one['id']}"
            answer = project.volume.ask(f"delete snapshot {one['id']}", "DELETE", path, ok=(400, 404, 409))
            gone += [f"snapshot {one['id']}"] if answer.fine else []
        return ", ".join(gone)

    def uses(self, project: Project, row: ListedResource) -> list[Use]:
        return of_volume(project, row.id)


VOLUMES = Volumes()


def _detach(project: Project, row: ListedResource) -> list[str]:
    """Detach a volume from its servers, and return which. An attachment unknown to Nova exists in Cinder
    alone: a tenant made it."""
    gone: list[str] = []
    for one in row.raw.get("attachments") or ():
        server, asked = one["server_id"], f"detach volume {row.name}"
        path = f"/servers/{server}/os-volume_attachments/{row.id}"
        answer = project.compute.ask(asked, "DELETE", path, ok=(400, 403, 404, 409))
        if answer.status == 404 and one.get("attachment_id"):
            _end_attachment(project, one["attachment_id"])
        rolled = answer.status == 400 and row.raw["status"] == "detaching"
        if rolled:
            _act(project, row, "os-roll_detaching")  # Nova treats it as being detached
        if rolled or answer.fine or answer.status == 404:
            gone.append(f"attachment to server {server}")
    return gone


def _unreserve(project: Project, row: ListedResource) -> list[str]:
    """Undo reservations, which the volume itself doesn't show, and return which."""
    asked, params = f"list attachments of volume {row.name}", {"volume_id": row.id}
    answer = project.volume.ask(
        asked, "GET", "/attachments", params=params, ok=(404, 406), microversion=ATTACHMENTS
    )
    rows = project.volume.rows(asked, answer, "attachments") if answer.fine else []
    reserved = [r["id"] for r in rows if r["volume_id"] == row.id and r["status"] != "attached"]
    for attachment in reserved:
        _end_attachment(project, attachment)
    _act(project, row, "os-unreserve")  # undoes os-reserve, and nothing else
    return [f"reservation {attachment}" for attachment in reserved]


def _end_attachment(project: Project, attachment: str) -> None:
    """Cinder refuses it (409) for a volume that is really attached."""
    asked, path = f"end attachment {attachment}", f"/attachments/{attachment}"
    project.volume.ask(asked, "DELETE", path, ok=(400, 403, 404, 406, 409), microversion=ATTACHMENTS)


def _act(project: Project, row: ListedResource, action: str) -> None:
    asked, path = f"{action} of volume {row.name}", f"/volumes/{row.id}/action"
    project.volume.ask(asked, "POST", path, json={action: None}, ok=(400, 403, 404, 409))


class VolumeAttachments(KindDriver):
    """Identified by server and volume, since Nova's API has no other id."""

    kind = Kind.VOLUME_ATTACHMENT
    threads = "volume"
    updatable = frozenset[str]()
    no_such_id = "not among the volumes of its server"

    def control(self, call: Call) -> str:
        return compute_control(call.project)

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        keys = {pair: r.key for r in wanted if (pair := _pair(call, r)) is not None}
        found = call.spread.map(lambda server: _attached(call.project, server), sorted({s for s, _ in keys}))
        rows = [_row(server, raw) for server, raws in found for raw in raws]
        there = {row.id: row for row in rows}
        marked = ((there.get(f"{s}/{v}"), call.scope.mark(key)) for (s, v), key in keys.items())
        return [replace(row, mark=mark) for row, mark in marked if row is not None]

    def all_rows(self, own: Project) -> list[ListedResource]:
        """None: attachments end with their servers."""
        return []

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        server, _, volume = thing_id.partition("/")
        _, rows = _attached(project, server)
        return next((_row(server, raw) for raw in rows if raw["volumeId"] == volume), None)

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        """What is observed of an attachment, which has no description for a mark."""
        return super().observe(call, resource, replace(row, mark=call.scope.mark(resource.key)))

    def facts(self, row: ListedResource) -> dict[str, object]:
        return {"device": row.raw.get("device")}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            asked, pair = f"attach {resource.name}", _pair(call, resource)
            if pair is None:
                raise NotYetError(asked, "Nova", "the server or the volume isn't there yet")
            server, volume = pair
            path, body = (
                f"/servers/{server}/os-volume_attachments",
                {"volumeAttachment": {"volumeId": volume}},
            )
            answer = call.project.compute.ask(asked, "POST", path, json=body, ok=(400, 404, 409))
            if answer.fine:
                return f"{server}/{volume}"
            if any(raw["volumeId"] == volume for raw in _attached(call.project, server)[1]):
                return f"{server}/{volume}"  # made by a request whose answer was lost
            # It is attached to its former server, or wherever someone attached it: that may end.
            raise TemporaryError(asked, "Nova", answer.sentence(), alarming=True)

        return outcomes_of(call, wanted, one)

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        """Detach it from a server that keeps running. A tenant's lock on the server refuses that, and is
        removed. Nova also refuses (400) while a detach is in progress, until the guest has released the
        device.
        """
        server, _, volume = row.id.partition("/")
        asked = f"detach volume {volume} of server {server}"
        path = f"/servers/{server}/os-volume_attachments/{volume}"
        answer = project.compute.ask(asked, "DELETE", path, ok=(400, 404, 409))
        if answer.status == 409:
            unlock_server(project, server)
            answer = project.compute.ask(asked, "DELETE", path, ok=(400, 404))
        if answer.status == 400:
            there = VOLUMES.one_row(project, volume)
            if there is None or there.raw["status"] != "detaching":
                raise project.compute.error(asked, answer)


def _pair(call: Call, resource: Resource) -> tuple[str, str] | None:
    """Ids of server and volume, as far as known."""
    spec = resource.spec_as(VolumeAttachmentSpec)
    server, volume = call.ids.get(spec.server), spec.volume_id or call.ids.get(spec.volume)
    return (server, volume) if server and volume else None


def _attached(project: Project, server: str) -> tuple[str, list[Json]]:
    """The server and its attachments; none if the server doesn't exist."""
    asked, path = f"list volumes of server {server}", f"/servers/{server}/os-volume_attachments"
    answer = project.compute.ask(asked, "GET", path, ok=(404,))
    if answer.status == 200:
        rows = project.compute.rows(asked, answer, "volumeAttachments")
        for row in rows:
            if row.get("serverId") != server:
                seen = f"the answer has an attachment of server {str(row.get('serverId'))[:80]}"
                raise UnknownError(asked, "compute", seen)
        return server, rows
    if not answer.proves_absent(server):
        raise UnknownError(asked, "compute", answer.sentence())
    return server, []


def _row(server: str, raw: Json) -> ListedResource:
    volume = str(raw["volumeId"])
    return ListedResource(f"{server}/{volume}", f"volume {volume} on server {server}", None, None, "", raw)
