"""A switch's answer is believed if it can be parsed and is recent."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

import pytest

from tests.drivers.switches.onefront import OTHER, VLAN, One, dying, session_of
from weft.drivers.switches import access, switch
from weft.drivers.switches.vlans import PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.drivers.switches.wanted import removal_for
from weft.model.errors import OutsideError, UnknownError
from weftlab.switches.front import Answer

ELSEWHERE = [
    ["a list"],
    {"result": [3, 3, 3]},
    {"interface": 3},
    {"interface": {}},
    {"system": {}},
    "text",
    7,
    {},
    [],
]


def test_oversized_answer_is_unknown(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_ANSWER", 10)
    with pytest.raises(UnknownError, match="larger than 10 bytes"):
        one.session.read()


def test_outdated_answer_is_not_believed(one: One) -> None:
    """A cache answers with the state before weft's change, which shows neither made nor not made."""
    one.session.read()
    one.front.freeze()
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    with pytest.raises(UnknownError):
        one.session.read()
    one.front.thaw()


@pytest.mark.parametrize("wrong", ELSEWHERE)
def test_malformed_answer_is_unknown(one: One, wrong: object) -> None:
    one.front.faults.instead = lambda *_: Answer(200, wrong)
    with pytest.raises(UnknownError):
        one.session.read()


def test_unsupported_request_is_unknown(one: One) -> None:
    """404 to everything: another server has the address, or the switch isn't set up. It isn't a switch without
    VLANs.
    """
    one.front.faults.instead = lambda *_: Answer(404, {"error": "not found"})
    with pytest.raises(OutsideError):
        one.session.read()


def test_change_starts_from_a_recent_reading(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fabric's driver reads every switch before it changes any. A reading that this process's own change made
    outdated is never used, whether the change ended before, during or after it.
    """
    read: list[str] = []
    real = one.session._read  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(one.session, "_read", lambda: (read.append("once"), real())[1])

    def untagged(state: SwitchState) -> Batch:
        seen.append(state.ports[one.ports[0]].untagged)
        return Batch()

    seen: list[int | None] = []
    one.session.read()
    one.session.change(untagged, recent=True)
    assert (seen, len(read)) == ([None], 1), "the recent reading was used"
    one.session.change(untagged)
    assert len(read) == 2, "other callers get a new reading"
    one.put(0, VLAN)
    one.session.change(untagged, recent=True)
    assert seen[-1] == VLAN

    def slowly() -> SwitchState:
        old = real()
        monkeypatch.setattr(one.session, "_read", real)
        one.put(0, OTHER)
        return old

    monkeypatch.setattr(one.session, "_read", slowly)
    with contextlib.suppress(UnknownError):  # switches with a clock show that it is outdated
        one.session.read()
    one.session.change(untagged, recent=True)
    assert seen[-1] == OTHER, "a reading that began before the change isn't recent"
    one.session.read()
    clock = one.session._monotonic  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(one.session, "_monotonic", lambda: clock() + switch.RECENT_SECONDS)
    monkeypatch.setattr(one.session, "_read", lambda: (read.append("again"), real())[1])
    one.session.change(untagged, recent=True)
    assert read[-1] == "again"


def test_port_is_read_right_before_it_becomes_a_trunk(one: One) -> None:
    """Its VLANs are set as a whole, so those that another process set meanwhile must be in it."""
    session = session_of(one.another())

    def tagged(number: int) -> Batch:
        edit = PortEdit(PARK, frozenset({number}), trunk=True)
        return Batch({number: "weft-name"}, frozenset(), {one.ports[0]: edit})

    one.session.read()
    session.change(lambda state: tagged(OTHER))
    one.session.change(lambda state: tagged(VLAN), recent=True)
    assert one.session.read().ports[one.ports[0]].tagged == {VLAN, OTHER}


def test_another_processs_change_makes_a_reading_outdated(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last VLAN leaves a shared host's port, by a reading from before another worker added its own: the port
    isn't parked.
    """
    monkeypatch.setattr(switch, "RECENT_SECONDS", 60.0)
    port, worker, cabling = one.ports[0], session_of(one.another()), one.fabric.cabling

    def come(number: int) -> Batch:
        return Batch({number: "weft-name"}, frozenset(), {port: PortEdit(add=frozenset({number}))})

    one.session.change(lambda _: come(VLAN))
    one.session.read()
    worker.change(lambda _: come(OTHER))
    one.session.change(lambda state: removal_for("leaf1", state, VLAN, {"weft-name"}, cabling), recent=True)
    assert one.session.read().ports[port] == PortVlans(None, frozenset({OTHER}), True)


def test_killed_processs_requests_make_readings_outdated(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """It left no record of when its change ended."""
    monkeypatch.setattr(switch, "RECENT_SECONDS", 60.0)
    port, session = one.ports[0], dying(one, monkeypatch)
    seen: list[frozenset[int]] = []

    def look(state: SwitchState) -> Batch:
        seen.append(state.ports[port].numbers)
        return Batch()

    one.session.read()
    with pytest.raises(KeyboardInterrupt):
        session.change(lambda _: Batch({VLAN: "weft-name"}, frozenset(), {port: PortEdit(VLAN)}))
    one.session.change(look, recent=True)
    assert seen == [frozenset({VLAN})]


class Given:
    """What the switch's answers are after `passed` seconds: an earlier state given again, or its own with a clock
    set back.

    Attributes:
        kept: the earlier state, which is answered again; None: the switch's own.
        back: seconds by which its clock was set back.
    """

    def __init__(self, one: One, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: SwitchState | None = None
        self.passed = self.back = 0.0
        real = one.session._read  # pyright: ignore[reportPrivateUsage]

        def read() -> SwitchState:
            if self.kept is not None:
                return self.kept
            state = real()
            return replace(state, serial=state.serial + self.passed - self.back)

        monkeypatch.setattr(one.session, "_read", read)
        monkeypatch.setattr(one.session, "_monotonic", lambda: time.monotonic() + self.passed)


def test_repeated_old_answer_stays_outdated(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache keeps the state from before the pod; else a release would be clean after ten minutes."""
    given = Given(one, monkeypatch)
    before = one.session.read()
    given.passed = 5.0
    one.put(0, VLAN)
    given.kept = before
    for _ in range(30):
        given.passed += 60.0
        with pytest.raises(UnknownError, match="older than one before it"):
            one.session.read()
    given.kept = None
    assert one.untagged(0) == VLAN


def test_clock_set_back_is_believed_once_it_advances(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(one, monkeypatch)
    one.put(0, VLAN)
    one.session.read()
    given.back, refused = 7200.0, 0
    for _ in range(30):
        given.passed += 60.0
        with contextlib.suppress(UnknownError):
            assert one.session.read().ports[one.ports[0]] == PortVlans(VLAN)
            break
        refused += 1
    assert 9 <= refused <= 12
    one.session.read()
