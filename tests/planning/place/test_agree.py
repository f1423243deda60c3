"""A placement checked against the site: every constraint, the same from `place` and the engine, and in any process."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.amounts import examples, seeded
from tests.helpers.paths import ROOT
from tests.planning.place.placesites import (
    adapters,
    build_request,
    build_site,
    cabled,
    dedicate,
)
from weft.model.errors import ConflictError
from weft.model.placement import FullPort, Neighbour, Occupancy, Placement, PlacementRequest, Refusal
from weft.model.site import Accelerator, AcceleratorCount, Site
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.placement import place
from weft.planning.place.solver import fill


def mixed_site(rng: random.Random, fewest: int = 0) -> Site:
    """A site whose nodes differ: services, another cloud or none, few or other accelerators, maintenance.

    Args:
        fewest: adapters that a node has at least; most have two.
    """

    def node(name: str) -> dict[str, Any]:
        types = [rng.choice(["h100", "h100", "a100"])] * rng.choice([8, 8, 4, 0])
        return {
            "role": rng.choice(["compute"] * 8 + ["service"]),
            "cloud": rng.choice(["c1"] * 8 + ["c2", None]),
            "maintenance": rng.choice([None] * 8 + ["DIMM"]),
            "accelerators": tuple(
                Accelerator(type=t, pci=f"0000:{i:02x}:00.0", numa=i // 4) for i, t in enumerate(types)
            ),
            "hcas": adapters(name, max(fewest, rng.choice([0, 1, 1, 2, 2, 2, 2, 2]))),
        }

    sizes = [[rng.randint(2, 7) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 3))]
    site = cabled(build_site(sizes, node=node))
    return dedicate(site, "l0-0", rng.choice(["p1", "p2"])) if rng.random() < 0.3 else site


def random_state(rng: random.Random, site: Site) -> Occupancy:
    """Some nodes are busy and some unusable, for overlapping reasons."""
    names = [n.name for n in site.nodes]

    def some(share: float) -> list[str]:
        return [n for n in names if rng.random() < share]

    busy = {n: rng.choice(["run0", "run1"]) for n in some(0.2)}
    return Occupancy(
        busy=busy,
        neighbours=tuple(
            Neighbour(pod=pod, project=project, nodes=tuple(n for n in busy if busy[n] == pod))
            for pod, project in (("run0", "rival"), ("run1", "p1"))
        ),
        quarantined=dict.fromkeys(some(0.1), "not clean"),
        down=dict.fromkeys(some(0.1), "service down"),
        full_ports=tuple(FullPort(fabric="ib0", node=n, why="126 keys") for n in some(0.1)),
    )


def random_request(rng: random.Random, site: Site) -> PlacementRequest:
    size = rng.choice([1, 1, 2])
    wanted = rng.choice([None, ("h100", 8), ("h100", 4), ("a100", 4)])
    return build_request(
        rng.randint(1, 6) * size,
        slice=size,
        hcas_per_node=rng.choice([1, 1, 2]),
        required=rng.choice(["leaf", "block", "site"]),
        accelerators=wanted and AcceleratorCount(type=wanted[0], count=wanted[1]),
        exclude=tuple(rng.sample([n.name for n in site.nodes], 2)),
        apart_from=rng.choice([(), (), ("rival",)]),
    )


def check_by_the_site(answer: Placement, request: PlacementRequest, site: Site, occupancy: Occupancy) -> None:
    """Check every constraint against the site and the occupancy only."""
    names = [n.node for n in answer.nodes]
    assert len(set(names)) == len(names) == request.count
    leaf_of = {link.a.partition("/")[0]: link.b for link in site.links}
    owner_of = {s.name: s.project for s in site.switches}
    block_of = {s.name: s.block for s in site.switches}
    rivals = {leaf_of[n] for n, pod in occupancy.busy.items() if pod == "run0" and n in leaf_of}
    for placed in answer.nodes:
        node = site.node_by_name[placed.node]
        assert len(node.hcas) >= request.hcas_per_node
        assert (node.role, node.cloud, node.maintenance) == ("compute", request.cloud, None)
        if request.accelerators:
            has = sum(a.type == request.accelerators.type for a in node.accelerators)
            assert has >= request.accelerators.count
        assert (placed.leaf, placed.block) == (leaf_of[node.name], block_of[leaf_of[node.name]])
        assert owner_of[placed.leaf] in (None, request.project)
        assert not (request.apart_from and placed.leaf in rivals)
    gone = {
        *occupancy.busy,
        *occupancy.quarantined,
        *occupancy.down,
        *(p.node for p in occupancy.full_ports),
        *request.exclude,
    }
    assert gone.isdisjoint(names)
    by_leaf = [sum(leaf_of[n] == leaf for n in names) for leaf in {leaf_of[n] for n in names}]
    assert all(n % request.slice == 0 for n in by_leaf)
    assert request.required != "leaf" or len(by_leaf) == 1
    assert request.required != "block" or len({n.block for n in answer.nodes}) == 1


def test_place_and_engine_agree_on_every_constraint() -> None:
    """On sites of unlike nodes; refusals have the same reasons too."""
    rng = seeded(97)
    placed = 0
    for _ in range(examples(400)):
        site = mixed_site(rng)
        occupancy, request = random_state(rng, site), random_request(rng, site)
        answer = place(request, site, occupancy)
        engine = Engine.of(site, "ib0", occupancy)
        decision = engine.decide(Ask.of(request))
        assert isinstance(answer, Refusal) == (decision is None), (request, occupancy)
        if decision is None or isinstance(answer, Refusal):
            continue
        placed += 1
        check_by_the_site(answer, request, site, occupancy)
        mine, theirs = decision.explanation(), answer.explanation
        if request.apart_from:
            # of equally good leaves in the fullest block; only the engine counts room on leaves closed to this order
            assert (mine.compared[0].leftover, mine.compared[0].blocks) == (
                theirs.compared[0].leftover,
                theirs.compared[0].blocks,
            )
        else:
            assert set(decision.nodes) == {n.node for n in answer.nodes}
            assert (mine.chosen, mine.compared) == (theirs.chosen, theirs.compared)
        total = len(site.nodes)
        for report in theirs.filters:
            assert report.left == total - report.removed
            total = report.left
    assert placed > examples(80)


def test_engine_and_place_count_the_same_nodes_per_filter() -> None:
    """The engine doesn't have nodes off the fabric, and counts excluded nodes as busy."""
    rng = seeded(98)
    for _ in range(examples(400)):
        site = mixed_site(rng, fewest=1)
        occupancy = random_state(rng, site)
        request = random_request(rng, site).model_copy(update={"exclude": (), "slice": 1})
        answer = place(request, site, occupancy)
        decision = Engine.of(site, "ib0", occupancy).decide(Ask.of(request))
        if decision is None or isinstance(answer, Refusal):
            continue
        theirs = {f.filter: f.removed for f in answer.explanation.filters if f.removed}
        mine = {f.filter: f.removed for f in decision.explanation().filters if f.removed}
        assert mine == theirs, (request, occupancy)


def test_place_and_engine_report_held_nodes_alike() -> None:
    """In a filter of its own, which is there only if a node of the fabric is held; the text is the hold's."""
    site = build_site([[3]])
    for held in ({}, {"gpu2": "held for burn-in"}, {"elsewhere": "held for burn-in"}):
        occupancy, request = Occupancy(on_hold=held), build_request(1)
        answer, decision = (
            place(request, site, occupancy),
            Engine.of(site, "ib0", occupancy).decide(Ask.of(request)),
        )
        assert isinstance(answer, Placement) and decision is not None
        reports = [
            [f for f in explanation.filters if f.filter == "hold"]
            for explanation in (answer.explanation, decision.explanation())
        ]
        assert [[(f.removed, f.examples) for f in found] for found in reports] == (
            [[(1, ("gpu2: held for burn-in",))]] * 2 if "gpu2" in held else [[], []]
        )
        assert "gpu2" not in {n.node for n in answer.nodes} or "gpu2" not in held


def test_leaf_without_nodes_may_be_dedicated() -> None:
    """Placement must not look up the name of a switch that has no nodes."""
    site = build_site([[2], [1]], node=lambda n: {"hcas": ()} if n == "gpu3" else {})
    site = dedicate(cabled(site), "l1-0", "p2")
    assert Engine.of(site, "ib0", Occupancy()).decide(Ask.of(build_request(2))) is not None
    assert isinstance(place(build_request(2), site, Occupancy()), Placement)


def test_held_nodes_are_not_held_again() -> None:
    """A decision whose node was taken since is refused, and nothing changes."""
    engine, request = Engine.of(build_site([[2, 2]]), "ib0", Occupancy()), build_request(2)
    one = engine.decide(Ask.of(request))
    two = engine.decide(Ask.of(request.model_copy(update={"pod": "b"})))
    assert one is not None and two is not None
    engine.ledger.commit(one)
    before = list(engine.ledger.available)
    with pytest.raises(ConflictError, match="pod b: its nodes were taken since"):
        engine.ledger.commit(two)
    with pytest.raises(ConflictError, match="gpu1 held by pod run1"):
        engine.ledger.hold("c", ["gpu1", "gpu3"])
    assert engine.ledger.available == before
    assert set(engine.ledger.held) == {"run1"}


def test_pod_on_several_leaves_can_not_grow_inside_one() -> None:
    """A pod whose site was recabled gets no replacement rather than one outside the required level."""
    site = build_site([[3, 3], [3]])
    for near, level in ((("gpu1", "gpu4"), "leaf"), (("gpu1", "gpu7"), "block")):
        request = build_request(1, near=near, required=level)
        busy = Occupancy(busy=dict.fromkeys(near, "run1"))
        assert Engine.of(site, "ib0", busy).decide(Ask.of(request)) is None
        assert isinstance(place(request, site, busy), Refusal)


def test_replacement_level_covers_the_whole_pod() -> None:
    """The reported level is that of the pod; the new node alone would be at level `node`."""
    site = build_site([[1, 2]])
    answer = place(build_request(1, near=("gpu1",)), site, Occupancy(busy={"gpu1": "run1"}))
    assert isinstance(answer, Placement)
    assert answer.level == "block"


def test_leaf_with_most_room_keeps_the_leftover() -> None:
    """Small leaves are used up first."""
    assert fill([5, 3, 4], [0, 1, 2], 10) == ((0, 3), (1, 3), (2, 4))


def digest() -> str:
    """Digest of the decisions in some random states."""
    rng, found = random.Random(99), hashlib.sha256()
    for _ in range(15):
        site = mixed_site(rng)
        occupancy, request = random_state(rng, site), random_request(rng, site)
        found.update(place(request, site, occupancy).model_dump_json().encode())
        decision = Engine.of(site, "ib0", occupancy).decide(Ask.of(request))
        found.update(repr(decision and (decision.nodes, decision.explanation())).encode())
    return found.hexdigest()


def test_answer_is_the_same_in_any_process() -> None:
    """Byte for byte with any hash seed: nothing depends on the order of a set."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    code = "from tests.planning.place.test_agree import digest; print(digest(), hash('x'))"
    other = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert other[1] != str(hash("x"))
    assert other[0] == digest()
