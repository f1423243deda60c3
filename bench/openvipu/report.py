"""The rows of the table, with their goals."""

from __future__ import annotations

from typing import Any

from bench.openvipu import measure
from bench.row import row

ROUNDS = {1: 60, 4: 60, 64: 60, 256: 20}
GOALS = {64: 50.0}
"""Goal of the median create in milliseconds, by size in IPUs."""

MEMORY_GOAL_KIB = 4096
"""Growth that counts as none: allocators keep some pages."""


def rows() -> list[dict[str, Any]]:
    """name, value, unit, goal, met and compared_with of every figure."""
    found: list[dict[str, Any]] = []
    with measure.rig() as rig:
        for size, rounds in ROUNDS.items():
            before = measure.cpu_seconds(rig.controller)
            creates, removes = measure.create_remove(rig, size, rounds)
            busy = 1000 * (measure.cpu_seconds(rig.controller) - before) / rounds
            found += _latencies("create", size, creates, GOALS.get(size))
            found += _latencies("remove", size, removes, None)
            name = f"controller's processor time for create and remove, {size} IPUs"
            found.append(_row(name, round(busy, 1), "ms", None))
        memory, state = measure.growth(rig)
        cycles = f"{measure.CYCLES} create/remove cycles"
        found.append(_row(f"memory added by {cycles}", memory, "KiB", MEMORY_GOAL_KIB))
        found.append(_row(f"state added by {cycles}", state, "bytes", 0))
        found.append(
            _row("64 idle agents, share of one processor", round(measure.idle_share(rig), 3), "", 0.1)
        )
        found.append(_row("controller start with 64 agents", round(measure.start_seconds(rig), 2), "s", None))
    return found


def _latencies(verb: str, size: int, seconds: list[float], goal: float | None) -> list[dict[str, Any]]:
    name = f"partition {verb}, {size} IPUs, 64 agents, no hardware delay"
    p50, p99 = (round(1000 * measure.percentile(seconds, share), 1) for share in (0.5, 0.99))
    return [_row(f"{name}, p50", p50, "ms", goal), _row(f"{name}, p99", p99, "ms", None)]


def _row(name: str, value: float, unit: str, goal: float | None) -> dict[str, Any]:
    said, met = ("", None) if goal is None else (f"<= {goal:g}", value <= goal)
    return row(
        name, value, unit, said, met, "nothing public: the closed controller's figures were never published"
    )
