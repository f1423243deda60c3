"""What weft reports about switches that it can't read back, with a device that records what it accepts."""

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
from weft.drivers.switches.wanted import WantedSegment, edit_for
from weft.model.errors import PermanentError, UnknownError
from weft.model.linkstates import LinkStates
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
    """One switch in place of the library's.

    Attributes:
        accepted: calls that it accepted, in order.
        refuse, refuse_several: it accepts no call, or none for several VLANs together.
        sessions: how many there were.
    """

    support_trunk_on_ports = True

    def __init__(self) -> None:
        self.accepted: list[tuple[str, str | int]] = []
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
        self.accepted += calls
        return ""

    def check_output(self, output: str, operation: str) -> None:
        pass


class WriteOnlyFabric:
    """A fabric of switches that can't be read back."""

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
def rig(folder_of_turns: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteOnlyFabric]:
    rig = WriteOnlyFabric(folder_of_turns)

    def made(device: GenericDevice) -> tuple[Device, tuple[type[Exception], ...]]:
        return rig.devices[device.name], (RefusedError,)

    monkeypatch.setattr(GenericDevice, "_made", made)
    yield rig
    rig.fabric.close()


def test_ports_of_a_switch_that_cannot_be_read_are_unknown(rig: WriteOnlyFabric) -> None:
    """Their links and their counters."""
    assert rig.fabric.links() == LinkStates(frozenset(), frozenset())
    assert rig.fabric.port_counters() == {}


def test_added_port_is_not_reported_as_removed(rig: WriteOnlyFabric) -> None:
    """Also if its pod was released meanwhile, so that weft's records don't want it any more."""
    wanted = vlan(FIRST, [rig.port("host1"), rig.port("host2")])
    assert rig.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert set(rig.results(wanted).values()) == {"not clean"}


def test_port_that_failed_to_be_added_again_is_not_reported_as_removed(rig: WriteOnlyFabric) -> None:
    """The switch may have done part of a change that it didn't accept."""
    wanted = vlan(FIRST, [rig.port("host1")])
    rig.driver.create(scope(), [wanted], {})
    rig.driver.delete(scope(), [wanted], {})
    assert rig.results(wanted) == {rig.port("host1"): "accepted"}
    rig.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        rig.fabric.create(scope(), [wanted], {})
    assert rig.results(wanted) == {rig.port("host1"): "not clean"}


def test_another_owners_vlan_is_left_alone(rig: WriteOnlyFabric) -> None:
    """A late release of a number that has another owner by now sends nothing and settles nothing."""
    wanted = vlan(FIRST, [rig.port("host1")])
    rig.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        rig.driver.create(scope(2), [wanted], {})
    rig.devices["leaf1"].refuse = False
    assert rig.driver.delete(scope(1), [wanted], {})["partition"].error is None
    assert not any(d.accepted for d in rig.devices.values())
    assert not rig.settled(wanted, scope(2))


def test_unneeded_switches_get_no_requests(rig: WriteOnlyFabric) -> None:
    wanted = vlan(FIRST, [rig.port("host1"), rig.port("host2")])
    rig.driver.create(scope(), [wanted], {})
    assert rig.settled(wanted, scope())
    assert {s for s, d in rig.devices.items() if d.accepted} == {"leaf1"}


@pytest.mark.parametrize("left", [["host1"], ["host5"]])
def test_refused_removal_of_a_former_member_is_repeated(rig: WriteOnlyFabric, left: list[str]) -> None:
    """Whether the switch is still needed or not; until then nothing is settled."""
    both, less = (vlan(FIRST, [rig.port(h) for h in hosts]) for hosts in (["host1", "host2", "host5"], left))
    rig.driver.create(scope(), [both], {})
    rig.devices["leaf1"].refuse = True
    with pytest.raises(UnknownError):
        rig.driver.update(scope(), [less], {})
    assert not rig.settled(less, scope())
    rig.devices["leaf1"].refuse = False
    assert rig.driver.update(scope(), [less], {})["partition"].error is None
    assert rig.settled(less, scope())
    assert ("out", rig.port("host2").partition("/")[2]) in rig.devices["leaf1"].accepted


def test_fence_is_checked_again_after_waiting_for_a_turn(rig: WriteOnlyFabric) -> None:
    """Another process has the switch; when it is done, this worker's hold has ended."""
    wanted, asked = vlan(FIRST, [rig.port("host1")]), list[bool]()
    rig.turns.mkdir(mode=0o700)

    class LostError(Exception):
        pass

    def fence() -> None:
        with (rig.turns / "leaf1").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                asked.append(True)
                raise LostError from None

    one = scope()
    late = Scope(one.site, one.owner, one.name, one.project_id, fence)
    with pytest.raises(LostError):
        rig.driver.create(late, [wanted], {})
    assert asked and not any(d.accepted for d in rig.devices.values())


def test_change_that_waits_too_long_for_its_turn_is_unknown(
    rig: WriteOnlyFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "TURN_SECONDS", 0.0)
    wanted = vlan(FIRST, [rig.port("host1")])
    rig.turns.mkdir(mode=0o700)
    with (rig.turns / "leaf1").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UnknownError, match="another process is still changing it"):
            rig.driver.create(scope(), [wanted], {})
    session = rig.fabric.session("leaf1")
    assert isinstance(session, Generic)
    with session._changing, pytest.raises(UnknownError, match="this process is still changing it"):  # pyright: ignore[reportPrivateUsage]
        rig.driver.create(scope(), [wanted], {})
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None


def test_unusable_turns_folder_is_reported(rig: WriteOnlyFabric) -> None:
    rig.turns.write_text("a file is in its place")
    with pytest.raises(UnknownError, match=r"take a turn.*weft-switches"):
        rig.driver.create(scope(), [vlan(FIRST, [rig.port("host1")])], {})


def test_turns_folder_of_another_user_is_not_used(rig: WriteOnlyFabric, tmp_path: Path) -> None:
    """A link in it could make weft empty a file of its own user."""
    kept = tmp_path / "kept"
    kept.write_text("ours")
    rig.turns.mkdir()
    for switch in rig.devices:
        (rig.turns / switch).symlink_to(kept)
    os.chown(rig.turns, 12345, 12345)
    wanted = vlan(FIRST, [rig.port("host1")])
    outcome = rig.fabric.create(scope(), [wanted], {})["partition"]
    assert isinstance(outcome.error, PermanentError) and "belongs to another user" in str(outcome.error)
    assert kept.read_text() == "ours" and not any(d.accepted for d in rig.devices.values())


def asked(rig: WriteOnlyFabric, of: Scope, wanted: Resource) -> Asked:
    """A change of a VLAN's members on a leaf."""
    assert isinstance(wanted.spec, SegmentSpec)
    rig.records.write(of.mark(wanted.key), wanted.spec)
    cabling, vlans = rig.fabric.cabling, rig.site.fabrics[FABRIC].segments
    order = WantedSegment(
        wanted.spec, vlan_name(of.mark(wanted.key)), cabling.spread(wanted.spec.ports), vlans
    )
    return Asked(lambda state: edit_for("leaf1", state, order, cabling), wanted.spec)


@pytest.mark.parametrize(
    ("refused", "sessions"), [(False, 1), (True, 3)], ids=["accepted", "refused together"]
)
def test_waiting_vlan_changes_are_joined_into_one_session(
    rig: WriteOnlyFabric, refused: bool, sessions: int
) -> None:
    """What the switch doesn't accept together is sent one by one."""
    first, second = vlan(FIRST, [rig.port("host1")]), vlan(FIRST + 1, [rig.port("host2")])
    device, leaf = rig.devices["leaf1"], rig.fabric.session("leaf1")
    device.refuse_several = refused
    assert leaf.change_all([asked(rig, scope(1), first), asked(rig, scope(2), second)]) == [None, None]
    assert device.sessions == sessions
    assert {call for call in device.accepted if call[0] == "define"} == {
        ("define", FIRST),
        ("define", FIRST + 1),
    }
    assert leaf.read().ports[rig.port("host2").partition("/")[2]] == PortVlans(FIRST + 1)


def test_vlan_requested_twice_is_sent_twice(rig: WriteOnlyFabric) -> None:
    """The second change must be based on where the first one put it."""
    wide, narrow = vlan(FIRST, [rig.port("host1"), rig.port("host2")]), vlan(FIRST, [rig.port("host1")])
    both = [asked(rig, scope(1), wide), asked(rig, scope(1), narrow)]
    assert rig.fabric.session("leaf1").change_all(both) == [None, None]
    device = rig.devices["leaf1"]
    assert (
        device.sessions == 2 and device.accepted[-3:].count(("out", rig.port("host2").partition("/")[2])) == 1
    )
