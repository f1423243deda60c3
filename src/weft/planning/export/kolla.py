"""Files for Kolla Ansible (2026.1): inventory, globals.yml, and what its templates leave to `config/`.

Secrets are variables of passwords.yml, which `kolla-genpwd` and the operator fill: Kolla renders every file of
`config/` with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from weft import __version__
from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.model.site import Node
from weft.planning.export.kollagroups import CHILDREN, HOSTS
from weft.planning.export.openstack import (
    FILTERS,
    aliases,
    compute,
    has_infiniband,
    ironic,
    ldap,
    mechanism_drivers,
    ml2,
    neutron,
    notifies_weft,
)
from weft.planning.export.policies import USER, WHAT, policy_files
from weft.planning.export.text import head, identifier, ini_file, yaml_file
from weft.planning.export.view import CloudView
from weft.planning.export.weftrole import FABRICS, FOLDER, GROUP, PASSWORD, weft_files

TOKEN = "weft_sdn_token"
OF_MACHINES = ("ironic_dnsmasq_interface", "ironic_http_interface", "ironic_tftp_interface")
_DEBIANS = "/etc/ssl/certs/ca-certificates.crt"
_BUNDLES = {"debian": _DEBIANS, "ubuntu": _DEBIANS}
_BUNDLE = "/etc/pki/tls/certs/ca-bundle.crt"
"""The authorities that containers trust, by distribution."""


def kolla_files(view: CloudView) -> dict[str, str]:
    """Path -> text of the files under /etc/kolla, but for passwords.yml. Raises `InputError`."""
    site = view.site.name
    return {
        "inventory/multinode": inventory(view),
        **{
            f"inventory/group_vars/{group_of(role)}.yml": yaml_file(site, role_variables(view, role))
            for role in view.roles
        },
        "globals.yml": yaml_file(site, global_variables(view)),
        **config_files(view),
        **weft_files(view),
        "README.md": _readme(view),
    }


def group_of(role: str) -> str:
    """A role's group in the inventory; Kolla has groups of most short names itself."""
    return f"role_{role.lower()}"


def inventory(view: CloudView) -> str:
    """The inventory: roles' groups, Kolla's groups of hosts made of them, and its groups of services."""
    lines = [head(view.site.name)]
    for role in view.roles:
        lines.append(f"[{group_of(role)}]")
        lines += [_host_line(view, host) for host in view.hosts[role]]
        lines.append("")
    for group in HOSTS:
        lines.append(f"[{group}:children]")
        lines += [group_of(name) for name, role in view.roles.items() if group in role.functions]
        lines.append("")
    lines += ["[deployment]", "localhost ansible_connection=local", ""]
    first = next(host for role in view.roles_with("control") for host in view.hosts[role])
    lines += [f"[{GROUP}]", first.nova_host, ""]
    for group, children in CHILDREN.items():
        lines += [f"[{group}:children]", *children, ""]
    lines += ["[all:vars]", f"ansible_user={view.deployment.user}", "ansible_become=true", ""]
    return "\n".join(lines)


def _host_line(view: CloudView, host: Node) -> str:
    address = view.reach(host)
    return host.nova_host if address is None else f"{host.nova_host} ansible_host={address}"


def role_variables(view: CloudView, role: str) -> dict[str, Any]:
    """Interfaces of a role's hosts, and the physical networks behind them."""
    one = view.roles[role]
    found: dict[str, Any] = {
        "network_interface": one.interfaces[view.network_at(view.deployment.internal_vip)]
    }
    named = (
        ("kolla_external_vip_interface", view.network_at(view.deployment.external_vip)),
        ("tunnel_interface", view.network_with("tenant")),
        ("storage_interface", view.network_with("storage")),
        # Machines boot from an address on the provisioning network, not on the network of the APIs.
        *((name, view.network_with("provisioning") if view.has_machines else None) for name in OF_MACHINES),
    )
    found |= {name: one.interfaces[network] for name, network in named if network in one.interfaces}
    if one.bridges:
        # Kolla's precheck counts names, bridges and interfaces: three lists of one length.
        found["neutron_external_interface"] = ",".join(one.bridges.values())
        found["neutron_bridge_name"] = ",".join(bridge_names(len(one.bridges)))
        found["neutron_physical_networks"] = ",".join(one.bridges)
    if "compute" in one.functions:
        for option, kind in (("sriov", FabricKind.ETHERNET), ("mlnx", FabricKind.INFINIBAND)):
            if view.has_functions(kind):
                # A mapping by name would have one interface of each physical network; rails are several.
                found[f"neutron_{option}_physnets"] = ",".join(map(":".join, view.mappings(role, kind)))
    return found


def bridge_names(count: int) -> tuple[str, ...]:
    """Names of Open vSwitch bridges: Linux allows 15 characters, physical networks have more."""
    return tuple("br-ex" if n == 0 else f"br-ex{n}" for n in range(count))


def global_variables(view: CloudView) -> dict[str, Any]:
    """globals.yml. Its variables win over those of groups, so nothing that differs between roles is here."""
    one = view.deployment
    everywhere = one.tls == "everywhere"
    found: dict[str, Any] = {
        "kolla_base_distro": one.distribution,
        "kolla_internal_vip_address": str(one.internal_vip),
        "kolla_internal_fqdn": view.internal_name,
        "kolla_external_vip_address": str(one.external_vip),
        "kolla_external_fqdn": view.external_name,
        "keepalived_virtual_router_id": str(one.virtual_router_id),
        **dict.fromkeys(
            ("enable_haproxy", "enable_keepalived", "enable_mariadb", "enable_rabbitmq", "enable_memcached"),
            True,
        ),
        "kolla_enable_tls_external": one.tls != "none",
        "kolla_enable_tls_internal": everywhere,
        "kolla_enable_tls_backend": everywhere,
        "rabbitmq_enable_tls": everywhere,
        "kolla_copy_ca_into_containers": one.tls != "none",
        # Otherwise services trust Python's own CA bundle, not the authority in certificates/ca.
        "openstack_cacert": "" if one.tls == "none" else _bundle(view),
        "enable_external_api_firewalld": one.firewall,
        "neutron_plugin_agent": "openvswitch",
        "neutron_dnsmasq_dns_servers": ",".join(map(str, one.dns)),
        "enable_neutron_provider_networks": any(view.roles[r].bridges for r in view.roles_with("compute")),
        "enable_neutron_sriov": view.has_functions(FabricKind.ETHERNET),
        "enable_neutron_mlnx": view.has_functions(FabricKind.INFINIBAND),
        # Devices are in config/nova, by address: Kolla's own list is Nova's deprecated option, and by name.
        "nova_pci_passthrough_whitelist": [],
        "horizon_keystone_multidomain": bool(one.ldap_domains),
        "enable_prometheus": bool(view.roles_with("monitoring")),
        "enable_grafana": bool(view.roles_with("monitoring")),
        "enable_ironic": view.has_machines,
    }
    if view.has_machines:
        found["enable_ironic_dnsmasq"] = one.inspection is not None
        if one.inspection is not None:
            found["ironic_dnsmasq_dhcp_ranges"] = [{"range": f"{one.inspection.first},{one.inspection.last}"}]
    return found


def _ref(variable: str) -> str:
    return f"{{{{ {variable} }}}}"


def _bundle(view: CloudView) -> str:
    return _BUNDLES.get(view.deployment.distribution, _BUNDLE)


def config_files(
    view: CloudView, ref: Callable[[str], str] = _ref, own_networks: bool = True
) -> dict[str, str]:
    """The files of `config/`, which Kolla merges into those of its services. Raises `InputError`.

    Args:
        ref: a secret's variable -> the reference to it in a file.
        own_networks: see `openstack.ironic`.
    """
    site = view.site.name
    filters = {"filter_scheduler": [("enabled_filters", ",".join(FILTERS))]}
    files = {
        "config/nova.conf": ini_file(site, {"pci": [("alias", alias) for alias in aliases(view)]}),
        "config/nova/nova-scheduler.conf": ini_file(site, filters),
        **_compute_files(view),
        "config/neutron.conf": ini_file(site, {"DEFAULT": list(neutron(view))}),
        "config/neutron/ml2_conf.ini": ini_file(site, ml2(view, ref(TOKEN))),
        **policy_files(view, ref),
    }
    if view.has_machines:
        files["config/ironic.conf"] = ini_file(site, ironic(view, own_networks))
    for name, domain in sorted(view.deployment.ldap_domains.items()):
        text = ini_file(site, ldap(domain, ref(_ldap_password(name))))
        files[f"config/keystone/domains/keystone.{name}.conf"] = text
    if notifies_weft(view):
        files["config/haproxy/services.d/weft.cfg"] = _front(view)
    if view.deployment.weft_url is not None and view.roles_with("monitoring"):
        files["config/prometheus/prometheus.yml.d/weft.yml"] = yaml_file(
            site, _scrape(view.deployment.weft_url)
        )
    if packages := packages_of(view):
        files["kolla-build/template-override.j2"] = _override(packages)
    return files


def _ldap_password(domain: str) -> str:
    return f"keystone_ldap_{identifier(domain)}_password"


def _compute_files(view: CloudView) -> dict[str, str]:
    """nova-compute.conf: one if all hosts are alike, else one for each."""
    texts = {
        host.nova_host: ini_file(view.site.name, compute(view, role, host))
        for role in view.roles_with("compute")
        for host in view.hosts[role]
    }
    if len(set(texts.values())) == 1:
        return {"config/nova/nova-compute.conf": next(iter(texts.values()))}
    return {f"config/nova/{host}/nova-compute.conf": text for host, text in texts.items()}


def _front(view: CloudView) -> str:
    """HAProxy on every controller, which answers mlnx_sdn_assist within its 10 s when weft doesn't."""
    for name in view.roles_with("control"):
        if "network" not in view.roles[name].functions:
            field = f"clouds.{view.name}.deployment.roles.{name}.functions"
            allowed = "also network: Neutron on controllers notifies weft through the load balancer on the same host"
            raise InputError(field, ", ".join(view.roles[name].functions), allowed)
    url = view.deployment.weft_url
    if url is None:
        allowed = "weft's address: Neutron notifies weft of networks, through the front on each controller"
        raise InputError(f"clouds.{view.name}.deployment.weft_url", None, allowed)
    secure, host, port = _place(url)
    # By its path: Kolla sets `ca-base`, which HAProxy 2.6 prepends to `@system-ca` too.
    check = f" ssl verify required verifyhost {host} ca-file {_bundle(view)}" if secure else ""
    shown = f"[{host}]" if ":" in host else host
    # A name that doesn't resolve when HAProxy starts must not take all APIs down: weft is deployed after the cloud.
    check += " resolvers weft_dns init-addr last,libc,none"
    return head(view.site.name) + "\n".join(
        (
            "resolvers weft_dns",
            "    parse-resolv-conf",
            "",
            "listen weft_notices",
            "    mode http",
            "    bind 127.0.0.1:8788",
            "    timeout connect 2s",
            "    timeout queue 2s",
            "    timeout client 15s",
            "    # 504 after it, before the driver's own 10 s are over",
            "    timeout server 7s",
            "    retries 0",
            f"    server weft {shown}:{port}{check}",
            "",
        )
    )


def _place(url: str) -> tuple[bool, str, int]:
    """Whether by TLS, host and port of a URL."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return secure, parts.hostname or "", parts.port or (443 if secure else 80)


def _scrape(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    job = {"job_name": "weft", "scheme": parts.scheme, "static_configs": [{"targets": [parts.netloc]}]}
    return {"scrape_configs": [job]}


_WEFT = (("weft-pods-agents", "weft_pods_agents"), ("weft-pods[generic-switch]", "weft_pods"))
"""Requirements of weft's drivers of switches -> the first part of their wheels' names."""


def packages_of(view: CloudView) -> tuple[str, ...]:
    """Python packages that Neutron's images lack.

    Kolla joins them with spaces, unquoted, so none may contain one. weft's own have a placeholder URL that installs
    nothing and must be replaced: images are built from wheels that the operator has checked.
    """
    drivers = mechanism_drivers(view)
    found = ["networking-mlnx"] if {"mlnx_sdn_assist", "mlnx_infiniband"} & set(drivers) else []
    return (
        (
            *found,
            *(f"{name}@https://weft.invalid/{wheel}-{__version__}-py3-none-any.whl" for name, wheel in _WEFT),
        )
        if "genericswitch" in drivers
        else tuple(found)
    )


def _override(packages: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{package}'" for package in packages)
    return f"{{% extends parent_template %}}\n{{% set neutron_base_pip_packages_append = [{listed}] %}}\n"


def secrets(view: CloudView) -> Mapping[str, str]:
    """Variables that passwords.yml must have besides Kolla's own -> what they are."""
    found = {
        USER: WHAT,
        **{
            _ldap_password(name): f"password of {domain.user}, with `$$` for each `$`"
            for name, domain in sorted(view.deployment.ldap_domains.items())
        },
    }
    if "mlnx_sdn_assist" in mechanism_drivers(view):
        found[TOKEN] = "the token that mlnx_sdn_assist shows " + (
            "weft" if notifies_weft(view) else "the fabric manager"
        )
    return found


def _readme(view: CloudView) -> str:
    one = view.deployment
    steps = [
        "Copy `globals.yml` and `config` to `/etc/kolla`, and `inventory` to a directory of your own.",
        "`kolla-genpwd` on a copy of Kolla's own `passwords.yml`"
        + "".join(f"; add `{name}` ({what})" for name, what in secrets(view).items())
        + ".",
        f"Time: Kolla Ansible doesn't configure it. Point the hosts at {', '.join(one.ntp)}.",
    ]
    if packages := packages_of(view):
        steps.append(
            "`kolla-build --template-override kolla-build/template-override.j2 neutron`: images with "
            f"{' and '.join(packages)}."
        )
    if one.tls != "none":
        steps.append(
            "Certificates in `/etc/kolla/certificates`: `haproxy.pem`"
            + (
                ", `haproxy-internal.pem`, `backend-cert.pem` and `backend-key.pem`"
                if one.tls == "everywhere"
                else ""
            )
            + f", the CA in `ca/`; names: {view.external_name}, {view.internal_name}. "
            "`kolla-ansible certificates` creates certificates for testing."
        )
    if view.has_machines and one.inspection is not None:
        steps.append(
            "Ironic's agent, by which machines are inspected: `ironic-agent.kernel` and `ironic-agent.initramfs` "
            "in `/etc/kolla/config/ironic`. It calls Ironic's internal API: machines need a way there from the "
            "provisioning network."
        )
    if has_infiniband(view):
        steps.append("Partitions of the site's own networks on InfiniBand, with all hosts' ports.")
    steps += [
        "`kolla-ansible bootstrap-servers`, `prechecks` and `deploy`, each with `-i inventory/multinode`.",
        *(f"`openstack domain create {name}`, then restart Keystone." for name in sorted(one.ldap_domains)),
        f"weft itself: `{PASSWORD}` in `passwords.yml`, its host in `[{GROUP}]` of the inventory, then "
        f"`ansible-playbook -i inventory/multinode -e @/etc/kolla/globals.yml -e @/etc/kolla/passwords.yml "
        f"{FOLDER}/weft.yml -e weft_package=…` with what pip is to install (`weft-pods`, its extras, or wheels); "
        f"`{FOLDER}/roles/weft/defaults/main.yml` lists the other settings.{FABRICS}"
        + ("" if one.weft_url else " Without `weft_url` in the site it listens for its own host alone."),
        f"`openstack user show weft -f value -c id`: that is `{USER}` in `passwords.yml`; then "
        "`kolla-ansible reconfigure -i inventory/multinode -t nova`. Before, members can move the servers of pods.",
    ]
    listed = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    return f"# {view.site.name}: Kolla Ansible for cloud {view.name}\n\n{listed}\n"
