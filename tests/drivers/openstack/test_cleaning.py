"""What Ironic's history and what weft watched prove about a machine's cleaning."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.drivers.openstack.tinyironic import STEPS, cleaned, deployed, event
from weft.drivers.openstack.cleaning import MEMBERS, UNSEEN, Cleaning, last_cleaning
from weft.ports.cleanings import WatchedCleaning

AT, ENDED = "2026-11-22T21:30:00+00:00", "2026-11-22T21:30:01+00:00"
NODE: dict[str, Any] = {"provision_updated_at": ENDED}
WATCHED = WatchedCleaning(
    ("deploy.erase_devices",),
    "a1",
    datetime(2026, 11, 22, 21, 10, tzinfo=UTC),
    datetime(2026, 11, 22, 21, 30, 5, tzinfo=UTC),
    "2026-11-22T21:30:01",
)
AGENTS = cleaned(AT)[1:]
"""The history of a cleaning by Ironic's agent, without the event of its start."""
METADATA = [{"interface": "deploy", "step": "erase_devices_metadata", "priority": 10}]


def said(found: Cleaning | str) -> str:
    return found.text() if isinstance(found, Cleaning) else found


def test_cleaning_by_the_agent_has_the_steps_that_weft_saw() -> None:
    found = last_cleaning([*deployed(), *AGENTS], NODE, WATCHED)
    assert isinstance(found, Cleaning) and found.steps == ("deploy.erase_devices",)
    assert found.text() == (
        f"cleaned until {AT}: deploy.erase_devices; disks erased; {MEMBERS}; "
        "steps seen by weft from 2026-11-22 21:10:00+00:00 to 2026-11-22 21:30:05+00:00"
    )


@pytest.mark.parametrize(
    ("raid", "steps", "whole"),
    [
        ("agent", ("raid.delete_configuration", "deploy.erase_devices"), True),
        ("agent", ("raid.delete_configuration", "deploy.erase_devices_metadata", "deploy.burnin_disk"), True),
        ("agent", ("deploy.erase_devices", "raid.delete_configuration"), False),
        ("agent", ("deploy.erase_devices_express",), False),
        # this interface deletes the RAID controller's arrays
        ("redfish", ("raid.delete_configuration", "deploy.erase_devices"), False),
    ],
)
def test_raid_members_count_as_unerased_unless_the_array_was_deleted(
    raid: str, steps: tuple[str, ...], whole: bool
) -> None:
    """A tenant with root can build arrays of its disks. A site that demands the step claims no machine without it."""
    node, watched = {**NODE, "raid_interface": raid}, replace(WATCHED, plan=steps)
    found = last_cleaning(AGENTS, node, watched)
    assert isinstance(found, Cleaning) and (MEMBERS in found.text()) is not whole
    demanded = last_cleaning(AGENTS, node, watched, ["raid.delete_configuration"])
    assert isinstance(demanded, Cleaning) is whole
    if not whole and "raid.delete_configuration" in steps:
        assert "left members of a Linux RAID as they were" in said(demanded)


def test_steps_of_ironic_itself_do_not_depend_on_raid() -> None:
    history = logged("2026-11-22T21:00:30+00:00")
    node = {"provision_updated_at": history[-1]["created_at"]}
    assert MEMBERS not in said(last_cleaning(history, node))


@pytest.mark.parametrize(
    "watched", [None, replace(WATCHED, ended=""), replace(WATCHED, ended="2026-11-22T21:29:59")]
)
def test_unwatched_cleaning_by_the_agent_proves_nothing(watched: WatchedCleaning | None) -> None:
    assert last_cleaning([*deployed(), *AGENTS], NODE, watched) == UNSEEN


def test_watched_steps_without_their_end_prove_nothing() -> None:
    history = [*AGENTS, event("cleaning", "Clean step erase_devices failed", AT, "ERROR")]
    assert isinstance(last_cleaning(history, NODE, WATCHED), Cleaning), "errors after it change nothing"
    for since in (deployed(AT), [event("manual_cleaning_end", "Manual Cleaning completed", AT)]):
        assert "not cleaned since" in said(last_cleaning([*AGENTS, *since], NODE, WATCHED))
    late = {**NODE, "provision_updated_at": "2026-11-22T21:40:00+00:00"}
    there = replace(WATCHED, ended=late["provision_updated_at"])
    assert "and its state changed at" in said(last_cleaning(AGENTS, late, there))
    assert "no record" in said(last_cleaning([], NODE, WATCHED))


def logged(ended: str, *between: dict[str, Any], steps: list[dict[str, Any]] = STEPS) -> list[dict[str, Any]]:
    """A history with a cleaning without an agent that started at 21:00, further events, and an end."""
    return [cleaned("2026-11-22T21:00:00+00:00", steps)[0], *between, cleaned(ended)[1]]


SPANNING = {
    "a step that failed later": logged(
        "2026-11-22T21:00:30+00:00",
        event("cleaning", "Clean step erase_devices failed", "2026-11-22T21:00:10+00:00", "ERROR"),
    ),
    "an abort, of which there is no event": logged(AT),
    "an operator's own cleaning": logged(
        "2026-11-22T21:00:30+00:00",
        event("manual_cleaning_start", "Starting manual cleaning with steps=[]", "2026-11-22T21:00:10+00:00"),
    ),
}


@pytest.mark.parametrize("history", SPANNING.values(), ids=SPANNING.keys())
def test_start_is_not_paired_with_another_cleanings_end(history: list[dict[str, Any]]) -> None:
    """The second cleaning booted an agent, without the step that failed, and succeeded."""
    node = {"provision_updated_at": history[-1]["created_at"]}
    assert last_cleaning(history, node) == UNSEEN


def test_only_steps_both_logged_and_watched_count() -> None:
    history = logged("2026-11-22T21:00:30+00:00", steps=METADATA)
    ended = history[-1]["created_at"]
    node, watched = {"provision_updated_at": ended}, replace(WATCHED, ended=ended)
    assert "no step that erases disks (steps: none)" in said(last_cleaning(history, node, watched))
    assert "as Ironic logged them" in said(last_cleaning(history, node))
    long = last_cleaning(logged(AT, steps=METADATA), NODE, WATCHED)
    assert isinstance(long, Cleaning) and long.steps == WATCHED.plan, "the start may be another cleaning's"


def test_disks_the_agent_was_configured_to_skip_are_not_reported_erased() -> None:
    """`skip_block_devices` of any erasure, a shred that writes nothing, and disks that can't be written."""
    sparing = {**NODE, "properties": {"skip_block_devices": [{"name": "/dev/sdb"}]}}
    assert "left disks as they are (properties/skip_block_devices: [{'name': '/dev/sdb'}])" in said(
        last_cleaning(AGENTS, sparing, WATCHED)
    )
    for info, what in (
        ({}, "; disks erased; "),
        ({"agent_erase_devices_iterations": 0, "agent_erase_devices_zeroize": True}, "; disks erased; "),
        ({"agent_erase_devices_iterations": 0, "agent_erase_devices_zeroize": False}, "no step that erases"),
        ({"agent_erase_skip_read_only": True}, "; disks erased that can be written; "),
    ):
        node = {**NODE, "driver_internal_info": info}
        assert what in said(last_cleaning(AGENTS, node, WATCHED)), info
    other = replace(WATCHED, plan=("deploy.erase_devices_metadata",))
    assert "; metadata of disks erased that can be written; " in said(last_cleaning(AGENTS, NODE, other))


def test_steps_on_other_machines_do_not_count() -> None:
    history = logged("2026-11-22T21:00:30+00:00", steps=[{**STEPS[0], "execute_on_child_nodes": True}])
    node = {"provision_updated_at": history[-1]["created_at"]}
    assert "no step that erases disks (steps: none)" in said(last_cleaning(history, node))
