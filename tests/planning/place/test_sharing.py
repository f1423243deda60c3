"""Leaves and uplinks over time: how a future window is decided, and what a longer lease conflicts with."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.offers import offers
from tests.planning.place.placesites import build_request, build_site, dedicate
from tests.planning.place.test_rails import railed
from tests.planning.place.test_weighed import wired
from weft.model.errors import InputError
from weft.model.placement import Neighbour, Occupancy, Placement, Refusal
from weft.model.site import Site, Switch
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import Entry
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.place.sharing import NO_TERMS, Load, Terms, crossing, peak
from weft.planning.queue.book import Book
from weft.planning.queue.extension import closed_to, why_not_longer
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import Leases
from weft.planning.queue.timeline import Timeline
from weft.planning.site.check import check_site, hints


def ask(pod: str, count: int, project: str = "p1", **terms: object) -> Ask:
    """An ask for nodes of `build_site`."""
    request = build_request(count, project=project, pod=pod, **terms)
    return Ask.of(request)


def test_sharing_rule_is_symmetric() -> None:
    """An exclusive pod excludes all other projects, `apart_from` the named ones; the own project or none never
    conflicts.
    """
    kinds = [
        Terms(p, frozenset(apart), exclusive)
        for p, apart, exclusive in product("ab", ["", "a", "b", "c"], [False, True])
    ]
    for one, other in product(kinds, kinds):
        assert one.at_odds(other) is other.at_odds(one)
        assert not one.at_odds(NO_TERMS)
        if one.project == other.project:
            assert not one.at_odds(other)
    assert Terms("a", frozenset("b")).at_odds(Terms("b")) and not Terms("a", frozenset("c")).at_odds(
        Terms("b")
    )
    assert Terms("a", exclusive=True).at_odds(Terms("b"))


def test_crossing_traffic_is_limited_by_the_smaller_side() -> None:
    """min(t, n - t) times Gb/s at each leaf; a pod on one leaf has no crossing traffic."""
    assert crossing({"l1": 4, "l2": 2, "l3": 1}, 100) == {"l1": 300, "l2": 200, "l3": 100}
    assert crossing({"l1": 7}, 100) == {} == crossing({"l1": 2, "l2": 0}, 100)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 8), st.integers(0, 8), st.dictionaries(st.sampled_from("xy"), st.integers(-5, 9))
        )
    ),
    st.integers(0, 8),
)
def test_peak_load_is_of_a_single_moment(parts: list[tuple[int, int, dict[str, int]]], start: int) -> None:
    """Equal to counting at each moment; a pod that follows another doesn't add to it."""
    loads = [Load(float(a), float(b), carried) for a, b, carried in parts]
    found = peak(loads, float(start))
    for leaf in "xy":
        sums = [
            sum(one.carried.get(leaf, 0) for one in loads if one.start <= at < one.end)
            for at in range(start, 10)
        ]
        assert found.get(leaf, 0) == max(sums)


def guaranteed(line: Timeline, pod: str, start: float, end: float) -> Entry:
    """Two nodes on each of two leaves with 150 Gb/s each: 300 Gb/s on each leaf's uplinks."""
    places = tuple(sorted(line.engine.ledger.numbers.masks(("gpu1", "gpu2", "gpu9", "gpu10")).items()))
    return Entry(start, pod, end, places, Terms("p1", gbps=150))


WIDE = ask("wide", 10, bisection_gbps=50)
"""Ten of the twelve nodes left on two leaves of eight: 200 Gb/s on each leaf's uplinks, which carry 400."""
LESS = replace(WIDE, gbps=25)


def test_lease_loads_uplinks_for_its_duration() -> None:
    """A window after its end has all of the uplinks; an overlapping one has the rest."""
    line = Timeline(Engine.of(wired([[8, 8]], 2), "ib0", Occupancy()))
    now = guaranteed(line, "now", 0, 100)
    line.engine.ledger.take("now", now.bits, now.terms)
    line.leases.add(now)
    assert line.decide(WIDE, 0, 10) is None and line.decide(LESS, 0, 10) is not None
    assert line.at(WIDE, 50, 150) is None and line.at(LESS, 50, 150) is not None
    assert line.at(WIDE, 100, 150) is not None
    found = line.earliest(WIDE, 50, 10, now=0)
    assert found is not None and found.at == 100


def test_booking_loads_uplinks_in_its_window() -> None:
    """An overlapping order has the rest, one that ends before has all; once begun it is a lease on the same terms."""
    line = Timeline(Engine.of(wired([[8, 8]], 2), "ib0", Occupancy()))
    line.reservations.add(guaranteed(line, "later", 100, 200))
    assert line.decide(WIDE, 0, 100) is not None
    assert line.decide(WIDE, 0, 101) is None and line.decide(LESS, 0, 101) is not None
    assert line.at(WIDE, 150, 300) is None and line.at(WIDE, 200, 300) is not None
    line.begin("later")
    assert line.engine.ledger.carried == {0: 300, 1: 300}
    line.end("later")
    assert set(line.engine.ledger.carried.values()) == {0}


def test_timeline_respects_future_holders_of_leaves() -> None:
    """Bookings and blocks close their leaves in their own window; a lease that ends before doesn't."""
    line = Timeline(Engine.of(build_site([[2, 2]]), "ib0", Occupancy()))
    assert line.reserve(ask("alone", 1, "p1", exclusive=True), 100, 200) is not None
    assert line.decide(ask("a", 3, "p2"), 0, 100) is not None
    assert line.decide(ask("a", 3, "p2"), 0, 101) is None
    assert line.decide(ask("a", 3, "p1"), 0, 101) is not None
    line.set_aside("p3", ["gpu3"], 300, 400)
    assert line.at(ask("b", 1, "p2", exclusive=True), 300, 310) is not None
    assert line.at(ask("b", 3, "p2", apart_from=("p3",)), 300, 310) is None
    assert line.start(ask("now", 2, "p2", required="leaf"), 0, 50) is not None
    found = line.earliest(ask("c", 4, "p4", exclusive=True), 10, 0, now=0)
    assert found is not None and found.at == 50
    assert line.hidden(Terms("p4"), 0, 100) == {}
    assert line.hidden(Terms("p4"), 0, 150) == {0: 3}  # the leaf has three nodes left, and one is booked
    assert line.hidden(Terms("p1"), 0, 150) == {0: 1}


def test_place_and_the_timeline_agree_on_a_window() -> None:
    """The book's occupancy of a window and its timeline refuse and allow the same."""
    site = wired([[2, 2], [2, 2]], 1)
    book = Book(
        Leases.of([Keep("1", "p1", ("gpu1",), 0, 100, "one", Terms("p1", exclusive=True))]),
        (Keep("2", "p2", ("gpu3", "gpu5"), 150, 250, "two", Terms("p2", frozenset({"p3"}), gbps=200)),),
        (Keep("3", "p3", ("gpu7",), 50, 160, "three"),),
    )
    for start, length, project, exclusive, count, gbps in product(
        (0, 60, 120, 200, 300), (40, 100), ("p1", "p2", "p3"), (False, True), (1, 2, 3, 4), (0, 150)
    ):
        request = build_request(count, project=project, exclusive=exclusive, bisection_gbps=gbps)
        occupancy = book.occupancy(Occupancy(), project, 0, start, start + length)
        line = book.timeline(site, "ib0", Occupancy(), 0)
        decide = line.at if start else line.decide
        found = decide(Ask.of(request), start, start + length)
        answer = place(request, site, occupancy)
        assert isinstance(answer, Placement) is (found is not None), (start, length, request)


def test_refusals_name_blockers_and_offer_changes() -> None:
    """Filter `apart` with a reason each, and the smallest change: without one project, not exclusive, a pod's end."""
    site = build_site([[2, 2]])
    alone = Neighbour(pod="a", project="p2", nodes=("gpu1",), exclusive=True)
    other = Neighbour(pod="b", project="p3", nodes=("gpu3",))
    held = Occupancy(busy={"gpu1": "a", "gpu3": "b"}, neighbours=(alone, other))
    answer = place(build_request(1, exclusive=True), site, held)
    assert isinstance(answer, Refusal)
    report = next(f for f in answer.explanation.filters if f.filter == "apart")
    assert report.examples == (
        "gpu2: leaf l0-0 is used by project p2",
        "gpu4: leaf l0-1 is used by project p3",
    )
    assert offers(answer)[0] == "locality.exclusive: false instead of true"
    answer = place(build_request(2), site, held)
    assert isinstance(answer, Refusal)
    report = next(f for f in answer.explanation.filters if f.filter == "apart")
    assert report.examples == ("gpu2: leaf l0-0 has pod a of project p2, which keeps others away",)
    assert offers(answer) == ("nodes.count: 1 instead of 2", "when pod a (1 node) is released")
    answer = place(build_request(1, apart_from=("p3", "p9")), site, held)
    assert isinstance(answer, Refusal)
    assert offers(answer)[0] == "locality.apart_from: without p3"


def test_lease_extension_checks_terms_and_uplinks() -> None:
    """Until the new end no other pod may have claims on its nodes, leaves and uplinks."""
    site = wired([[4, 4]], 2)
    lease = Keep("1", "p1", ("gpu1", "gpu2", "gpu5"), 0, 100, "one", Terms("p1", gbps=300))
    alone = Keep("2", "p2", ("gpu3",), 100, 200, "two", Terms("p2", exclusive=True))
    wide = Keep("3", "p3", ("gpu4", "gpu6"), 100, 200, "three", Terms("p3", gbps=200))
    node = Keep("4", "p4", ("gpu5",), 150, 200, "four")
    for booking, until, why in (
        (alone, 150, "leaf l0-0 is booked by a project that it must not be shared with"),
        (wide, 150, "the uplinks of leaf l0-0 are booked by others"),
        (node, 150, None),
        (node, 151, "some of its nodes are booked by others from 1970-01-01T00:03Z"),
    ):
        assert why_not_longer(site, "ib0", Book(Leases.of([lease]), (booking,)), lease, until) == why
    assert why_not_longer(site, "an IPU-POD", Book(Leases.of([lease]), (alone,)), lease, 150) is None
    assert closed_to(site, "p5", ["gpu1"], [alone]) == (
        "gpu1 is unavailable: leaf l0-0 has pod two of project p2, which keeps others away"
    )
    assert closed_to(site, "p5", ["gpu5"], [alone]) is None is closed_to(site, "p2", ["gpu1"], [alone])


def test_replacement_respects_the_terms() -> None:
    """The engine puts no replacement of an exclusive pod next to others, nor another pod's next to it."""
    engine = Engine.of(build_site([[3, 3, 3]]), "ib0", Occupancy())
    alone = ask("alone", 2, "p1", exclusive=True)
    assert engine.place(alone) is not None and engine.place(ask("b", 4, "p2")) is not None
    found = engine.replace(alone, "gpu1")
    assert found is not None and found.leaves == ("l0-0",)
    engine.ledger.disable("gpu3", "down", "x")
    assert engine.replace(alone, "gpu1") is None
    other = engine.replace(ask("b", 4, "p2"), "gpu4")
    assert other is not None and other.leaves != ("l0-0",)


def test_only_leaves_can_be_dedicated() -> None:
    """A spine, or rails of one group for two projects, is an error at the field; an unused leaf gives a hint."""
    site = wired([[2, 2]], 1)
    assert check_owner(dedicate(site, "l0-0", "p1")) == []
    spine = next(s.name for s in site.switches if s.level == "spine")
    ((path, value, allowed),) = check_owner(dedicate(site, spine, "p1"))
    assert (path[0], path[2], value) == ("switches", "project", "p1")
    assert allowed == f"only for leaf switches; {spine} is a spine"
    rails = dedicate(railed(2, 2, 1), "l0-r3", "p1")
    assert check_owner(rails) == [] and check_owner(dedicate(rails, "l0-r5", "p1")) == []
    ((_, value, allowed),) = check_owner(dedicate(rails, "l0-r5", "p2"))
    assert (value, allowed) == ("p2", "p1, like l0-r3: the same nodes are connected to both")
    answer = place(build_request(2, project="p2"), rails, Occupancy())
    assert isinstance(answer, Placement) and {n.leaf for n in answer.nodes} == {"l1-r0"}
    empty = Switch(name="empty", fabric="ib0", level="leaf", ports=4, project="p1")
    found = hints(site.model_copy(update={"switches": (*site.switches, empty)}))
    assert "leaf empty is dedicated to project p1, but no node is connected to it: no effect" in found


def check_owner(site: Site) -> list[tuple[tuple[str | int, ...], object, str]]:
    return [p for p in check_site(site, links_needed=False) if p[0][-1] == "project"]


def test_bandwidth_guarantee_needs_known_cables() -> None:
    """On a site without links between switches the field is refused; on a single leaf it has no effect."""
    with pytest.raises(InputError, match=r"fabric.bisection_gbps: 5 is not allowed: 0 or omitted"):
        place(build_request(1, bisection_gbps=5), build_site([[2, 2]]), Occupancy())
    assert isinstance(place(build_request(2, bisection_gbps=5), build_site([[2]]), Occupancy()), Placement)
