"""Nodes set aside for a project are used first by its own orders, if that costs no leaf."""

from __future__ import annotations

import random

from tests.planning.place.placesites import build_request, build_site
from weft.model.placement import Occupancy, Placement, Refusal
from weft.model.site import Site
from weft.planning.place.ask import Ask
from weft.planning.place.placement import place
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import Leases

NIGHT = 100.0


def block(project: str, *nodes: str, start: float = 0.0, end: float = NIGHT) -> Keep:
    return Keep(f"block-{project}-{start:g}", project, nodes, start, end)


def both(site: Site, book: Book, count: int, project: str = "p1", start: float = 0.0) -> tuple[str, ...]:
    """The nodes of an order from `start` for 10 s, by `place` and by the timeline, which must agree.

    Of equally good leaves the two may choose different ones for a later start; for a start now they choose the same.
    """
    request = build_request(count, project=project)
    answer = place(request, site, book.occupancy(Occupancy(), project, 0.0, start, start + 10))
    line = book.timeline(site, "ib0", Occupancy(), 0.0)
    decide = line.at if start else line.decide
    found = decide(Ask.of(request), start, start + 10)
    if isinstance(answer, Refusal):
        assert found is None
        return ()
    assert found is not None
    nodes = tuple(n.node for n in answer.nodes)
    own = {
        n
        for k in book.reservations
        if k.project == project and k.overlaps(start, start + 10)
        for n in k.nodes
    }
    assert len(own.intersection(nodes)) == len(own.intersection(found.nodes))
    assert len({n.leaf for n in answer.nodes}) == len(found.leaves)
    assert nodes == found.nodes or start
    return nodes


def test_set_aside_nodes_come_first() -> None:
    """Leaf 2 is set aside for the project: its order goes there, another's elsewhere, and the explanation says so."""
    site = build_site([[2, 2, 2]])
    book = Book(reservations=(block("p1", "gpu3", "gpu4"),))
    assert both(site, book, 2) == ("gpu3", "gpu4")
    assert both(site, book, 2, "p2") == ("gpu1", "gpu2")
    occupancy = book.occupancy(Occupancy(), "p1", 0.0, 0.0, 10.0)
    answer = place(build_request(2), site, occupancy)
    assert isinstance(answer, Placement)
    assert "2 of 2 nodes are set aside for the project" in answer.explanation.chosen
    assert "preferences" not in answer.explanation.chosen


def test_set_aside_nodes_cost_no_leaf_and_refuse_nothing() -> None:
    """One open leaf rather than two of the project's; both together if neither alone is enough."""
    site = build_site([[1, 1, 2]])
    book = Book(reservations=(block("p1", "gpu1", "gpu2"),))
    assert both(site, book, 2) == ("gpu3", "gpu4")
    assert set(both(site, book, 3)) == {"gpu1", "gpu3", "gpu4"}
    assert len(both(site, book, 4)) == 4
    assert both(site, book, 5) == ()


def test_set_aside_nodes_are_preferred_only_during_reservation() -> None:
    """In another window the first node by name is used."""
    site = build_site([[4]])
    book = Book(reservations=(block("p1", "gpu3", "gpu4"),))
    assert both(site, book, 1) == ("gpu3",)
    assert both(site, book, 1, start=NIGHT) == ("gpu1",)
    later = Book(reservations=(block("p1", "gpu4", start=50.0),))
    assert both(site, later, 1) == ("gpu1",)
    assert both(site, later, 1, start=60.0) == ("gpu4",)


def test_place_and_engine_agree_about_set_aside_blocks() -> None:
    """Random sites, leases and windows; an order never has more leaves because of its own nodes."""
    rng = random.Random(41)
    for _ in range(60):
        site = build_site(
            [[rng.randint(1, 5) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))]
        )
        names = [n.name for n in site.nodes]
        rng.shuffle(names)
        cut, taken = rng.randint(0, len(names) // 2), rng.randint(0, len(names) // 4)
        blocks = tuple(
            block(project, *part, start=rng.choice([0.0, 20.0]))
            for project, part in (("p1", names[:cut]), ("p2", names[cut : 2 * cut]))
            if part
        )
        leases = Leases.of([Keep("run0", "p3", tuple(names[:taken]), 0.0, 30.0)] if taken else [])
        book, open_ = Book(leases, reservations=blocks), Book(leases, reservations=blocks[1:])
        leaf = {n.node: n.leaf for n in _all(site)}
        for start in (0.0, 25.0):
            count = rng.randint(1, 6)
            mine, others = both(site, book, count, start=start), both(site, open_, count, start=start)
            assert len({leaf[n] for n in mine}) == len({leaf[n] for n in others})


def _all(site: Site):
    answer = place(build_request(len(site.nodes)), site, Occupancy())
    assert isinstance(answer, Placement)
    return answer.nodes
