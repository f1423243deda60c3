"""Frames on an Ethernet fabric: which hosts are in a VLAN, and which ones receive what root on a host can send."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Self

from weft.app.sitefile import load_site
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.ports.ledger import NoLedger
from weftlab.lab import Lab
from weftlab.switches.front import PARKING
from weftlab.switches.hosts import Hosts, frame
from weftlab.switches.labsite import FABRIC, lab_ovs, lab_plan
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import FabricPlan

FLOOD = 3000
"""Addresses of a flood."""


class Probe:
    """Sends frames between hosts, which are named by their namespaces; in a whole lab these are nodes' adapters.

    Args:
        fabric: reads the switches; `close` closes it.
    """

    def __init__(self, fabric: EthernetFabric, ovs: Ovs, plan: FabricPlan) -> None:
        self.fabric, self.hosts = fabric, Hosts(ovs, plan)
        self._space = {plan.port(end): host.name for host in plan.hosts for end in host.ends}

    @classmethod
    def of(cls, lab: Lab) -> Self:
        """A probe of a running lab with an Ethernet fabric."""
        fabric = open_fabric(load_site(lab.site_path), FABRIC, NoLedger())
        return cls(fabric, lab_ovs(lab.layout), lab_plan(lab.settings))

    def close(self) -> None:
        self.fabric.close()

    def carried(self, number: int) -> set[str]:
        """Every port of every switch, read again, that has the VLAN; as switch/port."""
        return {end for end, vlans in self.fabric.snapshot().ends.items() if number in vlans.numbers}

    def members(self, number: int) -> set[str]:
        """Adapters whose switch port is in the VLAN."""
        return {self._space[end] for end in self.carried(number) & self._space.keys()}

    def trunks(self) -> Mapping[str, frozenset[int]]:
        """Adapters whose switch port has VLANs with a tag, and these."""
        ends = self.fabric.snapshot().ends
        return {name: ends[end].tagged for end, name in self._space.items() if ends[end].tagged}

    def forged(
        self, sender: str, listeners: Iterable[str], others: Iterable[int], own: Iterable[int]
    ) -> set[str]:
        """Who hears frames with a tag of VLANs that aren't the sender's: alone, and inside another tag.

        Args:
            own: VLANs of the sender, tried both as outer and as inner tag with the others; its own members may hear
                frames with such an outer tag.
        """
        numbers, mine = [*others, PARKING, 1], [*own]
        hops = [(m, n) for m in mine for n in numbers] + [(n, m) for m in mine for n in numbers]
        tags = [t for n in numbers for t in ((n,), (0, n), *((m, n) for m in numbers))]
        return self._heard(sender, listeners, b"forged", [*tags, *hops])

    def flooded(self, sender: str, listeners: Iterable[str], tag: int | None = None) -> set[str]:
        """Who hears any of `FLOOD` frames from as many addresses: a switch whose table of addresses is full floods."""
        sources = [f"02:ff:00:00:{i // 256:02x}:{i % 256:02x}" for i in range(FLOOD)]
        frames = [frame(source, mark=b"flood", tags=() if tag is None else (tag,)) for source in sources]
        return self.hosts.heard(sender, sorted({*listeners}), frames, b"flood")

    def honest(
        self, sender: str, listeners: Iterable[str], by: Collection[str], tag: int | None = None
    ) -> set[str]:
        """Who hears a broadcast of the sender's own. Args: by: those who must; it is sent again until they have."""
        return self._heard(sender, listeners, b"honest", [() if tag is None else (tag,)], by)

    def _heard(
        self,
        sender: str,
        listeners: Iterable[str],
        mark: bytes,
        tags: Iterable[tuple[int, ...]],
        by: Collection[str] = (),
    ) -> set[str]:
        mac = self.hosts.by_name[sender].mac
        frames = [frame(mac, mark=mark, tags=t) for t in tags]
        return self.hosts.heard(sender, sorted({*listeners} - {sender}), frames, mark, by=by)
