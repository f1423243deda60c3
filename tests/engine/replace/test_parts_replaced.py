"""A server on a shared node is replaced by one on another node, with a number of its own."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.engine.changes.test_change_parts import name, parts, released, servers, visit
from tests.engine.house import House
from tests.engine.life.test_parts import small
from tests.engine.nodes.test_node_checks import choose
from tests.engine.replace.test_repairs import fail, limits, order, repairs, said
from tests.engine.replace.test_repairs_by_checks import GONE, Report
from tests.engine.replace.test_repairs_by_checks import report as report
from tests.engine.timehouse import HandClock, look, messages
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.messages import message
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.storageorder import StorageOrder
from weft.planning.shapes.gpu.parts import PARTS
from weft.testing.cloud import Fault


def test_server_is_replaced_on_another_node(house: House) -> None:
    """The others go on with their addresses; it can be planned first, and the node isn't held: others have parts of
    it."""
    pod = house.ready(small("train", 2))
    (failed, *_), before = sorted(servers(house, pod)), servers(house, pod)
    server, host = name(pod, failed.removeprefix("server/")), failed.split("/")[1]
    plan = house.service.pods.plan_replacement(house.request(), "train", Replacement(node=server))
    assert plan.change is not None and plan.change.nodes_removed == (host,)
    done = house.service.pods.replace_node(house.request(), "train", Replacement(node=server))
    assert done.change is not None and (by := done.change.nodes_added[0]) != host
    now = visit(house, pod)
    assert now.state is PodState.READY and not house.service.nodes.holds(house.operator)
    after = servers(house, now)
    (added,) = after.keys() - before.keys()
    assert added.split("/")[1] == by and failed not in after
    assert all(after[key] == before[key] for key in before.keys() & after.keys())
    assert name(now, added.removeprefix("server/")) != server, "it has a number of its own"
    assert {host} != {node for node, leaving in parts(house, now) if not leaving}
    codes = [e.code for e in house.service.nodes.history(house.operator, host).entries]
    assert "NODE_REPLACED_BY" in codes
    with pytest.raises(InputError, match="one of the pod's servers"):
        house.service.pods.replace_node(house.request(), "train", Replacement(node=server))
    released(house, now)


def test_part_whose_server_stays_is_kept_and_delays_nothing(house: House) -> None:
    pod = house.ready(small("train", 2))
    failed = sorted(servers(house, pod))[0]
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.SERVER, key=failed, times=None)
    house.service.pods.replace_node(
        house.request(), "train", Replacement(node=name(pod, failed.removeprefix("server/")))
    )
    visit(house, pod)
    assert len(servers(house, pod)) == 3, "the new one is there beside the old one"
    assert (failed.split("/")[1], True) in parts(house, pod)


@pytest.mark.parametrize("way", ["no room", "same node", "quota", "generation"])
def test_replacement_of_a_server_is_refused(house: House, way: str) -> None:
    """Each with its reason, and nothing is changed."""
    pod = house.ready(small("train", 2))
    failed = sorted(servers(house, pod))[0].removeprefix("server/")
    server, host = name(pod, failed), failed.partition("/")[0]
    asked, error = Replacement(node=server), InputError
    match way:
        case "no room":
            site = house.site
            for node in (n.name for n in site.nodes if n.name != host):
                house.service.nodes.hold(house.operator, node, "test")
            error = RefusedError
        case "same node":
            asked = Replacement(node=server, by=host)
        case "quota":
            house.cloud.offers.quotas[pod.project_id, "servers"] = 2
            error = RefusedError
        case _:
            pass
    with pytest.raises(ConflictError if way == "generation" else error):
        if way == "generation":
            house.service.pods.replace_node(house.operator, "train", asked, 7)
        else:
            house.service.pods.replace_node(house.operator, "train", asked)
    assert house.store.pods.find(str(pod.id), None).generation == 1


def test_server_with_a_volume_is_not_replaced(house: House) -> None:
    """The new one would have a new, empty volume."""
    volume = StorageOrder.model_validate({"volume": "data", "size": "10GiB", "mount": "/data"})
    why = PARTS.why_kept(small("train", 1).model_copy(update={"storage": (volume,)}))
    assert why is not None and why.code == "VOLUMES_ARE_EMPTY"
    assert PARTS.why_kept(small("train", 1)) is None


def test_order_of_parts_with_volumes_that_wants_replacements_is_refused_by_its_code() -> None:
    volume = {"volume": "data", "size": "10GiB", "mount": "/data"}
    wanted = {**small("train", 1).model_dump(mode="json"), "on_failure": "replace", "storage": [volume]}
    with pytest.raises(InputError) as refused:
        validate(Order, wanted, Positions())
    assert message(refused.value.allowed).code == "VOLUMES_ARE_EMPTY"


def replacing(name: str, count: int, **more: Any) -> Order:
    return small(name, count, **more).model_copy(update={"on_failure": "replace"})


def test_all_servers_of_a_pod_on_a_failed_shared_node_are_replaced(house: House, clock: HandClock) -> None:
    """At once, on one that keeps them together, as by hand; another pod on the node keeps its servers."""
    pod = house.ready(replacing("train", 2, locality={"required": "node"}))
    (host,) = {key.split("/")[1] for key in servers(house, pod)}
    other = house.ready(small("other", 1))
    kept = servers(house, other)
    plan = house.service.pods.plan_replacement(house.request(), "train", Replacement(node=host))
    assert plan.change is not None and plan.change.nodes_removed == (host, host)
    fail(house, clock, host)
    repairs(house).tend()
    now = visit(house, pod)
    assert now.generation == 2 and now.state is PodState.READY
    (new,) = {n.node for n in now.plan.placement.nodes}
    assert new != host and not house.service.nodes.holds(house.operator)
    said = [e for e in messages(house, pod, "repair") if "is replaced by" in e]
    assert len(said) == 1 and f"node {host} is replaced by {new}, as" in said[0]
    assert look(house, other).generation == 1 and servers(house, other) == kept


def test_only_the_broken_one_of_two_servers_on_a_shared_node_is_replaced(
    house: House, clock: HandClock
) -> None:
    """Once a reset, which comes first, hasn't mended it."""
    pod = house.ready(replacing("train", 2, locality={"required": "leaf"}))
    before = servers(house, pod)
    failed = sorted(before)[0]
    house.cloud.thing(failed).broken = "an error"
    visit(house, pod)
    clock.forward(minutes=11)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and len(house.cloud.acts) == 1
    clock.forward(minutes=13)
    repairs(house).tend()
    now = visit(house, pod)
    after = servers(house, now)
    (kept,) = before.keys() - {failed}
    assert now.generation == 2 and failed not in after and after[kept] == before[kept] and len(after) == 2


def test_failed_check_of_a_shared_node_replaces_no_server_there(
    house: House, clock: HandClock, report: Report
) -> None:
    """Another project can bring the devices of its own part into an error: the pod reads of it alone."""
    choose(house, codes={"GPU_COUNT": "replace"})
    pod = house.ready(replacing("train", 1))
    (host,) = {key.split("/")[1] for key in servers(house, pod)}
    report(host, GONE, minutes=31)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and said(house, pod) == "NODE_FAILS"


def test_project_moves_only_so_many_servers_on_shared_nodes_in_a_day(house: House, clock: HandClock) -> None:
    """By what its members can bring about: these nodes aren't held, so nothing else would end it, and others' failures
    would wait."""
    limits(house, unaccepted=1)
    pod = house.ready(replacing("train", 1))

    def host() -> str:
        return look(house, pod).plan.placement.nodes[0].node

    for generation in (2, 2):
        house.service.pods.report_node(house.request(), "train", host(), "slow")
        repairs(house).tend()
        assert visit(house, pod).generation == generation
    assert said(house, pod) == "TOO_MANY_IN_A_DAY"
    clock.forward(hours=25)
    repairs(house).tend()
    assert visit(house, pod).generation == 3
    fail(house, clock, host())
    repairs(house).tend()
    assert visit(house, pod).generation == 4, "its host is down, which isn't the project's doing"


def test_replacement_of_several_servers_is_under_way_until_the_last_is_there(
    house: House, clock: HandClock
) -> None:
    """Also if its first server is there before the others: the next failure of the site waits."""
    limits(house, at_once=1)
    pod = house.ready(replacing("train", 2, locality={"required": "node"}))
    other = house.ready(order("other", 1))
    (host,) = {key.split("/")[1] for key in servers(house, pod)}
    fail(house, clock, host)
    repairs(house).tend()
    assert visit(house, pod).generation == 2
    change = "UPDATE resource SET state = %s WHERE owner_id = %s AND kind = 'server' AND key LIKE '%%/1'"
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(change, ["pending", pod.id])
        fail(house, clock, other.nodes[0])
        repairs(house).tend()
        assert look(house, other).generation == 1 and said(house, other) == "TOO_MANY_UNDER_WAY"
        connection.execute(change, ["settled", pod.id])
    clock.forward(minutes=5)
    repairs(house).tend()
    assert look(house, other).generation == 2
