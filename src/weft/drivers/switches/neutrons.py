"""An Ethernet fabric whose VLANs Neutron's ML2 driver sets: weft only reads its switches and verifies. A
pod's RDMA network has the VLAN that weft allocated. Neutron puts a port into it when it binds the port, and
removes it when the port is deleted. So weft leaves changes to Neutron here, and reads and reports as on other
fabrics.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from weft.drivers.segments import segment_of
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.fabric import EthernetFabric
from weft.drivers.switches.interface import SwitchDriver
from weft.drivers.switches.names import read_name, vlan_name
from weft.model.errors import PermanentError
from weft.model.resources import Kind, Marked, Resource
from weft.model.site import Site
from weft.ports.ledger import SegmentLedger
from weft.ports.resources import Scope

NOTED_SECONDS = 60.0
"""Seconds within which an accepted segment must be in weft's records; otherwise it is requested again."""


class NeutronsFabric(EthernetFabric):
    """`FabricDriver` that changes nothing."""

    def __init__(
        self,
        site: Site,
        fabric: str,
        cabling: Cabling,
        switches: Sequence[SwitchDriver],
        ledger: SegmentLedger,
    ) -> None:
        super().__init__(site, fabric, cabling, switches, ledger)
        self._nameless = True
        self._accepted: dict[int, tuple[str, float]] = {}

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """VLANs of weft's range that hosts' ports are in; weft's records have their owners."""
        snapshot = self.snapshot()
        found: list[Marked] = []
        for number in sorted(n for n in snapshot.ports_in if n in self._range):
            named = read_name(snapshot.names.get(number, ""), site)
            owner = named.owner if named else None
            name = f"weft-{owner.id[:8]}-vlan" if owner else ""
            found.append(
                Marked(Kind.SEGMENT, self._fabric, str(number), name, owner, None, {"number": number})
            )
        return found

    def _put(self, scope: Scope, resource: Resource) -> None:
        spec = segment_of(resource)
        self._check_possible(spec)
        if strangers := self.snapshot().strangers(spec):
            raise self._taken(spec.number, f"{', '.join(strangers)} is in it")
        name = vlan_name(scope.mark(resource.key))
        self._accepted[spec.number] = (name, time.monotonic() + NOTED_SECONDS)

    def _take(self, scope: Scope, resource: Resource) -> None:
        self._accepted.pop(segment_of(resource).number, None)

    def _take_marked(self, thing: Marked) -> None:
        asked, of = f"remove VLAN {thing.id} from its ports", f"fabric {self._fabric}"
        then = "delete the Neutron port that has it, or correct the switch"
        raise PermanentError(asked, of, "Neutron sets the VLANs of this fabric, not weft", then)

    def _names(self) -> Mapping[int, str]:
        now = time.monotonic()
        accepted = {n: name for n, (name, until) in tuple(self._accepted.items()) if now < until}
        return {**accepted, **super()._names()}
