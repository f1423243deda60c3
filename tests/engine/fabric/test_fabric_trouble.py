"""Trouble with fabric managers while pods live: a replaced file, a silent manager, one with an old file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.engine.house import ORDER, House
from weft.app.metrics import StoreCollector
from weft.drivers.opensm import OpenSmDriver
from weft.engine.rows.records import PodRecord
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.agentapi import Tables
from weft.model.fabric import PortErrors
from weft.model.ids import FULL_MEMBER
from weft.model.order import Order
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.model.resources import Resource
from weft.model.site import FabricManager
from weft.ports.ledger import NoLedger
from weft.ports.resources import Scope
from weft.testing.fabric import segment


def _without_keys(tables: Tables) -> Tables:
    return tables.model_copy(
        update={"ports": tuple(p.model_copy(update={"keys": (), "leaf_keys": ()}) for p in tables.ports)}
    )


def _others(tables: Tables) -> Tables:
    own = tables.own_port
    return tables.model_copy(
        update={
            "ports": tuple(
                p if p.port_guid == own else p.model_copy(update={"port_guid": p.port_guid ^ 1 << 60})
                for p in tables.ports
            )
        }
    )


BLIND: dict[str, Callable[[Tables], Tables]] = {
    "nothing": lambda t: t.model_copy(update={"ports": ()}),
    "no keys": _without_keys,
    "strangers": _others,
    "not itself": lambda t: t.model_copy(
        update={"ports": tuple(p for p in t.ports if p.port_guid != t.own_port)}
    ),
    "few": lambda t: t.model_copy(update={"ports": tuple(p for p in t.ports if p.port_guid == t.own_port)}),
    "twice": lambda t: t.model_copy(update={"ports": t.ports * 2}),
}


def _order(name: str) -> Order:
    return Order.model_validate({**ORDER.model_dump(mode="json"), "name": name})


def _members(house: House, pod: PodRecord) -> int:
    """How many of the pod's ports have its key as full members."""
    key = FULL_MEMBER | (pod.plan.segment or 0)
    ports = [h.port_guid for n in pod.nodes for h in house.site.node_by_name[n].hcas]
    tables = house.fabric.tables(ports)
    return sum(key in tables[g].keys for g in ports)


def _keeper(house: House) -> FabricKeeper:
    return FabricKeeper(house.database, house.keeper.world)


def _released(house: House, pod: PodRecord) -> Receipt:
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    return signed.receipt


def _keys_in_use(house: House) -> frozenset[int]:
    return house.store.capacity().used.segments.get("ib0", frozenset())


def _partition(house: House, pkey: int, *members: int) -> Resource:
    return Resource(key="partition", name="weft-partition", where="ib0", spec=segment(pkey, members))


def _replaced(house: House) -> None:
    """Put another version of the file in place on every manager, as configuration management does."""
    for manager in house.fabric.managers:
        assert manager.text is not None
        manager.text = manager.text.partition("# BEGIN weft")[0]


def _events(house: House, pod: PodRecord) -> str:
    return "\n".join(e.message for e in house.store.records.events(pod.id, 0))


def test_replaced_file_costs_no_pod_its_partition(house: House) -> None:
    """The next order's change restores what the database wants; the pods concerned get an event."""
    first = house.ready(_order("first"))
    whole = _members(house, first)
    assert whole
    _replaced(house)
    assert any("first" in p or "weft" in p for p in house.fabric.status().problems)
    second = house.ready(_order("second"))
    assert _members(house, first) == whole == _members(house, second)
    assert "was restored" in _events(house, first) and "was restored" not in _events(house, second)
    assert house.run(first, PodState.READY).state is PodState.READY


def test_keeper_restores_a_replaced_file_without_an_order(house: House) -> None:
    """No order and no visit comes: the keeper restores the partition."""
    pod = house.ready(_order("first"))
    whole = _members(house, pod)
    _replaced(house)
    house.fabric.manager("sm1").sweep()
    assert _members(house, pod) == 0
    _keeper(house).tend()
    assert _members(house, pod) == whole
    assert house.fabric.status().problems == ()


def test_partitions_unknown_to_the_database_stay_in_the_file(house: House) -> None:
    """The database was restored from an older dump: an order removes nothing that it doesn't know."""
    unknown = "0badf00d-0000-4000-8000-000000000001"
    guid = house.site.node_by_name["gpu16"].hcas[0].port_guid
    house.fabric.create(
        Scope("lab", Owner.pod(unknown), "lost", "team-b"),
        [_partition(house, 0x170, guid)],
        {},
    )
    house.ready(_order("first"))
    assert [p.name for k, p in house.fabric.partitions().items() if k == 0x170] == [f"weft-{unknown[:8]}-170"]
    assert 0x8170 in house.fabric.tables([guid])[guid].keys
    _keeper(house).tend()
    assert 0x170 in house.fabric.partitions()


def test_old_file_does_not_bring_back_a_released_pod(house: House) -> None:
    """A copy of the file from before the release is put in place: its nodes may be another pod's by now."""
    first = house.ready(_order("first"))
    copies = {m.name: m.text for m in house.fabric.managers}
    _released(house, first)
    second = house.ready(_order("second"))
    for manager in house.fabric.managers:
        manager.text = copies[manager.name]
    house.fabric.manager("sm1").sweep()
    assert any("was released" in p for p in house.fabric.status().problems)
    house.ready(_order("third"))
    assert _members(house, second) == 4
    marks = [d.mark for d in house.fabric.manager("sm2").partitions().weft]
    assert len(marks) == 2 and not any(str(first.id) in m for m in marks)


def test_silent_standby_blocks_neither_order_nor_release(house: House) -> None:
    """The master is corrected and read; what the standby may still have is reported, and its P_Key is kept."""
    sm2 = house.fabric.manager("sm2")
    sm2.reachable = False
    pod = house.ready(_order("first"))
    assert "sm2" in _events(house, pod)
    health = house.service.health()
    assert health.ready and "1 of 2" in health.checks["fabric ib0"]
    sm2.reachable = True
    _keeper(house).tend()
    assert sm2.text == house.fabric.manager("sm1").text
    sm2.reachable = False
    receipt = _released(house, pod)
    [item] = [i for i in receipt.items if i.plane == "partition"]
    assert receipt.clean and item.result == "clean" and any("sm2" in u for u in item.unread)
    assert "sm1" in item.seen and "sm2" not in item.seen
    second = house.ready(_order("second"))
    assert second.plan.segment != pod.plan.segment
    _keeper(house).tend()
    assert pod.plan.segment in _keys_in_use(house)
    assert any("stay allocated" in p and "0x101" in p for p in house.fabric.status().problems)
    sm2.reachable = True
    _keeper(house).tend()
    assert pod.plan.segment not in _keys_in_use(house)
    assert sm2.text == house.fabric.manager("sm1").text
    assert str(pod.id) not in (sm2.text or "") and house.fabric.status().problems == ()


def test_standby_that_cannot_write_keeps_the_p_key_held(house: House) -> None:
    """Its disk is full: it still has the partition, so the P_Key stays held until it doesn't."""
    sm2 = house.fabric.manager("sm2")
    pod = house.ready(_order("first"))
    sm2.writable = False
    receipt = _released(house, pod)
    [item] = [i for i in receipt.items if i.plane == "partition"]
    assert receipt.clean and any("sm2" in u and "still has" in u for u in item.unread)
    _keeper(house).tend()
    assert pod.plan.segment in _keys_in_use(house)
    # Another order must not take what the standby still has for something that the master has lost.
    second = house.ready(_order("second"))
    assert second.plan.segment != pod.plan.segment
    assert str(pod.id) not in (house.fabric.manager("sm1").text or "")
    sm2.writable = True
    _keeper(house).tend()
    assert pod.plan.segment not in _keys_in_use(house)


def test_order_does_not_ask_other_fabrics(house: House) -> None:
    fabric = house.site.fabrics["ib0"]
    lonely = fabric.model_copy(update={"manager": FabricManager(driver="opensm")})
    site = house.site.model_copy(update={"fabrics": {**house.site.fabrics, "ib1": lonely}})
    house.store.activate_site(site, "test")
    silent = OpenSmDriver(site, "ib1", NoLedger())
    house.world = replace(
        house.world,
        fabrics={**house.world.fabrics, "ib1": silent},
        resources={**house.world.resources, "ib1": silent},
    )
    house.ready(_order("first"))
    health = house.service.health()
    assert health.ready and health.checks["fabric ib1"].startswith("unknown")
    for manager in house.fabric.managers:
        manager.reachable = False
    assert not house.service.health().ready


def test_keeper_closes_a_fabric_without_a_file(house: House) -> None:
    """OpenSM opens every port without a file; the keeper closes them even if there are no pods."""
    ports = [h.port_guid for n in house.site.nodes if n.role == "compute" for h in n.hcas]
    for manager in house.fabric.managers:
        manager.text = None
    house.fabric.manager("sm1").sweep()
    assert house.fabric.tables(ports)[ports[0]].keys == {0xFFFF}
    _keeper(house).tend()
    assert all(t.keys == {0x7FFF} for t in house.fabric.tables(ports).values())


@pytest.mark.parametrize("eyes", ["nothing", "no keys", "strangers", "not itself", "few", "twice"])
def test_blind_agent_prevents_the_receipt(house: House, eyes: str) -> None:
    """The agent sees no port, no P_Key, other ports, or fewer: unknown, and the release waits until it sees them."""
    pod = house.ready(_order("first"))
    manager = house.fabric.manager("sm1")
    manager.eyes = BLIND[eyes]
    house.release(pod)
    for _ in range(4):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = house.store.pods.find(str(pod.id), None)
    assert now.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    manager.eyes = lambda tables: tables
    house.clock.sleep(5)
    house.run(pod, PodState.RELEASED)


def test_unreadable_ports_are_named_in_the_receipt(house: House) -> None:
    """Two ports that never were members are cut off: the receipt names them as not covered."""
    pod = house.ready(_order("first"))
    outsiders = [n for n in house.site.nodes if n.role == "compute" and n.name not in pod.nodes][:2]
    for node in outsiders:
        house.fabric.cut(node.hcas[0].port_guid)
    receipt = _released(house, pod)
    [item] = [i for i in receipt.items if i.plane == "p_key elsewhere"]
    assert "2 more could not be read" in item.seen and len(item.unread) == 2
    assert all(any(u.startswith(f"{n.name}/") for u in item.unread) for n in outsiders)


def test_unreadable_former_member_is_never_clean(house: House) -> None:
    """Its cable is pulled before the release: no receipt until it was read."""
    pod = house.ready(_order("first"))
    port = house.site.node_by_name[pod.nodes[0]].hcas[0].port_guid
    house.fabric.cut(port)
    house.release(pod)
    for _ in range(4):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert house.store.records.receipt(pod.id) is None
    house.fabric.repair(port)
    house.run(pod, PodState.RELEASED)


def _metrics(house: House) -> dict[str, float]:
    found = [s for m in StoreCollector(house.store).collect() for s in m.samples if "weft_fabric" in s.name]
    return {s.name: s.value for s in found if s.labels == {"fabric": "ib0"}}


def test_metrics_show_each_fabrics_state(house: House) -> None:
    """Ports with growing errors, problems, and a missing master; a fabric that left the site leaves the metrics too."""
    assert _metrics(house) == {"weft_fabric_up": 0}, "it was never read: unknown isn't up"
    master = house.fabric.managers[0]
    old = PortErrors(node="leaf01", port=3, counters={"PortRcvErrors": 9000})
    counter = "PortRcvErrors"
    bad = [
        PortErrors(node="leaf02", port=port, counters={counter: 90}, grown={counter: 80}, over=(counter,))
        for port in range(1, 71)
    ]
    master.port_errors = (old, bad[0])
    _keeper(house).tend()
    found = _metrics(house)
    assert (found["weft_fabric_up"], found["weft_fabric_ports_with_errors"]) == (1, 1)
    master.port_errors = tuple(bad)
    _keeper(house).tend()
    found = _metrics(house)
    assert found["weft_fabric_ports_with_errors"] == 70  # the list of ports ends at 50
    assert found["weft_fabric_read_age_seconds"] < 3600
    for manager in house.fabric.managers:
        manager.reachable = False
    _keeper(house).tend()
    found = _metrics(house)
    assert found["weft_fabric_up"] == 0
    assert found["weft_fabric_problems"] > 0
    assert "weft_fabric_ports_with_errors" not in found
    with house.database.transaction() as tx:
        tx.run("saw_fabric", fabric="gone", known=True, problems=0, port_errors=0)
    _keeper(house).tend()
    assert "gone" not in {f.fabric for f in house.store.counts().fabrics}
