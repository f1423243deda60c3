"""Each vendor's interface when it fails, and as others' clients see it. No Open vSwitch: nothing forwards here."""

from __future__ import annotations

import base64
import contextlib
import logging
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pyeapi
import pytest
from nvueschema.models import v5_9

from tests.drivers.switches.rigs import scope
from weft.drivers.switches import EthernetFabric, access, open_fabric, switch, turn
from weft.drivers.switches import eos as driver
from weft.drivers.switches.access import credentials_for
from weft.drivers.switches.nvue import Nvue as NvueSession
from weft.drivers.switches.switch import Session
from weft.drivers.switches.vlans import EVERY, KEEP, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.drivers.switches.wanted import removal_for
from weft.fabricagent.tls import make_certificates
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.problem import ProblemKind
from weft.model.resources import Resource, SegmentSpec, Status
from weft.ports.ledger import NoLedger
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.eapi import Eapi, Port
from weftlab.switches.front import PARKING, PASSWORD, USER, Faults, Front
from weftlab.switches.fronts import Fronts
from weftlab.switches.nvue import Nvue, schema_check
from weftlab.switches.plan import NAMES, Speaks
from weftlab.switches.site import ethernet_site

VLAN, OTHER = 0x101, 0x102


class One:
    """One leaf of a kind, with weft's session of it."""

    def __init__(self, folder: Path, speaks: Speaks) -> None:
        plan = leaf_spine(speaks, leaves=1, spines=1, hosts_each=3)
        self.fronts = Fronts(folder, plan, None)
        self.site = ethernet_site(plan, self.fronts.urls, self.fronts.ca, self.fronts.credentials)
        self.fabric: EthernetFabric = open_fabric(self.site, FABRIC, NoLedger(), confirm=0.6)
        self.front: Front = self.fronts.by_name["leaf1"]
        session = self.fabric.session("leaf1")
        assert isinstance(session, Session)
        self.session = session
        self.ports = [plan.by_name["leaf1"].port(n) for n in (1, 2, 3)]

    def put(self, port: int, number: int) -> None:
        batch = Batch({number: "weft-name"}, frozenset(), {self.ports[port]: PortEdit(number)})
        self.session.change(lambda state: batch)

    def untagged(self, port: int) -> int | None:
        return self.session.read().ports[self.ports[port]].untagged

    def close(self) -> None:
        self.fabric.close()
        self.fronts.close()


@pytest.fixture(params=["eos", "nvue", "sonic"])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[One]:
    made = One(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[One]:
    made = One(tmp_path, "eos")
    yield made
    made.close()


def test_two_workers_change_the_port_of_a_shared_host(one: One) -> None:
    """The last pod leaves as another comes: a port that is no trunk any more would keep the new VLAN out."""
    other = open_fabric(one.site, FABRIC, NoLedger(), confirm=0.6)  # another worker's of this host
    port, worker = one.ports[0], other.session("leaf1")
    add = Batch({VLAN: "first", OTHER: "second"}, frozenset(), {port: PortEdit(add=frozenset({VLAN}))})
    one.session.change(lambda state: add)
    come = Batch({}, frozenset(), {port: PortEdit(add=frozenset({OTHER}))})
    coming = threading.Thread(target=lambda: worker.change(lambda state: come))

    def leave(state: SwitchState) -> Batch:
        coming.start()
        coming.join(0.5)
        return Batch({}, frozenset(), {port: PortEdit(PARK, remove=frozenset({VLAN}))})

    try:
        one.session.change(leave)
        coming.join()
        assert worker.read().ports[port].tagged == {OTHER}
    finally:
        other.close()


def test_what_was_changed_outlives_a_restart(one: One) -> None:
    one.put(0, VLAN)
    one.front.restart()
    assert one.untagged(0) == VLAN


@pytest.mark.parametrize(("speaks", "names"), [("eos", "Ethernet{n}/1"), ("nvue", "swp{n}s0")])
def test_ports_of_breakout_cables_have_their_vendors_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speaks: Speaks, names: str
) -> None:
    """Lanes in the name, a slash among them: in the site, on the wire, and in what is read back."""
    monkeypatch.setitem(NAMES, speaks, names)  # type: ignore[arg-type]
    one = One(tmp_path, speaks)
    try:
        ports = [names.format(n=n) for n in (1, 2)]
        members = tuple(Membership(port=f"leaf1/{p}", mode=Mode.ACCESS) for p in ports)
        spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
        wanted = Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)
        assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
        assert [one.untagged(0), one.untagged(1), one.untagged(2)] == [VLAN, VLAN, None]
        assert one.fabric.check(spec, one.fabric.snapshot()).problems == ()
        assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
        assert {i.result for i in one.fabric.clean(spec, one.fabric.snapshot()).items} == {"clean"}
    finally:
        one.close()


def test_an_answer_that_is_too_large_is_unknown(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_ANSWER", 10)
    with pytest.raises(UnknownError, match="larger than 10 bytes"):
        one.session.read()


def test_what_was_not_saved_is_said_and_saved_with_the_next_call(one: One) -> None:
    """The change is made, saving fails: unknown, told by each reading, and put right without another change."""
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    assert one.session.read().unsaved
    one.front.faults.refuse_save = False
    one.session.change(lambda state: Batch())
    assert not one.session.read().unsaved
    one.front.restart()
    assert one.untagged(0) == VLAN


def test_what_another_process_has_not_saved_is_saved_before_it_is_gone(one: One) -> None:
    """Killed between the change and its save, or the switch's memory was full: the switch shows nothing of it."""
    members = (Membership(port=f"leaf1/{one.ports[0]}", mode=Mode.ACCESS),)
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    wanted = Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)
    assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.fabric.delete(scope(), [wanted], {})
    other = open_fabric(one.fabric._site, FABRIC, NoLedger())  # pyright: ignore[reportPrivateUsage]
    try:
        with pytest.raises(UnknownError):
            other.delete(scope(), [wanted], {})
        assert "not saved" in other.find(scope(), [wanted], {})["partition"].reason
        assert "not clean" in {i.result for i in other.clean(spec, other.snapshot()).items}
        one.front.faults.refuse_save = False
        assert other.delete(scope(), [wanted], {})["partition"].error is None
        assert {i.result for i in other.clean(spec, other.snapshot()).items} == {"clean"}
        one.front.restart()
        assert one.untagged(0) is None
    finally:
        other.close()


def test_a_process_saves_with_its_first_change_whatever_it_changes(one: One) -> None:
    """Only whoever depends on it hears that it fails."""
    one.front.faults.refuse_save = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    other = open_fabric(one.fabric._site, FABRIC, NoLedger())  # pyright: ignore[reportPrivateUsage]
    try:
        session = other.session("leaf1")
        session.change(lambda state: Batch())
        assert session.read().unsaved
        one.front.faults.refuse_save = False
        session.change(lambda state: Batch())
        assert not session.read().unsaved
        one.front.restart()
        assert one.untagged(0) == VLAN
    finally:
        other.close()


def test_a_change_under_way_keeps_nobody_from_reading(one: One) -> None:
    """Other pods' verifications and receipts read the switch meanwhile; neither is it unread, nor unsaved."""
    one.session.read()
    one.front.faults.slow_commit = 0.4
    worker = threading.Thread(target=one.put, args=(0, VLAN))
    worker.start()
    seen = [one.session.read()]
    while worker.is_alive():
        seen.append(one.session.read())
    worker.join()
    assert len(seen) > 2 and not any(state.unsaved for state in seen)
    assert one.untagged(0) == VLAN


MAKES = {"eos": "commit", "nvue": '"apply"', "sonic": "^PATCH"}
"""The request with which a change is made."""
TAKES = {
    "eos": ("switchport access vlan 4000", "no vlan 257"),
    "nvue": ('"257": null', '"br_default": null'),
    "sonic": ("VLAN_MEMBER_LIST=Vlan257,Ethernet0", "VLAN_LIST=Vlan257"),
}
"""With what a VLAN is taken off a port, and off the switch."""


def test_what_may_land_yet_is_taken_away_though_it_does_not_show(one: One) -> None:
    """Nobody knows what became of a change: whoever takes it away says so to the switch."""
    spec, wanted = ordered(one, 0)
    speaks = one.front.plan.speaks
    one.front.faults.late = MAKES[speaks]
    with pytest.raises(UnknownError) as told:
        one.fabric.create(scope(), [wanted], {})
    assert told.value.lands == one.session.lands_seconds >= switch.DOUBT_SECONDS
    with pytest.raises(UnknownError, match="may not show"):
        one.session.read()
    one.front.requests.clear()
    assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
    sent = "\n".join(r.line for r in one.front.requests if r.method != "GET")
    assert all(text in sent for text in TAKES[speaks]), sent
    assert {i.result for i in one.fabric.clean(spec, one.fabric.snapshot()).items} == {"clean"}


def test_a_tag_that_may_land_yet_is_taken_away_though_it_does_not_show(one: One) -> None:
    """The port stays what it is, for other pods."""
    port, speaks = one.ports[0], one.front.plan.speaks

    def tag(number: int) -> Batch:
        return Batch({number: "weft-name"}, frozenset(), {port: PortEdit(add=frozenset({number}))})

    one.session.change(lambda _: tag(OTHER))
    one.front.faults.late = MAKES[speaks]
    with pytest.raises(UnknownError):
        one.session.change(lambda _: tag(VLAN))
    one.front.requests.clear()
    one.session.change(lambda state: removal_for("leaf1", state, VLAN, {"weft-name"}, one.fabric.cabling))
    sent = "\n".join(r.line for r in one.front.requests if r.method != "GET")
    said = {"eos": "allowed vlan remove 257", "nvue": '"vlan": {"4000": {}, "257": null', "sonic": "Vlan257,"}
    assert said[speaks] in sent, sent
    assert one.session.read().ports[port] == PortVlans(None, frozenset({OTHER}), True)


def test_another_change_takes_no_doubt_away(one: One) -> None:
    """It says nothing of the port that an earlier one may change yet."""
    one.front.faults.late = MAKES[one.front.plan.speaks]
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(1, OTHER)
    with pytest.raises(UnknownError, match="may not show"):
        one.session.read()


def test_a_change_that_cannot_have_been_made_leaves_no_doubt(one: One) -> None:
    """Refused at the door: the switch is read as it is."""
    right, before = one.fronts.credentials.read_text(), one.session.read()

    def edit(state: SwitchState) -> Batch:
        one.fronts.credentials.write_text(right.replace(PASSWORD, "another"))
        return Batch({VLAN: "weft-name"}, frozenset(), {one.ports[0]: PortEdit(VLAN)})

    with pytest.raises(switch.UndoneError, match="access denied") as told:
        one.session.change(edit)
    assert told.value.lands == 0.0
    one.fronts.credentials.write_text(right)
    assert one.session.read().ports == before.ports


def test_a_new_password_and_a_new_authority_count_at_once(one: One, tmp_path: Path) -> None:
    """They are changed while weft runs."""
    one.session.read()
    right, ca = one.fronts.credentials.read_text(), one.fronts.ca.read_text()
    one.fronts.credentials.write_text(right.replace(PASSWORD, "another"))
    with pytest.raises(UnknownError, match="access denied"):
        one.session.read()
    one.fronts.credentials.write_text(right)
    one.session.read()
    make_certificates(tmp_path / "other", {"switches": ["127.0.0.1"]})
    one.fronts.ca.write_text((tmp_path / "other" / "ca.pem").read_text())
    with pytest.raises(UnknownError, match="certificate"):
        one.session.read()
    one.fronts.ca.write_text(ca)
    assert one.untagged(0) is None


def test_an_nvue_revision_without_an_answer_before_it_is_applied_leaves_no_doubt(nvue: One) -> None:
    for request in ("POST /nvue_v1/revision", r"PATCH /nvue_v1/\?rev="):
        nvue.front.faults.mute = request
        with pytest.raises(switch.UndoneError):
            nvue.put(0, VLAN)
        assert nvue.untagged(0) is None


def test_an_nvue_revision_whose_application_had_no_answer_is_followed(
    nvue: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may take longer than the change is doubted."""
    monkeypatch.setattr(switch, "DOUBT_SECONDS", 0.0)
    nvue.front.faults.slow_commit = 3600.0
    nvue.front.faults.mute = r"PATCH /nvue_v1/revision/\d+ "
    with pytest.raises(UnknownError):
        nvue.put(0, VLAN)
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.read()
    applied(nvue)
    assert nvue.untagged(0) == VLAN


def test_an_nvue_revision_that_is_to_be_applied_late_is_followed(nvue: One) -> None:
    """It was seen pending, and the request came after that."""
    nvue.front.faults.slow_commit = 3600.0
    nvue.front.faults.late = r"PATCH /nvue_v1/revision/\d+ "
    with pytest.raises(UnknownError):
        nvue.put(0, VLAN)
    with pytest.raises(UnknownError, match="may not show"):
        nvue.session.read()
    nvue.front.arrive()
    with pytest.raises(UnknownError, match="still being applied"):
        nvue.session.read()
    applied(nvue)
    assert nvue.untagged(0) == VLAN


def test_a_revision_of_another_process_that_is_being_applied_is_not_clean(nvue: One) -> None:
    """Its worker has ended since, and another one releases the pod."""
    spec, wanted = ordered(nvue, 0)
    nvue.front.faults.slow_commit = 3600.0
    nvue.front.faults.mute = r"PATCH /nvue_v1/revision/\d+ "
    with pytest.raises(UnknownError):
        nvue.fabric.create(scope(), [wanted], {})
    other = open_fabric(nvue.site, FABRIC, NoLedger(), confirm=0.6)
    try:
        assert other.delete(scope(), [wanted], {})["partition"].error is None
        [item] = [i for i in other.clean(spec, other.snapshot()).items if i.result != "clean"]
        assert "a change that is under way on leaf1 has it" in item.seen
        applied(nvue)
        nvue.front.faults.slow_commit = 0.0
        assert "not clean" in {i.result for i in other.clean(spec, other.snapshot()).items}
        assert other.delete(scope(), [wanted], {})["partition"].error is None
        assert {i.result for i in other.clean(spec, other.snapshot()).items} == {"clean"}
    finally:
        other.close()


def applied(nvue: One) -> None:
    """What is being applied has taken as long as it does."""
    assert isinstance(nvue.front, Nvue)
    nvue.front.finish()


def test_a_revision_that_takes_longer_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVUE goes on applying it: until it has ended nobody knows what the switch has, whoever asks."""
    monkeypatch.setattr(switch, "DOUBT_SECONDS", 0.0)
    one = One(tmp_path, "nvue")
    try:
        assert isinstance(one.session, NvueSession)
        one.session._apply_seconds = 0.2  # pyright: ignore[reportPrivateUsage]
        one.front.faults.slow_commit = 1.0
        with pytest.raises(UnknownError, match="still apply"):
            one.put(0, VLAN)
        with pytest.raises(UnknownError, match="still being applied"):
            one.session.read()
        with pytest.raises(UnknownError, match="still being applied"):
            one.session.change(lambda state: Batch())
        one.front.faults.slow_commit = 0.0
        time.sleep(1.0)
        assert one.untagged(0) == VLAN
    finally:
        one.close()


def test_a_batch_that_fails_in_the_middle_leaves_nothing(one: One) -> None:
    """Whatever was done before the part that failed is taken back, or was never more than a candidate."""
    one.put(0, OTHER)
    before = one.session.read()
    one.front.faults.fail_after = 4 if one.fronts.urls and one.front.plan.speaks == "eos" else 1
    edits = {one.ports[0]: PortEdit(VLAN), one.ports[1]: PortEdit(VLAN)}
    with pytest.raises((PermanentError, UnknownError)):
        one.session.change(lambda state: Batch({VLAN: "weft-name"}, frozenset(), edits))
    after = one.session.read()
    assert (after.vlans, after.ports) == (before.vlans, before.ports)


def test_a_lost_commit_is_unknown_and_made_again(one: One) -> None:
    one.front.faults.lose_commit = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN


def test_a_lost_answer_is_unknown_and_the_change_is_found(one: One) -> None:
    one.front.faults.lose_answer = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN and not one.session.read().unsaved


def test_a_slow_commit_is_waited_for(one: One) -> None:
    one.front.faults.slow_commit = 0.4
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN


def test_an_old_answer_is_not_believed(one: One) -> None:
    """A cache answers with what was before weft's change: neither made nor not made."""
    one.session.read()
    one.front.freeze()
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    with pytest.raises(UnknownError):
        one.session.read()
    one.front.thaw()


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


@pytest.mark.parametrize("wrong", ELSEWHERE)
def test_an_answer_of_another_shape_is_unknown(
    one: One, monkeypatch: pytest.MonkeyPatch, wrong: object
) -> None:
    monkeypatch.setattr(access.Api, "_json", lambda *_: wrong)
    with pytest.raises(UnknownError):
        one.session.read()


def test_a_switch_that_knows_nothing_of_what_is_asked_is_unknown(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """404 to everything: another server is at the address, or this one isn't set up. It is no switch without VLANs."""
    monkeypatch.setattr(access.Api, "ask", lambda *_: access.Reply(404, {"error": "not found"}, 0.0))
    with pytest.raises(OutsideError):
        one.session.read()


def test_ports_of_a_sonic_that_are_no_table_are_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = One(tmp_path, "sonic")
    for wrong in ({"PORT_LIST": [{"name": "no ifname"}]}, {"PORT_LIST": 7}, {"PORT_LIST": ["Ethernet0"]}, []):
        monkeypatch.setattr(access.Api, "_json", lambda *_, wrong=wrong: {"sonic-port:PORT": wrong})
        with pytest.raises(UnknownError):
            one.session.read()
    one.close()


def test_a_change_begins_with_a_reading_of_a_moment_ago(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fabric's driver has read every switch before it changes any; but never with one that this process's own change
    has made old, whether it ended before the reading, during it or after it."""
    read: list[str] = []
    real = one.session._read  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(one.session, "_read", lambda: (read.append("once"), real())[1])

    def untagged(state: SwitchState) -> Batch:
        seen.append(state.ports[one.ports[0]].untagged)
        return Batch()

    seen: list[int | None] = []
    one.session.read()
    one.session.change(untagged, recent=True)
    assert (seen, len(read)) == ([None], 1), "it was read once"
    one.session.change(untagged)
    assert len(read) == 2, "whoever doesn't say so gets a new one"
    one.put(0, VLAN)
    one.session.change(untagged, recent=True)
    assert seen[-1] == VLAN

    def slowly() -> SwitchState:
        old = real()
        monkeypatch.setattr(one.session, "_read", real)
        one.put(0, OTHER)
        return old

    monkeypatch.setattr(one.session, "_read", slowly)
    with contextlib.suppress(UnknownError):  # whoever has a clock of its own says that it is old
        one.session.read()
    one.session.change(untagged, recent=True)
    assert seen[-1] == OTHER, "what was read before the change isn't recent, though it came after it"
    one.session.read()
    clock = one.session._monotonic  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(one.session, "_monotonic", lambda: clock() + switch.RECENT_SECONDS)
    monkeypatch.setattr(one.session, "_read", lambda: (read.append("again"), real())[1])
    one.session.change(untagged, recent=True)
    assert read[-1] == "again"


def test_a_port_that_becomes_a_trunk_is_read_just_before(one: One, tmp_path: Path) -> None:
    """Its list is set as a whole: another process that has set it meanwhile keeps its VLAN."""
    other = open_fabric(one.fabric._site, FABRIC, NoLedger())  # pyright: ignore[reportPrivateUsage]
    session = other.session("leaf1")
    assert isinstance(session, Session)

    def tagged(number: int) -> Batch:
        edit = PortEdit(PARK, frozenset({number}), trunk=True)
        return Batch({number: "weft-name"}, frozenset(), {one.ports[0]: edit})

    one.session.read()
    session.change(lambda state: tagged(OTHER))
    one.session.change(lambda state: tagged(VLAN), recent=True)
    assert one.session.read().ports[one.ports[0]].tagged == {VLAN, OTHER}
    other.close()


def test_what_another_process_has_changed_since_is_read_again(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last VLAN of a shared host's port goes, by a reading from before another worker has put its own there: the
    port is not parked."""
    monkeypatch.setattr(switch, "RECENT_SECONDS", 60.0)
    other = open_fabric(one.site, FABRIC, NoLedger(), confirm=0.6)
    port, worker, cabling = one.ports[0], other.session("leaf1"), one.fabric.cabling

    def come(number: int) -> Batch:
        return Batch({number: "weft-name"}, frozenset(), {port: PortEdit(add=frozenset({number}))})

    try:
        one.session.change(lambda _: come(VLAN))
        one.session.read()
        worker.change(lambda _: come(OTHER))
        one.session.change(
            lambda state: removal_for("leaf1", state, VLAN, {"weft-name"}, cabling), recent=True
        )
        assert one.session.read().ports[port] == PortVlans(None, frozenset({OTHER}), True)
    finally:
        other.close()


def test_what_a_process_that_was_killed_has_sent_makes_readings_old(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It left no moment at which its change ended."""
    monkeypatch.setattr(switch, "RECENT_SECONDS", 60.0)
    other = open_fabric(one.site, FABRIC, NoLedger(), confirm=0.6)
    port, session = one.ports[0], other.session("leaf1")
    assert isinstance(session, Session)
    real = session._send  # pyright: ignore[reportPrivateUsage]

    def killed(*given: object) -> float:
        real(*given)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "_send", killed)
    monkeypatch.setattr(turn.Turn, "ends", lambda _: None)
    seen: list[frozenset[int]] = []

    def look(state: SwitchState) -> Batch:
        seen.append(state.ports[port].numbers)
        return Batch()

    try:
        one.session.read()
        with pytest.raises(KeyboardInterrupt):
            session.change(lambda _: Batch({VLAN: "weft-name"}, frozenset(), {port: PortEdit(VLAN)}))
        one.session.change(look, recent=True)
        assert seen == [frozenset({VLAN})]
    finally:
        other.close()


def test_a_sonic_without_any_vlan_must_name_its_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """404 means that a table is empty; from whoever says so to everything it means nothing, also a moment later."""
    one = One(tmp_path, "sonic")
    try:
        one.put(0, VLAN)
        one.session.read()
        monkeypatch.setattr(access.Api, "ask", lambda *_: access.Reply(404, None, 0.0))
        with pytest.raises(UnknownError, match="names no port"):
            one.session.read()
    finally:
        one.close()


def test_a_change_of_a_sonic_reads_its_ports_not_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is a request; which ports there are doesn't change with a VLAN. A new one is looked for."""
    one = One(tmp_path, "sonic")
    asked: list[str] = []
    ask = access.Api.ask

    def counted(self: access.Api, method: str, path: str, *rest: object) -> access.Reply:
        asked.append(f"{method} {path.rpartition('/')[2]}")
        return ask(self, method, path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(access.Api, "ask", counted)
    one.session.read()
    asked.clear()
    one.put(0, VLAN)
    tree = "sonic-vlan:sonic-vlan"
    assert asked == [f"GET {tree}", f"PATCH {tree}", f"GET {tree}", "POST sonic-config-mgmt:copy"]
    limits = one.session.limits
    one.session.limits = type(limits)(limits.vlans, limits.ports | {"Ethernet800"}, limits.parking)
    asked.clear()
    one.put(0, OTHER)
    assert "GET PORT" in asked
    one.close()


def test_a_port_that_is_not_there_is_refused_and_nothing_changes(one: One) -> None:
    """Some drivers are told nothing: the switch says so, or the reading does."""
    one.session.limits = type(one.session.limits)(
        one.session.limits.vlans, one.session.limits.ports | {"swp99"}, one.session.limits.parking
    )
    before = one.session.read()

    def edit(state: object) -> Batch:
        return Batch(
            {VLAN: "weft-name"}, frozenset(), {"swp99": PortEdit(VLAN), one.ports[0]: PortEdit(VLAN)}
        )

    with pytest.raises((PermanentError, UnknownError, KeyError)):
        one.session.change(edit)
    assert one.session.read().vlans == before.vlans and one.untagged(0) is None


def test_nothing_outside_of_the_limits_is_sent(one: One) -> None:
    for batch in (
        Batch({50: "x"}),
        Batch({}, frozenset({4000})),
        Batch({}, frozenset(), {"Management1": PortEdit(VLAN)}),
        Batch({}, frozenset(), {one.ports[0]: PortEdit(50)}),
    ):
        with pytest.raises(PermanentError, match="isn't weft's to change"):
            one.session.change(lambda state, b=batch: b)


def test_a_wrong_password_and_a_wrong_certificate_let_nobody_in(one: One, tmp_path: Path) -> None:
    """Neither is a state of the switch, and no error holds the password."""
    one.fronts.credentials.write_text('{"default": {"user": "weft", "password": "not-it-secret"}}')
    other = tmp_path / "other"
    strange = Fronts(other, leaf_spine("eos", leaves=1, spines=1, hosts_each=3), None)
    try:
        plan = leaf_spine(one.front.plan.speaks, leaves=1, spines=1, hosts_each=3)
        for ca, credentials in ((one.fronts.ca, one.fronts.credentials), (strange.ca, strange.credentials)):
            fabric = open_fabric(ethernet_site(plan, one.fronts.urls, ca, credentials), FABRIC, NoLedger())
            with pytest.raises(UnknownError) as told:
                fabric.session("leaf1").read()
            assert "secret" not in str(told.value) and PASSWORD not in str(told.value)
            fabric.close()
    finally:
        strange.close()


def test_credentials_that_others_may_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "switches.json"
    path.write_text('{"leaf1": {"user": "a", "password": "hidden"}}')
    path.chmod(0o644)
    with pytest.raises(PermanentError, match="others than its owner"):
        credentials_for("leaf1", str(path))
    path.chmod(0o600)
    assert credentials_for("leaf1", str(path)).user == "a"
    assert "hidden" not in repr(credentials_for("leaf1", str(path)))
    with pytest.raises(PermanentError) as told:
        credentials_for("leaf2", str(path))
    assert "hidden" not in str(told.value)
    with pytest.raises(PermanentError, match="WEFT_SWITCH_USER"):
        credentials_for("leaf1", None, {})


def test_aristas_own_client_sees_what_weft_did(eos: One) -> None:
    """pyeapi's parsers of VLANs and switchports read weft's change; its change is read by weft."""
    trunk = {eos.ports[1]: PortEdit(PARK, frozenset({VLAN, OTHER}))}
    eos.put(0, VLAN)
    eos.session.change(lambda state: Batch({OTHER: "weft-other"}, frozenset(), trunk))
    url = eos.fronts.urls["leaf1"]
    host, port = url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=str(eos.fronts.ca))
    connection = pyeapi.connect(
        transport="https", host=host, port=int(port), username=USER, password=PASSWORD, context=context
    )
    node = pyeapi.client.Node(connection)
    assert node.api("vlans").get(str(VLAN))["name"] == "weft-name"
    access = node.api("switchports").get(eos.ports[0])
    assert (access["mode"], access["access_vlan"]) == ("access", str(VLAN))
    tagged = node.api("switchports").get(eos.ports[1])
    assert (tagged["mode"], tagged["trunk_allowed_vlans"]) == ("trunk", f"{VLAN}-{OTHER}")
    with pytest.raises(pyeapi.eapilib.CommandError) as refused:
        node.config(["interface Ethernet99", "switchport access vlan 5"])
    assert refused.value.error_code == 1002
    assert node.api("switchports").set_access_vlan(eos.ports[2], str(OTHER))
    assert eos.untagged(2) == OTHER


def eapi(one: One) -> Eapi:
    assert isinstance(one.front, Eapi)
    return one.front


def ordered(one: One, *ports: int) -> tuple[SegmentSpec, Resource]:
    members = tuple(Membership(port=f"leaf1/{one.ports[p]}", mode=Mode.ACCESS) for p in ports)
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    return spec, Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)


def test_a_suspended_vlan_carries_nothing_and_is_made_active(eos: One) -> None:
    """It is defined, and its members are in it: still no frame passes."""
    spec, wanted = ordered(eos, 0, 1)
    eos.fabric.create(scope(), [wanted], {})
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    eapi(eos).running.vlans[VLAN].state = "suspend"
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.PENDING
    problems = eos.fabric.check(spec, eos.fabric.snapshot()).problems
    assert {p.kind for p in problems} == {ProblemKind.NOT_MEMBER} and "suspended" in str(problems[0])
    assert eos.fabric.update(scope(), [wanted], {})["partition"].error is None
    assert eapi(eos).running.vlans[VLAN].state == "active"
    assert eos.fabric.check(spec, eos.fabric.snapshot()).problems == ()
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


def test_a_parking_vlan_that_forwards_isolates_nobody(eos: One) -> None:
    """Made by hand, or made active again: parked hosts reach each other, and former members are among them."""
    eapi(eos).running.vlans[PARKING].state = "active"
    [told] = [
        p for m in eos.fabric.status().managers if m.name == "leaf1" for p in m.problems if "Ethernet1 " in p
    ]
    assert "is in the parking VLAN, and reaches others in it" in told
    spec, wanted = ordered(eos, 0)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eapi(eos).running.vlans[PARKING].state == "suspend", "each change suspends it"
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert {i.result for i in eos.fabric.clean(spec, eos.fabric.snapshot()).items} == {"clean"}
    eapi(eos).running.vlans[PARKING].state = "active"
    left = [i for i in eos.fabric.clean(spec, eos.fabric.snapshot()).items if i.result != "clean"]
    assert [i.plane for i in left] == ["switch port"] and "reaches others" in left[0].seen
    del eapi(eos).running.vlans[PARKING]
    assert {i.result for i in eos.fabric.clean(spec, eos.fabric.snapshot()).items} == {"clean"}, (
        "it isn't defined"
    )


@pytest.mark.parametrize("mode", ["tap", "tool", "dot1q-tunnel"])
def test_a_port_in_another_mode_does_not_hide_the_switch(eos: One, mode: str) -> None:
    """Whether the site names it or not: of all others everything is known."""
    stranger = Port(access=VLAN, mode=mode)
    eapi(eos).running.ports["Ethernet60"] = stranger
    state = eos.session.read()
    assert state.ports["Ethernet60"].numbers == {VLAN}, "as if it were in it"
    eapi(eos).running.ports[eos.ports[2]].mode = mode
    spec, wanted = ordered(eos, 0)
    del eapi(eos).running.ports["Ethernet60"]
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eos.fabric.check(spec, eos.fabric.snapshot()).problems == ()
    seen = eos.fabric.snapshot().ports[f"leaf1/{eos.ports[2]}"]
    if mode == "dot1q-tunnel":
        assert seen.unread == ""
        return
    assert f"in switchport mode {mode}" in seen.unread
    spec, wanted = ordered(eos, 0, 2)
    error = eos.fabric.update(scope(), [wanted], {})["partition"].error
    assert f"it has port {eos.ports[2]} in switchport mode {mode}" in str(error)


def test_a_routed_port_is_in_no_vlan_and_refused(eos: One) -> None:
    spec, wanted = ordered(eos, 0, 1)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    eapi(eos).running.ports[eos.ports[1]].routed = True
    error = eos.fabric.update(scope(), [wanted], {})["partition"].error
    assert f"it has port {eos.ports[1]} as a routed one" in str(error)
    assert any(
        f"leaf1 has port {eos.ports[1]} as a routed one" in p for p in eos.fabric.live_check().problems
    )
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert {i.result for i in eos.fabric.clean(spec, eos.fabric.snapshot()).items} == {"clean"}


def test_a_port_as_it_comes_from_the_factory_is_parked_after_its_first_pod(eos: One) -> None:
    """Also if it was a trunk meanwhile: its untagged frames reached every port that nobody has set."""
    name = eos.ports[0]
    eapi(eos).running.ports[name] = Port(access=1)
    members = (Membership(port=f"leaf1/{name}", mode=Mode.TRUNK),)
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    wanted = Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans(None, frozenset({VLAN}), True)
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans()


@pytest.mark.parametrize("listed", [False, True], ids=["every VLAN", "a list"])
@pytest.mark.parametrize("speaks", ["eos", "nvue"])
def test_a_trunk_in_the_factorys_vlan_is_taken_out_of_it(
    tmp_path: Path, speaks: Speaks, listed: bool
) -> None:
    """`switchport mode trunk`, or a port that is put into the bridge, and no more: its untagged frames reach all such
    ports. After its last pod it is parked."""
    one = One(tmp_path, speaks)
    name = one.ports[0]
    if isinstance(one.front, Eapi):
        one.front.running.ports[name] = Port("trunk", 1, 1, frozenset({1, OTHER}) if listed else EVERY)
    else:
        mine = {"vlan": {str(OTHER): {}}} if listed else {}
        one.front.running["bridge"]["domain"]["br_default"]["vlan"][str(OTHER)] = {}
        one.front.running["interface"][name]["bridge"] = {"domain": {"br_default": mine}}
    assert one.untagged(0) == 1
    members = (Membership(port=f"leaf1/{name}", mode=Mode.TRUNK),)
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    wanted = Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)
    left = frozenset({OTHER}) if listed else frozenset[int]()
    try:
        assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
        assert one.session.read().ports[name] == PortVlans(None, frozenset({VLAN}) | left, True)
        assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
        assert one.session.read().ports[name] == PortVlans(None, left, listed)
    finally:
        one.close()


def test_the_factorys_vlan_goes_with_the_last_tag(eos: One) -> None:
    """Somebody has set it while a pod was there."""
    name = eos.ports[0]
    members = (Membership(port=f"leaf1/{name}", mode=Mode.TRUNK),)
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    wanted = Resource(key="partition", name="weft-x", where=FABRIC, spec=spec)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    eapi(eos).running.ports[name] = Port("trunk", 1, 1, frozenset({1, VLAN}))
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans()


def test_sessions_that_no_abort_has_reached_are_aborted_later(
    eos: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link fails after a command that failed; EOS takes five sessions, and then none. Others' stay."""
    ask = access.Api.ask

    def cut(self: access.Api, method: str, path: str, body: object = None, *rest: object) -> access.Reply:
        if "abort" in str(body):
            raise UnknownError("abort a session", "switch leaf1", "no answer")
        return ask(self, method, path, body, *rest)  # type: ignore[arg-type]

    sessions = eapi(eos)._sessions  # pyright: ignore[reportPrivateUsage]
    sessions["operators"] = []
    for _ in range(4):
        eos.front.faults.fail_after = 4
        with monkeypatch.context() as patched:
            patched.setattr(access.Api, "ask", cut)
            with pytest.raises(UnknownError, match="internal error"):
                eos.put(0, VLAN)
    with pytest.raises(UnknownError, match="Maximum number of pending sessions"):
        eos.put(0, VLAN)
    assert len(sessions) == 5, "they may be another worker's, under way"
    monkeypatch.setattr(driver, "LEFT_SECONDS", -1.0)
    with pytest.raises(UnknownError, match="Maximum number of pending sessions"):
        eos.put(0, VLAN)
    assert list(sessions) == ["operators"]
    eos.put(0, VLAN)
    assert eos.untagged(0) == VLAN


@pytest.fixture
def nvue(tmp_path: Path) -> Iterator[One]:
    made = One(tmp_path, "nvue")
    yield made
    made.close()


def test_a_port_that_nvue_does_not_have_is_none(nvue: One) -> None:
    """One without configuration isn't in the applied revision, like one with another name."""
    assert nvue.untagged(2) is None
    limits = nvue.session.limits
    nvue.session.limits = type(limits)(limits.vlans, limits.ports | {"swp99"}, limits.parking)
    assert "swp99" not in nvue.session.read().ports
    assert nvue.session.read().lacks("swp99") == "has no port swp99"


def test_a_save_of_nvue_is_followed_to_its_end(nvue: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is accepted before it is made."""
    ask = access.Api.ask
    states = ["save", "save", "save_error"]

    def slow(self: access.Api, method: str, path: str, *rest: object) -> access.Reply:
        reply = ask(self, method, path, *rest)  # type: ignore[arg-type]
        if path.endswith("/revision/applied"):
            return access.Reply(200, {"state": states.pop(0)}, reply.date)
        return reply

    monkeypatch.setattr(access.Api, "ask", slow)
    with pytest.raises(UnknownError, match="save_error"):
        nvue.put(0, VLAN)
    assert nvue.session.read().unsaved and not states
    states += ["save", "applied_and_saved"]
    nvue.session.change(lambda state: Batch())
    assert not nvue.session.read().unsaved and not states


def test_nvue_is_sent_nothing_that_its_schema_does_not_know() -> None:
    """The check itself finds what NVIDIA's models would ignore."""
    check = schema_check("5.9")
    assert v5_9.NvueConfig.model_fields
    assert check({"interface": {"swp1": {"bridge": {"domain": {"br_default": {"access": 11}}}}}}) == ""
    assert "no such field" in check(
        {"interface": {"swp1": {"bridge": {"domain": {"br_default": {"acess": 11}}}}}}
    )
    assert check({"interface": {"swp1": {"bridge": {"domain": {"br_default": {"access": 5000}}}}}}) != ""


AT_NIGHT = pytest.mark.nightly(
    reason="each version's schema takes seconds to import; the oldest, 5.9 and the newest by day"
)
BY_DAY = (0, 9, 18)


@pytest.mark.parametrize(
    "minor", [n if n in BY_DAY else pytest.param(n, marks=AT_NIGHT) for n in range(19)], ids="5.{}".format
)
def test_every_version_of_nvue_takes_what_weft_sends(minor: int, tmp_path: Path) -> None:
    """A port put into a VLAN, made a trunk, parked; VLANs made and forgotten: nothing that one version doesn't know."""
    one = One(tmp_path, "nvue")
    assert isinstance(one.front, Nvue)
    one.front.claim(f"5.{minor}")
    misspelt = {"interface": {"swp1": {"bridge": {"domain": {"br_default": {"acess": 11}}}}}}
    assert "no such field" in schema_check(f"5.{minor}")(misspelt), "the version's schema is there"
    first, second = one.ports[0], one.ports[1]
    batches = (
        Batch({VLAN: "", OTHER: ""}, frozenset(), {first: PortEdit(VLAN), second: PortEdit(OTHER)}),
        Batch({}, frozenset(), {second: PortEdit(PARK, frozenset({VLAN, OTHER}), trunk=True)}),
        Batch({}, frozenset({OTHER}), {second: PortEdit(KEEP, remove=frozenset({VLAN, OTHER}), trunk=True)}),
        Batch({}, frozenset({VLAN}), {first: PortEdit(PARK)}),
    )
    try:
        for batch in batches:
            assert batch.done(one.session.change(lambda state, batch=batch: batch))
    finally:
        one.close()


def test_an_edit_says_what_is_there_when_it_is_done() -> None:
    port = PortVlans(None, frozenset({5, 6}), True)
    edit = PortEdit(KEEP, frozenset({7}), frozenset({5}))
    assert edit.on(port).tagged == {6, 7} and edit.done(edit.on(port)) and not edit.done(port)
    assert PortEdit(PARK).done(PortVlans()) and not PortEdit(PARK).done(PortVlans(11))


def test_the_password_is_in_no_log_and_no_error(one: One, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong, and with all that libraries log."""
    caplog.set_level(logging.DEBUG)
    _, wanted = ordered(one, 0)
    said = [repr(one.session.__dict__), repr(access.credentials_for("leaf1", str(one.fronts.credentials)))]

    def noted(change: Callable[[], object]) -> None:
        try:
            said.append(repr(change()))
        except OutsideError as error:
            said.extend(traceback.format_exception(error))

    right = one.fronts.credentials.read_text()
    for fault in ({"refuse_save": True}, {"late": "."}, {"mute": "POST|PATCH"}, {"down": True}, {}):
        one.front.faults = Faults(**fault)  # type: ignore[arg-type]
        noted(lambda: one.fabric.create(scope(), [wanted], {}))
        noted(lambda: one.fabric.snapshot().__dict__)
        noted(lambda: one.fabric.delete(scope(), [wanted], {}))
    for wrong in (
        right.replace(PASSWORD, f"not-{PASSWORD}"),
        right.replace("password", "passwort"),
        f"{right}]",
    ):
        one.fronts.credentials.write_text(wrong)
        noted(one.session.read)
    told = "\n".join((*said, caplog.text))
    assert "no answer" in told and "access denied" in told and "can't be read" in told
    basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    assert PASSWORD not in told and basic not in told
