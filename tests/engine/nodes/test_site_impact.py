"""What an outage would touch: pods, promises, and whether the pods have room elsewhere. Nothing is changed."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.life.test_parts import small
from tests.engine.timehouse import HandClock, make
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.database import Database
from weft.engine.base.world import World
from weft.engine.nodes.impact import places_elsewhere, read_touched
from weft.model.errors import ForbiddenError, InputError
from weft.model.reservation import Reservation
from weft.model.site import Site
from weft.model.views import DrainRequest, ImpactView, PodImpact

LEAF01 = {"gpu01", "gpu02", "gpu03", "gpu04"}


@pytest.fixture
def ipu(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def ask(house: House, target: str, **given: Any) -> ImpactView:
    return house.service.site.impact(house.operator, target, **given)


def no_world(site: Site) -> World:
    raise AssertionError(f"nothing outside of weft is asked about {site.name}")


def only(found: ImpactView) -> PodImpact:
    [pod] = found.pods
    return pod


def on(house: House, name: str, count: int, nodes: set[str], **more: Any) -> set[str]:
    """Order a pod on these nodes alone: the others are drained meanwhile."""
    others = {n.name for n in house.site.nodes if n.role == "compute"} - nodes
    for node in sorted(others):
        house.service.nodes.drain(house.operator, DrainRequest(target=node))
    pod = house.order(make(name, count, **more))
    for node in sorted(others):
        house.service.nodes.undrain(house.operator, node)
    return set(pod.held)


def test_pods_of_a_leaf_are_placed_one_after_another(house: House) -> None:
    """Two free nodes are room for one pod of two, not for both; the order is that of the list."""
    assert on(house, "a", 2, LEAF01) | on(house, "b", 2, LEAF01) == LEAF01
    pod = house.order(make("rest", 10))
    free = {f"gpu{n:02}" for n in range(5, 17)} - set(pod.nodes)
    found = ask(house, "leaf01")
    assert (found.kind, found.generation, found.more_pods, found.promises) == ("switch", 1, 0, ())
    assert {n.node: n.loss for n in found.nodes} == dict.fromkeys((*sorted(LEAF01), "sm1"), "fabric")
    assert [(p.pod, p.loss, p.elsewhere and p.elsewhere.fits) for p in found.pods] == [
        ("a", "fabric", True),
        ("b", "fabric", False),
    ]
    first, second = (p.elsewhere for p in found.pods)
    assert first is not None and set(first.nodes) == free
    assert second is not None and second.nodes == () and second.why
    assert {*found.pods[0].nodes} | {*found.pods[1].nodes} == LEAF01
    assert {(p.project_id, p.state) for p in found.pods} == {(pod.project_id, "PLACED")}


def test_pod_that_must_be_on_one_leaf_moves_as_a_whole_or_not_at_all(house: House) -> None:
    within = {"locality": {"required": "leaf"}}
    assert on(house, "tight", 3, LEAF01, **within) < LEAF01
    room = only(ask(house, "leaf01")).elsewhere
    assert room is not None and room.fits and len(room.nodes) == 3
    leaves = {n.leaf for n in house.service.nodes.list(house.operator) if n.name in room.nodes}
    assert len(leaves) == 1 and leaves != {"leaf01"}
    for leaf in (2, 3, 4):
        mine = {f"gpu{n:02}" for n in range(4 * leaf - 3, 4 * leaf - 1)}
        assert on(house, f"half{leaf}", 2, mine) == mine
    room = only(ask(house, "leaf01")).elsewhere
    assert room is not None and room.fits is False, "two nodes are free on each other leaf"
    one = only(ask(house, "gpu01"))
    assert one.nodes == ("gpu01",) and one.loss == "everything"
    assert one.elsewhere is not None and one.elsewhere.nodes == ("gpu04",), "its other nodes stay on the leaf"


def test_spare_takes_over_and_a_lost_spare_is_replaced(house: House) -> None:
    held = on(house, "train", 3, LEAF01, **{"locality": {"required": "leaf"}})
    assert len(held) == 3
    order = make("spared", 2)
    order = order.model_copy(update={"nodes": order.nodes.model_copy(update={"spare": 1})})
    pod = house.order(order)
    lost = only(ask(house, pod.nodes[0]))
    assert lost.spares == () and lost.elsewhere is not None and lost.elsewhere.nodes == ()
    assert lost.elsewhere.fits and pod.spares[0] in lost.elsewhere.spares
    idle = only(ask(house, pod.spares[0]))
    assert idle.spares == pod.spares and idle.elsewhere is not None and len(idle.elsewhere.nodes) == 1
    assert not set(idle.elsewhere.nodes) & set(pod.held)


def test_held_and_drained_nodes_do_not_count_as_room(house: House) -> None:
    assert on(house, "a", 4, LEAF01) == LEAF01
    house.order(make("rest", 10))
    free = {n.name for n in house.service.nodes.list(house.operator) if n.state == "free"} - {"sm1", "sm2"}
    one, other = sorted(n for n in free if n.startswith("gpu"))
    for target in ("gpu01", "gpu02"):
        found = only(ask(house, target)).elsewhere
        assert found is not None and found.fits
    house.service.nodes.hold(house.operator, one, "burn-in")
    house.service.nodes.drain(house.operator, DrainRequest(target=other))
    found = only(ask(house, "gpu01")).elsewhere
    assert found is not None and found.fits is False


def test_promises_are_named_and_nothing_is_changed(house: House, clock: HandClock) -> None:
    """No event, drain or audit-log entry, and neither cloud nor fabric is asked."""
    pod = house.ready()
    start = clock.now() + timedelta(hours=2)
    given = {"name": "course", "project_id": "0" * 32, "nodes": ["gpu15"], "start": start}
    house.service.capacity.reserve(house.operator, Reservation.model_validate(given))
    events = house.service.pods.events(house.operator, str(pod.id))
    house.keeper = WorldKeeper(house.store, no_world)
    house.service = house.new_service()
    found = ask(house, "rack04")
    assert found.promises == (f"reservation course of project {'0' * 32}",) and found.kind == "rack"
    assert only(ask(house, pod.nodes[0])).pod == "train"
    assert house.service.pods.events(house.operator, str(pod.id)) == events
    assert house.service.nodes.drains(house.operator) == []


def test_failure_of_a_spine_affects_no_pod(house: House) -> None:
    house.ready()
    found = ask(house, "spine01")
    assert (found.nodes, found.pods, found.promises) == ((), (), ())
    assert {(u.switch, u.gbps, u.gbps_left) for u in found.uplinks} == {
        (f"leaf0{n}", 2000, 1000) for n in range(1, 5)
    }


def test_free_node_touches_nothing(house: House) -> None:
    pod = house.ready()
    [free] = sorted(LEAF01 - set(pod.nodes))[:1] or ["gpu16"]
    found = ask(house, free)
    assert [n.loss for n in found.nodes] == ["everything"] and found.pods == ()


def test_cable_of_one_adapter_takes_part_of_a_fabric(house: House) -> None:
    pod = house.ready()
    node = pod.nodes[0]
    found = ask(house, f"{node}/mlx5_1")
    [one] = found.nodes
    assert (one.loss, one.fabrics[0].lost, one.fabrics[0].adapters) == ("adapters", ("mlx5_1",), 2)
    assert only(found).loss == "adapters"


def test_servers_on_shared_nodes_move_with_their_parts(house: House) -> None:
    """What one server gets of a node isn't free for the next one: two of four have room beside six others."""
    pods = [house.order(small(f"p{n}")) for n in range(4)] + [house.order(small("q", 4))]
    [node] = {n for pod in pods for n in pod.nodes}
    found = ask(house, node)
    assert [p.pod for p in found.pods] == ["p0", "p1", "p2", "p3", "q"]
    moved = [n for p in found.pods if p.elsewhere for n in p.elsewhere.nodes]
    assert len(moved) == 8 and node not in moved and len(set(moved)) == 1
    house.order(make("rest", 14))
    other = house.order(small("beside", 6))
    assert node not in other.nodes and len(set(other.nodes)) == 1
    rooms = [p.elsewhere for p in ask(house, node).pods]
    assert [room and room.fits for room in rooms] == [True, True, False, False, False]
    assert [room and room.nodes for room in rooms[:2]] == [other.nodes, other.nodes]


def test_slices_stay_whole(house: House) -> None:
    """One node is replaced on its leaf; with no room there, its slice moves."""
    sliced = {"locality": {"slice": 2}}
    assert len(on(house, "train", 2, LEAF01, **sliced)) == 2
    lost = next(iter(sorted(LEAF01 & set(house.store.capacity().holds))))
    room = only(ask(house, lost)).elsewhere
    assert room is not None and set(room.nodes) < LEAF01 and room.moves == ()
    rest = sorted(LEAF01 - set(house.store.capacity().holds))
    assert on(house, "rest", 2, set(rest)) == set(rest)
    room = next(p for p in ask(house, lost).pods).elsewhere
    assert room is not None and room.fits and len(room.nodes) == 2 and len(room.moves) == 1


def test_released_pod_is_not_placed(house: House) -> None:
    pod = house.ready()
    house.release(pod)
    found = only(ask(house, pod.nodes[0])).elsewhere
    assert found is not None and (found.fits, found.why) == (None, "it is being released")


def test_pods_beyond_the_limit_are_counted_and_placing_is_optional(house: House) -> None:
    on(house, "a", 2, LEAF01)
    on(house, "b", 1, LEAF01)
    found = ask(house, "leaf01", limit=1, place=False)
    assert ([p.pod for p in found.pods], found.more_pods) == (["a"], 1)
    assert found.pods[0].elsewhere is None
    for limit in (0, 1001):
        with pytest.raises(InputError, match="limit"):
            ask(house, "leaf01", limit=limit)


def test_pod_that_cannot_be_read_is_unknown(house: House) -> None:
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE pod SET plan = plan || '{\"cloud\": 7}' WHERE id = %s", (pod.id,))
    found = only(ask(house, pod.nodes[0])).elsewhere
    assert found is not None and found.fits is None and "an operator must correct the row" in found.why


def test_only_operators_and_system_readers_ask(house: House) -> None:
    with pytest.raises(ForbiddenError):
        house.service.site.impact(house.request(), "leaf01")


def test_ipu_machine_moves_its_whole_pod(ipu: IpuHouse) -> None:
    """A cluster is created as a whole; its Poplar server's host has no other."""
    pod = ipu.order(ipus(count=4))
    [machine] = pod.nodes
    found = only(ask(ipu, machine))
    assert found.elsewhere is not None and found.elsewhere.fits
    assert len(found.elsewhere.nodes) == 1 and machine not in found.elsewhere.nodes
    host = only(ask(ipu, "poplar1"))
    assert host.nodes == ("poplar1",) and host.elsewhere is not None and host.elsewhere.fits is False
    switch = ask(ipu, "tor1")
    assert {n.loss for n in switch.nodes} == {"network"} and only(switch).elsewhere is not None
    assert any("unknown" in note for note in switch.notes)


def test_two_pods_of_ipus_do_not_get_the_same_machine(ipu: IpuHouse) -> None:
    pods = [ipu.order(ipus(name, 4)) for name in ("one", "two", "third")]
    gone = {pod.nodes[0] for pod in pods[:2]}
    machines = tuple(
        m.model_copy(update={"rack": "r9"}) if m.name in gone else m for m in ipu.site.ipu_machines
    )
    ipu.store.activate_site(ipu.site.model_copy(update={"ipu_machines": machines}), "test")
    found = ask(ipu, "rack:r9")
    [free] = {m.name for m in machines} - {pod.nodes[0] for pod in pods}
    assert [(p.pod, p.elsewhere and p.elsewhere.fits) for p in found.pods] == [("one", True), ("two", False)]
    assert found.pods[0].elsewhere is not None and found.pods[0].elsewhere.nodes == (free,)


def test_placing_ends_after_its_time(house: House) -> None:
    pod = house.ready()
    touched = read_touched(house.database, house.site, pod.nodes)
    [room] = places_elsewhere(house.database, house.site, touched, touched.pods, pod.nodes, within=-1)
    assert room.fits is None and "not computed" in room.why
