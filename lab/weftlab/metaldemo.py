"""`make demo DEMO=metal`: two machines from their enrolment to a receipt with the record of their cleaning."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from weft.planning.fabric.addressing import mac_of_guid
from weftlab.gpudemo import Demo
from weftlab.metal.enroll import list_path, system
from weftlab.metal.machines import FLAVOR, machines

POD = f"""\
name: demo
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: tiny}}
fabric: {{isolation: partition}}
"""


def in_iso(image: Path, path: str) -> str:
    """A file of a config drive, as the machine reads it. Raises `CalledProcessError`."""
    command = ["isoinfo", "-J", "-i", str(image), "-x", path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class MetalDemo(Demo):
    """The lab enrolls the machines as it starts."""

    def ironic(self) -> None:
        """What Ironic says of the machines."""
        bare: Any = system(self.lab.layout).baremetal
        for node in machines(self.lab.site):
            found = bare.get_node(node.machine)
            mark = found.extra.get("weft", "no mark")
            print(f"Ironic: {node.name} {found.provision_state}, {found.power_state}, {mark}", flush=True)

    def disks(self, wanted: bool) -> None:
        """What the tenant's deployment left on the machines' disks; the demo fails if it isn't as it should be."""
        for node in machines(self.lab.site):
            folder = self.lab.layout.data / "machines" / str(node.machine)
            left = sorted(f.name for f in folder.iterdir())
            print(f"disk of {node.name}: {', '.join(left) or 'empty'}", flush=True)
            if bool(left) != wanted:
                raise SystemExit(f"weft demo: the disk should {'not ' if wanted else ''}be empty")

    def drives(self) -> None:
        """What the machines' config drives tell them of their networks; the demo fails without the adapters' own."""
        for node in machines(self.lab.site):
            drive = self.lab.layout.data / "machines" / str(node.machine) / "config-drive"
            told = json.loads(in_iso(drive, "/openstack/latest/network_data.json"))
            macs = {link["id"]: link["ethernet_mac_address"] for link in told["links"]}
            static = {macs[n["link"]]: n["ip_address"] for n in told["networks"] if n["type"] == "ipv4"}
            for mac, address in static.items():
                print(f"config drive of {node.name}: {address} on {mac}", flush=True)
            if missing := {mac_of_guid(hca.port_guid) for hca in node.hcas} - static.keys():
                raise SystemExit(f"weft demo: {node.name} isn't told of {', '.join(sorted(missing))}")

    def run(self) -> None:
        (self.folder / "pod.yaml").write_text(POD)
        self.say("two machines, which the lab has enrolled: once more changes nothing")
        layout = self.lab.layout
        files = (str(layout.site_path), str(list_path(layout)))
        print(list_path(layout).read_text(), end="")
        self.weft("site", "enroll", *files, cloud="enroller")
        self.ironic()
        self.say("what is ordered: pod.yaml")
        print(POD, end="")
        self.weft("pod", "plan", "-f", "pod.yaml")
        self.say("the order, until it is READY: Ironic deploys, then the adapters join the partition")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.weft("pod", "show", "demo")
        self.ironic()
        self.disks(wanted=True)
        self.drives()
        self.say("the operator: an audit of cloud, machines and fabric")
        self.weft("audit", cloud="operator")
        self.say("release: the adapters leave the partition, Ironic cleans, its record is read")
        self.weft("pod", "release", "demo", "--wait")
        self.weft("pod", "receipt", "demo", "--json", save="receipt.json")
        self.weft("receipt", "verify", "receipt.json")
        items = json.loads((self.folder / "receipt.json").read_text())["receipt"]["items"]
        for item in items:
            if item["plane"] == "machine":
                print(f"{item['result']}: {item['subject']}: {item['seen']}", flush=True)
        self.ironic()
        self.disks(wanted=False)
        self.weft("audit", cloud="operator")
