"""How far a pod is in its life (`Phase`) and how healthy it is (`Condition`) are separate; `summary` combines them.

A FAILED pod has not ended: it keeps its phase, and is observed as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from weft.model.errors import ConflictError
from weft.model.messages import problems
from weft.model.messages.documents import Coded, Sentence


class Phase(StrEnum):
    """Phase of a pod's life; it only moves forward."""

    ORDERED = "ordered"
    BUILDING = "building"
    SERVING = "serving"
    RELEASING = "releasing"
    RELEASED = "released"


TRANSITIONS: Mapping[Phase, Mapping[Phase, str]] = {
    Phase.ORDERED: {
        Phase.BUILDING: "nodes and numbers claimed",
        Phase.RELEASED: "released before anything was claimed, or the lease ended",
    },
    Phase.BUILDING: {
        Phase.SERVING: "everything was created and read back once",
        Phase.RELEASING: "release requested, or lease ended",
    },
    Phase.SERVING: {
        Phase.RELEASING: "release requested, or lease ended",
    },
    Phase.RELEASING: {
        Phase.RELEASED: "every plane read back clean and receipt signed, or abandoned (by an operator, at its limit)",
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
    """Everything that servers need to boot exists: networks, ports, the fabric's segment."""
    BOOTED = "Booted"
    """All servers have been seen ACTIVE."""
    PROVED = "Proved"
    """It was tested the way its tenant will use it, if possible."""
    READY = "Ready"
    """Everything was read back as desired, on every plane."""
    REPAIRING = "Repairing"
    """Differences are being repaired."""
    CHANGING = "Changing"
    """A newer generation of the order is being realized; the rest of the pod keeps running."""
    MAINTENANCE = "Maintenance"
    """Operators empty some of its nodes; the pod itself is as it was."""
    NODES_FAIL = "NodesFail"
    """Some of its nodes fail, and whether they will be replaced."""
    CHECKS_FAIL = "ChecksFail"
    """Own checks of some of its nodes failed; the pod itself is as it was."""
    BANDWIDTH_UNPROVED = "BandwidthUnproved"
    """Its order wants a bandwidth test, and none that its servers passed was reported; the pod itself is as it was."""
    FAILED = "Failed"
    """Someone must change something before it can continue; it is still observed."""
    CLEAN = "Clean"
    """Everything was read back as gone."""


class Cause(StrEnum):
    """Machine-readable reason of a condition; `message` is for people."""

    DONE = "Done"
    UNDER_WAY = "UnderWay"
    WAITING = "Waiting"
    DIFFERENT = "Different"
    UNREADABLE = "Unreadable"
    TRIED_AGAIN = "TriedAgain"
    """It failed in a way that may resolve itself."""
    PERSON_NEEDED = "PersonNeeded"
    ABANDONED = "Abandoned"


Truth = Literal["true", "false", "unknown"]


class Condition(Coded):
    """One aspect of a pod's health."""

    sentence: ClassVar[str] = "message"

    type: Aspect
    status: Truth
    reason: Cause
    message: Sentence = Field(default="", description="One sentence, or empty.")
    since: datetime = Field(description="When the status last changed.")


Conditions = tuple[Condition, ...]


def find(conditions: Iterable[Condition], aspect: Aspect) -> Condition | None:
    """The condition of an aspect; None: nothing is known about it yet."""
    return next((c for c in conditions if c.type is aspect), None)


def is_true(conditions: Iterable[Condition], aspect: Aspect) -> bool:
    """Whether the condition of an aspect is known and true."""
    found = find(conditions, aspect)
    return found is not None and found.status == "true"


def changed(conditions: Conditions, *news: Condition, without: Collection[Aspect] = ()) -> Conditions:
    """The conditions with some replaced; one with an unchanged status keeps its time. In the order of `Aspect`."""
    known = {c.type: c for c in conditions if c.type not in without}
    for new in news:
        old = known.get(new.type)
        known[new.type] = (
            new.model_copy(update={"since": old.since}) if old and old.status == new.status else new
        )
    return tuple(known[a] for a in Aspect if a in known)


class PodState(StrEnum):
    """Phase and conditions summed up in one word, for people."""

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
    """Phase and conditions in one word."""
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
"""The condition whose message explains a state."""


def why(phase: Phase, conditions: Conditions) -> str:
    """Why a pod is in its state, and on the progress of a change of a serving pod."""
    about = [DECIDES[summary(phase, conditions)]]
    if phase is Phase.SERVING and is_true(conditions, Aspect.CHANGING):
        about.insert(0, Aspect.CHANGING)
    found: list[str] = []
    for aspect in about:
        condition = find(conditions, aspect)
        if condition and condition.message and not any(s.startswith(condition.message) for s in found):
            found.append(condition.message)
    return problems.SEVERAL(problems=found) if len(found) > 1 else found[0] if found else ""


_COMES: Mapping[PodState, Phase] = {
    PodState.PENDING: Phase.ORDERED,
    PodState.PLACED: Phase.BUILDING,
    PodState.WIRING: Phase.BUILDING,
    PodState.BOOTING: Phase.BUILDING,
    PodState.VERIFYING: Phase.BUILDING,
    PodState.READY: Phase.SERVING,
    PodState.DEGRADED: Phase.SERVING,
    PodState.FAILED: Phase.SERVING,
    PodState.RELEASING: Phase.RELEASING,
    PodState.RELEASED: Phase.RELEASED,
}
"""The last phase in which a pod may be in a state."""
_ORDER = list(Phase)


def wait_is_over(until: Collection[PodState], state: PodState, changing: bool) -> bool:
    """Whether a wait can end: a pod in `state` is in one of the awaited states, or can't get there by itself.

    A pod with a change under way isn't READY yet. A FAILED pod only continues once someone steps in, except that it
    can be released.
    """
    if state in until and not (changing and state is PodState.READY):
        return True
    if state is PodState.FAILED:
        return not {PodState.RELEASING, PodState.RELEASED}.issuperset(until)
    return all(_ORDER.index(_COMES[one]) < _ORDER.index(_COMES[state]) for one in until)


MEANS: Mapping[PodState, str] = {
    PodState.PENDING: "waiting for nodes, or for its start",
    PodState.PLACED: "nodes and numbers are claimed, nothing is created yet",
    PodState.WIRING: "networks, ports and the fabric's segment are being created",
    PodState.BOOTING: "servers are booting",
    PodState.VERIFYING: "everything is being read back for the first time",
    PodState.READY: "everything was read back as desired",
    PodState.DEGRADED: "something differs from the desired state or can't be read; weft repairs what it may",
    PodState.FAILED: "someone must change something; the pod is still observed and its problems are reported",
    PodState.RELEASING: "everything is being removed and read back",
    PodState.RELEASED: "nothing of it is left and its receipt is signed",
}


ENDED = frozenset({PodState.RELEASED})
"""States in which nothing of the pod is left outside and its name can be reused."""
