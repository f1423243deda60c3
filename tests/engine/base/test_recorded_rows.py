"""Databases of earlier versions are migrated: every document is read, and pods go on to their receipts."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from dataclasses import dataclass
from uuid import UUID

import psycopg
import pytest

from tests.engine.ipuhouse import IpuHouse
from tests.engine.recorded import every_document, load, read, restore
from tests.engine.timehouse import HandClock, make
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.rows.records import RowState
from weft.engine.store.store import Store
from weft.generate.receipts import verify
from weft.model.pod import PodState
from weft.model.views import AuditLogSearch, PodSearch

VERSIONS = ("0011",)
"""Newest migration of each recorded version."""
_number = itertools.count()
CHANGING = ("create", "update", "delete", "remove", "take_off")


@dataclass
class Recorded:
    """A house that moved into a recorded database, and the version of that."""

    house: IpuHouse
    version: str

    def rows(self, table: str) -> int:
        return len(read(self.version, "tables")[table])

    def pod_id(self, name: str) -> UUID:
        pods = read(self.version, "tables")["pod"]
        return UUID(next(p["id"] for p in pods if p["name"] == name))

    def only(self, name: str) -> None:
        """Make only this pod due."""
        with psycopg.connect(self.house.database.url) as connection:
            connection.execute(
                "UPDATE pod SET next_at = now() + interval '1 hour' WHERE id <> %s", [self.pod_id(name)]
            )

    def changes(self) -> int:
        """How many changes were requested outside so far."""
        return sum(n for what, n in self.house.cloud.calls.items() if what.split()[0] in CHANGING)


@pytest.fixture(params=VERSIONS)
def recorded(request: pytest.FixtureRequest, postgres: str) -> Generator[Recorded]:
    name = f"recorded_{next(_number)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    url = postgres.replace("/postgres?", f"/{name}?")
    load(url, request.param)
    database = Database(url, connections=20)
    store = Store(database)
    assert store.site().generation == len(read(request.param, "tables")["site"])
    house = IpuHouse(database, url, HandClock())
    restore(house, request.param)
    yield Recorded(house, request.param)
    house.close()
    database.close()


def test_every_document_is_read(recorded: Recorded) -> None:
    """Pods in all states, orders that wait, receipts with their corrections: nothing is lost and nothing is parked."""
    house = recorded.house
    found = every_document(house.store)
    assert found == {
        "pod": recorded.rows("pod"),
        "plan": recorded.rows("pod") - 3,  # booked, waiting, withdrawn
        "resource": recorded.rows("resource"),
        "receipt": recorded.rows("receipt"),
        "event": recorded.rows("event"),
    }
    assert house.store.pods.every_live()[1] == {}
    house.worker.tend_queue()
    assert house.store.counts().parked == 0
    assert {r.name for r in house.service.capacity.reservations(house.operator)} == {"course"}
    assert {"gpu01", "gpu16"} <= {n.name for n in house.service.nodes.list(house.operator) if n.reason}
    assert len(house.store.records.audit_log(AuditLogSearch())) >= recorded.rows("audit_log")


def test_every_pod_is_shown(recorded: Recorded) -> None:
    """List, show and receipt, as tenant and as operator."""
    house = recorded.house
    listed = {p.name for p in house.service.pods.list(house.operator, PodSearch(all_projects=True))}
    assert {"ready", "bert", "degraded", "failed", "releasing", "placed", "booked", "waiting"} <= listed
    for name in sorted(listed):
        shown = house.service.pods.show(house.request(), str(recorded.pod_id(name)))
        assert shown.name == name and shown.order.name == name
    for pod in ("corrected", "haunted", "stale", "abandoned"):
        signed = house.service.pods.receipt(house.request(), str(recorded.pod_id(pod)))
        assert verify(signed.model_dump(mode="json")).valid, pod
    corrected = house.service.pods.receipt(house.request(), str(recorded.pod_id("corrected")))
    assert [c.kind for c in corrected.corrections] == ["server"]


def test_recorded_resource_names_the_node_that_it_keeps(recorded: Recorded) -> None:
    """A resource that keeps a node names one, by its row and by its pod's plan alike."""
    store = recorded.house.store
    pods, _ = store.pods.every_live()
    assert pods
    for pod in pods:
        graph = pod.plan.graph.by_key()
        for record in store.pods.resources(pod.id):
            resource = record.resource
            assert bool(resource.node) is (
                record.kind.row.keeps_node or resource.key.startswith("floating_ip")
            )
            assert (
                resource.node in ("", *resource.key.split("/")[1:2])
                and graph[record.key].node == resource.node
            )


@pytest.mark.parametrize("name", ["ready", "bert"])
def test_visit_to_a_healthy_pod_changes_nothing(recorded: Recorded, name: str) -> None:
    """What weft created then is what it would create now: names, marks and every wanted value."""
    house, pod_id = recorded.house, recorded.pod_id(name)
    before = len(house.store.records.events(pod_id, 0))
    recorded.only(name)
    house.store.wake(pod_id)
    house.worker.run_once()
    pod = house.store.pods.find(str(pod_id), None)
    assert (pod.state, pod.reason) == (PodState.READY, "")
    assert [e.message for e in house.store.records.events(pod_id, 0)[before:]] == []
    assert recorded.changes() == 0


@pytest.mark.parametrize("name", ["ready", "bert", "degraded", "failed", "placed", "releasing"])
def test_release_ends_in_a_signed_receipt(recorded: Recorded, name: str) -> None:
    """From every state; everything that it had is seen gone, and capacity returns."""
    house, pod_id = recorded.house, recorded.pod_id(name)
    if name == "releasing":
        for thing in house.cloud.things():
            thing.undeletable = False
    else:
        house.service.pods.release(house.request(), str(pod_id))
    recorded.only(name)
    house.run(house.store.pods.find(str(pod_id), None), PodState.RELEASED)
    assert {r.state for r in house.store.pods.resources(pod_id)} <= {RowState.ABSENT, RowState.WANTED}
    signed = house.store.records.receipt(pod_id)
    assert signed is not None and signed.receipt.clean, signed
    assert verify(signed.model_dump(mode="json")).valid
    assert (
        signed.public_key
        == {r.public_key for r in [house.store.records.receipt(recorded.pod_id("corrected"))] if r}.pop()
    )
    assert not [t for t in house.cloud.things() if t.mark and t.mark.owner.id == str(pod_id)]
    with psycopg.connect(house.database.url) as connection:
        for table, owner in (
            ("node_hold", "pod_id"),
            ("number_hold", "owner_id"),
            ("subnet_hold", "owner_id"),
        ):
            held = connection.execute(f"SELECT 1 FROM {table} WHERE {owner} = %s".encode(), [pod_id])
            assert held.fetchall() == [], table


def test_pod_under_way_becomes_ready(recorded: Recorded) -> None:
    """Claimed before the upgrade, built after it."""
    recorded.only("placed")
    pod = recorded.house.store.pods.find(str(recorded.pod_id("placed")), None)
    recorded.house.run(pod, PodState.READY)


def test_audit_reports_only_what_was_wrong_before(recorded: Recorded) -> None:
    """A server that its tenant deleted before the upgrade; nothing that the upgrade changed."""
    house = recorded.house
    report = house.service.audits.run(house.operator)
    assert {(f.category, f.pod) for f in report.findings} == {
        ("missing", "degraded"),
        ("late", "corrected"),
        ("late", "haunted"),
        ("orphan", "abandoned"),
        ("different", None),  # the P_Key of `stale`, which a standby manager may still have
    }, report.findings


def test_sweep_continues_where_it_was(recorded: Recorded) -> None:
    """Remains of a released pod are seen gone; kept numbers and held P_Keys are freed in time."""
    house = recorded.house
    house.clock.sleep(300.0)  # type: ignore[attr-defined]
    for thing in house.cloud.things():
        thing.undeletable = False
    sweeper = Sweeper(house.store, house.keeper.world, house.keeper.site, house.time)
    sweeper.sweep()
    assert house.store.counts().traces.open == 0
    house.clock.sleep(300.0)  # type: ignore[attr-defined]
    sweeper.sweep()
    signed = house.store.records.receipt(recorded.pod_id("haunted"))
    assert signed is not None and all(c.gone_at for c in signed.corrections)


def test_waiting_orders_start_when_there_is_capacity(recorded: Recorded) -> None:
    """The queue and its bookings are read as they were written."""
    house = recorded.house
    house.service.nodes.clear(house.operator, "gpu01")
    house.service.nodes.clear(house.operator, "gpu16")
    waiting = recorded.pod_id("waiting")
    for thing in house.cloud.things():
        thing.undeletable = False
    for name in ("ready", "degraded", "failed", "placed", "releasing"):
        if name != "releasing":
            house.service.pods.release(house.request(), str(recorded.pod_id(name)))
        recorded.only(name)
        house.run(house.store.pods.find(str(recorded.pod_id(name)), None), PodState.RELEASED)
    house.worker.tend_queue()
    assert house.store.pods.find(str(waiting), None).placed is not None
    assert house.store.pods.find(str(recorded.pod_id("booked")), None).expected_start is not None
    recorded.only("waiting")
    house.run(house.store.pods.find(str(waiting), None), PodState.READY)
    assert house.order(make("new", 1, start="2027-06-01T00:00:00Z", duration="1h")).placed is None
