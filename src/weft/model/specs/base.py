"""What every spec can be asked."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.base import Document


class Spec(Document):
    """Base of every kind's spec. Each has a field `kind`, first, which is a `Literal` of the kind's name."""

    def summary(self) -> str:
        """A few words for the tree of resources in a plan."""
        return ""

    def inside(self) -> str | None:
        """Key of the resource under which it stands in that tree; None: at the root."""
        return None

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        """Quota's name -> what it needs besides one of its kind's own (`Row.quota`).

        Args:
            vcpus: virtual CPUs of the pod's flavor.
            ram: memory of the flavor in MiB.
        """
        return {}

    @property
    def is_counted(self) -> bool:
        """Whether a quota of its kind's own (`Row.quota`) counts it."""
        return True

    @property
    def is_closed(self) -> bool:
        """Of a network: whether nothing but its owner's own may be on it."""
        return False

    @property
    def stays(self) -> bool:
        """Whether it stays outside, without weft's mark, when its owner is released."""
        return False
