"""Output of `ibnetdiscover` as values: nodes, cables, and at which LID and switch port each host port is.

Format: rdma-core `infiniband-diags/ibnetdiscover.c` (`out_switch`, `out_ca`, `out_switch_port`, `out_ca_port`) and
its manual page, section "TOPOLOGY FILE FORMAT". A record is a header line and a line for each connected port:

    switchguid=0x2c90300100000(2c90300100000)
    Switch  8 "S-0002c90300100000"   # "leaf01" enhanced port 0 lid 2 lmc 0
    [1]  "H-0002c90300300010"[1](2c90300300011)   # "gpu01 mlx5_0" lid 7 4xHDR
    caguid=0x2c90300300010
    Ca  1 "H-0002c90300300010"   # "gpu01 mlx5_0"
    [1](2c90300300011)  "S-0002c90300100000"[1]   # lid 7 lmc 0 "leaf01" lid 2 4xHDR

With `-g` records are grouped by chassis under titles; with `-f` link speeds follow in numbers. Messages about time-outs
go to stderr, and the exit code is still 0; in a file that has both, they make the discovery partial.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.model.errors import InputError
from weft.model.ids import format_guid
from weft.model.observedfabric import End, ObservedFabric, ObservedNode, shown_messages

_ATTRIBUTE = re.compile(r"(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x[0-9a-f]+")
_BEGINS = re.compile(
    r'^(?:(?:vendid|devid|sysimgguid|switchguid|caguid)=0x|(?:Switch|Ca)\s+\d+\s+"[SH]-|# Topology file: generated)',
    re.MULTILINE,
)
_HEADER = re.compile(
    r'(?P<kind>Switch|Ca|Rt)\s+(?P<ports>\d+)\s+"[SHR]-(?P<guid>[0-9a-f]{16})"\s*(?:#\s*"(?P<name>.*)"(?P<rest>[^"]*))?$'
)
_PORT = re.compile(
    r"\[(?P<port>\d+)\](?:\[ext\s+\d+\])?(?:\((?P<guid>[0-9a-f]+)\))?\s*"
    r'"[SHR]-(?P<peer>[0-9a-f]{16})"\[(?P<peer_port>\d+)\](?:\[ext\s+\d+\])?(?:\((?P<peer_guid>[0-9a-f]+)\))?'
    r"\s*(?:#\s*(?P<comment>.*))?$"
)
_LID = re.compile(r"\blid (\d+)(?: lmc ([0-7])\b)?")
_RATE = re.compile(r"\b(\d+)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_TITLE = re.compile(r"Chassis \d+(?: \(guid 0x[0-9a-f]+\))?$|Non-Chassis Nodes$|Hostname: ")
"""What only `-g` writes."""
_MESSAGE = re.compile(r"\S+\.c:\d+[:;] |(?:\S+: )?ib(?:warn|error|panic)\b")
"""libibnetdisc's messages, and libibmad's."""
_TERMINAL = re.compile(r".*[$#>]\s+(?:\S*/)?(?:sudo\s.*)?ibnetdiscover\b|(?:Switch|Ca|Rt)\d+ ?\"[SHR]-")
"""A prompt with the command, or a header that lost its tab."""
_LANE = {
    "SDR": 2.5,
    "DDR": 5,
    "QDR": 10,
    "FDR10": 10,
    "FDR": 14,
    "EDR": 25,
    "HDR": 50,
    "NDR": 100,
    "XDR": 200,
}
"""Gb/s per lane, by the usual names (InfiniBand Trade Association, roadmap)."""
_KINDS = {"Switch": "switch", "Ca": "ca", "Rt": "router"}


Ends = tuple[tuple[int, int], tuple[int, int]]
"""(GUID, port) of both ends of a cable."""


@dataclass(frozen=True, slots=True)
class HostPort:
    """A connected port of a host adapter: its number and LID, and the port and LID of what it is cabled to.

    Attributes:
        lmc: LID mask control: the 2^lmc LIDs from `lid` on lead to it.
    """

    port_guid: int
    port: int
    lid: int
    peer_guid: int
    peer_port: int
    peer_lid: int
    lmc: int = 0


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of one discovery.

    Attributes:
        fabric: nodes and cables; each cable once, ends in the order of (GUID, port).
        hosts: port GUID -> where that host port is.
        switch_lids: switch GUID -> its LID.
        rates: ends of a cable, in the order of `fabric`, -> Gb/s, if it is in the output.

    Where the text has messages about time-outs, or cables to nodes that it doesn't describe, `fabric.partial` has them.
    """

    fabric: ObservedFabric
    hosts: Mapping[int, HostPort]
    switch_lids: Mapping[int, int]
    rates: Mapping[Ends, int] = field(default_factory=dict[Ends, int])


@dataclass
class _Node:
    kind: str
    guid: int
    name: str
    ports: int
    lid: int = 0
    port_guids: list[int] = field(default_factory=list[int])


def is_discovery(text: str) -> bool:
    """Whether a text has a line that only this output has."""
    return _BEGINS.search(text) is not None


def parse_ibnetdiscover(text: str) -> Discovery:
    """The discovery in a text.

    Raises:
        InputError: a malformed line (with its number), or no node at all.
    """
    messages: list[str] = []
    nodes: dict[int, _Node] = {}
    cables: dict[Ends, int] = {}
    hosts: dict[int, HostPort] = {}
    current: _Node | None = None
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#") or _ATTRIBUTE.match(line) or _TITLE.match(line):
            continue
        if _MESSAGE.match(line):
            messages.append(line)
            continue
        if header := _HEADER.match(line):
            current = _node(header)
            nodes[current.guid] = current
        elif (port := _PORT.match(line)) and current is not None:
            here, there = (current.guid, int(port["port"])), (int(port["peer"], 16), int(port["peer_port"]))
            cables[(here, there) if here <= there else (there, here)] = _rate(port["comment"] or "")
            if current.kind == "ca" and port["guid"]:
                found = _host_port(port)
                hosts[found.port_guid] = found
                current.port_guids.append(found.port_guid)
        else:
            raise InputError("ibnetdiscover", line[:80], _allowed(line), f"line {number}")
    if not nodes:
        said = messages[0] if messages else text.strip()[:80]
        raise InputError("ibnetdiscover", said, "at least one node: the output has none", "line 1")
    lids = {g: n.lid for g, n in nodes.items() if n.kind == "switch"}
    rates = {cable: rate for cable, rate in cables.items() if rate}
    return Discovery(_fabric(nodes, list(cables), messages), hosts, lids, rates)


def _allowed(line: str) -> str:
    if _TERMINAL.match(line):
        return "ibnetdiscover's output alone; this is a terminal's log: write it with `ibnetdiscover > FILE`"
    return "a line of ibnetdiscover's output"


def _rate(comment: str) -> int:
    """Gb/s of a cable, from `4xHDR` behind the other end's name and LID; 0 if missing."""
    found = _RATE.search(comment.rpartition('"')[2])
    return int(int(found[1]) * _LANE[found[2]]) if found else 0


def _node(header: re.Match[str]) -> _Node:
    lid = _LID.search(header["rest"] or "")
    return _Node(
        kind=_KINDS[header["kind"]],
        guid=int(header["guid"], 16),
        name=header["name"] or "",
        ports=int(header["ports"]),
        lid=int(lid.group(1)) if lid else 0,
    )


def _host_port(port: re.Match[str]) -> HostPort:
    """`# lid 7 lmc 0 "leaf01" lid 2 4xHDR`: the first LID is its own, the last that of the other end."""
    comment = port["comment"] or ""
    own, other = _LID.match(comment), _LID.search(comment.rpartition('"')[2])
    return HostPort(
        port_guid=int(port["guid"], 16),
        port=int(port["port"]),
        lid=int(own.group(1)) if own else 0,
        peer_guid=int(port["peer"], 16),
        peer_port=int(port["peer_port"]),
        peer_lid=int(other.group(1)) if other else 0,
        lmc=int(own.group(2) or 0) if own else 0,
    )


def _fabric(nodes: Mapping[int, _Node], cables: list[Ends], messages: list[str]) -> ObservedFabric:
    def end(place: tuple[int, int]) -> End:
        node = nodes.get(place[0])
        return End(guid=place[0], port=place[1], name=node.name if node else "")

    undescribed = sorted({guid for cable in cables for guid, _ in cable} - nodes.keys())
    lacking = [f"{format_guid(guid)} has a cable and no record of its own" for guid in undescribed]
    ends = Counter(place for cable in cables for place in cable)
    lacking += [
        f"port {port} of {format_guid(guid)} has {count} cables: the fabric changed, or the text has two discoveries"
        for (guid, port), count in sorted(ends.items())
        if count > 1
    ]
    return ObservedFabric(
        partial=shown_messages([*messages, *lacking]),
        nodes=tuple(
            ObservedNode(
                guid=n.guid, kind=n.kind, name=n.name, ports=n.ports, port_guids=tuple(sorted(n.port_guids))
            )
            for n in sorted(nodes.values(), key=lambda n: n.guid)
        ),
        links=tuple((end(a), end(b)) for a, b in sorted(cables)),
    )
