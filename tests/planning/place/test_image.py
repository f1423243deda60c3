"""Nodes whose hosts can't boot the image aren't candidates, for `place` and for the engine."""

from __future__ import annotations

import random

from tests.helpers.offers import offers
from tests.planning.place.placesites import build_request, build_site
from weft.model.placement import Occupancy, Placement, Refusal
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.queue.book import Book


def test_image_filter_names_nodes_and_reasons() -> None:
    """Only for orders that boot the image; `place` and the engine report the same."""
    site = build_site([[2, 2]])
    occupancy = Occupancy(unfit={"old": {"gpu1": "its host lacks the trait X", "gpu2": "nor has this one"}})
    answer = place(build_request(2, boot="old"), site, occupancy)
    assert isinstance(answer, Placement)
    assert [n.node for n in answer.nodes] == ["gpu3", "gpu4"]
    (report,) = [f for f in answer.explanation.filters if f.filter == "image"]
    assert (report.removed, report.left) == (2, 2)
    assert report.examples == ("gpu1: its host lacks the trait X", "gpu2: nor has this one")
    engine = Engine.of(site, "ib0", occupancy)
    for boot, names in (("old", ("gpu3", "gpu4")), ("new", ("gpu1", "gpu2")), ("", ("gpu1", "gpu2"))):
        decision = engine.decide(Ask.of(build_request(2, boot=boot)))
        assert decision is not None and decision.nodes == names
        reports = [f for f in decision.explanation().filters if f.filter == "image"]
        assert reports == ([report] if boot == "old" else [])


def test_refusal_offers_another_image() -> None:
    """If the order would fit without the image."""
    site = build_site([[3]])
    occupancy = Occupancy(unfit={"old": {"gpu1": "its host lacks the trait X"}})
    answer = place(build_request(3, boot="old"), site, occupancy)
    assert isinstance(answer, Refusal)
    assert "image 1" in answer.reason
    assert "nodes.image, nodes.flavor: others, which can boot on 1 more nodes" in offers(answer)
    answer = place(build_request(4, boot="old"), site, occupancy)
    assert isinstance(answer, Refusal)
    assert not [change for change in offers(answer) if "nodes.image" in change]


def test_place_and_engine_agree_on_images() -> None:
    """Random sites, needs and states: the same nodes from `place`, the engine, and a timeline without a calendar."""
    rng = random.Random(5)
    for _ in range(60):
        site = build_site(
            [[rng.randint(1, 5) for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 3))]
        )
        names = [n.name for n in site.nodes]
        occupancy = Occupancy(
            busy={n: "run0" for n in names if rng.random() < 0.2},
            quarantined={n: "broken" for n in names if rng.random() < 0.1},
            unfit={boot: {n: "no" for n in names if rng.random() < 0.4} for boot in ("a", "b")},
        )
        for boot in ("a", "b", "c"):
            request = build_request(rng.randint(1, 5), boot=boot, slice=1)
            answer = place(request, site, occupancy)
            found = Engine.of(site, "ib0", occupancy).decide(Ask.of(request))
            line = Book.of(occupancy).timeline(site, "ib0", occupancy, 0.0)
            later = line.decide(Ask.of(request), 0.0, 10.0)
            if isinstance(answer, Refusal):
                assert found is None and later is None
                continue
            assert found is not None and later is not None
            nodes = tuple(n.node for n in answer.nodes)
            assert nodes == found.nodes == later.nodes
            assert not set(nodes) & set(occupancy.unfit.get(boot, {}))
