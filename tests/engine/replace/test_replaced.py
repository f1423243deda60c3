"""Servers that were replaced: the guest of each predecessor may run on, whatever happened to its successor."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.audit.test_sweep import alarms, sweep
from tests.engine.house import QUICK, House
from tests.engine.timehouse import HandClock
from weft.engine.base.database import Database
from weft.engine.proof.departure import read_guests
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.pod import PodState
from weft.model.receipt import ReceiptItem
from weft.model.resources import Kind
from weft.ports.occupants import Ended, Ending
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[House]:
    """A broken server is recreated after a minute."""
    house = House(database, database_url, replace(QUICK, first_delay=60.0, last_delay=60.0), clock)
    yield house
    house.close()


def visit(house: House, pod: PodRecord, times: int = 1, seconds: float = 61.0) -> PodRecord:
    for _ in range(times):
        house.clock.sleep(seconds)
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def row(house: House, pod: PodRecord, node: str) -> ResourceRecord:
    (found,) = (r for r in house.store.pods.resources(pod.id) if r.key == f"server/{node}")
    return found


def guests(house: House, pod: PodRecord) -> dict[str, ReceiptItem]:
    """Server's id -> what the receipt says of its guest."""
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    return {i.subject.split()[-1]: i for i in signed.receipt.items if i.plane == "guest"}


def lose(house: House, node: str) -> Thing:
    """A member deletes a server. Nova removes it from its host, if its nova-compute is up."""
    server = house.cloud.thing(f"server/{node}")
    house.cloud.lose(server)
    return server


def repair(house: House, pod: PodRecord) -> PodRecord:
    house.store.request_repair(pod.id)
    return visit(house, pod, 10)


def test_running_guest_of_a_replaced_server_is_not_forgotten(house: House) -> None:
    """Only Nova deleted it, and the servers that were to replace it never came to the host."""
    pod = house.ready()
    node = pod.nodes[0]
    house.cloud.offers.hosts[node] = "down"
    first = lose(house, node)
    pod, name = repair(house, pod), row(house, pod, node).resource.name
    assert pod.state is PodState.DEGRADED and row(house, pod, node).former[0].id == first.id
    house.release(pod)
    pod = visit(house, pod, 5)
    assert pod.state is PodState.RELEASING and f"{name} {first.id}: Nova's record" in pod.reason
    house.cloud.offers.hosts[node] = "up"
    pod = visit(house, pod, 3)
    assert pod.state is PodState.RELEASING and f"{name} {first.id}: Nova's record" in pod.reason
    assert house.store.records.receipt(pod.id) is None and node in house.store.capacity().held


def test_receipt_has_the_end_of_every_server_on_a_node(house: House) -> None:
    """It was read when the server was replaced: by the time of the release Nova has archived the first one's record."""
    pod = house.ready()
    node = pod.nodes[0]
    first = lose(house, node)
    pod = repair(house, pod)
    assert pod.state is PodState.READY
    second = house.cloud.thing(f"server/{node}")
    house.cloud.ends(first.id, Ending(Ended.NO_RECORD, "archived"))
    house.release(pod)
    visit(house, pod, 5)
    ends = guests(house, pod)
    assert set(ends) > {first.id, second.id} and len(ends) == 3
    assert {i.result for i in ends.values()} == {"clean"}


def test_end_of_one_server_is_not_taken_for_the_next_ones(house: House) -> None:
    """Nor are the facts of one those of the other."""
    pod = house.ready()
    node = pod.nodes[0]
    lose(house, node)
    pod = repair(house, pod)
    record = row(house, pod, node)
    name = record.resource.name
    assert pod.state is PodState.READY and "ended" not in record.facts and "ended" in record.former[0].facts
    house.cloud.offers.hosts[node] = "down"
    house.release(pod)
    pod = visit(house, pod, 5)
    assert pod.state is PodState.RELEASING and f"{name} {record.outside_id}: Nova's record" in pod.reason


def test_server_between_two_attempts_is_checked(house: House) -> None:
    """It broke on its host, only Nova forgot it, and the next one isn't requested yet: its row says `wanted`."""
    pod = house.ready()
    node = pod.nodes[0]
    server = house.cloud.thing(f"server/{node}")
    server.broken, server.hosted = "ERROR", True
    house.cloud.offers.hosts[node] = "down"
    house.store.request_repair(pod.id)
    visit(house, pod, 3, seconds=1.0)
    record = row(house, pod, node)
    name = record.resource.name
    assert (record.state, record.outside_id) == (RowState.WANTED, server.id)
    house.release(pod)
    pod = visit(house, pod, 5)
    assert pod.state is PodState.RELEASING and f"{name} {server.id}: Nova's record" in pod.reason
    assert house.store.records.receipt(pod.id) is None


def test_server_never_seen_keeps_a_host_that_is_down(house: House) -> None:
    """The answer to its creation was lost, and it was deleted while its nova-compute was away: there is no record."""
    pod = house.order()
    node = pod.nodes[0]
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, key=f"server/{node}")
    while not house.cloud.things(Kind.SERVER):
        visit(house, pod, seconds=0.0)
    house.cloud.offers.hosts[node] = "down"
    lose(house, node)
    assert row(house, pod, node).outside_id is None
    house.release(pod)
    pod = visit(house, pod, 5)
    assert pod.state is PodState.RELEASING and f"host {node}: a server may be on it: down" in pod.reason
    house.cloud.offers.hosts[node] = "up"
    assert visit(house, pod, 3).state is PodState.RELEASED


def test_former_server_that_reappears_is_found_whatever_its_mark(house: House) -> None:
    """The last one isn't found: proof that one is gone says nothing of the other."""
    pod = house.ready()
    node = pod.nodes[0]
    first = lose(house, node)
    pod = repair(house, pod)
    house.release(pod)
    assert visit(house, pod, 5).state is PodState.RELEASED
    first.mark = None
    house.cloud.bring_back(first)
    assert sweep(house) == []
    assert house.cloud.servers == [] and len(alarms(house, pod)) == 1 and first.id in alarms(house, pod)[0]


@pytest.mark.parametrize(
    ("how", "facts", "result"),
    [
        (Ended.NO_RECORD, {"host": None, "status": "BUILD"}, "clean"),
        (Ended.NO_RECORD, {"status": "BUILD"}, "unknown"),
        (
            Ended.NO_RECORD,
            {"host": None, "status": "SHELVED_OFFLOADED", "launched_at": "2026-03-01T12:00:00.000000"},
            "unknown",
        ),
        (Ended.NO_RECORD, {}, "unknown"),
        (Ended.NOT_DESTROYED, {"host": None, "status": "ERROR"}, "clean"),
        (Ended.NOT_DESTROYED, {"host": None, "status": "ERROR", "launched_at": None}, "clean"),
        (
            Ended.NOT_DESTROYED,
            {"host": None, "status": "ERROR", "launched_at": "2026-03-01T12:00:00.000000"},
            "not clean",
        ),
        (Ended.NOT_DESTROYED, {"status": "ERROR"}, "not clean"),
        (Ended.NEVER_RAN, {}, "clean"),
        (Ended.NEVER_RAN, {"host": None, "launched_at": "2026-03-01T12:00:00.000000"}, "unknown"),
    ],
)
def test_hidden_host_attribute_does_not_mean_no_host(
    house: House, how: Ended, facts: dict[str, object], result: str
) -> None:
    """Its attribute is for administrators: a policy or another token hides it, and where it was is unknown."""
    pod = house.ready()
    record = replace(row(house, pod, pod.nodes[0]), state=RowState.ABSENT, facts=facts)
    house.cloud.ends(str(record.outside_id), Ending(how, "as given"))
    (reading,) = read_guests(pod, [record], house.world, pod.nodes)
    assert reading.result == result
