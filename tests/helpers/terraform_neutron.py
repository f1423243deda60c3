"""The requests that Terraform's OpenStack provider sends to Neutron for the exported resources.

Written after the provider's source (release 3.4): the same bodies for creating, and the same fields read back,
without those that it doesn't read (a port's `fixed_ip` and `no_security_groups`, a group's
`delete_default_rules`). So tests show what Terraform makes of the files with a real Neutron, but not the provider
itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import openstack

Fields = dict[str, Any]
SEGMENT = ("physical_network", "network_type", "segmentation_id")
RULE = (
    *("direction", "ethertype", "protocol", "port_range_min", "port_range_max"),
    *("remote_ip_prefix", "remote_group_id", "security_group_id"),
)
SHARE = ("action", "object_type", "object_id", "target_tenant")


class Neutron:
    """One cloud of clouds.yaml."""

    def __init__(self, cloud: str) -> None:
        self._http = openstack.connect(cloud=cloud).network

    def ask(self, verb: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(path, verb, json=body)
        if answer.status_code >= 400:
            raise RuntimeError(f"{verb} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def made(self, of: str, fields: Fields) -> str:
        """Creates a resource; its id."""
        known = {name: value for name, value in fields.items() if value is not None}
        if of.endswith("router_interface_v2"):
            path = f"/routers/{known['router_id']}/add_router_interface"
            return self.ask("PUT", path, {"subnet_id": known["subnet_id"]})["port_id"]
        collection, item, body, _ = KINDS[of]
        made = self.ask("POST", f"/{collection}", {item: body(known)})[item]
        if known.get("delete_default_rules"):
            for rule in made["security_group_rules"]:
                self.ask("DELETE", f"/security-group-rules/{rule['id']}")
        return made["id"]

    def read(self, of: str, one: str) -> Fields:
        if of.endswith("router_interface_v2"):
            port = self.ask("GET", f"/ports/{one}")["port"]
            return {"router_id": port["device_id"], "subnet_id": port["fixed_ips"][0]["subnet_id"]}
        collection, item, _, seen = KINDS[of]
        raw = self.ask("GET", f"/{collection}/{one}")[item]
        return {name: raw.get(name) for name in ("name", "description") if name in raw} | seen(raw)

    def external(self, name: str) -> str:
        (found,) = self.ask("GET", f"/networks?name={name}&router:external=true")["networks"]
        return found["id"]


def _network(known: Fields) -> Fields:
    segments = [{f"provider:{n}": s[n] for n in SEGMENT if s[n] is not None} for s in known["segments"]]
    body = {name: known[name] for name in ("name", "port_security_enabled", "mtu")}
    return {**body, "segments": segments, **({"router:external": True} if known.get("external") else {})}


def _network_seen(raw: Fields) -> Fields:
    segment = {n: raw[f"provider:{n}"] for n in SEGMENT}
    known = {name: raw[name] for name in ("port_security_enabled", "mtu")}
    return {**known, "external": raw["router:external"], "segments": [segment]}


def _subnet(known: Fields) -> Fields:
    body = {name: known[name] for name in ("network_id", "name", "cidr", "ip_version", "enable_dhcp")}
    body["gateway_ip"] = None if known.get("no_gateway") else known["gateway_ip"]
    body |= {"allocation_pools": known["allocation_pool"]} if known["allocation_pool"] else {}
    return body | ({"dns_nameservers": known["dns_nameservers"]} if known.get("dns_nameservers") else {})


def _subnet_seen(raw: Fields) -> Fields:
    known = {name: raw[name] for name in ("network_id", "cidr", "ip_version", "enable_dhcp", "gateway_ip")}
    more = {"no_gateway": True} if raw["gateway_ip"] is None else {}
    return {**known, **more, "allocation_pool": raw["allocation_pools"]} | (
        {"dns_nameservers": raw["dns_nameservers"]} if raw["dns_nameservers"] else {}
    )


def _port(known: Fields) -> Fields:
    names = ("network_id", "name", "mac_address", "port_security_enabled", "dns_name")
    body = {name: known[name] for name in names if name in known}
    return body | {"fixed_ips": known["fixed_ip"], "security_groups": []}


def _port_seen(raw: Fields) -> Fields:
    return {name: raw[name] for name in ("network_id", "mac_address", "port_security_enabled", "dns_name")}


def _router(known: Fields) -> Fields:
    return {"name": known["name"], "external_gateway_info": {"network_id": known["external_network_id"]}}


def _router_seen(raw: Fields) -> Fields:
    return {"external_network_id": raw["external_gateway_info"]["network_id"]}


def _some(*names: str) -> Callable[[Fields], Fields]:
    return lambda raw: {name: raw[name] for name in names if raw.get(name) is not None}


KINDS: dict[str, tuple[str, str, Callable[[Fields], Fields], Callable[[Fields], Fields]]] = {
    "openstack_networking_network_v2": ("networks", "network", _network, _network_seen),
    "openstack_networking_subnet_v2": ("subnets", "subnet", _subnet, _subnet_seen),
    "openstack_networking_port_v2": ("ports", "port", _port, _port_seen),
    "openstack_networking_router_v2": ("routers", "router", _router, _router_seen),
    "openstack_networking_secgroup_v2": (
        "security-groups",
        "security_group",
        _some("name"),
        _some("name"),
    ),
    "openstack_networking_secgroup_rule_v2": (
        "security-group-rules",
        "security_group_rule",
        _some(*RULE),
        _some(*RULE),
    ),
    "openstack_networking_rbac_policy_v2": ("rbac-policies", "rbac_policy", _some(*SHARE), _some(*SHARE)),
}
"""Type -> Neutron's collection, its item, the body of a creation, and the fields that are read back."""
