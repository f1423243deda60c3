"""Placement's quality: churn at 92 % full under both settings, and real traces on a real topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.placement_common import Churn, topology
from bench.row import row
from weft.app.placefiles import read_orders, read_topology
from weft.planning.place.choose import Policy, Weights
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.place.state import NodeNeeds
from weft.planning.queue.queue import QueueSettings, least_leaves
from weft.planning.queue.simulate import TraceResult, simulate
from weft.planning.queue.trace import TraceOrder, at_load, nearest_level

DATA = Path(__file__).parent / "data"
LOAD = 0.95
ORDERS = 2500
SEEDS = (1, 2, 3, 4)
PASSES = 10
SETTINGS = (("throughput", 0.5, 1.02, 1.12), ("locality", 4.0, 1.08, 1.045))
"""(name, weight of a pod, goal of leaves, goal of pods)."""


def over_and_over(orders: list[TraceOrder], times: int) -> list[TraceOrder]:
    """The trace repeated this many times: a short one consists only of start-up and drain."""
    span = max(o.submitted for o in orders)
    period = span + span / max(len(orders) - 1, 1)
    return [
        replace(o, ask=replace(o.ask, pod=f"{o.ask.pod}-{k}"), submitted=o.submitted + k * period)
        for k in range(times)
        for o in orders
    ]


def churn(weights: Weights, policy: Policy | None, seed: int) -> tuple[float, float]:
    """(leaves over the least possible, pods an order) on 800 nodes kept 92 % full; refusals end the oldest order."""
    engine = Engine(topology(800, 20, 8), weights=weights, policy=policy)
    orders = Churn(engine, seed, constraints=False)
    leaves = least = pods = counted = 0
    while counted < ORDERS:
        ask = orders.next()
        decision = engine.place(ask)
        if decision is None:
            orders.end(0)
            continue
        orders.began(ask)
        if orders.used > 0.8 * 800:
            counted += 1
            leaves += len(decision.bits)
            least += least_leaves([20] * 40, ask.count)
            pods += decision.blocks
    return leaves / least, pods / counted


def quality_rows() -> list[dict[str, Any]]:
    """Rows with the mean of some seeds; the least possible number of leaves is that on an empty site."""

    def mean(weights: Weights, policy: Policy | None = None) -> tuple[float, float]:
        runs = [churn(weights, policy, seed) for seed in SEEDS]
        return sum(r[0] for r in runs) / len(runs), sum(r[1] for r in runs) / len(runs)

    kueue = mean(Weights(), POLICIES["best-fit"])
    first = mean(Weights(), POLICIES["first-fit"])
    peers = [f"Kueue's rule {kueue[i]:.3f}, first fit {first[i]:.3f}" for i in (0, 1)]
    found: list[dict[str, Any]] = []
    for name, weight, leaf_goal, pod_goal in SETTINGS:
        leaves, pods = mean(Weights(weight))
        setting = f"churn at 92 %, {name} setting (β = {weight:g})"
        found += [
            row(f"placement: leaves ÷ least, {setting}", leaves, "", f"≤ {leaf_goal}", leaves <= leaf_goal, peers[0]),
            row(f"placement: pods an order, {setting}", pods, "", f"≤ {pod_goal}", pods <= pod_goal, peers[1]),
        ]  # fmt: skip
    return found


def trace_rows() -> list[dict[str, Any]]:
    """ITP's cluster 01 on the Lingjun topology, one GPU per node, orders inside the nearest level that can hold them.

    At load 0.95 on 847 nodes the trace lasts 1.2 days, and its longest order 1.7: played once, the figures are those of
    filling and draining a site. So it is played once, for the record, and `PASSES` times, against the goals.
    """
    once = _outcomes(1, tuple(POLICIES), loose=True)
    found = _trace_rows(once, "played once", goals=False)
    return found + _trace_rows(
        _outcomes(PASSES, ("best-fit", "weft")), f"played {PASSES} times over", goals=True
    )


def _outcomes(passes: int, rules: Sequence[str], loose: bool = False) -> dict[str, TraceResult]:
    """Rule -> result; `no levels` is the upper limit of the trace, with no order confined to a level."""
    topology = read_topology(DATA / "lingjun" / "topo.csv", "ip,ASW,PSW")
    orders = over_and_over(read_orders(DATA / "itp" / "cluster01.csv", NodeNeeds()), passes)
    anywhere = at_load(topology, orders, LOAD)
    held = nearest_level(topology, anywhere)
    warm_up = 0.2 * max(o.submitted for o in held)
    queue = QueueSettings(bookings=4)
    found = {rule: simulate(topology, held, rule, queue, Weights(), warm_up) for rule in rules}
    if loose:
        found["no levels"] = simulate(topology, anywhere, "weft", queue, Weights(), warm_up)
    return found


def _trace_rows(outcomes: dict[str, TraceResult], how: str, goals: bool) -> list[dict[str, Any]]:
    weft = outcomes["weft"]
    names = {"best-fit": "Kueue's rule", "first-fit": "first fit", "no levels": "no levels"}
    others = [(name, outcomes[rule]) for rule, name in names.items() if rule in outcomes]
    use = ", ".join(f"{name} {o.utilisation:.3f}" for name, o in others)
    wait = ", ".join(f"{name} {o.wait_mean / 3600:.2f}" for name, o in others)
    leaves = ", ".join(f"{name} {o.leaves:.3f}" for name, o in others if name != "no levels")
    hours = weft.wait_mean / 3600
    what = f"ITP cluster 01 on Lingjun, nearest level required, load {LOAD}, {how}"
    use_goal, wait_goal = ("≥ 0.945", "≤ 15") if goals else ("", "")
    return [
        row(f"placement: utilisation, {what}", weft.utilisation, "", use_goal,
            weft.utilisation >= 0.945 if goals else None, use),
        row(f"placement: mean wait, {what}", hours, "h", wait_goal, hours <= 15 if goals else None, wait),
        row(f"placement: leaves ÷ least, {what}", weft.leaves, "", "", None, leaves),
    ]  # fmt: skip
