"""What is held, booked, reserved and out of order: read from the database in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from weft.engine.database import Row, Tx
from weft.engine.partholds import part_of, promised_parts
from weft.model.placement import Occupancy, Part
from weft.model.plan import UsedNumbers
from weft.model.site import Site
from weft.model.spaces import SEGMENT, VLAN
from weft.planning.place.calendar import FOREVER
from weft.planning.place.sharing import NO_TERMS, Terms
from weft.planning.queue.book import Book, Keep

GONE_FOR = timedelta(minutes=15)
"""Longer than a listing of the hosts is cached."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What is held by whom, read in one transaction.

    Attributes:
        holds: node -> row of node, pod_id, since, spare, pod (its name), project_id, lease_end, wanted, and the
            pod's constraints on leaves: apart_from, exclusive, bisection_gbps.
        shared: rows like those of `holds`, of nodes that pods have parts of, and `parts` of them all.
        quarantines: node -> row of node, reason, since, pod_id.
        used: numbers and subnets of live pods.
        promises: rows of pod_id, pod, project_id, nodes, start_at, end_at, parts (of servers that will share nodes),
            came (of open bookings: when the pod was ordered), and the pod's constraints on leaves.
        reservations: rows of the table.
        places: rows like those of `holds`, of slots on shared hosts.
        gone: servers that weft saw go within the last `GONE_FOR`.
    """

    holds: Mapping[str, Row]
    quarantines: Mapping[str, Row]
    used: UsedNumbers
    promises: Sequence[Row] = ()
    reservations: Sequence[Row] = ()
    places: Sequence[Row] = ()
    shared: Sequence[Row] = ()
    parts: Sequence[Row] = ()
    gone: frozenset[str] = frozenset()

    @property
    def held(self) -> frozenset[str]:
        """Nodes that pods hold, whole or in part."""
        return frozenset(self.holds).union(row["node"] for row in self.shared)

    def occupancy(self) -> Occupancy:
        return Occupancy(
            busy={node: row["pod"] for node, row in self.holds.items()},
            quarantined={node: row["reason"] for node, row in self.quarantines.items()},
        )

    def health(self, site: Site, down: Mapping[str, str]) -> Occupancy:
        """What is out of order. A machine that is bound to the pod that holds it is fine."""
        own = self.holds.keys() & site.machine_by_name.keys()
        return Occupancy(
            quarantined={node: row["reason"] for node, row in self.quarantines.items()},
            down={node: why for node, why in down.items() if node not in own},
        )

    def book(self) -> Book:
        """What is known about the future, in POSIX time, pods by id. A requested release is due now."""
        rows: dict[UUID, Row] = {}
        nodes: dict[UUID, list[str]] = {}
        for node, row in self.holds.items():
            rows[row["pod_id"]] = row
            nodes.setdefault(row["pod_id"], []).append(node)
        parts: dict[UUID, list[tuple[str, Part]]] = {}
        for row in self.parts:
            parts.setdefault(row["pod_id"], []).append((row["node"], part_of(row)))
        for row in (*self.places, *self.shared):
            rows.setdefault(row["pod_id"], row)
            nodes.setdefault(row["pod_id"], []).append(row["node"])
        leases = [
            Keep(
                str(pod),
                row["project_id"],
                tuple(sorted(nodes[pod])),
                row["since"].timestamp(),
                seconds_of(row["lease_end"]) if row["wanted"] == "present" else 0.0,
                row["pod"],
                _terms(row),
                tuple(parts.get(pod, ())),
            )
            for pod, row in rows.items()
        ]
        promises = [_keep(r, str(r["pod_id"]), r["pod"], _terms(r)) for r in self.promises]
        opened = tuple(k for k in promises if k.came is not None)
        blocks = [_keep(r, r["name"], r["name"]) for r in self.reservations]
        return Book(
            tuple(sorted(leases, key=lambda k: k.name)),
            tuple(k for k in promises if k.came is None),
            tuple(blocks),
            opened,
        )


def seconds_of(moment: datetime | None) -> float:
    """POSIX time; None is never."""
    return FOREVER if moment is None else moment.timestamp()


def _keep(row: Row, name: str, label: str, terms: Terms = NO_TERMS) -> Keep:
    start, end = row["start_at"].timestamp(), seconds_of(row["end_at"])
    parts = promised_parts(row) if "parts" in row else ()
    came = row["came"].timestamp() if row.get("came") else None
    return Keep(name, row["project_id"], tuple(row["nodes"]), start, end, label, terms, parts, came)


def _terms(row: Row) -> Terms:
    return Terms(
        row["project_id"], frozenset(row["apart_from"] or ()), row["exclusive"], row["bisection_gbps"]
    )


def _under(prefix: str, numbers: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    """Numbers held in the spaces with a prefix, by the rest of their names."""
    return {s.removeprefix(prefix): frozenset(n) for s, n in numbers.items() if s.startswith(prefix)}


def read_capacity(tx: Tx) -> Capacity:
    """Holds, bookings and what is out of order, in the caller's transaction. Reads no documents."""
    numbers: dict[str, set[int]] = {}
    for row in tx.rows("number_holds"):
        numbers.setdefault(row["space"], set()).add(row["number"])
    subnets: dict[str, dict[str, set[str]]] = {"rdma": {}, "management": {}}
    for row in tx.rows("subnet_holds"):
        subnets[row["plane"]].setdefault(row["cloud"], set()).add(row["cidr"])
    held = tx.rows("node_holds")
    return Capacity(
        holds={row["node"]: row for row in held if row["whole"]},
        shared=[row for row in held if not row["whole"]],
        parts=tx.rows("part_holds"),
        quarantines={row["node"]: row for row in tx.rows("quarantines")},
        promises=tx.rows("promises"),
        reservations=tx.rows("reservations", at=tx.now()),
        places=tx.rows("place_holds"),
        gone=frozenset(r["outside_id"] for r in tx.rows("servers_gone", since=tx.now() - GONE_FOR)),
        used=UsedNumbers(
            segments=_under(SEGMENT, numbers),
            vlans=_under(VLAN, numbers),
            rdma_cidrs={cloud: frozenset(n) for cloud, n in subnets["rdma"].items()},
            management_cidrs={cloud: frozenset(n) for cloud, n in subnets["management"].items()},
            spaces={s: frozenset(n) for s, n in numbers.items() if not s.startswith((SEGMENT, VLAN))},
        ),
    )
