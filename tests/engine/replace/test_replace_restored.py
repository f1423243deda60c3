"""A database that was restored from a dump of before, or of the middle of, a replacement: it observes, and ends it."""

from __future__ import annotations

import pytest

from tests.engine.changes.test_change_loop import members, settle, sized
from tests.engine.dumps import dump, restore
from tests.engine.house import House
from tests.engine.replace.test_replace import places, swap, visit
from weft.engine.rows.records import PodRecord
from weft.model.pod import PodState
from weft.model.resources import Kind


def things(house: House) -> set[tuple[Kind, str]]:
    return {(thing.kind, thing.id) for thing in house.cloud.things()}


def restored(house: House, pod: PodRecord) -> None:
    """Check that the pod is only observed and says why, and accept the database."""
    restore(house.database.url)
    house.restart()
    before = things(house)
    assert "--accept" in visit(house, pod, 4).reason and things(house) == before
    house.service.audits.accept_database(house.operator)


def as_operators_do(house: House, pod: PodRecord, node: str, of_pod: bool = True) -> None:
    """Delete the server that the audit names on a node, and that the database doesn't know; repair the rest.

    Args:
        of_pod: by the database the node is the pod's.
    """
    visit(house, pod, 2)
    found = [
        f for f in house.service.audits.run(house.operator).findings if (f.kind, f.subject) == ("node", node)
    ]
    (server,) = (s for s in house.cloud.servers if s.mark and s.mark.key == f"server/{node}")
    assert not of_pod or any(server.id in f.what and "delete it by hand" in f.repair for f in found)
    house.cloud.lose(server)
    for _ in range(3):
        house.service.audits.run(house.operator, repair=True)
        visit(house, pod, 4)


@pytest.mark.parametrize("visits", [0, 1, 2, 3, 4])
def test_database_from_during_a_replacement_finishes_it_once_accepted(house: House, visits: int) -> None:
    """One server in the place, whatever was done since. Of one that wasn't requested by then, the database can't know
    that it is weft's: its node stays out of the segment until operators have deleted it."""
    pod = house.ready(sized(3))
    failed, was = pod.nodes[1], places(house)
    new = swap(house, failed)
    visit(house, pod, visits)
    known = any(r.key == f"server/{new}" and r.started_at for r in house.store.pods.resources(pod.id))
    dump(house.database.url)
    assert settle(house, pod).nodes == (pod.nodes[0], new, pod.nodes[2])
    later = house.ready(sized(1).model_copy(update={"name": "later"}))  # counted: the dump is behind
    restored(house, pod)
    if not known:
        visit(house, pod, 2)
        assert new not in members(house, pod)
        as_operators_do(house, pod, new)
    now = settle(house, pod)
    assert now.state is PodState.READY and now.nodes == (pod.nodes[0], new, pod.nodes[2])
    assert places(house) == {**{n: was[n] for n in was if n != failed}, new: was[failed]}
    assert members(house, now) - set(later.nodes) == set(now.nodes)


def test_database_from_before_a_replacement_makes_no_second_server_in_the_place(house: House) -> None:
    """The database's word is the old node: its server is created again once what the new one had was deleted. Its port
    on the network that tenants use, too, is named as what has the address."""
    pod = house.ready(sized(3))
    failed, was = pod.nodes[1], places(house)
    dump(house.database.url)
    new = swap(house, failed)
    settle(house, pod)
    restored(house, pod)
    visit(house, pod, 4)
    names = [server.name for server in house.cloud.servers]
    assert len(names) == len(set(names)), "two servers would have the same addresses"
    as_operators_do(house, pod, new, of_pod=False)
    (port,) = (p for p in house.cloud.ports if p.mark and p.mark.key.startswith(f"port/{new}/"))
    assert port.name in visit(house, pod, 2).reason
    house.cloud.lose(port)
    house.service.audits.run(house.operator, repair=True)
    now = settle(house, pod)
    assert now.nodes == pod.nodes and places(house) == was
    assert members(house, now) == set(now.nodes)
