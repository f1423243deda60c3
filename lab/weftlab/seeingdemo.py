"""`make demo DEMO=seeing`: a slow cable, a bad adapter, a wrong NUMA node and a noisy neighbor are found and named.

First nothing is wrong, and nothing may be named; then each fault is planted and must be named, and nothing besides.
What is real: the cloud, OpenSM, weft, weft-check, Prometheus. What is planted: sysfs of recorded hosts, what perftest
prints, and the counters of ibsim's ports. Which pairs a slow cable slows, and which ports a pod's traffic takes, is
read by infiniband-diags' `ibtracert`, not by weft.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from weft.model.site import Site
from weftlab.environment import install_packages
from weftlab.fabric.faults import Faults
from weftlab.fabric.traffic import Hop, Traffic, rail_paths, sent
from weftlab.fabric.traffic import Path as Way
from weftlab.gpudemo import Demo
from weftlab.hostfolder import GPUS, HostFolder
from weftlab.lab import Lab
from weftlab.rdmanodes import RdmaNodes
from weftlab.site import FABRIC
from weftlab.watching import PACKAGES, SOON, Watch, quickly

POD = """\
name: {name}
nodes: {{count: {count}, flavor: gpu8, image: tiny}}
locality: {{required: site, preferred: leaf}}
"""
VERIFY = "verify: bandwidth\n"
FAR, BAD = "gpu03", ("gpu06", 1)
"""The node whose adapter is plugged in at the other socket; node and rail of the bad adapter."""
SLOW_SHARE, BAD_SHARE, GOOD_SHARE = 0.5, 0.6, 0.98
ERRORS = 500
RATE = 25e6
"""Bytes a second that the noisy pod sends on each path: slow enough that no counter of 32 bits fills."""
ALERTS = ("WeftLinkErrors", "WeftLinkCongested", "WeftNodeChecksFail")
LONGEST = 120.0
"""Seconds until something is seen; error counters are read once a minute."""


class SeeingDemo(Demo):
    """Plants one fault after the other, and checks what weft says."""

    proved = "each planted fault was found and named, nothing else was,"

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lab, folder)
        self.site: Site = lab.site
        self.nodes = [n.name for n in self.site.nodes if n.role == "compute"]
        self.faults = Faults(lab.layout, self.site, lab.supervisor)
        self.rdma = RdmaNodes(folder / "rdma")
        self._tokens: dict[str, Path] = {}

    def run(self) -> None:
        install_packages(PACKAGES, self.lab.say)
        with ExitStack() as running:
            watch = self._prepare(running)
            paths = rail_paths(self.faults, (self.site.node_by_name[n] for n in self.nodes), FABRIC)
            self._nothing_is_wrong(watch)
            cable = self._plant_errors(paths)
            self._wrong_numa_node(watch)
            self._slow_cable_and_bad_adapter(paths, cable, watch)
            self._order("train", 5, VERIFY)
            self._mend_numa_node()
            self._certificate()
            self._noisy_neighbor(watch)
            self._release()

    # --- what is asked, and what is claimed ----------------------------------------------------------------------

    def ask(self, *words: str, cloud: str = "operator", allowed: tuple[int, ...] = (0,)) -> Any:
        """A command's JSON, without printing it."""
        env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self.lab.clouds_yaml), "OS_CLOUD": cloud}
        form = () if "bandwidth-plan" in words else ("--json",)  # a plan is JSON in any case
        command = [sys.executable, "-m", "weft.cli.main", *words, *form]
        done = subprocess.run(command, env=env, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode not in allowed:
            raise SystemExit(
                f"weft demo: `weft {' '.join(words)}` ended with {done.returncode}: {done.stderr}"
            )
        return json.loads(done.stdout)

    def claim(self, text: str, found: object, expected: object) -> None:
        """Print what was checked; ends the demo if `found` isn't `expected`."""
        if found != expected:
            raise SystemExit(f"weft demo: {text}: expected {expected}, found {found}")
        print(f"-> {text}", flush=True)

    def level(self, text: str) -> None:
        """Print what an answer rests on, and what stands in for hardware here."""
        print(f"read from: {text}", flush=True)

    def until(self, what: str, look: Callable[[], Any]) -> Any:
        """The first answer that isn't empty."""
        began = time.monotonic()
        while time.monotonic() - began < LONGEST:
            if found := look():
                print(f"{what}: after {time.monotonic() - began:.0f} s", flush=True)
                return found
            time.sleep(1)
        raise SystemExit(f"weft demo: not within {LONGEST:.0f} s: {what}")

    # --- steps ---------------------------------------------------------------------------------------------------

    def _prepare(self, running: ExitStack) -> Watch:
        """The site expects that adapters are near their GPUs; Prometheus reads it as `weft site export` says."""
        document = yaml.safe_load(self.lab.site_path.read_text())
        document["checks"]["expected"] = {"h100x8": {"distance": "PXB"}}
        secret, port = self.folder / "secret", self.lab.layout.port("prometheus")
        document["monitoring"] = {
            "api": [self.lab.layout.url("weft")],
            "hosts": {},
            "prometheus": f"127.0.0.1:{port}",
            "folder": str(secret),
        }
        (self.folder / "site.yaml").write_text(yaml.safe_dump(document))
        for table in self.lab.site_path.parent.glob("*.csv"):
            (self.folder / table.name).write_text(table.read_text())
        self.say(
            "the site expects of each h100 host: an adapter behind the same PCIe switch as the GPU (PXB)"
        )
        self.weft("site", "activate", "site.yaml", cloud="operator")
        self.weft(
            "site", "export", "site.yaml", "--format", "prometheus", "-o", "prometheus", cloud="operator"
        )
        secret.mkdir(mode=0o700)
        tls = self.lab.layout.state / "tls"
        for name, copy in (
            ("ca.pem", "agents-ca.pem"),
            ("weft.pem", "prometheus.pem"),
            ("weft.key", "prometheus.key"),
        ):
            shutil.copy(tls / name, secret / copy)
        (secret / "token").write_text("none: no target of this demo needs it\n")
        quickly(self.folder / "prometheus")
        print(f"Prometheus runs with these files; intervals and waits of minutes are {SOON} here", flush=True)
        return running.enter_context(Watch(self.folder / "prometheus", port))

    def _check(self, node: str, sockets: tuple[int, int] = (0, 1), shown: bool = True) -> int:
        """weft-check on a host with adapters at these sockets, reported with the node's own token."""
        root = self.folder / "hosts" / node
        shutil.rmtree(root, ignore_errors=True)
        HostFolder(root, node, sockets)
        if node not in self._tokens:
            path = self._tokens[node] = self.folder / f"{node}.token"
            path.touch(0o600)
            path.write_text(self.ask("node", "check-token", node)["token"])
        url = f"{self.lab.layout.url('weft')}/v1/nodes/{node}/checks"
        words = ("--expect-from", url, "--report", url, "--token-file", str(self._tokens[node]))
        if shown:
            print(f"{node}$ weft-check --expect-from {url} --report {url} --token-file token", flush=True)
        command = [sys.executable, "-m", "weftlab.recordedhost", str(root), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wrong = [line for line in done.stdout.splitlines() if not line.startswith(("ok", " ", "skipped"))]
        if shown:
            print("\n".join((*wrong[:3], *done.stderr.splitlines()[-1:])), flush=True)
        return done.returncode

    def _nothing_is_wrong(self, watch: Watch) -> None:
        self.say("nothing is wrong: host checks on 8 recorded hosts, a bandwidth test, links, alerts")
        self.level(
            "sysfs and outputs of recorded hosts, by the real weft-check; a host's report is its own word"
        )
        for node in self.nodes:
            self.claim_quietly(f"weft-check on {node}", self._check(node, shown=node == self.nodes[0]), 0)
        self.level(
            "what perftest prints, by the real weft-check; a stand-in prints it: there is no RDMA here"
        )
        self.rdma.build(self.ask("node", "bandwidth-plan", *self.nodes), GOOD_SHARE)
        certificate = self._measure(0)
        self.claim("no cause is named, all pairs are measured", _named(certificate), (set(), "passed", {}))
        self.until("Prometheus has read the ports", lambda: watch.query("infiniband_counters_age_seconds"))
        self.until("weft has read the fabric", lambda: "unknown" not in self._health())
        self.weft("site", "health", cloud="operator")
        self.claim("every node is ok", self._health(), {"ok"})
        self.claim(f"none of {', '.join(ALERTS)} fires", watch.firing(*ALERTS), [])

    def _health(self) -> set[str]:
        return {one["health"] for one in self.ask("node", "health")}

    def claim_quietly(self, text: str, found: object, expected: object) -> None:
        """Raise unless they are equal, as `claim` does, but print nothing."""
        if found != expected:
            raise SystemExit(f"weft demo: {text}: expected {expected}, found {found}")

    def _measure(self, code: int) -> Any:
        """A bandwidth test of all nodes by their operator; its certificate."""
        words = ("node", "verify-bandwidth", *self.nodes, "--ssh", self.rdma.ssh)
        self.weft(*words, cloud="operator", allowed=(code,))
        return self.ask("node", "bandwidth", self.nodes[0])["certificate"]

    def _plant_errors(self, paths: Mapping[tuple[str, str, int], Way]) -> Hop:
        """Error counters at both ends of a cable, and at an adapter's own end; the cable that most pairs use."""
        uses = Counter(hop.cable for path in paths.values() for hop in path if hop.is_between_switches)
        most = max(uses, key=lambda cable: (uses[cable], sorted(cable)))
        cable = next(hop for path in paths.values() for hop in path if hop.cable == most)
        self.say("planted: errors at both ends of a cable between switches, and at an adapter's end alone")
        before = self.ask("fabric", "status", allowed=(0, 1))
        self.claim("no port has errors before", [f["bad_ports"] or 0 for f in before], [0])
        adapter = f"{BAD[0]}/mlx5_{BAD[1]}"
        for end, port, counter in (
            (cable.sender, cable.sender_port, "SymbolErrorCounter"),
            (cable.receiver, cable.receiver_port, "SymbolErrorCounter"),
            (adapter, 1, "PortRcvErrors"),
        ):
            self.faults.count_errors(end, counter, ERRORS, port)
            print(f"{end}[{port}]: {counter}={ERRORS}", flush=True)
        return cable

    def _wrong_numa_node(self, watch: Watch) -> None:
        self.say(f"planted: an adapter of {FAR} is plugged in at the other socket, a wrong NUMA node")
        self.claim("weft-check fails", self._check(FAR, (1, 1)), 1)
        self.weft("node", "health", FAR, cloud="operator", allowed=(1,))
        problems = self.ask("node", "checks", FAR)["problems"]
        self.claim(
            f"named: the GPU, and {FAR}'s nearest adapter, which is behind the other socket (SYS)",
            [(one["code"], one["subject"], one["reason"].split(" (")[0]) for one in problems],
            [("PCI_DISTANCE", GPUS[0], "SYS to mlx5_0")],
        )
        reasons = {(one["node"], why["code"]) for one in self.ask("node", "health") for why in one["reasons"]}
        self.claim("no other node has a reason", reasons, {(FAR, "CHECK_FAILED")})
        self.until("Prometheus has the alert", lambda: watch.firing("WeftNodeChecksFail"))

    def _order(self, name: str, count: int, more: str = "", cloud: str = "team-a") -> None:
        (self.folder / f"{name}.yaml").write_text(POD.format(name=name, count=count) + more)
        self.say(f"an order of {count} nodes: {name}.yaml")
        print((self.folder / f"{name}.yaml").read_text(), end="")
        print(f"$ OS_CLOUD={cloud} weft pod create -f {name}.yaml --wait", flush=True)
        self.ask("pod", "create", "-f", f"{name}.yaml", "--wait", cloud=cloud)
        print(f"placed on {', '.join(self._on(name, cloud))}", flush=True)

    def _on(self, name: str, cloud: str) -> list[str]:
        return [one["node"] for one in self.ask("pod", "show", name, cloud=cloud)["placed"]]

    def _mend_numa_node(self) -> None:
        self.claim(f"{FAR} gets no order", FAR in self._on("train", "team-a"), False)
        self.say(f"the adapter of {FAR} is moved to its own slot")
        self.claim("weft-check is content", self._check(FAR), 0)
        self.weft("node", "health", FAR, cloud="operator")
        self._order("noisy", 3, cloud="team-b")
        self.claim(f"{FAR} gets orders again", FAR in self._on("noisy", "team-b"), True)

    def _slow_cable_and_bad_adapter(
        self, paths: Mapping[tuple[str, str, int], Way], cable: Hop, watch: Watch
    ) -> None:
        where = f"{cable.sender}:{cable.sender_port}"
        other = f"{cable.receiver}:{cable.receiver_port}"
        slow = {pair for pair, path in paths.items() if cable.cable in {hop.cable for hop in path}}
        bad = {pair for pair in paths if BAD in ((pair[0], pair[2]), (pair[1], pair[2]))}
        self.say(
            f"planted: {where} - {other} at half its rate ({len(slow)} pairs), adapter {BAD[1]} of {BAD[0]} at 60 %"
        )
        self._plant_rates(slow, bad)
        self._port_errors(cable, watch)
        certificate = self._measure(1)
        self.claim(
            f"cable and adapter are named, nothing else, by {certificate['measured']} pairs",
            _named(certificate)[:2],
            ({("link", frozenset({where, other}), None), ("adapter", frozenset({BAD[0]}), BAD[1])}, "failed"),
        )
        self.claim(
            "what both ends count tells cable from adapter",
            {one["kind"]: one.get("part") for one in certificate["causes"]},
            {"link": "cable", "adapter": "adapter"},
        )
        self._plant_rates((), ())
        self.say("cable and adapter are replaced: the next test, compared with the last one")
        after = self._measure(0)
        self.claim("no cause is named", _named(after), (set(), "passed", {}))
        self.claim("it is compared with the last one", after["previous"], certificate["id"])

    def _plant_rates(self, slow: Iterable[tuple[str, str, int]], bad: Iterable[tuple[str, str, int]]) -> None:
        shares = dict.fromkeys(bad, BAD_SHARE) | dict.fromkeys(slow, SLOW_SHARE)
        for a in self.nodes:
            for b in self.nodes:
                for rail, hca in enumerate(self.site.node_by_name[a].hcas_on(FABRIC)):
                    if a != b:
                        rate = hca.rate_gbps * shares.get((a, b, rail), GOOD_SHARE)
                        self.rdma.plant(a, rail, b, f"{rate:.1f}")

    def _port_errors(self, cable: Hop, watch: Watch) -> None:
        """Check that the counters of both ends tell a cable from an adapter."""

        def bad() -> set[tuple[str, int]]:
            (fabric,) = self.ask("fabric", "status", allowed=(0, 1))
            return {(one["node"], one["port"]) for one in fabric["port_errors"] or () if one["over"]}

        expected = {*cable.cable, (f"{BAD[0]} mlx5_{BAD[1]}", 1)}
        self.level("PortCounters of both ends of each cable, by the fabric's agent, once a minute")
        self.until("the agent has read the ports' errors", lambda: len(bad()) >= len(expected))
        self.weft("fabric", "status", cloud="operator", allowed=(0, 1))
        self.claim("errors are at both ends of the cable, and at the adapter's own end", bad(), expected)
        guids = {s.name: s.guid for s in self.site.switches}
        ports = {(guids[name], port) for name, port in cable.cable}
        ports.add((self.site.node_by_name[BAD[0]].hcas_on(FABRIC)[BAD[1]].guid, 1))
        self.until("Prometheus has alerts", lambda: len(watch.firing("WeftLinkErrors")) >= len(ports))
        fired = {(int(one["guid"], 16), int(one["port"])) for one in watch.firing("WeftLinkErrors")}
        self.claim("WeftLinkErrors fires for these ports alone", fired, ports)

    def _certificate(self) -> None:
        """The tenant's own test of its servers."""
        self.say("the tenant: its order wants a bandwidth test of its servers, and a certificate")
        self.claim("not proved yet", self._unproved(), ["BandwidthUnproved"])
        self.rdma.build(self.ask("pod", "bandwidth-plan", "train", cloud="team-a"), GOOD_SHARE)
        self.weft("pod", "verify-bandwidth", "train", "--ssh", self.rdma.ssh)
        self.claim("proved", self._unproved(), [])
        self.weft("pod", "bandwidth", "train", "--json", save="certificate.json")
        self.verify("certificate.json")
        signed = json.loads((self.folder / "certificate.json").read_text())
        signed["certificate"]["pairs"][0][3] += 1
        (self.folder / "forged.json").write_text(json.dumps(signed))
        self.weft("receipt", "verify", "forged.json", "--key", "weft.pub", allowed=(1,))

    def _unproved(self) -> list[str]:
        conditions = self.ask("pod", "show", "train", cloud="team-a")["conditions"]
        return [one["type"] for one in conditions if one["type"] == "BandwidthUnproved"]

    def _noisy_neighbor(self, watch: Watch) -> None:
        mine, noisy = (self._paths_of(n, c) for n, c in (("train", "team-a"), ("noisy", "team-b")))
        shared = _between(mine) & _between(noisy)
        self.say("no pod disturbs it: others are on its links, but none of them waits")
        quiet = self.ask("site", "who-disturbs", "train")
        self.claim(
            "one other pod on as many links as ibtracert finds",
            [(one["name"], one["shared_links"]) for one in quiet["others"]],
            [("noisy", len(shared))],
        )
        self.claim(
            "none is congested, no cause is named",
            (quiet["congested"], [one["cause_of"] for one in quiet["others"]]),
            ([], [0]),
        )
        self.claim("no such alert fires", watch.firing("WeftLinkCongested"), [])
        self.level(
            "forwarding tables and counters of all ports, from the wire (ibsim), by the fabric's agent"
        )
        self.say(f"planted: pod noisy sends, and {len(shared)} uplinks that both pods use wait")
        with Traffic(self.faults, sent(noisy, RATE), shared):
            self.until("it is seen", lambda: self._congested() == len(shared))
            self.weft("site", "who-disturbs", "train", cloud="operator")
            found = self.ask("site", "who-disturbs", "train")
            self.claim(
                "the neighbor is named as the cause of each, by the bytes that its adapters send",
                [(one["name"], one["cause_of"]) for one in found["others"]],
                [("noisy", len(shared))],
            )
            seen = {(one["sender"], one["sender_port"]) for one in found["congested"]}
            self.claim("on the links that wait, and no other", seen, shared)
            self._link_show(*min(shared))
            guids = {s.guid: s.name for s in self.site.switches}
            self.until("Prometheus has alerts", lambda: len(watch.firing("WeftLinkCongested")) >= len(shared))
            fired = {(guids[int(o["guid"], 16)], int(o["port"])) for o in watch.firing("WeftLinkCongested")}
            self.claim("WeftLinkCongested fires for these ports alone", fired, shared)
            self.weft("pod", "links", "train", "--svg", "links.svg", "--json", save="links.json")
            own, drawn = ((self.folder / name).read_text() for name in ("links.json", "links.svg"))
            self.claim(
                "the tenant sees with how many others it shares links", json.loads(own)["shared_with"], 1
            )
            self.claim("and not with whom", [text for text in (own, drawn) if "noisy" in text], [])

    def _link_show(self, switch: str, port: int) -> None:
        """One of the cables, in both directions."""
        self.weft("link", "show", f"{switch}:{port}", cloud="operator")
        both = self.ask("link", "show", f"{switch}:{port}")["links"]
        (up,) = (one for one in both if (one["sender"], one["sender_port"]) == (switch, port))
        on_it = {one["name"]: one["sent_gbps"] for one in up["pods"]}
        self.claim("both pods are on it", set(on_it), {"train", "noisy"})
        self.claim("and noisy sends all that it carries", on_it["noisy"], up["sent_gbps"])

    def _congested(self) -> int:
        return len(self.ask("site", "who-disturbs", "train")["congested"])

    def _paths_of(self, name: str, cloud: str) -> list[Way]:
        nodes = [self.site.node_by_name[n] for n in self._on(name, cloud)]
        return list(rail_paths(self.faults, nodes, FABRIC).values())

    def _release(self) -> None:
        self.say("release, with proof")
        self.ask("pod", "release", "noisy", "--wait", cloud="team-b")
        print("$ OS_CLOUD=team-a weft pod release train --wait", flush=True)
        self.ask("pod", "release", "train", "--wait", cloud="team-a")
        self.weft("pod", "receipt", "train", "--json", save="receipt.json")
        self.verify("receipt.json")
        self.weft("site", "health", cloud="operator")


def _named(certificate: Any) -> tuple[set[tuple[str, frozenset[str], int | None]], str, dict[str, int]]:
    """Causes of a certificate, its result, and pairs that did not run."""
    causes = {
        (one["kind"], frozenset(one["name"].split(" - ")), one["rail"]) for one in certificate["causes"]
    }
    return causes, certificate["result"], certificate["not_run"]


def _between(paths: Iterable[Way]) -> set[tuple[str, int]]:
    """Ports of switches that send to another switch on these paths."""
    return {(hop.sender, hop.sender_port) for path in paths for hop in path if hop.is_between_switches}
