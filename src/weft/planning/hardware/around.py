"""What a site file already says when a list of hardware is read into it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from weft.model.fabrictypes import FabricKind
from weft.model.site import Fabric, IpuPod, SiteNetwork


@dataclass(frozen=True, slots=True)
class KnownSite:
    """Where hardware can be, as the site file already says.

    Attributes:
        racks: racks that it lists; None: those of the hardware list are used.
        discoverable: its InfiniBand fabrics.
        fabric_without_macs: its only InfiniBand fabric, that of adapters with GUIDs and no MAC address;
            None: there is none, or more than one.
    """

    networks: Mapping[str, SiteNetwork] = field(default_factory=dict)
    ipu_pods: Mapping[str, IpuPod] = field(default_factory=dict)
    racks: frozenset[str] | None = None
    discoverable: frozenset[str] = frozenset()

    @property
    def fabric_without_macs(self) -> str | None:
        """The only fabric whose adapters need no MAC address; None if there are several or none."""
        return next(iter(self.discoverable)) if len(self.discoverable) == 1 else None


def discoverable_fabrics(data: Mapping[str, Any]) -> frozenset[str]:
    """Names of the InfiniBand fabrics in a site file's data; invalid fabrics are ignored here."""
    found = data.get("fabrics")
    rows = found.items() if isinstance(found, dict) else ()
    names: list[str] = []
    for name, one in rows:
        try:
            fabric = Fabric.model_validate(one)
        except ValidationError:
            continue
        if fabric.type is FabricKind.INFINIBAND:
            names.append(name)
    return frozenset(names)
