"""What weft says of switches that it can only tell, on a device that notes what it is told."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.switches.rigs import Recorded, Records, scope, vlan
from weft.drivers.switches import open_fabric, turn
from weft.drivers.switches.generic import Generic
from weft.drivers.switches.genericdevice import GenericDevice
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.vlans import PortVlans
from weft.drivers.switches.wanted import Order, edit_for
from weft.model.errors import PermanentError, UnknownError
from weft.model.resources import Resource, Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.ports.resources import Scope
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.site import ethernet_site

FIRST = 0x101


class RefusedError(Exception):
    pass


class Device:
    """One switch in the library's place.

    Attributes:
        told: each call that it accepted, in order; `refuse`: it accepts none; `refuse_several`: none of several VLANs.
        sessions: how many there were.
    """

    support_trunk_on_ports = True

    def __init__(self) -> None:
        self.told: list[tuple[str, str | int]] = []
        self.refuse = self.refuse_several = False
        self.sessions = 0
        self.batch_cmds: object = None
        self._calls: list[tuple[str, str | int]] = []

    def add_network(self, number: int, _: str) -> None:
        self._calls.append(("define", number))

    def del_network(self, number: int, _: str) -> None:
        self._calls.append(("forget", number))

    def plug_port_to_network(self, port: str, _: int) -> None:
        self._calls.append(("in", port))

    def delete_port(self, port: str, _: int) -> None:
        self._calls.append(("out", port))

    def add_subports_on_trunk(self, _: object, port: str, __: object) -> None:
        self._calls.append(("carry", port))

    def del_subports_on_trunk(self, _: object, port: str, __: object) -> None:
        self._calls.append(("carry not", port))

    def send_commands_to_device(self, _: object) -> str:
        calls, self._calls = self._calls, []
        self.sessions += 1
        if self.refuse or (self.refuse_several and sum(verb == "define" for verb, _ in calls) > 1):
            raise RefusedError("no")
        self.told += calls
        return ""

    def check_output(self, output: str, operation: str) -> None:
        pass


class Told:
    """A fabric of switches that are all told, none read."""

    def __init__(self, turns: Path) -> None:
        plan = leaf_spine()
        urls = {s.name: "unix:/nowhere/db.sock" for s in plan.switches}
        document = ethernet_site(plan, urls, None, None).model_dump(mode="json")
        for access in document["fabrics"][FABRIC]["manager"]["switching"]["switches"]:
            access |= {"interface": "generic", "device_type": "netmiko_ovs_linux", "url": "ssh://nowhere"}
        self.site = Site.model_validate(document)
        self.devices = {s.name: Device() for s in plan.switches}
        self.records = Records()
        self.fabric = open_fabric(self.site, FABRIC, self.records)
        self.driver = Recorded(self.fabric, self.records)
        self.turns = turns

    def port(self, host: str) -> str:
        return self.site.node_by_name[host].hcas[0].port_id

    def settled(self, wanted: Resource, of: Scope) -> bool:
        return self.fabric.find(of, [wanted], {})["partition"].status is Status.SETTLED

    def results(self, wanted: Resource) -> dict[str, str]:
        assert isinstance(wanted.spec, SegmentSpec)
        items = self.fabric.clean(wanted.spec, self.fabric.snapshot()).items
        return {i.subject.split()[-1]: i.result for i in items if i.plane == "switch port"}


@pytest.fixture
def told(folder_of_turns: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    told = Told(folder_of_turns)

    def made(device: GenericDevice) -> tuple[Device, tuple[type[Exception], ...]]:
        return told.devices[device.name], (RefusedError,)

    monkeypatch.setattr(GenericDevice, "_made", made)
    yield told
    told.fabric.close()


def test_a_port_that_was_put_in_is_not_called_accepted_off(told: Told) -> None:
    """Also if weft's records don't want it any more once it is done: its pod was released in the meantime."""
    wanted = vlan(FIRST, [told.port("host1"), told.port("host2")])
    assert told.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert set(told.results(wanted).values()) == {"not clean"}


def test_a_port_that_was_out_and_whose_return_failed_is_not_called_accepted_off(told: Told) -> None:
    """The switch may have done part of what it didn't accept."""
    wanted = vlan(FIRST, [told.port("host1")])
    told.driver.create(scope(), [wanted], {})
    told.driver.delete(scope(), [wanted], {})
    assert told.results(wanted) == {told.port("host1"): "accepted"}
    told.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        told.fabric.create(scope(), [wanted], {})
    assert told.results(wanted) == {told.port("host1"): "not clean"}


def test_another_owners_number_is_left_alone(told: Told) -> None:
    """A late release of a number that has another owner by now tells the switches nothing, and settles nothing."""
    wanted = vlan(FIRST, [told.port("host1")])
    told.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        told.driver.create(scope(2), [wanted], {})
    told.devices["leaf1"].refuse = False
    assert told.driver.delete(scope(1), [wanted], {})["partition"].error is None
    assert not any(d.told for d in told.devices.values())
    assert not told.settled(wanted, scope(2))


def test_switches_that_a_segment_does_not_need_are_told_nothing(told: Told) -> None:
    wanted = vlan(FIRST, [told.port("host1"), told.port("host2")])
    told.driver.create(scope(), [wanted], {})
    assert told.settled(wanted, scope())
    assert {s for s, d in told.devices.items() if d.told} == {"leaf1"}


@pytest.mark.parametrize("left", [["host1"], ["host5"]])
def test_a_former_member_is_taken_off_after_all_if_the_switch_did_not_accept_it_at_first(
    told: Told, left: list[str]
) -> None:
    """Whether the switch is still needed or not; until then nothing is settled."""
    both, less = (vlan(FIRST, [told.port(h) for h in hosts]) for hosts in (["host1", "host2", "host5"], left))
    told.driver.create(scope(), [both], {})
    told.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        told.driver.update(scope(), [less], {})
    assert not told.settled(less, scope())
    told.devices["leaf1"].refuse = False
    assert told.driver.update(scope(), [less], {})["partition"].error is None
    assert told.settled(less, scope())
    assert ("out", told.port("host2").partition("/")[2]) in told.devices["leaf1"].told


def test_who_waited_for_a_turn_is_asked_again_whether_it_may(told: Told) -> None:
    """Another process has the switch; when it is done, this worker has lost its hold."""
    wanted, asked = vlan(FIRST, [told.port("host1")]), list[bool]()
    told.turns.mkdir(mode=0o700)

    class LostError(Exception):
        pass

    def fence() -> None:
        with (told.turns / "leaf1").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                asked.append(True)
                raise LostError from None

    one = scope()
    late = Scope(one.site, one.owner, one.name, one.project_id, fence)
    with pytest.raises(LostError):
        told.driver.create(late, [wanted], {})
    assert asked and not any(d.told for d in told.devices.values())


def test_a_turn_that_never_comes_is_unknown(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn, "TURN_SECONDS", 0.0)
    wanted = vlan(FIRST, [told.port("host1")])
    told.turns.mkdir(mode=0o700)
    with (told.turns / "leaf1").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UnknownError, match="another process is still changing it"):
            told.driver.create(scope(), [wanted], {})
    session = told.fabric.session("leaf1")
    assert isinstance(session, Generic)
    with session._changing, pytest.raises(UnknownError, match="this process is still changing it"):  # pyright: ignore[reportPrivateUsage]
        told.driver.create(scope(), [wanted], {})
    assert told.driver.create(scope(), [wanted], {})["partition"].error is None


def test_a_folder_of_turns_that_cannot_be_used_is_told_in_a_sentence(told: Told) -> None:
    told.turns.write_text("a file is in its place")
    with pytest.raises(UnknownError, match=r"take a turn.*weft-switches"):
        told.driver.create(scope(), [vlan(FIRST, [told.port("host1")])], {})


def test_nothing_is_opened_in_a_folder_of_another_user(told: Told, tmp_path: Path) -> None:
    """A link in it would have a file of weft's user emptied."""
    kept = tmp_path / "kept"
    kept.write_text("ours")
    told.turns.mkdir()
    for switch in told.devices:
        (told.turns / switch).symlink_to(kept)
    os.chown(told.turns, 12345, 12345)
    wanted = vlan(FIRST, [told.port("host1")])
    outcome = told.fabric.create(scope(), [wanted], {})["partition"]
    assert isinstance(outcome.error, PermanentError) and "belongs to somebody else" in str(outcome.error)
    assert kept.read_text() == "ours" and not any(d.told for d in told.devices.values())


def asked(told: Told, of: Scope, wanted: Resource) -> Asked:
    """A VLAN's members on a leaf."""
    assert isinstance(wanted.spec, SegmentSpec)
    told.records.write(of.mark(wanted.key), wanted.spec)
    cabling, vlans = told.fabric.cabling, told.site.fabrics[FABRIC].segments
    order = Order(wanted.spec, vlan_name(of.mark(wanted.key)), cabling.spread(wanted.spec.ports), vlans)
    return Asked(lambda state: edit_for("leaf1", state, order, cabling), wanted.spec)


@pytest.mark.parametrize(
    ("refused", "sessions"), [(False, 1), (True, 3)], ids=["accepted", "refused together"]
)
def test_vlans_that_wait_are_one_session(told: Told, refused: bool, sessions: int) -> None:
    """What the switch doesn't accept together is told one by one."""
    first, second = vlan(FIRST, [told.port("host1")]), vlan(FIRST + 1, [told.port("host2")])
    device, leaf = told.devices["leaf1"], told.fabric.session("leaf1")
    device.refuse_several = refused
    assert leaf.change_all([asked(told, scope(1), first), asked(told, scope(2), second)]) == [None, None]
    assert device.sessions == sessions
    assert {call for call in device.told if call[0] == "define"} == {("define", FIRST), ("define", FIRST + 1)}
    assert leaf.read().ports[told.port("host2").partition("/")[2]] == PortVlans(FIRST + 1)


def test_one_vlan_that_is_asked_for_twice_is_told_twice(told: Told) -> None:
    """The second one must know where the first one has put it."""
    wide, narrow = vlan(FIRST, [told.port("host1"), told.port("host2")]), vlan(FIRST, [told.port("host1")])
    both = [asked(told, scope(1), wide), asked(told, scope(1), narrow)]
    assert told.fabric.session("leaf1").change_all(both) == [None, None]
    device = told.devices["leaf1"]
    assert device.sessions == 2 and device.told[-3:].count(("out", told.port("host2").partition("/")[2])) == 1
