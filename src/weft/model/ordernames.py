"""Names that an order can be made of."""

from __future__ import annotations

from weft.model.base import Document

MOST_NAMES = 500
"""Names of one kind that are offered."""


class OrderNames(Document):
    """What the cloud lets a project use. Sorted."""

    flavors: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
