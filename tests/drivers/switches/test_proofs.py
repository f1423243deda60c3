"""A change may take long, so its fence is checked again before each of its requests."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.drivers.switches.onefront import CONFIRM, MAKES, OTHER, VLAN, One, ordered, session_of
from tests.drivers.switches.rigs import Records, scope
from weft.drivers.switches import open_fabric, parts
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.sessions import SwitchSessions
from weft.drivers.switches.vlans import Batch, PortEdit, SwitchState
from weft.model.errors import OutsideError, UnknownError
from weft.model.ranges import Range
from weft.testing.ethernet import PARKING, FakeSwitch
from weftlab.site import FABRIC
from weftlab.switches.front import Answer, Request


class LostError(Exception):
    """Another worker has the pod now."""


class Slow:
    """Each request but GET takes longer than a checked fence counts; with the first one the pod is lost."""

    def __init__(self, one: One, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed, self.lost = 0.0, False

        def slowly(request: Request, answer: Answer) -> Answer:
            if request.method != "GET" and "show version" not in request.raw:
                self.passed += 2 * parts.YOUNG_SECONDS
                self.lost = True
            return answer

        one.front.faults.instead = slowly
        monkeypatch.setattr(one.session, "_monotonic", lambda: time.monotonic() + self.passed)

    def fence(self) -> None:
        if self.lost:
            raise LostError


def into(one: One, port: int, number: int, fence: Callable[[], None] | None = None) -> Asked:
    """Put the port in a VLAN."""
    batch = Batch({number: "weft-name"}, frozenset(), {one.ports[port]: PortEdit(number)})
    asked = Asked(lambda _: batch)
    return asked if fence is None else replace(asked, fence=fence)


def changes(one: One) -> list[str]:
    """Requests that change what is forwarded."""
    pattern = re.compile(f"{MAKES[one.front.plan.speaks]}|^DELETE")
    return [r.line for r in one.front.requests if pattern.search(r.line)]


def test_lost_owner_adds_no_members_after_removals(sonic: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """SONiC needs a request for each member that leaves, so minutes may pass before members are added. The outcome
    of what was sent is unknown.
    """
    sonic.put(0, OTHER)
    slow = Slow(sonic, monkeypatch)
    sonic.front.requests.clear()
    errors = sonic.session.change_all([into(sonic, 0, VLAN, slow.fence), into(sonic, 1, VLAN)])
    assert [line.split()[0] for line in changes(sonic)] == ["DELETE"]
    assert all(isinstance(e, UnknownError) and e.lands == sonic.session.lands_seconds for e in errors)
    assert "LostError" in str(errors[0])


def test_revision_of_a_lost_owner_is_not_applied(nvue: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was made until then; another owner's change is made alone, at once."""
    slow = Slow(nvue, monkeypatch)
    mine, other = nvue.session.change_all([into(nvue, 0, VLAN, slow.fence), into(nvue, 1, VLAN)])
    assert isinstance(mine, LostError) and other is None
    assert len(changes(nvue)) == 1
    assert [nvue.untagged(n) for n in (0, 1)] == [None, VLAN]


def test_lost_owner_does_not_undo_an_unconfirmed_change(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another worker may have given the port to another pod by then."""
    slow = Slow(one, monkeypatch)
    one.front.faults.lose_commit = True
    slow_fence_from_second = iter([lambda: None])

    def fence() -> None:
        next(slow_fence_from_second, slow.fence)()

    if one.front.plan.speaks == "nvue":  # the fence is checked once more before a revision is applied
        slow_fence_from_second = iter([lambda: None, lambda: None])
    [error] = one.session.change_all([into(one, 0, VLAN, fence)])
    assert isinstance(error, OutsideError) and error.lands == one.session.lands_seconds
    assert "can't be taken back" in str(error) and len(changes(one)) == 1


def test_slow_decision_rechecks_the_fence(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    passed, proofs = [0.0], list[float]()
    monkeypatch.setattr(one.session, "_monotonic", lambda: time.monotonic() + passed[0])

    def edit(state: SwitchState) -> Batch:
        passed[0] += 2 * parts.YOUNG_SECONDS
        return into(one, 0, VLAN).edit(state)

    def fence() -> None:
        proofs.append(passed[0])
        if len(proofs) > 1:
            raise LostError

    [error] = one.session.change_all([Asked(edit, fence=fence)])
    assert isinstance(error, LostError) and not changes(one)


def test_lost_owner_reports_what_may_still_take_effect() -> None:
    """One switch didn't answer; for another one the pod already belonged to another worker or generation."""
    limits = SwitchLimits(Range(first=VLAN, last=OTHER), frozenset({"p1"}), PARKING)
    switches = [
        FakeSwitch(name, ["p1"], limits, lost=lambda: False, late=lambda: True)
        for name in ("leaf01", "leaf02")
    ]
    sessions = SwitchSessions("eth0", switches)

    def edits(switch: str, state: SwitchState) -> Batch:
        if switch == "leaf01":
            raise LostError
        return Batch({VLAN: "name"}, frozenset(), {"p1": PortEdit(VLAN)})

    with pytest.raises(UnknownError) as caught:
        sessions.change(edits, ["leaf01", "leaf02"])
    assert caught.value.lands > 0
    with pytest.raises(LostError):
        sessions.change(edits, ["leaf01"])
    sessions.close()


def test_remains_taken_over_by_another_pod_are_not_removed(sonic: One) -> None:
    """The audit's removal waits for a change of the switch, and meanwhile the number is assigned. Only weft's
    records say whose a VLAN is.
    """
    records, holds, began = Records(), threading.Event(), threading.Event()
    fabric = open_fabric(sonic.site, FABRIC, records, CONFIRM)
    (spec, _), (_, other) = ordered(sonic, 0), ordered(sonic, 1, number=OTHER)
    sonic.put(0, VLAN)
    [left] = [t for t in fabric.marked("lab", ()) if t.facts["number"] == VLAN]

    def fence() -> None:
        began.set()
        assert holds.wait(30.0)

    first = replace(scope(1), fence=fence)
    making = threading.Thread(target=fabric.create, args=(first, [other], {}))
    making.start()
    assert began.wait(30.0)
    taking = threading.Thread(target=fabric.remove_marked, args=([left],))
    taking.start()
    end = time.monotonic() + 30.0
    while not fabric._sessions.lines["leaf1"].waiting:  # pyright: ignore[reportPrivateUsage]
        assert time.monotonic() < end
        time.sleep(0.01)
    records.write(scope(2).mark("partition"), spec)
    holds.set()
    making.join()
    taking.join()
    session = session_of(fabric)
    assert [session.read().ports[sonic.ports[n]].untagged for n in (0, 1)] == [VLAN, OTHER]
    fabric.close()
