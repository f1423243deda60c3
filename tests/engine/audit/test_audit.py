"""The audit and the verifier on fakes: orphans, missing, different, foreign, unknown; and what repair may touch."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.house import ORDER, House
from weft.engine.audit import auditcompare
from weft.engine.base.database import Database
from weft.engine.store.podrows import PodRows
from weft.engine.visit.verifier import Verdict
from weft.model.errors import InputErrors, UnknownError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.uses import Use
from weft.model.views import AuditLogSearch, AuditReport
from weft.testing.cloud import Fault as CloudFault
from weft.testing.fabric import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def check(house: House, repair: bool = False, **chosen: tuple[str, ...]) -> AuditReport:
    """Run an audit as an operator, with a worker at work if it repairs. Args: chosen: see `AuditVerbs.run`."""
    if not repair:
        return house.service.audits.run(house.operator)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            house.worker.run_once() or stop.wait(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        return house.service.audits.run(house.operator, repair=True, **chosen)
    finally:
        stop.set()
        thread.join()


def categories(report: AuditReport) -> set[str]:
    return {f.category for f in report.findings}


def a_member(house: House, pod_nodes: tuple[str, ...]) -> int:
    return house.site.node_by_name[pod_nodes[0]].hcas_on("ib0")[0].port_guid


def an_outsider(house: House) -> int:
    return house.site.node_by_name["gpu16"].hcas_on("ib0")[0].port_guid


def test_healthy_pod_has_no_findings(house: House) -> None:
    house.ready()
    report = check(house)
    assert report.findings == () and report.checked["pods"] == 1
    assert report.checked["host ports of ib0"] == 34


def test_orphan_is_found_and_removed(house: House) -> None:
    """A repair removes a resource with weft's mark and no live owner; one with another site's mark stays."""
    ghost = "00000000-1111-2222-3333-444444444444"
    house.cloud.add(
        Kind.NETWORK, "weft-00000000-network-rdma", "team-a", Mark("lab", Owner.pod(ghost), "network/rdma")
    )
    house.cloud.add(
        Kind.NETWORK,
        "weft-00000000-network-rdma",
        "team-a",
        Mark("elsewhere", Owner.pod(ghost), "network/rdma"),
    )
    house.cloud.add(Kind.NETWORK, "private", "team-a", None)
    for thing in house.cloud.things():
        thing.created = house.clock.now() - timedelta(hours=1)
    assert [f.category for f in check(house).findings] == ["orphan"]
    report = house.service.audits.run(house.operator, repair=True, unknown_pods=(ghost,))
    assert [f.repaired for f in report.findings] == [True]
    assert len(house.cloud.things()) == 2


def test_networks_that_a_repair_could_not_ask_about_are_reported(house: House) -> None:
    """Whether others have something on them is unknown: the report says so, besides what became of the network."""
    ghost = "00000000-1111-2222-3333-444444444444"
    mark = Mark("lab", Owner.pod(ghost), "network/rdma")
    house.cloud.add(Kind.NETWORK, "weft-00000000-network-rdma", "team-a", mark)
    for thing in house.cloud.things():
        thing.created = house.clock.now() - timedelta(hours=1)
    house.cloud.plant(CloudFault.UNREACHABLE, verb="networks")
    report = house.service.audits.run(house.operator, repair=True, unknown_pods=(ghost,))
    (unknown,) = [f for f in report.findings if f.category == "unknown" and f.subject == "repair"]
    assert unknown.kind == "network" and "networks can't be cleared" in unknown.what


def test_only_chosen_findings_are_repaired(house: House) -> None:
    """One of two orphans, and one of two pods that lack a server; the others stay as they are."""
    ghost = "00000000-1111-2222-3333-444444444444"
    pods = [house.ready(), house.ready(ORDER.model_copy(update={"name": "other"}))]
    for number in (1, 2):
        mark = Mark("lab", Owner.pod(ghost), f"network/{number}")
        house.cloud.add(Kind.NETWORK, f"weft-{number}", "team-a", mark)
    ghosts = [t for t in house.cloud.things() if t.mark and t.mark.owner == Owner.pod(ghost)]
    for thing in ghosts:
        thing.created = house.clock.now() - timedelta(hours=1)
    for pod in pods:
        house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))
    report = check(house)
    first = [f for f in report.findings if f.id == ghosts[0].id or f.pod_id == str(pods[0].id)]
    assert len({f.key for f in report.findings}) == len(report.findings) > len(first) > 1
    assert [f.repairable for f in report.findings if f.category == "orphan"] == [False, False]
    assert all(f.repairable for f in report.findings if f.category == "missing")
    keys = tuple(f.key for f in first)
    after = check(house, repair=True, unknown_pods=(ghost,), findings=keys)
    assert {f.key: f.repaired for f in after.findings} == {
        f.key: True if f.key in keys else None for f in report.findings
    }
    assert {f.key for f in check(house).findings} == {f.key for f in report.findings} - set(keys)
    entry = house.service.audits.log(house.operator, AuditLogSearch(limit=1))[0]
    assert keys[0] in entry.subject
    left = next(f.key for f in report.findings if f.key not in keys)
    with pytest.raises(InputErrors, match=keys[0]):
        house.service.audits.run(house.operator, repair=True, findings=(left, *keys))
    assert left in {f.key for f in check(house).findings}, "nothing is repaired beside a key that isn't found"


def test_duplicate_after_a_lost_answer_is_an_orphan(house: House) -> None:
    """Created twice under one mark: the older is the pod's, the younger is a finding."""
    pod = house.ready()
    original = house.cloud.thing("network/rdma")
    house.cloud.add(Kind.NETWORK, original.name, "team-a", original.mark)
    findings = check(house).findings
    assert [(f.category, f.kind) for f in findings] == [("orphan", "network")]
    assert original.id not in findings[0].subject
    assert pod.name == "train"


def test_missing_server_is_found_and_recreated_by_repair(house: House) -> None:
    """An operator's repair recreates servers, too, which the loop doesn't."""
    pod = house.ready()
    house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))
    assert "missing" in categories(check(house))
    report = check(house, repair=True)
    assert all(f.repaired for f in report.findings)
    assert house.store.pods.find(str(pod.id), None).state is PodState.READY


def test_removed_p_key_of_a_member_is_found_and_repaired(house: House) -> None:
    """Drift behind the subnet manager's back: OpenSM doesn't see it, the audit does, and the loop repairs it."""
    pod = house.ready()
    house.fabric.erase_key(a_member(house, pod.nodes), 0x8000 | pod.plan.segment)
    assert "different" in categories(check(house))
    report = check(house, repair=True)
    assert report.findings and all(f.repaired for f in report.findings)
    assert check(house).findings == ()


def test_pods_p_key_on_an_outsider_is_found(house: House) -> None:
    """A key of a live pod written to a port that is no member: another pod's members share it."""
    pod = house.ready()
    house.fabric.write_key(an_outsider(house), 0x8000 | pod.plan.segment)
    found = [f for f in check(house).findings if f.kind == "membership"]
    assert found and "not a member" in found[0].what
    report = check(house, repair=True)
    assert report.findings and all(f.repaired for f in report.findings)


def test_many_unowned_numbers_on_one_port_are_one_finding(house: House) -> None:
    """For example a port that was made a trunk of every VLAN."""
    segments = house.site.fabrics["ib0"].segments
    for number in range(segments.first, segments.first + 5):
        house.fabric.write_key(an_outsider(house), 0x8000 | number)
    house.fabric.write_key(an_outsider(house), 0x8000 | (segments.first + 7))
    found = [f for f in check(house).findings if f.kind == "membership"]
    text = (
        f"P_Keys {segments.first:#x} to {segments.first + 4:#x}, {segments.first + 7:#x}, within weft's range"
    )
    assert len(found) == 1 and text in found[0].what and found[0].category == "foreign"


def test_foreign_partition_is_reported_and_its_p_key_not_assigned(house: House) -> None:
    """A repair leaves the partition alone."""
    foreign = house.site.fabrics["ib0"].segments.first
    for manager in house.fabric.managers:
        manager.text = f"{manager.text}storage={foreign:#x} : {an_outsider(house):#018x}=full ;\n"
    house.fabric.wire.sweep()
    assert {f.category for f in check(house).findings} == {"foreign"}
    assert house.ready().plan.segment == foreign + 1
    report = check(house, repair=True)
    assert [f.repaired for f in report.findings if f.category == "foreign"] == [False] * len(report.findings)


def test_full_default_p_key_on_a_host_is_a_finding(house: House) -> None:
    """OpenSM that failed open puts 0xffff everywhere."""
    pod = house.ready()
    house.fabric.write_key(a_member(house, pod.nodes), 0xFFFF)
    report = check(house)
    assert any("failed open" in f.what for f in report.findings)


def test_fabric_without_a_master_is_unknown(house: House) -> None:
    """With every subnet manager down the audit says unknown, and the pod is DEGRADED with the reason."""
    pod = house.ready()
    for manager in house.fabric.managers:
        manager.stop()
    assert "unknown" in categories(check(house))
    house.store.wake(pod.id)
    house.worker.run_once()
    after = house.store.pods.find(str(pod.id), None)
    assert after.state is PodState.DEGRADED and "unknown" in after.reason
    for manager in house.fabric.managers:
        manager.start()
    house.run(pod, PodState.READY)


def test_pod_waits_while_the_manager_is_down_during_a_change(house: House) -> None:
    """The pod isn't READY while what is on the wire is unknown; it is once the manager is back."""
    house.fabric.plant(Fault.STOPPED)
    pod = house.order()
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is not PodState.READY
    for manager in house.fabric.managers:
        manager.start()
    house.run(pod, PodState.READY)


def test_release_without_a_fabric_manager_keeps_everything(house: House) -> None:
    """Nothing is given back while the fabric can't be read; the receipt waits for the proof."""
    pod = house.ready()
    for manager in house.fabric.managers:
        manager.stop()
    house.release(pod)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASING
    assert set(house.store.capacity().holds) == set(pod.nodes)
    for manager in house.fabric.managers:
        manager.start()
    house.run(pod, PodState.RELEASED)


def test_p_key_written_after_release_is_found(house: House) -> None:
    """A stale process writes a P_Key again long after the pod's release."""
    pod = house.ready()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    key = 0x8000 | pod.plan.segment
    assert not any(key in t.keys for t in house.fabric.tables().values())
    house.fabric.write_key(an_outsider(house), key)
    assert categories(check(house)) & {"foreign", "orphan"}


def test_shared_adapters_are_refused_in_the_fabrics_words(house: House) -> None:
    """An order for virtual functions says why this fabric can't provide them."""
    from weft.model.errors import RefusedError

    shared = ORDER.model_copy(update={"fabric": ORDER.fabric.model_copy(update={"hcas": "shared"})})
    with pytest.raises(RefusedError, match="shared adapters are not possible"):
        house.order(shared)


def three_pods(house: House) -> list[str]:
    """Ids of three READY pods of one project."""
    one = ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": 1})})
    return [str(house.ready(one.model_copy(update={"name": f"small-{n}"})).id) for n in range(3)]


def test_audit_reads_a_fabric_and_a_projects_networks_once_for_all_pods(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_pods(house)
    manager, readings = house.fabric.managers[0], list[None]()
    tables = manager.tables
    monkeypatch.setattr(manager, "tables", lambda query: (readings.append(None), tables(query))[-1])
    before = house.cloud.calls.copy()
    assert check(house).findings == ()
    asked = {call: house.cloud.calls[call] - before[call] for call in ("find server", "networks")}
    assert asked == {"find server": 3, "networks": 2}  # of networks, and of groups and ports on them
    assert len(readings) < 2 + 3  # one for marks, one for what is there, one or two for all pods


def test_network_that_cannot_be_read_is_a_finding_of_its_pod_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, second, _ = three_pods(house)
    mine = {r.outside_id for r in house.store.pods.resources(UUID(second)) if r.kind is Kind.NETWORK}
    asked = house.cloud.on_networks

    def on_networks(project_id: str, networks: Collection[str]) -> Sequence[Use]:
        if mine.intersection(networks):
            raise UnknownError("list ports on networks", "cloud main", "timeout")
        return asked(project_id, networks)

    monkeypatch.setattr(house.cloud, "on_networks", on_networks)
    found = check(house).findings
    assert [(f.category, f.kind, f.pod_id) for f in found] == [("unknown", "network", second)]


def test_key_that_came_back_before_rows_were_read_is_not_a_finding(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod is judged by a reading that began after its rows were read, not by what the audit read at its start."""
    pod = house.ready()
    port, key = a_member(house, pod.nodes), 0x8000 | (pod.plan.segment or 0)
    house.fabric.erase_key(port, key)
    read = PodRows.resources_of_each

    def late(rows: PodRows, owners: Iterable[UUID]) -> object:
        house.fabric.write_key(port, key)
        return read(rows, owners)

    monkeypatch.setattr(PodRows, "resources_of_each", late)
    assert check(house).findings == ()


def test_difference_of_an_old_reading_counts_once_a_new_one_shows_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many pods are verified by one reading: what the loop has repaired since then is no finding."""
    pod = house.ready()
    port, key = a_member(house, pod.nodes), 0x8000 | (pod.plan.segment or 0)
    house.fabric.erase_key(port, key)
    ages, seen = list[float](), auditcompare.verify

    def verify(*args: Any, **named: Any) -> Verdict:
        ages.append(args[4])
        if len(ages) == 4:  # the second look of the second audit
            house.fabric.write_key(port, key)
        return seen(*args, **named)

    monkeypatch.setattr(auditcompare, "verify", verify)
    monkeypatch.setattr(auditcompare, "READ_AGAIN", 0.0)
    assert categories(check(house)) == {"different"}
    assert check(house).findings == ()
    assert len(ages) == 4 and ages[1::2] == [0.0, 0.0]
