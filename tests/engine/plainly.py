"""Reads capacity plainly, table by table, for comparison with `read_capacity`, which reads only changes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow

from weft.engine.book.capacity import Capacity
from weft.engine.book.holdrows import Booked, Holder, NodeHold, PartHold
from weft.engine.book.partholds import parts_document
from weft.model.reservation import ReservationView

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
    + ", false AS spare, '' AS withheld, false AS whole, NULL::integer AS leaving"
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
    """All of the capacity as this connection sees it now, with rows in a fixed order."""

    def rows(query: LiteralString) -> list[Any]:
        return sorted(connection.execute(query).fetchall(), key=repr_of)

    holds = rows(_HOLDS)
    return {
        "holds": [r for r in holds if r["whole"]],
        "shared": [r for r in holds if not r["whole"]],
        "parts": rows(_PARTS),
        "places": rows(_PLACES),
        "bookings": rows(_BOOKINGS),
        "quarantines": rows("SELECT node, reason, since, pod_id, revision FROM quarantine"),
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
    """What `read_capacity` has found, in the form of `plainly`."""
    used = capacity.used
    numbers = [(f"segment/{f}", n) for f, ns in used.segments.items() for n in ns]
    numbers += [(f"vlan/{c}", n) for c, ns in used.vlans.items() for n in ns]
    numbers += [(s, n) for s, ns in used.spaces.items() for n in ns]
    planes = {"rdma": used.rdma_cidrs, "management": used.management_cidrs}
    return {
        "holds": sorted(map(_held, capacity.holds.values()), key=repr_of),
        "shared": sorted(map(_held, capacity.shared), key=repr_of),
        "parts": sorted(map(_part, capacity.parts), key=repr_of),
        "places": sorted(map(_held, capacity.places), key=repr_of),
        "bookings": sorted(map(_booked, capacity.bookings), key=repr_of),
        "quarantines": sorted(map(asdict, capacity.quarantines.values()), key=repr_of),
        "reservations": sorted(map(_reserved, capacity.reservations), key=repr_of),
        "drains": sorted((asdict(s.drain) for s in capacity.stops.values() if s.drain), key=repr_of),
        "holds of nodes": sorted((asdict(h) for s in capacity.stops.values() for h in s.holds), key=repr_of),
        "numbers": sorted(numbers),
        "subnets": sorted((p, c, cidr) for p, by in planes.items() for c, cs in by.items() for cidr in cs),
    }


def _held(hold: NodeHold) -> Found:
    own = {"node": hold.node, "since": hold.since, "spare": hold.spare, "whole": hold.whole}
    own["withheld"] = hold.withheld
    pod, released = hold.pod, "absent" if hold.pod.released else "present"
    return own | {"leaving": hold.leaving, **_pod(pod), "lease_end": pod.lease_end, "wanted": released}


def _pod(pod: Holder) -> Found:
    of, terms = {"pod_id": pod.id, "pod": pod.name, "project_id": pod.project_id}, pod.terms
    assert terms.project == pod.project_id
    apart = sorted(terms.apart_from) or None
    return of | {"apart_from": apart, "exclusive": terms.exclusive, "bisection_gbps": terms.gbps}


def _part(hold: PartHold) -> Found:
    own = {"node": hold.node, "pod_id": hold.pod_id, "server": hold.server, "leaving": hold.leaving}
    columns = {"devices", "cores", "memory_mib", "dedicated", "numa", "numa_of"}
    functions = {vf: hold.part.slots.get(vf) for vf in hold.part.vfs}
    return own | hold.part.model_dump(mode="json", include=columns) | {"functions": functions}


def _booked(booked: Booked) -> Found:
    own = {"nodes": list(booked.nodes), "start_at": booked.start, "end_at": booked.end, "came": booked.came}
    parts = parts_document(booked.parts)
    return own | {"parts": parts and parts.obj, **_pod(booked.pod)}


def _reserved(one: ReservationView) -> Found:
    named = {"start": "start_at", "end": "end_at"}
    return {named.get(k, k): list(v) if k == "nodes" else v for k, v in one.model_dump().items()}


def repr_of(row: Any) -> str:
    """Key for sorting rows that doesn't depend on how they were read."""
    return repr([(key, str(row[key])) for key in sorted(row)])
