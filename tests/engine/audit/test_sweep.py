"""The sweep: what came back after a receipt was signed is found, removed and reported; foreign ports quarantine."""

from __future__ import annotations

import pytest

import weft.engine.rows.released
from tests.engine.house import House, impatient, lost_hold
from tests.engine.timehouse import make
from weft.engine.audit.outside import look_outside
from weft.engine.audit.strangers import StrangerCheck
from weft.engine.audit.sweep import Sweeper
from weft.engine.rows.records import PodRecord
from weft.engine.rows.traces import Traces
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.receipt import Correction
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing


def sweeper(house: House) -> Sweeper:
    return Sweeper(house.store, house.keeper.world, house.keeper.site, house.time)


def sweep(house: House, minutes: float = 5.0) -> list[str]:
    """Sweep so many minutes later; returns what could not be read."""
    house.clock.sleep(60 * minutes)
    return sweeper(house).sweep()


def released(house: House) -> PodRecord:
    pod = house.ready()
    house.release(pod)
    return house.run(pod, PodState.RELEASED)


def alarms(house: House, pod: PodRecord) -> list[str]:
    return [e.message for e in house.store.records.events(pod.id, 0) if e.type == "alarm"]


def corrections(house: House, pod: PodRecord) -> tuple[Correction, ...]:
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    return signed.corrections


def late(house: House, pod: PodRecord, kind: Kind, key: str, **fields: object) -> Thing:
    """A resource that a long suspended worker creates at last."""
    mark = Mark("lab", Owner.pod(pod.id), key)
    lost_hold(house.database, pod.id)
    return house.cloud.add(kind, mark.name(), "team-a", mark, **fields)


def test_sweep_finds_nothing_where_nothing_is_left(house: House) -> None:
    """The receipt stays as it was signed."""
    pod = released(house)
    assert sweep(house) == []
    assert alarms(house, pod) == [] and corrections(house, pod) == ()


def test_late_creation_is_removed_and_reported(house: House) -> None:
    """A server created after the receipt was signed, on a node that is free by then."""
    pod = released(house)
    node = pod.nodes[0]
    late(house, pod, Kind.SERVER, f"server/{node}", host=node, ports=())
    sweep(house)
    assert house.cloud.things() == []
    assert len(alarms(house, pod)) == 1 and "the receipt reports it gone" in alarms(house, pod)[0]
    sweep(house)
    found = corrections(house, pod)
    assert [(c.kind, c.where) for c in found] == [("server", "lab")]
    assert found[0].gone_at is not None
    late_findings = [f for f in house.service.audits.run(house.operator).findings if f.category == "late"]
    assert [(f.pod_id, f.repaired) for f in late_findings] == [(str(pod.id), True)]
    counts = house.store.counts().traces
    assert (counts.open, counts.gone) == (0, 1)


def test_resource_back_under_a_known_id_is_found_whatever_its_mark(house: House) -> None:
    """A cloud restores a deleted server, with a description that the tenant has changed."""
    pod = house.ready()
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    server.mark, server.gone_at = None, None
    house.cloud.bring_back(server)
    sweep(house)
    assert house.cloud.servers == []
    assert len(alarms(house, pod)) == 1


def test_pod_released_before_many_others_is_searched_for(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Released pods are read page by page, and none is left out."""
    monkeypatch.setattr(weft.engine.rows.released, "PAGE", 2)
    pod = house.ready()
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    for number in range(4):
        other = house.order(make(f"other{number}", 1))
        house.release(other)
        house.run(other, PodState.RELEASED)
    server.mark, server.gone_at = None, None
    house.cloud.bring_back(server)
    sweep(house)
    assert house.cloud.servers == []


def test_p_key_that_comes_back_is_removed_again(house: House) -> None:
    """A standby with an old file writes the P_Key of a pod that is long gone."""
    pod = released(house)
    key = 0x8000 | (pod.plan.segment or 0)
    guid = house.site.node_by_name[pod.nodes[0]].hcas_on("ib0")[0].port_guid
    house.fabric.write_key(guid, key)
    sweep(house)
    assert not any(key in t.keys for t in house.fabric.tables().values())
    assert "segment 0x" in alarms(house, pod)[0]
    sweep(house)
    assert corrections(house, pod)[0].gone_at is not None


def test_foreign_p_key_on_a_freed_node_quarantines_it(house: House) -> None:
    """Someone else's partition inside weft's range: reported, not touched, and the node isn't assigned."""
    pod = released(house)
    guid = house.site.node_by_name[pod.nodes[0]].hcas_on("ib0")[0].port_guid
    foreign = house.site.fabrics["ib0"].segments.first + 7
    for manager in house.fabric.managers:
        manager.text = f"{manager.text}storage={foreign:#x} : {guid:#018x}=full ;\n"
    house.fabric.wire.sweep()
    sweep(house)
    assert any(0x8000 | foreign in t.keys for t in house.fabric.tables().values())
    assert list(house.store.capacity().quarantines) == [pod.nodes[0]]
    assert len(alarms(house, pod)) == 1
    sweep(house)
    assert len(alarms(house, pod)) == 1


def test_live_owners_member_on_a_freed_node_is_not_a_stranger(house: House) -> None:
    """Such as a host of a tenant's network, whichever pod had it before; once that segment is gone, it is one."""
    live, gone = house.ready(make("b", 1)), released(house)
    node, key = gone.nodes[0], 0x8000 | (live.plan.segment or 0)
    (_, port), *_ = house.site.ports_of(node, "ib0")

    def write(change: str) -> None:
        with house.database.transaction() as tx:
            said = f"UPDATE resource SET {change} WHERE owner_id = %s AND kind = 'segment'"
            tx._connection.execute(said, [live.id])

    one = f"jsonb_set(document #> '{{spec,members,0}}', '{{port}}', '\"{port}\"')"
    write(f"document = jsonb_set(document, '{{spec,members,1}}', {one})")
    house.fabric.write_key(int(port, 16), key)
    sweep(house)
    assert not house.store.capacity().quarantines and alarms(house, gone) == []
    write("state = 'absent'")
    sweep(house)
    assert list(house.store.capacity().quarantines) == [node]


def test_next_pods_resources_are_not_taken_for_the_last_ones(house: House) -> None:
    """The next pod has the same nodes, P_Key and names."""
    old = released(house)
    new = house.ready()
    assert (new.nodes, new.plan.segment) == (old.nodes, old.plan.segment)
    assert sweep(house) == []
    assert alarms(house, old) == [] and house.service.audits.run(house.operator).findings == ()
    assert house.store.pods.find(str(new.id), None).state is PodState.READY


def test_another_pods_server_on_a_freed_node_quarantines_it(house: House) -> None:
    """Moved there by its tenant or an operator; otherwise the node's next tenant would share its adapters."""
    gone = house.run(house.order(make("gone", 1)), PodState.READY)
    pod = house.ready()
    house.release(gone)
    house.run(gone, PodState.RELEASED)
    node = house.site.node_by_name[gone.nodes[0]]
    house.cloud.thing(f"server/{pod.nodes[0]}").fields["host"] = node.nova_host
    sweep(house)
    assert list(house.store.capacity().quarantines) == [node.name]
    assert "server" in alarms(house, gone)[0]


def test_unread_places_are_reported_and_end_no_trace(house: House) -> None:
    """Unknown is not gone: the trace stays open until the cloud can be asked."""
    pod = released(house)
    thing = late(house, pod, Kind.NETWORK, "network/rdma")
    fault = house.cloud.plant(Fault.UNREACHABLE, verb="remove", times=None)
    house.cloud.plant(Fault.UNDELETABLE, times=None)
    sweep(house)
    assert thing in house.cloud.things()
    fault.lift()
    house.cloud.lose(thing)
    fault = house.cloud.plant(Fault.UNREACHABLE, times=None)
    assert sweep(house) != []
    assert corrections(house, pod)[0].gone_at is None
    fault.lift()
    assert sweep(house) == []
    assert corrections(house, pod)[0].gone_at is not None


def test_each_resource_is_searched_for_at_growing_intervals(house: House) -> None:
    """5, 10, 20 … minutes after the release, and not after a day."""
    released(house)
    looked: list[int] = []
    minute = 0
    while minute < 26 * 60:
        more = 0 if minute < 60 else 20  # minutes besides the five of each sweep
        house.clock.sleep(more * 60.0)
        minute += 5 + more
        before = house.cloud.calls["find server"]
        sweep(house)
        if house.cloud.calls["find server"] > before:
            looked.append(minute)
    assert looked[:4] == [5, 10, 20, 40]
    assert len(looked) <= 10 and looked[-1] <= 24 * 60


def test_sweep_is_run_by_one_worker_at_a_time(house: House) -> None:
    """By the worker that advances the row's time; the sweep is due again after the time that is set."""
    first, second = sweeper(house), sweeper(house)
    house.clock.sleep(3600 * 24 * 3650)  # the row's time is the embedded database's own
    assert first.run_due() == 300.0
    assert house.cloud.calls["marked"] == 1
    assert 0 < second.run_due() <= 300.0
    assert house.cloud.calls["marked"] == 1
    house.clock.sleep(301)
    second.run_due()
    assert house.cloud.calls["marked"] == 2


def test_numbers_of_an_abandoned_pod_are_freed_once_seen_free(house: House) -> None:
    """Held while the network is there, freed once it is seen gone."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.NETWORK, times=None)
    house.release(pod)
    house.worker = house.new_worker("impatient", impatient(900.0))
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "a stuck network")
    house.clock.sleep(1.0)
    house.run(pod, PodState.RELEASED)
    sweep(house)
    assert house.store.capacity().used.vlans["lab"] == {pod.plan.vlan}
    for network in house.cloud.things(Kind.NETWORK):
        house.cloud.lose(network)
    sweep(house)
    assert not house.store.capacity().used.vlans.get("lab")
    assert any("seen free" in e.message for e in house.store.records.events(pod.id, 0))


def test_pod_released_during_the_round_is_not_a_stranger(house: House) -> None:
    """Its P_Key was on the node when the round read the fabric, and the node was freed before it judged."""
    before = released(house)
    pod = house.ready()
    assert set(pod.nodes) & set(before.nodes)
    outside = look_outside(house.world, house.site.name, house.time)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert (
        StrangerCheck(house.store, house.world, house.site, Traces(house.database)).check([before], outside)
        == []
    )
    assert not house.store.capacity().quarantines and alarms(house, before) == []


def test_unreadable_row_excludes_only_its_owner_from_the_sweep(house: House) -> None:
    """Others are searched for, and what is proved free of them is freed."""
    broken, pod = released(house), house.ready(make("b", 1))
    network = house.cloud.thing("network/management")
    port = house.cloud.add(Kind.PORT, "login", "team-b", network=network.id)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "stuck")
    house.run(pod, PodState.RELEASED)
    house.cloud.lose(port)
    with house.database.transaction() as tx:
        later = "UPDATE resource SET document = document || '{\"version\": 7000}' WHERE owner_id = %s"
        tx._connection.execute(later, [broken.id])  # pyright: ignore[reportPrivateUsage]
    assert any("version" in said for said in sweep(house))
    with house.database.statement() as tx:
        assert tx.rows("numbers_of", owner_id=pod.id) == []
