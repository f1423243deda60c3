"""Counters of a switch's ports since they were last reset."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST = 1 << 64


@dataclass(frozen=True, slots=True)
class PortCounters:
    """Counters of one port; None: the switch doesn't count that, or not in a form that weft reads. Never 0 instead.

    Attributes:
        port: by the vendor's name.
        pfc_receive, pfc_transmit: pauses of priority flow control, of all priorities that carry RoCE.
        ecn_marked: frames that were marked as having met congestion.
    """

    port: str
    receive_bytes: int | None = None
    transmit_bytes: int | None = None
    receive_packets: int | None = None
    transmit_packets: int | None = None
    receive_errors: int | None = None
    transmit_errors: int | None = None
    receive_drops: int | None = None
    transmit_drops: int | None = None
    pfc_receive: int | None = None
    pfc_transmit: int | None = None
    ecn_marked: int | None = None


def count(value: object) -> int | None:
    """A counter as an API has it, a number or digits; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST:
        return None
    return value
