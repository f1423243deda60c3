"""Machines in Ironic: taken free and clean, given back only with the record of a cleaning, whatever Ironic answers."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE, STEPS, TinyIronic, cleaned, deployed, event
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.model.errors import NotYetError, TemporaryError, UnknownError, WeftError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import MachineSpec
from weft.ports.occupants import SeenMachine
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OTHER = replace(SCOPE, owner=Owner.pod("99999999-1111-2222-3333-444444444444"))
MACHINE = Resource(
    key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=MachineSpec(machine=NODE)
)


@dataclass(frozen=True)
class Rig:
    ironic: TinyIronic
    driver: OpenStackDriver
    facts: OpenStackFacts

    @property
    def node(self) -> dict[str, object]:
        return self.ironic.nodes[NODE]

    def take(self, scope: Scope = SCOPE) -> str:
        outcome = self.driver.create(scope, [MACHINE], {})[MACHINE.key]
        if outcome.error is not None:
            raise outcome.error
        assert outcome.id is not None
        return outcome.id

    def see(self, taken: str, scope: Scope = SCOPE) -> Observed:
        return self.driver.find(scope, [MACHINE], {MACHINE.key: taken} if taken else {})[MACHINE.key]

    def give_back(self, taken: str, scope: Scope = SCOPE) -> WeftError | None:
        return self.driver.delete(scope, [MACHINE], {MACHINE.key: taken})[MACHINE.key].error

    def see_mark(self) -> bool:
        return bool(self.node["extra"])

    def use(self) -> None:
        """Nova has deployed a server on it."""
        at = "2026-11-22T20:00:01+00:00"
        self.node.update(
            provision_state="active", instance_uuid="srv-1", power_state="power on", provision_updated_at=at
        )
        self.ironic.history[NODE] += deployed()

    def empty(self, state: str = "available") -> None:
        """Nova has deleted the server."""
        self.node.update(provision_state=state, instance_uuid=None)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud(TinyIronic) as (cloud, text):
        assert isinstance(cloud, TinyIronic)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        yield Rig(cloud, driver, OpenStackFacts(sessions, machines=[NODE], site="lab"))
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    house.ironic.reset()
    return house


def test_a_machine_is_taken_used_cleaned_and_given_back_with_its_record(rig: Rig) -> None:
    taken = rig.take()
    assert rig.see(taken).status is Status.SETTLED
    rig.use()
    assert rig.see(taken).status is Status.SETTLED
    assert isinstance(rig.give_back(taken), NotYetError)  # it has its server still
    rig.empty("cleaning")
    assert rig.see(taken).status is Status.PENDING
    assert isinstance(rig.give_back(taken), NotYetError)
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.give_back(taken) is None
    seen = rig.see(taken)
    assert seen.status is Status.ABSENT
    assert "deploy.erase_devices, deploy.verify_erased; disks erased" in seen.reason
    assert "from 2026-11-22T21:30:00" in seen.reason and "conductor ironic1 is alive" in seen.reason
    assert rig.node["extra"] == {}


def test_taking_it_twice_is_taking_it_once_also_after_a_lost_answer(rig: Rig) -> None:
    assert rig.take() == rig.take()
    assert rig.see("").id == rig.take()  # without knowing the id


def test_a_machine_of_another_pod_is_not_taken(rig: Rig) -> None:
    rig.take(OTHER)
    with pytest.raises(TemporaryError, match="carries the mark"):
        rig.take()
    assert rig.see("").status is Status.ABSENT


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"provision_state": "active"}, "in state active"),
        ({"provision_state": "clean failed", "last_error": "disk sda"}, "disk sda"),
        ({"maintenance": True, "maintenance_reason": "bad fan"}, "in maintenance: bad fan"),
        ({"maintenance": True, "fault": "power failure"}, "in maintenance: power failure"),
        ({"instance_uuid": "srv-9"}, "has instance srv-9"),
        ({"power_state": None}, "power state is unknown"),
    ],
)
def test_a_machine_that_is_not_free_is_not_taken(rig: Rig, change: dict[str, object], why: str) -> None:
    rig.node.update(change)
    with pytest.raises(TemporaryError, match=why):
        rig.take()
    assert rig.node["extra"] == {}
    assert why.split()[-1] in rig.facts.hosts()[NODE]


@pytest.mark.parametrize("lasting", [True, False])
def test_a_lock_of_ironics_is_no_error(rig: Rig, lasting: bool) -> None:
    """It locks a node for moments, such as for its power state: it is asked again, and nobody told of a failure."""
    locked = Reply(409, {"error_message": f"Node {NODE} is locked by host ironic1, please retry"})
    rig.node["reservation"] = "ironic1" if lasting else None
    rig.ironic.lies = [] if lasting else [(f"PATCH /baremetal/v1/nodes/{NODE}", locked)]
    with pytest.raises(NotYetError):
        rig.take()
    rig.node["reservation"], rig.ironic.lies = None, []
    taken = rig.take()
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.give_back(taken), NotYetError)
    rig.node["reservation"] = None
    assert rig.give_back(taken) is None and rig.node["extra"] == {}


def test_a_machine_without_a_record_of_a_cleaning_is_not_taken(rig: Rig) -> None:
    rig.ironic.history[NODE] = []
    with pytest.raises(TemporaryError, match="no record of a cleaning"):
        rig.take()


UNCLEAN = {
    "not cleaned at all": [],
    "a cleaning that has begun": cleaned()[:1],
    "an end without a beginning": cleaned()[1:],
    "a cleaning that failed": [
        cleaned()[0],
        event("automated_cleaning_end", "Automated Cleaning aborted at step 'x' with steps=[]", "t", "ERROR"),
    ],
    "a cleaning without steps": cleaned(steps=[]),
    "a cleaning that erases nothing": cleaned(
        steps=[{"interface": "management", "step": "reset_idrac", "priority": 1}]
    ),
    "a manual cleaning": [{**e, "event_type": "manual_" + str(e["event_type"])[10:]} for e in cleaned()],
    "used again after it": [*cleaned(), *deployed()],
    "served after it": [*cleaned(), event("servicing_start", "Starting servicing with steps=[]", "t")],
    "steps that can't be read": [
        event("automated_cleaning_start", "Starting automated cleaning with steps=[{'a': ...", "t"),
        cleaned()[1],
    ],
    "events without a type": [{}, {"event_type": None}],
}


@pytest.mark.parametrize("since", UNCLEAN.values(), ids=UNCLEAN.keys())
def test_without_a_whole_cleaning_since_it_was_used_it_is_kept(
    rig: Rig, since: list[dict[str, object]]
) -> None:
    taken = rig.take()
    rig.use()
    rig.empty()
    rig.ironic.history[NODE] += since
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and not isinstance(error, NotYetError)
    assert rig.see(taken).there
    del rig.node["extra"]
    assert rig.see(taken).there, "taking its mark off by hand makes nothing clean"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"provision_state": "clean failed", "last_error": "sda"}, Status.BROKEN),
        ({"provision_state": "deploy failed", "last_error": "x"}, Status.BROKEN),
        ({"provision_state": "error"}, Status.BROKEN),
        ({"provision_state": "a state of tomorrow"}, Status.BROKEN),
        ({"provision_state": "clean wait"}, Status.PENDING),
    ],
)
def test_a_state_is_what_it_is(rig: Rig, change: dict[str, object], status: Status) -> None:
    taken = rig.take()
    rig.node.update(change)
    assert rig.see(taken).status is status
    assert rig.give_back(taken) is not None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"maintenance": True, "maintenance_reason": "bad fan"}, "in maintenance: bad fan"),
        ({"power_state": None}, "power state is unknown"),
    ],
)
def test_what_ends_by_itself_is_waited_for_with_an_alarm(
    rig: Rig, change: dict[str, object], why: str
) -> None:
    """Nothing is wrong with what was asked: the pod doesn't fail by it, and its server isn't replaced."""
    before = dict(rig.node)
    rig.node.update(change)
    with pytest.raises(TemporaryError, match=why) as caught:
        rig.take()
    assert caught.value.alarming
    rig.node.update(before)
    taken = rig.take()
    rig.use()
    used = dict(rig.node)
    rig.node.update(change)
    seen = rig.see(taken)
    assert (seen.status, seen.differences) == (Status.PENDING, ()) and why in seen.reason
    rig.node.update(used)
    assert rig.see(taken).status is Status.SETTLED
    rig.node.update(change)
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and error.alarming and why in str(error)
    rig.node.update(before, extra=rig.node["extra"], provision_updated_at="2026-11-22T21:30:00+00:00")
    assert rig.give_back(taken) is None


def test_a_cleaning_from_before_the_pod_is_none_although_no_steps_are_recorded_any_more(rig: Rig) -> None:
    """`record_step_flows_in_history` was turned off: the machine is used and, perhaps, cleaned without a word."""
    taken = rig.take()
    rig.node.update(provision_state="active", instance_uuid="srv-1", power_state="power on")
    rig.empty()
    rig.node.update(provision_updated_at="2026-11-22T21:30:00+00:00")
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and "record_step_flows_in_history" in str(error)
    assert rig.see(taken).there
    with pytest.raises(TemporaryError, match="carries the mark"):
        rig.take(OTHER)
    del rig.node["extra"]
    assert rig.see(taken).there
    with pytest.raises(TemporaryError, match="isn't recorded"):
        rig.take(OTHER)
    rig.ironic.clean(NODE, "2026-11-22T22:00:00+00:00")
    assert rig.give_back(taken) is None


def test_a_cleaning_without_a_step_that_the_site_demands_is_none(rig: Rig, tmp_path: Path) -> None:
    """Metadata is wiped and the disks aren't, or nobody has reset the BIOS: it is kept until one did it all."""
    taken = rig.take()
    rig.use()
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    with tiny_cloud(TinyIronic) as (ironic, text):
        assert isinstance(ironic, TinyIronic)
        ironic.nodes, ironic.history = rig.ironic.nodes, rig.ironic.history
        (tmp_path / "clouds.yaml").write_text(text)
        demanded = Demands(steps=frozenset({"deploy.erase_devices", "bios.factory_reset"}))
        sessions = Sessions("weft", [tmp_path / "clouds.yaml"], cleaning=demanded)
        driver = OpenStackDriver("lab", sessions, machines=True)
        strict = Rig(ironic, driver, OpenStackFacts(sessions, machines=[NODE], site="lab"))
        error = strict.give_back(taken)
        assert isinstance(error, TemporaryError) and error.alarming
        assert "lacked bios.factory_reset, which the site demands" in str(error)
        assert strict.see(taken).there
        whole = [*STEPS, {"interface": "bios", "step": "factory_reset", "priority": 1}]
        ironic.history[NODE] += cleaned("2026-11-22T22:00:00+00:00", whole)
        strict.node.update(provision_updated_at="2026-11-22T22:00:01+00:00")
        assert strict.give_back(taken) is None
        assert "bios.factory_reset" in strict.see(taken).reason
        ironic.history[NODE] += cleaned("2026-11-22T23:00:00+00:00")
        with pytest.raises(TemporaryError, match="lacked bios"):
            strict.take(OTHER)
        driver.close()
        sessions.close()


LISTED = Demands(
    firmware={"bios": frozenset({"2.3.1", "2.4.0"}), "bmc": frozenset({"7.10"})},
    bios={"SriovGlobalEnable": "Enabled"},
)
FIRMWARE = [
    {"component": "bios", "current_version": "2.4.0"},
    {"component": "bmc", "current_version": "7.10"},
]
BIOS = [{"name": "SriovGlobalEnable", "value": "Enabled"}, {"name": "BootMode", "value": None}]


@pytest.mark.parametrize(
    ("hardware", "why"),
    [
        (
            {"firmware": [FIRMWARE[0] | {"current_version": "6.6.6"}, FIRMWARE[1]]},
            "firmware of bios is 6.6.6",
        ),
        ({"firmware": FIRMWARE[:1]}, "firmware of bmc isn't known to Ironic; the site allows 7.10"),
        ({"firmware": [FIRMWARE[0], FIRMWARE[1] | {"current_version": None}]}, "firmware of bmc isn't known"),
        ({"firmware": []}, "firmware of bios isn't known.*firmware of bmc isn't known"),
        ({"bios": [BIOS[0] | {"value": "Disabled"}]}, "SriovGlobalEnable is Disabled; the site has Enabled"),
        ({"bios": []}, "SriovGlobalEnable isn't known to Ironic"),
    ],
)
def test_a_machine_with_other_firmware_than_the_sites_is_kept(
    rig: Rig, tmp_path: Path, hardware: dict[str, list[dict[str, object]]], why: str
) -> None:
    """A tenant with root has flashed it: erased disks don't help."""
    taken = rig.take()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path) as strict:
        strict.ironic.hardware = {"firmware": FIRMWARE, "bios": BIOS} | hardware
        error = strict.give_back(taken)
        assert isinstance(error, TemporaryError) and error.alarming and re.search(why, str(error)), error
        assert strict.see(taken).there
        strict.ironic.hardware = {"firmware": FIRMWARE, "bios": BIOS}
        assert strict.give_back(taken) is None
        said = strict.see(taken).reason
        listed = "firmware of bios, bmc and 1 BIOS settings as the site lists them, as Ironic last read them"
        assert listed in said
        strict.ironic.hardware |= hardware
        with pytest.raises(TemporaryError, match="as the site demands"):
            strict.take(OTHER)


@pytest.mark.parametrize(
    "lie",
    [
        Reply(503, {}),
        Reply(200, {"firmware": None}),
        Reply(200, {"firmware": [{"component": "bios"}]}),
        Reply(404, {}),
    ],
)
def test_firmware_that_can_not_be_read_gives_no_machine_back(rig: Rig, tmp_path: Path, lie: Reply) -> None:
    taken = rig.take()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path) as strict:
        strict.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}/firmware", lie)]
        assert isinstance(strict.give_back(taken), WeftError) and strict.see_mark()


NIC = {"component": "nic:NIC.Slot.1", "initial_version": "28.39.1002"}


@pytest.mark.parametrize(
    ("now", "flashed", "why"),
    [
        ("28.39.1002", None, ""),
        # Ironic writes any change that it reads there, whoever has flashed it.
        ("66.6.6666", "66.6.6666", "firmware of nic:NIC.Slot.1 is 66.6.6666"),
        ("66.6.6666", None, "firmware of nic:NIC.Slot.1 is 66.6.6666; it was 28.39.1002 at the enrolment"),
        ("66.6.6666", "28.43.2566", "firmware of nic:NIC.Slot.1 is 66.6.6666"),
        (None, None, "firmware of nic:NIC.Slot.1 isn't known to Ironic any more"),
    ],
)
def test_firmware_that_the_site_lists_nowhere_is_as_it_was_at_the_enrolment(
    rig: Rig, tmp_path: Path, now: str | None, flashed: str | None, why: str
) -> None:
    """What is listed may be any listed version."""
    taken = rig.take()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, replace(LISTED, unchanged=True)) as strict:
        changed = {**NIC, "current_version": now, "last_version_flashed": flashed}
        strict.ironic.hardware = {"firmware": [*FIRMWARE, changed], "bios": BIOS}
        error = strict.give_back(taken)
        assert (why in str(error) and error is not None) if why else error is None
        if not why:
            assert "all other firmware as at the enrolment" in strict.see(taken).reason


def test_that_no_firmware_was_read_is_not_that_none_has_changed(rig: Rig, tmp_path: Path) -> None:
    """A node with `no-firmware`, or a BMC without an inventory of it."""
    taken = rig.take()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, Demands(unchanged=True)) as strict:
        strict.ironic.hardware = {"firmware": []}
        assert "Ironic has read no firmware of it" in str(strict.give_back(taken)) and strict.see_mark()


@contextmanager
def strictly(rig: Rig, folder: Path, demands: Demands = LISTED) -> Generator[Rig]:
    """The same Ironic, of a site with lists."""
    with tiny_cloud(TinyIronic) as (ironic, text):
        assert isinstance(ironic, TinyIronic)
        ironic.nodes, ironic.history = rig.ironic.nodes, rig.ironic.history
        (folder / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [folder / "clouds.yaml"], cleaning=demands)
        driver = OpenStackDriver("lab", sessions, machines=True)
        yield Rig(ironic, driver, OpenStackFacts(sessions, machines=[NODE], site="lab"))
        driver.close()
        sessions.close()


@pytest.mark.parametrize("changed", [None, "", "yesterday", 7])
def test_a_state_that_changed_nobody_knows_when_proves_no_cleaning(rig: Rig, changed: object) -> None:
    taken = rig.take()
    rig.node.update(provision_updated_at=changed)
    assert "can't be compared" in str(rig.give_back(taken))
    assert rig.see(taken).there


def test_a_machine_with_another_sites_mark_is_not_offered(rig: Rig) -> None:
    rig.take()
    assert rig.facts.hosts()[NODE] == "up", "it is this site's pod's, whatever it does"
    rig.node.update(extra={"weft": replace(SCOPE, site="elsewhere").mark(MACHINE.key).text()})
    assert rig.facts.hosts()[NODE] == "marked as site elsewhere's"


def test_a_machine_deleted_by_hand_is_never_clean(rig: Rig) -> None:
    taken = rig.take()
    rig.use()
    rig.ironic.nodes.clear()
    seen = rig.see(taken)
    assert seen.status is Status.BROKEN and "doesn't know" in seen.reason
    assert rig.give_back(taken) is not None
    assert rig.facts.hosts()[NODE] == "not in Ironic"


def test_without_a_conductor_that_is_alive_nothing_is_gone(rig: Rig) -> None:
    """What the API shows is then as old as the last one."""
    taken = rig.take()
    assert rig.give_back(taken) is None
    rig.ironic.conductors[0]["alive"] = False
    with pytest.raises(UnknownError, match="none that is alive"):
        rig.see(taken)


def test_pages_are_followed_to_the_last(rig: Rig) -> None:
    """The machine is on the second of three pages."""
    rig.take()
    mine = rig.ironic.nodes.pop(NODE)
    other = {**mine, "uuid": "00000000-0000-4000-8000-000000000001", "extra": {}}
    third = {**other, "uuid": "00000000-0000-4000-8000-000000000002"}
    rig.ironic.nodes = {str(n["uuid"]): n for n in (other, mine, third)}
    rig.ironic.max_limit = 1
    assert rig.facts.hosts()[NODE] == "up"
    assert len(rig.driver.marked("lab", [])) == 1


@pytest.mark.parametrize("page", [{"next": "http://x/v1/nodes?marker=a"}, {"next": {"href": "x"}}])
def test_pages_without_an_end_are_unknown(rig: Rig, page: dict[str, object]) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": [], **page}))]
    with pytest.raises(UnknownError, match="without an end"):
        rig.driver.marked("lab", [])


def test_virtual_machines_have_their_hosts_while_ironic_is_away(rig: Rig) -> None:
    rig.ironic.lies = [("GET /baremetal/.*", Reply(503, {"error_message": "busy"}))]
    hosts = rig.facts.hosts()
    assert hosts["gpu01"] == "up" and hosts[NODE].startswith("unknown: ") and "busy" in hosts[NODE]


def test_a_worker_that_lost_its_pod_while_it_read_takes_nothing(rig: Rig) -> None:
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise RuntimeError("another worker has it")

    rig.ironic.asides = [(f"GET /baremetal/v1/nodes/{NODE}/history", lambda: lost.append(True))]
    with pytest.raises(RuntimeError, match="another worker"):
        rig.take(replace(SCOPE, fence=fence))
    assert rig.node["extra"] == {}


def test_a_late_worker_leaves_the_next_pods_mark(rig: Rig) -> None:
    """While it reads, another worker gives the machine back, and the next pod takes it."""
    taken = rig.take()
    theirs = {"weft": OTHER.mark(MACHINE.key).text()}
    rig.ironic.asides = [(f"GET /baremetal/v1/nodes/{NODE}/history", lambda: rig.node.update(extra=theirs))]
    error = rig.give_back(taken)
    assert isinstance(error, TemporaryError) and "changed meanwhile" in str(error)
    assert rig.node["extra"] == theirs


def test_what_the_next_pod_has_is_not_the_first_ones_and_stays_untouched(rig: Rig) -> None:
    first = rig.take()
    assert rig.give_back(first) is None
    second = rig.take(OTHER)
    assert rig.see(first).status is Status.ABSENT
    assert rig.give_back(first) is None
    assert rig.see(second, OTHER).status is Status.SETTLED


def test_a_mark_that_the_tenant_writes_is_put_right_and_proves_nothing(rig: Rig) -> None:
    """A lessee's members may write `extra`: the machine is the pod's by its id until it is free and clean."""
    taken = rig.take()
    rig.use()
    theirs = {"weft": OTHER.mark(MACHINE.key).text()}
    rig.node.update(extra=theirs)
    seen = rig.see(taken)
    assert seen.there and [d.field for d in seen.differences] == ["mark"]
    assert rig.driver.update(SCOPE, [MACHINE], {MACHINE.key: taken})[MACHINE.key].error is None
    assert rig.node["extra"] == {"weft": SCOPE.mark(MACHINE.key).text()}
    rig.node.update(extra=theirs)
    for state in ("active", "deleting", "cleaning", "clean failed", "available"):
        rig.empty(state)
        assert rig.see(taken).there, state
        if state != "active":
            assert rig.give_back(taken) is not None, state
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.give_back(taken) is None
    seen = rig.see(taken)
    assert seen.status is Status.ABSENT
    assert "with another mark; cleaned from 2026-11-22T21:30:00" in seen.reason
    assert rig.node["extra"] == theirs, "it may be the next pod's by now"


def test_a_mark_that_lands_while_it_is_proved_absent_is_seen(rig: Rig) -> None:
    """Of a lost worker: its request arrives after the machine was read without a mark."""
    ours = {"weft": SCOPE.mark(MACHINE.key).text()}
    rig.ironic.asides = [("GET /baremetal/v1/conductors", lambda: rig.node.update(extra=ours))]
    with pytest.raises(UnknownError, match="a moment ago"):
        rig.see("")
    assert rig.see("").there


def test_an_audit_finds_marked_machines_and_gives_back_clean_ones_alone(rig: Rig) -> None:
    rig.take()
    (found,) = rig.driver.marked("lab", [])
    assert found.owner == SCOPE.owner and found.id.startswith(NODE)
    rig.use()
    assert rig.driver.remove_marked([found])[found.id].error is not None
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    assert rig.driver.remove_marked([found])[found.id].error is None
    assert rig.driver.marked("lab", []) == []


LIES = {
    "a page of HTML": Reply(200, "<html>We'll be back soon</html>", "text/html", own=False),
    "an empty object": Reply(200, {}),
    "an empty list": Reply(200, []),
    "no content": Reply(204),
    "another node": Reply(200, {"uuid": "other", "provision_state": "available", "extra": {}}),
    "a node without a state": Reply(200, {"uuid": NODE}),
    "a proxy's 404": Reply(404, "<html>no such page</html>", "text/html", own=False),
    "forbidden": Reply(403, {"error_message": "no"}),
    "an error": Reply(503, {"error_message": "busy"}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("what", ["", "/history"])
def test_an_answer_that_is_none_gives_nothing_back(rig: Rig, lie: Reply, what: str) -> None:
    taken = rig.take()
    rig.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}{what}", lie)]
    try:
        error = rig.give_back(taken)
        assert error is not None
    except UnknownError:
        pass
    rig.ironic.lies = []
    assert rig.see(taken).there


@pytest.mark.parametrize(
    "state", ["deploying", "wait call-back", "cleaning", "rescue", "deploy failed", "deleting"]
)
def test_what_is_done_with_a_machine_is_told_of_it_and_of_all(rig: Rig, state: str) -> None:
    rig.use()
    assert rig.facts.seen_machines()[NODE].use == ""
    rig.node.update(provision_state=state)
    assert rig.facts.seen_machines()[NODE].use == f"Ironic has it in state {state}"


def test_of_many_machines_in_use_those_that_changed_last_are_seen_in_one_answer(rig: Rig) -> None:
    """A rebuild of the machine that was enrolled last, and deployed first, of three hundred."""
    rig.use()
    ids = [f"{n:08x}-0000-4000-8000-000000000001" for n in range(300)]
    for n, id_ in enumerate(ids):
        changed = f"2026-11-01T00:{n // 60:02}:{n % 60:02}+00:00"
        rig.ironic.nodes[id_] = {**rig.node, "uuid": id_, "provision_updated_at": changed}
    free = {
        **rig.node,
        "uuid": "free",
        "instance_uuid": None,
        "provision_updated_at": "2026-11-23T00:00:00+00:00",
    }
    rig.ironic.nodes["free"] = free
    facts = OpenStackFacts(rig.facts._sessions, machines=[NODE, *ids], site="lab")
    assert not [seen for seen in facts.changed_machines().values() if seen.use]
    again = rig.ironic.nodes[ids[7]]
    again.update(provision_state="deploying", provision_updated_at="2026-11-23T00:00:00+00:00")
    rig.ironic.asked.clear()
    seen = facts.changed_machines()
    assert rig.ironic.asked.count("GET /baremetal/v1/nodes") == 1 and len(seen) == 100
    assert {i: one.use for i, one in seen.items() if one.use} == {ids[7]: "Ironic has it in state deploying"}


def test_an_answer_without_nodes_says_nothing_of_what_is_done_with_them(rig: Rig) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"error": "proxy"}))]
    with pytest.raises(UnknownError):
        rig.facts.seen_machines()
    with pytest.raises(UnknownError):
        rig.facts.changed_machines()


def test_a_machine_that_is_not_listed_is_looked_at(rig: Rig) -> None:
    """A node that somebody has deleted, or that weft's user may not see any more: its server may run or not."""
    rig.use()
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": [{"uuid": "another"}]}))]
    assert rig.facts.seen_machines()[NODE] == SeenMachine(use="Ironic doesn't list it")


@pytest.mark.parametrize("missing", ["uuid", "provision_state", "extra", "power_state"])
def test_a_node_that_is_listed_in_another_shape_is_unfit_alone(rig: Rig, missing: str) -> None:
    """Orders of all others, servers of Nova included, go on."""
    odd = {k: v for k, v in rig.node.items() if k != missing} | {"traits": 7, "properties": "none"}
    rig.ironic.nodes["odd"] = {**odd, "uuid": "odd"} if missing != "uuid" else odd
    hosts = OpenStackFacts(rig.facts._sessions, machines=[NODE, "odd"], site="lab").hosts()
    assert hosts[NODE] == "up"
    if missing != "extra":
        assert hosts["odd"] != "up"


def test_a_conductor_of_another_group_knows_nothing_of_the_machine(rig: Rig) -> None:
    """It is alive, and what Ironic says of the machine is what it was."""
    taken = rig.take()
    assert rig.give_back(taken) is None
    rig.node["conductor_group"] = "hall2"
    with pytest.raises(UnknownError, match="none that is alive in the node's conductor group hall2"):
        rig.see(taken)
    rig.ironic.conductors.append({"hostname": "ironic2", "alive": True, "conductor_group": "hall2"})
    assert "conductor ironic2 is alive" in rig.see(taken).reason


def test_the_steps_of_a_cleaning_are_seen_while_it_runs(rig: Rig) -> None:
    told = {"clean_steps": STEPS, "agent_cached_clean_steps_refreshed": "2026-11-22T21:00:01"}
    rig.node.update(
        provision_state="clean wait", target_provision_state="available", driver_internal_info=told
    )
    seen = rig.facts.seen_machines()[NODE]
    plan = ("deploy.erase_devices", "deploy.verify_erased")
    assert (seen.state, seen.automated, seen.plan, seen.agent) == (
        "clean wait",
        True,
        plan,
        "2026-11-22T21:00:01",
    )
    assert seen.changed == rig.node["provision_updated_at"]
    rig.node.update(target_provision_state="manageable")
    assert not rig.facts.seen_machines()[NODE].automated, "somebody's own cleaning"
    for hidden in ({"clean_steps": None}, {"content": "** Redacted **"}, None, {"clean_steps": [{}]}):
        rig.node.update(driver_internal_info=hidden)
        assert rig.facts.seen_machines()[NODE].plan is None
    rig.node.update(driver_internal_info={"clean_steps": [{**STEPS[0], "execute_on_child_nodes": True}]})
    assert rig.facts.seen_machines()[NODE].plan == (), "another machine's disks"


def test_a_machine_in_rescue_is_neither_broken_nor_given_back(rig: Rig) -> None:
    """Its tenant asked for it, and ends it: nobody has to look at it."""
    taken = rig.take()
    rig.use()
    rig.node.update(provision_state="rescue")
    seen = rig.see(taken)
    assert (seen.status, seen.reason) == (Status.PENDING, "rescue")
    assert isinstance(rig.give_back(taken), NotYetError)
    rig.node.update(provision_state="rescue failed", last_error="no agent")
    assert rig.see(taken).status is Status.BROKEN
