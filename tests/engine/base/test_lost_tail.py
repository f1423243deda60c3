"""A standby is promoted that lacks the last transactions: each verb, once the clouds know of it, is missed by it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network

import pytest

from tests.engine.base.test_restored_database import outside, visit
from tests.engine.changes.test_change_loop import access, apply, sized
from tests.engine.dumps import dump, restore
from tests.engine.house import House
from tests.engine.timehouse import HandClock, dispatching, look, make, queue
from weft.engine.base.gate import ClosedError
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.change import Replacement
from weft.model.errors import ConflictError
from weft.model.views import DrainRequest

Verb = Callable[[House], object]
LATER = timedelta(hours=9)


def replaced(house: House) -> None:
    pod = house.store.pods.find("pod", "team-a")
    house.service.pods.replace_node(house.request(), "pod", Replacement(node=pod.nodes[0]))


VERBS: dict[str, Verb] = {
    "order": lambda house: house.order(make("next", 1)),
    "grow": lambda house: apply(house, sized(3, make("pod", 2, duration="1h"))),
    "shrink": lambda house: apply(house, sized(1, make("pod", 2, duration="1h"))),
    "access": lambda house: apply(
        house, access(make("pod", 2, duration="1h"), ssh_from=(ip_network("10.0.0.0/8"),))
    ),
    "extend": lambda house: house.service.pods.extend(house.request(), "pod", house.clock.now() + LATER),
    "replace": replaced,
    "release": lambda house: house.release(house.store.pods.find("pod", "team-a")),
    "change of what waits": lambda house: apply(house, make("waits", 15, queue=True)),
    "withdraw": lambda house: house.release(house.store.pods.find("waits", "team-a")),
    "quarantine": lambda house: house.service.nodes.quarantine(house.operator, "gpu16", "smokes"),
    "hold": lambda house: house.service.nodes.hold(house.operator, "gpu16", "burn-in"),
    "drain": lambda house: house.service.nodes.drain(house.operator, DrainRequest(target="gpu16")),
}
"""What is asked of a house with a pod, and an order that waits."""


@pytest.mark.parametrize("verb", VERBS)
def test_lost_verb_closes_the_gate(house: House, clock: HandClock, verb: str) -> None:
    """It was answered, and done; nothing of it is taken back, or done for a second time, before an operator accepts."""
    pod = house.ready(make("pod", 2, duration="1h"))
    waits = queue(house, "waits", 16)
    house.gate.tend()
    dump(house.database.url)
    VERBS[verb](house)
    for one in (pod, waits):
        visit(house, one, 12)
    house.gate.tend()
    before = outside(house)

    restore(house.database.url)
    house.restart()
    clock.forward(hours=2)
    house.worker.tend_queue()
    dispatching(house, 1)[0]()
    visit(house, pod, 3)
    FabricKeeper(house.database, house.keeper.world).tend()
    assert isinstance(house.gate.closed(()), ClosedError), house.gate.says()
    assert outside(house) == before
    assert look(house, pod).wanted == "present" and look(house, waits).placed is None
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("other", 1))
