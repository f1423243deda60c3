"""`make demo`: the main job on a real OpenStack and a real subnet manager, from nothing to the receipt.

`make demo DEMO=ipu` is the same for an order of IPUs (`weftlab.ipudemo`), `DEMO=roce` for pods on Ethernet switches
(`weftlab.rocedemo`), `DEMO=metal` for bare-metal machines (`weftlab.metaldemo`), `DEMO=site` from a list of hardware
to a site (`weftlab.sitedemo`).

Every line that begins with `$` is a command that you could type yourself.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from weftlab.lab import Lab
from weftlab.layout import LabError, free_ports
from weftlab.supervisor import JobError

POD = """\
name: demo
nodes: {count: 4, flavor: gpu8, image: tiny}
fabric: {isolation: partition}
locality: {required: site, preferred: leaf}
access: {ssh_from: [10.0.0.0/8]}
"""


class Demo:
    """Runs commands as a tenant or an operator would, and shows them."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self._began = time.monotonic()

    def say(self, text: str) -> None:
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

    def run(self) -> None:
        (self.folder / "pod.yaml").write_text(POD)
        self.say("what is ordered: pod.yaml")
        print(POD, end="")
        self.say("the plan: which nodes, why these, what would be made; nothing is touched")
        self.weft("pod", "plan", "-f", "pod.yaml")
        self.say("the order, until it is READY")
        self.weft("pod", "create", "-f", "pod.yaml", "--wait")
        self.say("what the tenant has")
        self.weft("pod", "list")
        self.weft("pod", "show", "demo")
        self.say("another tenant sees none of it")
        self.weft("pod", "show", "demo", cloud="team-b", allowed=(2,))
        self.say("the operator: nodes, subnet managers, and an audit of cloud and fabric")
        self.weft("node", "list", cloud="operator")
        self.weft("fabric", "status", cloud="operator")
        self.weft("audit", cloud="operator")
        self.say("release, with proof")
        self.weft("pod", "release", "demo", "--wait")
        self.weft("pod", "receipt", "demo", "--json", save="receipt.json")
        self.weft("receipt", "verify", "receipt.json")
        self.weft("audit", cloud="operator")


def _demo(name: str) -> type[Demo]:
    if name == "ipu":
        from weftlab.ipudemo import IpuDemo

        return IpuDemo
    if name == "roce":
        from weftlab.rocedemo import RoceDemo

        return RoceDemo
    if name == "site":
        from weftlab.sitedemo import SiteDemo

        return SiteDemo
    if name == "metal":
        from weftlab.metaldemo import MetalDemo

        return MetalDemo
    return Demo


LABS: dict[str, tuple[dict[str, Any], str]] = {
    "": ({"ipus": 0}, "OpenSM over a simulated fabric"),
    # The IPUs' demo needs no GPU node; one is the least that a lab has.
    "ipu": ({"nodes": 4, "computes": 1}, "OpenSM over a simulated fabric, a simulated IPU-POD16"),
    "roce": (
        {"nodes": 8, "leaves": 2, "spines": 2, "ipus": 0, "fabric": "ethernet"},
        "four Ethernet switches (Open vSwitch behind Arista's, NVIDIA's and SONiC's interfaces)",
    ),
    "metal": (
        {"nodes": 4, "computes": 1, "ipus": 0, "metal": 2},
        "OpenSM over a simulated fabric, Ironic with two machines behind a Redfish emulator",
    ),
    "site": (
        {"nodes": 4, "computes": 1, "ipus": 64},
        "OpenSM over a simulated fabric, a simulated IPU-POD64 with four Poplar servers",
    ),
}
"""Name of a demo -> what it asks of the lab, and how to say so."""


def main(argv: list[str]) -> int:
    name = " ".join(argv)
    if name not in LABS:
        listed = ", ".join(n for n in LABS if n)
        print(f"DEMO={name} is not allowed: {listed}, or nothing", file=sys.stderr)
        return 2
    asked, has = LABS[name]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        lab = Lab(Path(folder) / "lab", ports=free_ports(), say=lambda line: print(line, flush=True), **asked)
        print(f"== a whole AI cloud on this machine: OpenStack, {has}, weft", flush=True)
        try:
            lab.up()
            _demo(name)(lab, Path(folder)).run()
        except (LabError, JobError) as error:
            print(f"weft demo: {error}", file=sys.stderr)
            return 1
        finally:
            print("\n== taking the lab down", flush=True)
            lab.down()
    print(
        f"\nweft demo: the receipt is verified and nothing is left running; {time.monotonic() - began:.0f} s in all."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
