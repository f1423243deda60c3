"""The earliest start of an order: the moments that the search skips could not have fitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from weft.model.localityorder import Level
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Entry
from weft.planning.place.engine import Engine
from weft.planning.queue.forecast import expected_starts
from weft.planning.queue.queue import Queue, QueueSettings
from weft.planning.queue.timeline import Start, Timeline
from weft.planning.queue.waiting import Waiting

LEVELS: tuple[Level, ...] = ("leaf", "block", "site")


def site() -> Topology:
    """Two pods of three leaves with four nodes each."""
    return Topology.from_locations(
        "ib0",
        (
            NodeLocation(f"n{p}-{x}-{i}", f"l{p}-{x}", f"p{p}", None, ("leaf",))
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
@settings(max_examples=examples(100))
def test_earliest_start_is_the_first_sufficient_end(
    others: list[dict[str, Any]], ask: Ask, duration: int, until: int, begin: int
) -> None:
    """Leases, bookings, blocks, exclusive pods: equal to a search over every end."""
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


def test_every_order_in_a_long_queue_has_expected_start() -> None:
    """150 orders behind one that has the whole site: each starts a minute after its predecessor, none in parallel."""
    line = Timeline(Engine(site()))
    assert line.start(Ask("all", 24), 0.0, 100.0)
    queue = Queue(line, QueueSettings(bookings=0))
    for n in range(150):
        queue.submit(Waiting(Ask(f"w{n}", 13), 60.0, float(n)))
    assert queue.run(0.0) == []
    assert expected_starts(queue, 0.0) == {f"w{n}": 100.0 + 60.0 * n for n in range(150)}
    assert len(line.reservations) == 0


waits = st.lists(
    st.builds(
        lambda count, required, duration, until, not_before: Waiting(
            Ask("x", count, required=required), duration, 0.0, until, not_before
        ),
        st.integers(1, 24),
        st.sampled_from(["site", *LEVELS]),
        st.sampled_from([10.0, 20.0, 40.0]),
        st.sampled_from([FOREVER, FOREVER, 30.0, 90.0]),
        st.sampled_from([0.0, 0.0, 0.0, 50.0]),
    ),
    max_size=12,
)


@given(pods, waits)
@settings(max_examples=examples(60))
def test_expected_starts_match_a_search_from_now(
    others: list[dict[str, Any]], waiting: list[Waiting]
) -> None:
    """A start that was found is a lower bound for similar orders only, which changes no result."""
    line = Timeline(Engine(site()))
    for n, one in enumerate(others):
        line.start(Ask(f"o{n}", one["count"]), 0.0, float(one["start"] + one["length"]))
    queue = Queue(line, QueueSettings(bookings=0))
    named = [replace(w, ask=replace(w.ask, pod=f"w{n}")) for n, w in enumerate(waiting)]
    for one in named:
        queue.submit(one)
    found = expected_starts(queue, 0.0)
    for one in named:
        start = line.earliest(one.ask, one.duration, max(0.0, one.not_before), one.until, 0.0)
        assert found.get(one.ask.pod) == (start and start.at)
        if start:
            line.reservations.add(Entry(start.at, one.ask.pod, one.end(start.at), start.decision.bits))


def test_order_whose_lease_ends_too_early_is_skipped() -> None:
    """An order whose lease would end before it starts has no start, and doesn't delay later orders."""
    queue = Queue(Timeline(Engine(site())))
    queue.submit(Waiting(Ask("late", 4), FOREVER, 0.0, until=50.0))
    queue.submit(Waiting(Ask("next", 4), 60.0, 1.0))
    assert [s.waiting.ask.pod for s in queue.run(50.0)] == ["next"]
    assert queue.why["late"] == "its lease has ended" and expected_starts(queue, 50.0) == {}
    assert queue.timeline.earliest(Ask("x", 4), 10.0, 50.0, 50.0) is None
