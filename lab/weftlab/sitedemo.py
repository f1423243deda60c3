"""`make demo DEMO=site`: from hardware lists to two working sites, and a pod on each.

First an IPU-POD64: 16 IPU-Machines, four Poplar servers, two switches and a PDU, as a spreadsheet has them. What the
lab's own bring-up made by hand, the gateways' network, is adopted. The Poplar servers' BMCs are on ports of the lab's
running switches, which are set, too. Then two racks of GPU nodes (`weftlab.gpusite`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.model.site import IpuMachine, Node, Site
from weftlab import ipu
from weftlab.gpusite import GpuSiteDemo
from weftlab.layout import Settings
from weftlab.site import CLOUD
from weftlab.sitesteps import SiteSteps, as_csv, subnet
from weftlab.switches.labsite import FABRIC, HARDWARE, hardware, lab_plan

POD = """\
name: bert
ipus: {count: 16}
nodes: {count: 1, flavor: cpu1, image: tiny}
access: {ssh_from: [10.0.0.0/8]}
"""
MANAGEMENT, DATA = "mgmt1", "tor1"
VLAN = 99
"""VLAN of the network that BMCs of servers, switches and PDUs are on."""
COLUMNS = [
    "Name", "Type", "Rack", "Position", "BMC MAC", "BMC IP", "BMC Switch", "BMC Switch Port", "GW MAC", "GW IP",
    "GW Switch", "GW Switch Port", "RNIC MAC", "RNIC IP", "RNIC Switch", "RNIC Switch Port", "Mgmt MAC", "Mgmt IP",
    "Mgmt Switch", "Mgmt Switch Port", "Ports", "Port Gbps", "MTU",
]  # fmt: skip


def bmc_ports(settings: Settings) -> list[str]:
    """Ports of the lab's leaves, `switch/port`, that have hardware on them and no node."""
    plan = lab_plan(settings)
    leaves = [s.name for s in plan.switches if s.name.startswith("tor")]
    names = [hardware(leaf, n + 1) for n in range(HARDWARE) for leaf in leaves]
    ends = {host.name: host.ends[0] for host in plan.hosts}
    return [plan.port(ends[name]) for name in names]


def hardware_list(site: Site, ports: Sequence[str]) -> str:
    """The lab's IPU-POD as a spreadsheet. Args: ports: that the Poplar servers' BMCs are on."""
    return as_csv(
        COLUMNS,
        [
            _device(MANAGEMENT, "switch", 1) | {"Ports": "Ethernet[1-48]", "Port Gbps": 1, "MTU": 1500},
            _device(DATA, "switch", 2, 47) | {"Ports": "Ethernet[1-32]/1", "Port Gbps": 100, "MTU": 9214},
            _device("pdu1", "PDU", 3, 48),
            *(_machine(m) for m in site.ipu_machines),
            *(
                _poplar(n.name, i, port)
                for i, (n, port) in enumerate(zip(_poplars(site), ports, strict=True), 1)
            ),
            {"Name": ipu.GENERIC, "Type": "controller", "Rack": ipu.RACK},
        ],
    )


def _device(name: str, kind: str, number: int, port: int | None = None) -> dict[str, object]:
    row: dict[str, object] = {"Name": name, "Type": kind, "Rack": ipu.RACK}
    row |= {"Mgmt MAC": f"28:99:3a:00:00:{number:02x}", "Mgmt IP": f"10.3.1.{number}"}
    return row | ({"Mgmt Switch": MANAGEMENT, "Mgmt Switch Port": f"Ethernet{port}"} if port else {})


def _machine(m: IpuMachine) -> dict[str, object]:
    n = m.position
    return {
        **{"Name": m.name, "Type": "IPU-M2000", "Rack": ipu.RACK, "Position": n},
        **{"BMC MAC": m.bmc_mac, "BMC IP": m.bmc_address, "BMC Switch": MANAGEMENT},
        **{"GW MAC": m.gw_mac, "GW IP": m.gw_address, "GW Switch": MANAGEMENT},
        **{"BMC Switch Port": f"Ethernet{2 * n - 1}", "GW Switch Port": f"Ethernet{2 * n}"},
        **{
            "RNIC MAC": m.rnic_mac,
            "RNIC IP": m.rnic_address,
            "RNIC Switch": DATA,
            "RNIC Switch Port": m.rnic_port,
        },
    }


def _poplars(site: Site) -> list[Node]:
    return [n for n in site.nodes if n.role == "poplar"]


def _poplar(name: str, n: int, bmc: str) -> dict[str, object]:
    switch, _, port = bmc.partition("/")
    row: dict[str, object] = {"Name": name, "Type": "Poplar server", "Rack": ipu.RACK}
    row |= {"BMC MAC": f"2c:ea:7f:00:00:{n:02x}", "BMC IP": f"10.3.2.{n}", "BMC Switch": switch}
    row |= {"BMC Switch Port": port, "Mgmt MAC": f"2c:ea:7f:00:01:{n:02x}"}
    row |= {"Mgmt IP": f"10.3.3.{n}", "Mgmt Switch": MANAGEMENT, "Mgmt Switch Port": f"Ethernet{32 + 2 * n}"}
    return row


def head(site: Site, project: str) -> dict[str, Any]:
    """What no list has: cloud, IPU-POD, networks. Args: project: id of the tenant's."""
    whole = site.model_dump(mode="json", exclude_defaults=True)
    flavors = whole["clouds"][CLOUD]["flavors"]  # the list has no host with GPUs
    whole["clouds"][CLOUD]["flavors"] = {n: f for n, f in flavors.items() if not f}
    net = site.ipu_pods[ipu.IPU_POD].gateway.addresses
    loopback = str(net[0]).removesuffix(".0.0")
    networks = {
        ipu.GATEWAY_NETWORK: {
            **{"physical_network": "physnet1", "vlan": 13},
            "subnets": {
                "bmc": subnet("bmc", "10.1.0.0/16", "10.1.254"),
                # Neutron answers no DHCP on a loopback network.
                "gw": subnet("gateway", str(net), f"{loopback}.252", dhcp=False),
            },
        },
        "infrastructure": {
            **{"physical_network": "sitenet", "vlan": VLAN, "fabric": FABRIC},
            "subnets": {"infrastructure": subnet("infrastructure", "10.3.0.0/16", "10.3.254")},
        },
        "storage": {
            **{"physical_network": "sitenet", "vlan": 12, "mtu": 9000, "shared_with": [project]},
            "subnets": {
                "storage": subnet("storage", "10.12.0.0/16", "10.12.254", gateway="10.12.0.1", nat=True)
            },
        },
    }
    # Of the lab's switches the site has no nodes.
    fabric = whole["fabrics"][FABRIC] | {"traffic": None}
    switches = [s for s in whole["switches"] if s["fabric"] == FABRIC]
    racks = [{"name": name} for name in sorted({ipu.RACK, *(s["rack"] for s in switches)})]
    mine = {k: whole[k] for k in ("name", "clouds", "ipu_pods")}
    return {**mine, "fabrics": {FABRIC: fabric}, "racks": racks, "switches": switches, "networks": networks}


class SiteDemo(SiteSteps):
    """The IPU site, then that of GPUs, in one lab."""

    def run(self) -> None:
        self.say("the first of two sites: an IPU-POD64")
        self.described(
            hardware_list(self.site, bmc_ports(self.lab.settings)), head(self.site, self.project())
        )
        self.say(
            "what it needs in the cloud; the gateways' network was made by hand before, which is in the way"
        )
        self.op("site", "plan", allowed=(1,))
        self.say("taken instead of made again")
        self.op("site", "apply", "--adopt", "--wait")
        self.ports(
            VLAN,
            "the switches themselves have the servers' BMCs in VLAN 99, and carry it between each other",
        )
        self.say("a second time: nothing to do")
        self.op("site", "apply", "--wait")
        self.op("audit")
        self.say("an IPU pod on what was made")
        (self.folder / "pod.yaml").write_text(POD)
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.weft("pod", "show", "bert")
        self.say("the site can't be taken away while a pod is on it")
        self.op("site", "destroy", allowed=(2,))
        self.weft("pod", "release", "bert", "--wait")
        self.taken_back(VLAN)
        folder = self.folder / "gpu"
        folder.mkdir()
        GpuSiteDemo(self.lab, folder).run()
