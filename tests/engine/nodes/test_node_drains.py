"""Nodes that operators drain: no new orders, pods stay and read of it, promises are kept or named."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.dumps import dump, restore
from tests.engine.house import House, policy
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.timehouse import HandClock, at_once, look, make, messages
from tests.helpers.hostchecks import document, result
from weft.app.redact import redacted
from weft.engine.base.database import Database
from weft.engine.nodes.drains import broken_promises
from weft.model.change import Replacement
from weft.model.errors import ConflictError, ForbiddenError, InputError, RefusedError
from weft.model.pod import Aspect, PodState
from weft.model.reservation import Reservation
from weft.model.views import AuditLogSearch, DrainRequest, DrainResult, EventSearch
from weft.planning.fabric.places import nodes_of_leaves


@pytest.fixture
def ipu(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def drain(house: House, target: str, **given: Any) -> DrainResult:
    return house.service.nodes.drain(house.operator, DrainRequest(target=target, **given))


def undrain(house: House, target: str) -> DrainResult:
    return house.service.nodes.undrain(house.operator, target)


def drained(house: House) -> set[str]:
    return {d.node for d in house.service.nodes.drains(house.operator)}


def removed(refused: RefusedError) -> dict[str, Any]:
    """Filter -> its report in a refusal."""
    explanation: Any = refused.detail["explanation"]
    return {report["filter"]: report for report in explanation["filters"]}


def test_drained_leaf_gets_no_new_orders_until_it_is_undrained(house: House) -> None:
    """Named by node, rack or leaf; refusals, capacity and the list of nodes count and name them."""
    *members, manager = nodes_of_leaves(house.site)["leaf01"]
    done = drain(house, "leaf01", reason="RMA 4711")
    assert (done.nodes, done.pods, done.broken) == (tuple(members), (), ())
    assert (manager, len(members)) == ("sm1", 4), "no order gets the host of a subnet manager"
    row = next(r for r in house.service.capacity.show(house.operator).rows if r.accelerators is None)
    assert row.free == row.total - 4
    parts = next(r for r in house.service.capacity.show(house.operator).rows if r.shape == "parts")
    for one in (row, parts):
        assert [c.total for c in one.counts if c.name == "drained nodes"] == [4], one.shape
    with pytest.raises(RefusedError) as refused:
        house.order(make("all", 16))
    reports = removed(refused.value)
    assert reports["drain"]["removed"] == 4 and "drained: RMA 4711" in reports["drain"]["examples"][0]
    shown = house.service.nodes.show(house.operator, members[0])
    assert (shown.state, shown.drain and shown.drain.reason) == ("drained", "RMA 4711")
    assert not set(house.order(make("most", 12)).nodes) & set(members)
    undrain(house, members[0])
    assert house.order(make("one", 1)).nodes == (members[0],)
    assert set(undrain(house, "leaf:leaf01").nodes) == set(members[1:])
    for target in ("leaf01", "gpu01"):
        with pytest.raises(ConflictError, match="nothing is drained"):
            undrain(house, target)
    found = house.service.audits.log(house.operator, AuditLogSearch())
    assert {e.action for e in found} >= {"node drain", "node undrain"}


def test_pod_on_drained_nodes_stays_and_its_project_reads_when_and_why(
    house: House, clock: HandClock
) -> None:
    """Only what the operator published; the same drain again says nothing; a new time is a new event."""
    pod = house.ready()
    node, by = pod.nodes[0], clock.now() + timedelta(hours=3)
    done = drain(house, node, by=by, reason="RMA 4711", public="new switch")
    assert [(p.pod, p.nodes) for p in done.pods] == [("train", (node,))]
    drain(house, node, by=by, reason="RMA 4711", public="new switch")
    verbs, tenant = redacted(house.service, policy()), house.request()
    seen = verbs.pods.show(tenant, "train")
    [condition] = [c for c in seen.conditions if c.type is Aspect.MAINTENANCE]
    text = f"maintenance of {node} from 2026-11-21T11:00Z: new switch; nothing is released by itself"
    assert (condition.status, condition.message, seen.state) == ("true", text, PodState.READY)
    assert [e.message for e in verbs.pods.events(tenant, "train") if e.type == "drain"] == [text]
    assert any("RMA 4711" in said for said in messages(house, pod, "drain"))
    drain(house, node, by=by + timedelta(hours=1))
    assert len(messages(house, pod, "drain")) == 2
    clock.forward(hours=9)
    house.run(pod, PodState.READY)
    assert look(house, pod).wanted == "present", "nothing is released by itself"
    undrain(house, node)
    assert [c for c in verbs.pods.show(tenant, "train").conditions if c.type is Aspect.MAINTENANCE] == []
    last = [e.message for e in verbs.pods.events(tenant, "train")][-1]
    assert last == f"maintenance of {node} is over or was cancelled"
    with pytest.raises(ForbiddenError):
        verbs.nodes.drain(tenant, DrainRequest(target=node))


def test_released_pods_drained_node_is_not_assigned_after_a_restart(house: House) -> None:
    pod = house.ready()
    drain(house, pod.nodes[0])
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.restart()
    assert drained(house) == {pod.nodes[0]}
    assert pod.nodes[0] not in house.order(make("next", 15)).nodes


def test_drain_that_breaks_a_promise_is_refused_and_names_it(house: House, clock: HandClock) -> None:
    """A reservation; a booking that no other nodes can keep. One that fits elsewhere moves there."""
    start = clock.now() + timedelta(hours=2)
    given = {"name": "course", "project_id": "0" * 32, "nodes": ["gpu15"], "start": start}
    house.service.capacity.reserve(house.operator, Reservation.model_validate(given))
    with pytest.raises(ConflictError, match="reservation course"):
        drain(house, "gpu15")
    house.service.capacity.end_reservation(house.operator, "course")
    pod = house.order(make("later", 15, start=start, duration="1h"))
    booked = house.store.capacity().bookings[0].nodes
    [spare] = {n.name for n in house.site.nodes if n.role == "compute"} - set(booked)
    assert drain(house, booked[0]).broken == ()
    clock.forward(minutes=1)
    house.worker.tend_queue()
    assert set(house.store.capacity().bookings[0].nodes) == {*booked[1:], spare}
    planned = drain(house, booked[1], plan=True)
    assert planned.broken == (f"booking of pod later of project {pod.project_id}",)
    assert drained(house) == {booked[0]}, "a plan drains nothing"
    with pytest.raises(ConflictError, match="booking of pod later") as refused:
        drain(house, booked[1])
    assert "nothing was drained" in str(refused.value) and drained(house) == {booked[0]}
    assert drain(house, booked[1], break_promises=True).broken == (
        f"booking of pod later of project {pod.project_id}",
    )
    assert drain(house, booked[1], reason="again").broken == (), "it was broken before"


def test_place_that_the_site_lacks_and_a_time_in_the_past_are_refused(house: House, clock: HandClock) -> None:
    for target in ("nix", "rack:gpu01", "leaf:", "spine01", "sm1"):
        with pytest.raises(InputError, match="target"):
            drain(house, target)
    with pytest.raises(InputError, match="future"):
        drain(house, "gpu01", by=clock.now())
    assert drained(house) == set()


def test_node_that_leaves_the_site_and_returns_is_still_drained(house: House) -> None:
    """While it is away the drain is listed, and can be ended by the node's name."""
    site, away = house.store.site().site, {"gpu15", "gpu16"}
    for node in away:
        drain(house, node)
    nodes = tuple(n for n in site.nodes if n.name not in away)
    links = tuple(x for x in site.links if x.a.partition("/")[0] not in away)
    house.store.activate_site(site.model_copy(update={"nodes": nodes, "links": links}), "test")
    assert drained(house) == away
    undrain(house, "gpu16")
    house.store.activate_site(site, "test")
    states = {n.name: n.state for n in house.service.nodes.list(house.operator)}
    assert (states["gpu15"], states["gpu16"]) == ("drained", "free")


def test_two_operators_drain_overlapping_places_at_once(house: House) -> None:
    """Both succeed, whatever the order of their nodes, and pods on them get events."""
    pod = house.ready()
    works = [lambda t=t: drain(house, t, reason=t) for t in ("leaf01", "leaf02", *pod.nodes)]
    assert at_once(*works) == []
    assert drained(house) == {f"gpu{n:02}" for n in range(1, 9)}
    assert len(messages(house, pod, "drain")) >= 1


def test_database_that_lacks_only_a_drain_is_detected(house: House) -> None:
    """Otherwise the node would be assigned shortly before it is switched off."""
    house.ready()
    dump(house.database.url)
    drain(house, "gpu09")
    restore(house.database.url)
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))


def test_drained_machine_and_host_take_no_pod_of_ipus(ipu: IpuHouse) -> None:
    """A pod whose server is on a drained Poplar host reads of it, too."""
    pod = ipu.booted(ipus(count=4))
    drain(ipu, "ipum2")
    with pytest.raises(RefusedError) as refused:
        ipu.order(ipus("wide", 16))
    reports = removed(refused.value)
    assert reports["drain"]["removed"] == 1
    (row,) = (r for r in ipu.service.capacity.show(ipu.operator).rows if r.shape == "ipus")
    assert [c.total for c in row.counts if c.name == "drained machines"] == [1]
    done = drain(ipu, "poplar1")
    assert [p.pod for p in done.pods] == [pod.name]
    seen = ipu.service.pods.show(ipu.operator, str(pod.id))
    assert [c.message for c in seen.conditions if c.type is Aspect.MAINTENANCE] == [
        "poplar1 drained; nothing is released by itself"
    ]


def test_drain_answers_which_nodes_of_each_pod_it_replaces(house: House, clock: HandClock) -> None:
    """Planned or not: which nodes are replaced, which stay, and nothing where there is no time."""
    kept = house.ready(make("kept", 1))
    wanted = make("moved", 1, on_failure="replace")
    moved = house.ready(wanted.model_copy(update={"nodes": wanted.nodes.model_copy(update={"spare": 1})}))
    waiting = {"by": clock.now() + timedelta(hours=1)}
    rack = {house.site.node_by_name[n].rack for n in (*kept.nodes, *moved.nodes)}
    assert len(rack) == 1
    for more, codes in (
        ({}, ["", ""]),
        ({**waiting, "plan": True}, ["DRAIN_LEAVES", "DRAIN_REPLACES"]),
        ({**waiting, "wait": True}, ["DRAIN_WAITS", "DRAIN_WAITS"]),
        (waiting, ["DRAIN_LEAVES", "DRAIN_REPLACES"]),
    ):
        done = house.service.nodes.drain(house.operator, DrainRequest(target=str(rack.copy().pop()), **more))
        assert [(p.pod, p.code) for p in done.pods] == [("kept", codes[0]), ("moved", codes[1])]
    spares = {s.node for s in moved.plan.placement.spares}
    said = done.pods[1].params
    assert set(said["spares"]) == spares and set(said["nodes"]).isdisjoint(spares)


def test_drain_and_replacement_of_ipu_machines_say_that_the_pod_is_ordered_again(ipu: IpuHouse) -> None:
    """Before anything is done, by the same code."""
    pod = ipu.booted(ipus(count=4))
    machine = pod.plan.placement.nodes[0].node
    by = ipu.time.now() + timedelta(hours=1)
    planned = ipu.service.nodes.drain(ipu.operator, DrainRequest(target=machine, by=by, plan=True))
    assert [p.code for p in planned.pods] == ["DRAIN_NEEDS_RELEASE"]
    assert planned.pods[0].params["why"]["code"] == "IPUS_ARE_WHOLE"
    for verb in (ipu.service.pods.plan_replacement, ipu.service.pods.replace_node):
        with pytest.raises(ConflictError) as refused:
            verb(ipu.operator, str(pod.id), Replacement(node=machine))
        assert refused.value.message.code == "IPUS_ARE_WHOLE"


def test_drained_host_of_a_controller_is_named_to_operators_alone(ipu: IpuHouse) -> None:
    """In events and conditions; the host of the tenant's own Poplar server is named."""
    pod = ipu.booted()
    for host in ("generic1", "poplar1"):
        drain(ipu, host, reason="RMA 4711", public="new fan")
    assert len([said for said in messages(ipu, pod, "drain") if "generic1" in said]) == 1
    tenant = redacted(ipu.service, policy())
    shown = tenant.pods.show(ipu.request(), pod.name)
    [condition] = [c for c in shown.conditions if c.type is Aspect.MAINTENANCE]
    inner = "maintenance of a host of servers that the site runs for the pod"
    over = "; nothing is released by itself"
    assert inner in condition.message and "maintenance of poplar1: new fan" in condition.message
    for host in ("generic1", "poplar1"):
        undrain(ipu, host)
    events = tenant.pods.events(ipu.request(), pod.name)
    assert sorted(str(e.message) for e in events if e.type == "drain") == sorted(
        f"maintenance of {where}{what}"
        for where in ("poplar1", inner.removeprefix("maintenance of "))
        for what in (f": new fan{over}", " is over or was cancelled")
    )
    streamed = tenant.events.page(ipu.request(), EventSearch())
    health = tenant.pods.health(ipu.request(), pod.name)
    for one in (shown, *events, streamed, health):
        assert "generic1" not in one.model_dump_json()


def test_host_of_a_controller_is_not_named_before_the_server_is_written(ipu: IpuHouse) -> None:
    """A slot on it is held from the placement on."""
    pod = ipu.order(ipus())
    drain(ipu, "generic1")
    events = redacted(ipu.service, policy()).pods.events(ipu.request(), pod.name)
    assert [str(e.message) for e in events if e.type == "drain"] and "generic1" not in str(events)


def test_failed_checks_of_a_controllers_host_name_it_to_operators_alone(ipu: IpuHouse) -> None:
    """In events and conditions, as for drains."""
    pod = ipu.booted()
    token = ipu.service.checks.make_token(ipu.operator, "generic1").token
    reporter = ipu.service.checks.reporter(token, "generic1", "192.0.2.1", "req-1", "weft-check")
    ipu.service.checks.report(reporter, document(result("XID", "gpu0", "failed", reason="Xid 79")))
    assert "own checks of node generic1, with" in str(messages(ipu, pod, "node"))
    tenant = redacted(ipu.service, policy())
    shown, events = (
        tenant.pods.show(ipu.request(), pod.name),
        tenant.pods.events(ipu.request(), pod.name),
    )
    said = "own checks of a host of servers that the site runs for the pod failed"
    assert [c.message for c in shown.conditions if c.type is Aspect.CHECKS_FAIL] == [said]
    assert [str(e.message) for e in events if e.type == "node"] == [said]
    assert "generic1" not in shown.model_dump_json() + "".join(e.model_dump_json() for e in events)


def test_empty_set_of_nodes_breaks_no_promise(house: House) -> None:
    with house.database.transaction() as tx:
        assert broken_promises(tx, house.site, house.store.capacity(), (), house.clock.now()) == ()
