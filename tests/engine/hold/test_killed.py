"""A worker killed at any of its statements: another one finishes, nothing is created twice, nothing stays."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.engine.changes.test_change_loop import apply, settle
from tests.engine.house import ORDER, House, impatient, nothing_lands
from tests.engine.life.test_parts import small
from tests.engine.replace.test_repairs import limits, repairs
from tests.engine.replace.test_replace import visit
from tests.helpers.amounts import share
from tests.helpers.statements import OnStatements, on_statements
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.change import Replacement
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import AuditLogSearch, DrainRequest
from weft.testing.cloud import FakeCloud, Fault
from weft.testing.fabric import FakeFabric

pytestmark = pytest.mark.landing

ONE = ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": 1})})


class Killed(BaseException):
    """No `except Exception` stops it: nothing is tidied up, as after SIGKILL."""


class Fate:
    """Kills the caller of the n-th statement from now on, before PostgreSQL has it, or after."""

    def __init__(self, house: House, patch: pytest.MonkeyPatch) -> None:
        self.left, self.after = 0, False
        assert isinstance(house.database, OnStatements)
        house.database.before, house.database.after = self._before, self._after

    def _before(self, name: str, values: Mapping[str, object]) -> None:
        if self.left == 1 and not self.after:
            self.left = 0
            self.strike(name)

    def _after(self, name: str, values: Mapping[str, object]) -> None:
        if self.left == 1:
            self.left = 0
            self.strike(name)
        self.left -= bool(self.left)

    def strike(self, name: str) -> None:
        """Kill the caller at the statement of this name."""
        raise Killed


class FateHere(Fate):
    """The same, only at statements of the caller's thread: others end with the process, and have nothing to undo."""

    def _before(self, name: str, values: Mapping[str, object]) -> None:
        if threading.current_thread() is threading.main_thread():
            super()._before(name, values)

    def _after(self, name: str, values: Mapping[str, object]) -> None:
        if threading.current_thread() is threading.main_thread():
            super()._after(name, values)


class FateOfRequests(Fate):
    """Kills the caller at the n-th request that changes something in the cloud or the fabric."""

    def __init__(self, house: House, patch: pytest.MonkeyPatch) -> None:
        self.left, self.after = 0, False
        for driver in (FakeCloud, FakeFabric):
            for verb in ("create", "update", "delete"):
                patch.setattr(driver, verb, self._deadly(getattr(driver, verb)))

    def _deadly(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if not self.left:
                return ask(*args)
            self.left -= 1
            if self.left:
                return ask(*args)
            if self.after:
                ask(*args)
            raise Killed

        return run


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    with on_statements(database) as watched:
        house = House(watched, database_url)
        yield house
        house.close()


def killed_at(house: House, fate: Fate, statement: int, after: bool, pod: PodRecord, wakes: int = 0) -> bool:
    """Visit until the worker dies, and let its hold run out; False if it came through.

    Args:
        statement: number of the statement, or request, at which it dies.
        after: it dies once that was carried out.
        wakes: how often the pod is visited again before it is due.
    """
    worker = house.new_worker("mortal")
    fate.left, fate.after = statement, after
    try:
        for _ in range(1 + wakes):
            while worker.run_once():
                pass
            if wakes:
                house.store.wake(pod.id)
    except Killed:
        end_hold(house, pod)
        return True
    finally:
        fate.left = 0
    return False


def end_hold(house: House, pod: PodRecord) -> None:
    """Let the worker's hold run out."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE pod SET held_until = now() - interval '1 s' WHERE id = %s AND held_until > now()",
            [pod.id],
        )


@pytest.mark.parametrize("at", [Fate, FateOfRequests], ids=["statement", "request"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_pod_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool, at: type[Fate]
) -> None:
    """At each statement, or request, of a pod's way to READY, and of the release of the same pod: the next worker
    finishes it."""
    fate = at(house, monkeypatch)
    died = True
    statement = 0
    while died:
        statement += 1
        pod = house.order(ONE.model_copy(update={"name": f"p{statement}"}))
        died = killed_at(house, fate, statement, after, pod)
        house.run(pod, PodState.READY)
        made = Counter(thing.name for thing in house.cloud.things())
        assert set(made.values()) == {1}, f"made twice, killed at {at.__name__} {statement}"
        house.release(pod)
        died |= killed_at(house, fate, statement, after, pod)
        house.run(pod, PodState.RELEASED)
        assert not house.cloud.things() and not house.fabric.snapshot().segments.get(pod.plan.segment or 0)
        receipt = house.store.records.receipt(pod.id)
        assert receipt and verify(receipt.model_dump(mode="json"), receipt.public_key).valid
        assert receipt.receipt.clean and not house.store.capacity().holds
        states = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "state"]
        assert states[-1] == "RELEASED" and "READY" in states
    assert statement > 5, "most of the way was one statement?"


@pytest.mark.parametrize("at", [Fate, FateOfRequests], ids=["statement", "request"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_change_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool, at: type[Fate]
) -> None:
    """A pod on shared nodes gets fewer servers and then more: the next worker finishes it."""
    fate, died, statement = at(house, monkeypatch), True, 0
    pod = house.run(house.order(small("p", 3)), PodState.READY)
    while died:
        statement += 1
        died = False
        for count in (2, 3):
            apply(house, small("p", count))
            died |= killed_at(house, fate, statement, after, pod)
            settle(house, pod)
            there = Counter(t.name for t in house.cloud.things(Kind.SERVER))
            assert set(there.values()) == {1} and len(there) == count, f"killed at {statement}: {there}"
            rows = house.store.capacity().parts
            assert [row.leaving for row in rows] == [False] * count, f"killed at {statement}"
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


@pytest.mark.parametrize("at", [Fate, FateOfRequests], ids=["statement", "request"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_replacement_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool, at: type[Fate]
) -> None:
    """No two servers or ports ever have the pod's one place, and the next worker finishes it."""
    fate, died, statement = at(house, monkeypatch), True, 0
    pod = house.run(house.order(ONE), PodState.READY)
    place = _place(house)
    while died:
        statement += 1
        node = house.store.pods.find(str(pod.id), None).nodes[0]
        house.service.pods.replace_node(house.request(), "train", Replacement(node=node))
        died = killed_at(house, fate, statement, after, pod, wakes=4 * (at is FateOfRequests))
        settle(house, pod)
        assert _place(house) == place, f"killed at {at.__name__} {statement}"
        assert len(house.store.capacity().holds) == 1
        house.service.nodes.accept(house.operator, node)
    assert statement > 4, "most of the way was one statement?"


def test_successor_gets_its_own_place_if_the_old_stays_taken_after_a_kill(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed worker may have requested the new server. Once no such request can take effect, and nothing is there,
    the new node gets a number of its own, as if no worker had been killed."""
    fate = Fate(house, monkeypatch)
    pod = house.run(house.order(ONE), PodState.READY)
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.SERVER, times=None)
    house.service.pods.replace_node(house.request(), "train", Replacement(node=pod.nodes[0]))
    assert killed_at(house, fate, 5, False, pod)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET late_until = now() + interval '1 h'")
    house.worker = house.new_worker("impatient", impatient())
    visit(house, pod, 6)
    assert {t.name for t in house.cloud.things(Kind.SERVER)} == {"train-0"}, "it may still land"
    nothing_lands(house.database)
    now = visit(house, pod, 12)
    assert now.state is PodState.READY and set(house.store.capacity().quarantines) == set(pod.nodes)
    assert {t.name for t in house.cloud.things(Kind.SERVER)} == {"train-0", "train-1"}


@pytest.mark.parametrize("at", [Fate, FateOfRequests], ids=["statement", "request"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_replaced_part_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool, at: type[Fate]
) -> None:
    """A server on a shared node is replaced: two servers, each once, and two parts, whatever was killed."""
    fate, died = at(house, monkeypatch), True
    pod = house.run(house.order(small("p", 2)), PodState.READY)
    for statement in share(range(1, 200), 2 * after + (at is Fate)):
        server = min(t.name for t in house.cloud.things(Kind.SERVER))
        generation = house.store.pods.find(str(pod.id), None).generation
        house.service.pods.replace_node(house.request(), "p", Replacement(node=server))
        died = killed_at(house, fate, statement, after, pod)
        now = settle(house, pod)
        there = Counter(t.name for t in house.cloud.things(Kind.SERVER))
        assert set(there.values()) == {1} and len(there) == 2, f"killed at {statement}: {there}"
        assert [row.leaving for row in house.store.capacity().parts] == [False] * 2
        assert now.generation == generation + 1
        if not died:
            break
    assert not died and statement > 4, "most of the way was one statement?"
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_release_for_a_drain_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Killed in the turn that begins it: a later turn begins it, once, with one event and one entry."""
    fate, died, number = FateHere(house, monkeypatch), True, 0
    for statement in range(1, 30):
        name = f"train{statement}"
        given = {"name": name, "on_drain": "release", "nodes": ONE.nodes.model_dump(exclude_none=True)}
        pod, number = house.run(house.order(Order.model_validate(given)), PodState.READY), statement
        by = house.database.now() + timedelta(hours=1)
        house.service.nodes.drain(house.operator, DrainRequest(target=pod.nodes[0], by=by))
        with psycopg.connect(house.database.url, autocommit=True) as connection:
            connection.execute("UPDATE drain SET until_at = now()")
        fate.left, fate.after = statement, after
        try:
            repairs(house).tend()
            died = False
        except Killed:
            pass
        fate.left = 0
        repairs(house).tend()
        house.run(pod, PodState.RELEASED)
        events = [e.code for e in house.service.pods.events(house.operator, str(pod.id))]
        assert events.count("POD_ENDS_FOR_DRAIN") == 1, f"killed at statement {statement}"
        signed = house.store.records.receipt(pod.id)
        assert signed is not None and signed.receipt.clean and pod.nodes[0] in (signed.receipt.cause or "")
        house.service.nodes.undrain(house.operator, pod.nodes[0])
        if not died:
            break
    assert not died and number > 5
    entries = house.store.records.audit_log(AuditLogSearch(action="pod release", user="weft"))
    assert len(entries) == number


def _place(house: House) -> Counter[tuple[str, str]]:
    """Names of servers and addresses of ports -> how often each is there."""
    servers = ((t.kind, t.name) for t in house.cloud.things(Kind.SERVER))
    return Counter((*servers, *((t.kind, str(t.fields["address"])) for t in house.cloud.things(Kind.PORT))))


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_replacement_without_a_request_survives_a_worker_killed_at_any_statement(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """Killed in the turn that begins it: a later turn replaces the node, and only once."""
    fate, died = FateHere(house, monkeypatch), True
    limits(house, per_hour=1000)
    pod = house.run(house.order(ONE.model_copy(update={"on_failure": "replace"})), PodState.READY)
    place = _place(house)
    for statement in share(range(1, 200), after):
        before = house.store.pods.find(str(pod.id), None)
        house.service.pods.report_node(house.request(), "train", before.nodes[0], "slow")
        fate.left, fate.after = statement, after
        try:
            repairs(house).tend()
            died = False
        except Killed:
            pass
        fate.left = 0
        with psycopg.connect(house.database.url, autocommit=True) as connection:
            connection.execute("UPDATE node_failure SET next_at = now()")
        repairs(house).tend()
        now = settle(house, pod)
        assert now.generation == before.generation + 1, f"killed at statement {statement}"
        assert _place(house) == place and house.store.capacity().holds.keys() == {*now.nodes}
        assert [hold.node for hold in house.service.nodes.holds(house.operator)] == list(before.nodes)
        house.service.nodes.accept(house.operator, before.nodes[0])
        house.service.nodes.clear_report(house.operator, before.nodes[0])
        if not died:
            break
    assert not died and statement > 10, "most of the turn was one statement?"
