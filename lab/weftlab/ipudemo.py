"""`make demo DEMO=ipu`: an order of 16 IPUs, from the plan to the receipt, with a partition made by its tenant."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from weftlab.gpudemo import Demo
from weftlab.guests import guests_folder
from weftlab.ipu import POPLAR

POD = """\
name: bert
ipus: {count: 16}
nodes: {count: 1, flavor: cpu1, image: tiny}
access: {ssh_from: [10.0.0.0/8]}
"""


class IpuDemo(Demo):
    """The Poplar server is a folder: the lab's guests have no kernel, but their files and programs are real."""

    def vipu(self, *words: str) -> None:
        """Run `vipu …` with the credentials and in the home folder of the Poplar server."""
        print(f"$ {shlex.join(('vipu', '--config', f'{POPLAR}/vipu-cli.hcl', *words))}", flush=True)
        program = Path(sys.executable).with_name("vipu")
        code = subprocess.run(
            [str(program), "--config", f"{POPLAR}/vipu-cli.hcl", *words],
            env={**os.environ, "HOME": str(self.folder / POPLAR)},
            cwd=self.folder,
            check=False,
        ).returncode
        if code:
            raise SystemExit(f"weft demo: `vipu {shlex.join(words)}` ended with exit code {code}")

    def enter_poplar_server(self) -> None:
        """Where the guest's files are, by the id that the cloud gave to the server."""
        self.weft("pod", "show", "bert", "--json", save="pod.json")
        pod = json.loads((self.folder / "pod.json").read_text())
        server = next(r["id"] for r in pod["resources"] if r["key"] == f"server/{POPLAR}")
        (self.folder / POPLAR).symlink_to(guests_folder(self.lab.layout) / server)

    def run(self) -> None:
        (self.folder / "pod.yaml").write_text(POD)
        self.say("what is ordered: pod.yaml")
        print(POD, end="")
        self.say("the plan: which IPU-Machines, why these, what would be made; nothing is touched")
        self.weft("pod", "plan", "-f", "pod.yaml")
        self.say("the order, until the tenant's user has made and removed a partition")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.say("what the tenant has")
        self.weft("pod", "show", "bert")
        self.say("on the Poplar server, with what cloud-init wrote there: a partition of 16 IPUs")
        self.enter_poplar_server()
        self.vipu("create", "partition", "p16", "--size", "16")
        self.vipu("list", "partition")
        self.vipu("get", "partition", "p16")
        self.say("the operator: machines, and an audit of cloud, fabric and agents")
        self.weft("node", "list", cloud="operator")
        self.weft("audit", cloud="operator")
        self.say("release, with the partition still there, and proof")
        self.weft("pod", "release", "bert", "--wait")
        self.weft("pod", "receipt", "bert", "--json", save="receipt.json")
        self.verify("receipt.json")
        self.weft("audit", cloud="operator")
