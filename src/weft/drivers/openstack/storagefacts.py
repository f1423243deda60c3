"""Facts about a cloud's storage, read before an order: types, existing storage, quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from weft.drivers.openstack.service import CloudService, Json
from weft.drivers.openstack.session import Project, Sessions
from weft.model.errors import InputError, UnknownError
from weft.model.messages import outside
from weft.model.messages.orders import instead
from weft.model.resources import Graph, Kind
from weft.model.site import Storage
from weft.model.storageorder import StorageOrder

_LIMITS: Mapping[Kind, Mapping[str, tuple[str, str]]] = {
    Kind.SHARE: {
        "shares": ("maxTotalShares", "totalSharesUsed"),
        "share gigabytes": ("maxTotalShareGigabytes", "totalShareGigabytesUsed"),
    },
    Kind.VOLUME: {
        "volumes": ("maxTotalVolumes", "totalVolumesUsed"),
        "volume gigabytes": ("maxTotalVolumeGigabytes", "totalGigabytesUsed"),
    },
}
"""Kind -> quota -> names of its limit and of its use."""


class OpenStackStorage:
    """`StorageOffers`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def check_storage(
        self, project_id: str, entries: Sequence[StorageOrder], offer: Storage, mine: Collection[str] = ()
    ) -> tuple[StorageOrder, ...]:
        there = _There(self._sessions.project(project_id))
        return tuple(_checked(there, n, entry, offer, mine) for n, entry in enumerate(entries))

    def storage_limits(self, project: Project, graph: Graph) -> dict[str, tuple[int, int]]:
        """Quota -> limit and use, of the services that a graph needs."""
        kinds = {r.kind for r in graph.resources}
        found: dict[str, tuple[int, int]] = {}
        for kind in (k for k in _LIMITS if k in kinds):
            service = project.share if kind is Kind.SHARE else project.volume
            limits = _absolute(service, f"read the project's limits of {kind.row.many}")
            for name, (top, used) in _LIMITS[kind].items():
                if top in limits:
                    found[name] = (int(limits[top]), int(limits[used]))
        return found


class _There:
    """A project's shares and volumes, each listed once, on first use."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._ids: dict[str, dict[str, list[Json]]] = {}
        self._named: dict[str, dict[str, list[Json]]] = {}

    def of(self, entry: StorageOrder, name: str) -> list[Json]:
        """The project's resources of the entry's kind with this id, else those with this name."""
        kind = entry.kind
        if kind not in self._ids:
            service, _ = _service(self.project, entry)
            rows = service.listing(
                outside.REQUEST(verb="list", what=f"{kind}s"), f"/{kind}s/detail", f"{kind}s"
            )
            self._ids[kind], self._named[kind] = {}, {}
            for row in rows:
                self._ids[kind].setdefault(str(row["id"]), []).append(row)
                self._named[kind].setdefault(str(row.get("name") or ""), []).append(row)
        return self._ids[kind].get(name) or self._named[kind].get(name, [])


def _checked(
    there: _There, number: int, entry: StorageOrder, offer: Storage, mine: Collection[str]
) -> StorageOrder:
    if entry.kind not in ("share", "volume"):
        return entry
    if entry.existing:
        ids = tuple(_existing(there, number, entry, name, mine) for name in entry.existing)
        return entry.model_copy(update={"existing": ids})
    asked = entry.type or (offer.share_type if entry.kind == "share" else offer.volume_type)
    _check_type(there.project, number, entry, asked)
    return entry


def _check_type(project: Project, number: int, entry: StorageOrder, asked: str | None) -> None:
    service, collection = _service(project, entry)
    types = service.listing(f"list {entry.kind} types", "/types", collection)
    known = ", ".join(sorted(str(t["name"]) for t in types)) or "none"
    if asked is None:
        return
    found = next((t for t in types if asked in (t["name"], t["id"])), None)
    if found is None:
        allowed = instead("{kind} types that the project may use: {known}", kind=entry.kind, known=known)
        raise InputError(f"storage.{number}.type", asked, allowed)
    specs: Mapping[str, object] = found.get("extra_specs") or {}
    if entry.kind == "share" and str(specs.get("driver_handles_share_servers", "False")).lower() == "true":
        allowed = instead("a share type without share servers (driver_handles_share_servers false)")
        raise InputError(f"storage.{number}.type", asked, allowed)


def _existing(there: _There, number: int, entry: StorageOrder, name: str, mine: Collection[str]) -> str:
    """Id of a share or volume of the project, by id or name."""
    field = f"storage.{number}.existing"
    found = there.of(entry, name)
    if len(found) != 1:
        what = f"several {entry.kind}s" if found else f"no {entry.kind}"
        raise InputError(field, name, instead("the project has {what} of that name or id", what=what))
    row = found[0]
    if (row.get("description") or "").startswith("weft site="):
        raise InputError(field, name, instead("one that no pod has: it is deleted with its pod"))
    if row["status"] != "available" and row["id"] not in mine:
        raise InputError(
            field,
            name,
            instead("it is {status}, and must be available", status=row["status"].replace("-", "_")),
        )
    if entry.kind == "share" and row.get("share_proto") != "NFS":
        raise InputError(
            field,
            name,
            instead("it is of protocol {protocol}, and must be NFS", protocol=str(row.get("share_proto"))),
        )
    return str(row["id"])


def _service(project: Project, entry: StorageOrder) -> tuple[CloudService, str]:
    return (project.share, "share_types") if entry.kind == "share" else (project.volume, "volume_types")


def _absolute(service: CloudService, asked: str) -> Json:
    limits = service.item(asked, "/limits", "limits").get("absolute")
    if not isinstance(limits, dict):
        raise UnknownError(asked, service.name, "no object 'absolute' in the limits")
    return cast(Json, limits)
