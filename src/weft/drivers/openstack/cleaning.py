"""Proof of how a machine was cleaned: Ironic's history of it, and what weft has watched. Pure.

Ironic writes an event when a flow of steps begins and one when it ends (from release 31.0.0, if `[conductor]
record_step_flows_in_history` is on, the default): `automated_cleaning_end` states the result. The steps are
only in `automated_cleaning_start`, which is missing wherever an agent was booted for the cleaning; weft has
watched those (`weft.planning.watching`). Anything that ran on the machine since its last cleaning invalidates
it, no matter who started it. If these events stopped being written, an old cleaning would count forever: so
the node's state must not have changed since, except by the change that ends the cleaning. One conductor
writes both times, one right after the other; a cleaning that was watched to its end has the time of that
change, too.

An aborted cleaning leaves no event, and steps that fail after they began leave no end. So a start belongs to
an end only if there was no time in between to abort a cleaning and boot an agent for another.

A tenant with root may have made disks members of a Linux RAID, even of an incomplete one. The agent's erasing
steps skip members, and any disk with a partition that is one; of an array that they can assemble they erase
the contents. So these steps prove nothing about members, unless the agent deleted all arrays before them.

Source: ironic 39, `ironic.conductor.utils.log_step_flow_history`, `ironic.conductor.cleaning`; what the agent
skips: ironic-python-agent 11, `hardware.GenericHardwareManager.erase_block_device`, `_list_erasable_devices`,
`_is_linux_raid_member`, `delete_configuration`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from weft.model.ids import moment_of
from weft.model.site import Cloud
from weft.ports.cleanings import LastClaim, WatchedCleaning

CLEANING = "automated_cleaning"
FLOWS = frozenset({"deployment", "servicing", "manual_cleaning"})
"""Flows after which a machine must be cleaned again."""
ERASING = {
    "erase_devices": "disks erased",
    "erase_devices_express": "disks erased that can be written (NVMe secure erase where it works, metadata of others)",
    "erase_devices_metadata": "metadata of disks erased that can be written",
}
"""Step -> what it does; a cleaning without any of these proves nothing."""
END = timedelta(minutes=1)
"""Longest time between the end of a cleaning and the state `available` that follows it."""
AT_ONCE = timedelta(minutes=1)
"""Longest time between start and end of a cleaning that wasn't watched: no machine boots an agent and is
erased in less."""
NO_RAID = "raid.delete_configuration"
MEMBERS = "members of a Linux RAID, if there were any, left as they were"
NONE = (
    "Ironic has no record of a cleaning: it keeps one from release 31.0.0 on, "
    "with [conductor]record_step_flows_in_history"
)
UNSEEN = (
    "Ironic records no steps of cleanings by its agent, and weft didn't watch this one: "
    "it must be cleaned again while weft serves"
)


@dataclass(frozen=True, slots=True)
class Demands:
    """What a site demands of its machines, and of every cleaning in addition to a step that erases disks.

    Attributes:
        owners: ids of projects, besides weft's own, that may be a machine's owner or lessee in Ironic.
        steps: as interface.step.
        firmware: component -> versions that are allowed.
        unchanged: all other components have the version that Ironic read first.
        bios: setting -> value.
    """

    steps: frozenset[str] = frozenset()
    firmware: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    bios: Mapping[str, str] = field(default_factory=dict[str, str])
    unchanged: bool = False
    owners: frozenset[str] = frozenset()

    @classmethod
    def of(cls, cloud: Cloud) -> Demands:
        """What the site demands of a cleaning in this cloud."""
        firmware = {component: frozenset(versions) for component, versions in cloud.firmware.items()}
        steps, owners = frozenset(cloud.cleaning_steps), frozenset(cloud.machine_owners)
        return cls(steps, firmware, cloud.bios_settings, cloud.firmware_unchanged, owners)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A cleaning that ran to its end.

    Attributes:
        steps: as `interface.step`, in their order.
        began, ended: as Ironic has them (ISO 8601); it has no beginning of a cleaning by its agent.
        erased: what was done to the disks.
        spared: disks that weren't erased, if any.
        seen: where the steps are known from.
        checked: what else was compared with the site's lists.
    """

    steps: tuple[str, ...]
    began: str
    ended: str
    erased: str
    seen: str
    checked: str = ""
    spared: str = ""

    def text(self) -> str:
        """The cleaning in words, for the receipt."""
        when = f"from {self.began} to {self.ended}" if self.began else f"until {self.ended}"
        parts = [f"cleaned {when}: {', '.join(self.steps)}", self.erased, self.spared, f"steps {self.seen}"]
        return "; ".join(filter(None, (*parts, self.checked)))


def last_cleaning(
    history: Sequence[Mapping[str, Any]],
    node: Mapping[str, Any],
    watched: WatchedCleaning | None = None,
    demanded: Collection[str] = (),
) -> Cleaning | str:
    """The cleaning that came after everything else that ran on the machine, or why there is none.

    Args:
        history: Ironic's events of a node with details, oldest first, as it lists them.
        node: as Ironic has it.
        watched: the last cleaning that weft has watched, if any.
        demanded: steps that it must have run, as interface.step.
    """
    changed = str(node.get("provision_updated_at") or "")
    ended = _last_end(history)
    if isinstance(ended, str):
        return ended
    start, end = ended
    found = _cleaning(start, end, watched if _ended_it(watched, changed) else None, node)
    if isinstance(found, str):
        return found
    if found.spared and NO_RAID in demanded and NO_RAID in found.steps:
        how = f"raid interface {node.get('raid_interface')}, steps: {', '.join(found.steps)}"
        return f"its cleaning left members of a Linux RAID as they were: the agent deletes it first ({how})"
    if lacking := sorted(set(demanded).difference(found.steps)):
        ran = ", ".join(found.steps)
        return f"its cleaning lacked {', '.join(lacking)}, which the site demands (steps: {ran})"
    return _unless_changed(found, changed)


def set_back(cleaning: Cleaning, taken: LastClaim | None) -> str:
    """Why the cleaning may be older than the machine's last use, though Ironic knows of no use since; empty if it
    isn't.

    An Ironic whose database was restored from a backup shows a machine as it was then: free, and cleaned.

    Args:
        taken: by which cleaning weft last took the machine. Both times are by Ironic's clock.
    """
    ended = moment_of(cleaning.ended)
    if taken is None or ended is None or ended > taken.ended or (ended == taken.ended and not taken.used):
        return ""
    then = "it must be cleaned again: `openstack baremetal node manage`, then `provide`"
    last = f"{taken.ended.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    why = "was used since" if ended == taken.ended else f"was cleaned at {last}, too, and may have been used"
    said = f"the last cleaning that Ironic knows of ended at {cleaning.ended}, but it {why}"
    return f"{said}: its database was set back; {then}"


def ended_at(cleaning: Cleaning) -> datetime:
    """When the cleaning ended; a proved cleaning has such a time."""
    ended = moment_of(cleaning.ended)
    assert ended is not None
    return ended


def _last_end(
    history: Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]] | str:
    """The end of the last cleaning and its start, if there is one; or why there is none."""
    found: tuple[Mapping[str, Any] | None, Mapping[str, Any]] | str = NONE
    start: Mapping[str, Any] | None = None
    for event in history:
        flow, _, edge = str(event.get("event_type") or "").rpartition("_")
        if flow in FLOWS:
            found, start = f"it was used ({flow}) and not cleaned since", None
        elif flow == CLEANING and edge == "start":
            found, start = f"its cleaning began at {event.get('created_at')} and has no end", event
        elif flow == CLEANING and edge == "end":
            well = event.get("severity") == "INFO" and "completed successfully" in str(event.get("event"))
            found = (start, event) if well else f"its cleaning failed: {_short(event.get('event'))}"
            start = None
        elif event.get("severity") == "ERROR":
            start = None
            if isinstance(found, str):
                found = f"no cleaning since: {_short(event.get('event'))}"
    return found


def _ended_it(watched: WatchedCleaning | None, changed: str) -> bool:
    """Whether the machine became available at the end of the watched cleaning, and hasn't changed its state since."""
    then, now = moment_of(watched.ended if watched else ""), moment_of(changed)
    return then is not None and then == now


def _cleaning(
    start: Mapping[str, Any] | None,
    end: Mapping[str, Any],
    watched: WatchedCleaning | None,
    node: Mapping[str, Any],
) -> Cleaning | str:
    began, ended = str(start.get("created_at") if start else ""), str(end.get("created_at"))
    logged: tuple[str, ...] | None = None
    if start is not None and _is_at_once(began, ended):
        logged = _steps(str(start.get("event") or ""))
        if logged is None:
            return f"the steps of its cleaning can't be read: {_short(start.get('event'))}"
    if logged is None and watched is None:
        return UNSEEN
    plan = logged or () if watched is None else watched.plan
    steps = tuple(step for step in plan if logged is None or step in logged)
    if why := _spared(node):
        return why
    erased = {step: text for step in steps if (text := _erased(step, node))}
    if not erased:
        return f"its cleaning had no step that erases disks (steps: {', '.join(steps) or 'none'})"
    seen = f"seen by weft from {watched.since} to {watched.looked}" if watched else "as Ironic logged them"
    # Steps that Ironic logged weren't its agent's, which alone leaves members of a RAID as they were.
    spared = MEMBERS if logged is None and not _without_raid(steps, next(iter(erased)), node) else ""
    began = began if logged is not None else ""
    return Cleaning(steps, began, ended, ", ".join(erased.values()), seen, spared=spared)


def _without_raid(steps: Sequence[str], erasing: str, node: Mapping[str, Any]) -> bool:
    """Whether the agent deleted every Linux RAID before erasing; other RAID interfaces delete other kinds of
    arrays."""
    return node.get("raid_interface") == "agent" and NO_RAID in steps[: steps.index(erasing)]


def _is_at_once(began: str, ended: str) -> bool:
    first, last = moment_of(began), moment_of(ended)
    return first is not None and last is not None and last - first < AT_ONCE


def _spared(node: Mapping[str, Any]) -> str:
    """Why disks were skipped, whatever steps ran; empty if none were."""
    properties: object = node.get("properties")
    listed = cast(Mapping[str, object], properties) if isinstance(properties, Mapping) else {}
    if not (spared := listed.get("skip_block_devices")):
        return ""
    then = "remove that property and clean the machine again"
    return f"its cleaning left disks as they are (properties/skip_block_devices: {_short(spared)}): {then}"


def _erased(step: str, node: Mapping[str, Any]) -> str:
    """What a step did to the disks, given the agent's configuration; empty if nothing that counts."""
    name = step.rpartition(".")[2]
    info = internal_info(node)
    if name == "erase_devices":
        if (
            info.get("agent_erase_devices_iterations") == 0
            and info.get("agent_erase_devices_zeroize") is False
        ):
            return ""  # disks without secure erase aren't overwritten either
        if info.get("agent_erase_skip_read_only"):
            return "disks erased that can be written"
    return ERASING.get(name, "")


def _unless_changed(cleaning: Cleaning, changed: str) -> Cleaning | str:
    ended, then = moment_of(cleaning.ended), moment_of(changed)
    if ended is None or then is None:
        return f"its cleaning ended at {cleaning.ended!r} and its state changed at {changed!r}: these can't be compared"
    if then - ended > END:
        after = "what ran since isn't recorded (Ironic's [conductor]record_step_flows_in_history)"
        return f"its cleaning ended at {cleaning.ended}, and its state changed at {changed}: {after}"
    return cleaning


def _steps(event: str) -> tuple[str, ...] | None:
    """Steps in an event such as `… with steps=[{'interface': 'deploy', 'step': …}]`, a Python literal."""
    try:
        return steps_here(ast.literal_eval(event.partition("steps=")[2]))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def internal_info(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ironic's internal record of a node; for a user that may not see it, Ironic returns only a sentence
    saying so."""
    info: object = node.get("driver_internal_info")
    return cast(Mapping[str, Any], info) if isinstance(info, Mapping) else {}


def steps_here(rows: object) -> tuple[str, ...] | None:
    """A list of Ironic's steps as interface.step, without those on other machines; None if it isn't such a
    list."""
    if not isinstance(rows, list):
        return None
    try:
        steps = cast(list[Mapping[str, object]], rows)
        here = [step for step in steps if not step.get("execute_on_child_nodes")]
        return tuple(f"{step['interface']}.{step['step']}" for step in here)
    except (AttributeError, KeyError, TypeError):
        return None


def _short(text: object) -> str:
    return " ".join(str(text).split())[:200]
