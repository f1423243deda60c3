"""One interface to a fabric of any type, so that the same tests run on all."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tests.drivers.opensm.rigs import FABRIC, FakeRig, RealRig, host_ports, until
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.ids import format_guid, parse_guid
from weft.model.ranges import Range
from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.fabric import FabricDriver
from weft.testing.ethernet import FakeEthernet
from weft.testing.fabric import FakeFabric
from weftlab.layout import Layout
from weftlab.site import make_site, settings

FIRST = 0x101
"""A number inside weft's range, for every rig."""


class SegmentRig(Protocol):
    """A fabric with its driver, and external access to it."""

    site: Site
    by_manager: bool
    """Whether external changes go through the manager, so that it knows about them."""
    mode: Mode
    """How members are in their segment."""

    @property
    def driver(self) -> FabricDriver: ...

    def ports(self) -> list[str]:
        """Ids of ports that pods get, in order."""
        ...

    def add(self, port: str, number: int) -> None:
        """Put a port in a segment, past the driver."""
        ...

    def remove(self, port: str, number: int) -> None: ...

    def blind(self, port: str) -> None:
        """Make a port unreadable."""
        ...


def ethernet_site(site: Site) -> Site:
    """The same site with a fabric of switches and VLANs; each adapter is on the port at its cable's other end."""
    leaf = {end: (a, number) for k in site.links for end, a, number in _ends(k.a, k.a_port, k.b, k.b_port)}

    def port(node: str, hca: str) -> str:
        switch, number = leaf[f"{node}/{hca}"]
        return f"{switch}/Ethernet{number}"

    nodes = tuple(
        n.model_copy(
            update={"hcas": tuple(h.model_copy(update={"switch_port": port(n.name, h.name)}) for h in n.hcas)}
        )
        for n in site.nodes
    )
    document = site.model_copy(update={"nodes": nodes}).model_dump(mode="json")
    fabric = document["fabrics"][FABRIC]
    fabric |= {"type": "ethernet", "manager": {"driver": "switches"}}
    return Site.model_validate(document)


def _ends(a: str, a_port: int, b: str, b_port: int) -> list[tuple[str, str, int]]:
    return [(b, a, a_port), (a, b, b_port)]


def segment(rig: SegmentRig, number: int, ports: list[str]) -> Resource:
    kind = rig.site.fabrics[FABRIC].type
    members = tuple(Membership(port=p, mode=rig.mode) for p in sorted(ports))
    spec = SegmentSpec(number=number, fabric_type=kind, members=members)
    return Resource(key="partition", name="weft-partition", where=FABRIC, spec=spec)


def text(rig: SegmentRig, number: int) -> str:
    return rig.site.fabrics[FABRIC].words.text(number)


class InfiniBand:
    """OpenSM, simulated or real."""

    by_manager = False
    mode = FabricKind.INFINIBAND.row.whole

    def __init__(self, rig: FakeRig | RealRig) -> None:
        self._rig, self.site = rig, rig.site

    @property
    def driver(self) -> FabricDriver:
        return self._rig.driver

    def ports(self) -> list[str]:
        return [format_guid(g) for g in host_ports(self.site)]

    def add(self, port: str, number: int) -> None:
        self._rig.write_key(parse_guid(port), 5, number | 0x8000)
        until("it is there", lambda: number in self.driver.snapshot().ports[port].numbers)

    def remove(self, port: str, number: int) -> None:
        guid = parse_guid(port)
        if isinstance(self._rig.driver, FakeFabric):
            self._rig.driver.erase_key(guid, number | 0x8000)
        else:
            self._rig.write_key(guid, 1, 0)  # OpenSM writes the default key first
        until("it is gone", lambda: self._missing(guid, number))

    def _missing(self, guid: int, number: int) -> bool:
        return number | 0x8000 not in self._rig.driver.tables([guid])[guid].keys

    def blind(self, port: str) -> None:
        self._rig.cut(parse_guid(port))


class Ethernet:
    """Simulated switches with VLANs."""

    by_manager = False

    def __init__(self, mode: Mode = FabricKind.ETHERNET.row.whole) -> None:
        self.mode = mode
        layout = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
        site = ethernet_site(make_site(settings(nodes=8, leaves=2, hcas=1), layout))
        fabric = site.fabrics[FABRIC].model_copy(update={"segments": Range(first=0x101, last=0x17E)})
        self.site = site.model_copy(update={"fabrics": {FABRIC: fabric}})
        self.fake = FakeEthernet(self.site, FABRIC)

    @property
    def driver(self) -> FabricDriver:
        return self.fake

    def ports(self) -> list[str]:
        return [h.port_id for n in self.site.nodes if n.role == "compute" for h in n.hcas]

    def add(self, port: str, number: int) -> None:
        self.fake.put(port, number)

    def remove(self, port: str, number: int) -> None:
        self.fake.put(port, None)

    def blind(self, port: str) -> None:
        self.fake.switches[port.partition("/")[0]].reachable = False
