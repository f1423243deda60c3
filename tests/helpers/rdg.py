"""The example `examples/sites/rdg`, and variants that are difficult for deployment tools."""

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
    """The example with its document changed; the result must be a valid site."""
    document = rdg().model_dump(mode="json")
    for change in changes:
        change(document)
    site = Site.model_validate(document)
    assert check_site(site) == []
    return canonical(site)


def deployment(document: Document) -> Document:
    return document["clouds"]["overcloud"]["deployment"]


def with_everything(document: Document) -> None:
    """Neutron notifies weft of tenants' networks, Prometheus scrapes weft, and customers are in LDAP."""
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
    """A compute node becomes a bare-metal machine of Ironic's."""
    node = next(n for n in document["nodes"] if n["name"] == "compute-2")
    node["machine"] = "4f0f4ee7-3d5e-4c1c-9d3c-0d2a3d1e7b11"


def with_shares(document: Document) -> None:
    """The cloud gets Manila."""
    document["clouds"]["overcloud"]["storage"]["shares"] = True


def without_fabric(document: Document) -> None:
    """Hosts with accelerators on Ethernet only; the cloud has no InfiniBand."""
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
    """Each compute node gets two rails of Ethernet with virtual functions besides InfiniBand; weft configures the
    VLANs."""
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
    """After `with_roce`: Neutron configures the VLANs of the switches, for whole ports only, so there are no
    functions."""
    document["fabrics"]["roce"]["manager"]["switching"]["configured_by"] = "neutron"
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca["vfs"] = hca["vfs"] if hca["fabric"] == "ib" else 0
