"""Options of Nova, Neutron and Keystone that follow from the site, whichever tool writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.model.site import DeploymentRole, Fabric, Hca, LdapDomain, Node, SwitchAccess, Switching
from weft.planning.export.text import Option, Sections
from weft.planning.export.view import CloudView
from weft.planning.fabric.functions import pci_address, routing_id
from weft.planning.site.check import NO_RAID

FRONT = "http://127.0.0.1:8788/mlnx"
"""Where Neutron's driver mlnx_sdn_assist finds weft: the front on each controller (tenant-infiniband-networks.md)."""
FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
    "PciPassthroughFilter",
    "NUMATopologyFilter",
    "AggregateTypeAffinityFilter",
)
"""Nova's own default filters, those for devices and NUMA nodes, and AggregateTypeAffinityFilter, which keeps other
flavors off pods' hosts (docs/decisions/other-flavors-stay-off-pods-hosts.md) and passes every host in no aggregate."""


def sdn_url(view: CloudView) -> str | None:
    """The address that mlnx_sdn_assist notifies; None: the driver isn't used."""
    if view.deployment.sdn_url is not None:
        return view.deployment.sdn_url.rstrip("/")
    return FRONT if any(f.tenant_networks for f in view.fabrics.values()) else None


def notifies_weft(view: CloudView) -> bool:
    """Whether mlnx_sdn_assist notifies weft, and not another controller."""
    return sdn_url(view) == FRONT


def has_infiniband(view: CloudView) -> bool:
    """Whether the cloud has an InfiniBand fabric."""
    return any(f.type is FabricKind.INFINIBAND for f in view.fabrics.values())


def mechanism_drivers(view: CloudView) -> tuple[str, ...]:
    """ML2's drivers in order: mlnx_sdn_assist comes first, or its direct ports would carry no traffic."""
    drivers: list[str] = []
    if has_infiniband(view) and sdn_url(view) is not None:
        drivers.append("mlnx_sdn_assist")
    if view.has_functions(FabricKind.INFINIBAND):
        drivers.append("mlnx_infiniband")
    if any(f.is_neutrons for f in view.fabrics.values()):
        drivers.append("genericswitch")
    if view.fabrics:
        drivers.append("sriovnicswitch")
    return (*drivers, "openvswitch", "l2population")


def vlan_ranges(view: CloudView) -> tuple[str, ...]:
    """Neutron's network_vlan_ranges, with numbers only where tenants create networks: weft assigns all others."""
    own = {f.physical_network: f.segments for f in view.fabrics.values() if f.tenant_networks}
    return tuple(
        f"{name}:{own[name].first}:{own[name].last}" if name in own else name
        for name in view.physical_networks
    )


def flat_networks(view: CloudView) -> tuple[str, ...]:
    """Physical networks with an untagged network of the site."""
    untagged = {n.physical_network for n in view.networks.values() if n.vlan is None}
    return tuple(name for name in view.physical_networks if name in untagged)


def largest_mtu(view: CloudView) -> int | None:
    """Neutron's global_physnet_mtu; None: its default."""
    return max(view.mtus.values(), default=None)


def physical_mtus(view: CloudView) -> tuple[str, ...]:
    """Neutron's physical_network_mtus, for every physical network: one that is omitted would get the largest MTU."""
    return tuple(f"{name}:{mtu}" for name, mtu in view.mtus.items())


def ml2(view: CloudView, token: str) -> Sections:
    """The options of ml2_conf.ini.

    Args:
        token: reference to the token of mlnx_sdn_assist.
    """
    sections: dict[str, list[Option]] = {
        "ml2": [
            ("mechanism_drivers", ",".join(mechanism_drivers(view))),
            # Names of hardware's ports resolve by dns_domain_ports; without it Neutron drops them silently.
            ("extension_drivers", "port_security,dns_domain_ports"),
            *_mtus(view),
        ],
        "ml2_type_vlan": [("network_vlan_ranges", ",".join(vlan_ranges(view)))],
        "ml2_type_flat": [("flat_networks", ",".join(flat_networks(view)))],
    }
    if "mlnx_sdn_assist" in mechanism_drivers(view):
        names = sorted({f.physical_network for f in view.fabrics.values() if f.type is FabricKind.INFINIBAND})
        sections["sdn"] = [
            ("url", sdn_url(view) or ""),
            ("token", token),
            ("domain", "cloudx"),
            ("sync_enabled", "true"),
            ("physical_networks", ",".join(names)),
        ]
    for fabric in view.fabrics.values():
        if fabric.is_neutrons and fabric.manager.switching is not None:
            for switch in fabric.manager.switching.switches:
                sections[f"genericswitch:{switch.name}"] = list(
                    _generic(fabric, fabric.manager.switching, switch)
                )
    return sections


def neutron(view: CloudView) -> Iterator[Option]:
    """The options of neutron.conf."""
    yield "dns_domain", f"{view.deployment.domain}."
    if (largest := largest_mtu(view)) is not None:
        yield "global_physnet_mtu", str(largest)


def _mtus(view: CloudView) -> Iterator[Option]:
    if view.mtus:
        yield "physical_network_mtus", ",".join(physical_mtus(view))
        yield "path_mtu", str(view.tunnels_mtu)


def _generic(fabric: Fabric, switching: Switching, switch: SwitchAccess) -> Iterator[Option]:
    """One switch for networking-generic-switch, through weft's own driver there."""
    yield "device_type", "weft"
    yield "weft_interface", switch.interface
    yield "weft_url", switch.url
    if switching.credentials is not None:
        yield "weft_credentials", switching.credentials
    if switching.ca is not None:
        yield "weft_ca", switching.ca
    yield "ngs_physical_networks", fabric.physical_network
    ends = [end for link in switching.links for end in (link.a, link.b)]
    trunks = [port for name, _, port in (end.partition("/") for end in ends) if name == switch.name]
    if trunks:
        yield "ngs_trunk_ports", ",".join(trunks)
    yield "ngs_port_default_vlan", str(switching.parking)


def aliases(view: CloudView) -> tuple[str, ...]:
    """Nova's [pci] alias of each type of accelerator, as JSON: the type is the name that flavors ask for."""
    return tuple(
        json.dumps(
            {
                "name": name,
                "vendor_id": device.vendor_id,
                "product_id": device.product_id,
                "device_type": device.device_type,
            }
        )
        for name, device in sorted(view.deployment.devices.items())
    )


def compute(view: CloudView, role: str, host: Node) -> Sections:
    """Options of nova-compute on a host."""
    one = view.roles[role]
    default = (
        [("reserved_host_memory_mb", str(one.reserved_memory_mib))]
        if one.reserved_memory_mib is not None
        else []
    )
    cpus = [("cpu_dedicated_set", one.cpu_dedicated_set), ("cpu_shared_set", one.cpu_shared_set)]
    return {
        "DEFAULT": default,
        "compute": [(option, value) for option, value in cpus if value is not None],
        "pci": [("device_spec", json.dumps(spec)) for spec in device_specs(view, role, host)],
    }


def device_specs(view: CloudView, role: str, host: Node) -> tuple[dict[str, str], ...]:
    """Exactly the adapters and accelerators that the site has there, by PCI address.

    The address of a physical function covers it and its virtual functions: a tenant with a direct-physical port gets
    the whole adapter. Of an adapter that carries the host's own networks, or is a bond of the host's (VF-LAG), only the
    virtual functions are listed, by their addresses, if it has any. Raises `InputError` if these aren't known.
    """
    found: list[dict[str, str]] = []
    for hca in host.hcas:
        fabric = view.fabrics[hca.fabric]
        tags = {"physical_network": fabric.physical_network, "trusted": "false"}
        found += [{"address": address, **tags} for address in _addresses(view, role, host, hca)]
    for accelerator in host.accelerators:
        device = view.deployment.devices[accelerator.type]
        ids = {"vendor_id": device.vendor_id, "product_id": device.product_id}
        found.append({"address": accelerator.pci, **ids})
    return tuple(found)


def _is_hosts(one: DeploymentRole, hca: Hca) -> bool:
    """Whether a network of the site, or a bridge, uses the adapter's interface, a VLAN or P_Key on it, or its bond."""
    parents = {i.partition(".")[0] for i in (*one.interfaces.values(), *one.bridges.values())}
    carrying = parents | {member for bond in parents for member in one.bonds.get(bond, ())}
    return one.adapters[hca.name] in carrying


def _addresses(view: CloudView, role: str, host: Node, hca: Hca) -> tuple[str, ...]:
    if hca.bond_pci is None and not _is_hosts(view.roles[role], hca):
        return (hca.pci,)
    if hca.vfs and hca.vf_pci is None:
        allowed = "the first function's address: the adapter is the host's own or a bond of it, and isn't given whole"
        raise InputError(f"nodes.{host.name}.hcas.{hca.name}.vf_pci", None, allowed)
    first = routing_id(hca.vf_pci or hca.pci)
    return tuple(pci_address(first + n) for n in range(hca.vfs))


def ironic(view: CloudView, own_networks: bool) -> Sections:
    """The options of ironic.conf. Without them machines would pass to the next tenant uncleaned (Kolla Ansible's
    default), or belong to their tenants as lessees (docs/bare-metal.md).

    Args:
        own_networks: Ironic uses those that `weft site apply` makes.
    """
    provisioning = view.network_with("provisioning")
    places = {"cleaning": view.network_with("cleaning") or provisioning}
    places |= dict.fromkeys(("provisioning", "inspection", "rescuing"), provisioning)
    networks = [(f"{use}_network", name) for use, name in places.items() if own_networks and name]
    arrays = NO_RAID in view.cloud.cleaning_steps
    return {
        # weft's user, with the role `service`, reads nodes.
        "DEFAULT": [("rbac_service_role_elevated_access", "true")],
        "conductor": [
            ("automated_clean", "true"),
            ("automatic_lessee_source", "none"),
            ("record_step_flows_in_history", "true"),
        ],
        # Before the agent erases (its own priorities are 99 and 10), and after.
        "deploy": [("delete_configuration_priority", "100"), ("create_configuration_priority", "3")]
        if arrays
        else [],
        "neutron": [*networks, ("fail_on_port_binding_failure", "true")],
    }


def ldap(domain: LdapDomain, password: str) -> Sections:
    """A Keystone domain's own file. Keystone's LDAP driver is read-only.

    Args:
        password: reference to the password.
    """
    options = [("url", domain.url)]
    if not domain.url.startswith("ldaps://"):
        options.append(("use_tls", "true"))
    if domain.ca is not None:
        options.append(("tls_cacertfile", domain.ca))
    options += [
        ("tls_req_cert", "demand"),
        ("user", domain.user),
        ("password", password),
        ("user_tree_dn", domain.users),
        ("user_objectclass", domain.user_class),
        ("user_id_attribute", domain.user_id),
        ("user_name_attribute", domain.user_name),
        ("user_mail_attribute", domain.user_mail),
    ]
    if domain.groups is not None:
        options += [
            ("group_tree_dn", domain.groups),
            ("group_objectclass", domain.group_class),
            ("group_id_attribute", domain.group_name),
            ("group_name_attribute", domain.group_name),
            ("group_member_attribute", domain.group_member),
        ]
    return {"identity": [("driver", "ldap")], "ldap": [*options, ("use_pool", "true")]}
