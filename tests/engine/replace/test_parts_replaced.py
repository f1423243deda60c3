"""A server on a shared node is replaced by one on another node, with a number of its own."""

from __future__ import annotations

import pytest

from tests.engine.changes.test_change_parts import name, parts, released, servers, visit
from tests.engine.house import House
from tests.engine.life.test_parts import small
from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError, RefusedError
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
    plan = house.service.plan_replacement(house.request(), "train", Replacement(node=server))
    assert plan.change is not None and plan.change.nodes_removed == (host,)
    done = house.service.replace_node(house.request(), "train", Replacement(node=server))
    assert done.change is not None and (by := done.change.nodes_added[0]) != host
    now = visit(house, pod)
    assert now.state is PodState.READY and not house.service.holds(house.operator)
    after = servers(house, now)
    (added,) = after.keys() - before.keys()
    assert added.split("/")[1] == by and failed not in after
    assert all(after[key] == before[key] for key in before.keys() & after.keys())
    assert name(now, added.removeprefix("server/")) != server, "it has a number of its own"
    assert {host} != {node for node, leaving in parts(house, now) if not leaving}
    codes = [e.code for e in house.service.node_history(house.operator, host).entries]
    assert "NODE_REPLACED_BY" in codes
    with pytest.raises(InputError, match="one of the pod's servers"):
        house.service.replace_node(house.request(), "train", Replacement(node=server))
    released(house, now)


def test_part_whose_server_stays_is_kept_and_delays_nothing(house: House) -> None:
    pod = house.ready(small("train", 2))
    failed = sorted(servers(house, pod))[0]
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.SERVER, key=failed, times=None)
    house.service.replace_node(
        house.request(), "train", Replacement(node=name(pod, failed.removeprefix("server/")))
    )
    visit(house, pod)
    assert len(servers(house, pod)) == 3, "the new one is there beside the old one"
    assert (failed.split("/")[1], True) in parts(house, pod)


@pytest.mark.parametrize("way", ["two servers", "no room", "same node", "quota", "generation"])
def test_replacement_of_a_server_is_refused(house: House, way: str) -> None:
    """Each with its reason, and nothing is changed."""
    together = {"locality": {"required": "node"}} if way == "two servers" else {}
    pod = house.ready(small("train", 2, **together))
    failed = sorted(servers(house, pod))[0].removeprefix("server/")
    server, host = name(pod, failed), failed.partition("/")[0]
    asked, error = Replacement(node=server), InputError
    match way:
        case "two servers":
            asked = Replacement(node=host)
        case "no room":
            site = house.site
            for node in (n.name for n in site.nodes if n.name != host):
                house.service.hold_node(house.operator, node, "test")
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
            house.service.replace_node(house.operator, "train", asked, 7)
        else:
            house.service.replace_node(house.operator, "train", asked)
    assert house.store.find_pod(str(pod.id), None).generation == 1


def test_server_with_a_volume_is_not_replaced(house: House) -> None:
    """The new one would have a new, empty volume."""
    volume = StorageOrder.model_validate({"volume": "data", "size": "10GiB", "mount": "/data"})
    why = PARTS.why_kept(small("train", 1).model_copy(update={"storage": (volume,)}))
    assert why is not None and why.code == "VOLUMES_ARE_EMPTY"
    assert PARTS.why_kept(small("train", 1)) is None


def test_on_failure_is_not_possible_on_shared_nodes() -> None:
    with pytest.raises(ValueError, match="whole GPU nodes only"):
        Order.model_validate({**small("train", 1).model_dump(mode="json"), "on_failure": "replace"})
