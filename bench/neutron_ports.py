"""200 Neutron ports at once until weft has them on the wire, against a stand-in for weft that answers at once.

Neutron runs networking-mlnx's unmodified `mlnx_sdn_assist` in both halves of each round. With weft, a half is done when
the tables of the host ports and of their leaf ports show the network's P_Key, as read by the agent beside the manager.
The stand-in only accepts a notice and reports its job as completed; with it, a half is done when the driver's journal
has nothing left to send. Ports are created by the same eight threads; that time is in both, and what remains after the
last port's creation is listed separately. Before each half, sent entries are deleted from the driver's journal: the
driver doesn't do that itself, and becomes slower as its journal grows.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from openstack.config import OpenStackConfig
from openstack.connection import Connection
from sqlalchemy import create_engine, text

from bench.api import processor
from bench.onlab import bench_lab
from bench.row import row
from bench.threads import threads
from weft.app.neutronjournal import database_url
from weft.drivers.wire.agents import HttpAgent
from weft.model.agentapi import TablesQuery
from weft.model.ids import FULL_MEMBER
from weft.model.site import Hca
from weftlab import checks
from weftlab.lab import Lab
from weftlab.site import FABRIC

PORTS = 200
NODES = 100
LEAVES = 6
"""Leaves of the lab: five have too few ports for two adapters of 20 nodes and the uplinks."""
HCAS = 2
ROUNDS = 2
"""Rounds of four minutes each: Neutron needs most of that, to create the ports and to delete them."""
THREADS = 8
LONGEST = 300.0
NUMBER = 0x170


def rows() -> list[dict[str, Any]]:
    with bench_lab(nodes=NODES, leaves=LEAVES, hcas=HCAS, tenant_networks=True) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    weft: list[_Durations] = []
    alone: list[_Durations] = []
    with closing(
        Connection(config=OpenStackConfig(config_files=[str(lab.clouds_yaml)]).get_one("operator"))
    ) as admin:
        bench = _Bench(lab, admin)
        for number in range(ROUNDS):
            with_weft = partial(bench.round, NUMBER + 2 * number, bench.wired)
            if number % 2 == 0:  # the order alternates, since Neutron isn't the same afterwards
                weft.append(with_weft())
            with _instead_of_the_front(lab):
                alone.append(bench.round(NUMBER + 2 * number + 1, bench.sent))
            if number % 2:
                weft.append(with_weft())
            print(
                f"round {number + 1}: weft {weft[-1]} to the wire; stand-in {alone[-1]} to an empty journal"
            )
    ours, theirs = statistics.median(t.whole for t in weft), statistics.median(t.whole for t in alone)
    what, stand_in = f"{PORTS} Neutron ports", "mlnx_sdn_assist with a stand-in that answers at once"
    return [
        row(f"{what} to wire", ours, "s", compared_with=stand_in),
        row(f"{what}: the stand-in", theirs, "s"),
        row(f"{what}: weft against the stand-in", ours / theirs, "x"),
        row(f"{what}: the last one created, to wire", statistics.median(t.after for t in weft), "s"),
        row(f"{what}: the same, the stand-in", statistics.median(t.after for t in alone), "s"),
        row(f"{what}: processor of weft", statistics.median(t.processor for t in weft), "s"),
    ]


@dataclass(frozen=True, slots=True)
class _Durations:
    """Seconds from the first request until all was done, and how many of them followed the last port's creation."""

    whole: float
    after: float
    processor: float
    """Processor time of weft's process, which is API and worker in one."""

    def __str__(self) -> str:
        return f"{self.whole:.1f} s, {self.after:.1f} s of them after the last port's creation,"


class _Bench:
    def __init__(self, lab: Lab, admin: Connection) -> None:
        self._lab, self._admin = lab, cast(Any, admin)
        manager = lab.site.fabrics[FABRIC].manager
        self._agent = HttpAgent(manager.agents[0], manager)
        nodes = [n for n in lab.site.nodes if n.role == "compute"]
        self._places: Sequence[tuple[str, Hca]] = [
            (n.nova_host, h) for n in nodes for h in n.hcas_on(FABRIC)
        ][:PORTS]
        assert len(self._places) == PORTS, f"the lab has {len(self._places)} adapters"
        self._journal = create_engine(database_url(lab.layout.etc / "neutron" / "neutron.conf"))

    def round(self, number: int, done: Callable[[int], bool]) -> _Durations:
        """Create one network with all ports, wait until it is done, and delete everything again."""
        with self._journal.begin() as connection:
            connection.execute(text("DELETE FROM sdn_journal WHERE state = 'completed'"))
        network = self._admin.network.create_network(
            name=f"bench-{number}",
            provider_network_type="vlan",
            provider_physical_network="ibnet",
            provider_segmentation_id=number,
            port_security_enabled=False,
        )
        # Neutron lets this driver bind only ports that have an address.
        self._admin.network.create_subnet(
            network_id=network.id, ip_version=4, cidr="198.18.0.0/22", enable_dhcp=False
        )
        _until(lambda: self.sent(number))
        began, before = time.monotonic(), self._weft()
        with threads(THREADS) as pool:
            ports = list(pool.map(lambda place: self._port(network, *place), self._places))
            created = time.monotonic()
            _until(lambda: done(number))
            ended, after = time.monotonic(), self._weft()
            list(pool.map(self._admin.network.delete_port, ports))
        self._admin.network.delete_network(network)
        _until(lambda: self.sent(number) and not self._having(number))
        return _Durations(ended - began, ended - created, after - before)

    def _weft(self) -> float:
        record = self._lab.supervisor.record("weft")
        return processor([record.pid]) if record else 0.0

    def wired(self, number: int) -> bool:
        return self._having(number) == len(self._places)

    def sent(self, number: int) -> bool:
        with self._journal.connect() as connection:
            left = text(
                "SELECT count(*) FROM sdn_journal WHERE state IN ('pending', 'processing', 'monitoring')"
            )
            return connection.execute(left).scalar_one() == 0

    def _having(self, number: int) -> int:
        """Number of adapters that have the key on both host port and leaf port."""
        key, guids = FULL_MEMBER | number, tuple(sorted(hca.port_guid for _, hca in self._places))
        tables = self._agent.tables(TablesQuery(port_guids=guids)).ports
        return sum(key in t.keys and key in (t.leaf_keys or ()) for t in tables)

    def _port(self, network: Any, host: str, hca: Hca) -> Any:
        guid = hca.port_guid.to_bytes(8, "big").hex(":")
        return self._admin.network.create_port(
            network_id=network.id,
            device_owner="baremetal:none",
            binding_vnic_type="baremetal",
            binding_host_id=host,
            extra_dhcp_opts=[
                {"opt_name": "client-id", "opt_value": f"ff:00:00:00:00:00:02:00:00:02:c9:00:{guid}"}
            ],
        )


def _until(done: Callable[[], bool]) -> None:
    """Wait until it is done. Raises `TimeoutError`."""
    deadline = time.monotonic() + LONGEST
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not done after {LONGEST:.0f} s")
        time.sleep(0.2)


@contextmanager
def _instead_of_the_front(lab: Lab) -> Generator[None]:
    """A server that answers at once, in place of weft's front; like that, in a process of its own."""
    lab.supervisor.stop(["front"], giving_up=False)
    port = lab.layout.port("front")
    server = multiprocessing.get_context("spawn").Process(target=_take, args=(port,), daemon=True)
    server.start()
    try:
        answers = checks.answers_tcp("127.0.0.1", port)
        _until(lambda: answers() is None)
        yield
    finally:
        server.terminate()
        server.join()
        lab.up()


def _take(port: int) -> None:
    ThreadingHTTPServer(("127.0.0.1", port), _Taker).serve_forever()


class _Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        reading = self.command == "GET"
        body = json.dumps({"Status": "Completed"} if reading else "app/jobs/1").encode()
        self.send_response(200 if reading else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - their names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass
