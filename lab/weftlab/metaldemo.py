"""`make demo DEMO=metal`: two machines from their enrolment to logins, and a receipt with their cleaning's record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.model.site import Node
from weft.planning.fabric.addressing import mac_of_guid
from weftlab.bootstrap import connect
from weftlab.gpudemo import Demo
from weftlab.hypervisor.image import NAME
from weftlab.hypervisor.login import SshClient, guests_of, make_key
from weftlab.layout import Layout
from weftlab.metal.enroll import list_path, system
from weftlab.metal.machines import FLAVOR, machines
from weftlab.switches.front import PARKING
from weftlab.switches.labsite import lab_ovs

POD = """\
name: demo
nodes: {{kind: bare_metal, count: 2, flavor: {flavor}, image: {image}}}
fabric: {{isolation: partition}}
access: {{ssh_key: {key}}}
"""
SECRET = "what the tenant leaves on the disk"


def disk_of(layout: Layout, node: Node) -> Path:
    """A machine's disk; there is none while nothing has used it since it was erased."""
    return layout.data / "machines" / str(node.machine) / "disk"


def addresses_in_drive(text: str) -> dict[str, str]:
    """MAC address of a link -> static address on it. Args: text: a config drive's network_data.json."""
    document = json.loads(text)
    macs = {link["id"]: link["ethernet_mac_address"] for link in document["links"]}
    return {macs[n["link"]]: n["ip_address"] for n in document["networks"] if n["type"] == "ipv4"}


class MetalDemo(Demo):
    """Two machines, which the lab enrolls as it starts."""

    def ironic(self) -> None:
        """Print the state of each machine as Ironic has it."""
        bare: Any = system(self.lab.layout).baremetal
        for node in machines(self.lab.site):
            found = bare.get_node(node.machine)
            mark = found.extra.get("weft", "no mark")
            print(f"Ironic: {node.name} {found.provision_state}, {found.power_state}, {mark}", flush=True)

    def login(self, key: Path) -> None:
        """Log in to each machine by its address in the pod's VLAN; print its config drive's addresses, and ping."""
        layout = self.lab.layout
        there = guests_of(self.pod("demo", "team-a"), connect(layout).network)
        door = SshClient(lab_ovs(layout), key)
        nodes = {node.name: node for node in machines(self.lab.site)}
        with door.into(there):
            for name, address in there.addresses.items():
                print(f"$ ssh root@{address} hostname", flush=True)
                print(f"{door.awaited(address, 'hostname')}  ({name})", flush=True)
                addresses = addresses_in_drive(door.awaited(address, "cat /run/network_data.json"))
                for mac, static in addresses.items():
                    print(f"its config drive: {static} on {mac}", flush=True)
                if missing := {mac_of_guid(h.port_guid) for h in nodes[name].hcas} - addresses.keys():
                    raise SystemExit(f"weft demo: {name}'s config drive lacks {', '.join(sorted(missing))}")
                door.awaited(address, f"echo {SECRET} > /dev/vda; sync")
            members = list(there.addresses.values())
            answers = sum(len(door.pings(a, [b for b in members if b != a])) for a in members)
        pairs = len(members) * (len(members) - 1)
        print(
            f"{answers} of {pairs} pings between the machines were answered, in VLAN {there.vlan}", flush=True
        )
        outside = replace(there, vlan=there.vlan + 1)
        with door.into(outside):
            strangers = [a for a in members if door.reaches(a)]
        print(f"{len(strangers)} of {len(members)} answered a stranger in VLAN {outside.vlan}", flush=True)
        if answers != pairs or strangers:
            raise SystemExit("weft demo: machines must reach each other and no one else")

    def disks(self, used: bool) -> None:
        """What the tenant left on the machines' disks; the demo fails if it isn't as it should be."""
        for node in machines(self.lab.site):
            disk = disk_of(self.lab.layout, node)
            found = SECRET.encode() in (disk.read_bytes() if disk.exists() else b"")
            print(f"disk of {node.name}: {'has' if found else 'lacks'} what the tenant wrote", flush=True)
            if found != used:
                raise SystemExit("weft demo: cleaning erases disks, and nothing else does")

    def switch(self) -> None:
        """The VLANs of the machines' switch ports; the demo fails if one isn't parked."""
        ovs = lab_ovs(self.lab.layout)
        tags = {n.name: ovs.vsctl("get", "port", n.name, "tag").strip() for n in machines(self.lab.site)}
        print(f"switch ports: {', '.join(f'{n} in VLAN {t}' for n, t in tags.items())} (parking)", flush=True)
        if set(tags.values()) != {str(PARKING)}:
            raise SystemExit("weft demo: ports of free machines must be parked")

    def records(self) -> None:
        """What the receipt says of the machines; the demo fails unless each was cleaned, and its adapter seen."""
        items = json.loads((self.folder / "receipt.json").read_text())["receipt"]["items"]
        for item in (i for i in items if i["plane"] in ("machine", "adapter")):
            print(f"{item['result']}: {item['subject']}: {item['seen']}", flush=True)
        places = [i for i in items if (i["plane"], i["result"]) == ("adapter", "clean")]
        for node in machines(self.lab.site):
            cleaned = [i for i in items if i["plane"] == "machine" and str(node.machine) in i["subject"]]
            if [i["result"] for i in cleaned] != ["clean"] or "disks erased" not in cleaned[0]["seen"]:
                raise SystemExit(f"weft demo: the receipt lacks the cleaning of {node.name}")
        if len(places) != len(machines(self.lab.site)):
            raise SystemExit("weft demo: the receipt doesn't say of each machine where its adapter is")

    def run(self) -> None:
        key = make_key(self.folder)
        pod = POD.format(flavor=FLAVOR, image=NAME, key=key.with_suffix(".pub").read_text().strip())
        (self.folder / "pod.yaml").write_text(pod)
        self.say("two machines, which the lab has enrolled: once more changes nothing")
        layout = self.lab.layout
        files = (str(layout.site_path), str(list_path(layout)))
        print(list_path(layout).read_text(), end="")
        self.weft("site", "enroll", *files, cloud="enroller")
        self.ironic()
        self.switch()
        self.say("what is ordered: pod.yaml")
        print(pod, end="")
        self.weft("pod", "plan", "-f", "pod.yaml")
        self.say("the order, until it is READY: Ironic deploys, then the adapters join the partition")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.weft("pod", "show", "demo")
        self.ironic()
        self.say("login: the machines boot without hardware virtualization, so they take a moment")
        self.login(key)
        self.disks(used=True)
        self.say("the operator: an audit of cloud, machines and fabric")
        self.weft("audit", cloud="operator")
        self.say("release: the adapters leave the partition, Ironic cleans, its record is read")
        self.weft("pod", "release", "demo", "--wait")
        self.weft("pod", "receipt", "demo", "--json", save="receipt.json")
        self.verify("receipt.json")
        self.records()
        self.ironic()
        self.disks(used=False)
        self.switch()
        self.weft("audit", cloud="operator")
