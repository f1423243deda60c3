"""An order of four bare-metal machines until all servers are ACTIVE, against a script on the same cloud.

In one lab, alternating: weft, the script, weft, the script … Each begins when Ironic has cleaned all machines and Nova
offers them. The script knows nothing of partitions, marks, or whether a machine was cleaned.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench import openstack_scripts as scripts
from bench.orders import by_weft
from bench.row import row
from weft.client import of_cloud
from weftlab.lab import Lab
from weftlab.layout import free_ports
from weftlab.metal import enroll
from weftlab.metal.machines import FLAVOR, machines
from weftlab.service import wait_until

MACHINES = 4
ROUNDS = 2
GOAL = 1.1


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        state = Path(folder) / "lab"
        lab = Lab(state, ports=free_ports(), nodes=4, computes=1, ipus=0, metal=MACHINES, say=print)
        try:
            lab.up()
            return _measure(lab)
        finally:
            lab.down()


def _measure(lab: Lab) -> list[dict[str, Any]]:
    config = OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    # The service user in a tenant's project: it may ask for hosts, and the tenant's quota counts, as for weft.
    connection = Connection(config=config.get_one("weft")).connect_as_project("team-b")
    client = of_cloud(config.get_one("team-a"))
    hosts = [str(n.machine) for n in machines(lab.site)]
    shape = scripts.Shape(flavor=FLAVOR, adapters=1, bare_metal=True)
    nodes = {"kind": "bare_metal", "count": MACHINES, "flavor": FLAVOR, "image": "tiny"}
    weft: list[float] = []
    ready: list[float] = []
    script: list[float] = []
    release: list[float] = []
    for number in range(ROUNDS):
        _offered(lab)
        active, whole, back = by_weft(client, {"name": f"bench{number}", "nodes": nodes})
        weft.append(active)
        ready.append(whole)
        release.append(back)
        _offered(lab)
        with contextlib.closing(scripts.parallel(connection, hosts, shape)) as made:
            script.append(made.seconds)
        print(
            f"round {number + 1}: weft {active:.1f} s to ACTIVE, {whole:.1f} s to READY; script {script[-1]:.1f} s"
        )
    ratio = statistics.median(a / b for a, b in zip(weft, script, strict=True))
    what = f"order of {MACHINES} machines"
    return [
        row(f"{what} to ACTIVE, weft", statistics.median(weft), "s"),
        row(f"{what} to ACTIVE, hand-parallel script", statistics.median(script), "s"),
        row(
            f"{what}, weft / hand-parallel",
            ratio,
            "ratio",
            f"<= {GOAL:g}",
            ratio <= GOAL,
            "hand-parallel script",
        ),
        row(f"{what} to READY, all planes verified, weft", statistics.median(ready), "s"),
        row(
            f"release of {MACHINES} machines with the records of their cleaning, weft",
            statistics.median(release),
            "s",
        ),
    ]


def _offered(lab: Lab) -> None:
    wait_until(enroll.offered(lab.layout, lab.site), enroll.PATIENCE)
