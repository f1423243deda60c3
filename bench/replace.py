"""One node of a pod of 16 replaced, on InfiniBand and on RoCE, against scripts on that cloud.

Each in a lab of its own, alternating: weft, the script, weft, the script … The script creates ports and one server on
existing networks, and is done when it is ACTIVE. Then it deletes both, waits until Nova has none of it, and does so
again: a replacement by hand, which proves nothing. weft's time ends when the change is done: the old server is proved
gone, its adapters are out of the segment, the new one is ACTIVE in its place, and everything was read back; the time
until it is ACTIVE, as Nova notes it to the second, is a row of its own. On RoCE, adapters of the remaining nodes
meanwhile ping each other and keep a TCP connection open through the switches.
"""

from __future__ import annotations

import contextlib
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench import openstack_scripts as scripts
from bench.onlab import Asked, bench_lab, connections
from bench.row import row
from weft.client import Client, of_cloud
from weftlab.lab import Lab
from weftlab.switches.labsite import PHYSICAL_NETWORK, host_name, lab_ovs

NODES = 16
ROUNDS = 3
GOAL = 1.1
NAME = "train"
ALL: dict[str, Any] = {"nodes": NODES + 1, "computes": NODES + 1, "ipus": 0}
"""A lab with one node more than the pod, and with all nodes in Nova."""


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with bench_lab(**ALL) as lab:
        found += measured(lab, NODES, "InfiniBand", scripts.Shape())
    with bench_lab(**ALL, fabric="ethernet", switches="eos", probes=False) as lab:
        shape = scripts.Shape(flavor="a100x8", rdma_physical_network=PHYSICAL_NETWORK, segment=901)
        found += measured(lab, NODES, "RoCE", shape)
    return found


def measured(
    lab: Lab, count: int, what: str, shape: scripts.Shape, rounds: int = ROUNDS
) -> list[dict[str, Any]]:
    """Rows of a pod of `count` nodes in a lab with one node more."""
    connection, client = connections(lab)
    operator = of_cloud(OpenStackConfig(config_files=[str(lab.clouds_yaml)]).get_one("operator"))
    nodes = {"count": count, "flavor": shape.flavor, "image": shape.image}
    client.pods.create({"name": NAME, "nodes": nodes})
    pod, asked = _ready(client), Asked(lab)
    hosts = {n.name: n.nova_host for n in lab.site.nodes if n.role == "compute"}
    ours, active, theirs, by_hand = (list[float]() for _ in range(4))
    lost, kept = 0, True
    for number in range(rounds):
        (free,) = hosts.keys() - {server["node"] for server in pod["servers"]}
        booted, replaced = _script(connection, hosts[free], shape)
        theirs.append(booted)
        by_hand.append(replaced)
        before = pod
        failed, *stay = (server["node"] for server in pod["servers"])
        asked.begin()
        with _traffic(lab, pod, stay) if what == "RoCE" else contextlib.nullcontext(_NONE) as seen:
            began, at = time.monotonic(), time.time()
            client.pods.replace_node(NAME, failed)
            pod = _ready(client)
            ours.append(time.monotonic() - began)
        active.append(_launched(connection, before, pod) - at)
        lost, kept = lost + seen.lost(), kept and seen.kept()
        operator.nodes.accept(failed, "repair")
        requests = asked.requests("weft")
        said = f"{what} round {number + 1}: weft {ours[-1]:.1f} s, ACTIVE after {active[-1]:.1f} s; script "
        said += f"{theirs[-1]:.1f} s, with the removal of such a server before {by_hand[-1]:.1f} s"
        print(f"{said}; {requests.total()} requests; events:", flush=True)
        for event in client.pods.events(NAME, newest=12):
            print(f"  {event['at']} {event['type']}: {event['message'][:150]}", flush=True)
    client.pods.release(NAME)
    client.pods.wait_for(NAME, until=("RELEASED",), timeout=900)

    def ratio(mine: list[float], scripts: list[float]) -> float:
        return statistics.median(a / b for a, b in zip(mine, scripts, strict=True))

    name = f"{what}: a node of a pod of {count} replaced"
    found = [
        row(f"{name}, old one proved out and all read back, weft", statistics.median(ours), "s"),
        row(f"{what}: one server by hand", statistics.median(theirs), "s"),
        row(f"{what}: one server by hand, removed and booted again", statistics.median(by_hand), "s"),
        row(f"{name}: new server ACTIVE, weft", statistics.median(active), "s"),
        row(f"{name}, weft / one server replaced by hand", ratio(ours, by_hand), "ratio"),
    ]
    fast = ratio(active, theirs)
    text = f"{name}: new server ACTIVE, weft / one server booted by hand"
    found.append(row(text, fast, "ratio", f"<= {GOAL:g}", fast <= GOAL, "the script"))
    if what == "RoCE":
        found.append(row(f"{name}: pings lost between others", lost, "pings", "0", lost == 0))
        found.append(row(f"{name}: connection between others broken", int(not kept), "", "0", kept))
    return found


def _ready(client: Client) -> Any:
    pod = client.pods.wait_for(NAME, timeout=900)
    if pod["state"] != "READY" or pod["changing_since"]:
        raise RuntimeError(f"pod {NAME} is {pod['state']}: {pod['reason']}")
    return pod


def _script(connection: Connection, host: str, shape: scripts.Shape) -> tuple[float, float]:
    """Seconds from the request of its ports until one more server, on existing networks, is ACTIVE; and seconds of
    deleting such a server and booting it again.
    """
    with contextlib.closing(scripts.parallel(connection, [host], shape)) as made:
        first = made.phases["ports"] + made.phases["servers"]
        began = time.monotonic()
        made.remove()
        removed = time.monotonic() - began
    with contextlib.closing(scripts.parallel(connection, [host], shape)) as made:
        return first, removed + made.phases["ports"] + made.phases["servers"]


def _launched(connection: Connection, before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """When the server that only the second of two readings of a pod has became ACTIVE, as a UNIX time."""
    (new,) = _servers(after) - _servers(before)
    return (
        datetime.fromisoformat(connection.compute.get_server(new).launched_at).replace(tzinfo=UTC).timestamp()
    )


def _servers(pod: Mapping[str, Any]) -> set[str]:
    return {one["id"] for one in pod["resources"] if one["kind"] == "server" and one["id"]}


@dataclass(frozen=True, slots=True)
class Traffic:
    """Results of the traffic between two nodes, set once it has ended."""

    lost: Callable[[], int]
    kept: Callable[[], bool]


_NONE = Traffic(lambda: 0, lambda: True)
_SESSION = """\
import socket, sys, time
own, other = sys.argv[1:]
if not other:
    taken, _ = socket.create_server((own, 7000)).accept()
    while data := taken.recv(64):
        taken.sendall(data)
    sys.exit()
made = None
while made is None:
    try:
        made = socket.create_connection((other, 7000), timeout=5, source_address=(own, 0))
    except OSError:
        time.sleep(0.2)
made.settimeout(20)
print("open", flush=True)
while True:
    made.sendall(b"still there?")
    if not made.recv(64):
        sys.exit(1)
    time.sleep(0.2)
"""
"""A program that keeps a connection between two addresses, and sends on it all the time."""


@contextmanager
def _traffic(lab: Lab, pod: Mapping[str, Any], stay: list[str]) -> Generator[Traffic]:
    """Pings and a TCP connection between adapters of two nodes of the pod."""
    ovs, places = lab_ovs(lab.layout), dict[str, str]()
    for server in pod["servers"]:
        if server["node"] in (stay[0], stay[-1]):
            places[host_name(server["node"], "mlx5_0")] = server["rdma_addresses"][0]
    (here, own), (there, other) = places.items()

    def run(space: str, *words: str) -> subprocess.Popen[str]:
        argv = ["nsenter", f"--net={ovs.space(space)}", *words]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)

    children = [
        run(here, "ping", "-n", "-q", "-i", "0.2", other),
        run(there, sys.executable, "-c", _SESSION, other, ""),
        run(here, sys.executable, "-c", _SESSION, own, other),
    ]
    ping, _, session = children
    said: list[str] = []
    try:
        _opened(session)
        yield Traffic(lambda: _lost("".join(said)), lambda: said[1:] == ["open"])
    finally:
        said.append(_ended(ping, signal.SIGINT))
        said.append("open" if session.poll() is None else "ended")
        for child in children[1:]:
            _ended(child, signal.SIGKILL)


def _opened(child: subprocess.Popen[str]) -> None:
    """Wait for the process's first line."""
    assert child.stdout is not None
    child.stdout.readline()


def _ended(child: subprocess.Popen[str], how: signal.Signals) -> str:
    child.send_signal(how)
    return child.communicate()[0]


def _lost(said: str) -> int:
    found = re.search(r"(\d+) packets transmitted, (\d+) received", said)
    if found is None:
        raise RuntimeError(f"ping says {said!r}")
    return int(found[1]) - int(found[2])
