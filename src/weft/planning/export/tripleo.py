"""The reference's file set for TripleO (Wallaby): an undercloud that installs hosts by Ironic, and Heat's environments.

TripleO is retired; the files are those that the reference guide for InfiniBand names. Secrets are written as `$NAME`,
which `fill.py` replaces; Jinja and Heat leave them alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Any

from weft.model.errors import InputError, InputErrors
from weft.model.fabrictypes import FabricKind
from weft.model.site import Node, SiteNetwork, SiteSubnet
from weft.planning.export.text import head, ini_file, yaml_file
from weft.planning.export.tripleoenvironment import environment, sdn_environment, secrets
from weft.planning.export.tripleofill import FILL
from weft.planning.export.tripleonetworks import TripleoNetworks, networks_for, nic_template
from weft.planning.export.tripleoroles import role_data
from weft.planning.export.view import CloudView
from weft.planning.site.deployment import networks_with

FOLDER = "/home/stack/templates"


def tripleo_files(view: CloudView) -> dict[str, str]:
    """Path -> text of the files in the undercloud's home directory. Raises `InputError` or `InputErrors`."""
    if errors := list(_lacking(view)):
        raise InputErrors(errors)
    site, networks = view.site.name, networks_for(view)
    files = {
        "undercloud.conf": ini_file(site, _undercloud(view)),
        "instackenv.json": json.dumps({"nodes": [_node(view, n) for n in _hosts(view)]}, indent=4) + "\n",
        "templates/network_data.yaml": yaml_file(site, [_network(networks, name) for name in networks.names]),
        "templates/vip_data.yaml": yaml_file(site, _vips(view, networks)),
        "templates/roles_data.yaml": yaml_file(
            site, [role_data(view, networks, role) for role in view.roles]
        ),
        "templates/node-info.yaml": yaml_file(site, [_placed(view, networks, role) for role in view.roles]),
        "templates/containers-prepare-parameter.yaml": yaml_file(site, _containers(view)),
        "templates/environment.yaml": yaml_file(site, environment(view)),
    }
    files |= {f"templates/nics/{role}.j2": nic_template(view, networks, role) for role in view.roles}
    if (sdn := sdn_environment(view)) is not None:
        files["templates/neutron-ml2-mlnx-sdn.yaml"] = yaml_file(site, sdn)
    files["deploy.sh"] = _deploy(view, files)
    files["fill.py"] = FILL
    files["README.md"] = _readme(view, files)
    return files


def _hosts(view: CloudView) -> list[Node]:
    return [host for role in view.roles for host in view.hosts[role]]


def _lacking(view: CloudView) -> Iterator[InputError]:
    """Errors for what the site lacks that TripleO needs and the other formats don't."""
    field = f"clouds.{view.name}.deployment"
    if view.deployment.seed is None:
        yield InputError(f"{field}.seed", None, "the node that becomes the undercloud, for TripleO")
    elif view.interface(view.deployment.seed, view.network_with("provisioning")) is None:
        allowed = f"a row of interfaces for {view.deployment.seed} on the provisioning network"
        yield InputError(f"{field}.seed", view.deployment.seed, allowed)
    if view.deployment.inspection is None:
        yield InputError(
            f"{field}.inspection", None, "addresses for hosts that are being inspected, for TripleO"
        )
    found = view.subnet_with("provisioning")
    if found is None or found[2].pool is None or found[2].gateway is None:
        yield InputError("networks", None, "a subnet with the role provisioning, with a pool and a gateway")
    for host in _hosts(view):
        for role in ("bmc", "provisioning"):
            if not any(view.interface(host.name, n) for n in networks_with(view.site, view.name, role)):
                allowed = (
                    f"a row for {host.name} on a network with the role {role}: TripleO installs hosts by it"
                )
                yield InputError("interfaces", None, allowed)
    for name, role in view.roles.items():
        if role.bonds:
            yield InputError(
                f"{field}.roles.{name}.bonds", ", ".join(role.bonds), "none: the templates here have no bonds"
            )
    for name, fabric in view.fabrics.items():
        if fabric.is_neutrons:
            allowed = "weft: TripleO's images have no networking-generic-switch"
            yield InputError(f"fabrics.{name}.manager.switching.configured_by", "neutron", allowed)
    if view.has_machines:
        yield InputError(
            "nodes.machine", None, "no bare-metal machines: the reference's file set deploys no Ironic"
        )


def _undercloud(view: CloudView) -> dict[str, list[tuple[str, str]]]:
    one, found = view.deployment, view.subnet_with("provisioning")
    assert found is not None and one.seed is not None and one.inspection is not None
    network, label, subnet = found
    own = view.interface(one.seed, network)
    assert own is not None and subnet.pool is not None
    public, admin = _free(view, network, subnet, 2)
    names = [
        ("undercloud_hostname", f"{one.seed}.{one.domain}"),
        ("local_ip", f"{own.address}/{subnet.addresses.prefixlen}"),
        ("undercloud_public_host", str(public)),
        ("undercloud_admin_host", str(admin)),
        ("undercloud_nameservers", ",".join(map(str, one.dns))),
        ("undercloud_ntp_servers", ",".join(one.ntp)),
        ("overcloud_domain_name", one.domain),
        ("subnets", label),
        ("local_subnet", label),
        ("local_interface", own.name),
        ("local_mtu", str(view.networks[network].mtu)),
        ("inspection_interface", "br-ctlplane"),
        ("generate_service_certificate", "true"),
        ("certificate_generation_ca", "local"),
        ("enable_telemetry", "false"),
        ("enable_validations", "true"),
        ("enable_novajoin", "false"),
        ("clean_nodes", "true"),
        ("container_images_file", f"{FOLDER}/containers-prepare-parameter.yaml"),
    ]
    control = [
        ("cidr", str(subnet.addresses)),
        ("dhcp_start", str(subnet.pool.first)),
        ("dhcp_end", str(subnet.pool.last)),
        ("inspection_iprange", f"{one.inspection.first},{one.inspection.last}"),
        ("gateway", str(subnet.gateway)),
        ("masquerade", "true"),
    ]
    return {"DEFAULT": names, label: control}


def _free(view: CloudView, network: str, subnet: SiteSubnet, count: int) -> list[IPv4Address]:
    """The lowest unused addresses of a subnet. Raises `InputError`."""
    taken = {i.address for i in view.site.interfaces if i.network == network}
    inspection, pool = view.deployment.inspection, subnet.pool
    found: list[IPv4Address] = []
    for address in subnet.addresses.hosts():
        if address in taken or address == subnet.gateway:
            continue
        if (pool is not None and address in pool) or (inspection is not None and address in inspection):
            continue
        found.append(address)
        if len(found) == count:
            return found
    field = f"networks.{network}.subnets"
    raise InputError(
        field, str(subnet.addresses), f"{count} addresses outside of the pool for the undercloud's APIs"
    )


def _node(view: CloudView, host: Node) -> dict[str, Any]:
    """A host for Ironic: its BMC and the port that it boots from."""
    network = next(n for n in networks_with(view.site, view.name, "bmc") if view.interface(host.name, n))
    bmc, port = (
        view.interface(host.name, network),
        view.interface(host.name, view.network_with("provisioning")),
    )
    assert bmc is not None and port is not None
    return {
        "name": host.name,
        "pm_type": "ipmi",
        "pm_addr": str(bmc.address),
        "pm_user": "$BMC_USER",
        "pm_password": "$BMC_PASSWORD",
        "arch": "x86_64",
        "ports": [{"address": port.mac, "pxe_enabled": True}],
    }


def _network(networks: TripleoNetworks, name: str) -> dict[str, Any]:
    one: SiteNetwork = networks.view.networks[name]
    subnets: dict[str, Any] = {}
    for label, subnet in one.subnets.items():
        entry: dict[str, Any] = {"ip_subnet": str(subnet.addresses)}
        if subnet.pool is not None:
            entry["allocation_pools"] = [{"start": str(subnet.pool.first), "end": str(subnet.pool.last)}]
        if subnet.gateway is not None:
            entry["gateway_ip"] = str(subnet.gateway)
        if one.vlan is not None:
            entry["vlan"] = one.vlan
        subnets[networks.subnet(name, label)] = entry
    return {
        "name": networks.names[name],
        "name_lower": networks.lower(name),
        "vip": name in networks.with_vip,
        "mtu": one.mtu,
        "subnets": subnets,
    }


def _vips(view: CloudView, networks: TripleoNetworks) -> list[dict[str, str]]:
    """Addresses that Pacemaker and Keepalived move: as the site gives them, others from the pools."""
    one = view.deployment
    given = {view.network_at(a): str(a) for a in (one.internal_vip, one.external_vip)}
    found: list[dict[str, str]] = [{"network": "ctlplane", "dns_name": "overcloud"}]
    for name in networks.with_vip:
        entry = {"network": networks.lower(name), "dns_name": "overcloud"}
        if name in given:
            address = IPv4Address(given[name])
            subnets = view.networks[name].subnets
            entry |= {
                "subnet": next(
                    networks.subnet(name, label) for label, s in subnets.items() if address in s.addresses
                ),
                "ip_address": given[name],
            }
        found.append(entry)
    return found


def _placed(view: CloudView, networks: TripleoNetworks, role: str) -> dict[str, Any]:
    """Which machine is which host of a role, with the addresses that the site has for it."""
    label = view.subnet_with("provisioning")
    assert label is not None
    others = [name for name in view.roles[role].interfaces if name in networks.names]
    external = view.network_at(view.deployment.external_vip)
    instances: list[dict[str, Any]] = []
    for number, host in enumerate(view.hosts[role]):
        port = view.interface(host.name, label[0])
        assert port is not None
        entries: list[dict[str, Any]] = [{"network": "ctlplane", "vif": True, "fixed_ip": str(port.address)}]
        for name in others:
            entry = {
                "network": networks.lower(name),
                "subnet": networks.subnet(name, next(iter(view.networks[name].subnets))),
            }
            if (own := view.interface(host.name, name)) is not None:
                subnets = view.networks[name].subnets
                where = next(n for n, s in subnets.items() if own.address in s.addresses)
                entry |= {"subnet": networks.subnet(name, where), "fixed_ip": str(own.address)}
            entries.append(entry)
        hostname = host.host or f"overcloud-{role.lower()}-{number}"
        instances.append({"hostname": hostname, "name": host.name, "networks": entries})
    return {
        "name": role,
        "count": len(instances),
        "hostname_format": f"%stackname%-{role.lower()}-%index%",
        "defaults": {
            "network_config": {
                "template": f"{FOLDER}/nics/{role}.j2",
                "default_route_network": [networks.lower(external) if external in others else "ctlplane"],
            }
        },
        "instances": instances,
    }


def _containers(view: CloudView) -> dict[str, Any]:
    """The standard images; where InfiniBand needs it, Neutron's and Nova's with networking-mlnx."""
    common = {
        "namespace": "quay.io/tripleowallaby",
        "name_prefix": "openstack-",
        "name_suffix": "",
        "tag": "current-tripleo",
    }
    changed = ["nova-compute", "neutron-server", "neutron-dhcp-agent", "neutron-l3-agent"]
    entries: list[dict[str, Any]] = [{"push_destination": True, "set": {**common, "neutron_driver": None}}]
    if any(f.type is FabricKind.INFINIBAND for f in view.fabrics.values()):
        entries[0]["excludes"] = [*changed, "neutron-mlnx-agent"]
        entries.append(
            {
                "push_destination": True,
                "set": common,
                "includes": changed,
                "modify_role": "tripleo-modify-image",
                "modify_append_tag": "-updated",
                "modify_vars": {
                    "tasks_from": "yum_install.yml",
                    "yum_repos_dir_path": "/etc/yum.repos.d",
                    "yum_packages": ["python3-networking-mlnx"],
                },
            }
        )
        entries.append({"push_destination": True, "set": common, "includes": ["neutron-mlnx-agent"]})
    return {"parameter_defaults": {"ContainerImagePrepare": entries}}


def _deploy(view: CloudView, files: dict[str, str]) -> str:
    """The deploy command of the guide, with what the site needs."""
    heat = "/usr/share/openstack-tripleo-heat-templates"
    arguments = [
        f"--templates {heat}",
        f"--networks-file {FOLDER}/network_data.yaml",
        f"--vip-file {FOLDER}/vip_data.yaml",
        f"--baremetal-deployment {FOLDER}/node-info.yaml",
        "--network-config",
        f"-r {FOLDER}/roles_data.yaml",
        f"-e {FOLDER}/containers-prepare-parameter.yaml",
        f"-e {heat}/environments/podman.yaml",
        f"-e {heat}/environments/services/neutron-ovs.yaml",
    ]
    if view.has_functions(FabricKind.ETHERNET):
        arguments.append(f"-e {heat}/environments/services/neutron-sriov.yaml")
    if view.has_functions(FabricKind.INFINIBAND):
        arguments.append(f"-e {heat}/environments/services/neutron-mlnx-agent.yaml")
    if "templates/neutron-ml2-mlnx-sdn.yaml" in files:
        arguments.append(f"-e {FOLDER}/neutron-ml2-mlnx-sdn.yaml")
    if view.deployment.tls == "everywhere":
        arguments.append(f"-e {heat}/environments/ssl/enable-internal-tls.yaml")
        arguments.append(f"-e {heat}/environments/ssl/tls-everywhere-endpoints-dns.yaml")
    elif view.deployment.tls == "external":
        arguments.append(f"-e {heat}/environments/ssl/tls-endpoints-public-dns.yaml")
    arguments += [
        f"-e {FOLDER}/environment.yaml",
        f"-e {heat}/environments/disable-telemetry.yaml",
        "--validation-warnings-fatal",
    ]
    return (
        f"#!/bin/bash\n{head(view.site.name)}exec openstack overcloud deploy \\\n  "
        + " \\\n  ".join(arguments)
        + "\n"
    )


def _readme(view: CloudView, files: Mapping[str, str]) -> str:
    names = sorted({"BMC_USER", "BMC_PASSWORD", *secrets(view)})
    have = [
        f for f, text in files.items() if any(f"${n}" in text for n in names) and f.startswith("templates/")
    ]
    listed = " ".join(PurePosixPath(f).name for f in have)
    steps = [
        f"`undercloud.conf` in the home directory of `stack` on {view.deployment.seed}, `templates` as `{FOLDER}`.",
        f"Secrets: set {', '.join(f'`{n}`' for n in names)} in the environment, without writing them into a "
        "shell's history, and fill each file that has them: `python3 fill.py instackenv.json ~/instackenv.json`, "
        f"and in `{FOLDER}` `for f in {listed}; do python3 ~/fill.py $f $f; done`. The files are readable by their "
        "owner only.",
        "`openstack undercloud install`, the images, `openstack overcloud node import ~/instackenv.json`, inspection.",
        "Partitions of the control networks on InfiniBand, with all hosts' ports, before the deployment.",
        "`deploy.sh`.",
        "weft's user, with the roles in docs/operating-roles.md; then its id as `WEFT_USER_ID` (`nobody` "
        "until then), and `deploy.sh` again. Before, members can move the servers of pods.",
    ]
    if view.cloud.storage.shares:
        steps.append("Manila's rules for weft, by hand: docs/operating-roles.md.")
    listed = "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1))
    return f"# {view.site.name}: TripleO for cloud {view.name}\n\n{listed}\n"
