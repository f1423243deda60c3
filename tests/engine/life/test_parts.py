"""Pods with parts of nodes: several on one host, each with its accelerators, never more than there are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from pydantic import ValidationError

from tests.engine.house import House
from tests.helpers.capacities import count_of, rows_of
from weft.app.shown import shown
from weft.engine.audit.audit import Auditor
from weft.engine.proof.membership import ONE_AWAY
from weft.engine.queue.dispatcher import AGAIN, UNKNOWN_YET
from weft.engine.rows.records import PodRecord
from weft.model.errors import InputError, PermanentError, RefusedError
from weft.model.order import FabricOrder, Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import ProjectLimits, QueuePolicy
from weft.model.views import CapacityRowView
from weft.planning.queue.queue import KEPT_FOR, KEPT_OFF
from weft.ports.occupants import OnHost
from weft.testing.cloud import Fault


def small(name: str, count: int = 1, **more: Any) -> Order:
    """An order of servers with one accelerator each, on shared nodes."""
    nodes: dict[str, Any] = {
        "count": count,
        "accelerators": {"type": "h100", "count": 1},
        "image": "tiny",
        "sharing": "shared",
    } | more.pop("nodes", {})
    return Order.model_validate({"name": name, "nodes": nodes, "fabric": "none", **more})


def whole(name: str, count: int, **more: object) -> Order:
    nodes = {"count": count, "flavor": "gpu8", "image": "tiny"}
    return Order.model_validate({"name": name, "nodes": nodes, "fabric": "none", **more})


def ready(house: House, name: str, count: int = 1) -> PodRecord:
    return house.run(house.order(small(name, count)), PodState.READY)


def test_four_small_pods_share_a_host_and_free_it_one_by_one(house: House) -> None:
    """From order to receipt: each its own devices, each ends without the others, and then the host is whole again."""
    pods = [ready(house, f"p{i}") for i in range(4)]
    assert {pod.nodes for pod in pods} == {pods[0].nodes} and len(pods[0].nodes) == 1
    parts = house.store.capacity().parts
    devices = [d for row in parts for d in row.part.devices]
    assert len(parts) == 4 == len(set(devices)) == len(devices)
    assert not house.store.capacity().holds and house.store.capacity().held == set(pods[0].nodes)
    for done, pod in enumerate(pods, start=1):
        house.release(pod)
        house.run(pod, PodState.RELEASED)
        assert len(house.store.capacity().parts) == 4 - done
        assert house.store.records.receipt(pod.id) is not None
    assert not house.store.capacity().held


def test_servers_of_one_pod_share_a_host(house: House) -> None:
    """Keys, ports and addresses of their own; a list of nodes has the host once."""
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    keys = {r.key for r in house.store.pods.resources(pod.id)}
    assert {k for k in keys if k.startswith("server/")} == {f"server/{node}/{i}" for i in range(3)}
    assert {k for k in keys if k.startswith("port/")} == {f"port/{node}/{i}/management" for i in range(3)}
    addresses = [
        s.fields["address"] for k, s in ((k, house.cloud.thing(k)) for k in keys if k.startswith("port/"))
    ]
    assert len(set(addresses)) == 3
    shown = next(n for n in house.service.nodes.list(house.operator) if n.name == node)
    assert (shown.state, shown.reason) == ("busy", "shared by train")


def test_order_of_a_part_waits_for_a_free_part(house: House) -> None:
    """All parts of 16 hosts but one are taken; two more don't fit, one does; a waiting order gets a freed part."""
    most = ready(house, "most", 127)
    assert len(most.nodes) == 16
    with pytest.raises(RefusedError) as refused:
        house.order(small("two", 2))
    assert "there is capacity for 1" in str(refused.value)
    last = ready(house, "last")
    waits = house.order(small("waits", queue=True))
    house.worker._dispatcher.run()
    waits = house.store.pods.find(str(waits.id), None)
    assert (waits.state, waits.reason) == (PodState.PENDING, KEPT_FOR)
    house.release(last)
    house.run(last, PodState.RELEASED)
    house.worker._dispatcher.run()
    assert house.run(waits, PodState.READY).nodes == last.nodes


def test_order_of_whole_nodes_waits_for_empty_hosts(house: House) -> None:
    """An order of all hosts whole waits for the shared one, whose rest isn't assigned in parts."""
    part = ready(house, "part")
    with pytest.raises(RefusedError):
        house.order(whole("all", 16))
    waits = house.order(whole("all", 16, queue=True))
    house.worker._dispatcher.run()
    assert house.store.pods.find(str(waits.id), None).state is PodState.PENDING
    house.release(part)
    house.run(part, PodState.RELEASED)
    house.worker._dispatcher.run()
    assert len(house.run(waits, PodState.READY).nodes) == 16
    with pytest.raises(RefusedError):
        house.order(small("late"))


def test_orders_of_parts_and_of_whole_nodes_start_in_turn(house: House) -> None:
    """As in the lab: the first order gets what is free first, and later orders nothing of what is kept for it."""

    def state(pod: PodRecord) -> tuple[PodState, str]:
        house.worker.tend_queue()
        found = house.store.pods.find(str(pod.id), None)
        return found.state, found.reason if found.state is PodState.PENDING else ""

    def end(pod: PodRecord) -> None:
        house.release(pod)
        house.run(pod, PodState.RELEASED)

    for name in sorted(house.cloud.offers.hosts)[1:]:
        house.cloud.offers.hosts[name] = "down"
    seven, one = ready(house, "seven", 7), ready(house, "one")
    ninth = house.order(small("ninth", queue=True))
    house.clock.sleep(1.0)
    host = house.order(whole("host", 1, queue=True))
    assert state(ninth) == (PodState.PENDING, KEPT_FOR)
    assert state(host)[0] is PodState.PENDING
    end(one)
    assert state(ninth)[0] is PodState.PLACED
    assert state(host) == (PodState.PENDING, KEPT_FOR)
    (row,) = house.store.capacity().bookings
    assert (row.pod.id, row.nodes, row.came) == (host.id, tuple(seven.held), host.created_at)
    end(seven)
    house.clock.sleep(1.0)
    late = house.order(small("late", queue=True))
    with pytest.raises(RefusedError, match="there is capacity for 0"):
        house.order(small("now"))
    assert state(late) == (PodState.PENDING, KEPT_OFF)
    end(house.run(ninth, PodState.READY))
    assert state(host)[0] is PodState.PLACED
    assert not house.store.capacity().bookings or state(late)[1] != KEPT_OFF


def test_node_booked_whole_gives_no_part(house: House) -> None:
    """An order that ends before the booking goes first, on what would be idle."""
    lease = {"duration": "2h"}
    house.ready(whole("now", 15, lease=lease))
    waits = house.order(whole("then", 16, lease=lease, queue=True))
    house.worker._dispatcher.run()
    assert [row.pod.id for row in house.store.capacity().bookings] == [waits.id]
    with pytest.raises(RefusedError, match="there is capacity for 0"):
        house.order(small("part"))
    assert house.order(small("short", lease={"duration": "1h"})).nodes


def test_shared_hosts_are_watched_for_each_pod(house: House) -> None:
    """An unreadable host is unknown to both pods; a server that left it concerns only its own pod."""

    def visit(*pods: PodRecord) -> list[PodRecord]:
        for pod in pods:
            held = house.store.claim_owner(pod.id, "test")
            assert held is not None
            house.worker._visit(held)
        return [house.store.pods.find(str(p.id), None) for p in pods]

    one, two = ready(house, "one", 2), ready(house, "two")
    (node,) = one.nodes
    house.cloud.offers.unreadable.add(node)
    for pod in visit(one, two):
        assert pod.state is PodState.DEGRADED and "what is on its host is unknown" in pod.reason
    house.cloud.offers.unreadable.clear()
    assert [p.state for p in visit(one, two)] == [PodState.READY] * 2
    server = house.cloud.thing(f"server/{node}/1")
    server.fields["host"] = "gpu16"
    away, fine = visit(one, two)
    assert away.state is PodState.DEGRADED and f"node {node}: {ONE_AWAY}" in away.reason
    assert fine.state is PodState.READY
    server.fields["host"] = node
    assert visit(one)[0].state is PodState.READY


def test_concurrent_orders_never_share_an_accelerator(house: House) -> None:
    """24 threads order at the same time: eight per host, no device twice, all of them placed."""
    requests = [house.request() for _ in range(24)]
    with ThreadPoolExecutor(24) as pool:
        views = list(pool.map(lambda i: house.service.pods.create(requests[i], small(f"p{i}")), range(24)))
    parts = house.store.capacity().parts
    assert len(views) == len(parts) == 24
    taken = [(row.node, device) for row in parts for device in row.part.devices]
    assert len(set(taken)) == 24 and len({node for node, _ in taken}) == 3


@pytest.mark.parametrize(
    "change", ["device", "cores", "memory", "numa", "whole over part", "part over whole"]
)
def test_database_refuses_a_second_holder(house: House, change: str) -> None:
    """Whatever planning got wrong: a second claim of the same is refused inside its transaction."""
    pod = house.order(whole("w", 1) if change == "part over whole" else small("p"))
    (node,) = pod.held
    device = pod.plan.placement.nodes[0].part.devices[0] if pod.plan.placement.nodes[0].part else "x"
    part = {"server": 0, "devices": ["other"], "cores": 1, "memory_mib": 1, "of_cores": 9, "of_memory_mib": 9}
    part |= {"dedicated": True, "numa": [], "numa_of": 2}
    part |= {
        "device": {"devices": [device]},
        "cores": {"cores": 10},
        "memory": {"memory_mib": 10},
        "numa": {"cores": 5, "numa": [1]},
        "part over whole": {"devices": ["x"]},
    }.get(change, {})
    other = UUID(str(uuid4()))
    with pytest.raises(PermanentError, match=r"held|so much"), house.database.transaction() as tx:
        is_whole = change == "whole over part"
        tx.run("hold_node", node=node, pod_id=other, at=tx.now(), spare=False, whole=is_whole)
        tx.run("hold_part", node=node, pod_id=other, **part)


def test_stranger_on_a_shared_host_is_found_but_not_neighbours(house: House) -> None:
    """Other pods' servers belong there; anything else doesn't, and no further part is assigned beside it."""
    first = ready(house, "first")
    ready(house, "second")
    auditor = Auditor(house.store, house.world, house.site, house.clock)
    assert auditor.check().findings == ()
    (node,) = first.nodes
    house.cloud.add(Kind.SERVER, "secret", "team-b", host=house.site.node_by_name[node].nova_host)
    found = [f for f in auditor.check().findings if f.kind == "node"]
    assert [(f.category, f.subject) for f in found] == [("foreign", node)]
    third = house.order(small("third"))
    assert third.nodes != first.nodes


def known(house: House, pod: PodRecord, server: str | None) -> None:
    """Record the id of the pod's server as from Nova's answer; None: there is no answer yet."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        change = "UPDATE resource SET outside_id = %s WHERE kind = 'server' AND owner_id = %s"
        connection.execute(change, [server, pod.id])


@pytest.mark.parametrize("answered", [True, False])
def test_neighbour_that_starts_during_the_check_is_not_a_stranger(
    house: House, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Placement has its server before Nova's answer says which it is: that is waited for, for a limited time."""
    for name in sorted(house.cloud.offers.hosts)[1:]:
        house.cloud.offers.hosts[name] = "down"
    look, others, pauses = house.cloud.on_hosts, list[PodRecord](), list[float]()

    def asked(hosts: Collection[str]) -> Mapping[str, OnHost]:
        monkeypatch.setattr(house.cloud, "on_hosts", look)
        others.append(ready(house, "other"))
        known(house, others[0], None)
        return look(hosts)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if answered and len(pauses) == 2:
            (server,) = house.cloud.things(Kind.SERVER)
            known(house, others[0], server.id)

    monkeypatch.setattr(house.cloud, "on_hosts", asked)
    monkeypatch.setattr("weft.engine.book.occupancy.time", SimpleNamespace(sleep=pause))
    if answered:
        assert ready(house, "train").nodes == others[0].nodes and len(pauses) == 2
    else:
        with pytest.raises(RefusedError, match="there is capacity for 0"):
            house.order(small("train"))
        assert sum(pauses) < 4


@pytest.mark.parametrize("answered", [True, False])
def test_order_beside_an_unanswered_server_does_not_delay_others(
    house: House, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """The queue goes on without it. It is tried again a second later, and after a while on other nodes."""
    monkeypatch.setattr("weft.engine.book.occupancy.time", SimpleNamespace(sleep=pytest.fail))
    for name in sorted(house.cloud.offers.hosts)[3:]:
        house.cloud.offers.hosts[name] = "down"
    neighbour = ready(house, "neighbour")
    (server,) = house.cloud.things(Kind.SERVER)
    known(house, neighbour, None)
    beside, behind = (house.order(o) for o in (small("beside", queue=True), whole("behind", 1, queue=True)))
    assert house.worker.tend_queue() == AGAIN
    beside, behind = (house.store.pods.find(str(pod.id), None) for pod in (beside, behind))
    assert (beside.state, beside.reason) == (PodState.PENDING, UNKNOWN_YET)
    assert behind.state is PodState.PLACED
    if answered:
        known(house, neighbour, server.id)
    waited = 0.0
    while beside.state is PodState.PENDING:
        assert waited < 5
        house.clock.sleep(AGAIN)
        waited += AGAIN
        house.worker.tend_queue()
        beside = house.store.pods.find(str(beside.id), None)
    assert beside.state is PodState.PLACED
    assert (beside.nodes == neighbour.nodes) is answered and waited == (1 if answered else 4)


def test_tenants_do_not_see_which_accelerators_they_have(house: House) -> None:
    """Nova decides which ones a server gets; the view allows no conclusion about others'."""
    house.order(small("p", 2))
    view = shown(house.service.pods.show(house.request(), "p"))
    assert len(view.placed) == 2 and all(n.part is None for n in view.placed)
    plan = shown(house.service.pods.plan(house.request(), small("q")))
    assert plan.placement.nodes[0].part is None
    assert plan.placement.explanation.chosen == "1 server on 1 node."


def test_project_counts_each_shared_node_once(house: House) -> None:
    """Four servers on one host count as one node of the project's limit; another host counts as one more."""
    limits = {"team-a": ProjectLimits(max_nodes=1)}
    site = house.site.model_copy(update={"queue": QueuePolicy(projects=limits)})
    house.store.activate_site(site, "test")
    house.order(small("a", 4))
    house.order(small("b", 4))
    with pytest.raises(RefusedError, match="the project has 1 of at most 1 nodes"):
        house.order(small("c", 1))


def test_order_on_a_fabric_without_sharing_is_refused_with_its_reason(house: House) -> None:
    """The fabric decides about virtual functions; dedicated adapters require dedicated nodes."""
    with pytest.raises(InputError, match=r"fabric\.hcas"):
        house.order(small("p").model_copy(update={"fabric": FabricOrder()}))
    asked = small("p", fabric={"hcas": "shared"})
    with pytest.raises(RefusedError, match="shared adapters are not possible on fabric ib0"):
        house.order(asked)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"locality": {"slice": 2}}, "locality.slice"),
        ({"nodes": {"spare": 1}}, "nodes.spare"),
        ({"locality": {"preferences": [{"kind": "rack", "name": "r", "cost": 5}]}}, "locality.preferences"),
    ],
)
def test_options_for_whole_nodes_are_refused_for_parts(more: dict[str, object], what: str) -> None:
    with pytest.raises(ValidationError, match=f"omit {what}"):
        small("p", 2, **more)


def test_capacity_counts_what_is_left_of_shared_nodes(house: House) -> None:
    """The largest order that capacity reports fits; one server more is refused."""

    def row() -> CapacityRowView:
        (found,) = rows_of(house.service.capacity.show(house.operator), "parts")
        return found

    def numbers(found: CapacityRowView) -> tuple[object, ...]:
        return (found.free, count_of(found, "nodes in part use").total, count_of(found, "nodes").total)

    empty = row()
    assert empty.accelerators is not None
    assert (empty.place, empty.accelerators.type, empty.free) == ("none", "h100", empty.total)
    _, shared, nodes = numbers(empty)
    assert shared == 0 and "virtual functions" not in {c.name for c in empty.counts}
    ready(house, "train", 3)
    taken = row()
    assert numbers(taken) == (empty.total - 3, 1, nodes)
    (one,) = [x for x in taken.largest if x.accelerators == 1]
    with pytest.raises(RefusedError):
        house.order(small("too-many", one.count + 1))
    house.run(house.order(small("rest", one.count)), PodState.READY)
    full = row()
    assert full.free == full.total - 3 - one.count
    assert [x.count for x in full.largest if x.accelerators == 1] == [0]


def test_restorable_server_that_was_never_seen_keeps_its_part(house: House) -> None:
    """The answer to its creation was lost, and its owner has soft-deleted it: only its host's listing shows it."""
    pod = house.order(small("train"))
    planted = house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, key="server/*")
    while not house.cloud.servers:
        house.store.wake(pod.id)
        house.worker.run_once()
    (server,) = house.cloud.servers
    server.hidden = planted.hits == 1
    house.release(pod)
    for _ in range(5):
        house.store.wake(pod.id)
        house.worker.run_once()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.RELEASING and f"server {server.id} " in pod.reason
    assert house.store.records.receipt(pod.id) is None and house.store.capacity().parts
    house.cloud.lose(server)
    house.run(pod, PodState.RELEASED)
