"""Names that an order can be made of."""

from __future__ import annotations

from weft.model.base import Document

MOST_NAMES = 500
"""Names of one kind."""


class OrderNames(Document):
    """What the cloud lets a project use. At most `MOST_NAMES` of each, sorted."""

    flavors: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
