"""The least possible, by CP-SAT (OR-tools): a second opinion that shares no code with the planner."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from weft.planning.place.exact import LEAF


def least_cost_and_leftover(
    pods: Sequence[Sequence[int]],
    need: int,
    beta: int,
    one_pod: bool = False,
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
    if one_pod:
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
