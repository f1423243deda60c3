"""`network_data.json` of a server's ports, as Nova writes it, for a config drive that Nova doesn't make.

Ironic adds one only in newer releases, and none without a subnet's own settings. Format: Nova's "Metadata service",
`network_data.json`, as cloud-init reads it (`cloudinit.sources.helpers.openstack.convert_net_json`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError


def read_network_data(project: Project, asked: str, vifs: Sequence[str]) -> Json:
    """`network_data.json` of Neutron ports, in the order of the devices. Raises `UnknownError`."""
    ports = _by_id(project, asked, "ports", vifs)
    networks = _by_id(project, asked, "networks", [p["network_id"] for p in ports.values()])
    fixed = [f["subnet_id"] for p in ports.values() for f in p["fixed_ips"]]
    return network_data([ports[vif] for vif in vifs], networks, _by_id(project, asked, "subnets", fixed))


def network_data(ports: Sequence[Json], networks: Mapping[str, Json], subnets: Mapping[str, Json]) -> Json:
    """`network_data.json` from ports, networks and subnets as Neutron has them. Addresses of subnets with DHCP use
    DHCP, all others are static. IPv4 only, as all of weft's subnets are. Pure."""
    links: list[Json] = []
    found: list[Json] = []
    services: list[Json] = []
    for number, port in enumerate(ports):
        link = f"iface{number}"
        links.append(
            {
                "id": link,
                "type": "phy",
                "ethernet_mac_address": port["mac_address"],
                "vif_id": port["id"],
                "mtu": networks[port["network_id"]]["mtu"],
            }
        )
        for fixed in port["fixed_ips"]:
            subnet = subnets[fixed["subnet_id"]]
            if subnet["ip_version"] != 4:
                continue
            one: Json = {"id": f"network{len(found)}", "link": link, "network_id": port["network_id"]}
            if subnet["enable_dhcp"]:
                found.append({**one, "type": "ipv4_dhcp"})
                continue
            block = IPv4Network(subnet["cidr"])
            address = {"ip_address": fixed["ip_address"], "netmask": str(block.netmask)}
            found.append({**one, "type": "ipv4", **address, "routes": _routes(subnet)})
            names = [{"type": "dns", "address": server} for server in subnet["dns_nameservers"]]
            services += [name for name in names if name not in services]
    return {"links": links, "networks": found, "services": services}


def _routes(subnet: Json) -> list[Json]:
    blocks = [(IPv4Network(r["destination"]), r["nexthop"]) for r in subnet["host_routes"]]
    if subnet["gateway_ip"]:
        blocks.append((IPv4Network("0.0.0.0/0"), subnet["gateway_ip"]))
    return [
        {"network": str(block.network_address), "netmask": str(block.netmask), "gateway": gateway}
        for block, gateway in blocks
    ]


def _by_id(project: Project, asked: str, collection: str, ids: Sequence[str]) -> dict[str, Json]:
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    rows = project.network.listing(asked, f"/{collection}", collection, only={"id": wanted})
    found = {str(row["id"]): row for row in rows}
    if missing := [one for one in wanted if one not in found]:
        raise UnknownError(asked, "Neutron", f"it doesn't show {collection} {', '.join(missing)}")
    return found
