"""`make demo DEMO=roce`: two pods on Ethernet switches of several vendors, and pings between their adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping

from weftlab.demo import Demo
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import host_name, lab_ovs

POD = """\
name: {name}
nodes: {{count: {count}, flavor: a100x8, image: tiny}}
fabric: {{isolation: partition}}
locality: {{required: site, preferred: leaf}}
"""


class RoceDemo(Demo):
    """Servers have no kernel of their own, but their adapters are real interfaces, in network namespaces."""

    def members(self, pod: str, cloud: str = "team-a") -> Mapping[str, str]:
        """Address on the RDMA network -> namespace of the adapter that has it."""
        self.weft("pod", "show", pod, "--json", save=f"{pod}.json", cloud=cloud)
        servers = json.loads((self.folder / f"{pod}.json").read_text())["servers"]
        return {
            address: host_name(server["node"], f"mlx5_{n}")
            for server in servers
            for n, address in enumerate(server["rdma_addresses"])
        }

    def pings(self, from_: Mapping[str, str], to: Mapping[str, str], wanted: bool) -> None:
        """Ping every address of `to` from every adapter of `from_`; the demo fails if one isn't as it should be."""
        pairs = {(space, address) for space in from_.values() for address in to if to[address] != space}
        answered = self.reach.awaited(pairs) if wanted else self.reach.answered(pairs)
        print(f"{len(answered)} of {len(pairs)} pings were answered", flush=True)
        if answered != (pairs if wanted else set[tuple[str, str]]()):
            raise SystemExit(f"weft demo: {'all' if wanted else 'none'} of them should have been")

    @property
    def reach(self) -> Reach:
        return Reach(lab_ovs(self.lab.layout))

    def run(self) -> None:
        for name, count in (("train", 4), ("serve", 2)):
            (self.folder / f"{name}.yaml").write_text(POD.format(name=name, count=count))
        self.say("what is ordered: train.yaml")
        print(POD.format(name="train", count=4), end="")
        self.say("the plan: which nodes, why these, which VLAN; nothing is touched")
        self.weft("pod", "plan", "-f", "train.yaml")
        self.say("two pods of two tenants, until they are READY")
        self.weft("pod", "create", "-f", "train.yaml", "--wait")
        self.weft("pod", "create", "-f", "serve.yaml", "--wait", cloud="team-b")
        self.weft("pod", "show", "train")
        train, serve = self.members("train"), self.members("serve", cloud="team-b")
        self.weft("pod", "list", "--all-projects", cloud="operator")
        self.say("from every adapter of train to every other one of it")
        self.pings(train, train, wanted=True)
        self.say("root on the servers of train takes addresses of serve's network, and reaches nobody there")
        with self.reach.taken({space: f"10.128.255.{n}/9" for n, space in enumerate(train.values(), 1)}):
            self.pings(train, serve, wanted=False)
        self.say("the operator: switches, and an audit of cloud and fabric")
        self.weft("fabric", "status", cloud="operator")
        self.weft("audit", cloud="operator")
        self.say("release of train, with proof")
        self.weft("pod", "release", "train", "--wait")
        self.weft("pod", "receipt", "train", "--json", save="receipt.json")
        self.weft("receipt", "verify", "receipt.json")
        self.say("with the addresses that they had, its adapters reach nobody any more; serve goes on")
        with self.reach.taken({space: f"{address}/24" for address, space in train.items()}):
            self.pings(train, train, wanted=False)
        self.pings(serve, serve, wanted=True)
        self.weft("pod", "release", "serve", "--wait", cloud="team-b")
        self.weft("audit", cloud="operator")
