"""Machines are freed only with the record of a cleaning, and with the site's firmware."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.drivers.openstack.machinerig import OTHER, SCOPE, Remembered, Rig, strictly
from tests.drivers.openstack.machinerig import house as house
from tests.drivers.openstack.machinerig import rig as rig
from tests.drivers.openstack.tinycloud import Reply, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE, STEPS, TinyIronic, cleaned, deployed, event
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.model.errors import NotYetError, TemporaryError, WeftError


def test_machine_without_a_record_of_a_cleaning_is_not_claimed(rig: Rig) -> None:
    rig.ironic.history[NODE] = []
    with pytest.raises(TemporaryError, match="no record of a cleaning"):
        rig.claim()


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
def test_machine_without_a_whole_cleaning_since_its_use_is_kept(
    rig: Rig, since: list[dict[str, object]]
) -> None:
    claimed = rig.claim()
    rig.use()
    rig.empty()
    rig.ironic.history[NODE] += since
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and not isinstance(error, NotYetError)
    assert rig.see(claimed).there
    del rig.node["extra"]
    assert rig.see(claimed).there, "removing its mark by hand doesn't make it clean"


def test_cleaning_from_before_the_pod_does_not_count_even_without_recorded_steps(rig: Rig) -> None:
    """`record_step_flows_in_history` was switched off, so later use and cleaning leave no record."""
    claimed = rig.claim()
    rig.node.update(provision_state="active", instance_uuid="srv-1", power_state="power on")
    rig.empty()
    rig.node.update(provision_updated_at="2026-11-22T21:30:00+00:00")
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and "record_step_flows_in_history" in str(error)
    assert rig.see(claimed).there
    with pytest.raises(TemporaryError, match="carries the mark"):
        rig.claim(OTHER)
    del rig.node["extra"]
    assert rig.see(claimed).there
    with pytest.raises(TemporaryError, match="isn't recorded"):
        rig.claim(OTHER)
    rig.ironic.clean(NODE, "2026-11-22T22:00:00+00:00")
    assert rig.free(claimed) is None


def test_ironic_restored_from_a_backup_proves_nothing_about_later_use(rig: Rig, tmp_path: Path) -> None:
    """It shows the machine as it was: free and cleaned, with a record that was true then."""
    memory = Remembered()
    with strictly(rig, tmp_path, Demands(), memory) as one:
        backup = copy.deepcopy((one.node, one.ironic.history[NODE]))
        claimed = one.claim()
        memory.use()
        one.use()
        one.ironic.nodes[NODE], one.ironic.history[NODE] = copy.deepcopy(backup)
        error = one.free(claimed)
        assert isinstance(error, TemporaryError) and error.alarming and "database was set back" in str(error)
        assert one.see(claimed).there
        with pytest.raises(TemporaryError, match="was used since: its database was set back"):
            one.claim(OTHER)
        one.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
        assert one.free(claimed) is None
        one.free(one.claim(OTHER))
        one.ironic.nodes[NODE], one.ironic.history[NODE] = copy.deepcopy(backup)
        with pytest.raises(
            TemporaryError, match="was cleaned at 2026-11-22T21:30:00Z, too, and may have been used"
        ):
            one.claim()


def test_claimed_but_unused_machine_is_still_clean(rig: Rig, tmp_path: Path) -> None:
    with strictly(rig, tmp_path, Demands(), Remembered()) as one:
        for scope in (SCOPE, OTHER, SCOPE):
            assert one.free(one.claim(scope), scope) is None


def test_cleaning_without_a_demanded_step_does_not_count(rig: Rig, tmp_path: Path) -> None:
    """Metadata was erased and the disks weren't, or the BIOS wasn't reset: it is kept until a cleaning did all
    steps.
    """
    claimed = rig.claim()
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
        error = strict.free(claimed)
        assert isinstance(error, TemporaryError) and error.alarming
        assert "lacked bios.factory_reset, which the site demands" in str(error)
        assert strict.see(claimed).there
        whole = [*STEPS, {"interface": "bios", "step": "factory_reset", "priority": 1}]
        ironic.history[NODE] += cleaned("2026-11-22T22:00:00+00:00", whole)
        strict.node.update(provision_updated_at="2026-11-22T22:00:01+00:00")
        assert strict.free(claimed) is None
        assert "bios.factory_reset" in strict.see(claimed).reason
        ironic.history[NODE] += cleaned("2026-11-22T23:00:00+00:00")
        with pytest.raises(TemporaryError, match="lacked bios"):
            strict.claim(OTHER)
        driver.close()
        sessions.close()


def test_machine_without_its_target_arrays_is_neither_claimed_nor_freed(
    rig: Rig,
) -> None:
    """A cleaning deleted them and didn't create them again. Arrays of a RAID controller aren't checked here."""
    array = {"raid_level": "1", "size_gb": 200, "controller": "software"}
    claimed = rig.claim()
    rig.use()
    rig.empty()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.node.update(raid_interface="agent", target_raid_config={"logical_disks": [array]}, raid_config={})
    error = rig.free(claimed)
    assert isinstance(error, TemporaryError) and "it has 0 arrays, and should have 1" in str(error)
    rig.node.update(raid_config={"logical_disks": [{**array, "volume_name": "md0"}], "last_updated": "now"})
    assert rig.free(claimed) is None
    rig.node.update(raid_config={"logical_disks": [{**array, "raid_level": "0"}]})
    with pytest.raises(TemporaryError, match="array 0 has raid_level 0, it should be 1"):
        rig.claim()
    rig.node.update(raid_interface="redfish")
    assert rig.claim()


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
def test_machine_with_disallowed_firmware_is_kept(
    rig: Rig, tmp_path: Path, hardware: dict[str, list[dict[str, object]]], why: str
) -> None:
    """A tenant with root can flash it, and erasing disks doesn't help."""
    claimed = rig.claim()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, LISTED) as strict:
        strict.ironic.hardware = {"firmware": FIRMWARE, "bios": BIOS} | hardware
        error = strict.free(claimed)
        assert isinstance(error, TemporaryError) and error.alarming and re.search(why, str(error)), error
        assert strict.see(claimed).there
        strict.ironic.hardware = {"firmware": FIRMWARE, "bios": BIOS}
        assert strict.free(claimed) is None
        said = strict.see(claimed).reason
        listed = "firmware of bios, bmc and 1 BIOS settings as the site lists them, as Ironic last read them"
        assert listed in said
        strict.ironic.hardware |= hardware
        with pytest.raises(TemporaryError, match="as the site demands"):
            strict.claim(OTHER)


@pytest.mark.parametrize(
    "lie",
    [
        Reply(503, {}),
        Reply(200, {"firmware": None}),
        Reply(200, {"firmware": [{"component": "bios"}]}),
        Reply(404, {}),
    ],
)
def test_unreadable_firmware_keeps_the_machine(rig: Rig, tmp_path: Path, lie: Reply) -> None:
    claimed = rig.claim()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, LISTED) as strict:
        strict.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}/firmware", lie)]
        assert isinstance(strict.free(claimed), WeftError) and strict.see_mark()


NIC = {"component": "nic:NIC.Slot.1", "initial_version": "28.39.1002"}


@pytest.mark.parametrize(
    ("now", "flashed", "why"),
    [
        ("28.39.1002", None, ""),
        # Ironic records every change that it reads there, whatever flashed it
        ("66.6.6666", "66.6.6666", "firmware of nic:NIC.Slot.1 is 66.6.6666"),
        ("66.6.6666", None, "firmware of nic:NIC.Slot.1 is 66.6.6666; it was 28.39.1002 at the enrolment"),
        ("66.6.6666", "28.43.2566", "firmware of nic:NIC.Slot.1 is 66.6.6666"),
        (None, None, "firmware of nic:NIC.Slot.1 isn't known to Ironic any more"),
    ],
)
def test_unlisted_firmware_must_equal_that_of_the_enrolment(
    rig: Rig, tmp_path: Path, now: str | None, flashed: str | None, why: str
) -> None:
    """A listed component may have any of its listed versions."""
    claimed = rig.claim()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, replace(LISTED, unchanged=True)) as strict:
        changed = {**NIC, "current_version": now, "last_version_flashed": flashed}
        strict.ironic.hardware = {"firmware": [*FIRMWARE, changed], "bios": BIOS}
        error = strict.free(claimed)
        assert (why in str(error) and error is not None) if why else error is None
        if not why:
            assert "all other firmware as at the enrolment" in strict.see(claimed).reason


def test_unread_firmware_does_not_count_as_unchanged(rig: Rig, tmp_path: Path) -> None:
    """A node with `no-firmware`, or a BMC without a firmware inventory."""
    claimed = rig.claim()
    rig.use()
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.empty()
    with strictly(rig, tmp_path, Demands(unchanged=True)) as strict:
        strict.ironic.hardware = {"firmware": []}
        assert "Ironic has read no firmware of it" in str(strict.free(claimed)) and strict.see_mark()


@pytest.mark.parametrize("changed", [None, "", "yesterday", 7])
def test_state_without_a_change_time_proves_no_cleaning(rig: Rig, changed: object) -> None:
    claimed = rig.claim()
    rig.node.update(provision_updated_at=changed)
    assert "can't be compared" in str(rig.free(claimed))
    assert rig.see(claimed).there


def test_steps_of_a_running_cleaning_are_watched(rig: Rig) -> None:
    info = {"clean_steps": STEPS, "agent_cached_clean_steps_refreshed": "2026-11-22T21:00:01"}
    rig.node.update(
        provision_state="clean wait", target_provision_state="available", driver_internal_info=info
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
    assert not rig.facts.seen_machines()[NODE].automated, "a cleaning by an operator"
    for hidden in ({"clean_steps": None}, {"content": "** Redacted **"}, None, {"clean_steps": [{}]}):
        rig.node.update(driver_internal_info=hidden)
        assert rig.facts.seen_machines()[NODE].plan is None
    rig.node.update(driver_internal_info={"clean_steps": [{**STEPS[0], "execute_on_child_nodes": True}]})
    assert rig.facts.seen_machines()[NODE].plan == (), "disks of another machine"
