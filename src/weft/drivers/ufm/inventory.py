"""What UFM has discovered on the fabric: ports, virtual ports, cables, and what is wrong with them. Readers are pure.

Everything is identified by GUIDs: descriptions may be `localhost`, numbers come as text or number, and a host whose
adapter was replaced stays in the list with the old one's GUIDs and no peer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from weft.drivers.ufm.partitions import guid_of
from weft.drivers.ufm.rest import Rest
from weft.model.errors import UnknownError
from weft.model.ids import parse_guid
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.planning.fabric.sightings import Sightings

PAGE = 2000
MOST_PAGES = 500
READINGS = 4
"""Number of times that a list with inconsistent pages is read."""
QUIET_SECONDS = 30.0
_CLOSE = 4.0
"""Longest pause between two readings, in multiples of the quiet time: in a longer one UFM may have
restarted."""
_COUNTS = ("num_of_pages", "total_resources", "filtered_resources")
_NONE = ("", "N/A", "None")
_IDLE = frozenset({"down", "init", "initialize", "initializing", "armed"})
"""States in which a virtual port carries no traffic, in lower case."""


@dataclass(frozen=True, slots=True)
class UfmPort:
    """One end of a cable, of a host or a switch.

    Attributes:
        guid: of the port (a switch's ports have the switch's).
        node: GUID of the adapter or the switch.
        active: whether it can carry traffic now.
        down: whether it has no link. A port that is neither active nor down is coming up, with the table that
        it has.
        state: UFM's own words.
    """

    guid: int
    node: int
    number: int
    host: bool
    active: bool
    down: bool
    state: str
    description: str
    peer: tuple[int, int] | None


def read_ports(rows: list[Any]) -> list[UfmPort]:
    """UFM's rows of ports. Raises ValueError for a row that names no port."""
    return [_port(cast(dict[str, Any], r)) for r in rows]


@dataclass(frozen=True, slots=True)
class VirtualPort:
    """A virtual function's own port.

    Attributes:
        physical: GUID of the port that it is behind.
        state: UFM's own words.
        lid: its own, as UFM writes it; empty: UFM doesn't say.
    """

    guid: int
    physical: int
    state: str
    lid: str = ""

    @property
    def active(self) -> bool:
        """Whether the subnet manager has activated the port."""
        return self.state.lower() == "active"

    @property
    def idle(self) -> bool:
        """Whether UFM says that it isn't active; an unknown state doesn't say so."""
        return self.state.lower() in _IDLE


@dataclass(frozen=True, slots=True)
class VirtualPorts:
    """Virtual ports by their GUIDs. `unproved`: UFM shows none at all, but may not have discovered them yet."""

    by_guid: Mapping[int, tuple[VirtualPort, ...]]
    unproved: bool = False


def read_virtual(rows: list[Any]) -> dict[int, tuple[VirtualPort, ...]]:
    """Virtual ports by GUID, which may be assigned twice. Raises ValueError for a row that names no port."""
    found: dict[int, tuple[VirtualPort, ...]] = {}
    for row in rows:
        if not _has_guid(row):
            continue
        one = VirtualPort(
            guid_of(row["virtual_port_guid"]),
            guid_of(row.get("port_guid")),
            str(row.get("virtual_port_state") or "no state"),
            str(row.get("virtual_port_lid") or ""),
        )
        found[one.guid] = (*found.get(one.guid, ()), one)
    return found


def _has_guid(row: Mapping[str, Any]) -> bool:
    """Whether a virtual port has a GUID; one without it has zeros. Raises ValueError for a row that doesn't say."""
    virtual = row.get("virtual_port_guid")
    if not isinstance(virtual, str):
        raise ValueError(f"virtual_port_guid {virtual!r}: text of 16 hex digits")
    return bool(int(virtual or "0", 16))


def by_guid(ports: Iterable[UfmPort]) -> dict[int, UfmPort]:
    """Ports by GUID. Of two rows with the same GUID, the more active one counts: the other doesn't prove that the port
    is down."""
    return {p.guid: p for p in sorted(ports, key=lambda p: (p.active, not p.down))}


def topology(ports: list[UfmPort]) -> ObservedFabric:
    """Nodes and cables as UFM shows them now: a node without an active port and without a peer doesn't exist
    any more."""
    by_node: dict[int, list[UfmPort]] = {}
    for port in ports:
        by_node.setdefault(port.node, []).append(port)
    nodes: list[ObservedNode] = []
    for guid, mine in sorted(by_node.items()):
        if not any(p.active or p.peer for p in mine):
            continue
        host, name = mine[0].host, next((p.description for p in mine if p.description), "")
        port_guids = tuple(p.guid for p in sorted(mine, key=lambda p: p.number)) if host else ()
        kind = "ca" if host else "switch"
        nodes.append(ObservedNode(guid=guid, kind=kind, name=name, ports=len(mine), port_guids=port_guids))
    there = {n.guid: n.name for n in nodes}
    cables = {
        tuple(sorted([(p.node, p.number), p.peer]))
        for p in ports
        if p.peer and p.active and p.peer[0] in there
    }
    links = [tuple(End(guid=g, port=n, name=there[g]) for g, n in ends) for ends in sorted(cables)]
    return ObservedFabric(nodes=tuple(nodes), links=tuple((a, b) for a, b in links))


def alarm_text(row: Mapping[str, Any]) -> str:
    """The text of an alarm, in the format of versions up to 6.16, or in that of newer ones."""
    name = row.get("object_name") or row.get("related_object_name") or "something"
    what = row.get("description") or row.get("reason") or row.get("name") or "no text"
    return f"UFM's alarm ({row.get('severity') or 'no severity'}) on {name}: {str(what)[:200]}"


def unhealthy_text(row: Mapping[str, Any]) -> str:
    """`Condition` is a text in the list of ports, and a list for a single port."""
    condition: Any = row.get("Condition")
    words = ", ".join(map(str, cast(list[Any], condition))) if isinstance(condition, list) else str(condition)
    return (
        f"UFM has port {row.get('UnhealthyPort')} of {row.get('UnhealthyGUID')} as unhealthy: {words}"
        f" ({row.get('State') or 'no state'})"
    )


class UfmInventory:
    """UFM's lists, read again with each call. Every method may raise `UnknownError`.

    Args:
        quiet: seconds for which UFM must have shown no virtual ports at all, or a port no longer, before it
        counts as
        gone: right after its start it answers, but has discovered nothing yet.
    """

    def __init__(self, rest: Rest, quiet: float = QUIET_SECONDS) -> None:
        self._rest, self._quiet = rest, quiet
        self._lock = threading.Lock()
        self._empty: tuple[float, float] | None = None
        self._listed = Sightings[tuple[int, int]](quiet)

    def ports(self, hosts: bool = False) -> list[UfmPort]:
        """UFM's ports. Args: hosts: only those of hosts."""
        query = {"sys_type": "Computer"} if hosts else {}
        try:
            return read_ports(self._pages("ports", query))
        except (ValueError, TypeError, AttributeError) as error:
            raise UnknownError("read the ports", "UFM", f"a row that isn't a port: {error}") from error

    def virtual(self) -> VirtualPorts:
        """Virtual ports, read twice; says whether an empty listing is believed. Raises `UnknownError`."""
        rows: list[Any] | None = None
        try:
            rows = self._pages("vports", {}, twice=True)
            return VirtualPorts(read_virtual(rows), not rows and not self._are_none())
        except (ValueError, TypeError, AttributeError) as error:
            raise UnknownError("read the virtual ports", "UFM", f"an invalid row: {error}") from error
        finally:
            if rows != []:
                with self._lock:
                    self._empty = None

    def _are_none(self) -> bool:
        """Whether UFM, which shows no virtual ports now, has shown none for long, in closely spaced readings."""
        now = time.monotonic()
        with self._lock:
            first, last = self._empty or (now, now)
            first = first if now - last <= _CLOSE * self._quiet else now
            self._empty = first, now
        return now - first >= self._quiet

    def topology(self) -> ObservedFabric:
        """The fabric as UFM has discovered it. Partial while UFM lists fewer ports than before, since it still lists a
        port that went down or was unplugged."""
        ports = self.ports()
        with self._lock:
            self._listed.note({(p.node, p.number) for p in ports}, time.monotonic(), True)
            fewer = len(self._listed.doubted)
        said = f"UFM no longer lists {fewer} ports that it listed before; a list in {self._quiet:.0f} s confirms it"
        return topology(ports).model_copy(update={"partial": (said,) if fewer else ()})

    def complaints(self, most: int) -> list[str]:
        """Alarms above severity information, and ports that UFM considers unhealthy."""
        alarms = [
            alarm_text(r)
            for r in self._rows("/app/alarms")
            if str(r.get("severity")).lower() not in ("info", "ok")
        ]
        ports = [unhealthy_text(r) for r in self._rows("/app/unhealthy_ports")]
        found = [*alarms, *ports]
        more = (
            [f"and {len(found) - most} more of UFM's alarms and unhealthy ports"] if len(found) > most else []
        )
        return [*found[:most], *more]

    def _rows(self, path: str) -> list[dict[str, Any]]:
        if (document := self._rest.get(path)) is None:
            return []
        if not isinstance(document, list) or not all(isinstance(r, dict) for r in cast(list[Any], document)):
            raise UnknownError(f"read {path}", "UFM", "an answer that is no list of objects")
        return cast(list[dict[str, Any]], document)

    def _pages(self, what: str, query: Mapping[str, str], twice: bool = False) -> list[Any]:
        """Every row. A list that changes while its pages are read is read again: a row may have moved to one that was
        read already.

        Args:
            twice: repeat until two readings of several pages are equal, since one row may come while another
            goes.
        """
        before: list[Any] | None = None
        for _ in range(READINGS):
            rows = self._once(what, query)
            if rows is not None and (not twice or len(rows) <= PAGE or rows == before):
                return rows
            before = rows
        raise UnknownError(f"read the {what}", "UFM", f"the list changed during each of {READINGS} readings")

    def _once(self, what: str, query: Mapping[str, str]) -> list[Any] | None:
        """Every row; a UFM without paging answers with all of them at once. None if the pages are
        inconsistent."""
        found: list[Any] = []
        announced: set[tuple[int, ...]] = set()
        for number in range(1, MOST_PAGES + 1):
            document = self._rest.get(f"/resources/{what}", **query, page_number=str(number), rpp=str(PAGE))
            if isinstance(document, list):
                return cast(list[Any], document)
            page = cast(dict[str, Any], document) if isinstance(document, dict) else {}
            rows, counts = page.get("data"), [page.get(n) for n in _COUNTS if n in page]
            if not isinstance(rows, list):
                raise UnknownError(f"read the {what}", "UFM", "a page without rows")
            if page.get("num_of_pages") is None or len(counts) < 2:
                raise UnknownError(
                    f"read the {what}", "UFM", "a page that doesn't say how many rows there are"
                )
            found += cast(list[Any], rows)
            pages, *totals = (int(cast(Any, n)) for n in counts)
            announced.add((pages, *totals))
            if number >= pages:
                whole = len(announced) == 1 and len(found) in totals
                return found if whole and (pages <= 1 or not _twice(found)) else None
        raise UnknownError(f"read the {what}", "UFM", f"more than {MOST_PAGES} pages of {PAGE}")


def _twice(rows: list[Any]) -> bool:
    """Whether a row occurs twice. Virtual ports without a GUID can't be distinguished."""
    known: set[tuple[str, ...]] = set()
    for row in rows:
        if "virtual_port_guid" in row and not _has_guid(row):
            continue
        names = ("name", "virtual_port_guid", "port_guid", "virtual_port_lid")
        one = tuple(str(row.get(n)) for n in names)
        if one in known:
            return True
        known.add(one)
    return False


def _port(row: dict[str, Any]) -> UfmPort:
    name = str(row.get("name") or "")
    node = guid_of(row.get("systemID") or name.rpartition("_")[0])
    number = int(row.get("number") or name.rpartition("_")[2])
    logical = str(row.get("logical_state") or "")
    return UfmPort(
        guid=guid_of(row.get("guid") or f"{node:016x}"),
        node=parse_guid(name.rpartition("_")[0]) if "_" in name else node,
        number=number,
        host=str(row.get("description") or "").startswith("Computer"),
        active=logical == "Active",
        down=logical == "Down",
        state=f"{logical or 'no state'}, {row.get('physical_state') or 'no link state'}",
        description=str(row.get("node_description") or ""),
        peer=_peer(str(row.get("peer") or "")),
    )


def _peer(text: str) -> tuple[int, int] | None:
    if text in _NONE:
        return None
    guid, _, number = text.rpartition("_")
    return parse_guid(guid), int(number)
