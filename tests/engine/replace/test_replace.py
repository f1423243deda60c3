"""A node of a pod is replaced by its spare or a free node, under the same name and addresses once it is proved out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.changes.test_change_loop import held, members, rows, servers, settle, sized
from tests.engine.house import QUICK, House
from tests.engine.queue.test_spares import spared
from tests.engine.storagehouse import SHARE, VOLUME, order, storage_house
from tests.engine.timehouse import HandClock, at_once, look, make, messages, queue
from weft.app.verbs import Request
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.errors import ConflictError, ForbiddenError, InputError, RefusedError
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.ports.occupants import Ended, Ending
from weft.testing.cloud import Fault
from weft.testing.cloud_rules import used_quota


def swap(house: House, node: str, by: str | None = None, request: Request | None = None) -> str:
    """Replace a node of pod train; returns the one that takes its place."""
    asked = Replacement(node=node, by=by)
    done = house.service.pods.replace_node(request or house.request(), "train", asked)
    assert done.outcome == "changed" and done.change is not None
    new = {*done.change.nodes_added, *done.change.spares_used}
    assert len(new) == 1
    return new.pop()


def plan(house: House, node: str, by: str | None = None, request: Request | None = None) -> Plan:
    return house.service.pods.plan_replacement(
        request or house.request(), "train", Replacement(node=node, by=by)
    )


def places(house: House) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """Node -> name and fixed addresses of its server, as the cloud has them."""
    ports = [t for t in house.cloud.things(Kind.PORT) if t.mark]
    found: dict[str, tuple[str, tuple[Any, ...]]] = {}
    for thing in house.cloud.things(Kind.SERVER):
        if thing.mark and thing.name.startswith("train-"):
            node = thing.mark.key.removeprefix("server/")
            mine = [p for p in ports if p.mark and p.mark.key.startswith(f"port/{node}/")]
            found[node] = thing.name, tuple(sorted(str(p.fields["address"]) for p in mine))
    return found


def visit(house: House, pod: PodRecord, times: int = 1, clock: HandClock | None = None) -> PodRecord:
    for _ in range(times):
        if clock is not None:
            clock.forward(seconds=10)
        house.store.wake(pod.id)
        house.worker.run_once()
    return look(house, pod)


def stubborn(house: House, node: str) -> Callable[[], None]:
    """The server on a node can't be deleted, and every release is overdue at once; returns what ends that."""
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{node}", times=None)
    house.worker = house.new_worker("w2", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0}))

    def yields() -> None:
        planted.lift()
        house.cloud.thing(f"server/{node}").undeletable = False

    return yields


def without(found: Mapping[str, Any], *nodes: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if not key.endswith(nodes)}


def test_replacement_has_name_and_addresses_of_the_failed_node(house: House) -> None:
    """The others are the same servers; the failed node is read back and free, and the plan said all of it."""
    pod = house.ready(sized(3))
    failed, before, was = pod.nodes[1], servers(house), places(house)
    planned = plan(house, failed).change
    assert look(house, pod).generation == 1 and planned is not None
    new = swap(house, failed)
    assert planned.nodes_added == (new,) and planned.nodes_removed == (failed,)
    now = settle(house, pod)
    assert now.nodes == (pod.nodes[0], new, pod.nodes[2])
    assert servers(house).items() > without(before, failed).items()
    assert places(house) == {**without(was, failed), new: was[failed]}
    assert members(house, now) == set(now.nodes) == held(house, now)
    assert rows(house, pod, failed) == {"absent"}
    assert f"{failed} was read back clean and is free" in messages(house, pod, "release")
    assert house.service.audits.run(house.operator).findings == ()
    assert "DEGRADED" not in " ".join(messages(house, pod, "state"))


def test_spare_takes_the_place_and_stops_being_a_spare(house: House) -> None:
    """A plain `apply` of the old file asks for a new spare; until then nothing looks for one."""
    pod = house.ready(spared("train", 3, 1))
    (spare,), failed, was = pod.spares, pod.nodes[2], places(house)
    assert swap(house, failed) == spare
    now = settle(house, pod)
    assert (now.nodes, now.spares) == ((*pod.nodes[:2], spare), ())
    assert now.order.nodes.spare == 0 and held(house, now) == set(now.nodes)
    assert places(house)[spare] == was[failed]
    assert not [hold for hold in house.store.capacity().holds.values() if hold.spare]
    house.service.pods.apply(house.request(), "train", spared("train", 3, 1))
    now = settle(house, pod)
    assert len(now.spares) == 1 and now.nodes == (*pod.nodes[:2], spare)


@pytest.mark.parametrize("why", ["down", "quarantined", "held", "in use"])
def test_spare_that_is_out_of_service_is_passed_over(house: House, why: str) -> None:
    """It stays the pod's spare; what is on it is asked of the cloud before it is used."""
    pod = house.ready(spared("train", 2, 1))
    (spare,) = pod.spares
    host = house.site.node_by_name[spare].nova_host
    match why:
        case "down":
            house.cloud.offers.hosts[host] = "down"
        case "quarantined":
            house.store.quarantine(spare, "looked at")
        case "held":
            house.service.nodes.hold(house.operator, spare, "new firmware")
        case _:
            house.cloud.offers.claims[host] = {"a-stranger"}
    assert swap(house, pod.nodes[0]) != spare
    assert look(house, pod).spares == (spare,)


def test_failed_host_keeps_its_addresses_until_it_is_proved_out(house: House) -> None:
    """With its host down Nova drops the server's row and proves nothing: nothing is requested for the successor, and
    the pod says why; once Nova's record says that the server was destroyed, the successor gets the addresses."""
    pod = house.ready(sized(2))
    failed, was = pod.nodes[0], places(house)
    host, guest = house.site.node_by_name[failed].nova_host, servers(house)[f"server/{failed}"]
    house.cloud.offers.hosts[host] = "down"
    new = swap(house, failed)
    now = visit(house, pod, 6)
    assert f"server/{failed}" not in servers(house) and f"server/{new}" not in servers(house)
    assert rows(house, pod, new) == {"wanted"} and failed in held(house, now)
    for request in (house.request(), house.operator):
        reason = house.service.pods.show(request, str(pod.id)).reason
        assert f"replace {failed} by {new} (weft): nothing is requested until {failed} is read back" in reason
    house.store.request_repair(pod.id)
    now = visit(house, pod, 3)
    assert f"server/{new}" not in servers(house), "a repair would use the address a second time"
    assert not {f.kind for f in house.service.audits.run(house.operator).findings if f.category == "unknown"}
    house.cloud.offers.hosts[host] = "up"
    house.cloud.ends(guest, Ending(Ended.DESTROYED, "destroyed by its host", house.clock.now()))
    now = settle(house, pod)
    assert places(house)[new] == was[failed] and held(house, now) == set(now.nodes)


def test_successor_of_a_quarantined_node_gets_addresses_of_its_own(house: House, clock: HandClock) -> None:
    """The failed node stays held and quarantined; no address is used twice, and it returns once it is clean."""
    pod = house.ready(sized(3))
    failed, was = pod.nodes[1], places(house)
    yields = stubborn(house, failed)
    new = swap(house, failed)
    clock.forward(seconds=1)
    now = settle(house, pod)
    assert held(house, now) == {*now.nodes, failed}
    assert house.store.capacity().quarantines.keys() == {failed}
    assert places(house)[new][0] == "train-3"
    assert not {a for n, (_, addresses) in was.items() for a in addresses} & set(places(house)[new][1])
    assert f"{failed} was not seen clean in time" in " ".join(messages(house, pod, "repair"))
    assert members(house, now) == set(now.nodes)
    yields()
    now = visit(house, pod, 6, clock)
    assert held(house, now) == set(now.nodes) and places(house)[new][0] == "train-3"
    house.service.pods.apply(house.request(), "train", sized(4))
    now = settle(house, pod)
    assert {name for name, _ in places(house).values()} == {f"train-{n}" for n in range(4)}


def test_node_that_returns_does_not_get_the_number_that_it_had(house: House) -> None:
    """Replaced, freed, and then placed in the same pod again: the number is its successor's by now."""
    pod = house.ready(sized(2))
    failed = pod.nodes[0]
    new = swap(house, failed)
    settle(house, pod)
    house.store.quarantine(failed, "so that it stays free")
    house.order(make("rest", 13))
    house.store.clear_quarantine(failed)
    house.service.nodes.accept(house.operator, failed)
    house.service.pods.apply(house.request(), "train", sized(3))
    now = settle(house, pod)
    assert set(now.nodes) == {pod.nodes[1], new, failed}
    found = places(house)
    assert {name for name, _ in found.values()} == {"train-0", "train-1", "train-2"}
    assert len({a for _, addresses in found.values() for a in addresses}) == sum(
        len(addresses) for _, addresses in found.values()
    )
    assert found[new][0] == "train-0"


def test_node_is_replaced_again_while_it_is_being_replaced(house: House) -> None:
    """The second successor has the first one's place; by the server's name, a repeated request is refused."""
    pod = house.ready(sized(2))
    failed, was = pod.nodes[0], places(house)
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{failed}", times=None)
    first = swap(house, failed)
    visit(house, pod, 2)
    with pytest.raises(ConflictError, match="being replaced already"):
        swap(house, "train-0")
    with pytest.raises(InputError, match=r"node: .* nodes of the pod"):
        swap(house, failed)
    second = swap(house, first)
    assert second not in (first, failed)
    visit(house, pod, 3)
    assert not {f"server/{first}", f"server/{second}"} & servers(house).keys()
    planted.lift()
    house.cloud.thing(f"server/{failed}").undeletable = False
    now = settle(house, pod)
    assert places(house)[second] == was[failed] and held(house, now) == set(now.nodes)
    assert house.service.audits.run(house.operator).findings == ()


def test_only_node_of_a_pod_is_replaced(house: House) -> None:
    pod = house.ready(sized(1))
    was = places(house)
    new = swap(house, "train-0")
    now = settle(house, pod)
    assert now.nodes == (new,) and places(house) == {new: was[pod.nodes[0]]}


def test_node_is_replaced_while_the_pod_is_built(house: House) -> None:
    """One bad host of three made the pod FAILED: the replacement resumes it."""
    pod = house.order(sized(3))
    bad = look(house, pod).nodes[2]
    house.cloud.plant(Fault.BROKEN, key=f"server/{bad}", times=None, reason="No valid host was found.")
    house.run(pod, PodState.FAILED)
    new = swap(house, bad)
    house.run(pod, PodState.READY)
    now = settle(house, pod)
    assert places(house)[new][0] == "train-2" and held(house, now) == set(now.nodes)


@pytest.mark.parametrize("visits", [0, 2])
def test_pod_is_released_while_a_node_is_replaced(house: House, visits: int) -> None:
    """Both nodes are read back, and nothing stays."""
    pod = house.ready(sized(2))
    swap(house, pod.nodes[0])
    visit(house, pod, visits)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert (
        not [t for t in house.cloud.things() if t.mark] and not members(house, pod) and not held(house, pod)
    )
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    with pytest.raises(ConflictError):
        house.service.pods.replace_node(house.request(), str(pod.id), Replacement(node="train-0"))


def test_second_of_two_concurrent_replacements_is_refused(house: House) -> None:
    """The pod's generation decides: the second is refused, and no third node is held."""
    pod = house.ready(sized(2))
    service = house.new_service()
    request = house.request()

    def ask() -> object:
        return service.pods.replace_node(request, "train", Replacement(node=pod.nodes[0]), generation=1)

    errors = at_once(ask, ask)
    assert [type(e) for e in errors] == [ConflictError]
    now = settle(house, pod)
    assert now.generation == 2 and held(house, now) == set(now.nodes)


QUOTAS = {"servers": 1, "cores": 96, "ports": 2}
"""What a server of the pod uses of each."""


@pytest.mark.parametrize("name", QUOTAS)
def test_full_quota_does_not_keep_a_node_from_being_replaced(house: House, name: str) -> None:
    """The old server is gone before the new one is requested. Once the limit is lower than what is used already, the
    plan says so, and nothing is changed."""
    pod = house.ready(sized(2))
    used = used_quota(name, "team-a", house.cloud.things(), house.cloud.offers)
    assert used >= 2
    house.cloud.offers.quotas["team-a", name] = used
    new = swap(house, pod.nodes[0])
    now = settle(house, pod)
    assert new in now.nodes and now.state is PodState.READY
    house.cloud.offers.quotas["team-a", name] = used - 1
    for ask in (plan, swap):
        with pytest.raises(RefusedError, match=f"{name}: {used} used"):
            ask(house, now.nodes[0])
    assert look(house, pod).generation == 2


def test_missing_server_needs_quota_for_its_successor(house: House) -> None:
    """What isn't there any more frees nothing."""
    pod = house.ready(sized(2))
    house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))
    visit(house, pod, 4)
    house.cloud.offers.quotas["team-a", "servers"] = 1
    with pytest.raises(RefusedError, match="servers: 1 used"):
        swap(house, pod.nodes[0])
    house.cloud.offers.quotas["team-a", "servers"] = 2
    assert swap(house, pod.nodes[0]) in settle(house, pod).nodes


def test_quota_that_is_exhausted_in_the_middle_is_reported_and_tried_again(house: House) -> None:
    """The pod goes on degraded with the cloud's refusal, and has its new server once there is room."""
    pod = house.ready(sized(2))
    new = swap(house, pod.nodes[0])
    house.cloud.offers.quotas["team-a", "servers"] = 1
    now = visit(house, pod, 6)
    shown = house.service.pods.show(house.request(), "train")
    assert now.state is PodState.DEGRADED and new in now.nodes
    assert any("Quota exceeded" in c.message for c in shown.conditions), shown.conditions
    house.cloud.offers.quotas["team-a", "servers"] = 2
    assert settle(house, pod).state is PodState.READY


def test_replacement_without_capacity_is_refused_and_changes_nothing(house: House) -> None:
    """Nor inside the required level; what is offered can be applied to the pod."""
    pod = house.ready(
        sized(4).model_copy(update={"locality": make("x", 1, locality={"required": "leaf"}).locality})
    )
    with pytest.raises(RefusedError, match=f"no node can take the place of {pod.nodes[0]}: "):
        swap(house, pod.nodes[0])
    house.order(make("rest", 12))
    with pytest.raises(RefusedError, match="no node can take the place"):
        plan(house, pod.nodes[0])
    assert look(house, pod).generation == 1 and held(house, pod) == set(pod.nodes)


def test_replacement_goes_to_the_named_node_for_operators_alone(house: House) -> None:
    """A node that is busy, unknown, or the pod's own is refused with its name."""
    pod = house.ready(sized(2))
    free = next(n.name for n in reversed(house.site.nodes) if n.name not in pod.nodes and n.role == "compute")
    for ask in (swap, plan):
        with pytest.raises(ForbiddenError, match="pods:choose_node"):
            ask(house, pod.nodes[0], free)
        for wrong in ("nowhere", pod.nodes[1]):
            with pytest.raises(InputError, match=f"with: '?{wrong}'? is not allowed"):
                house_ask(house, ask, pod, wrong)
    other = house.order(make("other", 1))
    with pytest.raises(RefusedError):
        house_ask(house, swap, pod, other.nodes[0])
    asked = Replacement(node=pod.nodes[0], by=free)
    done = house.service.pods.replace_node(house.operator, str(pod.id), asked)
    assert done.change is not None and done.change.nodes_added == (free,)
    assert free in settle(house, pod).nodes


def house_ask(house: House, ask: Any, pod: PodRecord, by: str) -> None:
    asked = Replacement(node=pod.nodes[0], by=by)
    verb = house.service.pods.replace_node if ask is swap else house.service.pods.plan_replacement
    verb(house.operator, str(pod.id), asked)


def test_order_without_nodes_has_none_to_replace(house: House) -> None:
    """A waiting order, one being released, and one that has ended are refused, each with its reason."""
    house.order(make("all", 16))
    waits = queue(house, "train", 1)
    with pytest.raises(ConflictError, match="has no nodes yet"):
        swap(house, "train-0")
    house.release(waits)
    with pytest.raises(ConflictError, match="train"):
        house.service.pods.replace_node(house.request(), str(waits.id), Replacement(node="train-0"))


def test_successor_keeps_the_place_that_an_operator_gave_it(house: House, clock: HandClock) -> None:
    """The old server appears once more, past the limit: it is removed, and its successor keeps place and server."""
    pod = house.ready(sized(2))
    failed, was = pod.nodes[0], places(house)
    server, host = house.cloud.thing(f"server/{failed}"), house.site.node_by_name[failed].nova_host
    house.cloud.offers.hosts[host] = "down"
    new = swap(house, failed)
    visit(house, pod, 3)
    house.store.quarantine(failed, "looked at")
    house.service.nodes.clear(house.operator, failed)
    settled = visit(house, pod, 8)
    assert places(house)[new] == was[failed] and failed in held(house, settled)
    house.cloud.bring_back(server)
    house.worker = house.new_worker("w2", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0}))
    now = visit(house, pod, 6, clock)
    assert places(house)[new] == was[failed] and failed not in places(house)
    assert now.plan.server_numbers[new] == 0


def test_spare_itself_is_not_replaced(house: House) -> None:
    pod = house.ready(spared("train", 2, 1))
    with pytest.raises(InputError, match="a node with a server"):
        swap(house, pod.spares[0])


def test_pod_with_volumes_waits_for_an_operators_word(
    database: Database, database_url: str, clock: HandClock
) -> None:
    """Another number would be another volume: the successor waits past the limit, and `node clear` lets it go on with
    the same volume, shares open to its address alone."""
    house = storage_house(database, database_url)
    try:
        pod = house.run(house.order(order(SHARE, VOLUME)), PodState.READY)
        failed, was = pod.nodes[0], places(house)
        volumes = {t.id for t in house.cloud.things(Kind.VOLUME)}
        yields = stubborn(house, failed)
        new = swap(house, failed)
        now = visit(house, pod, 6)
        assert house.store.capacity().quarantines.keys() == {failed} and new not in places(house)
        house.service.nodes.clear(house.operator, failed)
        now = visit(house, pod, 4)
        assert new not in places(house), "the old server is still in the cloud"
        host = house.site.node_by_name[failed].nova_host
        house.cloud.offers.hosts[host] = "down"
        yields()
        now = settle(house, pod)
        assert places(house)[new][0] == was[failed][0] == "train-0"
        assert {t.id for t in house.cloud.things(Kind.VOLUME)} == volumes
        there = {t.mark.key for t in house.cloud.things() if t.mark}
        assert f"volume_attachment/work/{new}" in there and f"share_access/data/{new}" in there
        assert not [key for key in there if key.endswith(f"/{failed}") or f"/{failed}/" in key]
        assert failed in held(house, now), "it stays held until it is read back"
    finally:
        house.close()


def test_storage_is_attached_to_the_replacement(database: Database, database_url: str) -> None:
    """The same volume, and an access rule for the replacement alone."""
    house = storage_house(database, database_url)
    try:
        pod = house.run(house.order(order(SHARE, VOLUME)), PodState.READY)
        volumes = {t.id for t in house.cloud.things(Kind.VOLUME)}
        new = swap(house, pod.nodes[0])
        settle(house, pod)
        assert {t.id for t in house.cloud.things(Kind.VOLUME)} == volumes
        keys = {t.mark.key for t in house.cloud.things() if t.mark}
        rules = {key for key in keys if key.startswith(("share_access/", "volume_attachment/"))}
        assert rules == {
            f"{kind}/{node}"
            for kind in ("share_access/data", "volume_attachment/work")
            for node in (new, pod.nodes[1])
        }
        assert house.service.audits.run(house.operator).findings == ()
    finally:
        house.close()
