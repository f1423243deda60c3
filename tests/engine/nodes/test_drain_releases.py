"""Pods whose orders say `on_drain: release` are released at the time of a drain, and only then."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.base.test_locks import locked, locked_pod
from tests.engine.dumps import dump, restore
from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import House, policy
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.replace.test_repairs import repairs, replacer
from tests.engine.timehouse import HandClock, at_once, look, make, messages
from weft.app.redact import redacted
from weft.app.repairs import NodeRepairs
from weft.engine.base.database import Database
from weft.engine.nodes.drains import end_pods_on_drains
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.order import Order
from weft.model.pod import Aspect, PodState
from weft.model.views import AuditLogSearch, DrainRequest
from weft.testing.cloud import Fault

ENDS = "the pod is released at that time, as its order says (on_drain: release), unless operators end or move the drain"


@pytest.fixture
def ipu(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def order(name: str = "train", count: int = 1, spare: int = 0, **more: Any) -> Order:
    made = make(name, count, **{"on_drain": "release", **more})
    return made.model_copy(update={"nodes": made.nodes.model_copy(update={"spare": spare})})


def drain(house: House, node: str, **more: Any) -> Any:
    given = {"target": node, "by": house.time.now() + timedelta(hours=1), **more}
    return house.service.nodes.drain(house.operator, DrainRequest.model_validate(given))


def condition(house: House, pod: PodRecord) -> str:
    """What the pod's project reads of the maintenance; empty: nothing."""
    seen = redacted(house.service, policy()).pods.show(house.request(), pod.name)
    return "; ".join(str(c.message) for c in seen.conditions if c.type is Aspect.MAINTENANCE)


def wanted(house: House, *pods: PodRecord) -> list[str]:
    return [look(house, pod).wanted for pod in pods]


def test_pod_is_released_at_the_time_of_a_drain_if_its_order_says_so(house: House, clock: HandClock) -> None:
    """Its project reads of it before; events, audit log and receipt name the cause; others keep their nodes."""
    pod, kept = house.ready(order(count=2)), house.ready(make("kept", 1))
    for node in (pod.nodes[0], kept.nodes[0]):
        done = drain(house, node, reason="RMA 4711", public="new switch")
    assert [(p.pod, p.code) for p in done.pods] == [("kept", "DRAIN_LEAVES")]
    text = f"maintenance of {pod.nodes[0]} from 2026-11-21T09:00Z: new switch; {ENDS}"
    assert condition(house, pod) == text
    tenant = redacted(house.service, policy()).pods.events(house.request(), "train")
    assert [str(e.message) for e in tenant if e.type == "drain"] == [text]
    clock.forward(minutes=59)
    repairs(house).tend()
    assert wanted(house, pod, kept) == ["present", "present"]
    clock.forward(minutes=2)
    repairs(house).tend()
    assert wanted(house, pod, kept) == ["absent", "present"]
    assert [e.code for e in house.service.pods.events(house.operator, "kept") if e.type == "drain"][1:] == [
        "DRAIN_DUE"
    ]
    house.run(pod, PodState.RELEASED)
    repairs(house).tend()
    (said,) = messages(house, pod, "release")[:1]
    assert said.startswith(
        f"{pod.nodes[0]} should have been empty since 2026-11-21T09:00Z: the pod is released"
    )
    assert "DRAIN_DUE" not in [e.code for e in house.service.pods.events(house.operator, "train")]
    (entry,) = house.store.records.audit_log(AuditLogSearch(action="pod release"))
    assert (entry.user, entry.subject, entry.outcome) == ("weft", "train", f"done: {said}")
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert signed.receipt.cause == (
        f"maintenance of {pod.nodes[0]} began at 2026-11-21T09:00Z: the pod is released, as its order says "
        "(on_drain: release)"
    )
    house.release(kept)
    house.run(kept, PodState.RELEASED)
    other = house.store.records.receipt(kept.id)
    assert other is not None and "cause" not in other.model_dump(mode="json")["receipt"]


def test_answer_of_a_drain_names_what_is_released(house: House) -> None:
    """Whether the drain is only planned or not; a pod whose drained nodes are idle spares isn't released."""
    pod = house.ready(order(spare=1))
    for target, code, more in (
        (pod.nodes[0], "DRAIN_RELEASES", {"plan": True}),
        (pod.nodes[0], "DRAIN_RELEASES", {}),
        (pod.nodes[0], "DRAIN_WAITS", {"wait": True}),
        (pod.spares[0], "DRAIN_LEAVES", {}),
        (pod.spares[0], "", {"by": None}),
    ):
        assert [p.code for p in drain(house, target, **more).pods] == [code], (target, more)


def test_impact_names_pods_that_a_drain_would_release(house: House) -> None:
    pod, kept = house.ready(order()), house.ready(make("kept", 1))
    rack = house.site.node_by_name[pod.nodes[0]].rack
    assert rack == house.site.node_by_name[kept.nodes[0]].rack and rack is not None
    found = house.service.site.impact(house.operator, rack)
    assert {one.pod: one.on_drain for one in found.pods} == {"train": "release", "kept": None}


def test_idle_spare_that_is_drained_ends_no_pod(house: House, clock: HandClock) -> None:
    pod = house.ready(order(spare=1))
    drain(house, pod.spares[0])
    clock.forward(hours=2)
    repairs(house).tend()
    assert wanted(house, pod) == ["present"]
    assert messages(house, pod, "drain")[-1].startswith(f"{pod.spares[0]} should be empty by now")


def test_drain_that_was_ended_moved_or_waits_releases_nothing(house: House, clock: HandClock) -> None:
    """A moved one does at its new time."""
    ended, moved, waits = (house.ready(order(name)) for name in ("ended", "moved", "waits"))
    drain(house, waits.nodes[0], wait=True)
    assert condition(house, waits).endswith("; nothing is released by itself; the pod is left alone then")
    drain(house, ended.nodes[0])
    drain(house, moved.nodes[0])
    house.service.nodes.undrain(house.operator, ended.nodes[0])
    drain(house, moved.nodes[0], by=clock.now() + timedelta(hours=5))
    clock.forward(hours=2)
    repairs(house).tend()
    assert wanted(house, ended, moved, waits) == ["present"] * 3 and condition(house, ended) == ""
    clock.forward(hours=4)
    repairs(house).tend()
    assert wanted(house, ended, moved, waits) == ["present", "absent", "present"]


def test_pod_is_released_rather_than_replaced_if_its_order_says_both(house: House, clock: HandClock) -> None:
    pod = house.ready(order(on_failure="replace"))
    drain(house, pod.nodes[0])
    clock.forward(hours=2)
    repairs(house).tend()
    assert (look(house, pod).wanted, look(house, pod).generation) == ("absent", 1)


def test_condition_says_that_a_node_is_replaced_at_the_time_of_a_drain(house: House) -> None:
    pod = house.ready(make("train", 1, on_failure="replace"))
    drain(house, pod.nodes[0])
    text = f"; nothing is released by itself; weft replaces {pod.nodes[0]} then, within the site's limits"
    assert condition(house, pod).endswith(text)


def test_order_changed_before_a_drain_counts_as_it_is_at_the_time(house: House, clock: HandClock) -> None:
    """`on_drain` added before the time: the pod is released; removed before: it stays."""
    late, early = house.ready(make("late", 1)), house.ready(order("early"))
    for pod in (late, early):
        drain(house, pod.nodes[0])
    for wish in (order("late"), make("early", 1)):
        change = house.service.pods.apply(house.request(), wish.name, wish).change
        assert change is not None and [f.field for f in change.fields] == ["on_drain"]
    clock.forward(hours=2)
    repairs(house).tend()
    assert wanted(house, late, early) == ["absent", "present"]


def test_node_that_a_pod_is_leaving_ends_no_pod(house: House, clock: HandClock) -> None:
    """Its project has replaced the node; the drain's time comes before the old node is proved clean."""
    pod = house.ready(order())
    drain(house, pod.nodes[0])
    house.service.pods.replace_node(house.request(), "train", Replacement(node=pod.nodes[0]))
    assert condition(house, pod) == ""
    assert [(p.pod, p.code) for p in drain(house, pod.nodes[0]).pods] == [("train", "")]
    clock.forward(hours=2)
    repairs(house).tend()
    assert wanted(house, pod) == ["present"]


def test_pod_being_built_is_released_at_the_time_of_a_drain(house: House, clock: HandClock) -> None:
    pod = house.order(order())
    drain(house, pod.nodes[0])
    clock.forward(hours=2)
    repairs(house).tend()
    house.run(pod, PodState.RELEASED)


def test_locked_pod_or_drain_stays_due(house: House, clock: HandClock) -> None:
    """An operator is ending the drain at this moment, or a worker writes the pod: the next turn decides."""
    pod = house.ready(order())
    drain(house, pod.nodes[0])
    clock.forward(hours=2)
    with locked_pod(house, pod.id):
        assert end_pods_on_drains(house.database) == []
    with locked(house, f"SELECT FROM drain WHERE node = '{pod.nodes[0]}' FOR UPDATE"):
        assert end_pods_on_drains(house.database) == []
    assert wanted(house, pod) == ["present"]
    assert end_pods_on_drains(house.database) == [pod.id] and end_pods_on_drains(house.database) == []


def test_two_workers_at_once_release_a_pod_once(house: House, clock: HandClock) -> None:
    pods = [house.ready(order(f"p{n}")) for n in range(3)]
    for pod in pods:
        drain(house, pod.nodes[0])
    clock.forward(hours=2)
    assert at_once(*[NodeRepairs(replacer(house), house.database).tend] * 4) == []
    assert wanted(house, *pods) == ["absent"] * 3
    assert [len(messages(house, pod, "release")) for pod in pods] == [1] * 3
    assert len(house.store.records.audit_log(AuditLogSearch(action="pod release"))) == 3


def test_restored_database_releases_nothing_for_a_drain(house: House, clock: HandClock) -> None:
    """The drain may have been ended since the dump."""
    pod = house.ready(order())
    drain(house, pod.nodes[0])
    dump(house.database.url)
    house.service.nodes.undrain(house.operator, pod.nodes[0])
    restore(house.database.url)
    house.restart()
    clock.forward(hours=2)
    repairs(house).tend()
    assert wanted(house, pod) == ["present"]


def test_drain_in_an_unread_cloud_releases_nothing_until_it_is_read(house: House, clock: HandClock) -> None:
    pod = house.ready(order())
    drain(house, pod.nodes[0])
    clock.forward(hours=2)
    house.restart()
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    repairs(house).tend()
    assert wanted(house, pod) == ["present"]
    planted.lift()
    house.gate.look()
    repairs(house).tend()
    assert wanted(house, pod) == ["absent"]


@pytest.mark.parametrize("host", ["ipum1", "poplar1", "generic1"])
def test_pod_of_ipus_is_released_for_machines_and_hosts(ipu: IpuHouse, host: str) -> None:
    """Also for the host of its controller, which only operators read."""
    wish = ipus(count=4, on_drain="release")
    pod = ipu.booted(wish)
    host = pod.plan.placement.nodes[0].node if host.startswith("ipum") else host
    done = drain(ipu, host)
    assert [p.code for p in done.pods] == ["DRAIN_RELEASES"]
    assert condition(ipu, pod).endswith(ENDS) and ("generic1" in condition(ipu, pod)) is False
    sql(ipu, "UPDATE drain SET until_at = now()")
    repairs(ipu).tend()
    assert wanted(ipu, pod) == ["absent"]
    shown = redacted(ipu.service, policy()).pods.events(ipu.request(), pod.name)
    said = next(str(e.message) for e in shown if e.type == "release")
    assert said.startswith("maintenance") and "as its order says" in said and "generic1" not in said
