"""The fake cloud's storage: its types, and existing shares and volumes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.model.errors import InputError
from weft.model.resources import Kind
from weft.model.site import Storage
from weft.model.storageorder import StorageOrder
from weft.testing.cloud_store import CloudStore

_KINDS = {"share": Kind.SHARE, "volume": Kind.VOLUME}


class FakeStorage(CloudStore):
    """`StorageOffers`. Existing shares and volumes are things of a project, of any origin."""

    def check_storage(
        self, project_id: str, entries: Sequence[StorageOrder], offer: Storage, mine: Collection[str] = ()
    ) -> tuple[StorageOrder, ...]:
        self._call("facts", None)
        return tuple(self._checked(project_id, n, e, offer, mine) for n, e in enumerate(entries))

    def _checked(
        self, project_id: str, number: int, entry: StorageOrder, offer: Storage, mine: Collection[str]
    ) -> StorageOrder:
        if entry.kind not in _KINDS:
            return entry
        if not self.offers.storage_types[entry.kind]:
            raise InputError(f"storage.{number}.{entry.kind}", entry.name, f"the cloud has no {entry.kind}s")
        asked = entry.type or (offer.share_type if entry.kind == "share" else offer.volume_type)
        known = sorted(self.offers.storage_types[entry.kind])
        if asked is not None and asked not in known:
            raise InputError(
                f"storage.{number}.type", asked, f"{entry.kind} types of the cloud: {', '.join(known)}"
            )
        ids = tuple(self._existing(project_id, number, entry, name, mine) for name in entry.existing)
        return entry.model_copy(update={"existing": ids}) if ids else entry

    def _existing(
        self, project_id: str, number: int, entry: StorageOrder, name: str, mine: Collection[str]
    ) -> str:
        kind, field = _KINDS[entry.kind], f"storage.{number}.existing"
        found = [t.id for t in self.things(kind) if name in (t.id, t.name) and t.project_id == project_id]
        if len(found) != 1:
            what = f"several {entry.kind}s" if found else f"no {entry.kind}"
            raise InputError(field, name, f"the project has {what} of that name or id")
        attached = any(found[0] in a.fields.values() for a in self.things(Kind.VOLUME_ATTACHMENT))
        if attached and found[0] not in mine:
            raise InputError(field, name, "it is in_use, and must be available")
        return found[0]
