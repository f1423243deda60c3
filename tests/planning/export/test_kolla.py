"""The contents of the files for Kolla Ansible."""

from __future__ import annotations

import configparser
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from tests.helpers.rdg import (
    Document,
    by_neutron,
    changed,
    deployment,
    rdg,
    with_everything,
    with_roce,
    without_fabric,
)
from weft.cli.siteexport import FORMATS as OFFERED
from weft.model.errors import InputError, InputErrors
from weft.model.site import Site
from weft.planning.export.formats import FORMATS, export

ML2 = "config/neutron/ml2_conf.ini"
COMPUTE = "config/nova/nova-compute.conf"


def sections(text: str) -> dict[str, dict[str, list[str]]]:
    """An oslo.config file as section -> option -> its values in order."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line and not line.startswith("#"):
            option, _, value = line.partition(" = ")
            found.setdefault(section, {}).setdefault(option, []).append(value)
    return found


def drivers(site: Site) -> list[str]:
    return sections(export(site, "kolla")[ML2])["ml2"]["mechanism_drivers"][0].split(",")


def variables(files: Mapping[str, str], role: str) -> dict[str, Any]:
    return yaml.safe_load(files[f"inventory/group_vars/role_{role}.yml"])


def specs(text: str) -> list[dict[str, str]]:
    return [json.loads(value) for value in sections(text)["pci"]["device_spec"]]


def test_command_lists_exportable_clouds() -> None:
    assert set(OFFERED) == set(FORMATS)


@pytest.mark.parametrize("form", OFFERED)
def test_export_is_independent_of_row_order(form: str) -> None:
    """The same site gives the same bytes."""
    site = changed(with_everything, with_roce)
    turned = site.model_copy(update={"nodes": site.nodes[::-1], "interfaces": site.interfaces[::-1]})
    assert export(site, form) == export(site, form) == export(turned, form)


def test_export_matches_the_guide() -> None:
    """Three controllers in one role with high availability, two compute nodes with an adapter and a GPU, UFM."""
    files = export(rdg(), "kolla")
    inventory = configparser.ConfigParser(allow_no_value=True, delimiters=("\0",))
    inventory.read_string(files["inventory/multinode"])
    assert list(inventory["role_controller"]) == [
        f"controller-{n} ansible_host=192.168.24.1{n}" for n in (1, 2, 3)
    ]
    assert [list(inventory[f"{g}:children"]) for g in ("control", "network", "compute")] == [
        ["role_controller"],
        ["role_controller"],
        ["role_computesriovib"],
    ]
    everything = yaml.safe_load(files["globals.yml"])
    assert everything["kolla_internal_vip_address"] == "172.17.0.250"
    assert everything["kolla_external_vip_address"] == "10.7.208.250"
    for name in ("haproxy", "keepalived", "mariadb", "rabbitmq", "memcached", "neutron_mlnx"):
        assert everything[f"enable_{name}"] is True, name
    assert variables(files, "computesriovib")["neutron_mlnx_physnets"] == "ibnet:ib2"
    *functions, gpu = specs(files[COMPUTE])
    assert gpu == {"address": "0000:cc:00.0", "vendor_id": "10de", "product_id": "20f1"}
    assert functions[0] == {"address": "0000:c5:00.2", "physical_network": "ibnet", "trusted": "false"}
    assert len(functions) == 8, "only virtual functions: the host's networks are on the adapter itself"
    alias = json.loads(sections(files["config/nova.conf"])["pci"]["alias"][0])
    assert alias == {"name": "a100", "vendor_id": "10de", "product_id": "20f1", "device_type": "type-PF"}
    assert sections(files[COMPUTE])["compute"] == {
        "cpu_dedicated_set": ["2-17,20-35"],
        "cpu_shared_set": ["0-1,18-19"],
    }
    ml2 = sections(files[ML2])
    assert ml2["ml2"]["mechanism_drivers"][0].startswith("mlnx_sdn_assist,mlnx_infiniband,")
    assert ml2["sdn"]["url"] == ["https://192.168.24.5/ufmRestV3"]
    assert ml2["ml2_type_vlan"]["network_vlan_ranges"] == ["datacentre,ibnet,ipmi,provisioning"], (
        "weft assigns all numbers"
    )


def test_neutron_notifies_weft_through_the_frontend_on_each_controller() -> None:
    files = export(changed(with_everything), "kolla")
    ml2 = sections(files[ML2])
    assert ml2["sdn"]["url"] == ["http://127.0.0.1:8788/mlnx"]
    assert ml2["ml2_type_vlan"]["network_vlan_ranges"] == ["datacentre,ibnet:101:200,ipmi,provisioning"], (
        "tenants' own networks on InfiniBand"
    )
    front = files["config/haproxy/services.d/weft.cfg"]
    assert "bind 127.0.0.1:8788" in front and "server weft weft.example.net:8787 ssl verify required" in front
    scrape = yaml.safe_load(files["config/prometheus/prometheus.yml.d/weft.yml"])["scrape_configs"]
    assert scrape[0]["static_configs"] == [{"targets": ["weft.example.net:8787"]}]


def test_tenant_only_networks_are_not_host_networks() -> None:
    """A storage or tenant network without hosts isn't used for hosts, even if its name comes first."""

    def for_tenants(document: Document) -> None:
        for number, role in enumerate(("storage", "tenant")):
            block = f"10.9{number}.0.0/24"
            document["networks"][f"a-{role}"] = {
                "cloud": "overcloud",
                "physical_network": "datacentre",
                "vlan": 90 + number,
                "subnets": {"a": {"role": role, "addresses": block, "dhcp": False}},
            }

    site = changed(for_tenants)
    kolla = yaml.safe_load(export(site, "kolla")["inventory/group_vars/role_controller.yml"])
    assert kolla["storage_interface"] == "ib2.8012" and "tunnel_interface" not in kolla
    kayobe = yaml.safe_load(export(site, "kayobe")["networks.yml"])
    assert (kayobe["storage_net_name"], kayobe["tunnel_net_name"]) == ("storage", "internal_api")
    assert not [name for name in kayobe if name.startswith("a_")]
    tripleo = yaml.safe_load(export(site, "tripleo")["templates/network_data.yaml"])
    assert {n["name"] for n in tripleo} == {"External", "InternalApi", "Storage", "StorageMgmt"}
    alone = changed(for_tenants, without_hosts_storage)
    kolla = yaml.safe_load(export(alone, "kolla")["inventory/group_vars/role_controller.yml"])
    assert "storage_interface" not in kolla, "tenants' storage network isn't used instead"
    assert yaml.safe_load(export(alone, "kayobe")["networks.yml"])["storage_net_name"] is None


def without_hosts_storage(document: Document) -> None:
    for role in deployment(document)["roles"].values():
        for name in ("storage", "storage-mgmt"):
            role["interfaces"].pop(name, None)
            document["networks"].pop(name, None)


def test_ldap_customers_coexist_with_local_service_accounts() -> None:
    """The password is a variable of passwords.yml; no file contains it."""
    files = export(changed(with_everything), "kolla")
    assert [name for name in files if "keystone" in name and name.startswith("config/")] == [
        "config/keystone/domains/keystone.customers.conf"
    ]
    domain = sections(files["config/keystone/domains/keystone.customers.conf"])
    assert domain["identity"]["driver"] == ["ldap"]
    assert domain["ldap"]["password"] == ["{{ keystone_ldap_customers_password }}"]
    assert domain["ldap"]["group_tree_dn"] == ["ou=groups,dc=customers,dc=example"]
    assert yaml.safe_load(files["globals.yml"])["horizon_keystone_multidomain"] is True
    for name in ("keystone_ldap_customers_password", "weft_sdn_token"):
        assert f"`{name}`" in files["README.md"]


def test_plain_ldap_url_uses_starttls() -> None:
    def plain(document: Document) -> None:
        deployment(document)["ldap_domains"]["customers"] |= {
            "url": "ldap://ldap1.example.net",
            "groups": None,
        }

    files = export(changed(with_everything, plain), "kolla")
    domain = sections(files["config/keystone/domains/keystone.customers.conf"])["ldap"]
    assert domain["use_tls"] == ["true"] and "group_tree_dn" not in domain


def test_site_without_fabric_is_exported() -> None:
    """Without Mellanox's drivers and SR-IOV, but with accelerators."""
    site = changed(without_fabric)
    files = export(site, "kolla")
    assert drivers(site) == ["openvswitch", "l2population"]
    assert "sdn" not in sections(files[ML2])
    assert specs(files[COMPUTE]) == [{"address": "0000:cc:00.0", "vendor_id": "10de", "product_id": "20f1"}]
    assert "kolla-build/template-override.j2" not in files
    everything = yaml.safe_load(files["globals.yml"])
    assert not everything["enable_neutron_mlnx"] and not everything["enable_neutron_sriov"]


def test_several_fabrics_with_several_rails_are_exported() -> None:
    """A physical network may have several interfaces, and each fabric has its own driver."""
    site = changed(with_roce)
    files = export(site, "kolla")
    found = variables(files, "computesriovib")
    assert found["neutron_sriov_physnets"] == "rocenet:ens1f0np0,rocenet:ens2f0np0"
    assert found["neutron_mlnx_physnets"] == "ibnet:ib2"
    assert drivers(site)[:3] == ["mlnx_sdn_assist", "mlnx_infiniband", "sriovnicswitch"]
    assert [s.get("physical_network") for s in specs(files[COMPUTE])][7:] == [
        "ibnet",
        "rocenet",
        "rocenet",
        None,
    ]


def test_ethernet_fabric_configured_by_neutron_is_exported() -> None:
    """networking-generic-switch with weft's drivers, and the path of the credentials' file."""
    site = changed(with_roce, by_neutron)
    ml2 = sections(export(site, "kolla")[ML2])
    assert "genericswitch" in drivers(site)
    assert ml2["genericswitch:leaf01"] == {
        "device_type": ["weft"],
        "weft_interface": ["eos"],
        "weft_url": ["https://10.0.1.1"],
        "weft_credentials": ["/etc/neutron/switches.json"],
        "ngs_physical_networks": ["rocenet"],
        "ngs_trunk_ports": ["Ethernet49"],
        "ngs_port_default_vlan": ["4000"],
    }
    assert ml2["genericswitch:leaf02"]["ngs_trunk_ports"] == ["swp49"]
    override = export(site, "kolla")["kolla-build/template-override.j2"]
    packages = re.findall("'([^']+)'", override)
    for name in ("weft-pods[generic-switch]", "weft-pods-agents"):
        assert any(p.startswith(f"{name}@https://") for p in packages)
    assert not any(" " in p for p in packages)


def test_different_hosts_have_separate_files() -> None:
    def another_slot(document: Document) -> None:
        node = next(n for n in document["nodes"] if n["name"] == "compute-2")
        node["accelerators"][0]["pci"] = "0000:17:00.0"

    files = export(changed(another_slot), "kolla")
    assert COMPUTE not in files
    addresses = [specs(files[f"config/nova/compute-{n}/nova-compute.conf"])[-1]["address"] for n in (1, 2)]
    assert addresses == ["0000:cc:00.0", "0000:17:00.0"]


def test_adapter_with_host_networks_offers_only_functions() -> None:
    """The host's networks are on ib2; a tenant with the whole adapter would cut the host off."""

    def addresses_known(document: Document) -> None:
        for node in document["nodes"]:
            for hca in node["hcas"]:
                hca["vf_pci"] = "0000:c5:00.6" if hca["vfs"] else None

    found = specs(export(changed(addresses_known), "kolla")[COMPUTE])
    assert [s["address"] for s in found[:-1]] == [
        *("0000:c5:00.6", "0000:c5:00.7"),
        *(f"0000:c5:01.{n}" for n in range(6)),
    ]


def no_functions(document: Document) -> None:
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca.update(vfs=0, vf_pci=None)


def on_a_bridge(document: Document) -> None:
    role = deployment(document)["roles"]["ComputeSriovIB"]
    role["bridges"], role["adapters"]["mlx5_1"] = {"datacentre": "ens1f0np0"}, "ens1f0np0"


def on_a_bond(document: Document) -> None:
    role = deployment(document)["roles"]["ComputeSriovIB"]
    role["interfaces"]["external"], role["bonds"] = "bond0", {"bond0": ["ens1f0np0", "ens2f0np0"]}


def a_bond_of_both_functions(document: Document) -> None:
    for node in document["nodes"]:
        for hca in node["hcas"]:
            if hca["name"] == "mlx5_1":
                hca |= {"bond_pci": f"{hca['pci'][:-1]}1", "bond_mode": "802.3ad"}
                hca["switch_port"] = hca["switch_port"].replace("Ethernet", "Port-Channel")


def test_host_adapter_without_functions_is_not_offered() -> None:
    assert [s["address"] for s in specs(export(changed(no_functions), "kolla")[COMPUTE])] == ["0000:cc:00.0"]


@pytest.mark.parametrize(
    ("change", "left"),
    [(on_a_bridge, ["0000:42:00.0"]), (on_a_bond, []), (a_bond_of_both_functions, ["0000:42:00.0"])],
)
def test_adapters_with_bridges_or_bonds_belong_to_the_host(
    change: Callable[[Document], None], left: list[str]
) -> None:
    found = specs(export(changed(with_roce, no_functions, change), "kolla")[COMPUTE])
    assert [s["address"] for s in found if s.get("physical_network") == "rocenet"] == left


def test_functions_of_host_adapters_need_addresses() -> None:
    def unknown(document: Document) -> None:
        for node in document["nodes"]:
            for hca in node["hcas"]:
                hca["vf_pci"] = None

    with pytest.raises(
        InputError, match=r"compute-1.hcas.mlx5_0.vf_pci: missing: the first function's address"
    ):
        export(changed(unknown), "kolla")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("https://weft.example.net", "weft.example.net:443 ssl"),
        ("http://weft.example.net", "weft.example.net:80 resolvers"),
        ("https://[2001:db8::1]:8787", "[2001:db8::1]:8787 ssl"),
    ],
)
def test_frontend_forwards_to_the_address_of_weft(url: str, server: str) -> None:
    """HAProxy starts even if the name doesn't resolve yet, since weft is installed after the cloud."""
    site = changed(with_everything, lambda d: deployment(d).update(weft_url=url))
    front = export(site, "kolla")["config/haproxy/services.d/weft.cfg"]
    assert f"server weft {server}" in front and "init-addr last,libc,none" in front


def test_frontend_without_an_address_of_weft_is_refused() -> None:
    site = changed(lambda d: deployment(d).update(sdn_url="http://127.0.0.1:8788/mlnx/"))
    with pytest.raises(InputError, match="weft_url: missing: weft's address"):
        export(site, "kolla")


def test_bare_metal_machines_are_left_to_ironic() -> None:
    def a_machine(document: Document) -> None:
        node = next(n for n in document["nodes"] if n["name"] == "compute-2")
        node["machine"] = "4f0f4ee7-3d5e-4c1c-9d3c-0d2a3d1e7b11"

    files = export(changed(a_machine), "kolla")
    assert "compute-2" not in files["inventory/multinode"]
    everything = yaml.safe_load(files["globals.yml"])
    assert everything["enable_ironic"] is True
    assert everything["ironic_dnsmasq_dhcp_ranges"] == [{"range": "192.168.24.100,192.168.24.120"}]
    assert "config/ironic.conf" not in export(rdg(), "kolla")


@pytest.mark.parametrize(
    ("tls", "external", "internal"),
    [("everywhere", True, True), ("external", True, False), ("none", False, False)],
)
def test_tls_settings_follow_the_site(tls: str, external: bool, internal: bool) -> None:
    site = changed(lambda d: deployment(d).update(tls=tls))
    everything = yaml.safe_load(export(site, "kolla")["globals.yml"])
    assert everything["kolla_enable_tls_external"] is external
    for name in ("kolla_enable_tls_internal", "kolla_enable_tls_backend", "rabbitmq_enable_tls"):
        assert everything[name] is internal


def test_missing_site_settings_are_reported() -> None:
    with pytest.raises(InputErrors, match="devices: missing: vendor_id and product_id of a100"):
        export(changed(lambda d: deployment(d)["devices"].clear()), "kolla")
    with pytest.raises(InputError, match="--cloud: 'other' is not allowed: clouds with a deployment"):
        export(rdg(), "kolla", "other")
    with pytest.raises(InputError, match="there are none"):
        export(changed(lambda d: d["clouds"]["overcloud"].pop("deployment")), "kolla")


def test_domains_with_the_same_variable_are_refused() -> None:
    def like_it(document: Document) -> None:
        domains = deployment(document)["ldap_domains"]
        domains |= {"a-b": domains["customers"], "a.b": domains["customers"]}

    with pytest.raises(InputErrors, match=r"a name that differs from a-b in more than punctuation"):
        export(changed(with_everything, like_it), "kolla")


def test_neutron_uses_the_frontend_on_its_own_host() -> None:
    def apart(document: Document) -> None:
        roles = deployment(document)["roles"]
        roles["Network"] = {**roles["Controller"], "functions": ["network"], "nodes": ["net-1"]}
        roles["Controller"]["functions"] = ["control"]
        document["nodes"].append({"name": "net-1", "role": "service"})
        roles["Network"]["adapters"] = {}

    with pytest.raises(
        InputError, match=r"roles.Controller.functions: 'control' is not allowed: also network"
    ):
        export(changed(with_everything, apart), "kolla")
