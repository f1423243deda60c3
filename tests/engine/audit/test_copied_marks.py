"""A mark proves nothing: resources that a tenant marks stay, make no receipt wrong, and delay no sweep."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.engine.audit.test_sweep import alarms, corrections, released, sweep
from tests.engine.house import House, lost_hold
from tests.engine.timehouse import make
from weft.engine.rows.records import PodRecord
from weft.engine.rows.traces import MOST_OF_MARKS, Traces
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud_state import Thing

KEYS = {
    Kind.SERVER: "server/{}",
    Kind.NETWORK: "network/management",
    Kind.SUBNET: "subnet/management",
    Kind.PORT: "port/{}/management",
    Kind.SECURITY_GROUP: "security_group",
}


def bearing(house: House, pod: PodRecord, kind: Kind, project: str = "team-a", **fields: object) -> Thing:
    """Someone's resource in the pod's project with the pod's mark, name and all."""
    mark = Mark("lab", Owner.pod(pod.id), KEYS[kind].format(pod.nodes[0]))
    records = {r.key: r for r in house.store.pods.resources(pod.id)}
    thing = house.cloud.add(kind, records[mark.key].resource.name, project, mark, **fields)
    thing.ours = False
    return thing


def test_released_pods_mark_on_someone_elses_resource_is_a_copy(house: House) -> None:
    """Each kind: reported as foreign, still there after sweeps and a repair, and the receipt stays as signed."""
    pod = released(house)
    house.clock.sleep(3600)
    things = [bearing(house, pod, kind, ports=()) for kind in KEYS]
    for _ in range(2):
        assert sweep(house) == []
    found = house.service.audits.run(house.operator, repair=True).findings
    assert {(f.category, f.kind) for f in found} == {("foreign", str(kind)) for kind in KEYS}
    assert all("isn't weft's" in f.repair for f in found)
    assert all(thing in house.cloud.things() for thing in things)
    assert alarms(house, pod) == [] and corrections(house, pod) == () and Traces(house.database).open() == []


def test_server_created_by_another_user_is_never_wefts(house: House) -> None:
    """Even if the row shows that a worker lost its hold, and the server was created at that time."""
    pod = released(house)
    lost_hold(house.database, pod.id)
    server = bearing(house, pod, Kind.SERVER, ports=())
    sweep(house)
    house.service.audits.run(house.operator, repair=True)
    assert server in house.cloud.things() and corrections(house, pod) == ()


def test_live_pods_mark_on_a_colleagues_server_is_a_copy(house: House) -> None:
    """It isn't a duplicate of the pod's own, which an operator's repair would remove."""
    pod = house.ready()
    server = bearing(house, pod, Kind.SERVER, ports=())
    house.clock.sleep(3600)
    found = house.service.audits.run(house.operator, repair=True).findings
    assert ("foreign", "server") in {(f.category, f.kind) for f in found}
    assert server in house.cloud.things()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert server in house.cloud.things(), "its release removes its own"


@pytest.mark.parametrize("wrong", ["late", "early", "name"])
def test_resource_that_the_lost_request_cannot_have_created_is_a_copy(house: House, wrong: str) -> None:
    """It was created at another time, or has another name."""
    pod = released(house)
    lost_hold(house.database, pod.id)
    thing = bearing(house, pod, Kind.NETWORK)
    assert thing.created is not None
    match wrong:
        case "late":
            house.clock.sleep(90000)
            thing.created = house.clock.now()
        case "early":
            thing.created = pod.created_at.replace(year=2020)
        case _:
            thing.name = "mine"
    sweep(house)
    assert thing in house.cloud.things() and corrections(house, pod) == ()


def test_resource_of_an_unanswered_creation_is_wefts(house: House) -> None:
    """The row was requested and has no id."""
    pod = released(house)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET outside_id = NULL WHERE owner_id = %s AND kind = 'network'", [pod.id]
        )
    thing = bearing(house, pod, Kind.NETWORK)
    sweep(house)
    assert thing not in house.cloud.things()
    assert [c.kind for c in corrections(house, pod)] == ["network"]


def in_use(house: House) -> Iterator[tuple[PodRecord, Thing]]:
    """Three released pods' marks, each on a resource that a port keeps, as lost requests could have left them."""
    for kind in (Kind.NETWORK, Kind.SUBNET, Kind.SECURITY_GROUP):
        pod = house.run(house.order(make(f"of-{kind}".replace("_", "-"), 1)), PodState.READY)
        house.release(pod)
        pod = house.run(pod, PodState.RELEASED)
        lost_hold(house.database, pod.id)
        thing = bearing(house, pod, kind)
        house.cloud.add(
            Kind.PORT, "mine", "team-a", None, network=thing.id, subnet=thing.id, security_groups=(thing.id,)
        )
        yield pod, thing


def test_undeletable_resources_do_not_delay_a_sweep(house: House) -> None:
    """Another pod's resource is removed in the same round, without waiting for those that stay."""
    stuck = list(in_use(house))
    other = house.run(house.order(make("other", 1)), PodState.READY)
    house.release(other)
    other = house.run(other, PodState.RELEASED)
    lost_hold(house.database, other.id)
    late = bearing(house, other, Kind.NETWORK)
    before = house.clock.seconds
    sweep(house)
    assert house.clock.seconds - before == 300.0
    assert late not in house.cloud.things()
    assert {t.id for _, t in stuck} <= {t.id for t in house.cloud.things()}


def test_traces_by_mark_are_bounded_and_do_not_displace_those_by_id(house: House) -> None:
    """A resource under the row's own id always gets a trace, and its end is noted."""
    pod = house.ready()
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    house.release(pod)
    pod = house.run(pod, PodState.RELEASED)
    lost_hold(house.database, pod.id)
    for _ in range(MOST_OF_MARKS + 5):
        house.cloud.lose(bearing(house, pod, Kind.NETWORK))
    forged = [bearing(house, pod, Kind.NETWORK) for _ in range(MOST_OF_MARKS + 5)]
    for thing in forged:
        thing.undeletable = True
    server.gone_at = None
    house.cloud.bring_back(server)
    sweep(house)
    networks = [r for r in Traces(house.database).open() if r.kind == "network"]
    assert MOST_OF_MARKS - 1 <= len(networks) <= MOST_OF_MARKS
    assert "server" in {c.kind for c in corrections(house, pod)}
    sweep(house, 10.0)
    [found] = [c for c in corrections(house, pod) if c.kind == "server"]
    assert found.gone_at is not None


def test_hundreds_of_forged_marks_do_not_starve_a_real_one(house: House) -> None:
    """The last of them has its turn in the third round, even across a restart."""
    pod = released(house)
    lost_hold(house.database, pod.id)
    things = sorted((bearing(house, pod, Kind.NETWORK) for _ in range(501)), key=lambda t: t.id)
    for thing in things[:-1]:
        thing.undeletable = True
    for there in (True, True, False):
        sweep(house)
        assert (things[-1] in house.cloud.things()) is there
    assert all(thing in house.cloud.things() for thing in things[:-1])


def test_trace_of_a_resource_without_a_known_id_ends(house: House) -> None:
    """It went after the round that had asked for it, or someone else removed it."""
    pod = released(house)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET outside_id = NULL WHERE owner_id = %s AND kind = 'network'", [pod.id]
        )
    thing = bearing(house, pod, Kind.NETWORK)
    thing.undeletable = True
    sweep(house)
    assert [r.subject for r in Traces(house.database).open()] == [thing.id]
    house.cloud.lose(thing)
    assert sweep(house) == []
    assert Traces(house.database).open() == []
    [found] = corrections(house, pod)
    assert found.gone_at is not None


# -- what weft made twice -----------------------------------------------------------------------------------------


def twice(house: House, pod: PodRecord, ours: bool) -> Thing:
    """A server with the mark of one whose creation was answered, created at the same time."""
    server = bearing(house, pod, Kind.SERVER, ports=())
    server.ours, server.created = ours, pod.created_at
    return server


@pytest.mark.parametrize("ours", [True, False])
def test_released_pods_duplicate_is_removed_if_weft_created_it(house: House, ours: bool) -> None:
    """A request was sent twice and answered once; a tenant's copy is reported and stays."""
    pod = released(house)
    server = twice(house, pod, ours)
    house.clock.sleep(3600)
    sweep(house)
    assert (server in house.cloud.things()) is not ours
    assert [c.kind for c in corrections(house, pod)] == (["server"] if ours else [])
    found = [f.category for f in house.service.audits.run(house.operator, repair=True).findings]
    assert found == (["late"] if ours else ["foreign"])


@pytest.mark.parametrize("ours", [True, False])
def test_live_pods_duplicate_is_removed_if_weft_created_it(house: House, ours: bool) -> None:
    """Once it is too old to be something that the loop has just created; the pod's own stays."""
    pod = house.ready()
    own = house.cloud.thing(f"server/{pod.nodes[0]}")
    server = twice(house, pod, ours)
    sweep(house)
    assert server in house.cloud.things(), "it is young"
    sweep(house, 60.0)
    assert (server in house.cloud.things()) is not ours and own in house.cloud.things()


def test_duplicate_created_at_another_time_is_a_copy(house: House) -> None:
    """Created by weft's user, but long after the request: another installation's, with a changed mark."""
    pod = released(house)
    server = twice(house, pod, ours=True)
    house.clock.sleep(3600)
    server.created = house.clock.now()
    sweep(house)
    assert server in house.cloud.things() and corrections(house, pod) == ()
