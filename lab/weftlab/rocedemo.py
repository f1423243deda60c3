"""`make demo DEMO=roce`: pods on Ethernet switches of several vendors; pings, and forged frames, between adapters."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Mapping

from weftlab.gpudemo import Demo
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import FABRIC, host_name, lab_ovs
from weftlab.switches.probe import FLOOD, Probe

POD = """\
name: {name}
nodes: {{count: {count}, flavor: a100x8, image: tiny}}
fabric: {{isolation: partition}}
locality: {{required: site, preferred: leaf}}
"""
PARTS = """\
name: {name}
nodes: {{count: {count}, accelerators: {{type: a100, count: 2}}, image: tiny, sharing: shared}}
fabric: {{hcas: shared}}
"""


class RoceDemo(Demo):
    """Servers have no kernel of their own, but their adapters are real interfaces, in network namespaces."""

    def members(self, pod: str, cloud: str = "team-a") -> Mapping[str, str]:
        """Address on the RDMA network -> namespace of the adapter that has it."""
        return {
            address: host_name(server["node"], f"mlx5_{n}")
            for server in self.pod(pod, cloud)["servers"]
            for n, address in enumerate(server["rdma_addresses"])
        }

    def pings(self, from_: Mapping[str, str], to: Mapping[str, str], wanted: bool, size: int = 84) -> None:
        """Ping every address of `to` from every adapter of `from_`; the demo fails if one isn't as it should be."""
        pairs = {(space, address) for space in from_.values() for address in to if to[address] != space}
        answered = self.reach.awaited(pairs, size=size) if wanted else self.reach.answered(pairs)
        print(f"{len(answered)} of {len(pairs)} pings were answered", flush=True)
        if answered != (pairs if wanted else set[tuple[str, str]]()):
            raise SystemExit(f"weft demo: {'all' if wanted else 'none'} of them should have been")

    def heard(self, what: str, by: Collection[str], wanted: Collection[str] = ()) -> None:
        """Print who heard a frame; the demo fails unless these are the wanted ones."""
        print(f"{what}: heard by {', '.join(sorted(by)) or 'none'}", flush=True)
        if set(by) != set(wanted):
            raise SystemExit(f"weft demo: {', '.join(sorted(wanted)) or 'none'} should have heard it")

    @property
    def reach(self) -> Reach:
        """Pings between namespaces of the lab."""
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
        self.say("weft had frames sent from its adapters and from others' before it called the pod READY")
        self.tried(self.pod("train", "team-a")["id"])
        self.say("from every adapter of train to every other one of it")
        self.pings(train, train, wanted=True)
        mtu = self.lab.site.fabrics[FABRIC].network_mtu or 0
        self.say(f"the same with packets of {mtu:,} bytes, the network's MTU, which no hop may split")
        self.pings(train, train, wanted=True, size=mtu)
        with contextlib.closing(Probe.of(self.lab)) as probe:
            self.attacks(probe, train, serve)
            self.shared(probe)
        self.say("the operator: switches, and an audit of cloud and fabric")
        self.weft("fabric", "status", cloud="operator")
        self.weft("audit", cloud="operator")
        self.say("release of train, with proof")
        self.weft("pod", "release", "train", "--wait")
        self.weft("pod", "receipt", "train", "--json", save="receipt.json")
        self.verify("receipt.json")
        receipt = json.loads((self.folder / "receipt.json").read_text())["receipt"]
        for item in (i for i in receipt["items"] if i["plane"] == "frames"):
            print(f"{item['subject']}: {item['result']}: {item['seen']}", flush=True)
        self.say("with the addresses that they had, its adapters reach no one any more; serve continues")
        with self.reach.taken({space: f"{address}/24" for address, space in train.items()}):
            self.pings(train, train, wanted=False)
        self.pings(serve, serve, wanted=True)
        self.weft("pod", "release", "serve", "--wait", cloud="team-b")
        self.weft("audit", cloud="operator")

    def tried(self, pod: str) -> None:
        """Print weft's own report on its frame tests."""
        self.weft("pod", "events", pod, "--json", save="events.json", cloud="operator")
        messages = [e["message"] for e in json.loads((self.folder / "events.json").read_text())]
        verified = [t for t in messages if "hear each other" in t]
        if not verified:
            raise SystemExit("weft demo: the pod's verification should have tried frames")
        print(verified[-1], flush=True)

    def attacks(self, probe: Probe, train: Mapping[str, str], serve: Mapping[str, str]) -> None:
        """Attack each pod from the other one, as root on its servers."""
        numbers = {"train": self.number("train"), "serve": self.number("serve", "team-b")}
        for who, mine, other, to in (("train", train, "serve", serve), ("serve", serve, "train", train)):
            own = [numbers[who]]
            self.say(
                f"root on the servers of {who} takes addresses of {other}'s network, and reaches no one there"
            )
            rogue = {space: f"10.128.255.{n}/9" for n, space in enumerate(mine.values(), 1)}
            with self.reach.taken(rogue):
                self.pings(mine, to, wanted=False)
            sender, *rest = mine.values()
            both = [*rest, *to.values()]
            self.heard("a broadcast", probe.honest(sender, both, by=rest), rest)
            forged = probe.forged(sender, to.values(), [numbers[other]], own)
            self.heard(f"forged tags of {other}'s VLAN, also behind a tag of its own", forged)
            self.heard(f"frames of {FLOOD:,} addresses, at {other}", probe.flooded(sender, to.values()))

    def shared(self, probe: Probe) -> None:
        """Virtual functions of two tenants on one host, whose switch port is a trunk of both VLANs."""
        self.say("pods of two tenants share hosts, by virtual functions")
        for name, count, cloud in (("many", 5, "team-a"), ("one", 1, "team-b")):
            (self.folder / f"{name}.yaml").write_text(PARTS.format(name=name, count=count))
            self.weft("pod", "create", "-f", f"{name}.yaml", "--wait", cloud=cloud)
        many, one = self.number("many"), self.number("one", "team-b")
        trunks = probe.trunks()
        for name, numbers in sorted(trunks.items()):
            print(f"{name}: trunk of {', '.join(map(str, sorted(numbers)))}", flush=True)
        shared = next((n for n, numbers in trunks.items() if {many, one} <= numbers), None)
        if shared is None:
            raise SystemExit("weft demo: a host should have been shared")
        rest = probe.members(many) - {shared}
        strangers = probe.hosts.by_name.keys() - probe.members(many) - probe.members(one)
        everybody = {*rest, *strangers}
        self.say(
            f"root on the shared host, {shared}: tags of its own functions reach their pod, and no others"
        )
        self.heard("many's own tag", probe.honest(shared, everybody, rest, tag=many), rest)
        self.heard("forged tags", probe.forged(shared, everybody, {self.number("train")}, own=()))
        behind = probe.forged(shared, strangers, {self.number("train")}, own=[many, one])
        self.heard("forged tags behind its own, elsewhere", behind)
        self.heard("no tag", probe.honest(shared, everybody, ()))
        self.heard(f"frames of {FLOOD:,} addresses, elsewhere", probe.flooded(shared, strangers, tag=many))
        self.say("release of many; its tag reaches no one any more")
        self.weft("pod", "release", "many", "--wait")
        self.heard("many's tag", probe.honest(shared, everybody, (), tag=many))
        self.weft("pod", "release", "one", "--wait", cloud="team-b")

    def number(self, pod: str, cloud: str = "team-a") -> int:
        """The pod's VLAN."""
        return int(self.pod(pod, cloud)["segment"])
