"""The least possible cost, by CP-SAT (OR-tools), which shares no code with the planner."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from weft.planning.place.solver import LEAF
from weft.planning.place.weigh import LeafOption


def least_cost_and_leftover(
    pods: Sequence[Sequence[int]],
    need: int,
    beta: int,
    one_block: bool = False,
    home_pods: frozenset[int] = frozenset(),
) -> tuple[int, int] | None:
    """(cost, leftover) of the best set of leaves for `need` nodes; None if they don't fit."""
    model = cp_model.CpModel()
    leaf = [[model.new_bool_var(f"l{p}_{i}") for i in range(len(pod))] for p, pod in enumerate(pods)]
    pod_used = [model.new_bool_var(f"p{p}") for p in range(len(pods))]
    for p, row in enumerate(leaf):
        for x in row:
            model.add_implication(x, pod_used[p])
    room = sum(free * leaf[p][i] for p, pod in enumerate(pods) for i, free in enumerate(pod))
    model.add(room >= need)
    if one_block:
        model.add(sum(pod_used) <= 1)
    paid = [used for p, used in enumerate(pod_used) if p not in home_pods]
    further = model.new_int_var(0, len(pods), "further")
    model.add(further >= sum(paid) - (0 if home_pods else 1))
    most = sum(map(sum, pods)) + 1
    cost = LEAF * sum(x for row in leaf for x in row) + beta * further
    model.minimize(most * cost + room)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    return divmod(round(solver.objective_value), most)[0], round(solver.objective_value) % most - need


def least_weighed(parts: Sequence[LeafOption], need: int, weights: Sequence[int]) -> tuple[int, int] | None:
    """(cost, leftover) of the best units of these leaves, with their domains' weights; None if they don't fit."""
    model = cp_model.CpModel()
    total = need + sum(p.stays for p in parts)
    home = any(p.stays for p in parts)
    most = sum(p.free for p in parts) + 1
    cost: list[cp_model.LinearExprT] = []
    left: list[cp_model.LinearExprT] = []
    units: list[cp_model.IntVar] = []
    used_in: dict[tuple[int, ...], list[cp_model.IntVar]] = {}
    for number, p in enumerate(parts):
        allowed = [
            t
            for t in range(p.free + 1)
            if not t or p.limit is None or min(t + p.stays, total - t - p.stays) <= p.limit
        ]
        t = model.new_int_var_from_domain(cp_model.Domain.from_values(allowed), f"t{number}")
        used = model.new_bool_var(f"u{number}")
        model.add(t >= 1).only_enforce_if(used)
        model.add(t == 0).only_enforce_if(~used)
        prefix = [sum(p.costs[:i]) for i in range(p.free + 1)]
        price = model.new_int_var(min(prefix), max(prefix), f"w{number}")
        model.add_element(t, prefix, price)
        cost += [price, 0 if p.stays else LEAF * used]
        left.append(p.free * used - t)
        units.append(t)
        for depth in range(len(p.path)):
            used_in.setdefault(p.path[: depth + 1], []).append(used)
    model.add(sum(units) == need)
    stays_in = {p.path[: depth + 1] for p in parts if p.stays for depth in range(len(p.path))}
    for domain, leaves in used_in.items():
        if domain not in stays_in:
            opened = model.new_bool_var(f"d{domain}")
            model.add_max_equality(opened, leaves)
            cost.append(weights[len(domain) - 1] * opened)
    value = most * sum(cost) + sum(left)
    model.minimize(value)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    assert status == cp_model.OPTIMAL
    best, leftover = divmod(round(solver.objective_value), most)
    return best - (0 if home else sum(weights)), leftover
