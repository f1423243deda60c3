"""Reports of nodes: the project that reported one does without it, and no one else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tests.engine.changes.test_change_loop import settle, sized
from tests.engine.house import House, policy
from tests.engine.queue.test_claim import unconfirmed
from tests.engine.queue.test_spares import spared
from tests.engine.replace.test_replace import stubborn, swap, visit
from tests.engine.timehouse import HandClock, dispatching, look, make, queue
from weft.app.redact import redacted
from weft.model.change import Replacement
from weft.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError, TemporaryError
from weft.model.pod import PodState
from weft.model.site import RepairPolicy
from weft.model.views import NodeHistoryEntry


def report(house: House, node: str, reason: str = "ECC errors", name: str = "train") -> None:
    house.service.pods.report_node(house.request(), name, node, reason)


def last(house: House, node: str) -> NodeHistoryEntry:
    return house.service.nodes.history(house.operator, node).entries[0]


def test_reported_node_is_left_out_of_the_projects_orders_alone(house: House) -> None:
    """Orders, growth, parts of the refusal and a restart; another project gets it, and after the clearing the same."""
    pod = house.ready(sized(2))
    node, user = pod.nodes[0], house.request().caller.user_name
    report(house, node)
    report(house, node)
    assert look(house, pod).nodes == pod.nodes, "the pod keeps it"
    assert house.service.nodes.show(house.operator, node).state == "busy"
    (one,) = house.service.nodes.reports(house.operator)
    assert (one.node, one.pod, one.reported_by, one.reason) == (node, "train", user, "ECC errors")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.restart()
    with pytest.raises(RefusedError, match="report 1"):
        house.order(make("all", 16))
    with pytest.raises(RefusedError) as refused:
        redacted(house.service, policy()).pods.order(house.request(), make("all", 16))
    assert "report" in str(refused.value.detail) and "ECC" not in str(refused.value.detail)
    mine = house.order(make("mine", 8))
    assert node not in mine.nodes
    other = house.service.pods.order(house.request("team-b"), make("other", 8))
    assert node in house.store.pods.find(other, None).nodes
    (ended,) = house.service.nodes.clear_report(house.operator, node)
    assert ended.project_id == pod.project_id and not house.service.nodes.reports(house.operator)
    assert (last(house, node).code, last(house, node).by) == (
        "NODE_REPORT_CLEARED",
        house.operator.caller.user_name,
    )
    with pytest.raises(ConflictError, match="no such report"):
        house.service.nodes.clear_report(house.operator, node)


def test_replacement_uses_no_reported_node(house: House) -> None:
    """Neither a reported spare, nor a reported free node of the pod before."""
    pod = house.ready(spared("train", 2, 1))
    spare = pod.plan.placement.spares[0].node
    report(house, spare)
    assert swap(house, pod.nodes[0]) != spare
    settle(house, pod)
    house.service.nodes.accept(house.operator, pod.nodes[0])
    house.service.pods.report_node(house.request(), "train", pod.nodes[1], "fan")
    grown = house.service.pods.apply(house.request(), "train", spared("train", 3, 1))
    assert grown.outcome == "changed" and grown.change is not None
    assert not {spare, pod.nodes[1]} & set(grown.change.nodes_added)


def test_waiting_order_gets_no_reported_node(house: House, clock: HandClock) -> None:
    """In the queue: it starts when another node is free, and a booking moves."""
    pod = house.ready(sized(2))
    report(house, pod.nodes[0])
    booked = house.order(make("later", 14, start=clock.now() + timedelta(hours=2)))
    (row,) = house.store.capacity().bookings
    assert pod.nodes[0] not in row.nodes
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.service.pods.release(house.request(), str(booked.id))
    waits = queue(house, "waits", 16)
    dispatching(house, 1)[0]()
    assert look(house, waits).placed is None
    house.service.nodes.clear_report(house.operator, pod.nodes[0])
    dispatching(house, 1)[0]()
    assert look(house, waits).placed is not None


def test_capacity_has_no_nodes_that_the_project_reported(house: House) -> None:
    """What it can order now; other projects, and operators, still have them."""
    pod = house.ready(sized(1))
    report(house, pod.nodes[0])
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    free = [
        house.service.capacity.show(request).rows[0].free
        for request in (house.request(), house.request("team-b"), house.operator)
    ]
    assert free == [15, 16, 16]


def test_node_of_a_claim_that_may_be_dropped_is_not_reported(house: House) -> None:
    """Else an order that is refused would leave reports of nodes that the project never had."""
    tried: list[str] = []

    def while_checked() -> None:
        (node, *_) = house.store.capacity().holds
        with pytest.raises(TemporaryError, match="still being checked; report again") as error:
            report(house, node)
        tried.append(str(error.value))
        house.cloud.offers.quotas["team-a", "servers"] = 0

    unconfirmed(house, while_checked)
    with pytest.raises(RefusedError, match="servers"):
        house.order(sized(2))
    assert tried and not house.service.nodes.reports(house.operator)


def test_reports_of_a_project_are_bounded(house: House) -> None:
    """By number, by node and by pod; two at once are one, and others than members may not."""
    site = house.store.site().site
    changed = site.model_copy(update={"repair": RepairPolicy(reports=1)})
    house.store.activate_site(changed, "test")
    pod = house.ready(sized(3))
    first, second = pod.nodes[:2]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: report(house, first), range(2)))
    assert (
        len([e for e in house.service.nodes.history(house.operator, first).entries if e.type == "report"])
        == 1
    )
    with pytest.raises(ConflictError, match="reported node"):
        report(house, first, "something else")
    with pytest.raises(ConflictError, match="1 of at most 1"):
        report(house, second)
    for name in ("nix", "gpu99"):
        with pytest.raises(NotFoundError, match="no node or server"):
            report(house, name)
    for ask in (
        lambda: house.service.pods.report_node(house.request(role="reader"), "train", first, "x"),
        lambda: house.service.nodes.reports(house.request()),
        lambda: house.service.nodes.clear_report(house.request(), first),
    ):
        with pytest.raises(ForbiddenError):
            ask()
    with pytest.raises(NotFoundError):
        house.service.pods.report_node(house.request("team-b"), str(pod.id), first, "x")
    house.service.nodes.clear_report(house.operator, first)
    server = house.cloud.thing(f"server/{second}").name
    assert house.service.pods.report_node(house.request(), "train", server, "by server").node == second
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    with pytest.raises((ConflictError, NotFoundError)):
        report(house, second)


def test_leaving_node_is_meant_by_its_name_before_a_server_of_that_name(house: House) -> None:
    """A tenant may name servers like nodes."""
    order = sized(3)
    named = order.nodes.model_copy(update={"names": "gpu{index:02}"})
    pod = house.ready(order.model_copy(update={"nodes": named}))
    leaving = pod.nodes[0]
    assert leaving == "gpu01", "the server of another node has its name"
    stubborn(house, leaving)
    house.service.pods.replace_node(house.request(), "train", Replacement(node="gpu00"))
    visit(house, pod)
    report(house, leaving)
    assert [r.node for r in house.service.nodes.reports(house.operator)] == [leaving]
