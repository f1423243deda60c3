"""Old records are removed, a little at a time; what the audit, the sweep or a receipt still needs stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

from tests.engine.audit.test_sweep import released, sweep, sweeper
from tests.engine.house import House
from tests.engine.timehouse import at_once, make
from tests.helpers.explained import scanned
from weft.app.metrics import StoreCollector
from weft.engine.rows.records import PodRecord, RowState
from weft.engine.watch.retention import Retention, RetentionSettings
from weft.generate.receipts import verify
from weft.model.errors import TemporaryError
from weft.model.kindrow import Home
from weft.model.mark import Mark
from weft.model.order import AccessOrder
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import RetentionPolicy
from weft.model.views import AuditLogSearch
from weft.testing.cloud import Fault

POLICY = RetentionPolicy(
    events="10d",
    events_of_live_pods=100,
    tombstones="5d",
    traces="10d",
    audit_log="20d",
    site_generations="20d",
)


def keeper(house: House, **settings: Any) -> Retention:
    return Retention(house.database, house.keeper.site, RetentionSettings(pause=0.0, **settings))


def prune(
    house: House, days: float = 0.0, policy: RetentionPolicy = POLICY, **settings: Any
) -> dict[str, int]:
    """Prune so many days later; returns how many records of each kind were removed."""
    house.clock.sleep(86400 * days)
    return keeper(house, **settings).run(policy)[0]


def rows(house: House, table: str, pod: PodRecord | None = None) -> int:
    where = "" if pod is None else f" WHERE owner_id = '{pod.id}'"
    with psycopg.connect(house.database.url) as connection:
        found = connection.execute(f"SELECT count(*) FROM {table}{where}".encode()).fetchone()
    assert found is not None
    return int(found[0])


def test_generations_are_pruned_with_the_pods_events(house: House) -> None:
    """For a pod that was changed and released; a live pod keeps them."""

    def changed(name: str) -> PodRecord:
        pod = house.ready(make(name, 2))
        house.service.pods.apply(house.request(), name, make(name, 1))
        for _ in range(20):
            house.store.wake(pod.id)
            house.worker.run_once()
        return pod

    live, pod = changed("live"), changed("gone")
    before = rows(house, "pod_generation")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert prune(house, 9.9)["generations of orders"] == 0
    assert prune(house, 0.2)["generations of orders"] == 2
    assert rows(house, "pod_generation") == before - 2
    assert house.service.pods.show(house.request(), str(live.id)).generation == 2
    assert house.service.pods.show(house.request(), str(pod.id)).generation == 2


def resized(house: House, pod: PodRecord, count: int) -> None:
    house.service.pods.apply(house.request(), pod.name, make(pod.name, count))
    for _ in range(30):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert len(house.store.pods.find(str(pod.id), None).held) == count


def test_long_lived_pod_keeps_only_what_its_receipt_needs(house: House) -> None:
    """Nodes come and go: the last reading of each node stays, and rows of removed resources go with their age."""
    pod = house.ready(make("long", 1))
    for _ in range(3):
        resized(house, pod, 2)
        resized(house, pod, 1)
    assert rows(house, "given_back", pod) == 3
    there = rows(house, "resource", pod)
    removed = prune(house, 4.9)
    assert removed["tombstones of live owners"] == removed["nodes given back again"] == 0
    removed = prune(house, 0.2)
    assert removed["nodes given back again"] == 2 and rows(house, "given_back", pod) == 1
    assert removed["tombstones of live owners"] == there - rows(house, "resource", pod) > 0
    resized(house, pod, 2)
    assert [f for f in house.service.audits.run(house.operator).findings if f.pod == "long"] == []
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and len(signed.receipt.given_back) == 1


def test_row_that_was_never_requested_does_not_outlive_what_it_needs(house: House) -> None:
    """Floating IPs left the order before their router existed: long after, the pod changes and is released."""
    planted = house.cloud.plant(Fault.UNREACHABLE, kind=Kind.ROUTER, times=None)
    wide = make("early", 3).model_copy(update={"access": AccessOrder(floating_ip="each")})
    pod = house.order(wide)
    house.worker.run_once()
    planted.lift()
    resized(house, pod, 1)
    prune(house, 30)
    left = [r for r in house.store.pods.resources(pod.id) if not r.wanted]
    assert {r.kind.row.home for r in left} <= {Home.FABRIC}
    resized(house, pod, 2)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


@pytest.mark.parametrize("doubt", ["late_until = now()", "held_until = now() - interval '1 h'"])
def test_possibly_requested_row_is_kept(house: House, doubt: str) -> None:
    """A worker died; the next one looks for everything, by its rows."""
    planted = house.cloud.plant(Fault.UNREACHABLE, kind=Kind.ROUTER, times=None)
    pod = house.order(make("doubt", 1).model_copy(update={"access": AccessOrder(floating_ip="each")}))
    house.worker.run_once()
    house.service.pods.apply(house.request(), "doubt", make("doubt", 1))
    planted.lift()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET late_until = NULL, held_until = NULL")
        connection.execute(f"UPDATE owner SET {doubt}".encode())
    prune(house, 30)
    left = {r.key: r.state for r in house.store.pods.resources(pod.id) if not r.wanted}
    assert left["floating_ip/gpu01"] is RowState.WANTED


def test_server_that_left_before_it_came_is_not_shown(house: House) -> None:
    """Also between two batches, while the rows of its ports are gone and its own isn't."""
    pod = house.ready(make("shown", 2))
    resized(house, pod, 1)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("DELETE FROM resource WHERE kind = 'port' AND expunged IS NOT NULL")
        connection.execute(
            "UPDATE resource SET state = 'wanted' WHERE kind = 'server' AND expunged IS NOT NULL"
        )
    assert len(house.service.pods.show(house.request(), str(pod.id)).servers) == 1
    resized(house, pod, 2)


def test_node_on_its_way_back_keeps_the_rows(house: House) -> None:
    """They say what was on it, however long that takes."""
    pod = house.ready(make("slow", 2))
    before = rows(house, "resource", pod)
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    house.service.pods.apply(house.request(), "slow", make("slow", 1))
    for _ in range(30):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert len(house.store.capacity().holds) == 2
    assert prune(house, 30)["tombstones of live owners"] == 0 and rows(house, "resource", pod) == before
    planted.lift()


def test_last_generations_of_a_live_pod_stay_however_old(house: House) -> None:
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pod_generation (pod_id, generation, ordered, at, by, what)"
            " SELECT %s, n, '{}', '2026-11-22', 'alice', 'x' FROM generate_series(1, 150) n",
            [pod.id],
        )
    assert prune(house, 9)["generations of live pods"] == 0
    assert prune(house, 2, batch=7)["generations of live pods"] == 50
    assert prune(house)["generations of live pods"] == 0
    with psycopg.connect(house.database.url) as connection:
        found = connection.execute("SELECT min(generation), count(*) FROM pod_generation").fetchone()
    assert found == (51, 100)


def test_readings_of_freed_nodes_go_once_the_receipt_has_them(house: House) -> None:
    """They go with the tombstones; a live pod keeps them for its receipt."""
    pods = {name: house.ready(make(name, 2)) for name in ("live", "gone")}
    for name in pods:
        house.service.pods.apply(house.request(), name, make(name, 1))
        for _ in range(20):
            house.store.wake(pods[name].id)
            house.worker.run_once()
    pod = pods["gone"]
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert rows(house, "given_back") == 2
    assert prune(house, 4.9)["nodes given back"] == 0
    assert prune(house, 0.2)["nodes given back"] == 1
    assert rows(house, "given_back") == 1 and rows(house, "given_back", pod) == 0
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and len(signed.receipt.given_back) == 1


def test_recent_records_stay(house: House) -> None:
    """Nothing of a pod released a moment ago is removed."""
    pod = released(house)
    before = rows(house, "event", pod), rows(house, "resource", pod)
    assert not any(prune(house).values())
    assert not any(prune(house, 4.9).values())
    assert (rows(house, "event", pod), rows(house, "resource", pod)) == before


def test_old_records_go_and_the_receipt_stays(house: House) -> None:
    """Tombstones first, then events; the pod is shown and its receipt verifies all the same."""
    pod = released(house)
    live = house.ready(make("live", 1))
    removed = prune(house, 5.1)
    assert removed["tombstones"] > 0 and removed["events"] == 0
    assert rows(house, "resource", pod) == 0 and rows(house, "resource", live) > 0
    assert prune(house, 5.0)["events"] > 0
    assert rows(house, "event", pod) == 0 and rows(house, "event", live) > 0
    shown = house.service.pods.show(house.request(), str(pod.id))
    assert shown.state is PodState.RELEASED and shown.has_receipt
    assert verify(house.service.pods.receipt(house.request(), str(pod.id)).model_dump(mode="json")).valid
    assert not any(prune(house).values()), "the second time there is nothing to do"
    assert [f for f in house.service.audits.run(house.operator).findings if f.pod == "live"] == []
    assert sweep(house) == []


def test_last_events_of_a_live_pod_stay_however_old(house: House) -> None:
    """Older ones beyond their number go."""
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) SELECT %s, '2026-11-22', 'step', to_jsonb('n ' || n)"
            " FROM generate_series(1, 150) n",
            [pod.id],
        )
    before = rows(house, "event", pod)
    assert prune(house, 9)["events of live pods"] == 0
    assert prune(house, 2, batch=7)["events of live pods"] == before - 100
    assert house.store.records.events(pod.id, 0)[-1].message == "n 150" and rows(house, "event", pod) == 100
    assert prune(house)["events of live pods"] == 0


def test_rows_needed_by_the_sweep_stay(house: House) -> None:
    """Something of the pod still exists: its rows say what is its own, until it was seen gone."""
    pod = house.ready()
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    server.gone_at, server.undeletable = None, True
    house.cloud.bring_back(server)
    sweep(house)
    assert prune(house, 30)["tombstones"] == 0 and rows(house, "resource", pod) > 0
    house.cloud.lose(server)
    sweep(house)
    house.store.clear_quarantine(pod.nodes[0])
    sweep(house)
    assert prune(house)["tombstones"] > 0 and rows(house, "resource", pod) == 0
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and [c.kind for c in signed.corrections] == ["server"], (
        "corrections stay with it"
    )
    prune(house, 400)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and [c.kind for c in signed.corrections] == ["server"]


def test_held_numbers_keep_their_rows(house: House) -> None:
    """An abandoned pod's P_Key is proved free by its rows: without them it would never be freed."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.NETWORK, times=None)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "the project is gone")
    for _ in range(10):
        house.clock.sleep(60)
        house.store.wake(pod.id)
        house.worker.run_once()
    house.run(pod, PodState.RELEASED)
    assert rows(house, "number_hold", pod) > 0
    assert prune(house, 40)["tombstones"] == 0
    for fault in house.cloud.faults:
        fault.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    for _ in range(3):
        sweep(house)
    assert rows(house, "number_hold", pod) == 0
    prune(house)
    assert rows(house, "resource", pod) == 0


def test_mark_of_a_pod_without_rows_is_left_to_a_person(house: House) -> None:
    """Its resources can't be distinguished from copies any more: they are reported, and left alone."""
    pod = released(house)
    prune(house, 6)
    mark = Mark("lab", Owner.pod(pod.id), "network/rdma")
    house.cloud.add(Kind.NETWORK, mark.name(), "team-a", mark)
    sweep(house)
    house.service.audits.run(house.operator, repair=True)
    assert len(house.cloud.things()) == 1
    [found] = [f for f in house.service.audits.run(house.operator).findings if f.kind == "network"]
    assert found.category == "foreign" and "no longer kept" in found.what


def test_audit_log_and_sites_go_by_age(house: House) -> None:
    """The active generation stays, and so does the one that was active until recently."""
    house.service.audits.run(house.operator)
    old = len(house.store.records.audit_log(AuditLogSearch()))
    house.clock.sleep(86400 * 30)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE audit_log SET at = '2026-11-01', last_at = '2026-11-01'")
    first = house.store.site().generation
    assert prune(house)["site generations"] == 0, "it is in force, however old it is"
    house.store.activate_site(house.site, "test")
    removed = prune(house)
    assert removed["audit log entries"] == old and removed["site generations"] == 0
    removed = prune(house, 21)
    assert removed["site generations"] == 1
    assert house.store.site().generation == first + 1 and house.store.activate_site(house.site, "test")


def test_killed_round_is_followed_by_another(house: House) -> None:
    """Each batch is a transaction of its own; the turn passes on when the time is over."""
    pod = released(house)
    house.clock.sleep(86400 * 6)
    first = keeper(house, batch=3)
    with house.database.transaction() as tx:
        assert tx.row("take_retention", at=tx.now(), later=tx.now() + timedelta(seconds=1800))
        assert tx.run("prune_tombstones", limit=3, before=tx.now() - timedelta(days=5)) == 3
    assert 0 < first.run_due() <= 1800 and rows(house, "resource", pod) > 0, "it is another one's turn"
    house.clock.sleep(1801)
    assert keeper(house, batch=3).run_due() == 3600.0
    assert rows(house, "resource", pod) > 0, "by the site's own policy they stay for thirty days"
    house.store.activate_site(house.site.model_copy(update={"retention": POLICY}), "test")
    house.clock.sleep(3601)
    assert keeper(house, batch=3).run_due() == 3600.0
    assert rows(house, "resource", pod) == 0
    counts = {
        s.labels["what"]: s.value
        for m in StoreCollector(house.store).collect()
        for s in m.samples
        if "what" in s.labels
    }
    assert counts["tombstones"] > 0


def test_concurrent_rounds_and_releases_do_not_interfere(house: House) -> None:
    """Each row is removed once, and a pod being released keeps all of its own."""
    old = [released(house), house.ready(make("b", 1))]
    house.release(old[1])
    house.run(old[1], PodState.RELEASED)
    house.clock.sleep(86400 * 11)
    going = house.ready(make("going", 2))
    house.release(going)
    ended: list[object] = []
    errors = at_once(
        *(lambda: ended.append(keeper(house, batch=2).run(POLICY)) for _ in range(3)),
        lambda: ended.append(house.run(going, PodState.RELEASED)),
    )
    assert errors == [] and len(ended) == 4
    assert all(rows(house, "resource", pod) == 0 for pod in old)
    assert {r.state for r in house.store.pods.resources(going.id)} == {RowState.ABSENT}
    signed = house.store.records.receipt(going.id)
    assert signed is not None and signed.receipt.clean
    assert sweeper(house).sweep() == []


def test_retention_shorter_than_the_sweep_is_refused() -> None:
    """The sweep would look for what has no rows any more."""
    with pytest.raises(ValidationError, match="at least 2d"):
        RetentionPolicy(tombstones="47h")


def test_old_partition_file_is_cleaned_without_rows(house: House) -> None:
    """A manager is restored with an old file: only weft has written weft's own section."""
    pod = house.ready()
    files = {m.name: m.text for m in house.fabric.managers}
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    prune(house, 6)
    assert rows(house, "resource", pod) == 0
    for manager in house.fabric.managers:
        manager.text = files[manager.name]
    house.fabric.wire.sweep()
    for _ in range(3):
        sweep(house)
    assert not any(str(pod.id) in (m.text or "") for m in house.fabric.managers)


def test_failing_kind_does_not_block_others(house: House) -> None:
    """It is reported at the end; what was removed before and after it is counted."""
    released(house)
    house.clock.sleep(86400 * 100)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE event RENAME TO event_elsewhere")
    retention = keeper(house)
    with pytest.raises(TemporaryError, match='"event" does not exist'):
        retention.run_due()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("ALTER TABLE event_elsewhere RENAME TO event")
        connection.execute("UPDATE retention SET next_at = now()")
    with house.database.statement() as tx:
        row = tx.row("retention")
    assert row is not None and row["removed"]["tombstones"] > 0 and "events" not in row["removed"]
    assert retention.run_due() > 0
    with house.database.statement() as tx:
        row = tx.row("retention")
    assert row is not None and row["removed"]["events"] > 0


def test_events_of_live_pods_are_not_scanned_repeatedly(house: House) -> None:
    """They are the oldest of all, and their number never shrinks."""
    pod, live = released(house), house.ready(make("live", 1))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) SELECT %s, '2020-11-22', 'step', to_jsonb('n ' || n)"
            " FROM generate_series(1, 5000) n",
            [live.id],
        )
    before = house.clock.now() + timedelta(days=1)
    expected = rows(house, "event", pod)
    read = scanned(house.database, "prune_events", before=before, limit=1000)
    assert rows(house, "event", pod) == 0 and expected <= read["event"] < 5 * expected
