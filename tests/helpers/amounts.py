"""How much a run tries: the same small sample each time in `make test`, many more and new ones each night."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")
MORE = float(os.environ.get("WEFT_TESTS_MORE", "0.25"))
"""How many times what a test names is tried: a quarter of it in `make test`, many times as much each night."""
SEED = int(os.environ.get("WEFT_TESTS_SEED", "0"))
"""Other random states with another seed; `make nightly` takes the day's."""


def examples(number: int) -> int:
    """How many examples or random states are tried of a test that names so many; at least one."""
    return max(1, round(number * MORE))


def share(values: Sequence[T], number: int) -> Sequence[T]:
    """Those of many values that a test's case of this number tries: a part of them in `make test`, other ones with the
    next number, so that each value is tried by some case; all of them each night.
    """
    every = max(1, round(1 / MORE))
    return values[number % every :: every]


def seeded(number: int) -> random.Random:
    """A test's own random numbers."""
    return random.Random(number + 1_000_003 * SEED)


def load_profile() -> None:
    """Hypothesis as it is to search.

    A sample is the same in each run, so that a failure is the change's, not chance's; searching is the night's. Nothing
    depends on how fast the machine is at the time.
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
