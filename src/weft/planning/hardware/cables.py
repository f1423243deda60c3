"""InfiniBand cables in hardware lists: rows of the table `links`. Pure.

A cable is a row of kind `cable` (`a`, `a_port`, `b`, `b_port`), or the `switch` and `port` of an adapter. An end is
a switch and its port's number; or a host's adapter, as `gpu01/mlx5_0`, as `gpu01 mlx5_0`, or as a host with the
adapter's name as its port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from weft.model.hardware import HardwareRecord
from weft.planning.hardware.columns import interface_called
from weft.planning.hardware.network import Wrong

_NUMBER = re.compile(r"(?:[a-zA-Z]*\s?)(?:1/)?(\d{1,3})")
"""`7`, `Port 7`, `IB1/7`, `1/7`: the number in ibnetdiscover. Not `1/7/2`, half of a cage of two ports."""
_PORT = "the port's number, as ibnetdiscover has it: 7, Port 7 or IB1/7"

End = tuple[str, int]
Values = dict[str, tuple[str | None, str]]
"""Field -> text, and its column in the list."""


def port_number(text: str) -> int | None:
    """Number of an InfiniBand switch's port; None if the text doesn't say it for certain."""
    found = _NUMBER.fullmatch(text.strip())
    return int(found[1]) if found and int(found[1]) else None


@dataclass(slots=True)
class Cables:
    """Collects the cables of a list, each once.

    Args:
        hosts: names of the list's hosts.
        find: name in the list of what an end is called.
        wrong: called with each problem.
    """

    hosts: Collection[str]
    find: Callable[[str], str]
    wrong: Wrong
    _seen: set[frozenset[End]] = field(default_factory=set[frozenset[End]])

    def of_adapter(self, record: HardwareRecord, adapter: str, interface: str, switch: str) -> Values | None:
        """The cable of an adapter, whose row has both switch and port."""
        port = record.cells[f"{interface}_port"]
        number = port_number(port.text)
        if number is None:
            self.wrong(record, f"{interface}_port", port.text, _PORT)
            return None
        columns = {"a": f"{interface}_switch", "b": f"{interface}_switch", "b_port": f"{interface}_port"}
        return self._once((adapter, 1), (switch, number), None, columns)

    def of_row(self, record: HardwareRecord) -> Values | None:
        """The cable that a row is."""
        ends = [self._end(record, side) for side in ("a", "b")]
        if ends[0] is None or ends[1] is None:
            return None
        columns = {c: record.cells[c].column for c in ("a", "a_port", "b", "b_port") if c in record.cells}
        rate = record.cells.get("rate_gbps")
        return self._once(ends[0], ends[1], (rate.text, rate.column) if rate else None, columns)

    def _once(self, a: End, b: End, rate: tuple[str, str] | None, columns: dict[str, str]) -> Values | None:
        ends = frozenset({a, b})
        if ends in self._seen:
            return None
        if len(ends) == 2:  # a cable from a port to itself is the site's check to refuse
            self._seen.add(ends)
        values: Values = {}
        for side, (name, port) in (("a", a), ("b", b)):
            values[side] = (name, columns.get(side, side))
            values[f"{side}_port"] = (str(port), columns.get(f"{side}_port", columns.get(side, side)))
        if rate is not None:
            values["rate_gbps"] = rate
        return values

    def _end(self, record: HardwareRecord, side: str) -> End | None:
        written, port = record.text(side), record.text(f"{side}_port")
        if written is None:
            self.wrong(record, side, None, "the cable's end: a switch, or host/adapter")
            return None
        host, _, adapter = re.sub(r"[\s/]+", "/", written.strip()).partition("/")
        if (name := self.find(host)) in self.hosts:
            if not adapter and port is not None and port_number(port) is None:
                adapter, port = port, None
            if not adapter:
                self.wrong(record, side, written, f"the adapter of {name} too: {name}/mlx5_0")
                return None
            if port is not None and not port.strip().isdecimal():
                self.wrong(record, f"{side}_port", port, "the number of the adapter's port; default: 1")
                return None
            return f"{name}/{interface_called(adapter, {})}", int(port) if port is not None else 1
        number = port_number(port or "")
        if number is None:
            self.wrong(record, f"{side}_port", port, _PORT)
            return None
        return self.find(written), number
