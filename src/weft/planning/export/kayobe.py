"""Files for Kayobe (2025.1): its configuration, from which it makes the same one for Kolla Ansible as `kolla` does.

Kayobe reads every `*.yml` at the top as extra variables, which win over the inventory's: what differs between roles is
in `inventory/group_vars` alone. Files below `kolla/config` are rendered by Kayobe first, then by Kolla.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.errors import InputError, InputErrors
from weft.model.site import Function
from weft.planning.export.kayobenetworks import (
    Variables,
    allocation,
    bridged,
    described,
    networks,
    physical_networks,
    role_networks,
    seed_variables,
)
from weft.planning.export.kolla import (
    OF_MACHINES,
    config_files,
    global_variables,
    group_of,
    packages_of,
    role_variables,
    secrets,
)
from weft.planning.export.policies import USER
from weft.planning.export.text import head, identifier, yaml_file
from weft.planning.export.view import CloudView

_GROUPS: tuple[tuple[str, Function], ...] = (
    ("controllers", "control"),
    ("network", "network"),
    ("compute", "compute"),
    ("storage", "storage"),
    ("monitoring", "monitoring"),
)
"""Kayobe's groups of hosts, and the functions of those in them, which are Kolla's names for the same."""
_KAYOBES = frozenset(
    f"kolla_{side}_{what}" for side in ("internal", "external") for what in ("vip_address", "fqdn")
)
"""Kolla variables that Kayobe has under the same name."""
LONGEST_BRIDGED = 15 - len("-ovs")
"""Characters of an interface with a bridge, which Kayobe names after it: Linux allows 15."""


def kayobe_files(view: CloudView) -> dict[str, str]:
    """Path -> text of the files under KAYOBE_CONFIG_PATH, but for kolla/passwords.yml. Raises `InputErrors`."""
    if errors := list(_lacking(view)):
        raise InputErrors(errors)
    site = view.site.name
    variables: dict[str, Variables] = {
        "globals.yml": {
            "os_distribution": view.deployment.distribution,
            "kayobe_ansible_user": view.deployment.user,
        },
        "networks.yml": networks(view),
        "network-allocation.yml": allocation(view),
        "dns.yml": {
            "resolv_nameservers": list(map(str, view.deployment.dns)),
            "resolv_domain": view.deployment.domain,
        },
        "time.yml": {"chrony_ntp_servers": [_time_server(name) for name in view.deployment.ntp]},
        "kolla.yml": _kolla(view),
        "kolla/globals.yml": _globals(view),
        "inventory/group_vars/overcloud.yml": _PYTHON,
        "inventory/group_vars/seed.yml": {**_PYTHON, **seed_variables(view)},
    }
    for role in view.roles:
        name = group_of(role)
        variables[f"inventory/group_vars/{name}.yml"] = role_networks(view, view.roles[role])
        if own := _kollas_own(view, role):
            variables[f"kolla/inventory/group_vars/{name}.yml"] = own
    return {
        "inventory/hosts": _hosts(view),
        "inventory/groups": _groups(view),
        **{path: yaml_file(site, values) for path, values in variables.items()},
        **{f"kolla/{path}": text for path, text in _config(view).items() if _is_config(path)},
        "README.md": _readme(view),
    }


def _config(view: CloudView) -> dict[str, str]:
    """Kolla's `config/` files. Ironic's networks for machines are Kayobe's own."""
    return config_files(view, _ref, own_networks=False)


_PYTHON: Variables = {"ansible_python_interpreter": "{{ virtualenv_path }}/kayobe/bin/python"}


def _ref(variable: str) -> str:
    """A reference to a variable of Kolla's passwords.yml that Kayobe's rendering leaves as it is. `{% raw %}` would
    swallow the newline."""
    return f"{{{{ '{{{{ {variable} }}}}' }}}}"


def _is_config(path: str) -> bool:
    return path.startswith("config/")


def _lacking(view: CloudView) -> Iterator[InputError]:
    """Errors for what the site lacks that Kayobe requires and Kolla Ansible doesn't."""
    field = f"clouds.{view.name}.deployment"
    if view.deployment.distribution == "debian":
        yield InputError(f"{field}.distribution", "debian", "rocky, centos or ubuntu, for Kayobe")
    provisioning = view.network_with("provisioning")
    if provisioning is None:
        yield InputError("networks", None, "a subnet with the role provisioning, for Kayobe")
    if view.deployment.seed is None:
        yield InputError(f"{field}.seed", None, "the node that hosts are installed from, for Kayobe")
    elif provisioning is not None and view.interface(view.deployment.seed, provisioning) is None:
        allowed = f"a row of interfaces for {view.deployment.seed} on the provisioning network"
        yield InputError(f"{field}.seed", view.deployment.seed, allowed)
    if view.deployment.inspection is None:
        yield InputError(
            f"{field}.inspection", None, "addresses for hosts that are being inspected, for Kayobe"
        )
    seen: dict[str, str] = {}
    for physical in physical_networks(view):
        first = seen.setdefault(bridged(physical), f"the bridge of {physical}")
        if first != f"the bridge of {physical}":
            yield InputError(field, physical, f"a physical network that Kayobe can tell apart from {first}")
    for name in described(view):
        first = seen.setdefault(identifier(name), name)
        if first != name:
            yield InputError(f"networks.{name}", name, f"a name that Kayobe can tell apart from {first}")
        if not name[0].isalpha():
            yield InputError(
                f"networks.{name}", name, "a name that begins with a letter, for Kayobe's variables"
            )
    for role, one in view.roles.items():
        if provisioning is not None and provisioning not in one.interfaces:
            allowed = f"also {provisioning}: Kayobe reaches hosts there"
            yield InputError(f"{field}.roles.{role}.interfaces", ", ".join(one.interfaces) or None, allowed)
        for physical, interface in one.bridges.items():
            if len(interface) > LONGEST_BRIDGED:
                allowed = f"at most {LONGEST_BRIDGED} characters: Kayobe calls the bridge {interface}-ovs"
                yield InputError(f"{field}.roles.{role}.bridges.{physical}", interface, allowed)


def _time_server(name: str) -> Variables:
    return {"server": name, "type": "server", "options": [{"option": "iburst"}]}


# -- Kolla ---------------------------------------------------------------------------------------------------------


def _kolla(view: CloudView) -> Variables:
    """kolla.yml: what Kayobe itself must know of Kolla's variables, and its groups of hosts made of the roles'."""
    found = {n: v for n, v in global_variables(view).items() if n in _KAYOBES}
    found |= {f"kolla_{n}": v for n, v in global_variables(view).items() if n.startswith("enable_")}
    found |= {
        n: v
        for n, v in global_variables(view).items()
        if n.startswith("kolla_enable_tls_") and "back" not in n
    }
    found["kolla_overcloud_inventory_top_level_group_map"] = {
        function: {"groups": [group_of(name) for name, r in view.roles.items() if function in r.functions]}
        for _, function in _GROUPS
    }
    if packages := packages_of(view):
        found["kolla_build_customizations"] = {"neutron_base_pip_packages_append": list(packages)}
    return found


def _globals(view: CloudView) -> Variables:
    """kolla/globals.yml: the rest of Kolla's."""
    known = _kolla(view)
    return {n: v for n, v in global_variables(view).items() if n not in known and f"kolla_{n}" not in known}


def _kollas_own(view: CloudView, role: str) -> Variables:
    """A role's variables that Kayobe has no equivalent for."""
    own = OF_MACHINES[1:]
    return {n: v for n, v in role_variables(view, role).items() if n.endswith("_physnets") or n in own}


# -- inventory -----------------------------------------------------------------------------------------------------


def _hosts(view: CloudView) -> str:
    lines = [
        head(view.site.name),
        "localhost ansible_connection=local",
        "",
        "[seed]",
        str(view.deployment.seed),
        "",
    ]
    for role in view.roles:
        lines += [f"[{group_of(role)}]", *(host.nova_host for host in view.hosts[role]), ""]
    for group, function in _GROUPS:
        lines.append(f"[{group}:children]")
        lines += [group_of(name) for name, role in view.roles.items() if function in role.functions]
        lines.append("")
    return "\n".join(lines)


def _groups(view: CloudView) -> str:
    """Kayobe's own groups, which its playbooks require; Ansible parses each inventory file separately."""
    lines = [head(view.site.name)]
    for group, children in _OF_KAYOBE.items():
        lines += [f"[{group}:children]" if children else f"[{group}]", *children, ""]
    return "\n".join(lines)


_OVERCLOUD = tuple(group for group, _ in _GROUPS)
_OF_KAYOBE: dict[str, tuple[str, ...]] = {
    "seed": (),
    **dict.fromkeys(_OVERCLOUD, ()),
    "seed-hypervisor": (),
    "container-image-builders": ("seed",),
    "hypervisors": ("seed-hypervisor",),
    "infra-vms": (),
    "compute-vgpu": (),
    "overcloud": _OVERCLOUD,
    "vgpu": ("compute-vgpu",),
    "iommu": ("vgpu",),
    "container-engine": ("seed", *_OVERCLOUD),
    "docker-registry": ("seed",),
    "ntp": ("seed", "seed-hypervisor", "overcloud", "infra-vms"),
    "baremetal-compute": (),
    "mgmt-switches": (),
    "ctl-switches": (),
    "hs-switches": (),
    "switches": ("mgmt-switches", "ctl-switches", "hs-switches"),
}
"""Group -> groups that it consists of."""


def _readme(view: CloudView) -> str:
    tls = view.deployment.tls != "none"
    bonds = sorted({b for role in view.roles.values() for b in role.bonds})
    infiniband = sorted({i for r in view.roles.values() for i in r.interfaces.values() if i.startswith("ib")})
    steps = [
        "This directory is `KAYOBE_CONFIG_PATH`; a Kayobe environment may override parts of it.",
        "`kolla/passwords.yml`: `kayobe` generates it from Kolla's own"
        + "".join(f"; add `{name}` ({what})" for name, what in secrets(view).items())
        + ". BMCs: `ipmi_username` and `ipmi_password`, in a vault.",
    ]
    if tls:
        steps.append(
            f"Certificates in `kolla/certificates`; names: {view.external_name}, {view.internal_name}."
        )
    if bonds:
        steps.append(f"Modes of {', '.join(bonds)}: set `NETWORK_bond_mode` as the switches have it.")
    if infiniband:
        steps.append(
            f"Kayobe doesn't create IPoIB interfaces ({', '.join(infiniband)}): set them up first, with partitions "
            "for all hosts' ports, and run `kayobe overcloud host configure` with `--skip-tags network`."
        )
    steps += [
        "`kayobe control host bootstrap`, `kayobe configuration dump`; then the seed and overcloud as in its manual.",
        *(
            f"`openstack domain create {n}`, then restart Keystone."
            for n in sorted(view.deployment.ldap_domains)
        ),
        f"weft itself: a user with the roles in docs/operating-roles.md; its id: `{USER}` in `kolla/passwords.yml`, "
        "`kayobe overcloud service reconfigure -kt nova` (before, members can move the servers of pods), then "
        "`weft site activate` with this site.",
    ]
    listed = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    return f"# {view.site.name}: Kayobe for cloud {view.name}\n\n{listed}\n"
