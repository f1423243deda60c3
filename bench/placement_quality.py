"""Placement's quality: churn at 92 % full under both settings, and real traces on a real topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.placement_common import Churn, row, topology
from weft.app.placefiles import read_orders, read_topology
from weft.planning.place.choose import Policy, Weights
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.place.queue import QueueSettings, least_leaves
from weft.planning.place.simulate import Outcome, simulate
from weft.planning.place.state import Kind
from weft.planning.place.trace import at_load, nearest_level

DATA = Path(__file__).parent / "data"
LOAD = 0.95
ORDERS = 2500


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
            pods += decision.pods
    return leaves / least, pods / counted


def quality_rows() -> list[dict[str, Any]]:
    """Two seeds each; the least possible is that of an empty site."""

    def both(weights: Weights, policy: Policy | None = None) -> tuple[float, float]:
        runs = [churn(weights, policy, seed) for seed in (1, 2)]
        return sum(r[0] for r in runs) / 2, sum(r[1] for r in runs) / 2

    kueue = both(Weights(), POLICIES["best-fit"])
    first = both(Weights(), POLICIES["first-fit"])
    peers = [f"Kueue's rule {kueue[i]:.3f}, first fit {first[i]:.3f}" for i in (0, 1)]
    found: list[dict[str, Any]] = []
    for name, weight, leaf_goal, pod_goal in (
        ("throughput", 0.5, 1.02, 1.12),
        ("locality", 2.0, 1.08, 1.045),
    ):
        leaves, pods = both(Weights(weight))
        setting = f"churn at 92 %, {name} setting (β = {weight:g})"
        found += [
            row(
                f"placement: leaves ÷ least, {setting}",
                leaves,
                "",
                f"≤ {leaf_goal}",
                leaves <= leaf_goal,
                peers[0],
            ),
            row(
                f"placement: pods an order, {setting}", pods, "", f"≤ {pod_goal}", pods <= pod_goal, peers[1]
            ),
        ]
    return found


def trace_rows() -> list[dict[str, Any]]:
    """ITP's cluster 01 on the Lingjun topology, one GPU a node, orders inside the nearest level that can hold them."""
    topology = read_topology(DATA / "lingjun" / "topo.csv", "ip,ASW,PSW")
    found: list[dict[str, Any]] = []
    for cluster in ("01",):
        orders = read_orders(DATA / "itp" / f"cluster{cluster}.csv", Kind())
        anywhere = at_load(topology, orders, LOAD)
        orders = nearest_level(topology, anywhere)
        warm_up = 0.2 * orders[-1].submitted
        outcomes: dict[str, Outcome] = {
            rule: simulate(topology, orders, rule, QueueSettings(promises=4), Weights(), warm_up)
            for rule in POLICIES
        }
        # What the trace allows at all: no order is held to a level.
        loose = simulate(topology, anywhere, "weft", QueueSettings(promises=4), Weights(), warm_up)
        weft, kueue, first = outcomes["weft"], outcomes["best-fit"], outcomes["first-fit"]
        what = f"ITP cluster {cluster} on Lingjun, nearest level required, load {LOAD}"
        others = (("Kueue's rule", kueue), ("first fit", first), ("no levels", loose))
        use = ", ".join(f"{name} {o.utilisation:.3f}" for name, o in others)
        wait = ", ".join(f"{name} {o.wait_mean / 3600:.2f}" for name, o in others)
        leaves = ", ".join(f"{name} {o.leaves:.3f}" for name, o in others[:2])
        hours = weft.wait_mean / 3600
        found += [
            row(
                f"placement: utilisation, {what}",
                weft.utilisation,
                "",
                "≥ 0.945",
                weft.utilisation >= 0.945,
                use,
            ),
            row(f"placement: mean wait, {what}", hours, "h", "≤ 15", hours <= 15, wait),
            row(f"placement: leaves ÷ least, {what}", weft.leaves, "", "", None, leaves),
        ]
    return found
