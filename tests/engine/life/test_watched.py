"""A pod with servers is observed, whatever its state. FAILED is its condition, not its end."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace

import psycopg
import pytest

from tests.engine.house import ORDER, QUICK, House
from weft.app.shown import shown
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.agentapi import Tables, TablesQuery
from weft.model.pod import Aspect, Phase, PodState, find
from weft.model.resources import Kind
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def visit(house: House, pod: PodRecord) -> PodRecord:
    house.store.wake(pod.id)
    house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def message(pod: PodRecord, aspect: Aspect) -> str:
    condition = find(pod.conditions, aspect)
    assert condition is not None, pod.conditions
    return condition.message


def subjects(house: House, pod: PodRecord) -> set[str]:
    report = house.service.audits.run(house.operator)
    return {f.subject for f in report.findings if f.pod_id == str(pod.id)}


def test_unrepairable_port_does_not_stop_observation(house: House) -> None:
    """The tenant edits it; the pod goes on being observed, what happens next is reported too, and it comes back."""
    pod = house.ready()
    port = house.cloud.thing(f"port/{pod.nodes[0]}/mlx5_0")
    address = port.fields["address"]
    port.fields["address"] = "192.0.2.1"
    for _ in range(3):
        pod = visit(house, pod)
        assert (pod.phase, pod.state) == (Phase.SERVING, PodState.DEGRADED)
    lost = house.cloud.thing(f"server/{pod.nodes[1]}")
    house.cloud.lose(lost)
    visit(house, pod)
    seen = {r.key: r for r in house.store.pods.resources(pod.id)}
    assert seen[f"server/{pod.nodes[1]}"].reason == "it is missing"
    assert {f"port/{pod.nodes[0]}/mlx5_0", f"server/{pod.nodes[1]}"} <= subjects(house, pod)
    port.fields["address"] = address
    house.store.request_repair(pod.id)
    pod = house.run(pod, PodState.READY)
    assert message(pod, Aspect.READY) == pod.reason == ""


def test_failed_pod_is_still_observed(house: House) -> None:
    """One server never comes, the other runs: what a tenant does to its port is reported, and the audit sees it."""
    house.cloud.plant(Fault.BROKEN, key="server/gpu01", times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    (other,) = set(pod.nodes) - {"gpu01"}
    assert pod.phase is Phase.BUILDING and "No valid host" in pod.reason
    port = f"port/{other}/mlx5_0"
    house.cloud.thing(port).fields["address"] = "192.0.2.1"
    pod = visit(house, pod)
    assert pod.state is PodState.FAILED and "No valid host" in pod.reason, "why it failed stays"
    assert "address is 192.0.2.1" in message(pod, Aspect.READY)
    assert port in subjects(house, pod)
    findings = [
        f for f in house.service.audits.run(house.operator, repair=True).findings if f.subject == port
    ]
    assert [f.repair for f in findings] and "FAILED" in findings[0].repair
    messages = {
        c.type: c.message for c in shown(house.service.pods.show(house.operator, str(pod.id))).conditions
    }
    assert messages[Aspect.PLACED] == "" and "192.0.2.1" not in messages[Aspect.READY]


def test_retry_clears_the_condition_and_continues(house: House) -> None:
    """What exists is kept; what failed is retried with all its attempts."""
    planted = house.cloud.plant(
        Fault.BROKEN, key="server/gpu01", times=None, reason="No valid host was found."
    )
    pod = house.run(house.order(), PodState.FAILED)
    (other,) = set(pod.nodes) - {"gpu01"}
    kept = house.cloud.thing(f"server/{other}").id
    planted.lift()
    house.service.pods.retry(house.request(), str(pod.id))
    again = house.store.pods.find(str(pod.id), None)
    assert again.state is PodState.BOOTING and find(again.conditions, Aspect.FAILED) is None
    assert again.reason == "retry requested"
    pod = house.run(pod, PodState.READY)
    assert house.cloud.thing(f"server/{other}").id == kept
    assert [c.type for c in pod.conditions] == [Aspect.WIRED, Aspect.BOOTED, Aspect.READY]
    assert all(c.status == "true" for c in pod.conditions)


def test_silent_cloud_is_unknown_with_its_own_time(house: House) -> None:
    """READY becomes unknown, not false; the reason is filed under the cloud, not under the fabric."""
    pod = house.ready()
    since = find(pod.conditions, Aspect.WIRED)
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="find", kind=Kind.PORT, times=None)
    pod = visit(house, pod)
    ready = find(pod.conditions, Aspect.READY)
    assert pod.state is PodState.DEGRADED and ready is not None and ready.status == "unknown"
    assert find(pod.conditions, Aspect.WIRED) == since
    found = [f for f in house.service.audits.run(house.operator).findings if f.pod_id == str(pod.id)]
    assert {f.where for f in found if f.category == "unknown"} == {"lab"}
    planted.lift()
    house.run(pod, PodState.READY)


def test_stored_state_matches_the_listed_one(house: House) -> None:
    """The column used by lists and counts is always the summary of phase and conditions."""
    pod = house.order()
    seen: list[str] = []
    house.cloud.plant(Fault.ERROR_500, verb="create", kind=Kind.SERVER, times=1)
    for _ in range(30):
        with house.database.transaction() as tx:
            row = tx.row("pod_by_id", id=pod.id)
        pod = house.store.pods.find(str(pod.id), None)
        assert row is not None and row["state"] == pod.state
        seen.append(pod.state)
        if pod.state is PodState.READY and pod.wanted == "present":
            house.release(pod)
        if pod.state is PodState.RELEASED:
            break
        visit(house, pod)
    assert seen[0] == "PLACED" and seen[-1] == "RELEASED" and "READY" in seen


def test_ready_pods_share_a_reading_of_the_fabric(house: House) -> None:
    """A reading from before the pod was READY, or from before its repair was requested, doesn't count."""
    readings: list[float] = []
    read = house.fabric.managers[0].tables

    def counted(query: TablesQuery) -> Tables:
        readings.append(time.monotonic())
        return read(query)

    house.fabric.managers[0].tables = counted
    house.worker = house.new_worker("patient", replace(QUICK, fabric_age=3600.0))
    one = house.ready()
    other = house.ready(ORDER.model_copy(update={"name": "other"}))
    # An age is counted from the visit's begin: by as much as a later visit reads late, this reading has to be younger.
    time.sleep(2)
    visit(house, other)  # from after it was READY
    before = len(readings)
    assert before
    for pod in (one, other, one):
        visit(house, pod)
    assert len(readings) == before
    new = house.ready(ORDER.model_copy(update={"name": "new"}))
    before = len(readings)
    time.sleep(2)
    visit(house, new)
    assert len(readings) > before, "one from before it was READY is too old"
    before = len(readings)
    visit(house, new)
    assert len(readings) == before
    with psycopg.connect(house.database.url, autocommit=True) as connection:  # by another process
        connection.execute(
            "UPDATE resource SET since = clock_timestamp() WHERE kind = 'segment' AND owner_id = %s", [new.id]
        )
    visit(house, new)
    assert len(readings) > before, "one from before its segment was changed is too old"
    before = len(readings)
    house.store.request_repair(one.id)
    house.worker.run_once()
    assert len(readings) > before
