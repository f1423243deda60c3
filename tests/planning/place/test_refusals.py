"""What a refused order is told: true numbers, and changes each of which makes it fit."""

from __future__ import annotations

import random
import re

import pytest

from tests.helpers.amounts import examples, seeded
from tests.planning.place.placesites import adapters, build_request, build_site, cabled
from weft.model.placement import Neighbour, Occupancy, Placement, PlacementRequest, Refusal
from weft.model.site import Site
from weft.planning.place.placement import place


def refused(request: PlacementRequest, site: Site, occupancy: Occupancy | None = None) -> Refusal:
    answer = place(request, site, occupancy or Occupancy())
    assert isinstance(answer, Refusal), answer
    return answer


def test_slices_that_no_leaf_holds_are_the_reason() -> None:
    """Not uplinks, and not the level: how many can be had in groups, and what other groups would do."""
    answer = refused(build_request(12, slice=3), build_site([[4, 4, 4]]))
    assert answer.reason == (
        "12 nodes are requested in groups of 3 per leaf, but only 9 of the 12 available nodes form such groups "
        "(locality.slice is 3)."
    )
    assert answer.would_fit == ("count: 9 instead of 12", "locality.slice: 2 instead of 3")
    inside = refused(build_request(12, slice=3, required="block"), build_site([[4, 4, 4], [4, 4]]))
    assert inside.reason.startswith("15 nodes are available in groups of 3, but at most 9 of the 12")


def test_one_node_is_told_in_the_singular() -> None:
    """As a person would."""
    answer = refused(build_request(1), build_site([[1]]), Occupancy(busy={"gpu1": "a"}))
    assert answer.reason == "1 node is requested, but 0 are available (removed by: busy 1)."
    assert answer.would_fit == ("when pod a (1 node) is released",)


def random_case(rng: random.Random) -> tuple[PlacementRequest, Site, Occupancy]:
    """A site that is nearly full, and an order that is likely not to fit."""

    def node(name: str) -> dict[str, object]:
        return {"hcas": adapters(name, 1 if int(name.removeprefix("gpu")) % 3 == 0 else 2)}

    sizes = [[rng.randint(1, 6) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 3))]
    site = cabled(build_site(sizes, node=node if rng.random() < 0.3 else None))
    names = [n.name for n in site.nodes]
    busy = {n: f"run{rng.randint(0, 2)}" for n in names if rng.random() < 0.3}
    projects = {pod: f"p{i}" for i, pod in enumerate(sorted(set(busy.values())), 2)}
    neighbours = tuple(
        Neighbour(pod=pod, project=projects[pod], nodes=tuple(n for n in busy if busy[n] == pod))
        for pod in projects
    )
    left = [n for n in names if n not in busy]
    quarantined = {n: "not clean" for n in left if rng.random() < 0.2}
    size = rng.choice([1, 1, 2, 3])
    request = build_request(
        rng.randint(1, 6) * size,
        slice=size,
        spare=rng.choice([0, 0, size]),
        required=rng.choice(["leaf", "block", "site"]),
        hcas_per_node=rng.choice([1, 1, 2]),
        exclude=tuple(rng.sample(names, min(rng.choice([0, 0, 2]), len(names)))),
        exclusive=rng.random() < 0.2,
        apart_from=rng.choice([(), (), ("p2",), ("p2", "p3")]),
    )
    return request, site, Occupancy(busy=busy, quarantined=quarantined, neighbours=neighbours)


def changed(
    sentence: str, request: PlacementRequest, occupancy: Occupancy
) -> tuple[PlacementRequest, Occupancy]:
    """The order and the state after the change that the sentence offers."""
    fields: dict[str, object] = {}
    free = occupancy
    if found := re.match(
        r"(?:count|locality\.slice|nodes\.spare|fabric\.hcas_per_node): (\d+) instead", sentence
    ):
        field = re.split(r"[.:]", sentence)
        fields[field[0] if field[0] == "count" else field[1]] = int(found[1])
    elif found := re.match(r"locality\.required: (\w+) instead", sentence):
        fields["required"] = found[1]
    elif sentence.startswith("locality.exclusive: false"):
        fields["exclusive"] = False
    elif found := re.match(r"locality\.apart_from: without (\w+)", sentence):
        fields["apart_from"] = tuple(p for p in request.apart_from if p != found[1])
    elif sentence.startswith("locality.apart_from: none"):
        fields["apart_from"] = ()
    elif sentence.startswith("exclude: none"):
        fields["exclude"] = ()
    elif found := re.match(r"when (\w+) leaves quarantine", sentence):
        rest = {n: r for n, r in occupancy.quarantined.items() if n != found[1]}
        free = occupancy.model_copy(update={"quarantined": rest})
    elif "quarantined nodes are cleared" in sentence:
        free = occupancy.model_copy(update={"quarantined": {}})
    elif found := re.match(r"when (?:pod (\w+)|several of the current pods)", sentence):
        gone = {found[1]} if found[1] else set(occupancy.busy.values())
        busy = {n: p for n, p in occupancy.busy.items() if p not in gone}
        left = tuple(n for n in occupancy.neighbours if n.pod not in gone)
        free = occupancy.model_copy(update={"busy": busy, "neighbours": left})
    else:
        pytest.fail(f"nobody knows what this asks for: {sentence}")
    return request.model_copy(update=fields), free


def test_every_change_that_a_refusal_offers_makes_the_order_fit() -> None:
    """Each sentence is read as a person would, done, and decided again; one node more than offered is refused."""
    rng = seeded(41)
    offers: dict[str, int] = {}
    for _ in range(examples(400)):
        request, site, occupancy = random_case(rng)
        answer = place(request, site, occupancy)
        if isinstance(answer, Placement):
            continue
        for sentence in answer.would_fit:
            again, then = changed(sentence, request, occupancy)
            assert isinstance(place(again, site, then), Placement), (sentence, request, occupancy)
            kind = re.split(r"[ :]", sentence)[0] + (" pod" if "pod" in sentence.split() else "")
            offers[kind] = offers.get(kind, 0) + 1
            if kind == "count" and again.count + request.slice < request.count:
                more = again.model_copy(update={"count": again.count + request.slice})
                assert isinstance(place(more, site, then), Refusal)
    assert set(offers) >= {
        "count", "locality.required", "locality.slice", "nodes.spare", "fabric.hcas_per_node", "exclude", "when pod",
        "when",
    }, offers  # fmt: skip
