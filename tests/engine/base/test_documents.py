"""Documents carry their version; those of a newer weft are set aside until this one is upgraded."""

from __future__ import annotations

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.recorded import read as recorded
from weft.engine.base.documents import PARTS, STEPS, read, written
from weft.engine.base.unreadable import UnreadableError
from weft.engine.store.store import Store
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.receipt import SignedReceipt
from weft.model.resources import Graph, Resource
from weft.model.site import Site
from weft.model.versions import Step, newest

STORED = (
    ("pod", "plan", Plan),
    ("pod", "ordered", Order),
    ("resource", "document", Resource),
    ("site", "document", Site),
    ("receipt", "document", SignedReceipt),
)


def test_every_document_has_its_version(house: House) -> None:
    """In the column's document; a plan's order and resources have the plan's version."""
    pod = house.ready()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    with psycopg.connect(house.database.url) as connection:
        for table, column, _ in STORED:
            rows = connection.execute(f"SELECT {column} FROM {table}".encode()).fetchall()
            assert rows and {row[0]["version"] for row in rows} == {newest(STEPS)}, (table, column)


@pytest.mark.parametrize(("table", "column", "kind"), STORED)
def test_documents_survive_a_round_trip(table: str, column: str, kind: type[Plan]) -> None:
    """Nothing of a recorded document gets lost on the way."""
    for row in recorded("0011", "tables")[table]:
        if row[column] is not None:
            document = read(kind, row[column])
            assert read(kind, written(document).obj) == document


def test_upgrade_steps_reach_into_plans() -> None:
    """A step that renames resources renames them in plans of today's rows too."""
    step = Step("louder", {Resource: lambda r: {**r, "name": r["name"].upper()}})
    stored = next(r for r in recorded("0011", "tables")["pod"] if r["plan"])
    names = [r.name for r in read(Plan, stored["plan"], (*STEPS, step)).graph.resources]
    assert names == [r["name"].upper() for r in stored["plan"]["graph"]["resources"]]
    alone = read(Graph, stored["plan"]["graph"], (*STEPS, step))
    assert [r.name for r in alone.resources] == names
    assert set(PARTS) == {Plan, Graph}, "a new place for documents inside documents needs a test here"


def test_site_of_a_newer_weft_is_refused(house: House) -> None:
    """The error says what to do."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE site SET document = document || '{\"version\": 7000}'")
    with pytest.raises(UnreadableError, match=r"written by a newer weft.*upgrade weft"):
        Store(house.database).site()


def test_resource_of_a_newer_weft_freezes_its_pod(house: House) -> None:
    """Nothing of it is touched, and it continues once the row can be read."""
    pod = house.ready()
    before = {t.id for t in house.cloud.things()}
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET document = document || '{\"version\": 7000}' WHERE kind = 'port'"
        )
        house.store.release(pod.id, "release requested")
        house.worker.run_once()
        assert {t.id for t in house.cloud.things()} == before
        parked = house.service.pods.list(house.request())[0].reason
        assert "can't read its row" in parked and "newer weft" in parked
        connection.execute("UPDATE resource SET document = document - 'version'")
    house.run(pod, PodState.RELEASED)


def test_terms_of_earlier_versions_are_read() -> None:
    """Groups of leaves were called pods, bookings promises: in orders, plans, and sites."""
    plan = next(r for r in recorded("0011", "tables")["pod"] if r["plan"])["plan"]
    plan["order"]["locality"] |= {
        "required": "pod",
        "preferences": [{"kind": "pod", "name": "p1", "cost": 5}, {"kind": "rack", "name": "pod", "cost": 1}],
    }
    plan["placement"]["nodes"][0]["pod"] = "p1"
    read_plan = read(Plan, plan)
    locality = read_plan.order.locality
    assert (locality.required, locality.preferred) == ("block", "leaf")
    assert [(p.kind, p.name) for p in locality.preferences] == [("block", "p1"), ("rack", "pod")]
    assert read_plan.placement.nodes[0].block == "p1"
    assert read_plan.placement.explanation.compared[0].blocks == 1
    site = next(r for r in recorded("0011", "tables")["site"])["document"]
    site["switches"][0]["pod"], site["placement"], site["queue"] = "p1", {"pod": 4}, {"promises": 3}
    read_site = read(Site, site)
    assert "p1" in {s.block for s in read_site.switches} and read_site.placement.block == 4
    assert read_site.queue.bookings == 3


def test_equal_documents_of_two_rows_are_parsed_once(house: House) -> None:
    """Texts as rows return them, through the shared pool."""
    pod = house.ready()
    with house.database.statement() as tx:
        first, second = (tx.row("pod_by_id", id=pod.id) for _ in range(2))
    assert first is not None and second is not None
    for column, kind in (("plan", Plan), ("ordered", Order)):
        assert read(kind, first[column]) is read(kind, second[column])
