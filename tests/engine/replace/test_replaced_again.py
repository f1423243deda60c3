"""Replacements that meet others: several nodes that had one place, a refused word, a change that lasts long."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.changes.test_change_loop import apply, held, settle, sized
from tests.engine.house import QUICK, House
from tests.engine.replace.test_replace import places, swap, visit
from tests.engine.timehouse import HandClock, look, make
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.errors import ConflictError, RefusedError
from weft.model.pod import PodState
from weft.testing.cloud import Fault


def twice(house: House) -> list[str]:
    """Names and addresses that more than one of the pod's servers has."""
    found = Counter(one for name, addresses in places(house).values() for one in (name, *addresses))
    return [one for one, count in found.items() if count > 1]


def chosen(house: House, pod: PodRecord, node: str, by: str) -> str:
    """Replace a node by a named one; returns that one."""
    house.service.pods.replace_node(house.operator, str(pod.id), Replacement(node=node, by=by))
    return by


def goes_down(house: House, node: str) -> None:
    house.cloud.offers.hosts[house.site.node_by_name[node].nova_host] = "down"


@pytest.mark.parametrize("order", [1, -1])
def test_clearing_one_predecessor_does_not_clear_another(house: House, order: int) -> None:
    """The first host was cleared, and then its successor's fails, too: that server may go on with the same addresses,
    whichever of both names sorts first."""
    pod = house.ready(sized(2))
    free = [n.name for n in house.site.nodes if n.name not in pod.nodes and n.role == "compute"]
    failed, first, last = (free[0], free[-1], free[1]) if order < 0 else (free[-1], free[0], free[1])
    chosen(house, pod, pod.nodes[0], failed)
    settle(house, pod)
    goes_down(house, failed)
    chosen(house, pod, failed, first)
    visit(house, pod, 3)
    house.store.quarantine(failed, "looked at")
    house.service.nodes.clear(house.operator, failed)
    visit(house, pod, 8)
    assert first in places(house)
    goes_down(house, first)
    chosen(house, pod, first, last)
    now = visit(house, pod, 6)
    assert {failed, first} <= held(house, now) and last not in places(house)
    house.store.quarantine(first, "looked at")
    house.service.nodes.clear(house.operator, first)
    visit(house, pod, 8)
    assert last in places(house)


def test_nodes_that_had_one_place_return_to_different_places(house: House) -> None:
    """The successor left the pod before the node that it replaced was clean, so both had one number at their end."""
    pod = house.ready(sized(2))
    failed = pod.nodes[0]
    new = swap(house, failed)
    apply(house, sized(1), new)
    settle(house, pod)
    for node in house.site.nodes:
        if node.role == "compute" and node.name not in (failed, new, pod.nodes[1]):
            house.store.quarantine(node.name, "so that only these are free")
    house.service.nodes.accept(house.operator, failed)
    apply(house, sized(3))
    now = settle(house, pod)
    assert set(now.nodes) == {failed, new, pod.nodes[1]} == places(house).keys()
    assert not twice(house)


def test_refused_clearing_requests_nothing(house: House) -> None:
    """A node that isn't in quarantine can't be cleared: the answer is an error, and nothing is requested after it."""
    pod = house.ready(sized(2))
    failed = pod.nodes[0]
    goes_down(house, failed)
    new = swap(house, failed)
    visit(house, pod, 3)
    with pytest.raises(ConflictError, match="not in quarantine"):
        house.service.nodes.clear(house.operator, failed)
    visit(house, pod, 6)
    assert new not in places(house)


def test_node_that_is_replaced_in_a_long_change_has_its_own_time(house: House, clock: HandClock) -> None:
    """The change has lasted for longer than a release may: what leaves only now isn't late and keeps its place."""
    pod = house.ready(sized(2))
    house.cloud.plant(Fault.BROKEN, key="server/*", times=None, reason="No valid host was found.")
    apply(house, sized(3))
    visit(house, pod, 4, clock)
    clock.forward(seconds=QUICK.limits[PodState.RELEASING])
    assert look(house, visit(house, pod, 2, clock)).changed_at is not None
    failed = pod.nodes[0]
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{failed}", times=None)
    new = swap(house, failed)
    visit(house, pod, 3, clock)
    assert failed not in house.store.capacity().quarantines
    planted.lift()
    house.cloud.thing(f"server/{failed}").undeletable = False
    assert visit(house, pod, 4, clock).plan.server_numbers[new] == 0


def test_repeated_request_by_name_is_refused_until_the_new_server_is_ready(house: House) -> None:
    """Also once the old node is free; by the node's name it is replaced once more, and afterwards by the server's."""
    pod = house.ready(sized(2))
    planted = house.cloud.plant(Fault.BROKEN, key="server/*", times=None, reason="No valid host was found.")
    new = swap(house, "train-0")
    now = visit(house, pod, 10)
    assert pod.nodes[0] not in held(house, now) and now.changed_at is not None
    with pytest.raises(ConflictError, match=f"being replaced already, on {new} instead of {pod.nodes[0]}"):
        swap(house, "train-0")
    planted.lift()
    swap(house, new)
    settle(house, pod)
    swap(house, "train-0")
    settle(house, pod)


def test_named_node_must_be_in_the_domain_of_its_slice(house: House) -> None:
    """An operator can't break a slice either: a later change would find part of one."""
    pod = house.ready(make("train", 2, locality={"slice": 2, "slice_within": "leaf"}))
    at = {p.leaf for p in pod.plan.placement.nodes}
    free = [n.name for n in house.site.nodes if n.name not in pod.nodes and n.role == "compute"]
    with pytest.raises(RefusedError, match=f"no node can take the place of {pod.nodes[0]}: "):
        chosen(house, pod, pod.nodes[0], free[-1])
    chosen(house, pod, pod.nodes[0], free[0])
    now = settle(house, pod)
    assert free[0] in now.nodes and {p.leaf for p in now.plan.placement.nodes} == at
