"""Leases over time: windows, bookings, backfill, quotas, shares, and the simulated clock."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from weft.model.errors import ConflictError, InputError
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Calendar, Entry
from weft.planning.place.engine import Engine
from weft.planning.place.policies import POLICIES
from weft.planning.queue.queue import Queue, QueueSettings
from weft.planning.queue.simulate import TraceOrder, simulate
from weft.planning.queue.timeline import Timeline
from weft.planning.queue.trace import at_load, nearest_level
from weft.planning.queue.waiting import Waiting

HOUR = 3600.0


def topology(pods: list[list[int]]) -> Topology:
    return Topology.from_locations(
        "ib0",
        (
            NodeLocation(f"n{p}-{x}-{i}", f"l{p}-{x}", f"p{p}", None, ("leaf",))
            for p, leaves in enumerate(pods)
            for x, size in enumerate(leaves)
            for i in range(size)
        ),
    )


def timeline(pods: list[list[int]]) -> Timeline:
    return Timeline(Engine(topology(pods)))


entries = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 40), st.integers(0, 3), st.integers(1, 255)), max_size=200
)


@given(entries, st.integers(0, 60), st.integers(1, 40), st.data())
@settings(max_examples=examples(120))
def test_window_is_the_union_of_overlapping_entries(
    rows: list[tuple[int, int, int, int]], start: int, length: int, data: st.DataObject
) -> None:
    """The calendar equals a plain loop over all entries, also after some were removed."""
    calendar = Calendar([255] * 4)
    kept: dict[str, Entry] = {}
    for i, (begin, long, leaf, bits) in enumerate(rows):
        entry = Entry(begin, f"r{i}", begin + long, ((leaf, bits),))
        calendar.add(entry)
        kept[entry.pod] = entry
    for pod in data.draw(st.sets(st.sampled_from(sorted(kept)))) if kept else ():
        calendar.remove(pod)
        del kept[pod]
    plain = [0, 0, 0, 0]
    for entry in kept.values():
        if entry.start < start + length and entry.end > start:
            for leaf, bits in entry.bits:
                plain[leaf] |= bits
    assert [int(w[0]) for w in calendar.taken(start, start + length)] == plain
    by_leaf = calendar.taken_bits(start, start + length)
    assert [by_leaf.get(leaf, 0) for leaf in range(4)] == plain
    assert len(calendar) == len(kept)


def test_leaves_wider_than_a_machine_word_are_counted_fully() -> None:
    """A modular switch with 100 nodes is one leaf."""
    line = timeline([[100, 3]])
    assert line.reserve(Ask("r", 70), 10, 20)
    assert line.at(Ask("a", 31, required="leaf"), 10, 20) is None
    found = line.at(Ask("b", 30, required="leaf"), 10, 20)
    assert found is not None
    assert len(found.nodes) == 30


def test_reservation_excludes_overlapping_orders() -> None:
    """An order that ends before it may have the nodes; others may not."""
    line = timeline([[4]])
    assert line.reserve(Ask("later", 3), 100, 200)
    assert line.decide(Ask("short", 4), 0, 100) is not None
    assert line.decide(Ask("long", 4), 0, 101) is None
    assert line.decide(Ask("one", 1), 0, 1000) is not None
    line.cancel("later")
    assert line.decide(Ask("long", 4), 0, 101) is not None


def test_many_reservations_decide_like_few() -> None:
    """Counting by leaf (many) and checking one by one (few) agree."""
    rng = random.Random(4)
    line = timeline([[6, 6, 6], [6, 6]])
    for number in range(60):
        start = rng.uniform(1, 500)
        line.reserve(Ask(f"r{number}", rng.randint(1, 6)), start, start + rng.uniform(10, 60))
    for number in range(60):
        ask = Ask(f"t{number}", rng.randint(1, 20), required=rng.choice(["leaf", "block", "site"]))
        end = rng.uniform(5, 400)
        many = line.decide(ask, 0, end)
        few = line.engine.decide(ask, line.reservations.taken_bits(0, end))
        assert (many is None) == (few is None)
        if many and few:
            assert (many.cost, many.leftover) == (few.cost, few.leftover)


def test_reservation_becomes_a_lease_and_ends() -> None:
    """begin takes exactly the promised nodes; end frees them."""
    line = timeline([[4]])
    promised = line.reserve(Ask("a", 2), 10, 20)
    assert promised is not None
    line.begin("a")
    assert sum(b.bit_count() for b in line.engine.ledger.held["a"].values()) == 2
    with pytest.raises(ConflictError, match="no reservation"):
        line.begin("a")
    line.end("a")
    assert line.engine.ledger.available == line.engine.ledger.numbers.every


def test_reservation_with_broken_node_does_not_begin() -> None:
    """The error names the node."""
    line = timeline([[1]])
    assert line.reserve(Ask("a", 1), 10, 20)
    line.engine.ledger.disable("n0-0-0", "maintenance", "DIMM")
    with pytest.raises(ConflictError, match="n0-0-0 not free"):
        line.begin("a")


def test_set_aside_block_serves_only_its_project() -> None:
    """For others the nodes are taken in that window, and available before it."""
    line = timeline([[4]])
    line.set_aside("p1", ["n0-0-0", "n0-0-1"], 50, 100)
    assert line.decide(Ask("a", 4, "p1"), 0, 80) is not None
    assert line.decide(Ask("b", 3, "p2"), 0, 80) is None
    assert line.decide(Ask("c", 4, "p2"), 0, 50) is not None


def test_earliest_start_is_when_enough_leases_end() -> None:
    """On nodes that are free for the whole duration."""
    line = timeline([[4]])
    assert line.start(Ask("a", 2), 0, 100)
    assert line.start(Ask("b", 1), 0, 200)
    assert line.reserve(Ask("r", 2), 250, 300)
    assert line.earliest(Ask("x", 1), 50, 0).at == 0  # type: ignore[union-attr]
    assert line.earliest(Ask("x", 3), 50, 0).at == 100  # type: ignore[union-attr]
    assert line.earliest(Ask("x", 4), 50, 0).at == 200  # type: ignore[union-attr]
    assert line.earliest(Ask("x", 4), 51, 0).at == 300  # type: ignore[union-attr]
    assert line.earliest(Ask("x", 5), 1, 0) is None
    assert line.start(Ask("c", 1), 0, FOREVER)
    assert line.earliest(Ask("x", 4), 50, 0) is None


def test_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InputError, match="end: 5 is not allowed: later than the start"):
        timeline([[1]]).at(Ask("a", 1), 10, 5)


def queue(pods: list[list[int]], **fields: object) -> Queue:
    return Queue(timeline(pods), QueueSettings(**fields))  # type: ignore[arg-type]


def names(started: list[object]) -> list[str]:
    return [s.waiting.ask.pod for s in started]  # type: ignore[attr-defined]


def test_backfill_never_delays_a_booking() -> None:
    """The first order is booked at the end of the running one; a short order starts before it, a long one waits."""
    line = queue([[4]])
    line.submit(Waiting(Ask("run", 3), 100, 0))
    assert names(line.run(0)) == ["run"]
    line.submit(Waiting(Ask("head", 4), 50, 1))
    line.submit(Waiting(Ask("long", 1), 200, 2))
    line.submit(Waiting(Ask("short", 1), 90, 3))
    assert names(line.run(5)) == ["short"]
    assert line.bookings == {"head": 100}
    line.finish("short", 95)
    line.finish("run", 100)
    assert names(line.run(100)) == ["head"]


def test_early_end_moves_a_booking_earlier() -> None:
    line = queue([[4]])
    line.submit(Waiting(Ask("run", 3), 100, 0))
    line.run(0)
    line.submit(Waiting(Ask("head", 4), 50, 1))
    line.run(1)
    line.finish("run", 30)
    assert names(line.run(30)) == ["head"]


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 30), st.integers(0, 3)), min_size=5, max_size=40))
@settings(max_examples=examples(40))
def test_bookings_are_always_kept(rows: list[tuple[int, int, int]]) -> None:
    """Whatever arrives later, each promised order starts at its booking or before."""
    line = queue([[3, 3], [2]], bookings=2)
    moment: float | None
    now, ends, bookings = 0.0, list[tuple[float, str]](), dict[str, float]()
    for i, (count, duration, gap) in enumerate(rows):
        line.submit(Waiting(Ask(f"o{i}", count), duration, now))
        moment, now = now, now + gap
        while moment is not None:
            for end in [e for e in ends if e[0] <= moment]:
                ends.remove(end)
                line.finish(end[1], moment)
            for started in line.run(moment):
                pod = started.waiting.ask.pod
                assert moment <= bookings.pop(pod, FOREVER)
                ends.append((moment + started.waiting.duration, pod))
            for pod, at in line.bookings.items():
                assert at <= bookings.get(pod, FOREVER)
                bookings[pod] = at
            # what just began may end, and what was just promised may be due, before the next order
            due = {now, *(t for t, _ in ends), *bookings.values()}
            moment = min((t for t in due if moment < t <= now), default=None)


def test_order_waits_for_fewer_leaves_up_to_patience() -> None:
    """Until its patience ends it waits for them, then it accepts any placement."""
    line = queue([[4, 4]], patience=60.0)
    line.timeline.engine.ledger.hold("a", ["n0-0-0", "n0-0-1"])
    line.timeline.engine.ledger.hold("b", ["n0-1-0", "n0-1-1"])
    line.submit(Waiting(Ask("wide", 3), 10, 0))
    line.submit(Waiting(Ask("narrow", 1), 10, 0))
    assert names(line.run(1)) == ["narrow"]
    assert line.why["wide"] == "waiting for fewer leaves"
    assert names(line.run(60)) == ["wide"]


def test_project_over_its_quota_waits_and_others_go_first() -> None:
    """The reason has the number of nodes in use and the quota."""
    line = queue([[8]], quotas={"p1": 4})
    for pod, project, count in (("a", "p1", 4), ("b", "p1", 1), ("c", "p2", 4)):
        line.submit(Waiting(Ask(pod, count, project), 10, 0))
    assert names(line.run(0)) == ["a", "c"]
    assert line.why["b"] == "project p1 has 4 of 4 nodes"
    line.finish("a", 10)
    assert names(line.run(10)) == ["b"]


def test_project_with_least_use_of_its_share_goes_first() -> None:
    """Arrival decides only among equals."""
    line = queue([[2]], shares={"p1": 1.0, "p2": 1.0})
    line.submit(Waiting(Ask("a", 2, "p1"), 100, 0))
    line.run(0)
    line.submit(Waiting(Ask("b", 2, "p1"), 10, 1))
    line.submit(Waiting(Ask("c", 2, "p2"), 10, 2))
    line.finish("a", 100)
    assert names(line.run(100)) == ["c"]


def trace() -> list[TraceOrder]:
    rng = random.Random(9)
    return [
        TraceOrder(Ask(f"o{i}", rng.choice([1, 1, 2, 4, 8, 12])), i * 60.0, rng.uniform(600, 7200))
        for i in range(150)
    ]


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_plays_a_trace_to_its_end(policy: str) -> None:
    """Every order starts once, nothing is oversubscribed, and the same trace gives the same figures."""
    orders = at_load(topology([[8, 8], [8]]), trace(), 0.8)
    one = simulate(topology([[8, 8], [8]]), orders, policy)
    assert one == simulate(topology([[8, 8], [8]]), orders, policy)
    assert len(one.waits) == len(orders)
    assert 0.3 < one.utilisation <= 1
    assert one.leaves >= 1


def test_oversized_orders_are_refused_and_others_continue() -> None:
    """They don't block the queue."""
    orders = [TraceOrder(Ask("big", 99), 0, 10), TraceOrder(Ask("small", 1), 1, 10)]
    outcome = simulate(topology([[4]]), orders)
    assert (outcome.refused, len(outcome.waits)) == (1, 1)


def test_trace_requires_the_nearest_sufficient_level() -> None:
    """A leaf if one is large enough, else a block, else the site."""
    orders = [TraceOrder(Ask(f"o{n}", n), 0, 1) for n in (4, 5, 9)]
    assert [o.ask.required for o in nearest_level(topology([[4, 4], [4]]), orders)] == [
        "leaf",
        "block",
        "site",
    ]
