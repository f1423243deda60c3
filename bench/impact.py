"""With 10,000 pods in the real service and database: the impact of a leaf of 40 nodes, the plan of a drain of 400
nodes, and the search for failing nodes."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.row import row
from bench.sites import regular_site
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.settings import ServeSettings
from weft.app.verbs import Request
from weft.app.wiring import shared_services
from weft.engine.book.claimrows import insert_pod
from weft.engine.nodes.drains import end_pods_on_drains
from weft.engine.nodes.failures import refresh_failures
from weft.engine.store.store import Store
from weft.model.fabric import Capabilities
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import Site
from weft.model.views import DrainRequest
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity

PODS = int(os.environ.get("IMPACT_PODS", "10000"))
PER_LEAF, PER_RACK, FREE, ROUNDS = 40, 400, 400, 30
GOAL = 50.0
"""Goal in milliseconds without placing the pods elsewhere."""
DRAIN_GOAL = 1000.0
"""Goal in milliseconds for the plan of a drain of 400 nodes."""
PROJECT = "id-of-team-a"


def rows() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        shared_services(ServeSettings(state=Path(folder), worker=False)) as made,
    ):
        site = in_rows(regular_site(PODS + FREE, per_leaf=PER_LEAF, many=True))
        made.store.activate_site(site, "bench")
        fill(made.store, site)
        service = made.service(Policy())
        return [*measured(service), *drains(service), *failures(made.store, site)]


def in_rows(site: Site) -> Site:
    """The site with its nodes in racks of 400, the largest place that one drain can name."""
    racked = (n.model_copy(update={"rack": f"row{i // PER_RACK}"}) for i, n in enumerate(site.nodes))
    return site.model_copy(update={"nodes": tuple(racked)})


def fill(store: Store, site: Site) -> None:
    """A pod on each node but the last `FREE`, each with all rows that an order writes."""
    order = Order.model_validate({"name": "pod", "nodes": {"count": 1, "flavor": "gpu8", "image": "tiny"}})
    can = dict.fromkeys(site.fabrics, Capabilities(virtual_functions=False))
    plan = make_plan(NOT_ORDERED, PROJECT, order, site, Occupancy(), UsedNumbers(), can)
    if isinstance(plan, Refusal):
        raise RuntimeError(plan.reason)
    for number in range(PODS):
        with store.database.transaction() as tx:
            insert_pod(tx, copy_of(plan, number, f"gpu{number}"), PROJECT, "alice")


def copy_of(plan: Plan, number: int, name: str) -> Plan:
    """The same plan under another name and id, with other numbers and subnets, on the node of that name."""
    [node] = plan.placement.nodes
    mine = node.model_copy(update={"node": name, "leaf": f"leaf{number // PER_LEAF}"})
    allotment = {
        "numbers": dict.fromkeys(plan.allotment.numbers, number + 2),
        "rdma_cidr": f"100.{64 + number // 256}.{number % 256}.0/24",
        "management_cidr": f"10.{number // 256}.{number % 256}.0/24",
    }
    return plan.model_copy(
        update={
            "pod_id": str(UUID(int=number + 1)),
            "order": plan.order.model_copy(update={"name": f"pod-{number:05}"}),
            "placement": plan.placement.model_copy(update={"nodes": (mine,)}),
            "allotment": plan.allotment.model_copy(update=allotment),
        }
    )


def measured(service: Service) -> list[dict[str, Any]]:
    """The median of a leaf's impact, each time another leaf, without and with placing its pods elsewhere."""
    request = Request(FakeIdentity(tokens()).check("operator"), "127.0.0.1", "req-bench")
    service.site.impact(request, "leaf0", place=False)  # a process counts the pods at its first request
    found: list[dict[str, Any]] = []
    for place in (False, True):
        took: list[float] = []
        for number in range(1, ROUNDS + 1):
            began = time.perf_counter()
            view = service.site.impact(request, f"leaf{number % (PODS // PER_LEAF)}", place=place)
            took.append((time.perf_counter() - began) * 1000)
            assert len(view.pods) == len(view.nodes) == PER_LEAF
            assert not place or all(pod.elsewhere and pod.elsewhere.fits for pod in view.pods)
        what = f"impact of a leaf of {PER_LEAF} nodes among {PODS:,} pods"
        how = ", its pods placed elsewhere" if place else ""
        value = statistics.median(took)
        goal = {} if place else {"goal": f"≤ {GOAL:.0f}", "met": value <= GOAL}
        found.append(row(f"{what}{how}", value, "ms") | goal)
    return found


def drains(service: Service) -> list[dict[str, Any]]:
    """The plan of a drain of 400 nodes, each time of other nodes."""
    request = Request(FakeIdentity(tokens()).check("operator"), "127.0.0.1", "req-bench")
    took: list[float] = []
    for number in range(ROUNDS):
        wanted = DrainRequest(target=f"rack:row{number % (PODS // PER_RACK)}", plan=True)
        began = time.perf_counter()
        result = service.nodes.drain(request, wanted)
        took.append((time.perf_counter() - began) * 1000)
        assert len(result.nodes) == len(result.pods) == PER_RACK
    value = statistics.median(took)
    goal = {"goal": f"≤ {DRAIN_GOAL:.0f}", "met": value <= DRAIN_GOAL}
    return [row(f"drain of {PER_RACK} nodes among {PODS:,} pods, planned", value, "ms") | goal]


def failures(store: Store, site: Site) -> list[dict[str, Any]]:
    """One search for failing nodes: while no node fails, and while a drain of 400 nodes is due."""
    found: list[dict[str, Any]] = []
    for what in ("none of which fails", f"{PER_RACK} of which are on drained nodes"):
        took: list[float] = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            refresh_failures(store.database, site)
            took.append((time.perf_counter() - began) * 1000)
        found.append(
            row(f"search for failing nodes among {PODS:,} pods, {what}", statistics.median(took), "ms")
        )
        due = statistics.median(_releases(store) for _ in range(ROUNDS))
        found.append(row(f"search for pods to release for drains among {PODS:,}, {what}", due, "ms"))
        with store.database.transaction() as tx:
            nodes = [f"gpu{number}" for number in range(PER_RACK)]
            past = {
                "at": tx.now(),
                "until": tx.now(),
                "by": "bench",
                "reason": "",
                "public": "",
                "waits": False,
            }
            tx.rows("drain_nodes", nodes=nodes, **past)
    return found


def _releases(store: Store) -> float:
    """Milliseconds of one search for pods to release because of a drain; there are none."""
    began = time.perf_counter()
    assert end_pods_on_drains(store.database) == []
    return (time.perf_counter() - began) * 1000
