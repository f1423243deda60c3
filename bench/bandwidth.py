"""What the bandwidth gate costs beside the measurements: a plan, and a certificate with planted faults."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

from bench.row import row
from weft.model.bandwidth import BandwidthDocument, PlannedAdapter, PlannedNode
from weft.planning.bandwidth.certify import certify
from weft.planning.bandwidth.expected import Planned

SIZES, GOAL = (64, 128), 0.01
"""Numbers of nodes; goal as a share of the least time that measuring takes."""
RAILS, GBPS, ROUNDS, SECONDS = 8, 400, 5, 2
BAD, SLOW = ("n005", 3), "n011"
"""An adapter and a node that are slow."""


def rows() -> list[dict[str, Any]]:
    return [one for nodes in SIZES for one in _certified(nodes)]


def _certified(number: int) -> list[dict[str, Any]]:
    names = [f"n{i:03}" for i in range(number)]
    planned = Planned(
        tuple(
            PlannedNode(
                name=name,
                leaf=f"leaf{place // 16}",
                adapters=tuple(
                    PlannedAdapter(rail=rail, guid=f"0x{place * RAILS + rail + 1:016x}", gbps=GBPS)
                    for rail in range(RAILS)
                ),
            )
            for place, name in enumerate(names)
        ),
        {(name, rail): f"leaf{place // 16}" for place, name in enumerate(names) for rail in range(RAILS)},
        {(name, rail): f"mlx5_{rail}" for name in names for rail in range(RAILS)},
    )
    now = datetime(2027, 1, 1, tzinfo=UTC)
    document = BandwidthDocument.model_validate(
        {
            **{"version": 1, "program": "bench", "measured_by": "ib_write_bw", "plan": "sha256:" + "0" * 64},
            **{"began": now, "ended": now + timedelta(minutes=9), "seconds": SECONDS, "size": 1 << 20},
            **{"memory": "host", "rails_together": True, "nodes": names},
            "pairs": [
                [a, b, rail, _rate(names[a], names[b], rail), 1]
                for a, b in permutations(range(number), 2)
                for rail in range(RAILS)
            ],
        }
    )
    said = {"id": "x", "site": "s", "site_generation": 1, "reported_at": now, "reported_by": "bench"}
    took: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = certify(document, planned, {**said, "measured_in": "nodes, by operators"})
        took.append((time.perf_counter() - began) * 1000)
        causes = {(cause.kind, cause.name, cause.rail) for cause in found.causes}
        if causes != {("adapter", *BAD), ("node", SLOW, None)}:
            raise RuntimeError(f"the named causes aren't the planted faults: {causes}")
    value, measuring = statistics.median(took), 2 * (number - 1) * SECONDS
    what = (
        f"certificate of {number} nodes with {RAILS} rails ({len(document.pairs):,} pairs), two faults named"
    )
    share = value / 1000 / measuring
    return [
        row(what, value, "ms", compared_with=f"measuring: {measuring} s and more"),
        row(f"{what}, share of measuring", share, "", f"≤ {GOAL}", share <= GOAL),
    ]


def _rate(sender: str, receiver: str, rail: int) -> float:
    if SLOW in (sender, receiver):
        return 0.7 * GBPS
    return GBPS * (0.5 if BAD in ((sender, rail), (receiver, rail)) else 0.98)
