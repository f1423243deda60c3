"""Refusals: their numbers are correct, and each offered change makes the order fit."""

from __future__ import annotations

import random
from collections import Counter

from tests.helpers.amounts import examples, seeded
from tests.helpers.offers import offers
from tests.planning.place.placesites import adapters, build_request, build_site, cabled
from weft.model.offer import ClearOffer, ExclusionsOffer, Offer, ReleaseOffer, applied, can_apply, fields_of
from weft.model.order import Order
from weft.model.placement import Neighbour, Occupancy, Placement, PlacementRequest, Refusal
from weft.model.site import Site
from weft.planning.place.placement import place


def refused(request: PlacementRequest, site: Site, occupancy: Occupancy | None = None) -> Refusal:
    answer = place(request, site, occupancy or Occupancy())
    assert isinstance(answer, Refusal), answer
    return answer


def test_refusal_names_slices_that_fit_no_leaf() -> None:
    """How many nodes fit in groups and which other groups would fit; uplinks and level aren't mentioned."""
    answer = refused(build_request(12, slice=3), build_site([[4, 4, 4]]))
    assert answer.reason == (
        "12 nodes are requested in groups of 3 per leaf, but only 9 of the 12 available nodes form such groups "
        "(locality.slice is 3)."
    )
    assert offers(answer) == ("nodes.count: 9 instead of 12", "locality.slice: 2 instead of 3")
    inside = refused(build_request(12, slice=3, required="block"), build_site([[4, 4, 4], [4, 4]]))
    assert inside.reason.startswith("15 nodes are available in groups of 3, but at most 9 of the 12")


def test_single_node_uses_the_singular() -> None:
    """1 node, not 1 nodes."""
    answer = refused(build_request(1), build_site([[1]]), Occupancy(busy={"gpu1": "a"}))
    assert answer.reason == "1 node is requested, but 0 are available (removed by: busy 1)."
    assert offers(answer) == ("when pod a (1 node) is released",)


def random_case(rng: random.Random) -> tuple[Order, tuple[str, ...], Site, Occupancy]:
    """An order that is likely not to fit, nodes it must not get, and a site that is nearly full."""

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
    nodes: dict[str, object] = {"flavor": "any", "image": "tiny", "count": rng.randint(1, 6) * size}
    nodes["spare"] = rng.choice([0, 0, size])
    locality: dict[str, object] = {"slice": size, "required": rng.choice(["leaf", "block", "site"])}
    fabric = {"hcas_per_node": rng.choice([1, 1, 2])}
    exclude = tuple(rng.sample(names, min(rng.choice([0, 0, 2]), len(names))))
    locality["exclusive"] = rng.random() < 0.2
    locality["apart_from"] = rng.choice([(), (), ("p2",), ("p2", "p3")])
    order = Order.model_validate({"name": "run1", "nodes": nodes, "fabric": fabric, "locality": locality})
    return order, exclude, site, Occupancy(busy=busy, quarantined=quarantined, neighbours=neighbours)


def request_of(order: Order, exclude: tuple[str, ...]) -> PlacementRequest:
    """The placement request of an order."""
    locality = order.locality
    return build_request(
        order.nodes.count,
        slice=locality.slice,
        spare=order.nodes.spare,
        required=locality.required,
        hcas_per_node=order.fabric.hcas_per_node or 1,
        exclude=exclude,
        exclusive=locality.exclusive,
        apart_from=locality.apart_from,
    )


def then(offer: Offer, occupancy: Occupancy) -> Occupancy:
    """The state after others did what the offer needs."""
    match offer:
        case ClearOffer():
            rest = {n: r for n, r in occupancy.quarantined.items() if offer.node not in (None, n)}
            return occupancy.model_copy(update={"quarantined": rest})
        case ReleaseOffer():
            gone = set(occupancy.busy.values()) if offer.pod is None else {offer.pod}
            busy = {n: p for n, p in occupancy.busy.items() if p not in gone}
            left = tuple(n for n in occupancy.neighbours if n.pod not in gone)
            return occupancy.model_copy(update={"busy": busy, "neighbours": left})
        case _:
            return occupancy


def test_every_offered_change_makes_the_order_fit() -> None:
    """One node more than offered is refused."""
    rng = seeded(41)
    seen = Counter[str]()
    for _ in range(examples(400)):
        order, exclude, site, occupancy = random_case(rng)
        answer = place(request_of(order, exclude), site, occupancy)
        if isinstance(answer, Placement):
            continue
        for offer in answer.would_fit:
            changed = applied(order, offer) if can_apply(offer) else order
            left, free = () if isinstance(offer, ExclusionsOffer) else exclude, then(offer, occupancy)
            again = request_of(changed, left)
            assert (again, left, free) != (request_of(order, exclude), exclude, occupancy), offer
            assert isinstance(place(again, site, free), Placement), (offer, order, occupancy)
            seen.update(fields_of(offer) or (offer.kind,))
            if fields_of(offer) == ("nodes.count",) and again.count + again.slice < order.nodes.count:
                more = again.model_copy(update={"count": again.count + again.slice})
                assert isinstance(place(more, site, free), Refusal)
    assert set(seen) >= {
        "nodes.count", "nodes.spare", "locality.required", "locality.slice", "fabric.hcas_per_node", "exclusions",
        "release", "clear",
    }, seen  # fmt: skip
