"""Reads capacity plainly, table by table, for comparison with `read_capacity`, which reads only changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow

from weft.engine.book.capacity import Capacity

Found = dict[str, Any]

_POD: LiteralString = (
    "p.name AS pod, p.project_id, p.lease_end, p.wanted, nullif(p.apart_from, '[]') AS apart_from, p.exclusive,"
    " p.bisection_gbps"
)
_HOLDS: LiteralString = (
    "SELECT h.node, h.pod_id, h.since, h.spare, h.withheld, h.whole, h.leaving, "
    + _POD
    + " FROM node_hold h JOIN pod p ON p.id = h.pod_id"
)
_PARTS: LiteralString = """
    SELECT p.node, p.pod_id, p.server, p.devices, p.cores, p.memory_mib, p.dedicated, p.numa, p.numa_of, p.leaving,
        coalesce(f.functions, '{}') AS functions
    FROM part_hold p LEFT JOIN (
        SELECT node, pod_id, server, jsonb_object_agg(function, slot) AS functions FROM function_hold
        GROUP BY node, pod_id, server) f USING (node, pod_id, server)"""
_PLACES: LiteralString = (
    "SELECT h.space || '/' || h.number AS node, h.owner_id AS pod_id, coalesce(p.placed_at, p.created_at) AS since, "
    + _POD
    + ", false AS spare, '' AS withheld, NULL::integer AS leaving"
    " FROM number_hold h JOIN pod p ON p.id = h.owner_id WHERE starts_with(h.space, 'host/')"
)
_BOOKINGS: LiteralString = (
    "SELECT r.pod_id, r.nodes, r.start_at, r.end_at, r.parts, CASE WHEN r.open THEN p.created_at END AS came,"
    " p.name AS pod, p.project_id,"
    " nullif(p.apart_from, '[]') AS apart_from, p.exclusive, p.bisection_gbps"
    " FROM booking r JOIN pod p ON p.id = r.pod_id"
)
_NUMBERS: LiteralString = (
    "SELECT space, number FROM number_hold UNION SELECT 'segment/' || fabric, number FROM stale_number"
)


def plainly(connection: psycopg.Connection[DictRow]) -> Found:
    """All of it, as this connection sees it now, in one order."""

    def rows(query: LiteralString) -> list[Any]:
        return sorted(connection.execute(query).fetchall(), key=repr_of)

    holds = rows(_HOLDS)
    return {
        "holds": [r for r in holds if r["whole"]],
        "shared": [r for r in holds if not r["whole"]],
        "parts": rows(_PARTS),
        "places": rows(_PLACES),
        "bookings": rows(_BOOKINGS),
        "quarantines": rows("SELECT node, reason, since, pod_id FROM quarantine"),
        "reservations": rows("SELECT * FROM reservation"),
        "holds of nodes": rows(
            "SELECT node, what, since, held_by, cause, tests, tests_from, revision FROM acceptance"
        ),
        "drains": rows("SELECT * FROM drain"),
        "numbers": sorted((r["space"], r["number"]) for r in rows(_NUMBERS)),
        "subnets": sorted(
            (r["plane"], r["cloud"], r["cidr"]) for r in rows("SELECT plane, cloud, cidr FROM subnet_hold")
        ),
    }


def counted(capacity: Capacity) -> Found:
    """The same of what `read_capacity` found."""
    used = capacity.used
    numbers = [(f"segment/{f}", n) for f, ns in used.segments.items() for n in ns]
    numbers += [(f"vlan/{c}", n) for c, ns in used.vlans.items() for n in ns]
    numbers += [(s, n) for s, ns in used.spaces.items() for n in ns]
    planes = {"rdma": used.rdma_cidrs, "management": used.management_cidrs}
    return {
        "holds": sorted(capacity.holds.values(), key=repr_of),
        "shared": sorted(capacity.shared, key=repr_of),
        "parts": sorted(capacity.parts, key=repr_of),
        "places": sorted(capacity.places, key=repr_of),
        "bookings": sorted(capacity.bookings, key=repr_of),
        "quarantines": sorted(capacity.quarantines.values(), key=repr_of),
        "reservations": sorted(capacity.reservations, key=repr_of),
        "drains": sorted((asdict(s.drain) for s in capacity.stops.values() if s.drain), key=repr_of),
        "holds of nodes": sorted((asdict(h) for s in capacity.stops.values() for h in s.holds), key=repr_of),
        "numbers": sorted(numbers),
        "subnets": sorted((p, c, cidr) for p, by in planes.items() for c, cs in by.items() for cidr in cs),
    }


def repr_of(row: Any) -> str:
    """An order of rows that doesn't depend on how they were read."""
    return repr([(key, str(row[key])) for key in sorted(row)])
