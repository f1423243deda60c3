"""Helpers of the site's checks: values that must be unique, names that must exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from weft.model.ids import format_guid
from weft.planning.fabric.topology import natural

WrongValue = tuple[tuple[str | int, ...], object, str]
"""A path in the `Site`, the value there, and what is allowed, as the end of a sentence."""


class UniqueValues:
    """Values that must be unique: a duplicate is a problem that names the first owner."""

    def __init__(self, what: str, fold: Callable[[object], object] = lambda v: v) -> None:
        self.what, self.fold = what, fold
        self.first: dict[object, str] = {}

    def check(self, value: object, owner: str, path: tuple[str | int, ...]) -> Iterator[WrongValue]:
        key = self.fold(value)
        if key in self.first:
            shown = format_guid(value) if isinstance(value, int) else value
            yield path, shown, f"{self.what} must be unique; {self.first[key]} already has it"
        else:
            self.first[key] = owner


def known(
    path: tuple[str | int, ...], value: str | None, names: Collection[str], what: str
) -> Iterator[WrongValue]:
    """A problem if the value is an unknown name."""
    if value is not None and value not in names:
        listed = sorted(names, key=natural)
        text = ", ".join(listed[:8]) + (" …" if len(listed) > 8 else "") if listed else "there are none"
        yield path, value, f"{what}: {text}"


def casefold(value: object) -> object:
    """A key for names: Nova and Neutron compare them in MariaDB case-insensitively."""
    return str(value).casefold()


def same_port(value: object) -> object:
    """A key for switch ports, `switch/port`: case, zeros in front of a number and `Eth` for `Ethernet` make no other
    port, and weft would give one port to two adapters."""
    switch, _, port = str(value).partition("/")
    port = re.sub(r"(?<![0-9])0+(?=[0-9])", "", port.casefold())
    return switch, re.sub(r"^eth(?=[0-9])", "ethernet", port)
