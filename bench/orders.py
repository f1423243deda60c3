"""An order of 16 nodes until all servers are ACTIVE, against scripts that create the same resources on the same cloud.

In one lab, alternating: weft, the parallel script, weft, the script …; the sequential script once.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench import openstack_scripts as scripts
from bench.row import row
from weft.client import Client, of_cloud
from weft.model.pod import PodState
from weftlab.lab import Lab
from weftlab.layout import free_ports

NODES = 16
ROUNDS = 3
GOAL = 1.15


def rows() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        lab = Lab(Path(folder) / "lab", ports=free_ports(), nodes=NODES, say=print)
        try:
            lab.up()
            return _measure(lab)
        finally:
            lab.down()


def _measure(lab: Lab) -> list[dict[str, Any]]:
    hosts = [n.name for n in lab.site.nodes if n.role == "compute"][:NODES]
    config = OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    # The service user in a tenant's project: it may ask for hosts, and the tenant's quota counts, as for weft.
    connection = Connection(config=config.get_one("weft")).connect_as_project("team-b")
    client = of_cloud(config.get_one("team-a"))
    weft: list[float] = []
    ready: list[float] = []
    parallel: list[float] = []
    release: list[float] = []
    for number in range(ROUNDS):
        active, whole, back = _weft(client, f"bench{number}")
        weft.append(active)
        ready.append(whole)
        release.append(back)
        parallel.append(_script(scripts.parallel, connection, hosts))
        print(
            f"round {number + 1}: weft {weft[-1]:.1f} s to ACTIVE, {whole:.1f} s to READY; script {parallel[-1]:.1f} s"
        )
    sequential = _script(scripts.sequential, connection, hosts)
    ratios = [a / b for a, b in zip(weft, parallel, strict=True)]
    return [
        row("order of 16 nodes to ACTIVE, weft", statistics.median(weft), "s"),
        row("order of 16 nodes to ACTIVE, hand-parallel script", statistics.median(parallel), "s"),
        row("order of 16 nodes to ACTIVE, one after the other", sequential, "s"),
        row(
            "order of 16 nodes, weft / hand-parallel",
            statistics.median(ratios),
            "ratio",
            f"<= {GOAL:g}",
            statistics.median(ratios) <= GOAL,
            "hand-parallel script",
        ),
        row(
            "order of 16 nodes, weft / one after the other",
            statistics.median(weft) / sequential,
            "ratio",
            "<= 1",
            statistics.median(weft) <= sequential,
            "sequential openstacksdk script",
        ),
        row("order of 16 nodes to READY, all planes verified, weft", statistics.median(ready), "s"),
        row("release of 16 nodes with receipt, weft", statistics.median(release), "s"),
    ]


def _weft(client: Client, name: str) -> tuple[float, float, float]:
    return by_weft(client, {"name": name, "nodes": {"count": NODES, "flavor": "gpu8", "image": "tiny"}})


def by_weft(client: Client, order: dict[str, Any]) -> tuple[float, float, float]:
    """Seconds from the request to all servers ACTIVE, to READY, and of the release."""
    name = order["name"]
    began = time.monotonic()
    client.create_pod(order)
    active = _until(client, name, lambda state: state in (PodState.VERIFYING, PodState.READY), began)
    whole = _until(client, name, lambda state: state is PodState.READY, began)
    began = time.monotonic()
    client.release_pod(name)
    return active, whole, _until(client, name, lambda state: state is PodState.RELEASED, began)


def _until(client: Client, name: str, done: Callable[[PodState], bool], began: float) -> float:
    """Follow the events, as the command line does, without polling, which would interfere."""
    after = 0
    for _ in range(200):
        for event in client.pod_events(name, after=after, wait=20.0):
            after = event["sequence"]
            state = event["message"].split(":")[0].strip() if event["type"] == "state" else ""
            if state == PodState.FAILED:
                raise RuntimeError(f"pod {name}: {event['message']}")
            if state in PodState.__members__ and done(PodState(state)):
                return time.monotonic() - began
    raise RuntimeError(f"pod {name} didn't get there")


def _script(script: Callable[..., Any], connection: Any, hosts: list[str]) -> float:
    """Seconds of a script until all is ACTIVE; what it created is removed afterwards."""
    with contextlib.closing(script(connection, hosts)) as made:
        return made.seconds
