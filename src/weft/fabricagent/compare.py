"""Compares a port's tables with what its manager's file asks for. Pure."""

from __future__ import annotations

from weft.fabricagent.wire import TableReading
from weft.model.agentapi import PortMismatch, PortReading


def compare(reading: TableReading, expected: frozenset[int]) -> list[PortMismatch]:
    """How a port's tables differ from what is expected, if they do."""
    guid = reading.port_guid
    if reading.unreachable:
        return [PortMismatch(port_guid=guid, where="host", unreachable=reading.unreachable)]
    out: list[PortMismatch] = []
    for where, keys in (("host", reading.keys), ("leaf", reading.leaf_keys)):
        if keys is not None and keys != expected:
            out.append(
                PortMismatch(
                    port_guid=guid,
                    where=where,
                    missing=tuple(sorted(expected - keys)),
                    extra=tuple(sorted(keys - expected)),
                )
            )
    return out


def port_reading(reading: TableReading, expected: frozenset[int]) -> PortReading:
    """A port's tables in the form that the agent returns."""
    leaf = reading.leaf_keys
    return PortReading(
        port_guid=reading.port_guid,
        keys=tuple(sorted(reading.keys)),
        leaf_keys=None if leaf is None else tuple(sorted(leaf)),
        expected=tuple(sorted(expected)),
        capacity=len(reading.host),
        leaf=reading.leaf_name,
        leaf_guid=reading.at.peer_guid if reading.at else None,
        leaf_port=reading.at.peer_port if reading.at else 0,
        unreachable=reading.unreachable,
    )
