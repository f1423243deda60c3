"""A pod's states, and the one table of what may follow what."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from weft.model.errors import ConflictError


class PodState(StrEnum):
    """Where a pod is in its life."""

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


_S = PodState

TRANSITIONS: Mapping[PodState, Mapping[PodState, str]] = {
    _S.PENDING: {
        _S.PLACED: "nodes, P_Key and VLAN claimed",
        _S.RELEASED: "released before it had anything, or its lease ended",
        _S.FAILED: "can never be placed",
    },
    _S.PLACED: {
        _S.WIRING: "quotas checked, resource rows written",
        _S.RELEASING: "release asked, or lease ended",
        _S.FAILED: "over quota, or not possible",
    },
    _S.WIRING: {
        _S.BOOTING: "networks, ports and partition seen",
        _S.RELEASING: "release asked, or lease ended",
        _S.FAILED: "a person must change something",
    },
    _S.BOOTING: {
        _S.VERIFYING: "all servers seen ACTIVE",
        _S.RELEASING: "release asked, or lease ended",
        _S.FAILED: "a person must change something",
    },
    _S.VERIFYING: {
        _S.READY: "every plane read back as wanted",
        _S.DEGRADED: "something is not as wanted",
        _S.RELEASING: "release asked, or lease ended",
        _S.FAILED: "a person must change something",
    },
    _S.READY: {
        _S.DEGRADED: "something is not as wanted, or unknown",
        _S.RELEASING: "release asked, or lease ended",
    },
    _S.DEGRADED: {
        _S.READY: "every plane read back as wanted",
        _S.RELEASING: "release asked, or lease ended",
    },
    _S.FAILED: {
        _S.RELEASING: "release asked, or lease ended",
        _S.RELEASED: "released, and it never had anything",
        **dict.fromkeys(
            (_S.PENDING, _S.PLACED, _S.WIRING, _S.BOOTING, _S.VERIFYING, _S.DEGRADED),
            "retry asked, and it failed there",
        ),
    },
    _S.RELEASING: {
        _S.RELEASED: "every plane read back clean, receipt signed",
    },
    _S.RELEASED: {},
}


def check_transition(old: PodState, new: PodState) -> None:
    """Raise `ConflictError` unless `new` may follow `old` (staying is always allowed)."""
    if new is not old and new not in TRANSITIONS[old]:
        allowed = ", ".join(TRANSITIONS[old]) or "nothing"
        raise ConflictError(f"a pod can't go from {old} to {new}; from {old} it may go to: {allowed}")


ENDED = frozenset({_S.RELEASED})
"""States in which nothing of the pod is left outside and its name may be used again."""
