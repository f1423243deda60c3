"""An order of 16 nodes until all servers are ACTIVE, against scripts that create the same resources on the same cloud.

In one lab, alternating: weft, the parallel script, weft, the parallel script …; the sequential script once.
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

NODES = 16
ROUNDS = 3
GOAL = 1.0


def rows() -> list[dict[str, Any]]:
    with bench_lab(nodes=NODES) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    hosts = [n.name for n in lab.site.nodes if n.role == "compute"][:NODES]
    connection, client = connections(lab)
    nodes = {"count": NODES, "flavor": "gpu8", "image": "tiny"}
    took = in_turn(
        lab, client, nodes, lambda done: _script(scripts.parallel, connection, hosts, done), ROUNDS
    )
    sequential = _script(scripts.sequential, connection, hosts, lambda: None)
    weft, ratio = statistics.median(took.active), took.ratio(took.ready)
    return [
        row("order of 16 nodes to ACTIVE, weft", weft, "s"),
        row("order of 16 nodes to ACTIVE, hand-parallel script", statistics.median(took.script), "s"),
        row("order of 16 nodes to ACTIVE, one after the other", sequential, "s"),
        row(
            "order of 16 nodes to READY, weft / hand-parallel to ACTIVE",
            ratio,
            "ratio",
            f"<= {GOAL:g}",
            ratio <= GOAL,
            "hand-parallel script",
        ),
        row(
            "order of 16 nodes, weft / one after the other",
            weft / sequential,
            "ratio",
            "<= 1",
            weft <= sequential,
            "sequential openstacksdk script",
        ),
        row("order of 16 nodes to READY, all planes verified, weft", statistics.median(took.ready), "s"),
        *took.request_rows("order of 16 nodes"),
        row("release of 16 nodes with receipt, weft", statistics.median(took.release), "s"),
    ]


def _script(script: Callable[..., Any], connection: Any, hosts: list[str], done: Callable[[], None]) -> float:
    """Seconds of a script until all is ACTIVE, when `done` is called; what it created is removed afterwards."""
    with contextlib.closing(script(connection, hosts)) as made:
        done()
        return made.seconds
