"""What a fabric of any type guarantees: InfiniBand with OpenSM and with UFM, and Ethernet, simulated and real."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.drivers.fabric_contract.rigs import FIRST, Ethernet, InfiniBand, SegmentRig, segment, text
from tests.drivers.opensm.rigs import FakeRig, scope, until
from tests.drivers.switches.rigs import KINDS
from tests.drivers.ufm.rigs import UfmRig
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabrictypes import Mode
from weft.model.problem import ProblemKind
from weft.model.resources import Kind, Observed, Resource, Status
from weft.model.specs import SegmentSpec

IMITATED = ("infiniband", "ethernet", "ethernet trunks", "ufm", "ufm without agents")
REAL = [
    pytest.param(kind, marks=pytest.mark.fabric)
    for kind in ("opensm", "ufm over opensm", *KINDS, "mixed trunks")
]


@pytest.fixture(params=[*IMITATED, *REAL])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> SegmentRig:
    if request.param.startswith("ethernet"):
        return Ethernet(Mode.TRUNK if request.param.endswith("trunks") else Mode.ACCESS)
    if request.param.split()[0] in KINDS:
        switches = request.getfixturevalue("switch_rigs")(request.param.split()[0])
        switches.mode = Mode.TRUNK if request.param.endswith("trunks") else Mode.ACCESS
        return switches
    if request.param == "ufm over opensm":
        return request.getfixturevalue("real_ufm")
    if request.param.startswith("ufm"):
        return UfmRig(tmp_path, agents=request.param == "ufm")
    return InfiniBand(FakeRig() if request.param == "infiniband" else request.getfixturevalue("real"))


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def seen(rig: SegmentRig, resource: Resource, pod: int = 1) -> Observed:
    return rig.driver.find(scope(pod), [resource], {})[resource.key]


def made(rig: SegmentRig, number: int, ports: list[str], pod: int = 1) -> Resource:
    wanted = segment(rig, number, ports)
    assert rig.driver.create(scope(pod), [wanted], {})[wanted.key].error is None
    until("it is settled", lambda: seen(rig, wanted, pod).status is Status.SETTLED)
    return wanted


def kinds(rig: SegmentRig, wanted: Resource) -> set[ProblemKind]:
    return {p.kind for p in rig.driver.check(spec(wanted), rig.driver.snapshot()).problems}


def test_segment_that_was_never_created_is_absent_and_clean(rig: SegmentRig) -> None:
    """With a reason for the absence, and nothing marked."""
    wanted = segment(rig, FIRST, rig.ports()[:2])
    found = seen(rig, wanted)
    assert found.status is Status.ABSENT and found.reason
    assert rig.driver.marked("lab", []) == []
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert {i.result for i in clean.items} == {"clean"} and not clean.stale


def test_segment_has_exactly_its_members(rig: SegmentRig) -> None:
    """Its id is the number as people write it, and the snapshot has only the members."""
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:3])
    found = seen(rig, wanted)
    assert (found.id, found.differences) == (text(rig, FIRST), ())
    snapshot = rig.driver.snapshot()
    assert snapshot.ports_in[FIRST] == frozenset(ports[:3]) and FIRST in snapshot.segments
    assert {snapshot.ports[p].node for p in ports[:3]} == {n.name for n in rig.site.nodes[:3]}
    assert rig.driver.check(spec(wanted), snapshot).problems == ()
    assert FIRST in rig.driver.usage().numbers and FIRST in rig.driver.configured().numbers


def test_update_replaces_and_removes_members(rig: SegmentRig) -> None:
    """Also all of them, if the new set is empty."""
    ports = rig.ports()
    made(rig, FIRST, ports[:2])
    for members in (ports[1:3], []):
        changed = segment(rig, FIRST, members)
        assert seen(rig, changed).differences
        rig.driver.update(scope(), [changed], {})
        until("it is settled", lambda: seen(rig, changed).status is Status.SETTLED)  # noqa: B023
        assert rig.driver.snapshot().ports_in.get(FIRST, frozenset()) == frozenset(members)


def test_create_and_delete_are_idempotent(rig: SegmentRig) -> None:
    wanted = made(rig, FIRST, rig.ports()[:2])
    made(rig, FIRST, rig.ports()[:2])
    [thing] = rig.driver.marked("lab", [])
    assert (thing.kind, thing.id, thing.owner) == (Kind.SEGMENT, text(rig, FIRST), scope().owner)
    assert thing.facts["number"] == FIRST and rig.driver.marked("elsewhere", []) == []
    for _ in range(2):
        assert rig.driver.delete(scope(), [wanted], {})[wanted.key].error is None
    until("it is gone", lambda: seen(rig, wanted).status is Status.ABSENT)
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert {i.result for i in clean.items} == {"clean"}


def test_foreign_port_is_a_problem_and_not_clean(rig: SegmentRig) -> None:
    """A port of another node in the pod's segment; the receipt reports it after the release."""
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:2])
    rig.add(ports[5], FIRST)
    assert ProblemKind.SEGMENT_LEFT in kinds(rig, wanted)
    assert seen(rig, wanted).differences
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    [item] = [i for i in clean.items if "elsewhere" in i.plane]
    assert item.result == "not clean" and item.whole and item.nodes == (rig.site.nodes[5].name,)


def test_missing_member_is_a_problem(rig: SegmentRig) -> None:
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:2])
    rig.remove(ports[1], FIRST)
    assert ProblemKind.NOT_MEMBER in kinds(rig, wanted)
    assert seen(rig, wanted).status is Status.PENDING


def test_member_of_a_second_segment_is_a_problem(rig: SegmentRig) -> None:
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:2])
    rig.add(ports[1], FIRST + 1)
    assert kinds(rig, wanted) & {ProblemKind.OTHER_SEGMENTS, ProblemKind.NOT_MEMBER}


def test_port_left_behind_is_never_clean(rig: SegmentRig) -> None:
    """The segment was removed everywhere, and is again on one former member's port."""
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:2])
    rig.driver.delete(scope(), [wanted], {})
    until("it is gone", lambda: seen(rig, wanted).status is Status.ABSENT)
    rig.add(ports[0], FIRST)
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    dirty = [i for i in clean.items if i.result == "not clean"]
    items = [i for i in dirty if not (rig.by_manager and i.plane in ("partition", "switch"))]
    assert {i.nodes for i in items} == {(rig.site.nodes[0].name,)} and not any(i.whole for i in items)
    assert seen(rig, wanted).there
    [stray] = rig.driver.marked("lab", [])
    assert stray.owner is None and stray.facts["number"] == FIRST
    assert rig.driver.remove_marked([stray])[stray.id].error is None
    until("it is gone", lambda: seen(rig, wanted).status is Status.ABSENT)


def test_unreadable_port_is_unknown(rig: SegmentRig) -> None:
    """Neither as wanted nor gone: first a member's port, then every port."""
    ports = rig.ports()
    wanted = made(rig, FIRST, ports[:2])
    rig.blind(ports[0])
    problems = rig.driver.check(spec(wanted), rig.driver.snapshot()).problems
    assert problems and any(p.unknown for p in problems)
    clean = rig.driver.clean(spec(wanted), rig.driver.snapshot())
    assert any(i.result == "unknown" and rig.site.nodes[0].name in i.nodes for i in clean.items)
    assert seen(rig, wanted).status is Status.PENDING


def test_taken_numbers_are_refused(rig: SegmentRig) -> None:
    """Another pod's, or outside weft's range; nothing is changed."""
    ports = rig.ports()
    mine = made(rig, FIRST, ports[:2])
    for number, why in ((FIRST, "taken"), (0x300, "range")):
        outcome = rig.driver.create(scope(2), [segment(rig, number, ports[2:4])], {})["partition"]
        assert isinstance(outcome.error, PermanentError) and why in str(outcome.error)
    assert seen(rig, mine).status is Status.SETTLED


def test_another_pods_segment_is_not_deleted(rig: SegmentRig) -> None:
    made(rig, FIRST, rig.ports()[:2])
    [old] = rig.driver.marked("lab", [])
    rig.driver.delete(scope(), [segment(rig, FIRST, [])], {})
    mine = made(rig, FIRST, rig.ports()[:2], pod=2)
    assert rig.driver.remove_marked([old])[old.id].error is not None
    rig.driver.delete(scope(), [segment(rig, FIRST, rig.ports()[:2])], {})
    assert seen(rig, mine, 2).status is Status.SETTLED


def test_no_reading_is_older_than_the_last_change(rig: SegmentRig) -> None:
    """A reading from before a change of this process isn't used after it, however old a reading may be."""
    wanted = segment(rig, FIRST, rig.ports()[:2])
    before = rig.driver.snapshot()
    assert rig.driver.snapshot(max_age=60.0) is before
    assert rig.driver.snapshot() is not before
    rig.driver.create(scope(), [wanted], {})
    made_at = rig.driver.snapshot(max_age=60.0)
    assert made_at.began > before.began and FIRST in made_at.segments
    rig.driver.delete(scope(), [wanted], {})
    assert FIRST not in rig.driver.snapshot(max_age=60.0).segments


@pytest.mark.parametrize("rig", ["ethernet trunks", REAL[-1]], indirect=True)
def test_port_can_be_a_trunk_of_two_segments(rig: SegmentRig) -> None:
    """Virtual functions of two pods on one host; what one pod releases the other keeps."""
    ports = rig.ports()
    mine, other = made(rig, FIRST, ports[:2]), made(rig, FIRST + 1, ports[1:3], pod=2)
    for wanted, pod in ((mine, 1), (other, 2)):
        assert seen(rig, wanted, pod).status is Status.SETTLED and not kinds(rig, wanted)
    assert rig.driver.delete(scope(), [mine], {})[mine.key].error is None
    until("it is gone", lambda: seen(rig, mine).status is Status.ABSENT)
    clean = rig.driver.clean(spec(mine), rig.driver.snapshot())
    assert {i.result for i in clean.items} == {"clean"}
    assert seen(rig, other, 2).status is Status.SETTLED and not kinds(rig, other)
    assert rig.driver.snapshot().ports_in[FIRST + 1] == frozenset(ports[1:3])


def test_reading_does_not_wait_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while a change waits for a slow switch."""
    monkeypatch.setattr("weft.drivers.switches.sessions.AT_ONCE", 1)
    rig = Ethernet()
    wanted = segment(rig, FIRST, rig.ports()[:1])
    slow = rig.fake.switches[rig.ports()[0].partition("/")[0]]
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        begun.set()
        assert go_on.wait(20)

    slow.meanwhile = slowly
    with ThreadPoolExecutor(2) as pool:
        change = pool.submit(rig.driver.create, scope(), [wanted], {})
        assert begun.wait(20)
        reading = pool.submit(rig.driver.snapshot)
        try:
            assert FIRST not in reading.result(10).segments
        finally:
            go_on.set()
        assert change.result(20)["partition"].error is None


def test_lost_and_outdated_answers_are_unknown() -> None:
    """The change takes effect without an answer, and a switch that answers with its former state isn't believed."""
    rig = Ethernet()
    wanted = segment(rig, FIRST, rig.ports())
    for switch in rig.fake.switches.values():
        switch.freeze()
    rig.fake.lose_answer = True
    with pytest.raises(UnknownError):
        rig.driver.create(scope(), [wanted], {})
    found = seen(rig, wanted)
    assert found.status is Status.PENDING and "can't be read" in found.reason
    for switch in rig.fake.switches.values():
        switch.thaw()
    assert "not saved" in seen(rig, wanted).reason  # a restart would lose it
    rig.driver.create(scope(), [wanted], {})
    assert seen(rig, wanted).status is Status.SETTLED
