"""`make demo DEMO=repair`: a host is killed, and a spare takes the place of its node; a leaf is drained."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from weftlab.gpudemo import Demo

POD = """\
name: demo
nodes: {count: 4, spare: 1, flavor: gpu8, image: tiny}
locality: {required: site, preferred: leaf}
on_failure: replace
"""
HOST_DOWN, SOON = re.compile(r"(?m)^(  host_down: ).*$"), "30s"
"""The setting in the lab's site, and half a minute instead, so that the demo ends soon."""
LONGEST = 420.0
"""Seconds until something has happened; Nova takes a host for dead after 75."""
EMPTY_IN = 40
"""Seconds until the drained leaf should be empty."""


class RepairDemo(Demo):
    """A pod of four nodes and a spare; no one asks for a replacement."""

    proved = "a failed and a drained node were replaced"

    def run(self) -> None:
        self._prepare()
        before = self.pod("demo", "team-a")
        failed, places = before["placed"][1], _places(before)
        host = self._freeze(failed["node"])
        self.say("Nova takes the host for dead; weft reports it, and the pod's spare takes the node's place")
        self._await("the spare is used", lambda pod: not pod["spares"])
        self.weft("pod", "show", "demo")
        self.say("a dead host can't be asked whether its guest is off: an operator has looked, and says so")
        self.weft("node", "quarantine", failed["node"], "--reason", "power supply is dead", cloud="operator")
        self.weft("node", "clear", failed["node"], cloud="operator")
        after = self._await(
            "the new server has the place", lambda pod: _places(pod) == places and _ready(pod)
        )
        self._compare(before, after)
        self.say("the broken node: held, with its history; the audit log names weft")
        self.weft("node", "show", failed["node"], cloud="operator")
        self.weft("node", "history", failed["node"], cloud="operator")
        self.weft("audit-log", "--action", "pod replace", cloud="operator")
        self._drain(next(one["leaf"] for one in after["placed"] if one["leaf"] != failed["leaf"]), places)
        self._release(failed["node"])
        os.kill(host, signal.SIGCONT)

    def _release(self, failed: str) -> None:
        """Release the pod: everything is proved clean but the dead host, and the receipt says so."""
        self.say(
            f"release: everything is read back clean, but {failed} can't be read, and the receipt says so"
        )
        self.weft("pod", "release", "demo")
        self._await("only the dead host is left", lambda pod: pod["state"] == "RELEASING" and not _left(pod))
        words = ("--reason", f"{failed} has no power", "--wait")
        self.weft("pod", "abandon", "demo", *words, cloud="operator")
        self.weft("pod", "receipt", "demo", "--json", save="receipt.json")
        self.weft("receipt", "key", save="weft.pub")
        self.weft("receipt", "verify", "receipt.json", "--key", "weft.pub", allowed=(1,))
        receipt = json.loads((self.folder / "receipt.json").read_text())["receipt"]
        for item in (one for one in receipt["items"] if one["result"] != "clean"):
            print(f"{item['result']}: {item['plane']} {item['subject']}: {item['seen']}", flush=True)
        self.say(f"{failed} is in quarantine, with its history")
        self.weft("node", "list", "--state", "quarantined", cloud="operator")
        self.weft("node", "history", failed, cloud="operator")

    def _prepare(self) -> None:
        site = self.folder / "site.yaml"
        text, found = HOST_DOWN.subn(rf"\g<1>{SOON}", self.lab.site_path.read_text())
        if found != 1:
            raise SystemExit("weft demo: the lab's site has no repair.host_down")
        site.write_text(text)
        for table in self.lab.site_path.parent.glob("*.csv"):
            (self.folder / table.name).write_text(table.read_text())
        self.say("hosts that are down for half a minute count as failed, in this demo")
        self.weft("site", "activate", "site.yaml", cloud="operator")
        (self.folder / "pod.yaml").write_text(POD)
        self.say("what is ordered: pod.yaml")
        print(POD, end="")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.weft("pod", "show", "demo")

    def _freeze(self, node: str) -> int:
        """Stop a host's nova-compute, so that nothing there answers; returns its process id."""
        record = self.lab.supervisor.record(f"nova-compute@{node}")
        if record is None:
            raise SystemExit(f"weft demo: the lab has no nova-compute of {node}")
        self.say(f"the host of {node} stops")
        print(f"$ kill -STOP {record.pid}   # its nova-compute", flush=True)
        os.kill(record.pid, signal.SIGSTOP)
        return record.pid

    def _drain(self, leaf: str, places: object) -> None:
        """Drain a leaf with nodes of the pod: they are replaced at its time, and keep their places."""
        self.say(f"an operator empties {leaf}: at the time, the pod's nodes there are replaced")
        by = (datetime.now(UTC) + timedelta(seconds=EMPTY_IN)).strftime("%Y-%m-%dT%H:%M:%SZ")
        words = ("--by", by, "--reason", "new firmware", "--public", "firmware of a switch")
        self.weft("node", "drain", leaf, *words, cloud="operator")
        after = self._await(
            f"no server is left on {leaf}",
            lambda pod: leaf not in {one["leaf"] for one in pod["placed"]} and _ready(pod),
        )
        if _places(after) != places:
            raise SystemExit(f"weft demo: the servers' names and addresses changed: {_places(after)}")
        self.weft("pod", "show", "demo")
        self.weft("node", "drains", cloud="operator")

    def _compare(self, before: Any, after: Any) -> None:
        """Check that names, addresses and segment are as before."""
        for one in after["servers"]:
            old = next(s for s in before["servers"] if s["name"] == one["name"])
            moved = f", before on {old['node']}" if old["node"] != one["node"] else ""
            print(f"{one['name']}: {one['management_address']} on {one['node']}{moved}", flush=True)
        if before["segment"] != after["segment"]:
            raise SystemExit("weft demo: the segment changed")
        print(f"segment {after['segment']}, as before", flush=True)

    def _await(self, what: str, ok: Callable[[Any], bool]) -> Any:
        """Poll the pod until the condition holds. Fails the demo after `LONGEST` seconds."""
        began = time.monotonic()
        env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self.lab.clouds_yaml), "OS_CLOUD": "team-a"}
        command = [sys.executable, "-m", "weft.cli.main", "pod", "show", "demo", "--json"]
        while time.monotonic() - began < LONGEST:
            done = subprocess.run(command, env=env, capture_output=True, check=False)
            if done.returncode == 0 and ok(pod := json.loads(done.stdout)):
                print(f"{what}: after {time.monotonic() - began:.0f} s", flush=True)
                return pod
            time.sleep(2)
        raise SystemExit(f"weft demo: not within {LONGEST:.0f} s: {what}")


def _ready(pod: Any) -> bool:
    return pod["state"] == "READY" and not pod["changing_since"]


def _left(pod: Any) -> list[str]:
    """Resources that aren't gone yet."""
    return [r["key"] for r in pod["resources"] if r["state"] != "absent"]


def _places(pod: Any) -> dict[str, tuple[str, ...]]:
    """Server -> its fixed addresses."""
    return {s["name"]: (s["management_address"], *s["rdma_addresses"]) for s in pod["servers"]}
