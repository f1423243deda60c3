"""Files for Kayobe: their contents, and that Kayobe makes the same Kolla configuration of them."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.kayobe import Kayobe
from tests.helpers.kolla import exported, read
from tests.helpers.rdg import Document, changed, deployment, rdg, with_everything, with_roce, without_fabric
from tests.planning.export.test_kolla import sections
from weft.model.errors import InputErrors
from weft.model.site import Site
from weft.planning.export.formats import export


def kayobes(site: Site) -> dict[str, Any]:
    """The YAML files of a site, by path."""
    files = export(site, "kayobe")
    return {name: yaml.safe_load(text) for name, text in files.items() if name.endswith(".yml")}


def test_networks_have_their_purposes() -> None:
    found = kayobes(rdg())
    networks = found["networks.yml"]
    roles = ("provision_oc", "oob_oc", "internal", "public", "tunnel", "storage")
    assert [networks[f"{role}_net_name"] for role in roles] == [
        *("provisioning", "ipmi", "internal_api", "external", "internal_api", "storage")
    ]
    assert networks["external_net_names"] == ["physnet_datacentre"]
    assert networks["physnet_datacentre_physical_network"] == "datacentre"
    assert networks["provisioning_inspection_allocation_pool_start"] == "192.168.24.100"
    given = found["network-allocation.yml"]
    assert given["provisioning_ips"]["compute-2"] == "192.168.24.15"
    assert given["provisioning_ips"]["rdo-director"] == "192.168.24.2", "it is the seed"
    assert "ufm" not in given["provisioning_ips"], "it isn't a host of the cloud"


def test_variables_that_differ_between_roles_are_only_in_the_inventory() -> None:
    """A variable in a top-level file is an extra variable, which overrides all others."""
    found = kayobes(changed(with_everything, with_roce))
    everywhere = {n for path, values in found.items() if "/" not in path for n in values}
    by_role = {n for path, values in found.items() if "group_vars" in path for n in values}
    assert everywhere & by_role == set()
    controller = found["inventory/group_vars/role_controller.yml"]
    assert (
        controller["external_gateway"] == "10.7.208.1"
        and controller["physnet_datacentre_interface"] == "eno3"
    )
    compute = found["inventory/group_vars/role_computesriovib.yml"]
    assert compute["provisioning_gateway"] == "192.168.24.1" and "external_interface" not in compute


def test_seed_has_a_default_route() -> None:
    """Over its only network with a gateway; of several, over the public one."""
    seed = kayobes(rdg())["inventory/group_vars/seed.yml"]
    assert seed["provisioning_interface"] == "eno1" and seed["provisioning_gateway"] == "192.168.24.1"

    def outside(document: Document) -> None:
        row = {"device": "rdo-director", "name": "eno2", "network": "external", "address": "10.7.208.9"}
        document["interfaces"].append({**row, "mac": "0c:42:a1:00:03:10"})

    seed = kayobes(changed(outside))["inventory/group_vars/seed.yml"]
    assert seed["external_gateway"] == "10.7.208.1" and "provisioning_gateway" not in seed


def test_bonds_carry_vlans() -> None:
    """A bond that carries only VLANs is a network without addresses."""

    def on_bonds(document: Document) -> None:
        without_fabric(document)
        for role in deployment(document)["roles"].values():
            role["bonds"] = {"bond0": ["eno4", "eno5"]}

    found = kayobes(changed(on_bonds))["inventory/group_vars/role_controller.yml"]
    assert found["network_interfaces"][0] == "bond0_net"
    assert found["bond0_net_bond_slaves"] == ["eno4", "eno5"] and found["bond0_net_no_ip"] is True
    assert (found["internal_api_interface"], found["internal_api_vlan"]) == ("bond0.17", 17)
    infiniband = kayobes(rdg())["inventory/group_vars/role_controller.yml"]
    assert "internal_api_vlan" not in infiniband, "a P_Key is no VLAN: Kayobe would make one"


def test_secrets_are_left_to_kolla(tmp_path: Path) -> None:
    """Kayobe's templates would look for them and not find them."""
    files = export(changed(with_everything), "kayobe")
    text = files["kolla/config/keystone/domains/keystone.customers.conf"]
    assert "password = {{ '{{ keystone_ldap_customers_password }}' }}\n" in text
    assert "keystone_ldap_customers_password" in files["README.md"]


def test_missing_site_settings_are_reported_together() -> None:
    def wrong(document: Document) -> None:
        one = deployment(document)
        one.update(seed=None, inspection=None, distribution="debian")
        for role in one["roles"].values():
            role["bridges"] = {"datacentre": "enp129s0f0np0"}
        del one["roles"]["ComputeSriovIB"]["interfaces"]["provisioning"]

    with pytest.raises(InputErrors) as caught:
        export(changed(wrong), "kayobe")
    field = "clouds.overcloud.deployment."
    assert [e.field.removeprefix(field) for e in caught.value.errors] == [
        "distribution",
        "seed",
        "inspection",
        "roles.Controller.bridges.datacentre",
        "roles.ComputeSriovIB.interfaces",
        "roles.ComputeSriovIB.bridges.datacentre",
    ]


def test_ambiguous_network_names_are_refused() -> None:
    def like_it(document: Document) -> None:
        networks = document["networks"]
        networks["storage.mgmt"] = {**networks["storage-mgmt"], "vlan": 20}
        networks["storage.mgmt"]["subnets"] = {
            "s": {"role": "storage", "addresses": "172.20.0.0/24", "dhcp": False}
        }
        deployment(document)["roles"]["Controller"]["interfaces"]["storage.mgmt"] = "ib2.8014"

    with pytest.raises(InputErrors, match=r"a name that Kayobe can tell apart from storage-mgmt"):
        export(changed(like_it), "kayobe")


def test_network_name_that_equals_a_bridge_variable_is_refused() -> None:
    """Kayobe would mix its addresses with the bridge's physical network."""

    def like_it(document: Document) -> None:
        networks, name = document["networks"], "physnet-datacentre"
        networks[name] = {**networks["storage-mgmt"], "vlan": 20}
        networks[name]["subnets"] = {"s": {"role": "storage", "addresses": "172.20.0.0/24", "dhcp": False}}
        deployment(document)["roles"]["Controller"]["interfaces"][name] = "ib2.8014"

    with pytest.raises(InputErrors, match=r"a name that Kayobe can tell apart from the bridge of datacentre"):
        export(changed(like_it), "kayobe")


def test_every_kayobe_group_is_declared_before_use() -> None:
    """Ansible reads each inventory file by itself."""
    for name in ("inventory/hosts", "inventory/groups"):
        parsed = configparser.ConfigParser(allow_no_value=True, delimiters=("\0",))
        parsed.read_string("[DEFAULT]\n" + export(rdg(), "kayobe")[name].replace("localhost ansible", "#"))
        known = {section.partition(":")[0] for section in parsed.sections()}
        used = {one for section in parsed.sections() if ":children" in section for one in parsed[section]}
        assert used <= known


# -- Kayobe itself -------------------------------------------------------------------------------------------------


@pytest.mark.cloud
@pytest.mark.nightly(reason="Kayobe's own environment; by day Kolla Ansible reads the same inventory")
def test_kayobe_reads_its_hosts_and_networks(tmp_path: Path) -> None:
    """With its own `configuration dump`, which fails for a file that isn't YAML."""
    one = Kayobe(tmp_path, rdg())
    hosts = one.dump("overcloud", "ansible_host")
    assert hosts == {
        **{f"controller-{n}": f"192.168.24.1{n}" for n in (1, 2, 3)},
        "compute-1": "192.168.24.14",
        "compute-2": "192.168.24.15",
    }
    text = (one.config / "networks.yml").read_text()
    (one.config / "networks.yml").write_text(
        text.replace("provisioning_mtu: 1500", "provisioning_mtu: [1500")
    )
    assert one.run("configuration", "dump", "--var-name", "ansible_host", "-l", "seed").returncode != 0


SITES = {"rdg": [], "everything": [with_everything, with_roce], "ethernet": [without_fabric]}


@pytest.mark.cloud
@pytest.mark.nightly(reason="Kayobe's playbooks take a minute a site; by day it reads its hosts and networks")
@pytest.mark.parametrize("name", list(SITES))
def test_kayobe_generates_the_same_kolla_configuration(tmp_path: Path, name: str) -> None:
    """With its own playbooks: groups, hosts' variables, globals.yml and services' files equal the export for Kolla."""
    site = changed(*SITES[name])
    one = Kayobe(tmp_path, site)
    one.make("kolla-ansible")
    one.make("kolla-openstack")
    files = export(site, "kolla")
    _same_globals(
        yaml.safe_load((one.kolla / "globals.yml").read_text()), yaml.safe_load(files["globals.yml"])
    )
    _same_inventory(one.inventory(), read(exported(tmp_path / "other", site)))
    for path, text in files.items():
        if not path.startswith("config/"):
            continue
        made = (one.kolla / path).read_text()
        if path.endswith((".conf", ".ini")):
            theirs, ours = sections(made), sections(text)
            assert {s: {o: theirs[s][o] for o in options} for s, options in ours.items()} == ours, path
        else:
            assert (
                yaml.safe_load(made) == yaml.safe_load(text)
                if path.endswith(("yml", "yaml"))
                else made == text
            ), path


def _same_globals(made: dict[str, Any], ours: dict[str, Any]) -> None:
    assert {name: made.get(name) for name in ours} == ours


def _same_inventory(made: dict[str, Any], ours: dict[str, Any]) -> None:
    for group in ("control", "network", "compute", "storage", "monitoring"):
        assert sorted(_hosts(made, group)) == sorted(_hosts(ours, group)), group
    variables = made["_meta"]["hostvars"]
    for host, known in ours["_meta"]["hostvars"].items():
        wanted = {
            n: v for n, v in known.items() if n.endswith(("_interface", "_physnets", "_networks", "_host"))
        }
        assert {n: variables[host].get(n) for n in wanted} == wanted, host


def _hosts(inventory: dict[str, Any], group: str) -> set[str]:
    found = set(inventory.get(group, {}).get("hosts", ()))
    for child in inventory.get(group, {}).get("children", ()):
        found |= _hosts(inventory, child)
    return found
