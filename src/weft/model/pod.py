"""How far a pod is in its life (`Phase`) and how it is (`Condition`): two things. `summary` makes one word of them.

A pod that FAILED has come to no end: its phase goes on, and what it has is looked at as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.errors import ConflictError


class Phase(StrEnum):
    """Where a pod is in its life; it only goes forward."""

    ORDERED = "ordered"
    BUILDING = "building"
    SERVING = "serving"
    RELEASING = "releasing"
    RELEASED = "released"


TRANSITIONS: Mapping[Phase, Mapping[Phase, str]] = {
    Phase.ORDERED: {
        Phase.BUILDING: "nodes and numbers claimed",
        Phase.RELEASED: "released before it had anything, or its lease ended",
    },
    Phase.BUILDING: {
        Phase.SERVING: "everything was made and read back once",
        Phase.RELEASING: "release asked, or lease ended",
    },
    Phase.SERVING: {
        Phase.RELEASING: "release asked, or lease ended",
    },
    Phase.RELEASING: {
        Phase.RELEASED: "every plane read back clean, receipt signed; or abandoned by an operator",
    },
    Phase.RELEASED: {},
}


def check_transition(old: Phase, new: Phase) -> None:
    """Raise `ConflictError` unless `new` may follow `old` (staying is always allowed)."""
    if new is not old and new not in TRANSITIONS[old]:
        allowed = ", ".join(TRANSITIONS[old]) or "nothing"
        raise ConflictError(f"a pod can't go from {old} to {new}; from {old} it may go to: {allowed}")


class Aspect(StrEnum):
    """What a condition is about."""

    PLACED = "Placed"
    """Nodes and numbers are claimed."""
    WIRED = "Wired"
    """What servers need before they boot was made: networks, ports, the fabric's segment."""
    BOOTED = "Booted"
    """All servers were seen ACTIVE."""
    PROVED = "Proved"
    """It was tried out as its tenant would use it, where that can be done."""
    READY = "Ready"
    """Everything was read back as wanted, on every plane."""
    REPAIRING = "Repairing"
    """What differed is being made right."""
    CHANGING = "Changing"
    """A newer generation of the order is being made true; what there was before goes on meanwhile."""
    FAILED = "Failed"
    """A person must change something before it can go on; what it has is watched meanwhile."""
    CLEAN = "Clean"
    """Everything was read back and is gone."""


class Cause(StrEnum):
    """Why a condition is as it is, in one word for programs; `message` is for people."""

    DONE = "Done"
    UNDER_WAY = "UnderWay"
    WAITING = "Waiting"
    DIFFERENT = "Different"
    UNREADABLE = "Unreadable"
    TRIED_AGAIN = "TriedAgain"
    """It failed in a way that may pass by itself."""
    PERSON_NEEDED = "PersonNeeded"
    ABANDONED = "Abandoned"


Truth = Literal["true", "false", "unknown"]


class Condition(Document):
    """One aspect of how a pod is."""

    type: Aspect
    status: Truth
    reason: Cause
    message: str = Field(default="", description="One sentence; empty if there is nothing to say.")
    since: datetime = Field(description="Since when the status is what it is.")


Conditions = tuple[Condition, ...]


def find(conditions: Iterable[Condition], aspect: Aspect) -> Condition | None:
    """The condition of an aspect; None: nothing is known of it yet."""
    return next((c for c in conditions if c.type is aspect), None)


def is_true(conditions: Iterable[Condition], aspect: Aspect) -> bool:
    found = find(conditions, aspect)
    return found is not None and found.status == "true"


def changed(conditions: Conditions, *news: Condition, without: Collection[Aspect] = ()) -> Conditions:
    """The conditions with others in their places; one whose status stays keeps its time. In the order of `Aspect`."""
    known = {c.type: c for c in conditions if c.type not in without}
    for new in news:
        old = known.get(new.type)
        known[new.type] = (
            new.model_copy(update={"since": old.since}) if old and old.status == new.status else new
        )
    return tuple(known[a] for a in Aspect if a in known)


class PodState(StrEnum):
    """Phase and conditions in one word, for people."""

    PENDING = "PENDING"
    PLACED = "PLACED"
    WIRING = "WIRING"
    BOOTING = "BOOTING"
    VERIFYING = "VERIFYING"
    READY = "READY"
    DEGRADED = "DEGRADED"
    RELEASING = "RELEASING"
    RELEASED = "RELEASED"
    FAILED = "FAILED"


def summary(phase: Phase, conditions: Conditions) -> PodState:
    """The one word for how far a pod is and how it is."""
    match phase:
        case Phase.RELEASED:
            return PodState.RELEASED
        case Phase.RELEASING:
            return PodState.RELEASING
        case _ if is_true(conditions, Aspect.FAILED):
            return PodState.FAILED
        case Phase.ORDERED:
            return PodState.PENDING
        case Phase.SERVING:
            return PodState.READY if is_true(conditions, Aspect.READY) else PodState.DEGRADED
        case Phase.BUILDING:
            if is_true(conditions, Aspect.BOOTED):
                return PodState.VERIFYING
            if is_true(conditions, Aspect.WIRED):
                return PodState.BOOTING
            return PodState.WIRING if find(conditions, Aspect.WIRED) else PodState.PLACED


DECIDES: Mapping[PodState, Aspect] = {
    PodState.PENDING: Aspect.PLACED,
    PodState.PLACED: Aspect.WIRED,
    PodState.WIRING: Aspect.WIRED,
    PodState.BOOTING: Aspect.BOOTED,
    PodState.VERIFYING: Aspect.READY,
    PodState.READY: Aspect.READY,
    PodState.DEGRADED: Aspect.READY,
    PodState.FAILED: Aspect.FAILED,
    PodState.RELEASING: Aspect.CLEAN,
    PodState.RELEASED: Aspect.CLEAN,
}
"""The condition whose message says why a pod is in a state."""


def why(phase: Phase, conditions: Conditions) -> str:
    """The one sentence for why a pod is in its state; of one that serves, also how far a change of it is."""
    about = [DECIDES[summary(phase, conditions)]]
    if phase is Phase.SERVING and is_true(conditions, Aspect.CHANGING):
        about.insert(0, Aspect.CHANGING)
    return "; ".join(c.message for a in about if (c := find(conditions, a)) and c.message)


MEANS: Mapping[PodState, str] = {
    PodState.PENDING: "it waits for its nodes, or for its start",
    PodState.PLACED: "nodes and numbers are claimed; nothing was made yet",
    PodState.WIRING: "networks, ports and the fabric's segment are made",
    PodState.BOOTING: "its servers boot",
    PodState.VERIFYING: "everything is read back for the first time",
    PodState.READY: "everything was read back as wanted",
    PodState.DEGRADED: "something is not as wanted, or can't be read; what may be repaired is repaired",
    PodState.FAILED: "a person must change something; what it has is watched, and its problems are told",
    PodState.RELEASING: "everything is taken away and read back",
    PodState.RELEASED: "nothing of it is left; its receipt is signed",
}


ENDED = frozenset({PodState.RELEASED})
"""States in which nothing of the pod is left outside and its name may be used again."""
