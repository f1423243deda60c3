"""Networks on a fabric's physical network with their ports, across all projects, as Neutron has them now.

Sources: Neutron's api-ref "Networks" (provider attributes), "Ports" (binding attributes: by default only for
administrators and services), "extra_dhcp_opts"; Ironic 39, which names the option `61`, and networking-mlnx, which
renames it `client-id`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import cast

from weft.drivers.openstack.neutron import default_group
from weft.drivers.openstack.segments import NUMBER, PLACE, SHOWN, read_segments
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.model.errors import UnknownError
from weft.model.mark import Mark
from weft.ports.patience import waiting_at_most
from weft.ports.tenantnetworks import End, TenantNetwork, TenantPort

_NETWORK = ("id", "name", "project_id", "description", *SHOWN)
_HOST, _VNIC, _VIF, _PROFILE = "binding:host_id", "binding:vnic_type", "binding:vif_type", "binding:profile"
_PORT = (
    *("id", "name", "network_id", "mac_address", "device_id", "device_owner"),
    *(_HOST, _VNIC, _VIF, _PROFILE, "extra_dhcp_opts", "fixed_ips"),
)
_PAIRS = "allowed_address_pairs"
_SERVERS = "compute:"
_CLIENT_ID = ("client-id", "61")
_POLICIES = (
    "give weft's user the policies get_network:provider:* and get_port:binding:* (docs/operating-roles.md)"
)


class OpenStackTenantNetworks:
    """`TenantNetworks`. Thread-safe."""

    def __init__(self, sessions: Sessions) -> None:
        self._tenants_of = sessions

    def networks_on(self, physical_network: str) -> Sequence[TenantNetwork]:
        asked = f"list the networks of all projects on {physical_network}"
        own = self._tenants_of.own()
        filters = {PLACE: physical_network, "fields": _NETWORK}
        rows = own.network.listing(asked, "/networks", "networks", filters)
        segments = read_segments(own, asked, rows, of_others=True)
        # A network with several segments is the cloud's own: only administrators can create it.
        numbers = {
            network: there[0].number
            for network, there in segments.items()
            if len(there) == 1 and (there[0].type, there[0].place) == ("vlan", physical_network)
        }
        mine = [r for r in rows if numbers.get(r["id"])]
        ports: dict[str, list[TenantPort]] = {r["id"]: [] for r in mine}
        for network, port in self._tenants_ports(sorted(ports)):
            ports[network].append(port)
        return [_network(r, ports[r["id"]]) for r in sorted(mine, key=lambda r: str(r["id"]))]

    def is_gone(self, network: str, project_id: str) -> bool:
        return self._by_id("network", network, project_id) is None

    def port_now(self, port: str, project_id: str) -> TenantPort | None:
        row = self._by_id("port", port, project_id)
        if row is None:
            return None
        _check_shown(f"read port {port}", [row], _PORT)
        return _port(row)

    def ports_at(
        self, project_id: str, hosts: Collection[str] = (), macs: Collection[str] = ()
    ) -> Sequence[TenantPort]:
        asked, own = "list the ports of all projects by hosts and MAC addresses", self._tenants_of.own()
        found: dict[str, TenantPort] = {}
        for field, values in (
            (_HOST, sorted(set(hosts))),
            ("mac_address", sorted({m.lower() for m in macs})),
        ):
            shown = (*_PORT, "project_id")
            rows = own.network.listing(asked, "/ports", "ports", {"fields": shown}, only={field: values})
            _check_shown(asked, rows, shown)
            found |= {r["id"]: _port(r) for r in rows}
        default_group(own, project_id)
        return [found[i] for i in sorted(found)]

    def pairs_with(
        self, project_id: str, macs: Collection[str], ends: Collection[End] = ()
    ) -> tuple[Mapping[str, Sequence[TenantPort]], Mapping[End, Sequence[TenantPort]]]:
        asked, own, fields = (
            "list the address pairs of all ports",
            self._tenants_of.own(),
            (*_PORT, "project_id"),
        )
        wanted, shown = {mac.lower() for mac in macs}, (*fields, _PAIRS)
        with waiting_at_most(None):  # everything in the cloud
            asking = bool(wanted or ends)
            rows = own.network.listing(asked, "/ports", "ports", {"fields": shown}) if asking else []
        _check_shown(asked, rows, shown)
        default_group(own, project_id)
        by_network: dict[str, list[End]] = {}
        for end in sorted(ends):
            by_network.setdefault(end[0], []).append(end)
        found, there = dict[str, list[TenantPort]](), dict[End, list[TenantPort]]()
        for row in sorted(rows, key=lambda r: str(r["id"])):
            pairs = {str(pair.get("mac_address") or "").lower() for pair in row[_PAIRS] or []}
            for mac in sorted(pairs & wanted - {str(row["mac_address"] or "").lower()}):
                found.setdefault(mac, []).append(_port(row))
            for end in _sent_from(asked, row, by_network.get(str(row["network_id"]), ())):
                there.setdefault(end, []).append(_port(row))
        return found, there

    def _by_id(self, item: str, thing_id: str, project_id: str) -> Json | None:
        """A resource on a project's network; None only if it is proved absent. Neutron answers 404 for
        everything to a token without rights over other projects, and so does an API server that lacks weft's
        policies. So after each 404 the same token must see the project's group `default`; and where weft has
        a role in the project, a token of the project, which needs no policies, must get the same answer.
        """
        for eyes in self._eyes(project_id):
            asked, path = f"read {item} {thing_id}", f"/{item}s/{thing_id}"
            row = eyes.network.item_or_absent(asked, path, item, thing_id)
            if row is not None:
                return row
            default_group(eyes, project_id)
        return None

    def _eyes(self, project_id: str) -> Iterable[Project]:
        yield self._tenants_of.own()
        if project_id in self._tenants_of.served():
            yield self._tenants_of.project(project_id)

    def _tenants_ports(self, networks: Sequence[str]) -> Iterable[tuple[str, TenantPort]]:
        asked = "list the ports of tenants' networks"
        rows = self._tenants_of.own().network.listing(
            asked, "/ports", "ports", {"fields": _PORT}, only={"network_id": networks}
        )
        _check_shown(asked, rows, _PORT)
        yield from ((r["network_id"], _port(r)) for r in rows)


def _check_shown(asked: str, rows: Iterable[Json], fields: Iterable[str]) -> None:
    """Raise `UnknownError` if Neutron's policies hide one of these fields."""
    if hidden := sorted({f for row in rows for f in fields if f not in row}):
        raise UnknownError(asked, "network", f"Neutron doesn't show {', '.join(hidden)}", _POLICIES)


def _network(row: Json, ports: Sequence[TenantPort]) -> TenantNetwork:
    return TenantNetwork(
        row["id"],
        str(row["name"] or ""),
        str(row["project_id"] or ""),
        int(row[NUMBER]),
        tuple(sorted(ports, key=lambda p: p.id)),
        Mark.parse(str(row["description"] or "")),
    )


def _port(row: Json) -> TenantPort:
    profile, options = row[_PROFILE] or {}, row["extra_dhcp_opts"] or []
    named = [cast(Json, o) for o in options if str(o.get("opt_name")) in _CLIENT_ID]
    return TenantPort(
        row["id"],
        str(row["name"] or ""),
        str(row["mac_address"] or ""),
        str(row[_VNIC] or ""),
        str(row[_VIF] or ""),
        str(row[_HOST] or ""),
        str(profile.get("pci_slot") or ""),
        tuple(str(o.get("opt_value") or "") for o in named),
        str(row["device_id"] or "") if str(row["device_owner"] or "").startswith(_SERVERS) else "",
        bool(row["fixed_ips"]),
        str(row.get("network_id") or ""),
        str(row.get("project_id") or ""),
    )


def _sent_from(asked: str, row: Json, ends: Sequence[End]) -> Iterable[End]:
    """Those of `ends` that a port's address pairs let it send from. A pair without a MAC address uses the port's own,
    and an address may be a whole subnet.
    """
    try:
        pairs = (
            [ip_network(str(pair["ip_address"]), strict=False) for pair in row[_PAIRS] or []] if ends else []
        )
        return [end for end in ends if any(ip_address(end[1]) in pair for pair in pairs)]
    except (KeyError, TypeError, ValueError) as error:
        seen = f"address pairs of port {row['id']} in another shape ({type(error).__name__}: {error})"
        raise UnknownError(asked, "network", seen[:300]) from error
