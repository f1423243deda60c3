"""Types of the values in messages: what is valid, how it is written, stored, and shown to a tenant.

A value that isn't valid for its type is text of unknown content: its message is shown to operators only.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

MINUTE = "%Y-%m-%dT%H:%MZ"
"""How times are written in sentences, in UTC."""
ROUND = 15 * 60
"""Times that follow from other projects' leases are rounded to this many seconds for tenants."""


class Value(ABC):
    """One type of value."""

    @abstractmethod
    def valid(self, value: Any) -> bool:
        """Whether a value is of this type."""

    def text(self, value: Any) -> str:
        """As operators read it."""
        return str(value)

    def shown(self, value: Any) -> Any | None:
        """The value as a tenant may have it; None: hidden."""
        return value if self.valid(value) else None

    def stored(self, value: Any) -> Any:
        """As JSON."""
        return value

    def read(self, stored: Any) -> Any:
        """From JSON."""
        return stored


class Count(Value):
    """A whole number."""

    def valid(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12


@dataclass(frozen=True)
class Word(Value):
    """Text of a fixed form, which can hold nothing else: a name, an address, one of several words."""

    pattern: re.Pattern[str]

    def valid(self, value: Any) -> bool:
        return isinstance(value, str) and self.pattern.fullmatch(value) is not None

    def stored(self, value: Any) -> Any:
        return str(value)


@dataclass(frozen=True)
class Words(Value):
    """Several of one form.

    Attributes:
        most: how many a sentence names; the others are counted. None: all.
    """

    one: Word
    most: int | None = None

    def valid(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and all(self.one.valid(v) for v in cast(Sequence[Any], value))

    def text(self, value: Any) -> str:
        names = [str(v) for v in value]
        if self.most is None or len(names) <= self.most:
            return ", ".join(names)
        return f"{', '.join(names[: self.most])} and {len(names) - self.most} more"

    def stored(self, value: Any) -> Any:
        return [str(v) for v in value]

    def read(self, stored: Any) -> Any:
        return tuple(cast(Sequence[Any], stored))


@dataclass(frozen=True)
class FilteredWords(Words):
    """Several values; a tenant gets only those of the form."""

    def shown(self, value: Any) -> Any | None:
        return tuple(v for v in cast(Sequence[Any], value) if self.one.valid(v)) or None


class Free(Value):
    """Any text: services' answers, operators' words. Never shown to tenants."""

    def valid(self, value: Any) -> bool:
        return isinstance(value, str)

    def shown(self, value: Any) -> Any | None:
        return None

    def stored(self, value: Any) -> Any:
        return str(value)


OPERATOR = " (operator)"
"""What follows the name of a user who acts in another project than its own (`Caller.named_to`)."""


class User(Value):
    """A user by name, whom a tenant reads by name only if the user is one of its project's."""

    def valid(self, value: Any) -> bool:
        return isinstance(value, str)

    def shown(self, value: Any) -> Any | None:
        if not isinstance(value, str):
            return None
        if value.endswith(OPERATOR):
            return "an operator"
        return value if re.fullmatch(r"[\w.@-]{1,64}", value) else "a user"

    def stored(self, value: Any) -> Any:
        return str(value)


@dataclass(frozen=True)
class Time(Value):
    """A moment, to the minute.

    Attributes:
        rounded: 1: a tenant sees it rounded up to a quarter of an hour, -1: down, since it follows from other
            projects' leases; 0: as it is.
    """

    rounded: int = 0

    def valid(self, value: Any) -> bool:
        return isinstance(value, datetime)

    def text(self, value: Any) -> str:
        return value.astimezone(UTC).strftime(MINUTE) if isinstance(value, datetime) else str(value)

    def shown(self, value: Any) -> Any | None:
        if not isinstance(value, datetime):
            return None
        return later(value) if self.rounded > 0 else earlier(value) if self.rounded < 0 else value

    def stored(self, value: Any) -> Any:
        return value.isoformat() if isinstance(value, datetime) else str(value)

    def read(self, stored: Any) -> Any:
        return datetime.fromisoformat(stored)


def later(moment: datetime) -> datetime:
    """Rounded up to `ROUND` seconds."""
    return datetime.fromtimestamp(-(-moment.timestamp() // ROUND) * ROUND, UTC)


def earlier(moment: datetime) -> datetime:
    """Rounded down to `ROUND` seconds."""
    return datetime.fromtimestamp(moment.timestamp() // ROUND * ROUND, UTC)


def word(pattern: str) -> Word:
    """Text that matches the whole pattern."""
    return Word(re.compile(pattern))


COUNT = Count()
TEXT = Free()
TIME = Time()
OTHERS_TIME = Time(1)
"""A start that follows from other projects' leases."""
SERVER = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
"""Pattern of a server's name, which its tenant chose."""
NAMED = r"weft-[0-9a-f]{8}-[A-Za-z0-9._-]{1,120}"
"""Pattern of the names that weft gives to resources."""
RESOURCE = word(rf"{NAMED}|{SERVER}")
"""The name of one of the pod's resources, as its cloud has it."""
NODE = word(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
"""A node, or another of the site's names: a cloud, a fabric, a leaf, a flavor."""
NODES = Words(NODE)
POD = word(r"[a-z0-9][a-z0-9-]{0,39}")
PODS = Words(POD, most=3)
USER = User()
SPAN = word(r"[1-9]\d{0,6}[smhd]")
FIELD = word(r"[a-z_]{1,40}")
KIND = word(r"[a-z_]{1,30}")
LEVEL = word("node|nvlink_domain|leaf|block|hall|building|site")
CIDR = word(r"[0-9./]{7,18}")
ID = word(rf"[0-9a-f-]{{36}}|0x[0-9a-f]{{1,4}}|{NAMED}")
"""A UUID, a P_Key, or the name of a resource."""
SPACE = word(r"(?:segment|vlan|data)/[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LIST = word(r"[A-Za-z0-9 ._:,-]{1,2000}")
"""Names and values that the site's operators publish to tenants (types, flavors, exports)."""
