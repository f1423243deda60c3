"""TripleO's networks and the interfaces of hosts on them (os-net-config)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.planning.export.text import head
from weft.planning.export.view import CloudView


@dataclass(frozen=True)
class TripleoNetworks:
    """The site's networks that TripleO makes, with its names for them.

    Attributes:
        names: network of the site -> name, such as InternalApi; TripleO's services look for some of them.
        with_vip: networks of the site on which there is an address that moves between controllers.
    """

    view: CloudView
    names: Mapping[str, str]
    with_vip: tuple[str, ...]

    def lower(self, name: str) -> str:
        """name_lower: internal_api for InternalApi."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.names[name]).lower()

    def subnet(self, name: str, label: str) -> str:
        """Name of a subnet; the first one is called as TripleO's roles call it."""
        labels = list(self.view.networks[name].subnets)
        return (
            f"{self.lower(name)}_subnet"
            if label == labels[0]
            else f"{self.lower(name)}_{labels.index(label)}_subnet"
        )

    def role_networks(self, role: str) -> tuple[str, ...]:
        """Networks of the site that hosts of a role are on, without the provisioning network."""
        return tuple(name for name in self.view.roles[role].interfaces if name in self.names)


def networks_for(view: CloudView) -> TripleoNetworks:
    """Which networks there are for TripleO, by the names that its services know. Raises `InputError`."""
    provisioning = view.network_with("provisioning")
    used = sorted({n for role in view.roles.values() for n in role.interfaces} - {provisioning})
    known = {
        view.network_at(view.deployment.internal_vip): "InternalApi",
        view.network_at(view.deployment.external_vip): "External",
        view.network_with("tenant"): "Tenant",
    }
    storage = view.network_with("storage")
    if storage is not None:
        known[storage] = "Storage"
    names: dict[str, str] = {}
    for name in used:
        wanted = known.get(name) or "".join(
            part[:1].upper() + part[1:].lower() for part in re.split(r"[^A-Za-z0-9]+", name)
        )
        if wanted in names.values() or not wanted[:1].isalpha():
            allowed = f"another name: TripleO would call it {wanted}, which must be a word of its own"
            raise InputError(f"networks.{name}", name, allowed)
        names[name] = wanted
    control = {n for r in view.roles_with("control") for n in view.roles[r].interfaces}
    return TripleoNetworks(view, names, tuple(n for n in names if n in control and names[n] != "Tenant"))


def nic_template(view: CloudView, networks: TripleoNetworks, role: str) -> str:
    """The role's os-net-config template: one entry an interface, with TripleO's variables for the addresses."""
    one = view.roles[role]
    entries: list[dict[str, Any]] = []
    provisioning = view.network_with("provisioning")
    for name, interface in one.interfaces.items():
        if name == provisioning:
            entries.append(
                _plain(interface) | _address("ctlplane", "{{ ctlplane_ip }}/{{ ctlplane_subnet_cidr }}")
            )
        elif name in networks.names:
            entries += _on(view, name, interface, networks, entries)
    for number, (physical, interface) in enumerate(one.bridges.items()):
        mtu = {"mtu": view.mtus[physical]} if view.has_large_packets(physical) else {}
        member = {"type": "interface", "name": interface, "use_dhcp": False, "primary": True, **mtu}
        bridge = "br-ex" if number == 0 else f"br-ex{number}"
        entries.append({"type": "ovs_bridge", "name": bridge, "use_dhcp": False, **mtu, "members": [member]})
    # Jinja's expressions are quoted by YAML's dumper, and lists must come out as lists: without the quotes.
    text = yaml.safe_dump({"network_config": entries}, sort_keys=False, width=1000)
    text = re.sub(r"'(\{\{ (?:[^']|'')*\}\})'", lambda m: m[1].replace("''", "'"), text)
    return f"{head(view.site.name)}---\n{text}"


def _plain(interface: str) -> dict[str, Any]:
    return {"type": "interface", "name": interface, "use_dhcp": False}


def _address(lower: str, address: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "mtu": f"{{{{ {lower}_mtu }}}}",
        "addresses": [{"ip_netmask": address}],
        "routes": f"{{{{ {lower}_host_routes }}}}",
    }
    if lower == "ctlplane":
        found |= {"dns_servers": "{{ ctlplane_dns_nameservers }}", "domain": "{{ dns_search_domains }}"}
    return found


def _on(
    view: CloudView, name: str, interface: str, networks: TripleoNetworks, before: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Entries for an interface on a network: with VLAN or P_Key behind a dot, its parent first, once."""
    lower = networks.lower(name)
    parent, dot, _ = interface.partition(".")
    address = _address(lower, f"{{{{ {lower}_ip }}}}/{{{{ {lower}_cidr }}}}")
    fabric = next(
        (f for f in view.fabrics.values() if f.physical_network == view.networks[name].physical_network), None
    )
    infiniband = fabric is not None and fabric.type is FabricKind.INFINIBAND
    kind = "ib_interface" if infiniband else "interface"
    if not dot:
        return [_plain(interface) | {"type": kind} | address]
    vlan = view.networks[name].vlan
    assert vlan is not None  # the site's check refuses a dot without one
    there = any(e.get("name") == parent for e in before)
    found = [] if there else [_plain(parent) | {"type": kind}]
    if infiniband:
        # os-net-config adds the membership bit itself, and refuses a P_Key that has it.
        return [
            *found,
            {"type": "ib_child_interface", "parent": parent, "pkey_id": vlan, **address},
        ]
    return [*found, {"type": "vlan", "device": parent, "vlan_id": f"{{{{ {lower}_vlan_id }}}}", **address}]
