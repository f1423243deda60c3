"""Port: what must be known about a cloud's storage before it is ordered."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from weft.model.site import Storage
from weft.model.storageorder import StorageOrder


class StorageOffers(Protocol):
    """Share types, volume types, and what exists."""

    def check_storage(
        self, project_id: str, entries: Sequence[StorageOrder], offer: Storage, mine: Collection[str] = ()
    ) -> tuple[StorageOrder, ...]:
        """The entries with existing shares and volumes by id, after the cloud confirmed them and the types.

        Args:
            offer: the site's, with the types of entries that name none.
            mine: ids that the pod already uses: a volume that is attached to one of its servers is accepted.

        Raises `InputError` with the order's field.
        """
        ...
