"""The example `examples/sites/rdg`, and sites made of it that are awkward for deployment tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.model.site import Site
from weft.planning.site.check import canonical, check_site

RDG = EXAMPLES / "sites" / "rdg"
Document = dict[str, Any]


@cache
def rdg() -> Site:
    return load_site(RDG / "site.yaml")


def changed(*changes: Callable[[Document], object]) -> Site:
    """The example after changes of its document, which must leave it a good site."""
    document = rdg().model_dump(mode="json")
    for change in changes:
        change(document)
    site = Site.model_validate(document)
    assert check_site(site) == []
    return canonical(site)


def deployment(document: Document) -> Document:
    return document["clouds"]["overcloud"]["deployment"]


def with_everything(document: Document) -> None:
    """Neutron notifies weft of tenants' networks, Prometheus watches weft, and customers are in LDAP."""
    document["fabrics"]["ib"]["tenant_networks"] = True
    one = deployment(document)
    one["sdn_url"] = None
    one["weft_url"] = "https://weft.example.net:8787"
    one["roles"]["Controller"]["functions"].append("monitoring")
    document["monitoring"] = {"api": [one["weft_url"]]}
    one["ldap_domains"] = {
        "customers": {
            "url": "ldaps://ldap1.example.net,ldaps://ldap2.example.net",
            "ca": "/etc/ssl/certs/customers.pem",
            "user": "cn=weft,dc=customers,dc=example",
            "users": "ou=people,dc=customers,dc=example",
            "groups": "ou=groups,dc=customers,dc=example",
        }
    }


def with_machines(document: Document) -> None:
    """A compute node is given whole, by Ironic."""
    node = next(n for n in document["nodes"] if n["name"] == "compute-2")
    node["machine"] = "4f0f4ee7-3d5e-4c1c-9d3c-0d2a3d1e7b11"


def with_shares(document: Document) -> None:
    """The cloud has Manila."""
    document["clouds"]["overcloud"]["storage"]["shares"] = True


def without_fabric(document: Document) -> None:
    """Accelerators, and hosts on Ethernet alone; the cloud has no InfiniBand."""
    document["links"] = [k for k in document["links"] if "ufm/mlx5_0" in (k["a"], k["b"])]
    for node in document["nodes"]:
        node["hcas"] = node["hcas"] if node["name"] == "ufm" else []
    for role in deployment(document)["roles"].values():
        role["adapters"] = {}
        for network, number in (("internal-api", 17), ("storage", 18), ("storage-mgmt", 19)):
            if network in role["interfaces"]:
                role["interfaces"][network] = f"bond0.{number}"
    for name in ("internal-api", "storage", "storage-mgmt"):
        document["networks"][name]["physical_network"] = "datacentre"
    deployment(document)["sdn_url"] = None


def with_roce(document: Document) -> None:
    """Two rails of Ethernet with virtual functions in every compute node, besides InfiniBand; weft sets the VLANs."""
    switches = [
        {"name": "leaf01", "interface": "eos", "url": "https://10.0.1.1"},
        {"name": "leaf02", "interface": "nvue", "url": "https://10.0.1.2:8765"},
    ]
    document["fabrics"]["roce"] = {
        "type": "ethernet",
        "physical_network": "rocenet",
        "segments": {"first": 300, "last": 399},
        "manager": {
            "driver": "switches",
            "switching": {
                "parking": 4000,
                "credentials": "/etc/neutron/switches.json",
                "switches": switches,
                "links": [{"a": "leaf01/Ethernet49", "b": "leaf02/swp49"}],
            },
        },
    }
    for name in ("leaf01", "leaf02"):
        document["switches"].append({"name": name, "fabric": "roce", "level": "leaf", "ports": 48})
    nodes = [n for n in document["nodes"] if n["role"] == "compute"]
    for number, node in enumerate(nodes):
        for rail in (1, 2):
            guid = 0xB8599F0300005000 + number * 256 + rail * 16
            node["hcas"].append(
                {
                    "name": f"mlx5_{rail}",
                    "fabric": "roce",
                    "guid": hex(guid),
                    "port_guid": hex(guid + 1),
                    "pci": f"0000:{0x40 + rail:x}:00.0",
                    "mac": f"0c:42:a1:00:05:{number * 16 + rail:02x}",
                    "switch_port": f"leaf0{rail}/Ethernet{number + 1}"
                    if rail == 1
                    else f"leaf02/et-0/0/{number}",
                    "vfs": 4,
                }
            )
    adapters = deployment(document)["roles"]["ComputeSriovIB"]["adapters"]
    adapters |= {"mlx5_1": "ens1f0np0", "mlx5_2": "ens2f0np0"}


def by_neutron(document: Document) -> None:
    """After `with_roce`: Neutron sets the VLANs of its switches; no functions, since it sets whole ports only."""
    document["fabrics"]["roce"]["manager"]["switching"]["configured_by"] = "neutron"
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca["vfs"] = hca["vfs"] if hca["fabric"] == "ib" else 0
