"""Identifiers and units, parsed once on input and plain integers or strings inside.

Sources: InfiniBand Architecture Specification 1.4 §4.1.1 (GUID), §10.9.1 (P_Key: 15 bits of key, the top bit is
the membership: 1 full, 0 limited; 0x7fff is the default partition, 0x0000 is invalid).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from weft.model.errors import InputError

Revision = Annotated[
    int,
    Field(description="Number of this form of it; another one has a higher number. `If-Match` takes it."),
]
FULL_MEMBER = 0x8000
DEFAULT_PKEY = 0x7FFF
MAX_PKEY = 0x7FFE

_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})\Z")
_GROUPS = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}\Z|[0-9a-f]{2}(?::[0-9a-f]{2}){7}\Z")
"""As Linux shows a GUID. Not a MAC address; groups must have all their zeros, or they would be ambiguous."""
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}\Z")
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]\Z")


def parse_guid(value: Any) -> int:
    """A GUID from `0x0002c90300300001`, `0002:c903:0030:0001` or an int; raises ValueError with what is allowed."""
    if isinstance(value, bool):
        raise ValueError("a GUID is 16 hex digits, such as 0x0002c90300300001")
    if isinstance(value, int):
        number = value
    else:
        text = str(value).strip().lower()
        match = _GUID.match(text.replace(":", "") if _GROUPS.match(text) else text)
        number = int(match.group(1), 16) if match else 0
    if not 0 < number < 1 << 64:
        raise ValueError("a GUID is 16 hex digits and not zero, such as 0x0002c90300300001")
    return number


def _whole_guid(value: Any) -> int:
    """A GUID in a file: all of its digits are required, since a missing one would make it another GUID."""
    guid = parse_guid(value)
    if isinstance(value, str):
        digits = value.strip().lower().removeprefix("0x").replace(":", "")
        if len(digits) != 16:
            raise ValueError(
                f"a GUID is 16 hex digits, leading zeros included, such as 0x0002c90300300001; this has {len(digits)}"
            )
    return guid


def format_guid(guid: int) -> str:
    """`0x` and 16 hex digits, as InfiniBand tools print it."""
    return f"0x{guid:016x}"


def parse_pkey(value: Any) -> int:
    """The 15-bit key of a P_Key from `0x65`, `0x8065` or an int; the membership bit is dropped."""
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        number = 0
    number &= ~FULL_MEMBER
    if isinstance(value, bool) or not 0x1 <= number <= DEFAULT_PKEY:
        raise ValueError("a P_Key is 0x1 to 0x7ffe (0x7fff is the default partition)")
    return number


def format_pkey(pkey: int) -> str:
    """The 15-bit key in hex without leading zeros, as in partitions.conf: VLAN 101 is `0x65`."""
    return f"0x{pkey & ~FULL_MEMBER:x}"


def _mac(value: Any) -> str:
    text = str(value).strip().lower()
    if not _MAC.match(text):
        raise ValueError("a MAC address is six hex pairs, such as f4:52:14:38:39:81")
    return text


def _pci(value: Any) -> str:
    text = str(value).strip().lower()
    if not _PCI.match(text):
        raise ValueError("a PCI address is domain:bus:slot.function, such as 0000:c5:00.0")
    return text


_GUID_TEXT = r"^(0[xX])?[0-9a-fA-F:]{16,23}$"
SAID = {_GUID_TEXT: "a GUID: 16 hexadecimal digits, such as 0x0002c903000e0b72"}
"""Pattern -> what it allows, in words."""
_GUID_WRITTEN = WithJsonSchema(
    {"type": "string", "pattern": "^0x[0-9a-f]{16}$", "description": "InfiniBand GUID"}, mode="serialization"
)


def _guid_read(pattern: str) -> WithJsonSchema:
    """An unquoted 0x0002c90300300001 in YAML is a number to every reader but ours."""
    schema = {"type": ["string", "integer"], "pattern": pattern, "description": "InfiniBand GUID"}
    return WithJsonSchema(schema, mode="validation")


_GUID_AS_TEXT = PlainSerializer(format_guid, return_type=str)
Guid = Annotated[int, BeforeValidator(_whole_guid), _GUID_AS_TEXT, _GUID_WRITTEN, _guid_read(_GUID_TEXT)]
"""As people write it, in files: with all of its digits."""
WireGuid = Annotated[
    int,
    BeforeValidator(parse_guid),
    _GUID_AS_TEXT,
    _GUID_WRITTEN,
    _guid_read(r"^(0[xX])?[0-9a-fA-F:]{1,23}$"),
]
"""As programs write it: zeros in front may be missing."""
PKey = Annotated[
    int,
    BeforeValidator(parse_pkey),
    PlainSerializer(format_pkey, return_type=str),
    WithJsonSchema({"type": "string", "pattern": "^0x[0-9a-f]{1,4}$", "description": "15-bit P_Key"}),
]
Mac = Annotated[str, BeforeValidator(_mac), WithJsonSchema({"type": "string", "description": "MAC address"})]
PciAddress = Annotated[
    str,
    BeforeValidator(_pci),
    WithJsonSchema({"type": "string", "description": "PCI address domain:bus:slot.function"}),
]
_NAME = r"^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$"
NAMES = "letters, digits, '.', '_' and '-', starting and ending with a letter or digit, at most 63 characters"
Name = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=_NAME)]
"""Letters, digits, `.`, `_` and `-`, at most 63: fits a host name, a partition name and an OpenStack name."""
ServerName = Annotated[str, StringConstraints(min_length=1, max_length=127, pattern=_NAME)]
"""Name of a pod's server, which has its node's in it."""


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")


def is_uuid(text: str) -> bool:
    """Whether this may be a pod's id."""
    return _UUID.match(text) is not None


def uuid_of(text: str) -> UUID | None:
    """The UUID in a text, in any spelling; None: it isn't one, such as a mark that was edited by hand."""
    try:
        return UUID(text)
    except ValueError:
        return None


def moment_of(text: str) -> datetime | None:
    """The time in a text of ISO 8601, in UTC if it has no time zone; None: it isn't one, or is empty."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


MachineId = Annotated[
    str, StringConstraints(to_lower=True, pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
]
"""Id of a node in Ironic, a UUID."""


def check_name(field: str, value: str) -> None:
    """Raises InputError unless the value is a `Name`."""
    if len(value) > 63 or not re.fullmatch(_NAME, value):
        raise InputError(field, value, NAMES)


def _words(value: Any) -> Any:
    """Splits a string at spaces: a cell of a CSV file is a single one."""
    return tuple(value.split()) if isinstance(value, str) else value


Words = Annotated[tuple[Name, ...], BeforeValidator(_words)]
"""Several names; in a CSV cell separated by spaces."""

_NO_REASON = frozenset({"", "no", "n", "false", "off", "0", "none", "-", "n/a"})


def _reason(value: Any) -> Any:
    """None for no, false and the like: `maintenance: no` isn't maintenance for the reason `no`."""
    if value is False or (isinstance(value, str) and value.strip().casefold() in _NO_REASON):
        return None
    return value


Reason = Annotated[str | None, BeforeValidator(_reason)]
"""Why something must not be assigned; None, also where a file says no or false: it may be."""

DURATION = r"^[1-9][0-9]{0,6}[smhd]$"
LONGEST = timedelta(days=36_500)
FIRST_INSTANT, LAST_INSTANT = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Dates outside of these are refused."""
LAST_MOMENT = datetime(2400, 1, 1, tzinfo=UTC)
"""No later time is ever computed or stored: the last instant plus the longest duration is in 2300, and forecasts for
the queue stop here."""


def _bounded(value: str) -> str:
    if span(value) > LONGEST:
        raise ValueError(f"at most {LONGEST.days}d")
    return value


Duration = Annotated[
    str,
    StringConstraints(pattern=DURATION),
    AfterValidator(_bounded),
    WithJsonSchema({"type": "string", "pattern": DURATION}),
]
"""A whole number of seconds, minutes, hours or days, at most 36500d: `90m`, `12h`, `7d`; `span` reads it."""


A_TIME = "a time with time zone, such as 2027-01-31T18:00:00Z"


def _written_out(value: Any) -> Any:
    """Refuses numbers: they may count seconds or milliseconds."""
    digits = isinstance(value, str) and value.strip().lstrip("+-").replace(".", "", 1).isdecimal()
    if digits or isinstance(value, int | float):
        raise ValueError(A_TIME)
    return value


def _instant(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError(A_TIME)
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = None
    if moment is None or not FIRST_INSTANT <= moment <= LAST_INSTANT:
        raise ValueError("a time from 2000-01-01T00:00:00Z to 2200-01-01T00:00:00Z")
    return moment


Instant = Annotated[datetime, BeforeValidator(_written_out), AfterValidator(_instant)]
"""A moment, converted to UTC, within bounds that the database and all arithmetic can handle."""


def moment(seconds: float) -> datetime:
    """A POSIX time in UTC, capped at `LAST_MOMENT`."""
    return LAST_MOMENT if seconds >= LAST_MOMENT.timestamp() else datetime.fromtimestamp(seconds, UTC)


def span(duration: str) -> timedelta:
    """A `Duration` as a length of time."""
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[duration[-1]]
    return timedelta(**{unit: int(duration[:-1])})
