"""What the service decides at a large site, without database and HTTP: a refusal with its advice, processing the queue.

CPU time of the deciding thread, from rows of the database to the answer; the site has 10,000 nodes and is nearly full.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bench.placement_common import MIX
from bench.row import row
from bench.sites import regular_site
from weft.engine.base.world import World
from weft.engine.book.capacity import Capacity
from weft.engine.book.counted import Counted, Holding
from weft.engine.book.holdrows import Holder, NodeHold
from weft.engine.queue.agenda import agenda
from weft.engine.queue.gather import PlanningInput, Window
from weft.engine.queue.waiter import Waiter
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.planning.place.calendar import FOREVER
from weft.planning.place.sharing import Terms
from weft.planning.shapes.resolve import resolve

NODES, PER_LEAF = 10_000, 20
LARGE, PODS = 100_000, 40_000
WAITING = 100
NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


def service_rows() -> list[dict[str, Any]]:
    """Every measurement as a row."""
    site, capacity = regular_site(NODES), full(0.995)
    given = PlanningInput(site, World({}, {}, {}), {}, {})
    now = NOW.timestamp()
    window = Window(now, now, FOREVER, FOREVER)
    refused = resolve(order("late", 64), "team-a", site)

    def refuse() -> None:
        made = given.plan(str(UUID(int=0)), refused, capacity, window)
        assert isinstance(made, Refusal) and made.earliest_start

    waiting = queue()
    look: Callable[[bool], Any] = lambda forecast: agenda(  # noqa: E731
        site, capacity, waiting, {}, Occupancy(), {}, now, forecast
    )
    expected = sum(n.expected is not None for n in look(True).notes.values())
    deciding = claim_ms()
    refusing, looking = _ms(refuse), _ms(lambda: look(False))
    return [
        row("service: refusal with its advice, 10,000 nodes", refusing, "ms", "≤ 150", refusing <= 150),
        row("service: process a queue of 100, 10,000 nodes", looking, "ms", "≤ 500", looking <= 500),
        row("service: the same with expected starts", _ms(lambda: look(True)), "ms"),
        row("service: waiting orders of 100 with an expected start", expected, ""),
        row(
            f"service: count and decide a claim, {LARGE:,} nodes, {PODS:,} pods, processor",
            deciding,
            "ms",
            "≤ 12",
            deciding <= 12,
            compared_with="93bb7bfa: 62 ms",
        ),
    ]


def claim_ms(turns: int = 10) -> float:
    """Milliseconds of processor time (median) that a process computes for a claim of four nodes under the lock,
    statements excluded: it updates its count with the claim before, and plans.
    """
    site, now = regular_site(LARGE), NOW.timestamp()
    given, window = PlanningInput(site, World({}, {}, {}), {}, {}), Window(now, now, FOREVER, FOREVER)
    asked = resolve(order("next", 4), "team-a", site)
    held = {UUID(int=n + 1): _holding(n, (2 * n, 2 * n + 1)) for n in range(PODS)}
    counted, took = Counted().replacing(held, {}, {}, {}), list[float]()
    for turn in range(turns + 2):
        one, first = PODS + turn, 2 * PODS + 4 * turn
        began = time.process_time()
        claimed = {UUID(int=one + 1): _holding(one, range(first, first + 4))}
        counted = counted.replacing(claimed, {}, {}, {})
        capacity = Capacity.of(counted, NOW, frozenset(), {"ending": {}, "site": 1})
        made = given.plan(str(UUID(int=0)), asked, capacity, window)
        took.append((time.process_time() - began) * 1000)
        assert isinstance(made, Plan), made
    return statistics.median(took[2:])


def _holding(number: int, nodes: Iterable[int]) -> Holding:
    since = NOW.isoformat()
    pod = {"pod": f"p{number}", "project_id": "team-b", "lease_end": None, "wanted": "present"}
    terms = {"apart_from": [], "exclusive": False, "bisection_gbps": 0}
    node = {"since": since, "spare": False, "whole": True, "withheld": "", "leaving": None}
    high, low = divmod(number, 256)
    document = {
        "pod": {**pod, **terms, "placed_at": since},
        "nodes": [{**node, "node": f"gpu{n}"} for n in nodes],
        "numbers": [["segment/ib0", 100 + number]],
        "subnets": [["management", "main", f"10.{high}.{low}.0/24"]],
        "parts": None,
        "booking": None,
    }
    return Holding.of(UUID(int=number + 1), document)


def _ms(decide: Callable[[], object], times: int = 5) -> float:
    """Milliseconds: the least of some runs, after one that fills what is cached of a site."""
    decide()
    found: list[float] = []
    for _ in range(times):
        start = time.thread_time()
        decide()
        found.append(time.thread_time() - start)
    return min(found) * 1000


def order(name: str, count: int, hours: int = 0, **more: Any) -> Order:
    lease = {"duration": f"{hours}h"} if hours else {}
    nodes = {"count": count, "flavor": "gpu8", "image": "ubuntu"}
    return Order.model_validate({"name": name, "nodes": nodes, "lease": lease, **more})


def full(share: float) -> Capacity:
    """Pods of the mix on this share of the nodes, slightly scattered, with ends over the next two days."""
    rng = random.Random(7)
    free = [f"gpu{n}" for n in range(NODES)]
    holds: dict[str, NodeHold] = {}
    number = 0
    while len(free) > (1 - share) * NODES:
        number += 1
        count = min(rng.choices(list(MIX), list(MIX.values()))[0], len(free) - int((1 - share) * NODES))
        first = rng.randrange(max(1, len(free) - count)) // PER_LEAF * PER_LEAF
        mine, free[first : first + count] = free[first : first + count], []
        end, project = NOW + timedelta(minutes=rng.randrange(1, 2880)), f"team-{number % 40}"
        pod = Holder(UUID(int=number), f"pod{number}", project, end, terms=Terms(project))
        holds |= {node: NodeHold(node, pod, NOW - timedelta(hours=1)) for node in mine}
    return Capacity(holds, {}, UsedNumbers())


def queue() -> list[Waiter]:
    """Waiting orders of the mix, all larger than what is free."""
    rng = random.Random(8)
    found: list[Waiter] = []
    for n in range(WAITING):
        count = max(64, rng.choices(list(MIX), list(MIX.values()))[0])
        wanted = order(f"w{n}", count, rng.choice([1, 4, 12, 24]), queue=True)
        at = NOW - timedelta(minutes=WAITING - n)
        found.append(Waiter(UUID(int=10_000 + n), f"team-{n % 10}", wanted.name, wanted, at, None, False))
    return found
