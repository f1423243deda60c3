"""The fake cloud's networks: their ports, and the segments in use."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import ip_address, ip_network

from weft.model.errors import UnknownError
from weft.model.resources import Kind
from weft.ports.tenantnetworks import End, TenantNetwork, TenantPort
from weft.testing.cloud_rules import segments_of
from weft.testing.cloud_state import Thing
from weft.testing.cloud_uses import FakeUses


class FakeNetworks(FakeUses):
    """`CloudNetworks` and `TenantNetworks`."""

    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        self._call("segments", None)
        found: dict[str, set[int]] = {name: set() for name in physical_networks}
        for name, number in (one for network in self.things(Kind.NETWORK) for one in segments_of(network)):
            if name in found:
                found[name].add(number)
        return {name: frozenset(numbers) for name, numbers in found.items()}

    def networks_on(self, physical_network: str) -> Sequence[TenantNetwork]:
        self._call("tenant networks", None)
        found = [t for t in self._shown(Kind.NETWORK) if t.fields.get("physical_network") == physical_network]
        return [self._tenants(t) for t in sorted(found, key=lambda t: t.id) if t.id not in self.unlisted]

    def is_gone(self, network: str, project_id: str) -> bool:
        self._call("tenant networks", None)
        return self._by_id(Kind.NETWORK, network, project_id) is None

    def port_now(self, port: str, project_id: str) -> TenantPort | None:
        self._call("tenant networks", None)
        found = self._by_id(Kind.PORT, port, project_id)
        return None if found is None else _tenant_port(found)

    def ports_at(
        self, project_id: str, hosts: Collection[str] = (), macs: Collection[str] = ()
    ) -> Sequence[TenantPort]:
        self._call("ports", None)
        if project_id in self.unseen_projects:
            raise UnknownError("list ports", self.name, f"nothing of project {project_id} is shown")
        shown = [_tenant_port(t) for t in self._shown(Kind.PORT) if t.id not in self.unlisted]
        mine = (p for p in shown if p.host in hosts or (p.mac and p.mac.lower() in macs))
        return sorted(mine, key=lambda p: p.id)

    def pairs_with(
        self, project_id: str, macs: Collection[str], ends: Collection[End] = ()
    ) -> tuple[Mapping[str, Sequence[TenantPort]], Mapping[End, Sequence[TenantPort]]]:
        """In a fake port, a pair is text: an address, optionally followed by a MAC address."""
        self._call("ports", None)
        if project_id in self.unseen_projects:
            raise UnknownError("list ports", self.name, f"nothing of project {project_id} is shown")
        found, there = dict[str, list[TenantPort]](), dict[End, list[TenantPort]]()
        for port in self._shown(Kind.PORT):
            pairs = port.fields.get("address_pairs") or ()
            assert isinstance(pairs, tuple)
            for mac in {m.lower() for m in macs}:
                if any(mac in str(pair).lower() for pair in pairs):
                    found.setdefault(mac, []).append(_tenant_port(port))
            nets = [ip_network(str(pair).split()[0], strict=False) for pair in pairs]
            for end in (e for e in ends if e[0] == port.fields.get("network")):
                if any(ip_address(end[1]) in net for net in nets):
                    there.setdefault(end, []).append(_tenant_port(port))
        return found, there

    def _by_id(self, kind: Kind, thing_id: str, project_id: str) -> Thing | None:
        found = next((t for t in self._shown(kind) if t.id == thing_id), None)
        if found is None and project_id in self.unseen_projects:
            raise UnknownError(
                f"read {kind} {thing_id}", self.name, f"nothing of project {project_id} is shown"
            )
        return found

    def _shown(self, kind: Kind) -> list[Thing]:
        """What a caller without rights over some projects is shown."""
        return [t for t in self.things(kind) if t.project_id not in self.unseen_projects]

    def _tenants(self, network: Thing) -> TenantNetwork:
        number = network.fields["segment"]
        assert isinstance(number, int)
        on_it = (p for p in self._ports_on(network) if p.project_id not in self.unseen_projects)
        ports = [_tenant_port(p) for p in on_it if p.id not in self.unlisted]
        return TenantNetwork(
            network.id,
            network.name,
            network.project_id,
            number,
            tuple(sorted(ports, key=lambda p: p.id)),
            network.mark,
        )


def _tenant_port(port: Thing) -> TenantPort:
    known = {**port.fields, **port.facts}

    def text(*names: str) -> str:
        return next((str(known[n]) for n in names if known.get(n)), "")

    ids = known.get("client_ids", ())
    assert isinstance(ids, tuple)
    vif = text("vif_type") or "unbound"
    mac, vnic, host = text("mac"), text("vnic_type"), text("bound_host")
    return TenantPort(
        port.id,
        port.name,
        mac,
        vnic,
        vif,
        host,
        text("pci_slot"),
        tuple(map(str, ids)),
        text("device_id"),
        network=text("network"),
        project_id=port.project_id,
    )
