"""Which cleaning of a machine observed steps belong to. Pure.

Ironic shows the steps of a cleaning while it runs, and drops them right before its end; its history has them only if no
agent was booted for it. An aborted cleaning leaves no trace at all, and the next one boots its agent before it has
steps. So steps count for the end that follows them only if the machine was observed at short intervals in between, in
no other state, not waiting for an agent, and if Ironic has asked no agent for steps since.

Source: ironic 39, `conductor.cleaning`, `drivers.modules.agent_base` (`_heartbeat_clean_wait`, `refresh_steps`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from weft.ports.cleanings import WatchedCleaning
from weft.ports.occupants import SeenMachine

GAP = timedelta(seconds=30)
"""Longest gap between two observations. Aborting a cleaning and booting an agent for the next one takes longer."""
WAITING = frozenset({"clean wait", "clean hold"})
CLEANING = WAITING | {"cleaning"}


def follow(
    watched: WatchedCleaning | None, seen: SeenMachine, asked: datetime, now: datetime
) -> WatchedCleaning | None:
    """What is known after an observation; None: no cleaning was watched.

    Args:
        watched: what was known before.
        asked, now: times right before and after the observation, by one clock.
    """
    if not seen.state:
        return watched
    going = watched
    if watched is not None and (watched.ended or now - watched.looked > GAP):
        going = None
    if seen.state in CLEANING:
        going = _cleaning(going, seen, asked)
    elif seen.state == "available" and going is not None and going.agent == seen.agent:
        going = replace(going, looked=asked, ended=seen.changed)
    else:
        going = None
    return watched if going is None and watched is not None and watched.ended else going


def _cleaning(going: WatchedCleaning | None, seen: SeenMachine, asked: datetime) -> WatchedCleaning | None:
    if not seen.automated:
        return None
    if seen.plan is not None:
        same = going is not None and (going.plan, going.agent) == (seen.plan, seen.agent)
        return WatchedCleaning(seen.plan, seen.agent, going.since if going and same else asked, asked)
    if going is None or seen.state in WAITING:
        return None
    return replace(going, looked=asked)  # its steps are over, or haven't begun
