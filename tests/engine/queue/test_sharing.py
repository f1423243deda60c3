"""Sharing of leaves and uplinks: exclusive, apart, dedicated and guaranteed, now and in time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import pytest

from tests.engine.house import House
from tests.engine.projects import give_back, leaves, order, refused
from tests.engine.timehouse import HandClock, at_once, dispatching, look, make, release
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, ForbiddenError, InputError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.reservation import Reservation
from weft.planning.fabric.topology import Topology


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[House]:
    house = House(database, database_url, clock=clock)
    for project in ("team-a", "team-b", "team-c"):
        house.request(project)
    yield house
    house.close()


EXCLUSIVE = {"exclusive": True}
ALONE = {"exclusive": True, "required": "leaf"}


# -- exclusive and apart --------------------------------------------------------------------------------------------


def test_exclusive_pod_gets_no_neighbours(house: House) -> None:
    """It came first: others go elsewhere, its own project may join it, and after its end its leaf is free to all."""
    alone = order(house, "team-a", "alone", 2, locality=ALONE)
    assert "shared with no other project" in alone.plan.placement.explanation.chosen
    others = order(house, "team-b", "others", 12)
    assert len(leaves(house, others)) == 3 and not leaves(house, others) & leaves(house, alone)
    changes = refused(house, "team-b", 1)
    assert changes == ["when pod alone (2 nodes) is released"]
    own = order(house, "team-a", "own", 2)
    assert leaves(house, own) == leaves(house, alone)
    give_back(house, "team-a", alone)
    changes = refused(house, "team-c", 3)
    assert "nodes.count: 2 instead of 3" in changes
    assert leaves(house, order(house, "team-b", "late", 2)) == leaves(house, own)


def test_exclusive_pod_avoids_leaves_with_others(house: House) -> None:
    """It came last: leaves with others' nodes, or reserved for others, are not for it."""
    for n in range(3):
        order(house, "team-b", f"b{n}", 3, locality={"required": "leaf"})
    block = Reservation(name="block", project_id="team-c", nodes=("gpu16",))
    house.service.capacity.reserve(house.operator, block)
    assert "locality.exclusive: false instead of true" in refused(house, "team-a", 1, locality=EXCLUSIVE)
    house.service.capacity.end_reservation(house.operator, "block")
    alone = order(house, "team-a", "alone", 1, locality=EXCLUSIVE)
    assert leaves(house, alone) == {"leaf04"} and alone.nodes != ("gpu16",)
    with pytest.raises(ConflictError, match="team-a, which keeps others away: choose another node"):
        house.service.capacity.reserve(house.operator, block)


@pytest.mark.parametrize("first", ["who is kept apart", "who keeps apart"])
def test_apart_holds_whichever_pod_came_first(house: House, first: str) -> None:
    """The named project never shares a leaf with the pod, by id or by name; a third one does."""
    keeps = {"apart_from": ["team-b"], "required": "leaf"}
    if first == "who is kept apart":
        for n in range(3):
            order(house, "team-b", f"b{n}", 3, locality={"required": "leaf"})
    order(house, "team-a", "apart", 3, locality=keeps)
    if first == "who keeps apart":
        assert len(leaves(house, order(house, "team-b", "b", 12))) == 3
    assert "when pod apart (3 nodes) is released" in refused(house, "team-b", 4)
    order(house, "team-c", "third", 1)
    if first == "who is kept apart":
        assert "locality.apart_from: without team-b" in refused(
            house, "team-a", 2, locality={"apart_from": ["team-b"]}
        )


def test_operators_give_names_and_tenants_ids(house: House) -> None:
    """Names are looked up for operators, and unknown ones refused; a tenant's are taken as given, each once."""
    tokens = house.cloud.offers.tokens
    someone = next(iter(tokens.values()))
    for id_, name in (("4f1", "research"), ("77a", "twin"), ("77b", "twin")):
        tokens[id_] = replace(someone, project_id=id_, project_name=name)
    apart = ["team-b", "research", "team-b", "4f1"]
    asked = make("apart", 1, locality={"apart_from": apart})
    ordered = house.service.pods.create(house.operator, asked).order
    assert ordered.locality.apart_from == ("team-b", "4f1")
    for bad, why in (
        ("team-x", "projects that weft serves"),
        ("twin", "the id of one: several projects have this name"),
    ):
        with pytest.raises(InputError) as caught:
            house.service.pods.create(house.operator, make("x", 1, locality={"apart_from": [bad]}))
        assert str(caught.value) == f"locality.apart_from: {bad!r} is not allowed: {why}"
    with pytest.raises(InputError, match="pods of one project may always share a leaf"):
        order(house, "team-a", "x", 1, locality={"apart_from": ["team-a"]})


def test_answer_about_apart_from_is_the_same_for_known_and_unknown_projects(house: House) -> None:
    """Known, unknown, by name or by id: one answer, with the given text; planning needs the same right as ordering."""
    theirs = "0123456789abcdef0123456789abcdef"
    tokens = house.cloud.offers.tokens
    someone = next(iter(tokens.values()))
    tokens["x"] = replace(someone, project_id=theirs, project_name="research")
    verbs = redacted(house.service, Policy())
    order(house, "team-b", "theirs", 4)

    def planned(*apart: str) -> object:
        asked = make("mine", 4, locality={"apart_from": apart})
        made = verbs.pods.plan(house.request("team-a"), asked)
        assert made.order.locality.apart_from == apart
        return made.model_copy(update={"order": None})

    assert planned(theirs) == planned("research") == planned("unknown") == planned("0" * 32)
    reader = house.request("team-a", "reader")
    for locality in (EXCLUSIVE, {"apart_from": ["team-b"]}):
        with pytest.raises(ForbiddenError, match="may not do pods:create_exclusive"):
            verbs.pods.plan(reader, make("mine", 1, locality=locality))
    assert verbs.pods.plan(reader, make("mine", 1)).order.name == "mine"


def test_operator_decides_who_may_close_leaves_to_others(house: House, tmp_path: Path) -> None:
    """By a rule of its own: a caller without the right reads which; orders that close nothing go on as before."""
    file = tmp_path / "policy.yaml"
    file.write_text("'pods:create_exclusive': rule:operator\n")
    house.service = Service(Desk(house.store, house.keeper, Policy(file), house.clock, house.listener))
    for locality in (EXCLUSIVE, {"apart_from": ["team-b"]}):
        with pytest.raises(ForbiddenError, match="may not do pods:create_exclusive"):
            order(house, "team-a", "x", 1, locality=locality)
    assert order(house, "team-a", "x", 1).state is PodState.PLACED


def test_bookings_share_leaves_on_the_same_terms(house: House, clock: HandClock) -> None:
    """A booking excludes others from its leaves in its time, and not before; leases that end before it don't count."""
    start = clock.now() + timedelta(hours=2)
    busy = order(house, "team-b", "busy", 16, duration="2h")
    later = order(house, "team-a", "later", 2, start=start, duration="1h", locality=ALONE)
    assert later.state is PodState.PENDING and later.placed is None
    give_back(house, "team-b", busy)
    order(house, "team-b", "short", 16, duration="2h")
    fits = order(house, "team-b", "overlaps", 12, start=start, duration="1h")
    locations = Topology.of(house.site, "ib0").locations
    promised = {r.pod.id: {locations[n].leaf for n in r.nodes} for r in house.store.capacity().bookings}
    assert not promised[later.id] & promised[fits.id] and fits.state is PodState.PENDING
    changes = refused(house, "team-b", 1, start=start, duration="1h")
    assert f"lease.start: fits from {start + timedelta(hours=1):%Y-%m-%dT%H:%MZ}" in changes
    clock.forward(hours=2)
    house.store.end_leases()
    for pod in house.store.pods.live():
        house.run(pod, PodState.RELEASED)
    house.worker.tend_queue()
    assert not leaves(house, look(house, later)) & leaves(house, look(house, fits))


def test_lease_is_not_extended_into_an_exclusive_booking(house: House, clock: HandClock) -> None:
    """Its own nodes are free then, but its leaf is booked for an exclusive pod; and uplinks likewise."""
    pod = house.run(
        order(house, "team-b", "b", 2, duration="1h", locality={"required": "leaf"}), PodState.READY
    )
    start = clock.now() + timedelta(hours=1)
    near = [{"kind": "leaf", "name": next(iter(leaves(house, pod))), "cost": -500}]
    near += [{"kind": "node", "name": n, "cost": 400} for n in pod.nodes]
    order(house, "team-a", "next", 2, start=start, duration="1h", locality={**ALONE, "preferences": near})
    assert not set(pod.nodes) & set(house.store.capacity().bookings[0].nodes)
    with pytest.raises(
        ConflictError, match=r"leaf .* is booked by a project that it must not be shared with"
    ):
        house.service.pods.extend(house.request("team-b"), "b", start + timedelta(minutes=30))
    assert look(house, pod).lease_end == start
    give_back(house, "team-b", pod)


def test_queue_respects_apart(house: House) -> None:
    """Orders of two projects that wait for the same leaves: exclusive ones take turns, none is forgotten."""
    first = house.ready(make("first", 16))
    pods = [
        house.store.pods.find(house.service.pods.create(house.request(project), one).id, None)
        for project, one in (
            ("team-a", make("qa", 10, queue=True, locality=EXCLUSIVE, duration="1h")),
            ("team-b", make("qb", 4, queue=True, duration="1h")),
            ("team-c", make("qc", 4, queue=True, locality={"apart_from": ["team-b"]}, duration="1h")),
        )
    ]
    release(house, first)
    house.worker.tend_queue()
    a, b, c = (look(house, p) for p in pods)
    assert (a.state, b.state, c.state) == (PodState.PLACED, PodState.PLACED, PodState.PENDING)
    assert not leaves(house, a) & leaves(house, b)
    assert c.expected_start is not None and "nodes booked: 4" in c.reason
    give_back(house, "team-b", b)
    house.worker.tend_queue()
    assert look(house, c).state is PodState.PLACED


# -- many at once ---------------------------------------------------------------------------------------------------


def test_concurrent_orders_and_queues_keep_the_terms(house: House) -> None:
    """Direct orders and two workers' queues race for sixteen nodes: pods that exclude each other never share a leaf."""
    first = house.ready(make("first", 16))
    wishes: list[tuple[str, Order]] = []
    for n in range(12):
        project = f"team-{'abc'[n % 3]}"
        locality = [EXCLUSIVE, {"apart_from": ["team-a"]} if project != "team-a" else {}, {}][n % 4 % 3]
        nodes = {"count": 2, "spare": n % 2, "flavor": "gpu8", "image": "tiny"}
        document = {
            "name": f"q{n}",
            "nodes": nodes,
            "locality": locality,
            "queue": n < 8,
            "lease": {"duration": "1h"},
        }
        wishes.append((project, Order.model_validate(document)))
    requests = {p: house.request(p) for p in ("team-a", "team-b", "team-c")}
    for project, one in wishes[:8]:
        house.service.pods.create(requests[project], one)
    release(house, first)

    def direct(n: int) -> None:
        for project, one in wishes[8 + 2 * n : 10 + 2 * n]:
            with suppress(RefusedError):
                house.service.pods.create(requests[project], one)

    assert not at_once(*dispatching(house, 2), lambda: direct(0), lambda: direct(1))
    pods = [p for p in house.store.pods.live() if p.state is PodState.PLACED]
    assert pods
    held = [n for p in pods for n in p.held]
    assert len(held) == len(set(held)) and set(held) == set(house.store.capacity().holds)
    for a, b in combinations(pods, 2):
        locality = a.order.locality, b.order.locality
        named = b.project_id in locality[0].apart_from or a.project_id in locality[1].apart_from
        if a.project_id != b.project_id and (locality[0].exclusive or locality[1].exclusive or named):
            assert not leaves(house, a) & leaves(house, b)
