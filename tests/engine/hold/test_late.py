"""A worker that stalls past its hold and wakes: what it may change then, and what others may assume meanwhile."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import psycopg
import pytest

from tests.engine.house import QUICK, House, stood_still
from tests.engine.timehouse import look
from weft.engine.base.database import Database
from weft.engine.base.world import World
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.errors import PermanentError, TemporaryError
from weft.model.logtext import formatter
from weft.model.pod import PodState
from weft.model.resources import Kind, Observed, Outcome, Resource
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud, Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    # One request at a time: one that passed the fence already may come later, which `late` is for, and is 0 here.
    house = House(database, database_url, replace(QUICK, calls_at_once=1))
    yield house
    house.close()


def run_out(house: House, pod: PodRecord) -> None:
    """Let the pod's hold run out, as if its holder had been stopped for longer than that."""
    # In this order: a proof of the hold in between, by another thread of the worker's, would be fresh.
    change(house, pod, "held_until = now() - interval '1 s', next_at = now()")
    stood_still(house.database)


def change(house: House, pod: PodRecord, what: str) -> None:
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(f"UPDATE pod SET {what} WHERE id = %s", [pod.id])  # type: ignore[arg-type]


def release_elsewhere(house: House, pod: PodRecord) -> None:
    """Let the pod's hold run out, and another worker release it."""
    run_out(house, pod)
    house.release(pod)
    other = house.new_worker("w2", QUICK)
    for _ in range(20):
        house.store.wake(pod.id)
        if not other.run_once() or look(house, pod).state is PodState.RELEASED:
            return


def test_woken_worker_changes_nothing_more(house: House) -> None:
    """It stalls inside `create`, right before the request: the hold is asked for again, and the request isn't made."""
    pod = house.order()
    house.cloud.meanwhile("create", lambda: release_elsewhere(house, pod))
    house.worker.run_once()
    assert look(house, pod).state is PodState.RELEASED
    assert not house.cloud.things(), "made on nodes that were given back, under a clean receipt"


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
def test_every_kind_of_change_checks_the_hold_first(house: House, verb: str) -> None:
    """A worker that lost the pod neither creates, nor repairs, nor removes."""
    pod = house.ready()
    if verb == "create":
        house.cloud.lose(house.cloud.thing("security_group"))
    elif verb == "update":
        house.cloud.thing("security_group").fields["ssh_from"] = ("0.0.0.0/0",)
    else:
        house.release(pod)
    house.store.wake(pod.id)
    before = [(t.id, dict(t.fields), t.gone_at) for t in house.cloud.things()]

    def taken() -> None:
        run_out(house, pod)
        change(house, pod, "token = token + 1, held_until = now() + interval '1 min'")

    house.cloud.meanwhile(verb, taken)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert look(house, pod).token > pod.token + 1, "it was lost in the midst of that call"
    assert [(t.id, dict(t.fields), t.gone_at) for t in house.cloud.things()] == before


class UnderWay:
    """The cloud as a request meets it that was sent before the hold ran out: no fence holds it back any more."""

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud
        self.kinds = cloud.kinds

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        return self._cloud.find(scope, wanted, ids)

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        return self._cloud.create(replace(scope, fence=lambda: None), wanted, ids)

    def __getattr__(self, name: str) -> object:
        return getattr(self._cloud, name)


def test_capacity_returns_after_pending_requests(house: House) -> None:
    """A request that was sent before the hold ran out has its effect later: the receipt waits, and it is removed."""
    pod = house.order()
    patient = replace(QUICK, late=200.0)
    slow = house.world
    under_way = World({**slow.resources, "lab": UnderWay(house.cloud)}, slow.fabrics, slow.clouds)  # type: ignore[dict-item]

    def elsewhere() -> None:
        run_out(house, pod)
        house.release(pod)
        other = house.new_worker("w2", patient)
        assert other.run_once()
        waiting = look(house, pod)
        assert waiting.state is PodState.RELEASING
        assert "outcome of a request is unknown" in waiting.reason
        assert waiting.late_until and f"{waiting.late_until:%H:%M:%S}Z" in waiting.reason
        assert set(pod.nodes) <= house.store.capacity().holds.keys()

    house.cloud.meanwhile("create", elsewhere)
    house.world = under_way
    house.keeper = type(house.keeper)(house.store, lambda _: house.world)
    house.new_worker("w1").run_once()
    house.world = slow
    assert house.cloud.things(), "the late request has come to be"
    change(house, pod, "late_until = now() - interval '1 s', next_at = now()")
    house.keeper = type(house.keeper)(house.store, lambda _: house.world)
    house.worker = house.new_worker("w3", patient)
    ended = house.run(pod, PodState.RELEASED)
    assert not house.cloud.things() and not house.store.capacity().holds
    receipt = house.store.records.receipt(pod.id)
    assert receipt and receipt.receipt.late_until == ended.late_until
    assert verify(receipt.model_dump(mode="json"), receipt.public_key).valid


def test_orderly_hand_back_leaves_nothing_to_wait_for(house: House) -> None:
    """Only a hold that ran out makes a release wait; the receipt has nothing of it otherwise."""
    house.loop = replace(QUICK, late=200.0)
    house.worker = house.new_worker("w1")
    pod = house.ready()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt and receipt.receipt.late_until is None
    assert "late_until" not in receipt.receipt.model_dump(mode="json")


# -- what is retried, and what is reported ----------------------------------------------------------------------------


def test_refused_request_does_not_count_as_a_breakage(house: House) -> None:
    """Two HTTP 500s and one server in ERROR count as one breakage: it is recreated, and the pod becomes READY."""
    house.cloud.plant(Fault.ERROR_500, verb="create", kind=Kind.SERVER, times=2)
    house.cloud.plant(
        Fault.BROKEN, kind=Kind.SERVER, key="server/*", times=1, reason="No valid host was found."
    )
    pod = house.run(house.order(), PodState.READY)
    assert not [e for e in house.store.records.events(pod.id, 0) if e.type == "alarm"]


def test_failed_pod_raises_an_alarm(house: House) -> None:
    """As an event and in the metrics; and it says how often what broke."""
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    alarms = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "alarm"]
    assert len(alarms) == 1 and "it failed 3 times" in alarms[0]
    assert {r.state: r.alarmed for r in house.store.counts().pods} == {"FAILED": 1}


class Denying(UnderWay):
    """A cloud that denies weft access for a while."""

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        raise TemporaryError("create", "nova", "HTTP 403 Forbidden", alarming=True)


def test_lost_permission_waits_with_an_alarm(house: House) -> None:
    """A role is taken away and given back: the pod continues by itself, without another order."""
    allowed = house.world
    denied = World({**allowed.resources, "lab": Denying(house.cloud)}, allowed.fabrics, allowed.clouds)  # type: ignore[dict-item]
    house.keeper = type(house.keeper)(house.store, lambda _: denied)
    worker = house.new_worker("w1")
    pod = house.order()
    for _ in range(3):
        house.store.wake(pod.id)
        worker.run_once()
    assert look(house, pod).state is PodState.WIRING and "HTTP 403" in look(house, pod).reason
    assert any("HTTP 403" in e.message for e in house.store.records.events(pod.id, 0) if e.type == "alarm")
    house.run(pod, PodState.READY)


class Odd(UnderWay):
    """A cloud whose answers weft can't interpret."""

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        logging.getLogger("weft.drivers").warning("it is odd")
        raise KeyError("name")


def test_defect_in_a_visit_shows_on_the_pod(house: House, caplog: pytest.LogCaptureFixture) -> None:
    """What wasn't seen isn't fine: READY becomes DEGRADED, unknown, with an alarm; and comes back when it is gone.
    Lines of the log name the pod, also those of the threads that ask for the visit."""
    caplog.handler.setFormatter(formatter("json", ""))
    pod = house.ready()
    fine = house.world
    odd = World({**fine.resources, "lab": Odd(house.cloud)}, fine.fabrics, fine.clouds)  # type: ignore[dict-item]
    house.keeper = type(house.keeper)(house.store, lambda _: odd)
    house.store.wake(pod.id)
    assert house.new_worker("w1").run_once()
    seen = look(house, pod)
    assert seen.state is PodState.DEGRADED
    assert seen.reason.startswith("defect in weft (KeyError: 'name')")
    assert any(
        "defect in weft" in e.message for e in house.store.records.events(pod.id, 0) if e.type == "alarm"
    )
    lines = [json.loads(line) for line in caplog.text.splitlines()]
    said = {line["logger"]: line["pod"] for line in lines if "pod" in line}
    assert said == {"weft.engine.watch.worker": str(pod.id), "weft.drivers": str(pod.id)}
    house.run(pod, PodState.READY)


@pytest.mark.parametrize(
    ("delay", "kept"),
    [(86400.0, 3600.0), (float("inf"), 3600.0), (float("nan"), 5.0), (-1.0, 0.0), (7.5, 7.5)],
)
def test_delays_from_outside_are_bounded(house: House, delay: float, kept: float) -> None:
    """Whatever delay a service names, the pod's next visit is within a time that a person can await."""
    assert TemporaryError("ask", "a-stranger", "busy", delay=delay).delay == kept
    pod = house.order()
    house.cloud.meanwhile("create", lambda: busy(delay))
    house.worker.run_once()
    with psycopg.connect(house.database.url) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM next_at - now()) FROM pod WHERE id = %s", [pod.id]
        ).fetchone()
    assert row and float(row[0]) <= kept


def busy(delay: float) -> None:
    raise TemporaryError("ask", "a-stranger", "busy", delay=delay)


def test_final_error_has_no_retry_time() -> None:
    """A `PermanentError` has no `delay`."""
    assert not hasattr(PermanentError("ask", "a-stranger", "no", "change it"), "delay")
