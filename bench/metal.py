"""An order of four bare-metal machines until all servers are ACTIVE, against a script on the same cloud.

In one lab, alternating: weft, the script, weft, the script … (`bench.onlab.in_turn`). Each begins once Ironic has
cleaned all machines and Nova offers them. The script knows nothing of partitions, marks, or whether a machine was
cleaned. weft's time includes that all adapters have joined the partition. Most of the ten minutes that the bench takes
are Ironic's cleanings.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable
from typing import Any

from bench import openstack_scripts as scripts
from bench.onlab import bench_lab, connections, in_turn
from bench.row import row
from weftlab.lab import Lab
from weftlab.metal import enroll
from weftlab.metal.machines import FLAVOR, machines
from weftlab.service import wait_until

MACHINES = 4
ROUNDS = 3
GOAL = 1.1


def rows() -> list[dict[str, Any]]:
    with bench_lab(nodes=4, computes=1, ipus=0, metal=MACHINES) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    connection, client = connections(lab)
    hosts = [str(n.machine) for n in machines(lab.site)]
    shape = scripts.Shape(flavor=FLAVOR, adapters=1, bare_metal=True)

    def script(done: Callable[[], None]) -> float:
        with contextlib.closing(scripts.parallel(connection, hosts, shape)) as made:
            done()
            return made.seconds

    nodes = {"kind": "bare_metal", "count": MACHINES, "flavor": FLAVOR, "image": "tiny"}
    took = in_turn(lab, client, nodes, script, ROUNDS, before=lambda: _offered(lab))
    ratio = took.ratio(took.active)
    what = f"order of {MACHINES} machines"
    return [
        row(f"{what} to ACTIVE, weft", statistics.median(took.active), "s"),
        row(f"{what} to ACTIVE, hand-parallel script", statistics.median(took.script), "s"),
        row(
            f"{what}, weft / hand-parallel",
            ratio,
            "ratio",
            f"<= {GOAL:g}",
            ratio <= GOAL,
            "hand-parallel script",
        ),
        row(f"{what} to READY, all planes verified, weft", statistics.median(took.ready), "s"),
        row(
            f"release of {MACHINES} machines with the records of their cleaning, weft",
            statistics.median(took.release),
            "s",
        ),
    ]


def _offered(lab: Lab) -> None:
    """Wait until all machines can be used, by Ironic first: Placement shows what nova-compute last saw, which may be
    older.
    """
    bare: Any = enroll.system(lab.layout).baremetal

    def cleaned() -> str | None:
        busy = [n.name for n in bare.nodes(details=True) if n.provision_state != "available"]
        return f"{', '.join(busy)} not available" if busy else None

    wait_until(cleaned, enroll.PATIENCE, pause=2.0)
    wait_until(enroll.offered(lab.layout, lab.site), enroll.PATIENCE, pause=2.0)
