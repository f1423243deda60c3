"""Heat's parameters for TripleO: names, time, TLS, devices, CPUs, ML2, LDAP."""

from __future__ import annotations

import json
from typing import Any

from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.planning.export.openstack import (
    FILTERS,
    aliases,
    device_specs,
    flat_networks,
    largest_mtu,
    mechanism_drivers,
    physical_mtus,
    sdn_url,
    vlan_ranges,
)
from weft.planning.export.policies import policies_of, rules
from weft.planning.export.text import identifier
from weft.planning.export.view import CloudView

TOKEN, USER = "MLNX_SDN_TOKEN", "WEFT_USER_ID"


def secrets(view: CloudView) -> tuple[str, ...]:
    """Names of the variables for secrets in the files, besides the BMCs'."""
    found = [USER, *(_ldap_variable(name) for name in sorted(view.deployment.ldap_domains))]
    return (*found, *((TOKEN,) if sdn_environment(view) is not None else ()))


def _ldap_variable(domain: str) -> str:
    return f"KEYSTONE_LDAP_{identifier(domain).upper()}_PASSWORD"


def sdn_environment(view: CloudView) -> dict[str, Any] | None:
    """The address that mlnx_sdn_assist notifies; None: it isn't used."""
    if "mlnx_sdn_assist" not in mechanism_drivers(view):
        return None
    return {
        "resource_registry": {
            "OS::TripleO::Services::NeutronCorePlugin": "OS::TripleO::Services::NeutronCorePluginMLNXSDN"
        },
        "parameter_defaults": {
            "MlnxSDNUrl": sdn_url(view),
            "MlnxSDNUsername": "",
            "MlnxSDNPassword": "",
            "MlnxSDNToken": f"${TOKEN}",
            "MlnxSDNDomain": "cloudx",
            "MlnxSDNSyncEnabled": True,
            "NeutronCorePlugin": "neutron.plugins.ml2.plugin.Ml2Plugin",
        },
    }


def environment(view: CloudView) -> dict[str, Any]:
    """The environment file of the site."""
    one = view.deployment
    found: dict[str, Any] = {
        "CloudDomain": one.domain,
        "CloudName": view.external_name,
        "CloudNameInternal": view.internal_name,
        "DnsServers": [str(a) for a in one.dns],
        "NtpServer": list(one.ntp),
        "NeutronMechanismDrivers": [d for d in mechanism_drivers(view) if d != "l2population"],
        "NeutronPluginExtensions": "port_security,dns_domain_ports",
        "NeutronDnsDomain": f"{one.domain}.",
        "NeutronNetworkVLANRanges": ",".join(vlan_ranges(view)),
        "NeutronFlatNetworks": ",".join(flat_networks(view)),
        "NeutronBridgeMappings": ",".join(f"{p}:{b}" for p, b in _bridges(view)),
        "NovaSchedulerEnabledFilters": list(FILTERS),
        "NovaSchedulerAvailableFilters": ["nova.scheduler.filters.all_filters"],
        **_infiniband(view),
        **_policies(view),
    }
    hiera = [{**json.loads(alias)} for alias in aliases(view)]
    if (largest := largest_mtu(view)) is not None:
        found["NeutronGlobalPhysnetMtu"] = largest
    for role in view.roles_with("control"):
        found[f"{role}ExtraConfig"] = {"nova::pci::aliases": hiera, **_mtus(view)}
    for role in view.roles_with("compute"):
        found[f"{role}Parameters"] = _compute(view, role)
        found[f"{role}ExtraConfig"] = {"nova::pci::aliases": hiera}
    if one.tls == "everywhere":
        found["EnableInternalTLS"] = True
    if one.ldap_domains:
        found["KeystoneLDAPDomainEnable"] = True
        found["KeystoneLDAPBackendConfigs"] = {name: _ldap(view, name) for name in sorted(one.ldap_domains)}
    return {"parameter_defaults": found}


def _policies(view: CloudView) -> dict[str, Any]:
    """Rules of the services, each under a Puppet name of its own. Wallaby's templates have no parameter for Manila's,
    and an unknown parameter would end the deployment."""
    return {
        f"{service.capitalize()}ApiPolicies": {
            f"{service}-weft-{identifier(name)}": {"key": name, "value": check}
            for name, check in rules(text).items()
        }
        for service, text in policies_of(view, f"${USER}").items()
        if service != "manila"
    }


def _mtus(view: CloudView) -> dict[str, Any]:
    """MTUs of physical networks and tunnels, as Puppet data: the templates have no parameters for them."""
    if not view.mtus:
        return {}
    ml2 = "neutron::plugins::ml2"
    return {f"{ml2}::physical_network_mtus": list(physical_mtus(view)), f"{ml2}::path_mtu": view.tunnels_mtu}


def _bridges(view: CloudView) -> tuple[tuple[str, str], ...]:
    """Physical network and bridge: all roles must have the same, in the same order."""
    wanted = {name: tuple(role.bridges) for name, role in view.roles.items() if role.bridges}
    orders = set(wanted.values())
    if len(orders) > 1:
        names = " and ".join(sorted(wanted))
        field = f"clouds.{view.name}.deployment.roles"
        raise InputError(
            field, names, "the same physical networks in `bridges` in the same order, for TripleO"
        )
    order = next(iter(orders), ())
    return tuple((name, "br-ex" if n == 0 else f"br-ex{n}") for n, name in enumerate(order))


def _infiniband(view: CloudView) -> dict[str, Any]:
    """The agents' parameters on InfiniBand: which physical network has which interface, and whose driver it is."""
    mappings = sorted(
        {m for r in view.roles_with("compute") for m in view.mappings(r, FabricKind.INFINIBAND)}
    )
    if not mappings:
        return {}
    names = sorted({name for name, _ in mappings})
    others = [name for name, _ in _bridges(view) if name not in names]
    interface = next(
        (i for r in view.roles_with("network") for i in view.roles[r].adapters.values()), mappings[0][1]
    )
    return {
        "NeutronInterfaceDriver": "multi",
        "MultiInterfaceEnabled": True,
        "MultiInterfaceDriverMappings": [
            *(f"{n}:openvswitch" for n in others),
            *(f"{n}:ipoib" for n in names),
        ],
        "NeutronPhysicalDevMappings": [f"{name}:{interface}" for name, interface in mappings],
        "BindNormalPortsPhysnet": names[0],
        "IPoIBPhysicalInterface": interface,
    }


def _compute(view: CloudView, role: str) -> dict[str, Any]:
    """Parameters of a role with servers. Heat has them by role, so its hosts must be alike. Raises `InputError`."""
    one, hosts = view.roles[role], view.hosts[role]
    specs = [device_specs(view, role, host) for host in hosts]
    for host, found in zip(hosts, specs, strict=True):
        if found != specs[0]:
            field = f"clouds.{view.name}.deployment.roles.{role}"
            allowed = f"hosts with the same devices, for TripleO: {host.name} differs from {hosts[0].name}"
            raise InputError(field, host.name, allowed)
    parameters: dict[str, Any] = {
        "KernelArgs": "intel_iommu=on iommu=pt",
        "NovaPCIPassthrough": list(specs[0]) if specs else [],
    }
    if one.cpu_dedicated_set is not None:
        parameters["NovaComputeCpuDedicatedSet"] = one.cpu_dedicated_set.split(",")
        parameters["IsolCpusList"] = one.cpu_dedicated_set
    if one.cpu_shared_set is not None:
        parameters["NovaComputeCpuSharedSet"] = one.cpu_shared_set.split(",")
    if one.reserved_memory_mib is not None:
        parameters["NovaReservedHostMemory"] = one.reserved_memory_mib
    return parameters


def _ldap(view: CloudView, name: str) -> dict[str, Any]:
    domain = view.deployment.ldap_domains[name]
    found: dict[str, Any] = {
        "url": domain.url,
        "user": domain.user,
        "password": f"${_ldap_variable(name)}",
        "user_tree_dn": domain.users,
        "user_objectclass": domain.user_class,
        "user_id_attribute": domain.user_id,
        "user_name_attribute": domain.user_name,
        "user_mail_attribute": domain.user_mail,
        "use_tls": not domain.url.startswith("ldaps://"),
        "tls_req_cert": "demand",
    }
    if domain.ca is not None:
        found["tls_cacertfile"] = domain.ca
    if domain.groups is not None:
        found |= {
            "group_tree_dn": domain.groups,
            "group_objectclass": domain.group_class,
            "group_id_attribute": domain.group_name,
            "group_name_attribute": domain.group_name,
            "group_member_attribute": domain.group_member,
        }
    return found
