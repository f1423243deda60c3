"""Reading forwarding tables and counters against infiniband-diags, and finding out who disturbs one of 100 pods, with
800 hosts and with a fabric of 5,007 nodes.

The readings are from real OpenSM over ibsim. They alternate with the program that they are compared with, both on the
same simulated host, and the fastest round of each counts. weft uses the discovery that the agent keeps; the programs
discover the fabric in each call.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from bench.impact import copy_of
from bench.largefabric import NODES, large_site
from bench.partition import HOSTS, on_a_fabric
from bench.row import row
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.settings import ServeSettings
from weft.app.verbs import Request
from weft.app.wiring import shared_services
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.clock import SystemClock
from weft.engine.base.world import World
from weft.engine.book.claimrows import insert_pod
from weft.engine.store.store import Store
from weft.model.fabric import Capabilities
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import UsedNumbers
from weft.model.site import Site
from weft.planning.fabric import linkuse
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.testing.callers import tokens
from weft.testing.fabric import FakeFabric
from weft.testing.keystone import FakeIdentity
from weftlab.fabric import FabricFolder, fabric_jobs
from weftlab.fabric.files import description
from weftlab.layout import Layout
from weftlab.site import FABRIC, make_site, settings

PODS, PER_POD, ROUNDS = 100, 8, 15
READING_GOAL, ANSWER_GOAL, LARGE_GOAL = 0.1, 20.0, 100.0
"""Goals: share of the program's time; milliseconds of an answer with 800 hosts and with 5,007 nodes."""
READINGS, LARGE_READINGS = 5, 3
SMALL, LARGE = f"{HOSTS} hosts", f"{NODES:,} nodes"
PROJECT = "id-of-team-a"


def rows() -> list[dict[str, Any]]:
    return [
        *_readings(SMALL, small_site, READINGS),
        *_answers(SMALL, small_site, ANSWER_GOAL),
        *_answers(LARGE, large_site, LARGE_GOAL),
        *_readings(LARGE, large_site, LARGE_READINGS),
    ]


def small_site(layout: Layout) -> Site:
    return make_site(settings(nodes=HOSTS, hcas=1), layout)


def _readings(size: str, site_of: Callable[[Layout], Site], rounds: int) -> list[dict[str, Any]]:
    found: dict[str, list[float]] = {}

    def measure(layout: Layout, site: Site) -> tuple[list[float], list[float]]:
        node = [one for one in site.nodes if one.role == "compute"][-3]
        environment = {
            **os.environ,
            **FabricFolder(layout, FABRIC).client(description(node, node.hcas[0])),
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
        }
        command = [sys.executable, "-m", "bench.links", str(rounds)]
        # A client of the simulator leaves a folder where it runs if it fails.
        folder, environment["PYTHONPATH"] = FabricFolder(layout, FABRIC).folder, str(Path.cwd())
        done = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=True, timeout=600
        )
        found.update(json.loads(done.stdout))
        return [], []

    on_a_fabric(fabric_jobs, measure, site_of=site_of)
    made: list[dict[str, Any]] = []
    for what, mine, theirs, goal in (
        ("all forwarding tables", "tables", "dump_fts", READING_GOAL),
        ("all counters", "counters", "ibqueryerrors --counters", READING_GOAL if size == SMALL else None),
    ):
        own, other = min(found[mine]), min(found[theirs])
        against = f"{theirs}: {other * 1000:.0f} ms"
        made.append(row(f"{what} of {size}, read by the agent", own * 1000, "ms", compared_with=against))
        share, name = own / other, f"{what} of {size}, share of {theirs}"
        made.append(
            row(name, share, "", "" if goal is None else f"≤ {goal}", None if goal is None else share <= goal)
        )
    return made


def read_both(rounds: int) -> dict[str, list[float]]:
    """In the simulator's environment: seconds of each reading, and of each program."""
    from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
    from weft.fabricagent.counters import CounterWatch
    from weft.fabricagent.forwarding import RouteReader
    from weft.fabricagent.opensm import Log
    from weft.fabricagent.wire import Wire
    from weft.model.agentlinks import RoutesQuery

    wire = Wire(ManagerPort(), DiagnosticPrograms())
    now = 0.0  # so that the tables are a minute old, but the kept discovery isn't
    routes = RouteReader(wire, Log(Path("/nonexistent")), lambda: now)
    counters = CounterWatch(wire)
    wire.finder.map(0.0)
    counters.read(0.0)
    found: dict[str, list[float]] = {}

    def timed(name: str, began: float) -> None:
        found.setdefault(name, []).append(time.perf_counter() - began)

    for _ in range(rounds):
        now += 60
        time.sleep(1.0)  # counters are read once a second at most
        began = time.perf_counter()
        routes.read(RoutesQuery(max_age=60))
        timed("tables", began)
        began = time.perf_counter()
        counters.read(0.0)
        timed("counters", began)
        for program in (["dump_fts"], ["ibqueryerrors", "--counters"]):
            began = time.perf_counter()
            subprocess.run(
                program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=300
            )
            timed(" ".join(program), began)
    counters.close()
    wire.close()
    return found


def _answers(size: str, site_of: Callable[[Layout], Site], goal: float) -> list[dict[str, Any]]:
    site = site_of(Layout(Path("/nowhere"), Path("/nowhere"), 23000))
    fabric = FakeFabric(site, FABRIC)
    world = World(resources={FABRIC: fabric}, fabrics={FABRIC: fabric}, clouds={})
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        shared_services(ServeSettings(state=Path(folder), worker=False)) as made,
    ):
        made.store.activate_site(site, "bench")
        fill(made.store, site)
        keeper = WorldKeeper(made.store, lambda _: world)
        service = Service(Desk(made.store, keeper, Policy(), SystemClock(), made.listener))
        return _asked(service, size, goal)


def fill(store: Store, site: Site) -> None:
    """Pods of eight nodes each, spread over leaves, with a segment on the fabric."""
    order = Order.model_validate({"name": "pod", "nodes": {"count": 1, "flavor": "gpu8", "image": "tiny"}})
    can = dict.fromkeys(site.fabrics, Capabilities(virtual_functions=False))
    plan = make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), can)
    if isinstance(plan, Refusal):
        raise RuntimeError(plan.reason)
    nodes = [n for n in site.nodes if n.role == "compute"]
    for number in range(PODS):
        with store.database.transaction() as tx:
            insert_pod(tx, copy_of(plan, number, nodes[number].name), PROJECT, "alice")
    with psycopg.connect(store.database.url, autocommit=True) as connection:
        for number in range(PODS):
            mine = nodes[number :: len(nodes) // PER_POD][:PER_POD]
            members = [{"port": n.hcas[0].port_id} for n in mine]
            connection.execute(
                "UPDATE resource SET state = 'SETTLED', outside_id = %s, "
                "document = jsonb_set(document, '{spec,members}', %s) WHERE owner_id = %s AND kind = 'segment'",
                [f"0x{number + 2:x}", Jsonb(members), UUID(int=number + 1)],
            )


def _asked(service: Service, size: str, goal: float) -> list[dict[str, Any]]:
    """Median time of an answer: with all paths followed for it, and with the paths kept from an answer before."""
    request = Request(FakeIdentity(tokens()).check("operator"), "127.0.0.1", "req-bench")
    service.fabrics.who_disturbs(request, str(UUID(int=1)))
    found: list[dict[str, Any]] = []
    for again in (False, True):
        took: list[float] = []
        for number in range(ROUNDS):
            if not again:
                linkuse.link_use.cache_clear()
            began = time.perf_counter()
            answer = service.fabrics.who_disturbs(request, str(UUID(int=number + 1)))
            took.append((time.perf_counter() - began) * 1000)
            assert answer.others and answer.links and not answer.reading.notes
        how = "paths of an answer before" if again else "all paths followed"
        value = statistics.median(took)
        name = f"who disturbs one of {PODS} pods on {size}, {how}"
        found.append(row(name, value, "ms", f"≤ {goal:.0f}", value <= goal))
    return found


if __name__ == "__main__":
    print(json.dumps(read_both(int(sys.argv[1]))))
