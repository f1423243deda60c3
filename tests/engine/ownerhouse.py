"""Owners without an order: a site with a storage network of its own, and networks that tenants made in Neutron."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.engine.house import House
from weft.engine.base.world import World
from weft.engine.hold.ownerstore import make_owner, read_owner
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.visit.resourcerules import ResourceRule
from weft.generate.receipts import verify
from weft.model.errors import UnknownError
from weft.model.fabric import Membership
from weft.model.mark import outside_name
from weft.model.owner import Owner, OwnerKind
from weft.model.pod import PodState
from weft.model.receipt import SignedReceipt
from weft.model.resources import Graph, Kind, Resource
from weft.model.site import Site
from weft.model.specs import NetworkSpec, SegmentSpec, Spec, SubnetSpec
from weft.testing.cloud import FakeCloud
from weft.testing.cloud_state import Thing


def _resource(owner: OwnerRecord, where: str, key: str, spec: Spec, *needs: str) -> Resource:
    name = outside_name(str(owner.id), key)
    return Resource(key=key, name=name, where=where, owner="site", needs=needs, spec=spec)


def segment(owner: OwnerRecord, site: Site, number: int, nodes: Iterable[str]) -> Resource:
    ports = sorted(h.port_id for n in nodes for h in site.node_by_name[n].hcas_on("ib0"))
    members = tuple(Membership(port=p) for p in ports)
    return _resource(owner, "ib0", "segment", SegmentSpec(number=number, members=members))


def storage(owner: OwnerRecord, site: Site) -> Graph:
    """What a site's owner wants: a provider network on the range's last number, its filer's ports in the segment."""
    fabric = site.fabrics["ib0"]
    number = fabric.segments.last
    network = NetworkSpec(physical_network=fabric.physical_network, segment=number, port_security=False)
    subnet = SubnetSpec(network="network", cidr="192.0.2.0/24", gateway=False, dhcp=False)
    made = segment(owner, site, number, ["gpu16"])
    return Graph(
        resources=(
            made,
            _resource(owner, "lab", "network", network, "segment"),
            _resource(owner, "lab", "subnet", subnet, "network"),
        )
    )


@dataclass(frozen=True)
class Tenants:
    """What Neutron says of a tenant's network: its VLAN, and on which hosts it has ports."""

    number: int
    hosts: tuple[str, ...]


def look(owner: OwnerRecord, world: World) -> Tenants:
    cloud = world.driver("lab")
    assert isinstance(cloud, FakeCloud)
    cloud._call("facts", None)  # raises an error if the cloud is away
    found = [t for t in cloud.things(Kind.NETWORK) if t.name == owner.name and t.mark is None]
    if not found:
        raise UnknownError("look at the network", "cloud lab", "it isn't there")
    number = found[0].fields["segment"]
    assert isinstance(number, int)
    ports = [t for t in cloud.things(Kind.PORT) if t.fields.get("network") == found[0].id]
    return Tenants(number, tuple(sorted(str(t.fields["host"]) for t in ports)))


def follows(owner: OwnerRecord, site: Site, seen: Tenants) -> Graph:
    return Graph(resources=(segment(owner, site, seen.number, seen.hosts),))


WANTS: dict[OwnerKind, ResourceRule[Any]] = {
    "site": ResourceRule(lambda owner, world: None, lambda owner, site, seen: storage(owner, site)),
    "network": ResourceRule(look, follows),
}


class OwnerHouse(House):
    """A house with short ways to create, visit and inspect owners that aren't pods."""

    def make(self, kind: OwnerKind) -> OwnerRecord:
        self.wants |= WANTS
        name, project = ("lab", "service") if kind == "site" else ("their-own", "team-b")
        if kind == "network":
            self.tenants_network(name)
        with self.database.transaction() as tx:
            owner = make_owner(tx, kind, self.site.name, project, name, "operator")
        return self.see(owner.id)

    def tenants_network(self, name: str) -> Thing:
        """A network that a tenant created, with a port of a server on gpu15."""
        network = self.cloud.add(Kind.NETWORK, name, "team-b", None, segment=self.number("network"))
        self.cloud.add(Kind.PORT, f"{name}-port", "team-b", None, network=network.id, host="gpu15")
        return network

    def number(self, kind: OwnerKind) -> int:
        """Number of the segment of the owner of this kind."""
        numbers = self.site.fabrics["ib0"].segments
        return numbers.last if kind == "site" else numbers.last - 10

    def node(self, kind: OwnerKind) -> str:
        """The node whose ports are in the segment of the owner of this kind."""
        return "gpu16" if kind == "site" else "gpu15"

    def see(self, owner_id: object) -> OwnerRecord:
        with self.database.transaction() as tx:
            return read_owner(tx, UUID(str(owner_id)))

    def visit(self, owner: OwnerRecord, until: PodState | None = None, visits: int = 20) -> OwnerRecord:
        """Visit an owner once, or until it is in a state; fails if it isn't after so many visits."""
        for _ in range(visits if until else 1):
            self.store.wake(owner.id)
            self.worker.run_once()
            owner = self.see(owner.id)
            if owner.state is until:
                break
        assert until in (None, owner.state), f"{owner.state} ({owner.reason}), not {until}"
        return owner

    def served(self, kind: OwnerKind) -> OwnerRecord:
        return self.visit(self.make(kind), PodState.READY)

    def own(self, owner: OwnerRecord) -> list[Thing]:
        """Resources in the cloud that bear the owner's mark."""
        return [t for t in self.cloud.things() if t.mark and t.mark.owner == owner.owner]

    def ports_in(self, number: int) -> set[int]:
        """GUIDs of the host ports that have the P_Key in their tables."""
        return {guid for guid, table in self.fabric.tables().items() if 0x8000 | number in table.keys}

    def wired(self, kind: OwnerKind) -> set[int]:
        return {h.port_guid for h in self.site.node_by_name[self.node(kind)].hcas_on("ib0")}

    def released(self, owner: OwnerRecord) -> SignedReceipt:
        self.store.release(owner.id, "release asked by operator")
        self.visit(owner, PodState.RELEASED)
        signed = self.store.records.receipt(owner.id)
        assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
        return signed

    def numbers(self) -> dict[int, Owner]:
        """Each number of the fabric that is held -> its holder."""
        with self.database.transaction() as tx:
            rows = [r for r in tx.rows("number_holds") if r["space"] == "segment/ib0"]
            return {r["number"]: read_owner(tx, r["owner_id"]).owner for r in rows}

    def events(self, owner: OwnerRecord, kind: str) -> list[str]:
        return [e.message for e in self.store.records.events(owner.id, 0) if e.type == kind]
