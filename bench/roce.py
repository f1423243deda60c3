"""A RoCE pod of 16 nodes until it is READY, against a script that creates the same on the same cloud and switches.

In one lab, alternating: weft, the script, weft, the script … The script is the fastest known: Neutron and Nova as in
`openstack_scripts.parallel`, and beside them one eAPI request to each switch that needs the VLAN, all at once. It is
done when all servers are ACTIVE and each switch has answered; it knows which ports to set, reads nothing back, and
doesn't know about placement, marks, lost answers or proof. weft is READY when Nova, Neutron and every switch were read
back.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
from openstack.connection import Connection

from bench import openstack_scripts as scripts
from bench.onlab import bench_lab, connections, in_turn
from bench.row import row
from bench.threads import threads
from weft.model.site import Site, Switching
from weftlab.lab import Lab
from weftlab.switches.front import PARKING
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK

NODES = 16
ROUNDS = 3
GOAL = 1.0
VLAN = 901


def rows() -> list[dict[str, Any]]:
    # Without probes: the script sends nothing either.
    with bench_lab(nodes=NODES, ipus=0, fabric="ethernet", switches="eos", probes=False) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    connection, client = connections(lab)
    nodes = {"count": NODES, "flavor": "a100x8", "image": "tiny"}
    with contextlib.closing(Switches(lab.site)) as switches:
        took = in_turn(lab, client, nodes, lambda done: _script(connection, switches, done), ROUNDS)
    ratio = took.ratio(took.ready)
    what = f"RoCE pod of {NODES} nodes"
    return [
        row(f"{what} to ACTIVE, weft", statistics.median(took.active), "s"),
        row(f"{what} to READY, all planes read back, weft", statistics.median(took.ready), "s"),
        row(f"{what}, hand-parallel script with the switches beside it", statistics.median(took.script), "s"),
        row(f"{what} to READY, weft / script", ratio, "ratio", f"<= {GOAL:g}", ratio <= GOAL, "the script"),
        *took.request_rows(what),
        row(f"{what} released with receipt, weft", statistics.median(took.release), "s"),
    ]


def _script(connection: Connection, switches: Switches, done: Callable[[], None]) -> float:
    """Seconds until all servers are ACTIVE and all switches have answered, when `done` is called; what it created is
    removed afterwards."""
    hosts = [n.nova_host for n in switches.site.nodes if n.role == "compute"][:NODES]
    shape = scripts.Shape(flavor="a100x8", rdma_physical_network=PHYSICAL_NETWORK, segment=VLAN)
    began = time.monotonic()
    with threads(1) as pool:
        wired = pool.submit(switches.put, VLAN)
        with contextlib.closing(scripts.parallel(connection, hosts, shape)):
            wired.result()
            took = time.monotonic() - began
            done()
    switches.take_back(VLAN)
    return took


class Switches:
    """What the script knows about the switches: which ports of which switch to set, and an open connection to each."""

    def __init__(self, site: Site) -> None:
        switching = site.fabrics[FABRIC].manager.switching
        assert isinstance(switching, Switching) and switching.credentials is not None
        self.site = site
        login = json.loads(Path(switching.credentials).read_text())["default"]
        context = ssl.create_default_context(cafile=switching.ca)
        auth = (login["user"], login["password"])
        self._clients = {
            s.name: httpx.Client(base_url=s.url, auth=auth, verify=context, timeout=60)
            for s in switching.switches
        }
        hosts = [h.switch_port for n in site.nodes[:NODES] for h in n.hcas_on(FABRIC) if h.switch_port]
        self._hosts = _by_switch(hosts)
        self._links = _by_switch([end for link in switching.links for end in (link.a, link.b)])

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def put(self, number: int) -> None:
        """Put the hosts' ports into the VLAN, and add it to the links."""
        self._everywhere(
            [f"vlan {number}", "exit"],
            ["switchport mode access", f"switchport access vlan {number}"],
            [f"switchport trunk allowed vlan add {number}"],
            [],
        )

    def take_back(self, number: int) -> None:
        self._everywhere(
            [],
            [f"switchport access vlan {PARKING}"],
            [f"switchport trunk allowed vlan remove {number}"],
            [f"no vlan {number}"],
        )

    def _everywhere(
        self, before: Sequence[str], host: Sequence[str], link: Sequence[str], after: Sequence[str]
    ) -> None:
        def one(name: str) -> None:
            ports = [(p, host) for p in self._hosts.get(name, ())] + [(p, link) for p in self._links[name]]
            lines = [line for port, said in ports for line in (f"interface {port}", *said, "exit")]
            session = ["enable", "configure session byhand", *before, *lines, *after, "commit"]
            commands = [*session, "copy running-config startup-config"]
            params = {"version": 1, "cmds": commands, "format": "json"}
            body = {"jsonrpc": "2.0", "method": "runCmds", "params": params, "id": "byhand"}
            answer = self._clients[name].post("/command-api", json=body).raise_for_status().json()
            if "error" in answer:
                raise RuntimeError(f"{name}: {answer['error']}")

        with threads(len(self._clients)) as pool:
            list(pool.map(one, self._clients))


def _by_switch(ends: Sequence[str]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for end in ends:
        switch, _, port = end.partition("/")
        found.setdefault(switch, []).append(port)
    return found
