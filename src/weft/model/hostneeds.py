"""What an image and a flavor require of the host of a server, as Nova's scheduler would check it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from weft.model.messages.orders import instead

_TRAIT = "trait:"
_SAME = {"amd64": "x86_64", "x86": "i686", "i386": "i686", "i486": "i686", "i586": "i686", "arm64": "aarch64"}
"""Aliases of architectures (`nova.objects.fields.Architecture.canonicalize`, and common ones)."""


@dataclass(frozen=True, slots=True)
class HostNeeds:
    """Traits (os-traits, CUSTOM_…) that a host must or must not have, and its architecture; empty: any.

    Sources: the properties `trait:NAME=required` and `hw_architecture` of a Glance image (Nova ignores traits that
    an image forbids), the extra specs `trait:NAME=required|forbidden` of a Nova flavor. Groups with numbers
    (`trait1:…`) concern devices, not the host.
    """

    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    architecture: str = ""

    @classmethod
    def of(cls, image: Mapping[str, Any], extra_specs: Mapping[str, Any]) -> Self:
        """What an image, as Glance shows it, and a flavor's extra specs require."""
        return cls(
            _traits(image, "required") | _traits(extra_specs, "required"),
            _traits(extra_specs, "forbidden"),
            canonical(image.get("hw_architecture") or image.get("architecture") or ""),
        )

    def __bool__(self) -> bool:
        return bool(self.required or self.forbidden or self.architecture)

    def lacks(self, traits: Collection[str], architecture: str) -> str | None:
        """Why a host is unsuitable, or None.

        Args:
            traits: traits of the host.
            architecture: of its processor; empty: unknown, which is accepted.
        """
        missing, unwanted = (
            sorted(self.required.difference(traits)),
            sorted(self.forbidden.intersection(traits)),
        )
        if missing:
            return f"its host lacks the trait {', '.join(missing)} that the image or flavor requires"
        if unwanted:
            return f"its host has the trait {', '.join(unwanted)} that the flavor forbids"
        there = canonical(architecture)
        runs = {there, "i686"} if there == "x86_64" else {there}
        if self.architecture and there and self.architecture not in runs:
            return f"its host is {there}, but the image is for {self.architecture}"
        return None


def _traits(properties: Mapping[str, Any], required: str) -> frozenset[str]:
    return frozenset(
        key.removeprefix(_TRAIT)
        for key, value in properties.items()
        if key.startswith(_TRAIT) and value == required
    )


def canonical(architecture: Any) -> str:
    """One name for each architecture."""
    name = str(architecture).strip().lower()
    return _SAME.get(name, name)


def too_small(image: Mapping[str, Any], flavor: str, ram: int, disk: int) -> str | None:
    """Why Nova won't boot the image with a flavor, or None.

    Args:
        image: as Glance shows it: `min_ram` in MiB, `min_disk` in GiB, `size` in bytes.
        flavor: its name.
        ram, disk: of the flavor, in MiB and GiB; disk 0: not checked.
    """
    if (least := int(image.get("min_ram") or 0)) > ram:
        return instead(
            "it needs {least} MiB of RAM (min_ram), and flavor {flavor} has {ram}",
            least=least,
            flavor=flavor,
            ram=ram,
        )
    if (least := int(image.get("min_disk") or 0)) > disk > 0:
        return instead(
            "it needs {least} GiB of disk (min_disk), and flavor {flavor} has {disk}",
            least=least,
            flavor=flavor,
            disk=disk,
        )
    if (size := int(image.get("size") or 0)) > disk << 30 > 0:
        return instead(
            "it has {size} MiB, and flavor {flavor} has {disk} GiB of disk",
            size=size >> 20,
            flavor=flavor,
            disk=disk,
        )
    return None
