"""The plan of a bandwidth test: nodes, their adapters, and what is expected. A JSON object, from weft or by hand."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

VERSION = 1
MOST_NODES, MOST_RAILS = 512, 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class PlanError(Exception):
    """A plan is wrong: one sentence with field, value and what is allowed."""


class Adapter(NamedTuple):
    """One adapter of a node, found by one of `guid` (of port or node), `mac` and `device`.

    Attributes:
        gbps: nominal rate in Gb/s; None: not known, so that no floor is.
        gpu: CUDA device whose memory is used; None: host memory.
    """

    rail: int
    guid: int | None
    mac: str | None
    device: str | None
    gbps: float | None
    gpu: int | None


class Node(NamedTuple):
    """A node. Attributes: address: for SSH; inside: its address for other nodes, at the start of each run."""

    name: str
    address: str
    inside: str
    user: str | None
    port: int | None
    leaf: str
    adapters: Mapping[int, Adapter]


class Plan(NamedTuple):
    """A plan. Attributes: share: of the nominal rate, a pair below is slow; seconds, size (bytes): of a measurement."""

    nodes: tuple[Node, ...]
    program: str
    pkey: int | None
    share: float
    seconds: int
    size: int
    rails_together: bool
    seed: str

    @property
    def rails(self) -> list[int]:
        """All rails, in order."""
        return sorted({rail for node in self.nodes for rail in node.adapters})

    def nominal(self, sender: int, receiver: int, rail: int) -> float | None:
        """Gb/s that a pair can reach; None: not known."""
        ends = [self.nodes[i].adapters.get(rail) for i in (sender, receiver)]
        rates = [end.gbps for end in ends if end is not None and end.gbps is not None]
        return min(rates) if len(rates) == 2 else None

    def floor(self, sender: int, receiver: int, rail: int) -> float | None:
        """Gb/s below which a pair is slow; None: not known."""
        nominal = self.nominal(sender, receiver, rail)
        return None if nominal is None else self.share * nominal


def parse(data: bytes) -> Plan:
    """A plan from JSON. Raises PlanError."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise PlanError("the plan isn't JSON") from None
    top = _Object("the plan", value)
    if top.take("version", VERSION, lambda v: v == VERSION, str(VERSION)) != VERSION:
        raise AssertionError
    names: dict[str, None] = {}
    nodes = tuple(_node(i, one, names) for i, one in enumerate(top.items("nodes", MOST_NODES)))
    if len(nodes) < 2:
        raise PlanError(f"nodes: {len(nodes)} nodes; allowed are 2 to {MOST_NODES}")
    return Plan(
        nodes,
        top.take("program", "perftest", lambda v: v in ("perftest", "ucx"), "perftest or ucx"),
        top.take("pkey", None, _is_pkey, "a P_Key such as 0x8101", lambda v: int(v, 16)),
        float(top.take("share", 0.95, lambda v: _is_number(v, 0.01, 1), "0.01 to 1")),
        top.take("seconds", 2, lambda v: _is_integer(v, 1, 60), "1 to 60"),
        top.take("size", 1048576, lambda v: _is_integer(v, 64, 2**30), "64 to 2^30"),
        top.take("rails_together", True, lambda v: isinstance(v, bool), "true or false"),
        top.take("seed", "0", lambda v: isinstance(v, str) and len(v) <= 100, "up to 100 characters"),
    )


def _node(place: int, value: Any, names: dict[str, None]) -> Node:
    one = _Object(f"nodes[{place}]", value)
    name = one.take("name", None, _is(_NAME), "a node's name")
    if name is None or name in names:
        raise PlanError(f"nodes[{place}].name: {name!r}: allowed is a name that no other node has")
    names[name] = None
    address = one.take("address", name, _is_address, "an IP address or a name")
    adapters: dict[int, Adapter] = {}
    for index, entry in enumerate(one.items("adapters", MOST_RAILS)):
        adapter = _adapter(f"nodes[{place}].adapters[{index}]", entry)
        if adapter.rail in adapters:
            raise PlanError(f"nodes[{place}].adapters: rail {adapter.rail} is there twice")
        adapters[adapter.rail] = adapter
    return Node(
        name,
        address,
        one.take("inside", address, _is_address, "an IP address or a name"),
        one.take("user", None, _is(re.compile(r"[a-z_][a-z0-9_-]{0,31}")), "a user's name"),
        one.take("port", None, lambda v: _is_integer(v, 1, 65535), "1 to 65535"),
        one.take("leaf", "", lambda v: isinstance(v, str) and len(v) <= 253, "a leaf's name"),
        adapters,
    )


def _adapter(where: str, value: Any) -> Adapter:
    one = _Object(where, value)
    rail = one.take("rail", None, lambda v: _is_integer(v, 0, MOST_RAILS - 1), f"0 to {MOST_RAILS - 1}")
    guid = one.take(
        "guid",
        None,
        _is(re.compile(r"0x[0-9a-fA-F]{16}")),
        "a GUID such as 0x0c42a10300f1d2e4",
        lambda v: int(v, 16),
    )
    mac = one.take(
        "mac", None, _is(re.compile(r"([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}")), "a MAC address", str.lower
    )
    device = one.take("device", None, _is(_DEVICE), "a device's name")
    if rail is None or (guid, mac, device) == (None, None, None):
        raise PlanError(f"{where}: needs rail, and guid, mac or device")
    gbps = one.take("gbps", None, lambda v: _is_number(v, 0.001, 10_000), "Gb/s, 0.001 to 10000")
    return Adapter(
        rail, guid, mac, device, gbps, one.take("gpu", None, lambda v: _is_integer(v, 0, 63), "0 to 63")
    )


class _Object:
    """Reads the members of an object; null is like a member that isn't there."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise PlanError(f"{where}: allowed is an object")
        self._where, self._value = where, value

    def take(
        self,
        name: str,
        default: Any,
        valid: Callable[[Any], bool],
        allowed: str,
        made: Callable[[Any], Any] = lambda value: value,
    ) -> Any:
        """A member, or the default."""
        value = self._value.get(name)
        if value is None:
            return default
        if not valid(value):
            raise PlanError(f"{self._where}: {name}: {str(value)[:100]!r}: allowed is {allowed}")
        return made(value)

    def items(self, name: str, most: int) -> list[Any]:
        """A member that is a list."""
        value = self._value.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise PlanError(f"{self._where}: {name}: allowed is a list of up to {most}")
        return value


def _is(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_integer(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def _is_pkey(value: Any) -> bool:
    return _is(re.compile(r"0x[0-9a-fA-F]{1,4}"))(value) and int(value, 16) & 0x7FFF != 0


def _is_address(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return _NAME.fullmatch(value) is not None
    return True
