"""What Ironic's history of a node proves about its cleaning. Pure.

Ironic writes an event when a flow of steps begins and one when it ends (`[conductor]
record_step_flows_in_history`, on by default): `automated_cleaning_start` with the steps, `automated_cleaning_end` with
how it went, and the same of deployments and services. Whatever ran on the machine since its last cleaning counts
against it, whoever asked for it. Where these events aren't written any more, an old cleaning would count for ever:
so the node may not have changed its state since, but for the change that ends the cleaning. Both times are of one
conductor, which writes them one right after the other.

Source: ironic 39, `ironic.conductor.utils.log_step_flow_history`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from weft.model.site import Cloud

CLEANING = "automated_cleaning"
USING = frozenset({"deployment", "servicing"})
"""Flows after which a machine must be cleaned again."""
ERASING = {
    "erase_devices": "disks erased",
    "erase_devices_express": "disks erased (NVMe secure erase, metadata of others)",
    "erase_devices_metadata": "metadata of disks erased",
}
"""Step -> what it does; a cleaning without any of these proves nothing."""


END = timedelta(minutes=1)
"""Between the end of a cleaning and the state `available` that follows it."""


@dataclass(frozen=True, slots=True)
class Demands:
    """What a site demands of every cleaning, besides a step that erases disks.

    Attributes:
        steps: as interface.step.
        firmware: component -> versions that are allowed.
        unchanged: all other components have the version that Ironic read first.
        bios: setting -> value.
    """

    steps: frozenset[str] = frozenset()
    firmware: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    bios: Mapping[str, str] = field(default_factory=dict[str, str])
    unchanged: bool = False

    @classmethod
    def of(cls, cloud: Cloud) -> Demands:
        firmware = {component: frozenset(versions) for component, versions in cloud.firmware.items()}
        steps = frozenset(cloud.cleaning_steps)
        return cls(steps, firmware, cloud.bios_settings, cloud.firmware_unchanged)


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A cleaning that ran to its end.

    Attributes:
        steps: as `interface.step`, in their order.
        began, ended: as Ironic has them (ISO 8601).
        erased: what was done to the disks.
        checked: what was compared with the site's lists, besides.
    """

    steps: tuple[str, ...]
    began: str
    ended: str
    erased: str
    checked: str = ""

    def text(self) -> str:
        """For the receipt."""
        return f"cleaned from {self.began} to {self.ended}: {', '.join(self.steps)}; {self.erased}" + (
            f"; {self.checked}" if self.checked else ""
        )


def last_cleaning(
    history: Sequence[Mapping[str, Any]], changed: str, demanded: Collection[str] = ()
) -> Cleaning | str:
    """The cleaning after everything else that ran on the machine, or why there is none.

    Args:
        history: Ironic's events of a node with details, oldest first, as it lists them.
        changed: when the node's state changed last (its `provision_updated_at`, ISO 8601).
        demanded: steps that it must have run, as interface.step.
    """
    found: Cleaning | str = "Ironic has no record of a cleaning"
    started: Mapping[str, Any] | None = None
    for event in history:
        flow, _, edge = str(event.get("event_type") or "").rpartition("_")
        if flow in USING:
            found, started = f"it was used ({flow}) and not cleaned since", None
        elif flow == CLEANING and edge == "start":
            found, started = f"its cleaning began at {event.get('created_at')} and has no end", event
        elif flow == CLEANING and edge == "end":
            found, started = _ended(started, event), None
    if not isinstance(found, Cleaning):
        return found
    if lacking := sorted(set(demanded).difference(found.steps)):
        ran = ", ".join(found.steps)
        return f"its cleaning lacked {', '.join(lacking)}, which the site demands (steps: {ran})"
    return _unless_changed(found, changed)


def _unless_changed(cleaning: Cleaning, changed: str) -> Cleaning | str:
    ended, then = _moment(cleaning.ended), _moment(changed)
    if ended is None or then is None:
        return f"its cleaning ended at {cleaning.ended!r} and its state changed at {changed!r}: these can't be compared"
    if then - ended > END:
        after = "what ran since isn't recorded (Ironic's [conductor]record_step_flows_in_history)"
        return f"its cleaning ended at {cleaning.ended}, and its state changed at {changed}: {after}"
    return cleaning


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _ended(start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> Cleaning | str:
    if end.get("severity") != "INFO" or "completed successfully" not in str(end.get("event")):
        return f"its cleaning failed: {_short(end.get('event'))}"
    if start is None:
        return "its cleaning has an end and no beginning"
    steps = _steps(str(start.get("event") or ""))
    if steps is None:
        return f"the steps of its cleaning can't be read: {_short(start.get('event'))}"
    erased = [ERASING[name] for _, name in steps if name in ERASING]
    if not erased:
        ran = ", ".join(name for _, name in steps) or "none"
        return f"its cleaning had no step that erases disks (steps: {ran})"
    every = tuple(f"{interface}.{name}" for interface, name in steps)
    return Cleaning(every, str(start.get("created_at")), str(end.get("created_at")), ", ".join(erased))


def _steps(event: str) -> list[tuple[str, str]] | None:
    """Interface and name of each, from `… with steps=[{'interface': 'deploy', 'step': …}]`, a Python literal."""
    try:
        read = ast.literal_eval(event.partition("steps=")[2])
        rows = cast(list[Mapping[str, object]], read)
        return [(str(row["interface"]), str(row["step"])) for row in rows]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return None


def _short(text: object) -> str:
    return " ".join(str(text).split())[:200]
