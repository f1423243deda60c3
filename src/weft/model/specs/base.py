"""The base class of specs."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.base import Document


class Spec(Document):
    """Base of every kind's spec. Each has a field `kind`, first, which is a `Literal` of the kind's name."""

    def summary(self) -> str:
        """A few words for the tree of resources in a plan."""
        return ""

    def inside(self) -> str | None:
        """Key of its parent in that tree; None: it is at the root."""
        return None

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        """Name of a quota -> what it needs in addition to 1 of its kind's own quota (`KindRow.quota`).

        Args:
            vcpus: virtual CPUs of the pod's flavor.
            ram: memory of the flavor in MiB.
        """
        return {}

    @property
    def is_counted(self) -> bool:
        """Whether its kind's own quota (`KindRow.quota`) counts it."""
        return True

    @property
    def is_closed(self) -> bool:
        """Whether it is a network that only its owner's resources may be on."""
        return False

    @property
    def stays(self) -> bool:
        """Whether it stays outside, without weft's mark, when its owner is released."""
        return False
