"""How much a run tries: a small fixed sample in `make test`, many more and random ones each night."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")
MORE = float(os.environ.get("WEFT_TESTS_MORE", "0.25"))
"""Factor for the numbers that tests name: a quarter in `make test`, many times as much each night."""
SEED = int(os.environ.get("WEFT_TESTS_SEED", "0"))
"""Seed of random states; `make nightly` uses another one each day."""


def examples(number: int) -> int:
    """How many examples or random states to try for a test that names this number; at least one."""
    return max(1, round(number * MORE))


def share(values: Sequence[T], number: int) -> Sequence[T]:
    """A part of the values, a different one for each case's `number`, so that the cases together try each value;
    each night every case gets all."""
    every = max(1, round(1 / MORE))
    return values[number % every :: every]


def seeded(number: int) -> random.Random:
    """Random numbers for one test, which depend on the number and the run's seed."""
    return random.Random(number + 1_000_003 * SEED)


def load_profile() -> None:
    """Chooses Hypothesis' profile.

    A sample is the same in each run, so that a failure comes from the change and not from chance; nights search
    with random states. No deadline depends on the machine's speed.
    """
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "sample",
        max_examples=examples(60),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=slow,
    )
    settings.register_profile(
        "search", max_examples=examples(100), deadline=None, print_blob=True, suppress_health_check=slow
    )
    settings.load_profile("sample" if MORE <= 1 else "search")
