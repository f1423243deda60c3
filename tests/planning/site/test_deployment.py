"""How a cloud is deployed: what deployment tools would fail on is reported before a file is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors
from weft.model.site import cpus_of

RDG = EXAMPLES / "sites" / "rdg"
CONTROLLERS = "nodes: [controller-1, controller-2, controller-3]"
AT = "clouds.overcloud.deployment"
LDAP = """      ldap_domains:
        NAME: {url: "URL", user: "cn=weft,dc=example", users: "ou=people,dc=example"}
      sdn_url:"""


def mistakes(folder: Path, old: str, new: str) -> list[str]:
    """What is wrong with the example after this change, without line numbers."""
    shutil.copytree(RDG, folder / "rdg")
    site = folder / "rdg" / "site.yaml"
    text = site.read_text()
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    site.write_text(text.replace(old, new))
    try:
        load_site(site)
    except InputErrors as error:
        return [str(e).partition(": ")[2] for e in error.errors]
    return []


def ldap(name: str, url: str) -> str:
    return LDAP.replace("NAME", name).replace("URL", url)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: rdg", "name: other"),
        ("      sdn_url:", ldap("customers", "ldaps://a.example,ldaps://b.example")),
        ("sdn_url: https", "tls: none\n      sdn_url: https"),
    ],
)
def test_valid_deployments_are_accepted(tmp_path: Path, old: str, new: str) -> None:
    """The changes of the table below in a valid form."""
    assert mistakes(tmp_path, old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "internal_vip: 172.17.0.250",
            "internal_vip: 10.99.0.1",
            "internal_vip: '10.99.0.1' is not allowed: an address",
        ),
        ("internal_vip: 172.17.0.250", "internal_vip: 172.18.0.250", "a subnet with the role internal-api"),
        ("external_vip: 10.7.208.250", "external_vip: 172.17.0.251", "another role than internal-api"),
        (
            "internal_vip: 172.17.0.250",
            "internal_vip: 172.17.0.50",
            "outside the pool of subnet internal-api",
        ),
        (
            "internal_vip: 172.17.0.250",
            "internal_vip: 172.17.0.255",
            "an address for a host in 172.17.0.0/24",
        ),
        (
            "external_vip: 10.7.208.250",
            "external_vip: 192.168.24.11",
            "an unused address; controller-1/eno1 has it",
        ),
        ("external: eno2, ", "", "interfaces: missing: the interface on external, where external_vip is"),
        (CONTROLLERS, "nodes: [controller-1, controller-2]", "an odd number of hosts with function control"),
        (
            CONTROLLERS,
            "nodes: [controller-1, controller-2, nobody]",
            "'nobody' is not allowed: a node of the site",
        ),
        (
            CONTROLLERS,
            "nodes: [controller-1, controller-2, ufm]",
            "a node with role service; its role is subnet-manager",
        ),
        (CONTROLLERS, "nodes: [controller-1, controller-2, controller-2]", "a host's role must be unique"),
        (
            f"          {CONTROLLERS}\n",
            "",
            "Controller.nodes: missing: required for functions other than compute",
        ),
        ("[control, network, storage]", "[control, storage]", "a role with function network"),
        ("[control, network, storage]", "[control, network, control]", "each function once"),
        ("[control, network, storage]", "[control, network, dance]", "'dance'"),
        (
            "functions: [compute]",
            "functions: [compute]\n          nodes: [controller-1]",
            "a host's role must be unique",
        ),
        (
            "functions: [compute]",
            "functions: [compute]\n          nodes: [ufm]",
            "a node that servers are booted on",
        ),
        ("internal-api: ib2.8011, storage: ib2.8012}", "storage: ib2.8012}", "the interface on internal-api"),
        (
            "internal-api: ib2.8011, storage: ib2.8012}",
            "internal-api: eno1, storage: ib2.8012}",
            "must be unique",
        ),
        (
            "storage-mgmt: ib2.8013",
            "storage-mgmt: ib2.8023",
            "a name that ends with .8013, of the network's vlan 19",
        ),
        ("external: eno2, ", "external: eno2.100, ", "an interface without a dot: the network has no vlan"),
        (
            "storage-mgmt: ib2.8013",
            "storage-mgnt: ib2.8013",
            "'storage-mgnt' is not allowed: networks of cloud",
        ),
        ("storage-mgmt: ib2.8013", "storage-mgmt: averylongname.8013", "averylongname.8013"),
        ("cpu_shared_set: 0-1,18-19", "cpu_shared_set: 0-2", "aren't in cpu_dedicated_set; 2 is in both"),
        ("cpu_shared_set: 0-1,18-19", "cpu_shared_set: 3-1", "ranges from the lower to the higher"),
        ("cpu_shared_set: 0-1,18-19", "cpu_shared_set: all", "CPU numbers and ranges such as 0-3,8"),
        (
            "[control, network, storage]",
            "[control, network]\n          cpu_shared_set: 0-1",
            "only for roles with function",
        ),
        (
            "a100: {vendor_id",
            "h100: {vendor_id",
            "'h100' is not allowed: types of accelerators of cloud overcloud: a100",
        ),
        ("product_id: 20f1", "product_id: 20f", "product_id"),
        ("Controller:\n", "Control-plane:\n", "Control-plane"),
        ("Controller:\n", "computesriovib:\n", "a role's name must be unique"),
        ("seed: rdo-director", "seed: ufm", "'ufm' is not allowed: nodes with role service"),
        ("seed: rdo-director", "seed: controller-1", "a node in no role"),
        ("last: 192.168.24.120", "last: 192.168.25.120", "addresses in a subnet with the role provisioning"),
        ("first: 192.168.24.100", "first: 192.168.24.90", "outside the pool of subnet ctlplane-subnet"),
        ("first: 192.168.24.100", "first: 192.168.24.121", "from the lower to the higher"),
        ("      sdn_url:", ldap("Default", "ldaps://a.example"), "local domains of Keystone"),
        (
            "      sdn_url:",
            ldap("customers", "ldaps://a.example,ldap://b.example"),
            "all servers with ldaps://",
        ),
        (
            "      sdn_url:",
            ldap("customers", "ldap://a.example,ldaps://b.example"),
            "all servers with ldaps://",
        ),
        ("      sdn_url:", ldap("customers", "http://a.example"), "ldap_domains.customers.url"),
        ("      sdn_url:", ldap("customers", "ldaps://a$b.example"), "ldap_domains.customers.url"),
        ("https://192.168.24.5/ufmRestV3", "https://ufm:99999", "a port of 1 to 65535"),
        ("https://192.168.24.5/ufmRestV3", "https://[x", "a URL with a host"),
        ("      sdn_url:", "      weft_url: https://:8787\n      sdn_url:", "a URL with a host"),
        (
            "functions: [compute]",
            "functions: [compute]\n          bonds: {bond7: [ib2]}",
            "'bond7' is not allowed: interfaces of",
        ),
        ("ntp: [10.7.208.1]", "ntp: [not a name]", "not a name"),
        ("        a100: {vendor", "        a100: {password: x, vendor", "password"),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    found = mistakes(tmp_path, old, new)
    assert any(sentence in line for line in found), found
    assert all(line.startswith(AT) for line in found), found


def test_weft_address_is_required_if_neutron_notifies_it(tmp_path: Path) -> None:
    """The fabric has tenants' networks, and Neutron reports them to weft and not to UFM."""
    shutil.copytree(RDG, tmp_path / "rdg")
    site = tmp_path / "rdg" / "site.yaml"
    lines = [line for line in site.read_text().splitlines() if "sdn_url" not in line]
    text = "\n".join(lines).replace(
        "    type: infiniband\n", "    type: infiniband\n    tenant_networks: true\n"
    )
    site.write_text(text)
    with pytest.raises(InputErrors, match="weft's address: a fabric has tenant_networks"):
        load_site(site)


def test_every_adapter_of_hosts_with_servers_is_named(tmp_path: Path) -> None:
    found = mistakes(tmp_path, "adapters: {mlx5_0: ib2}\n          cpu_d", "cpu_d")
    allowed = "the interface of mlx5_0: an adapter with the host's own networks isn't a tenant's"
    assert found == [f"{AT}.roles.ComputeSriovIB.adapters: missing: {allowed}"]


def test_cpu_lists_are_parsed() -> None:
    assert cpus_of("0-3,8, 10") == {0, 1, 2, 3, 8, 10}
    for bad in ("", "-1", "1-", "a", "1,,2", "0-99999", "^3"):
        with pytest.raises(ValueError, match="CPU numbers"):
            cpus_of(bad)
