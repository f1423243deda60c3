"""Replaced nodes are held until they are accepted, a project may have so many, and spares that are held stay spares."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.engine.changes.test_change_loop import held, settle, sized
from tests.engine.house import QUICK, House
from tests.engine.nodes.test_node_holds import states
from tests.engine.queue.test_spares import spared
from tests.engine.replace.test_replace import places, stubborn, swap, visit
from tests.engine.timehouse import HandClock, look, make, policy
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.model.change import Replacement
from weft.model.errors import ConflictError, ForbiddenError, RefusedError
from weft.model.messages import message
from weft.model.pod import PodState
from weft.model.site import ProjectLimits, RepairPolicy


def limited(house: House, **fields: int) -> None:
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"repair": RepairPolicy.model_validate(fields)}), "test")


def test_replaced_node_is_held_until_it_is_accepted(house: House, tmp_path: Path) -> None:
    """Neither another pod nor the same one gets it, after a restart either; a program that accepts nodes isn't shown
    which pod it was in."""
    pod = house.ready(sized(3))
    failed = pod.nodes[1]
    swap(house, failed)
    shown = house.service.nodes.show(house.operator, failed)
    assert (shown.state, shown.pod) == ("busy", "train"), "until it is clean, the pod has it"
    settle(house, pod)
    house.restart()
    assert states(house)[failed] == "held"
    rest = house.order(make("rest", 12))
    assert failed not in rest.nodes
    for more in (lambda: house.order(make("more", 1)), lambda: swap(house, pod.nodes[0])):
        with pytest.raises(RefusedError, match="hold 1"):
            more()
    (one,) = house.service.nodes.holds(house.operator)
    assert (one.node, one.what, one.held_by) == (failed, "repair", "weft")
    assert (
        one.why == f"replaced in pod train of project {pod.project_id} by {house.request().caller.user_name}"
    )
    file = tmp_path / "policy.yaml"
    file.write_text("nodes:list_holds: rule:operator or role:acceptor\nnodes:accept: role:acceptor\n")
    rules = Policy(file)
    service = Service(Desk(house.store, house.keeper, rules, house.time, house.listener, house.pulse))
    program = house.request("tests", "acceptor")
    (seen,) = redacted(service, rules).nodes.holds(program)
    assert (seen.node, str(seen.why), dict(message(seen.why).params)) == (failed, "replaced in a pod", {})
    assert "train" not in redacted(service, rules).nodes.accept(program, failed).model_dump_json()
    assert house.order(make("more", 1)).nodes == (failed,)


def test_operator_replaces_a_node_without_a_hold(house: House) -> None:
    """Members may not; a person's hold for repair names that person, and says why it is weft's, too."""
    pod = house.ready(sized(2))
    asked = Replacement(node=pod.nodes[0], hold=False)
    for ask in (house.service.pods.replace_node, house.service.pods.plan_replacement):
        with pytest.raises(ForbiddenError, match="nodes:accept"):
            ask(house.request(), "train", asked)
    house.service.pods.replace_node(house.operator, str(pod.id), asked)
    settle(house, pod)
    assert states(house)[pod.nodes[0]] == "free"
    house.service.nodes.hold(house.operator, pod.nodes[1], "repair")
    swap(house, pod.nodes[1])
    (one,) = house.service.nodes.holds(house.operator)
    assert one.held_by == house.operator.caller.user_name and one.why.startswith("replaced in pod train")


def test_project_may_have_few_replaced_nodes_that_are_not_accepted(house: House) -> None:
    """Otherwise a tenant takes a site out of service by replacing sound nodes. Operators aren't limited."""
    limited(house, unaccepted=1)
    pod = house.ready(sized(2))
    first = swap(house, pod.nodes[0])
    settle(house, pod)
    for ask in (house.service.pods.replace_node, house.service.pods.plan_replacement):
        with pytest.raises(ConflictError, match="1 of at most 1 replaced nodes"):
            ask(house.request(), "train", Replacement(node=first))
    assert look(house, pod).generation == 2
    house.service.pods.replace_node(house.operator, str(pod.id), Replacement(node=first))
    settle(house, pod)
    house.service.nodes.accept(house.operator, pod.nodes[0])
    swap(house, pod.nodes[1])
    assert len(house.service.nodes.holds(house.operator)) == 2


def test_node_that_is_held_for_repair_already_is_replaced_at_the_limit(house: House) -> None:
    """It is no further one: an operator holds it, and its tenant moves."""
    limited(house, unaccepted=1)
    pod = house.ready(sized(2))
    swap(house, pod.nodes[0])
    settle(house, pod)
    house.service.nodes.hold(house.operator, pod.nodes[1], "repair")
    house.service.pods.plan_replacement(house.request(), "train", Replacement(node=pod.nodes[1]))
    swap(house, pod.nodes[1])
    assert {h.node for h in house.service.nodes.holds(house.operator)} == set(pod.nodes)


def test_replacement_does_not_count_as_growth_for_a_project_with_overdue_releases(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = house.ready(sized(2))
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 1})
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    other = house.run(house.order(make("other", 1)), PodState.READY)
    stubborn(house, other.nodes[0])
    house.store.release(other.id, "test")
    monkeypatch.setattr("weft.engine.queue.overdue.LIMIT", -1.0)
    visit(house, other, 2)
    with pytest.raises(ConflictError, match="don't end"):
        house.service.pods.apply(house.request(), "train", sized(3))
    assert swap(house, pod.nodes[0]) in look(house, pod).nodes


def test_nodes_that_a_pod_leaves_count_for_the_limit_of_its_project(house: House) -> None:
    """A pod that can't give nodes back doesn't get others for them; a replacement is possible at the limit."""
    policy(house, projects={"team-a": ProjectLimits(max_nodes=3)})
    pod = house.ready(sized(3))
    yields = stubborn(house, pod.nodes[0])
    house.service.pods.apply(house.request(), "train", sized(2), remove=[pod.nodes[0]])
    visit(house, pod, 2)
    with pytest.raises(RefusedError, match="1 of at most 3 nodes; 3 more"):
        house.service.pods.apply(house.request(), "train", sized(3))
    swap(house, pod.nodes[1])
    yields()
    house.service.nodes.clear(house.operator, pod.nodes[0])
    settle(house, pod)
    house.service.pods.apply(house.request(), "train", sized(3))


def test_pod_whose_lease_is_over_is_not_changed(house: House, clock: HandClock) -> None:
    """Between the end and the request of the release nothing new begins; a file that changes nothing still matches."""
    order = make("train", 2, end=clock.now() + timedelta(hours=1))
    pod = house.run(house.order(order), PodState.READY)
    clock.forward(minutes=61)
    asked = Replacement(node=pod.nodes[0])
    for ask in (house.service.pods.replace_node, house.service.pods.plan_replacement):
        with pytest.raises(ConflictError, match="lease of pod train ended"):
            ask(house.request(), "train", asked)
    more = order.model_copy(update={"nodes": order.nodes.model_copy(update={"count": 3})})
    with pytest.raises(ConflictError, match="lease of pod train ended"):
        house.service.pods.apply(house.request(), "train", more)
    assert house.service.pods.apply(house.request(), "train", order).outcome == "unchanged"
    assert look(house, pod).generation == 1 and held(house, pod) == set(pod.nodes)


def test_cleared_node_is_not_quarantined_again_at_once(house: House) -> None:
    """Its host is still unread: the pod goes on holding it, and the change counts as done."""
    pod = house.ready(sized(2))
    failed = pod.nodes[0]
    house.cloud.offers.hosts[house.site.node_by_name[failed].nova_host] = "down"
    house.worker = house.new_worker("w2", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0}))
    swap(house, failed)
    visit(house, pod, 6)
    assert house.store.capacity().quarantines.keys() == {failed}
    house.service.nodes.clear(house.operator, failed)
    now = visit(house, pod, 6)
    assert not house.store.capacity().quarantines and failed in held(house, now)
    assert now.state is PodState.READY and now.ready_generation == 2
    house.release(pod)
    visit(house, pod, 4)
    assert house.store.capacity().quarantines.keys() == {failed}, (
        "a release returns it: nothing else keeps it"
    )


def test_successor_of_a_cleared_node_with_a_server_gets_its_own_place(house: House) -> None:
    """The word says nothing runs there; but the server is in the cloud, and can't be deleted."""
    pod = house.ready(sized(2))
    failed = pod.nodes[0]
    stubborn(house, failed)
    new = swap(house, failed)
    house.store.quarantine(failed, "looked at")
    house.service.nodes.clear(house.operator, failed)
    visit(house, pod, 8)
    assert places(house)[new][0] == "train-2" and not house.store.capacity().quarantines


def test_growing_pod_gives_no_server_to_a_held_spare(house: House) -> None:
    """Nor to one that is drained or down: another node comes, and the spare stays what it is."""
    pod = house.ready(spared("train", 2, 2))
    bad, good = pod.spares
    house.service.nodes.hold(house.operator, bad, "cabling")
    house.service.pods.apply(house.request(), "train", spared("train", 3, 1))
    now = settle(house, pod)
    assert set(now.nodes) == {*pod.nodes, good} and now.spares == (bad,)
    house.service.pods.apply(house.request(), "train", spared("train", 4, 0))
    now = settle(house, pod)
    assert bad not in now.held and len(now.nodes) == 4
