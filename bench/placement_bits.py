"""Integers as bitsets against numpy, for the steps that visit every leaf or many reservations.

Each step is done both ways on the same state with the same result; `docs/decisions/bitsets-or-numpy.md` says what the
engine does and why.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.placement_common import Churn, micro, topology
from bench.row import row
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import Calendar, Entry
from weft.planning.place.engine import Engine
from weft.planning.place.solver import one_leaf

SIZES = ((800, 20, 8), (10_000, 20, 20), (100_000, 32, 32))
"""(nodes, nodes a leaf, leaves a pod)."""
RESERVATIONS = 1000
REPEATS = 200


def bits_rows() -> list[dict[str, Any]]:
    """Both ways of every step, at every size; the value is the integers' time."""
    found: list[dict[str, Any]] = []
    for nodes, per_leaf, per_pod in SIZES:
        engine = Engine(topology(nodes, per_leaf, per_pod))
        churn = Churn(engine, 4, constraints=False)
        while churn.used < 0.9 * nodes:
            ask = churn.next()
            if engine.place(ask):
                churn.began(ask)
        for what, by_integers, by_numpy in _steps(engine):
            if (one := by_integers()) != (other := _plain(by_numpy())):
                raise AssertionError(f"{what}: {one} by integers, {other} by numpy")
            name = f"placement: {what}, {nodes:,} nodes, by integers"
            found.append(row(name, _least(by_integers), "µs", "", None, f"numpy {_least(by_numpy):.3g} µs"))
    return found


def _steps(engine: Engine) -> list[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """(what, by integers, by numpy), with equal results."""
    view, available = engine.ledger.view(Ask("x", 1)), engine.ledger.available
    calendar = Calendar(engine.ledger.numbers.every)
    free, mask = calendar.words(dict(enumerate(available))), calendar.words(dict(enumerate(view.mask)))
    units = np.bitwise_count(free & mask)[:, 0]
    some = random.Random(6).sample([leaf for leaf, bits in enumerate(available) if bits], 8)
    few = {leaf: available[leaf] & -available[leaf] for leaf in some}
    hidden = calendar.words(few)

    def rooms() -> list[int]:
        return [(a & m).bit_count() for a, m in zip(available, view.mask, strict=True)]

    def rooms_of_words() -> Any:
        return np.bitwise_count(free & mask)[:, 0]

    def rooms_less_few() -> list[int]:
        rooms = {leaf: (available[leaf] & view.mask[leaf] & ~bits).bit_count() for leaf, bits in few.items()}
        return view.pool.with_rooms(rooms).free

    def rooms_of_words_less_few() -> Any:
        return np.bitwise_count(free & mask & ~hidden)[:, 0]

    def tightest() -> int:
        leaf = one_leaf(view.pool, 2)
        return -1 if leaf is None else view.pool.free[leaf]

    def tightest_of_words() -> int:
        fits = np.flatnonzero(units >= 2)
        return int(units[fits].min()) if len(fits) else -1

    _reserve(engine, calendar)
    return [
        ("room of every leaf under a mask", rooms, rooms_of_words),
        ("room less 8 nodes, as a pool", rooms_less_few, rooms_of_words_less_few),
        ("the tightest leaf for 2", tightest, tightest_of_words),
        (
            f"what {RESERVATIONS:,} reservations take of a window",
            lambda: calendar.taken_bits(1000, 6000),
            lambda: calendar.taken(1000, 6000),
        ),
    ]


def _reserve(engine: Engine, calendar: Calendar) -> None:
    """Reservations of 4 to 32 nodes of a leaf each, at any time."""
    rng = random.Random(7)
    for number in range(RESERVATIONS):
        leaf, start = rng.randrange(len(engine.ledger.available)), rng.uniform(0, 5000)
        bits = engine.ledger.numbers.every[leaf] >> rng.choice([0, 4, 8, 12])
        calendar.add(Entry(start, f"r{number}", start + rng.uniform(1000, 9000), ((leaf, bits),)))


def _plain(found: Any) -> Any:
    """numpy's result in the integers' form: rooms by leaf, or leaf -> bits."""
    if isinstance(found, np.ndarray):
        return (
            found.tolist()
            if found.ndim == 1
            else {i: int(bits) for i, bits in enumerate(found[:, 0]) if bits}
        )
    return found


def _least(step: Callable[[], Any]) -> float:
    """µs, the least of many runs, so that the machine's load affects both ways alike."""
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.thread_time()
        step()
        times.append(time.thread_time() - start)
    return max(micro(times, 0), 0.05)
