"""The table of types of fabrics: what their segments are called, how numbers are written, who can manage them.

One row per type. Planning, views and checks use this table; only a driver knows more about its fabric. A program with
further types adds a table of its own, another subclass of `AnyFabricKind`: site files are read with all that exist.
Sources: InfiniBand Architecture Specification 1.4 §10.9.1 (P_Key); IEEE 802.1Q-2022 §9.6 (VLAN id 1 to 4094).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidatorFunctionWrapHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from weft.model.ids import MAX_PKEY, format_pkey, parse_pkey


class Mode(StrEnum):
    """Membership of a port in a segment."""

    FULL = "full"
    """InfiniBand: reaches every other member."""
    LIMITED = "limited"
    """InfiniBand: reaches full members only."""
    ACCESS = "access"
    """Ethernet: untagged frames of the port belong to the segment."""
    TRUNK = "trunk"
    """Ethernet: frames of the segment are tagged."""


def consecutive(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of numbers without a gap, in order."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricType:
    """One row.

    Attributes:
        word: what a segment's number is called; `words`: the plural.
        text: formats a number in the usual notation; `number` parses it and raises ValueError.
        first, last: valid range.
        drivers: names of the drivers that can manage one (`FabricManager.driver`).
        whole: membership of a whole adapter in its pod's segment: all members reach each other.
        shared: membership of virtual functions.
        function_ports: whether a virtual function has a port of its own in the fabric; otherwise it is behind its
            adapter's.
        segments: whether weft can keep pods apart on it.
    """

    word: str
    words: str
    text: Callable[[int], str]
    number: Callable[[str], int]
    first: int
    last: int
    drivers: tuple[str, ...]
    whole: Mode
    shared: Mode
    function_ports: bool = False
    segments: bool = True

    def named(self, number: int) -> str:
        """Word and number, such as `P_Key 0x65`, `VLAN 101`."""
        return f"{self.word} {self.text(number)}"

    def listed(self, numbers: Iterable[int]) -> str:
        """One: as `named`; several: by ranges, such as `VLANs 101, 103 to 105`."""
        ranges = consecutive(numbers)
        texts = [self.text(a) if a == b else f"{self.text(a)} to {self.text(b)}" for a, b in ranges]
        one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
        return f"{self.word if one else self.words} {', '.join(texts)}"


class AnyFabricKind(StrEnum):
    """Base of the tables: a member is the name of a type and has its row."""

    row: FabricType
    _value_: str

    def __new__(cls, name: str, row: FabricType) -> Self:
        self = str.__new__(cls, name)
        self._value_, self.row = name, row
        return self


class FabricKind(AnyFabricKind):
    """weft's own."""

    INFINIBAND = (
        "infiniband",
        FabricType(
            word="P_Key",
            words="P_Keys",
            text=format_pkey,
            number=parse_pkey,
            first=1,
            last=MAX_PKEY,
            drivers=("opensm", "ufm"),
            whole=Mode.FULL,
            shared=Mode.FULL,
            function_ports=True,
        ),
    )
    ETHERNET = (
        "ethernet",
        FabricType(
            word="VLAN",
            words="VLANs",
            text=str,
            number=int,
            first=1,
            last=4094,
            drivers=("switches",),
            whole=Mode.ACCESS,
            shared=Mode.TRUNK,  # its VLAN's tag on the adapter's port
        ),
    )
    # Its fabric manager has P_Keys too (virtual fabrics), which weft doesn't set.
    OMNIPATH = (
        "omni-path",
        FabricType(
            word="P_Key",
            words="P_Keys",
            text=format_pkey,
            number=parse_pkey,
            first=1,
            last=MAX_PKEY,
            drivers=("none",),
            whole=Mode.FULL,
            shared=Mode.FULL,
            segments=False,
        ),
    )


def every_fabric_kind() -> Iterator[AnyFabricKind]:
    """Kinds of all tables, weft's own first."""
    for table in AnyFabricKind.__subclasses__():
        yield from table


def _kind(value: object) -> AnyFabricKind | None:
    if not isinstance(value, str):
        return None
    found = _KINDS.get(value)
    if found is None and (found := next((kind for kind in every_fabric_kind() if kind == value), None)):
        _KINDS[value] = found
    return found


_KINDS: dict[str, AnyFabricKind] = {}
"""A cache of the tables, which only grow: each segment of a document names its fabric's type."""


def _driver(value: object) -> str | None:
    return next((d for kind in every_fabric_kind() for d in kind.row.drivers if d == value), None)


@dataclass(frozen=True, slots=True)
class _OfAnyTable:
    """Annotation of a field: a value that `find` knows is accepted too; the JSON Schema names weft's own only."""

    find: Callable[[object], str | None]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any, own: ValidatorFunctionWrapHandler) -> str:
            return self.find(value) or own(value)

        return core_schema.no_info_wrap_validator_function(
            read, handler(source), serialization=core_schema.to_string_ser_schema()
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.WrapValidatorFunctionSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(schema["schema"])


AFabricKind = Annotated[FabricKind, _OfAnyTable(_kind)]
"""A field for a fabric's type."""
ADriver = Annotated[Literal["opensm", "ufm", "switches", "none"], _OfAnyTable(_driver)]
"""A field for the name of a fabric's driver."""


class Level(StrEnum):
    """How close to actual forwarding something was read; each level includes those before it."""

    CONFIGURATION = "configuration"
    """What a switch, or a manager, is configured with: its hardware may forward otherwise."""
    OPERATIONAL = "operational"
    """What the device itself reports as in effect."""
    FRAMES = "frames"
    """What arrives: test frames were sent."""

    def reaches(self, wanted: Level) -> bool:
        """Whether this level is at least as close to actual forwarding as the wanted one."""
        return [*Level].index(self) >= [*Level].index(wanted)
