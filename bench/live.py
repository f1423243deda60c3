"""Visits to 10,000 READY pods, and the memory of the worker that makes them; not in `bench.loop`, since so many
pods take minutes to become READY. LIVE in the environment sets their number."""

from __future__ import annotations

from typing import Any

from bench.loop import LIVE, looking
from bench.threads import apart


def rows() -> list[dict[str, Any]]:
    return apart(looking, LIVE)
