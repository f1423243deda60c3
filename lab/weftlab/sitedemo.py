"""`make demo DEMO=site`: from a hardware list to a working site, and an IPU pod on it.

An IPU-POD64: 16 IPU-Machines, four Poplar servers, two switches and a PDU, as a spreadsheet has them. What the lab's
own bring-up made by hand, the gateways' network, is adopted. The Poplar servers' BMCs are on ports of the lab's running
switches, which are set, too.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from weft.app.sitefile import load_site
from weft.model.site import IpuMachine, Node, Site
from weftlab import ipu
from weftlab.bootstrap import connect
from weftlab.gpudemo import Demo
from weftlab.lab import Lab
from weftlab.layout import Settings
from weftlab.site import CLOUD
from weftlab.switches.labsite import FABRIC, HARDWARE, hardware, lab_ovs, lab_plan

LIST, HEAD, FOLDER = "ipupod64.csv", "head.yaml", "site"
POD = """\
name: bert
ipus: {count: 16}
nodes: {count: 1, flavor: cpu1, image: tiny}
access: {ssh_from: [10.0.0.0/8]}
"""
MANAGEMENT, DATA = "mgmt1", "tor1"
VLAN = 99
"""Of the network that BMCs of servers, switches and PDUs are on."""
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
    rows: list[dict[str, object]] = [
        _device(MANAGEMENT, "switch", 1) | {"Ports": "Ethernet[1-48]", "Port Gbps": 1, "MTU": 1500},
        _device(DATA, "switch", 2, 47) | {"Ports": "Ethernet[1-32]/1", "Port Gbps": 100, "MTU": 9214},
        _device("pdu1", "PDU", 3, 48),
        *(_machine(m) for m in site.ipu_machines),
        *(_poplar(n.name, i, port) for i, (n, port) in enumerate(zip(_poplars(site), ports, strict=True), 1)),
        {"Name": ipu.GENERIC, "Type": "controller", "Rack": ipu.RACK},
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


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
                "bmc": _subnet("bmc", "10.1.0.0/16", "10.1.254"),
                # Neutron answers no DHCP on a loopback network.
                "gw": _subnet("gateway", str(net), f"{loopback}.252") | {"dhcp": False},
            },
        },
        "infrastructure": {
            **{"physical_network": "sitenet", "vlan": VLAN, "fabric": FABRIC},
            "subnets": {"infrastructure": _subnet("infrastructure", "10.3.0.0/16", "10.3.254")},
        },
        "storage": {
            **{"physical_network": "sitenet", "vlan": 12, "mtu": 9000, "shared_with": [project]},
            "subnets": {
                "storage": _subnet("storage", "10.12.0.0/16", "10.12.254")
                | {"gateway": "10.12.0.1", "nat": True}
            },
        },
    }
    # Of the lab's switches the site has no nodes.
    fabric = whole["fabrics"][FABRIC] | {"traffic": None}
    switches = [s for s in whole["switches"] if s["fabric"] == FABRIC]
    racks = [{"name": name} for name in sorted({ipu.RACK, *(s["rack"] for s in switches)})]
    mine = {k: whole[k] for k in ("name", "clouds", "ipu_pods")}
    return {**mine, "fabrics": {FABRIC: fabric}, "racks": racks, "switches": switches, "networks": networks}


def _subnet(role: str, addresses: str, pool: str) -> dict[str, Any]:
    return {"role": role, "addresses": addresses, "pool": {"first": f"{pool}.1", "last": f"{pool}.254"}}


class SiteDemo(Demo):
    """Operators type nearly everything here."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.site = load_site(lab.site_path)

    def op(self, *words: str, save: str | None = None, allowed: tuple[int, ...] = (0,)) -> None:
        self.weft(*words, cloud="operator", save=save, allowed=allowed)

    def write(self) -> None:
        identity: Any = connect(self.lab.layout).identity
        project = identity.find_project("team-a", ignore_missing=False).id
        (self.folder / LIST).write_text(hardware_list(self.site, bmc_ports(self.lab.settings)))
        text = yaml.safe_dump(head(self.site, project), sort_keys=False)
        (self.folder / HEAD).write_text(text)

    def run(self) -> None:
        self.write()
        self.say("the hardware list, as a spreadsheet has it")
        lines = (self.folder / LIST).read_text().splitlines()
        print("\n".join((*lines[:6], f"… and {len(lines) - 6} more rows")))
        self.say("the list and what no list has, networks and IPU-POD, become the files of a site")
        self.op("site", "import", LIST, "--site", HEAD, "--output", FOLDER)
        self.op("site", "check", f"{FOLDER}/site.yaml")
        self.op("site", "activate", f"{FOLDER}/site.yaml")
        self.say(
            "what it needs in the cloud; the gateways' network was made by hand before, which is in the way"
        )
        self.op("site", "plan", allowed=(1,))
        self.say("taken instead of made again")
        self.op("site", "apply", "--adopt", "--wait")
        self.ports(
            "the switches themselves have the servers' BMCs in VLAN 99, and carry it between each other"
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
        self.say("the end: everything is taken back, with proof")
        self.op("site", "destroy", "--wait")
        self.op("site", "receipt", "--json", save="receipt.json")
        planes = {
            i["plane"] for i in json.loads((self.folder / "receipt.json").read_text())["receipt"]["items"]
        }
        print(f"read back: {', '.join(sorted(planes))}")
        self.op("receipt", "verify", "receipt.json")
        self.ports("nothing of it is on a switch any more")
        self.op("audit")

    def ports(self, told: str) -> None:
        """What Open vSwitch itself says, past weft."""
        self.say(told)
        rows = json.loads(
            lab_ovs(self.lab.layout).vsctl("--format=json", "--columns=name,tag,trunks", "list", "port")
        )
        having = {
            name: "access" if tag == VLAN else "trunk"
            for name, tag, trunks in rows["data"]
            if VLAN in _numbers(tag, trunks)
        }
        print("\n".join(f"{name:20} {how}" for name, how in sorted(having.items())) or f"VLAN {VLAN}: none")


def _numbers(*cells: object) -> set[int]:
    """Of cells of a table of Open vSwitch: a number, or `["set", [numbers]]`."""
    found: set[int] = set()
    for cell in cells:
        match cell:
            case int():
                found.add(cell)
            case ["set", [*numbers]]:
                found |= {n for n in numbers if isinstance(n, int)}
            case _:
                pass
    return found
