"""The earliest start of an order: what is passed over unlooked at could not have fitted."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.order import Level
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.timeline import Start, Timeline
from weft.planning.topology import Stand, Topology

LEVELS: tuple[Level, ...] = ("leaf", "pod", "site")


def site() -> Topology:
    """Two pods of three leaves with four nodes each."""
    return Topology.from_stands(
        "ib0",
        (
            Stand(f"n{p}-{x}-{i}", f"l{p}-{x}", f"p{p}", None, ("leaf",))
            for p in range(2)
            for x in range(3)
            for i in range(4)
        ),
    )


pods = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(1, 12),
            "start": st.integers(0, 60),
            "length": st.integers(5, 40),
            "project": st.sampled_from(["a", "b"]),
            "exclusive": st.sampled_from([False, False, False, True]),
        }
    ),
    min_size=3,
    max_size=20,
)
asks = st.builds(
    lambda slices, size, spare, required, project, exclusive: Ask(
        "x", slices * size, project, required=required, slice=size, spare=spare * size, exclusive=exclusive
    ),
    st.sampled_from([2, 5, 8, 11]),
    st.sampled_from([1, 1, 2]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from(["site", *LEVELS]),
    st.sampled_from(["a", "b", ""]),
    st.sampled_from([False, False, True]),
)


@given(pods, asks, st.integers(10, 60), st.integers(60, 200), st.integers(0, 10))
@settings(max_examples=300, deadline=None)
def test_the_earliest_start_is_the_first_of_all_ends(
    others: list[dict[str, Any]], ask: Ask, duration: int, until: int, begin: int
) -> None:
    """Leases, promises, blocks, pods that keep others off their leaves: as looking at every end finds it."""
    line = Timeline(Engine(site()))
    ends = {float(begin)}
    for n, one in enumerate(others):
        start, end = float(one["start"]), float(one["start"] + one["length"])
        other = Ask(f"o{n}", one["count"], one["project"], exclusive=one["exclusive"])
        if start < 10:
            done = line.start(other, 0.0, end)
        elif one["length"] % 5 == 0:
            line.set_aside("b", [f"n1-{n % 3}-{i}" for i in range(one["count"] % 4)], start, end)
            done = True
        else:
            done = line.reserve(other, start, end)
        ends |= {end} if done else set()
    now = 0.0
    found = line.earliest(ask, float(duration), float(begin), float(until), now)
    first: Start | None = None
    for moment in sorted(e for e in ends if begin <= e < until):
        decide = line.decide if moment <= now else line.at
        decision = decide(ask, moment, min(moment + duration, float(until)))
        if decision is not None:
            first = Start(moment, decision)
            break
    assert (found and found.at) == (first and first.at)
    assert (found and found.decision.bits) == (first and first.decision.bits)
