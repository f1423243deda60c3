"""The second half of `make demo DEMO=site`: two racks of GPU nodes from their list to a pod on both, and back.

The nodes are those of the lab's Ethernet fabric, four with eight GPUs and two adapters each. Their BMCs are on ports of
the same leaves. Networks are one a role, as the cloud's own services, its tenants and the filers need them; the pod's
flavor is made in Nova.
"""

from __future__ import annotations

import json
from typing import Any

from weft.model.site import Hca, Node, Site
from weftlab.layout import Settings
from weftlab.rocedemo import RoceDemo
from weftlab.site import CLOUD, CORES, MEMORY_MIB
from weftlab.sitesteps import SiteSteps, as_csv, subnet
from weftlab.switches.labsite import FABRIC, GPU, HARDWARE, hardware, lab_plan

VLAN = 24
"""VLAN of the network that BMCs and switches are managed on."""
FLAVOR = "a100.8"
POD = f"""\
name: train
nodes: {{count: 3, flavor: {FLAVOR}, image: tiny}}
locality: {{required: site, preferred: leaf}}
storage: [{{export: home, mount: /home}}]
"""
_ADAPTER = ("MAC", "Fabric", "GUID", "Port GUID", "PCI", "Speed Gbps", "Switch", "Switch Port")
COLUMNS = [
    *("Name", "Type", "Rack", "Fabric", "Level", "Ports", "Cores", "Memory MiB"),
    *("BMC MAC", "BMC IP", "BMC Switch", "BMC Switch Port", "Mgmt MAC", "Mgmt IP", "API MAC", "API IP"),
    *("Storage MAC", "Storage IP"),
    *(f"mlx5_{n} {column}" for n in range(2) for column in _ADAPTER),
]


def hardware_list(site: Site, settings: Settings) -> str:
    """The lab's nodes on Ethernet, their switches and a filer, as a spreadsheet."""
    nodes, bmcs = _nodes(site), _bmc_ports(site, settings)
    switches = [s for s in site.switches if s.fabric == FABRIC]
    return as_csv(
        COLUMNS,
        [
            *(
                {
                    **{"Name": s.name, "Type": "switch", "Rack": s.rack, "Fabric": FABRIC},
                    **{"Level": s.level, "Ports": s.ports},
                    **{"Mgmt MAC": f"28:99:3a:24:00:{i:02x}", "Mgmt IP": f"10.229.0.{10 + i}"},
                }
                for i, s in enumerate(switches, 1)
            ),
            *(_host(node, i, bmcs[node.name]) for i, node in enumerate(nodes, 1)),
            {
                **{"Name": "nas1", "Type": "NAS", "Rack": switches[0].rack},
                **{"Storage MAC": "00:a0:98:26:00:01", "Storage IP": "10.226.0.5"},
            },
        ],
    )


def _nodes(site: Site) -> list[Node]:
    return [n for n in site.nodes if n.hcas_on(FABRIC)]


def _bmc_ports(site: Site, settings: Settings) -> dict[str, str]:
    """Node -> port of its own leaf, `switch/port`, that has hardware on it and no adapter."""
    plan = lab_plan(settings)
    ends = {host.name: host.ends[0] for host in plan.hosts}
    leaves = [s.name for s in plan.switches if s.name.startswith("tor")]
    free = {leaf: [plan.port(ends[hardware(leaf, n + 1)]) for n in range(HARDWARE)] for leaf in leaves}
    return {n.name: free[str(n.hcas[0].switch_port).partition("/")[0]].pop(0) for n in _nodes(site)}


def _host(node: Node, number: int, bmc: str) -> dict[str, object]:
    switch, _, port = bmc.partition("/")
    row: dict[str, object] = {"Name": node.name, "Type": "GPU node", "Rack": node.rack}
    row |= {"Cores": CORES, "Memory MiB": MEMORY_MIB, "BMC MAC": f"2c:ea:7f:24:00:{number:02x}"}
    row |= {"BMC IP": f"10.224.0.{10 + number}", "BMC Switch": switch, "BMC Switch Port": port}
    row |= {"API MAC": f"2c:ea:7f:21:00:{number:02x}", "API IP": f"10.221.0.{10 + number}"}
    for hca in node.hcas:
        row |= {f"{hca.name} {column}": value for column, value in zip(_ADAPTER, _cells(hca), strict=True)}
    return row


def _cells(hca: Hca) -> tuple[object, ...]:
    switch, _, port = str(hca.switch_port).partition("/")
    guids = (f"{hca.guid:#018x}", f"{hca.port_guid:#018x}")
    return hca.mac, hca.fabric, *guids, hca.pci, hca.rate_gbps, switch, port


def head(site: Site, project: str) -> dict[str, Any]:
    """What no list has: cloud, networks, accelerators. Args: project: id of the tenant's."""
    whole = site.model_dump(mode="json", exclude_defaults=True)
    cloud = whole["clouds"][CLOUD] | {
        "storage": {"network": "storage", "exports": {"home": {"location": "10.226.0.5:/home"}}},
        "flavors": {
            FLAVOR: {
                "accelerators": {"type": GPU, "count": 8},
                **{"cores": CORES // 2, "memory_mib": MEMORY_MIB // 2, "nova": {"disk_gib": 10}},
            }
        },
    }
    accelerators = [
        {"node": n.name, **a.model_dump(mode="json", exclude_defaults=True)}
        for n in _nodes(site)
        for a in n.accelerators
    ]
    return {
        **{"name": whole["name"], "clouds": {CLOUD: cloud}, "fabrics": {FABRIC: whole["fabrics"][FABRIC]}},
        **{"networks": _networks(project), "accelerators": accelerators},
    }


def _networks(project: str) -> dict[str, Any]:
    def network(
        vlan: int, physical: str, subnets: dict[str, dict[str, Any]], **more: object
    ) -> dict[str, Any]:
        return {"physical_network": physical, "vlan": vlan, **more, "subnets": subnets}

    def block(role: str, net: int, **more: object) -> dict[str, Any]:
        return subnet(role, f"10.{net}.0.0/16", f"10.{net}.254", **more)

    shared = {"shared_with": [project]}
    bmcs = {"bmc": block("bmc", 224), "switches": block("infrastructure", 229)}
    return {
        "internal-api": network(21, "sitenet", {"api": block("internal-api", 221)}),
        "provisioning": network(22, "sitenet", {"provisioning": block("provisioning", 222)}),
        "cleaning": network(23, "sitenet", {"cleaning": block("cleaning", 223)}),
        "hardware": network(VLAN, "sitenet", bmcs, fabric=FABRIC),
        "tenant": network(
            25, "physnet1", {"tenant": block("tenant", 225, gateway="10.225.0.1", nat=True)}, **shared
        ),
        "storage": network(26, "physnet1", {"storage": block("storage", 226)}, **shared),
    }


class GpuSiteDemo(SiteSteps, RoceDemo):
    """The demo of a site of GPU nodes, in a lab with an Ethernet fabric."""

    def run(self) -> None:
        self.say("the second of two sites: two racks of GPU nodes")
        self.described(hardware_list(self.site, self.lab.settings), head(self.site, self.project()))
        self.say("what it needs in the cloud and on switches")
        self.op("site", "plan")
        self.op("site", "apply", "--wait")
        self.ports(VLAN, f"the switches themselves have the nodes' BMCs in VLAN {VLAN}")
        self.say("a second time: nothing to do")
        self.op("site", "apply", "--wait")
        self.op("audit")
        self.say(
            "a pod on three nodes of both racks, of the flavor that was just made, with the filer's export"
        )
        (self.folder / "pod.yaml").write_text(POD)
        print(POD, end="")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.weft("pod", "show", "train")
        members = self.members("train")
        self.say("from every adapter of it to every other one, through the switches")
        self.pings(members, members, wanted=True)
        self.say("the site can't be taken away while a pod is on it")
        self.op("site", "destroy", allowed=(2,))
        self.say("release of the pod, with its own receipt")
        self.weft("pod", "release", "train", "--wait")
        self.weft("pod", "receipt", "train", "--json", save="pod-receipt.json")
        self.verify("pod-receipt.json")
        items = json.loads((self.folder / "pod-receipt.json").read_text())["receipt"]["items"]
        print(f"read back: {', '.join(sorted({i['plane'] for i in items}))}")
        self.taken_back(VLAN)
