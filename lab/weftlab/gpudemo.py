"""`make demo`: an order of GPU nodes from nothing to the receipt; and what all demos have in common."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from weftlab.bootstrap import connect
from weftlab.hypervisor.login import SshClient, guests_of, make_key
from weftlab.lab import Lab
from weftlab.switches.labsite import lab_ovs

POD = """\
name: {name}
nodes: {{count: {count}, flavor: gpu8, image: guest}}
fabric: {{isolation: partition}}
locality: {{required: site, preferred: leaf}}
access: {{ssh_from: [10.0.0.0/8], ssh_key: {key}}}
"""


class Demo:
    """Runs commands as a tenant or an operator would, and shows them.

    Attributes:
        proved: what the demo's last line says was shown.
    """

    proved = "the receipt is verified"

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print a heading with the seconds since the demo began."""
        print(f"\n== {text}  [{time.monotonic() - self._began:.0f} s]", flush=True)

    def weft(
        self, *words: str, cloud: str = "team-a", save: str | None = None, allowed: tuple[int, ...] = (0,)
    ) -> None:
        """Run `weft …` as a user of `cloud`; stops the demo if it fails."""
        shown = shlex.join(("weft", *words)) + (f" > {save}" if save else "")
        print(f"$ OS_CLOUD={cloud} {shown}", flush=True)
        env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(self.lab.clouds_yaml), "OS_CLOUD": cloud}
        command = [sys.executable, "-m", "weft.cli.main", *words]
        if save:
            with (self.folder / save).open("w") as output:
                code = subprocess.run(
                    command, env=env, cwd=self.folder, stdout=output, check=False
                ).returncode
        else:
            code = subprocess.run(command, env=env, cwd=self.folder, check=False).returncode
        if code not in allowed:
            raise SystemExit(f"weft demo: `{shown}` ended with exit code {code}; it should not have")

    def pod(self, name: str, cloud: str) -> Any:
        """A pod as its tenant sees it."""
        self.weft("pod", "show", name, "--json", save=f"{name}.json", cloud=cloud)
        return json.loads((self.folder / f"{name}.json").read_text())

    def verify(self, receipt: str, cloud: str = "team-a") -> None:
        """Verify a receipt in a file with the key that the service gives."""
        self.weft("receipt", "key", save="weft.pub", cloud=cloud)
        self.weft("receipt", "verify", receipt, "--key", "weft.pub", cloud=cloud)

    def login(self, key: Path) -> None:
        """Log in to every server of `demo` and ping the others from there; another tenant's server must not answer."""
        network = connect(self.lab.layout).network
        mine, other = (
            guests_of(self.pod(n, c), network) for n, c in (("demo", "team-a"), ("other", "team-b"))
        )
        door = SshClient(lab_ovs(self.lab.layout), key)
        with door.into(mine):
            for node, address in mine.addresses.items():
                print(f"$ ssh root@{address} hostname", flush=True)
                print(f"{door.awaited(address, 'hostname')}  ({node})", flush=True)
            members = list(mine.addresses.values())
            answers = sum(len(door.pings(a, [b for b in members if b != a])) for a in members)
            pairs = len(members) * (len(members) - 1)
            print(f"{answers} of {pairs} pings between members were answered", flush=True)
            strangers = door.taken(members[0], other)
            print(
                f"root takes an address of {other.subnet}: {len(strangers)} of {len(other.addresses)} answered"
            )
        with door.into(other):
            alive = [a for a in other.addresses.values() if door.reaches(a)]
            print(f"asked in its own VLAN, the other tenant's server answers: {', '.join(alive)}", flush=True)
        if answers != pairs or strangers or len(alive) != len(other.addresses):
            raise SystemExit("weft demo: members must reach each other and no one else")

    def run(self) -> None:
        key = make_key(self.folder)
        public = key.with_suffix(".pub").read_text().strip()
        (self.folder / "pod.yaml").write_text(POD.format(name="demo", count=4, key=public))
        (self.folder / "other.yaml").write_text(POD.format(name="other", count=1, key=public))
        self.say("what is ordered: pod.yaml")
        print((self.folder / "pod.yaml").read_text(), end="")
        self.say("the plan: which nodes, why these, what would be made; nothing is touched")
        self.weft("pod", "plan", "-f", "pod.yaml")
        self.say("the order, until it is READY")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.say("what the tenant has")
        self.weft("pod", "list")
        self.weft("pod", "show", "demo")
        self.say("another tenant sees none of it, and orders a server of its own")
        self.weft("pod", "show", "demo", cloud="team-b", allowed=(2,))
        self.weft("pod", "create", "-f", "other.yaml", "--wait", cloud="team-b")
        self.say(
            "login, and pings between servers: guests without hardware virtualization, so they take a moment"
        )
        self.login(key)
        self.say("the operator: nodes, subnet managers, and an audit of cloud and fabric")
        self.weft("node", "list", cloud="operator")
        self.weft("fabric", "status", cloud="operator")
        self.weft("audit", cloud="operator")
        self.say("release, with proof")
        self.weft("pod", "release", "demo", "--wait")
        self.weft("pod", "receipt", "demo", "--json", save="receipt.json")
        self.verify("receipt.json")
        self.weft("pod", "release", "other", "--wait", cloud="team-b")
        self.weft("audit", cloud="operator")
