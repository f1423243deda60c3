"""Two operators, or an operator and weft itself, at one moment: each in a process of its own, in both orders.

Both have read what they need and wait for the same lock, so neither knows of the other. The second is refused with one
sentence, or what both asked for is done; never half of it, and never by a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.base.test_locks import locked
from tests.engine.changes.test_change_loop import held, members, settle, sized
from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import House, policy
from tests.engine.replace.test_repairs import order
from tests.engine.replace.test_replace import places
from tests.engine.timehouse import HandClock, look
from tests.helpers.waiting import wait_for
from weft.app.desk import Desk
from weft.app.repairs import Replacer
from weft.app.service import Service
from weft.engine.base.database import Database
from weft.engine.nodes.failures import claim_failure, refresh_failures
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError, RefusedError, WeftError
from weft.model.pod import PodState
from weft.model.site import Site
from weft.model.views import DrainRequest

Verb = Callable[[Service], object]
CAPACITY = "SELECT pg_advisory_xact_lock(hashtext('weft.capacity'))"
_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
ALIKE = pytest.mark.parametrize(
    "turned",
    [False, pytest.param(True, marks=pytest.mark.nightly(reason="both ask the same; by day in one order"))],
    ids=["in order", "turned"],
)
"""Orders of two that ask for the same, or for things that don't exclude each other."""
BOTH = pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned"])


class Desks:
    """Two API processes on one database, each with connections of its own."""

    def __init__(self, house: House, other: Database) -> None:
        self.house, self.other = house, other
        self._services = house.service, house.new_service(other)

    def meet(self, one: Verb, other: Verb, turned: bool, lock: str = CAPACITY) -> list[Exception | None]:
        """Call both verbs so that both wait for one lock; returns what each raised. Args: turned: the second one gets
        the lock first."""
        asked = list(zip((one, other), self._services, strict=True))
        with ThreadPoolExecutor(2) as pool:
            done: dict[int, Future[object]] = {}
            with locked(self.house, lock) as holder:
                for index in (1, 0) if turned else (0, 1):
                    verb, service = asked[index]
                    done[index] = pool.submit(verb, service)
                    wait_for(lambda: self._waiting() >= sum(not one.done() for one in done.values()))
                holder.commit()
            errors = [done[index].exception() for index in (0, 1)]
        for error in errors:
            assert error is None or isinstance(error, WeftError), repr(error)
            assert error is None or "deadlock" not in str(error)
        return [error if isinstance(error, Exception) else None for error in errors]

    def _waiting(self) -> int:
        found: Any = sql(self.house, _WAITING)
        return int(found[0][0])


@pytest.fixture
def desks(house: House, database_url: str) -> Generator[Desks]:
    other = Database(database_url)
    other.clock, other.gate = house.database.clock, house.gate
    try:
        yield Desks(house, other)
    finally:
        other.close()


def replacing(house: House, node: str, by: str | None = None) -> Verb:
    return lambda service: service.pods.replace_node(house.operator, "train", Replacement(node=node, by=by))


def another(house: House, pod: PodRecord) -> str:
    return next(n.name for n in house.site.nodes if n.role == "compute" and n.name not in pod.nodes)


def without(site: Site, node: str) -> Site:
    """The site without a node and its cables."""
    links = tuple(one for one in site.links if not one.b.startswith(f"{node}/"))
    return site.model_copy(update={"nodes": tuple(n for n in site.nodes if n.name != node), "links": links})


def said(error: Exception | None) -> str:
    """The error's text; fails unless it is one sentence."""
    text = str(error)
    assert text and "\n" not in text and len(text) < 600, text
    return text


def sound(house: House, pod: PodRecord) -> PodRecord:
    """Visit the pod; fails unless it serves as ordered, on nodes of its own alone, with each place once."""
    now = settle(house, pod)
    count = now.order.nodes.count
    assert len(now.nodes) == count and held(house, now) == set(now.nodes) == members(house, now)
    assert sorted(name for name, _ in places(house).values()) == [f"train-{n}" for n in range(count)]
    assert not house.service.audits.run(house.operator).findings
    return now


@ALIKE
def test_one_node_replaced_by_two_is_replaced_once(house: House, desks: Desks, turned: bool) -> None:
    pod = house.ready(sized(2))
    errors = desks.meet(replacing(house, pod.nodes[0]), replacing(house, pod.nodes[0]), turned)
    (refused,) = (e for e in errors if e is not None)
    assert isinstance(refused, ConflictError) and said(refused)
    assert sound(house, pod).generation == 2


@ALIKE
def test_two_nodes_of_a_pod_replaced_by_two_are_replaced_one_after_the_other(
    house: House, desks: Desks, turned: bool
) -> None:
    pod = house.ready(sized(3))
    verbs = [replacing(house, node) for node in pod.nodes[:2]]
    errors = desks.meet(verbs[0], verbs[1], turned)
    (refused,) = (n for n, e in enumerate(errors) if e is not None)
    assert isinstance(errors[refused], ConflictError) and "generation 2" in said(errors[refused])
    verbs[refused](house.service)
    now = sound(house, pod)
    assert now.generation == 3 and set(pod.nodes) & set(now.nodes) == {pod.nodes[2]}


@ALIKE
def test_drain_and_replacement_of_one_node_are_both_done(house: House, desks: Desks, turned: bool) -> None:
    """Both are done; the drain's answer names the pod that is there at that moment."""
    pod = house.ready(sized(2))
    wanted = DrainRequest(target=pod.nodes[0], by=house.clock.now() + timedelta(hours=1))
    errors = desks.meet(
        replacing(house, pod.nodes[0]), lambda service: service.nodes.drain(house.operator, wanted), turned
    )
    assert errors == [None, None]
    now = sound(house, pod)
    assert pod.nodes[0] not in now.nodes
    assert [d.node for d in house.service.nodes.drains(house.operator)] == [pod.nodes[0]]


@BOTH
def test_node_that_is_drained_does_not_take_a_place(house: House, desks: Desks, turned: bool) -> None:
    """Or it has it already, when the drain comes, and the drain says so."""
    pod = house.ready(sized(2))
    by = another(house, pod)
    found: list[Any] = []
    errors = desks.meet(
        replacing(house, pod.nodes[0], by),
        lambda service: found.append(service.nodes.drain(house.operator, DrainRequest(target=by))),
        turned,
    )
    assert errors[1] is None
    if errors[0] is None:
        assert [one.pod for one in found[0].pods] == ["train"] and by in sound(house, pod).nodes
    else:
        assert isinstance(errors[0], InputError | RefusedError) and "available: drain" in said(errors[0])
        assert not found[0].pods and look(house, pod).generation == 1
    assert (errors[0] is None) is not turned


@BOTH
def test_node_that_is_held_does_not_take_a_place(house: House, desks: Desks, turned: bool) -> None:
    """Or the hold counts once the pod has ended."""
    pod = house.ready(sized(2))
    by = another(house, pod)
    errors = desks.meet(
        replacing(house, pod.nodes[0], by),
        lambda service: service.nodes.hold(house.operator, by, "cabling"),
        turned,
    )
    assert errors[1] is None and (errors[0] is None) is not turned
    if turned:
        assert isinstance(errors[0], InputError | RefusedError) and "hold (held for cabling)" in said(
            errors[0]
        )
    assert (by in sound(house, pod).nodes) is not turned
    assert "cabling" in {h.what for h in house.service.nodes.holds(house.operator)}


def drained(house: House, clock: HandClock) -> tuple[PodRecord, Any]:
    """A pod with a node that should be empty by now, and the failure that one worker is about to mend."""
    pod = house.ready(order())
    by = clock.now() + timedelta(minutes=10)
    house.service.nodes.drain(house.operator, DrainRequest(target=pod.nodes[0], by=by))
    clock.forward(minutes=11)
    refresh_failures(house.database, house.keeper.site())
    failure = claim_failure(house.database)
    assert failure is not None
    return pod, failure


@BOTH
def test_drain_ended_at_its_time_leaves_the_node_or_has_replaced_it(
    house: House, clock: HandClock, desks: Desks, turned: bool
) -> None:
    pod, failure = drained(house, clock)
    made = Replacer(Desk(house.store, house.keeper, policy(), house.time, house.listener, house.pulse))
    errors = desks.meet(
        lambda service: made.replace_failed(failure),
        lambda service: service.nodes.undrain(house.operator, pod.nodes[0]),
        turned,
    )
    assert errors[1] is None and (errors[0] is None) is not turned
    if turned:
        assert isinstance(errors[0], ConflictError) and "no longer fails" in said(errors[0])
    assert (pod.nodes[0] in sound(house, pod).nodes) is turned
    assert not house.service.nodes.drains(house.operator)


@BOTH
def test_replacement_by_hand_at_the_time_of_a_drain_is_the_only_one(
    house: House, clock: HandClock, desks: Desks, turned: bool
) -> None:
    pod, failure = drained(house, clock)
    made = Replacer(Desk(house.store, house.keeper, policy(), house.time, house.listener, house.pulse))
    errors = desks.meet(lambda service: made.replace_failed(failure), replacing(house, pod.nodes[0]), turned)
    assert [e is None for e in errors] == [not turned, turned]
    assert said(errors[0] or errors[1]) and sound(house, pod).generation == 2


@ALIKE
def test_pod_released_while_a_node_is_replaced_is_released(house: House, desks: Desks, turned: bool) -> None:
    """The replacement is refused, or part of what is released."""
    pod = house.ready(sized(2))
    lock = f"{CAPACITY}, (SELECT 1 FROM owner WHERE id = '{pod.id}' FOR UPDATE)"
    errors = desks.meet(
        replacing(house, pod.nodes[0]),
        lambda service: service.pods.release(house.operator, "train"),
        turned,
        lock,
    )
    assert errors[1] is None
    assert errors[0] is None or said(errors[0])
    house.run(pod, PodState.RELEASED)
    assert house.service.pods.show(house.operator, str(pod.id)).changing_since is None
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and not house.store.capacity().holds


@ALIKE
def test_replacement_and_abandonment_of_a_release_are_both_refused(
    house: House, desks: Desks, turned: bool
) -> None:
    """Nothing hinders the release: it goes on to its clean end."""
    pod = house.ready(sized(2))
    replacing(house, pod.nodes[0])(house.service)
    house.service.pods.release(house.operator, "train")
    lock = f"{CAPACITY}, (SELECT 1 FROM owner WHERE id = '{pod.id}' FOR UPDATE)"
    errors = desks.meet(
        replacing(house, pod.nodes[1]),
        lambda service: service.pods.abandon(house.operator, "train", "no power"),
        turned,
        lock,
    )
    assert all(isinstance(error, ConflictError) for error in errors)
    assert "released" in said(errors[0]) and said(errors[1])
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and not house.store.capacity().holds


@ALIKE
def test_hold_accepted_by_two_is_ended_once(house: House, desks: Desks, turned: bool) -> None:
    node = house.site.nodes[0].name
    house.service.nodes.hold(house.operator, node, "cabling")

    def accept(service: Service) -> object:
        return service.nodes.accept(house.operator, node, "cabling")

    errors = desks.meet(accept, accept, turned, "SELECT FROM acceptance FOR UPDATE")
    assert [e is None for e in errors] == [not turned, turned]
    assert isinstance(refused := errors[0] or errors[1], ConflictError) and "isn't held" in said(refused)
    entries = house.service.nodes.history(house.operator, node).entries
    assert [e.code for e in entries].count("NODE_ACCEPTED") == 1


@BOTH
@pytest.mark.parametrize("which", ["replaced", "takes its place"])
def test_site_without_a_node_and_a_replacement_with_it_exclude_each_other(
    house: House, desks: Desks, which: str, turned: bool
) -> None:
    """Either the site is refused while the pod has the node, or the replacement is made by the new site."""
    pod = house.ready(sized(2))
    by = another(house, pod)
    site, gone = house.store.site().site, pod.nodes[0] if which == "replaced" else by
    smaller = without(site, gone)
    errors = desks.meet(
        replacing(house, pod.nodes[0], by),
        lambda service: service.site.activate(house.operator, smaller.model_dump(mode="json")),
        turned,
    )
    left = {n.name for n in house.store.site().site.nodes}
    assert all(error is None or said(error) for error in errors) and None in errors
    if by not in left:
        assert errors[0] is not None and look(house, pod).nodes == pod.nodes
        house.service.pods.replace_node(house.operator, "train", Replacement(node=pod.nodes[0]))
    assert left >= set(look(house, pod).nodes)
