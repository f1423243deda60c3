"""A guide's figures follow from its example site, line by line; each difference is named.

"Reference Deployment Guide for OpenStack cloud on InfiniBand and GPUs", NVIDIA, 10 March 2022; its addresses were left
out when it was published.
"""

from __future__ import annotations

import configparser
import json
import re
from typing import Any

import yaml

from tests.helpers.rdg import rdg
from weft.model.novaflavor import extra_specs
from weft.planning.export.formats import export

UNDERCLOUD = """\
[DEFAULT]
undercloud_hostname = rdo-director.localdomain
local_ip =
network_gateway =
undercloud_public_host =
undercloud_admin_host =
undercloud_nameservers =
undercloud_ntp_servers =
subnets = ctlplane-subnet
local_subnet = ctlplane-subnet
generate_service_certificate = True
certificate_generation_ca = local
local_interface = eno1
inspection_interface = br-ctlplane
undercloud_debug = true
enable_tempest = false
enable_telemetry = false
enable_validations = true
enable_novajoin = false
clean_nodes = true
container_images_file = /home/stack/containers-prepare-parameter-ib-vm.yaml
[ctlplane-subnet]
cidr =
dhcp_start =
dhcp_end =
inspection_iprange =
gateway =
masquerade = true
"""
LEFT_OUT = {
    "network_gateway": "the subnet's `gateway`; tripleoclient no longer knows it",
    "undercloud_debug": "its default",
    "enable_tempest": "tripleoclient no longer knows it",
}
ADDED = {
    "overcloud_domain_name": "the site's domain is always said",
    "local_mtu": "the network's, which another site may have otherwise",
}
OTHERWISE = {"container_images_file": "beside the other files"}

DEPLOY = """\
--templates /usr/share/openstack-tripleo-heat-templates
--networks-file /home/stack/templates/IB/VM/network_data_ib_vm.yaml
--vip-file /home/stack/templates/IB/VM/vip-data-ib-vm.yaml
--baremetal-deployment /home/stack/templates/IB/VM/node-info-ib-vm.yaml
--network-config
-r /home/stack/templates/IB/VM/roles_data_ib_vm.yaml
-e /home/stack/templates/IB/VM/containers-prepare-parameter-ib-vm.yaml
-e /usr/share/openstack-tripleo-heat-templates/environments/podman.yaml
-e /usr/share/openstack-tripleo-heat-templates/environments/services/neutron-ovs.yaml
-e /usr/share/openstack-tripleo-heat-templates/environments/services/neutron-mlnx-agent.yaml
-e /home/stack/templates/IB/VM/neutron-ml2-mlnx-sdn-vm.yaml
-e /home/stack/templates/IB/VM/ib-env-vm.yaml
--validation-warnings-fatal
-e /usr/share/openstack-tripleo-heat-templates/environments/disable-telemetry.yaml
"""
CALLED = {
    "network_data_ib_vm.yaml": "network_data.yaml",
    "vip-data-ib-vm.yaml": "vip_data.yaml",
    "node-info-ib-vm.yaml": "node-info.yaml",
    "roles_data_ib_vm.yaml": "roles_data.yaml",
    "containers-prepare-parameter-ib-vm.yaml": "containers-prepare-parameter.yaml",
    "neutron-ml2-mlnx-sdn-vm.yaml": "neutron-ml2-mlnx-sdn.yaml",
    "ib-env-vm.yaml": "environment.yaml",
}
"""The guide's file -> the exported file."""
FOR_TLS = "environments/ssl/"
"""The guide's cloud has no TLS; the example's has it on both sides."""


def _options(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {name: value for section in parser.values() for name, value in section.items()}


def test_undercloud_conf_matches_the_guide() -> None:
    guide, ours = _options(UNDERCLOUD), _options(export(rdg(), "tripleo")["undercloud.conf"])
    assert guide.keys() - ours.keys() == LEFT_OUT.keys()
    assert ours.keys() - guide.keys() == ADDED.keys()
    said = {name: value for name, value in guide.items() if value and name in ours}
    assert {n for n, v in said.items() if ours[n].lower() != v.lower()} == OTHERWISE.keys()
    assert all(ours[name] for name, value in guide.items() if not value and name in ours)


def test_deploy_command_matches_the_guide() -> None:
    """The same arguments in the same order. TLS arguments are in between, and the flag that makes warnings fatal may be
    anywhere.
    """
    guide = DEPLOY
    for name, called in CALLED.items():
        guide = guide.replace(f"/home/stack/templates/IB/VM/{name}", f"/home/stack/templates/{called}")
    text = export(rdg(), "tripleo")["deploy.sh"]
    ours = [line.strip().removesuffix(" \\") for line in text.splitlines() if line.startswith("  -")]
    ours = [line for line in ours if FOR_TLS not in line]
    fatal = "--validation-warnings-fatal"
    assert [line for line in ours if line != fatal] == [line for line in guide.splitlines() if line != fatal]
    assert fatal in ours


def test_machines_roles_and_tenant_network_match_the_guide() -> None:
    """Names, the InfiniBand interface, changed images, VLAN 101 as P_Key 0x65, and where each driver runs."""
    files = export(rdg(), "tripleo")
    names = [node["name"] for node in json.loads(files["instackenv.json"])["nodes"]]
    assert names == ["controller-1", "controller-2", "controller-3", "compute-1", "compute-2"]
    prepared: list[dict[str, Any]] = yaml.safe_load(files["templates/containers-prepare-parameter.yaml"])[
        "parameter_defaults"
    ]["ContainerImagePrepare"]
    assert [entry.get("includes") for entry in prepared] == [
        None,
        ["nova-compute", "neutron-server", "neutron-dhcp-agent", "neutron-l3-agent"],
        ["neutron-mlnx-agent"],
    ]
    change = prepared[1]["modify_vars"]
    assert change["yum_packages"] == ["python3-networking-mlnx"] and change["tasks_from"] == "yum_install.yml"
    assert rdg().fabrics["ib"].segments.first == 101 == 0x65
    parameters = yaml.safe_load(files["templates/environment.yaml"])["parameter_defaults"]
    assert parameters["MultiInterfaceDriverMappings"] == ["datacentre:openvswitch", "ibnet:ipoib"]
    sdn = yaml.safe_load(files["templates/neutron-ml2-mlnx-sdn.yaml"])["parameter_defaults"]
    assert (sdn["MlnxSDNUsername"], sdn["MlnxSDNPassword"]) == ("", "")
    assert set(re.findall(r"\bib\d\b", files["templates/nics/Controller.j2"])) == {"ib2"}


def test_gpu_flavor_matches_the_guide() -> None:
    """`m1.gpu --ram 8192 --vcpus 8`, dedicated CPUs, one A100; weft sets no disk."""
    flavor = rdg().clouds["overcloud"].flavors["m1.gpu"]
    assert (flavor.memory_mib, flavor.cores) == (8192, 8)
    specs = extra_specs(flavor)
    assert specs["hw:cpu_policy"] == "dedicated" and specs["pci_passthrough:alias"] == "a100:1"
