"""Writes that the database refuses for a moment, as for a lock: the worker goes on."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest

from tests.engine.changes.test_change_loop import apply, settle
from tests.engine.hold.test_killed import ONE, Fate, end_hold
from tests.engine.hold.test_killed import house as house
from tests.engine.house import House
from tests.engine.life.test_parts import small
from tests.engine.timehouse import look
from tests.helpers.statements import OnStatements
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.errors import WeftError
from weft.model.pod import PodState
from weft.model.resources import Kind

pytestmark = pytest.mark.landing


def refuse() -> None:
    raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")


def test_release_that_could_not_be_written_is_tried_again(house: House) -> None:
    """The pod isn't called RELEASED without a receipt, and with its nodes."""
    pod = house.ready()
    house.release(pod)
    assert isinstance(house.database, OnStatements)
    house.database.once("release_held", refuse)
    while house.worker.run_once():
        pass
    assert look(house, pod).state is PodState.RELEASING
    house.run(pod, PodState.RELEASED)
    assert house.store.records.receipt(pod.id) is not None and not house.store.capacity().holds


class Refusal(Fate):
    """Refuses the n-th statement from now on, or loses its answer; says which that was."""

    what = ""

    def strike(self, name: str) -> None:
        self.what = name
        if self.after:
            raise psycopg.OperationalError("the connection is lost")
        refuse()

    def visits(self, house: House, pod: PodRecord, statement: int, after: bool) -> bool:
        """Visit as long as the pod is due; returns whether a statement was refused."""
        self.left, self.after, self.what = statement, after, ""
        for _ in range(2):
            try:
                while house.worker.run_once():
                    pass
            except WeftError:
                pass
        refused, self.left = not self.left, 0
        end_hold(house, pod)
        return refused


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_pod_survives_a_refusal_of_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """On its way to READY and back nothing is created twice, and it isn't RELEASED without a receipt."""
    refusal, refused, statement = Refusal(house, monkeypatch), True, 0
    while refused:
        statement += 1
        pod = house.order(ONE.model_copy(update={"name": f"p{statement}"}))
        refused = refusal.visits(house, pod, statement, after)
        house.run(pod, PodState.READY)
        made = Counter(thing.name for thing in house.cloud.things())
        assert set(made.values()) == {1}, f"made twice, {refusal.what} refused"
        house.release(pod)
        refused |= refusal.visits(house, pod, statement, after)
        house.run(pod, PodState.RELEASED)
        receipt = house.store.records.receipt(pod.id)
        assert receipt is not None and receipt.receipt.clean, refusal.what
        assert not house.store.capacity().holds and not house.cloud.things(), refusal.what
    assert statement > 5


@pytest.mark.nightly(reason="a pod's life is refused by day, too")
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_replacement_survives_a_refusal_of_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    refusal, refused, statement = Refusal(house, monkeypatch), True, 0
    pod = house.run(house.order(ONE), PodState.READY)
    place = _place(house)
    while refused:
        statement += 1
        node = house.store.pods.find(str(pod.id), None).nodes[0]
        house.service.pods.replace_node(house.request(), "train", Replacement(node=node))
        refused = refusal.visits(house, pod, statement, after)
        settle(house, pod)
        assert _place(house) == place, refusal.what
        assert len(house.store.capacity().holds) == 1
        house.service.nodes.accept(house.operator, node)
    assert statement > 4


@pytest.mark.nightly(reason="a pod's life is refused by day, too")
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_change_survives_a_refusal_of_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    refusal, refused, statement = Refusal(house, monkeypatch), True, 0
    pod = house.run(house.order(small("p", 3)), PodState.READY)
    while refused:
        statement += 1
        refused = False
        for count in (2, 3):
            apply(house, small("p", count))
            refused |= refusal.visits(house, pod, statement, after)
            now = settle(house, pod)
            assert now.state is PodState.READY and now.ready_generation == now.generation, refusal.what
            there = Counter(t.name for t in house.cloud.things(Kind.SERVER))
            assert set(there.values()) == {1} and len(there) == count, refusal.what
            assert [row.leaving for row in house.store.capacity().parts] == [False] * count, refusal.what
    assert statement > 4


def _place(house: House) -> Counter[tuple[str, str]]:
    servers = ((t.kind, t.name) for t in house.cloud.things(Kind.SERVER))
    return Counter((*servers, *((t.kind, str(t.fields["address"])) for t in house.cloud.things(Kind.PORT))))
