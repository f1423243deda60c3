"""Interfaces in NVUE's tree, whose keys may each mean several. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

BRIDGE = "br_default"
_RANGE = re.compile(r"([^\d,]\S*?)(\d{1,5})-(\d{1,5})")


def _covered(key: str, ports: Iterable[str]) -> frozenset[str]:
    """Which of these ports a key means: one by its name, or several as NVUE writes them: `swp1-4`, `swp1s0-3`,
    `swp1,swp7`."""
    found: set[str] = set()
    for part in key.split(","):
        span = _RANGE.fullmatch(part.strip())
        for port in ports:
            number = port.removeprefix(span[1]) if span and port.startswith(span[1]) else ""
            within = span is not None and number.isdigit() and int(span[2]) <= int(number) <= int(span[3])
            if within or port == part.strip():
                found.add(port)
    return frozenset(found)


def singly(interfaces: Mapping[str, Any], ports: frozenset[str]) -> Mapping[str, Any]:
    """Interfaces by single names, also for ports whose key in the tree means several. Raises ValueError for a port that
    two keys mean: it may be in the VLANs of both."""
    found = dict(interfaces)
    for key, row in interfaces.items():
        for port in _covered(key, ports) - {key}:
            if port in found:
                raise ValueError(f"port {port} is in it twice")
            found[port] = row
    return found


def unfit_ports(interfaces: Mapping[str, Any], ports: frozenset[str]) -> dict[str, str]:
    """Ports whose VLANs aren't among their own settings in the bridge -> why."""
    found: dict[str, str] = {}
    for name, row in interfaces.items():
        others = sorted(row.get("bridge", {}).get("domain", {}).keys() - {BRIDGE})
        if others:
            found[name] = f"in bridge {others[0]}"
        for member in row.get("bond", {}).get("member", {}):
            found |= dict.fromkeys({member, *_covered(member, ports)}, f"as a member of {name}")
    return found
