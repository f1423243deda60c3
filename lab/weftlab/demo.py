"""`make demo`: the main job on a real OpenStack and a real subnet manager, from nothing to the receipt.

`make demo DEMO=ipu` is the same for an order of IPUs (`weftlab.ipudemo`), `DEMO=roce` for pods on Ethernet switches
(`weftlab.rocedemo`), `DEMO=metal` for bare-metal machines (`weftlab.metaldemo`), `DEMO=ironic` for the same without
Nova, `DEMO=site` from lists of hardware to two sites (`weftlab.sitedemo`), `DEMO=web` the console until Enter
(`weftlab.webdemo`), `DEMO=repair` a host that dies and a leaf that is drained (`weftlab.repairdemo`), `DEMO=seeing`
planted faults that are found and named (`weftlab.seeingdemo`).

Every line that begins with `$` is a command that you could type yourself.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from weftlab.gpudemo import Demo
from weftlab.ipudemo import IpuDemo
from weftlab.lab import Lab
from weftlab.layout import LabError, free_ports
from weftlab.metaldemo import MetalDemo
from weftlab.processes import interrupt_on_sigterm
from weftlab.repairdemo import RepairDemo
from weftlab.rocedemo import RoceDemo
from weftlab.seeingdemo import SeeingDemo
from weftlab.sitedemo import SiteDemo
from weftlab.supervisor import JobError
from weftlab.webdemo import WebDemo

DEMOS: dict[str, type[Demo]] = {
    "": Demo,
    "ipu": IpuDemo,
    "roce": RoceDemo,
    "metal": MetalDemo,
    "ironic": MetalDemo,
    "site": SiteDemo,
    "web": WebDemo,
    "repair": RepairDemo,
    "seeing": SeeingDemo,
}
LABS: dict[str, tuple[dict[str, Any], str]] = {
    "": ({"ipus": 0, "guests": True}, "OpenSM over a simulated fabric, guests by QEMU"),
    # The IPUs' demo needs no GPU node; one is the least that a lab has.
    "ipu": ({"nodes": 4, "computes": 1}, "OpenSM over a simulated fabric, a simulated IPU-POD16"),
    "roce": (
        {"nodes": 8, "leaves": 2, "spines": 2, "ipus": 0, "fabric": "ethernet"},
        "four Ethernet switches (Open vSwitch behind Arista's, NVIDIA's and SONiC's interfaces)",
    ),
    "metal": (
        {"nodes": 4, "computes": 1, "ipus": 0, "metal": 2, "guests": True},
        "OpenSM over a simulated fabric, Ironic with two machines by QEMU behind a Redfish emulator",
    ),
    "ironic": (
        {"nodes": 4, "computes": 1, "ipus": 0, "metal": 2, "guests": True, "machines_by": "ironic"},
        "OpenSM over a simulated fabric, Ironic with two machines that Nova knows nothing of",
    ),
    "site": (
        {"nodes": 4, "computes": 1, "ipus": 64, "fabric": "both"},
        "a simulated IPU-POD64 with four Poplar servers, four Ethernet switches (Open vSwitch)",
    ),
    "web": ({"nodes": 8, "ipus": 0}, "OpenSM over a simulated fabric"),
    "repair": ({"nodes": 8, "ipus": 0}, "OpenSM over a simulated fabric"),
    "seeing": ({"nodes": 8, "ipus": 0}, "OpenSM over a simulated fabric"),
}
"""Name of a demo -> what it asks of the lab, and how to say so."""


def main(argv: list[str]) -> int:
    """Run the demo that is named, or that of GPU pods; returns the exit code, 2 for an unknown name."""
    name = " ".join(argv)
    if name not in LABS:
        listed = ", ".join(n for n in LABS if n)
        print(f"DEMO={name} is not allowed: {listed}, or nothing", file=sys.stderr)
        return 2
    asked, has = LABS[name]
    began = time.monotonic()
    interrupt_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        lab = Lab(Path(folder) / "lab", ports=free_ports(), say=lambda line: print(line, flush=True), **asked)
        print(f"== a whole AI cloud on this machine: OpenStack, {has}, weft", flush=True)
        try:
            lab.up()
            DEMOS[name](lab, Path(folder)).run()
        except (LabError, JobError) as error:
            print(f"weft demo: {error}", file=sys.stderr)
            return 1
        finally:
            print("\n== taking the lab down", flush=True)
            lab.down()
    proved, seconds = DEMOS[name].proved, time.monotonic() - began
    print(f"\nweft demo: {proved} and nothing is left running; {seconds:.0f} s in all.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
