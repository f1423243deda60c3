"""What an audit's repair must not touch: concurrent orders, pods that a restored database lacks, copied marks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.engine.house import ORDER, House, lost_hold
from weft.engine.audit import auditcompare
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind, Marked
from weft.model.views import AuditReport, Finding
from weft.ports.resources import ResourceDriver
from weft.testing.cloud_state import Fault, Thing

FORGET = (
    "DELETE FROM node_hold WHERE pod_id = %s",
    "DELETE FROM number_hold WHERE owner_id = %s",
    "DELETE FROM resource WHERE owner_id = %s",
    "DELETE FROM pod WHERE id = %s",
)
"""Statements that remove from the database what an older dump lacks of a pod."""
GHOST = "00000000-1111-2222-3333-444444444444"


def repair(house: House, *unknown: str) -> AuditReport:
    return house.service.audits.run(house.operator, repair=True, unknown_pods=unknown)


def of_kind(report: AuditReport, kind: Kind) -> Finding:
    return next(f for f in report.findings if f.kind == kind)


def old(house: House, thing: Thing) -> Thing:
    """Make a resource an hour old."""
    thing.created = house.clock.now() - timedelta(hours=1)
    return thing


def ghosts(house: House, project: str = "team-a") -> Thing:
    return old(
        house,
        house.cloud.add(
            Kind.NETWORK, "weft-00000000-network-rdma", project, Mark("lab", Owner.pod(GHOST), "x")
        ),
    )


def test_pod_ordered_during_an_audit_is_not_an_orphan(house: House) -> None:
    """Its servers used to be taken for orphans and deleted while the pod was READY."""
    house.cloud.meanwhile("marked", house.ready)
    report = repair(house)
    assert report.findings == ()
    assert len(house.cloud.servers) == 2


class Listing:
    """A driver whose listing is followed by a change that someone else makes."""

    def __init__(self, driver: ResourceDriver, after: Callable[[], None]) -> None:
        self._driver, self._after = driver, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        things = self._driver.marked(site, projects)
        self._after()
        return things


def test_pod_ordered_while_hosts_are_read_is_not_a_finding(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its servers stand on nodes that no pod held when rows were read."""
    seen = auditcompare.strangers

    def late(*args: Any) -> Any:
        house.ready()
        return seen(*args)

    monkeypatch.setattr(auditcompare, "strangers", late)
    assert house.service.audits.run(house.operator).findings == ()
    assert len(house.cloud.servers) == 2


def test_pod_released_during_an_audit_is_not_a_finding(house: House) -> None:
    """What was listed and is gone when the database is read is neither an orphan nor foreign."""
    pod = house.ready()
    things = len(house.cloud.things())

    def gone() -> None:
        house.release(pod)
        house.run(pod, PodState.RELEASED)

    resources = house.world.resources
    assert isinstance(resources, dict)
    resources["lab"] = Listing(house.cloud, gone)
    report = house.service.audits.run(house.operator)
    assert report.findings == () and report.checked["things with weft's mark in lab"] == things


def test_pods_unknown_to_a_restored_database_need_confirmation(house: House) -> None:
    """The servers of a running pod that the dump lacks used to be deleted as orphans."""
    ghosts(house)
    found = of_kind(repair(house), Kind.NETWORK)
    assert found.repaired is False and found.pod_id == GHOST and GHOST in found.repair
    assert len(house.cloud.things()) == 1
    assert of_kind(repair(house, GHOST), Kind.NETWORK).repaired
    assert house.cloud.things() == []


def test_confirmation_covers_only_the_named_pods(house: House) -> None:
    ghosts(house)
    repair(house, "11111111-1111-2222-3333-444444444444")
    assert len(house.cloud.things()) == 1


def test_young_resource_stays_even_if_confirmed(house: House) -> None:
    """Another weft, with another database, may be at work on it."""
    ghosts(house).created = house.clock.now()
    assert "younger" in of_kind(repair(house, "all"), Kind.NETWORK).repair
    assert len(house.cloud.things()) == 1


def test_resource_with_a_mark_copied_by_a_tenant_is_foreign(house: House) -> None:
    """It stays."""
    pod = house.ready()
    mark = house.cloud.thing("network/rdma").mark
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    old(house, house.cloud.add(Kind.NETWORK, "mine", "team-b", mark))
    old(
        house,
        house.cloud.add(Kind.NETWORK, "mine", "team-a", Mark("lab", Owner.pod(pod.id), "network/nothing")),
    )
    assert [f.category for f in repair(house, "all").findings] == ["foreign", "foreign"]
    assert len(house.cloud.things()) == 2


def test_late_creation_of_a_released_pod_is_wefts_own(house: House) -> None:
    """Its pod's row says that it was released before: this needs neither a confirmation nor an age."""
    pod = house.ready()
    thing = house.cloud.thing("network/rdma")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    lost_hold(house.database, pod.id)
    house.clock.sleep(60)
    house.cloud.add(Kind.NETWORK, thing.name, "team-a", thing.mark)
    assert of_kind(repair(house), Kind.NETWORK).repaired
    assert house.cloud.things() == []


def test_duplicate_is_removed_only_when_old_and_the_pod_at_rest(house: House) -> None:
    """What the loop has just created but not yet recorded looks the same. The pod's failure count is unchanged."""
    pod = house.ready()
    first = house.cloud.thing("network/rdma")
    house.cloud.add(Kind.NETWORK, first.name, "team-a", first.mark)
    assert of_kind(repair(house), Kind.NETWORK).repaired is False
    house.clock.sleep(3600)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET failures = 7 WHERE id = %s", [pod.id])
    assert of_kind(repair(house), Kind.NETWORK).repaired
    assert house.store.pods.find(str(pod.id), None).failures == 7
    assert [t.id for t in house.cloud.things(Kind.NETWORK) if t.name == first.name] == [first.id]


def test_repair_goes_by_id_if_two_projects_share_a_name(house: House) -> None:
    """The other project's pod of the same name used to be repaired instead, or taken for unhealthy."""
    mine = house.ready()
    view = house.service.pods.create(house.request("team-b"), ORDER)
    other = house.run(house.store.pods.find(view.id, None), PodState.READY)
    house.cloud.lose(next(s for s in house.cloud.servers if s.mark and s.mark.owner.id == str(other.id)))
    sick = {f.pod_id for f in house.service.audits.run(house.operator).findings}
    assert sick == {str(other.id)} and str(mine.id) != str(other.id)


def test_lost_pod_is_removed_in_one_pass(house: House) -> None:
    """Ports used to be deleted before their servers were gone, which needed further passes."""
    pod = house.ready()
    with psycopg.connect(house.database.url) as connection:
        for statement in FORGET:
            connection.execute(statement, [pod.id])
    house.cloud.latency = 0.2  # a server takes a while to go
    for thing in house.cloud.things():
        old(house, thing)
    report = repair(house, str(pod.id))
    assert house.cloud.things() == []
    assert all(f.repaired for f in report.findings)
    assert house.service.audits.run(house.operator).findings == ()


def test_dependencies_of_a_stuck_server_stay(house: House) -> None:
    """A port isn't removed while its server still exists; the report says why."""
    pod = house.ready()
    mark, ports = house.cloud.thing("server/gpu01").mark, house.cloud.ports
    assert mark is not None and ports
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    lost_hold(house.database, pod.id)
    house.clock.sleep(60)
    house.cloud.add(Kind.SERVER, "late", "team-a", mark, host="gpu01", ports=())
    network = Mark("lab", Owner.pod(pod.id), "network/rdma")
    house.cloud.add(Kind.NETWORK, network.name(), "team-a", network)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER)
    report = repair(house)
    assert "not seen gone" in of_kind(report, Kind.SERVER).repair
    assert "still depends on it" in of_kind(report, Kind.NETWORK).repair
    assert len(house.cloud.things()) == 2
