"""What a fabric agent reads of links: forwarding tables, and what ports count.

Part of the protocol in `weft.model.agentapi`:

    POST /v1/routes       RoutesQuery -> Routes
    POST /v1/counters     CountersQuery -> Counters
    GET  /metrics         -> PlainText, in the format of Prometheus
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from weft.model.base import Document
from weft.model.ids import WireGuid

NO_ROUTE = 255
"""Entry of a forwarding table for a LID that the switch drops (IBA 1.4 §14.2.5.10)."""


def _octets(value: object) -> object:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else value
    except binascii.Error:
        raise ValueError("not base64") from None


Octets = Annotated[
    bytes,
    BeforeValidator(_octets),
    PlainSerializer(lambda value: base64.b64encode(value).decode(), return_type=str),
    WithJsonSchema({"type": "string", "contentEncoding": "base64"}),
]


class RoutesQuery(Document):
    """Asks for the forwarding tables of all switches.

    A table that the asker has is sent as its digest alone.
    """

    max_age: float = Field(default=30.0, ge=0, le=3600, description="Seconds that the reading may be old.")
    have: dict[str, str] = Field(
        default_factory=dict[str, str],
        max_length=100_000,
        description="GUID of a switch (0x and 16 digits), to the digest of its table that the asker has.",
    )


class SwitchTable(Document):
    """The linear forwarding table of a switch."""

    guid: WireGuid
    name: str = Field(description="Its node description.")
    lid: int
    ports: int = Field(description="Number of its external ports.")
    digest: str = Field(description="SHA-256 of the table, in hexadecimal.")
    table: Octets | None = Field(
        default=None,
        description="A byte for each LID from 0: the port that its packets leave by; 0: the switch itself; 255, or no "
        "byte: no route. Null: the asker has it.",
    )


class RoutedPort(Document):
    """A port of a host, with the LIDs that lead to it: `lid` and the 2^lmc - 1 after it."""

    port_guid: WireGuid
    lid: int
    lmc: int = 0
    node_guid: WireGuid
    port: int
    switch_guid: WireGuid
    switch_port: int


class SwitchCable(Document):
    """A cable between two switches."""

    a: WireGuid
    a_port: int
    b: WireGuid
    b_port: int
    gbps: int = Field(default=0, description="Gb/s of the link; 0: not known.")


class Routes(Document):
    """Forwarding tables, and what is needed to follow them."""

    age: float = Field(description="Seconds since the reading began.")
    switches: tuple[SwitchTable, ...]
    ports: tuple[RoutedPort, ...]
    cables: tuple[SwitchCable, ...]
    host_gbps: dict[str, int] = Field(
        default_factory=dict[str, int], description="Port GUID of a host, to Gb/s of its link, where known."
    )
    unread: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="GUID of a switch whose table wasn't read, to the reason: routes by way of it are unknown.",
    )
    partial: tuple[str, ...] = Field(
        default=(), description="Why cables may be missing, or tables may be of two sweeps; nothing: neither."
    )
    engine: str = Field(
        default="",
        description="Routing engine that the manager's log says is in force; empty: it doesn't say.",
    )
    configured: tuple[str, ...] = Field(
        default=(),
        description="Routing engines in the manager's options, the first preferred; none: its default.",
    )


class CountersQuery(Document):
    """Asks for the present rates of all cabled ports."""

    max_age: float = Field(default=20.0, ge=0, le=3600, description="Seconds that the reading may be old.")


class Counters(Document):
    """Rates of all cabled ports from the last readings; a value for each port in each column.

    A null isn't known: the port didn't answer twice in a row, doesn't count that, or its counter is full.
    """

    age: float = Field(description="Seconds since the newest reading began.")
    seconds: tuple[float, ...] = Field(
        default=(),
        max_length=2,
        description="Between readings, newest first; none: there is one reading only.",
    )
    node: tuple[WireGuid, ...] = Field(description="GUID of the switch or adapter.")
    port: tuple[int, ...]
    sent: tuple[float | None, ...] = Field(description="Bytes per second sent.")
    received: tuple[float | None, ...] = Field(description="Bytes per second received.")
    waiting: tuple[float | None, ...] = Field(
        description="Share of time with data to send in which it waited: XmitWait of XmitWait and XmitData, in ticks."
    )
    waiting_before: tuple[float | None, ...] = Field(description="`waiting` in the interval before.")
    at_least: tuple[int, ...] = Field(
        default=(),
        description="Indexes of ports whose values are at least that: a counter was reset, or reached its end.",
    )
    full: tuple[int, ...] = Field(
        default=(),
        description="Indexes of ports whose XmitWait is full: it counts nothing until it is reset.",
    )
    unread: int = Field(default=0, description="Cabled ports that didn't answer.")

    @model_validator(mode="after")
    def _as_many(self) -> Counters:
        columns = (self.port, self.sent, self.received, self.waiting, self.waiting_before)
        if any(len(column) != len(self.node) for column in columns):
            raise ValueError("columns of different lengths")
        if any(not 0 <= i < len(self.node) for i in (*self.at_least, *self.full)):
            raise ValueError("an index of no port")
        return self


class PlainText(Document):
    """An answer that isn't JSON."""

    media_type: str
    text: Annotated[str, StringConstraints(strip_whitespace=False)]
