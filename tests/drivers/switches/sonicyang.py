"""SONiC's YANG models of what weft reads and changes, read from their own text: names, keys, types.

2019: sonic-mgmt-framework, `models/yang/sonic/sonic-vlan.yang` at 2e204e2, sonic-mgmt-common, `sonic-port.yang` at
329e742. Today: sonic-buildimage, `src/sonic-yang-models/yang-models`, `sonic-vlan.yang` at 0bd5a1b,
`sonic-portchannel.yang` at 02ab327, which sonic-mgmt-common imports (`models/yang/sonic/import.mk` at 0b51536).
Numbers of 16 and 32 bits are JSON numbers (RFC 7951, section 6.1); a list's entries are unique by their keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

Valid = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Table:
    """A list of CONFIG_DB.

    Args:
        leaves: name -> whether a value is of its type.
    """

    module: str
    keys: tuple[str, ...]
    leaves: Mapping[str, Valid]

    def wrong(self, rows: list[dict[str, Any]]) -> Iterator[str]:
        seen: set[tuple[Any, ...]] = set()
        for row in rows:
            key = tuple(row.get(k) for k in self.keys)
            if None in key or key in seen:
                yield f"{row}: no key {self.keys}, or there twice"
            seen.add(key)
            for leaf, value in row.items():
                if leaf not in self.leaves or not self.leaves[leaf](value):
                    yield f"{leaf} = {value!r}"


def _matches(pattern: str) -> Valid:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _within(low: int, high: int) -> Valid:
    return lambda value: type(value) is int and low <= value <= high


def tables(modern: bool) -> Mapping[str, Table]:
    """The tables of the models of today, or of 2019."""
    own, member = ("name", "port") if modern else ("ifname", "ifname")
    port, lag, status = _matches(r"Ethernet\d{1,4}"), _matches(r"PortChannel\d{1,4}"), _matches("up|down")
    either: Valid = lambda value: port(value) or lag(value)  # noqa: E731 - a union of the two
    vlan, mtu = _matches(r"Vlan[1-9]\d{0,3}"), _within(1, 9216) if modern else _within(1312, 9216)
    number = _within(2, 4094) if modern else _within(1, 4095)
    return {
        "VLAN": Table("sonic-vlan", ("name",), {"name": vlan, "vlanid": number}),
        "VLAN_MEMBER": Table(
            "sonic-vlan",
            ("name", member),
            {"name": vlan, member: either, "tagging_mode": _matches("tagged|untagged")},
        ),
        "PORT": Table("sonic-port", (own,), {own: port, "mtu": mtu, "admin_status": status}),
        "PORTCHANNEL": Table(
            "sonic-portchannel", ("name",), {"name": lag, "mtu": mtu, "admin_status": status}
        ),
        "PORTCHANNEL_MEMBER": Table("sonic-portchannel", ("name", member), {"name": lag, member: port}),
    }


def wrong(modern: bool, method: str, path: str, body: Any) -> list[str]:
    """What the models refuse in a request's body, in the answer to a reading, or in the keys of a DELETE."""
    known, where = tables(modern), path.removeprefix("/restconf/data/")
    module, _, inside = where.partition(":")
    names = inside.split("/")
    if method == "DELETE":
        listed, _, keys = names[-1].partition("=")
        table = known[listed.removesuffix("_LIST")]
        values = dict(zip(table.keys, map(unquote, keys.split(",")), strict=True))
        good = names[:-1] == [module, listed.removesuffix("_LIST")] and table.module == module
        return [*(() if good else (path,)), *table.wrong([values])]
    if body is None:
        return []
    (top,) = body
    trees = body[top] if names == [module] else {names[-1]: body[top]}
    found = [] if top == f"{module}:{names[-1]}" else [top]
    for name, rows in trees.items():
        (listed,) = rows
        table = known[name]
        found += [] if (listed, table.module) == (f"{name}_LIST", module) else [f"{name}/{listed}"]
        found += table.wrong(rows[listed])
    return found
