"""What servers have, or will have, of shared nodes, as rows."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import ValidationError

from weft.engine.base.database import Tx
from weft.model.placement import Part, by_server
from weft.model.plan import Plan

log = logging.getLogger(__name__)

NodeParts = Sequence[tuple[str, Part]]
"""Node, and what a server has of it."""


def hold_parts(tx: Tx, plan: Plan, names: Container[str] | None = None) -> None:
    """Hold accelerators, cores, memory and virtual functions of a plan's servers on shared nodes, which are held.

    Args:
        names: of these servers (`by_server`); None: of all.
    """
    numbers, servers = plan.server_numbers, by_server(plan.placement.nodes)
    wanted = (s for s in servers if names is None or s in names)
    parts = [(numbers[s], n.node, n.part) for s in wanted for n in [servers[s]] if n.part is not None]
    tx.many(
        "hold_part",
        [
            {
                "node": node,
                "pod_id": plan.pod_id,
                "server": i,
                "devices": list(part.devices),
                "cores": part.cores,
                "memory_mib": part.memory_mib,
                "of_cores": part.of_cores,
                "of_memory_mib": part.of_memory_mib,
                "dedicated": part.dedicated,
                "numa": list(part.numa),
                "numa_of": part.numa_of,
            }
            for i, node, part in parts
        ],
    )
    functions = [
        {"node": node, "pod_id": plan.pod_id, "server": i, "function": vf}
        for i, node, part in parts
        for vf in part.vfs
    ]
    tx.many("hold_function", functions)


def bound_slots(seen: Iterable[tuple[str, Mapping[str, Any] | None]]) -> dict[str, str]:
    """Key of a port -> PCI address that Nova has bound for it, among facts of resources.

    A port that isn't bound any more keeps the last address: its server may be on its way back.
    """
    slots = ((key, (facts or {}).get("pci_slot")) for key, facts in seen)
    return {key: slot for key, slot in slots if isinstance(slot, str) and slot}


def bind_functions(tx: Tx, pod_id: object, bound: Mapping[str, str]) -> None:
    """Record which virtual functions Nova has bound."""
    tx.run("lock_functions", pod_id=pod_id, bound=Jsonb(dict(bound)))
    for key, slot in bound.items():
        tx.run("free_slot", pod_id=pod_id, key=key, slot=slot)
        tx.run("bind_function", pod_id=pod_id, key=key, slot=slot)


def part_of(row: Mapping[str, Any]) -> Part:
    """A row of `part_holds` as a value."""
    functions: Mapping[str, str | None] = row["functions"]
    return Part(
        devices=tuple(row["devices"]),
        cores=row["cores"],
        memory_mib=row["memory_mib"],
        dedicated=row["dedicated"],
        numa=tuple(row["numa"]),
        numa_of=row["numa_of"],
        vfs=tuple(sorted(functions)),
        slots={vf: slot for vf, slot in functions.items() if slot},
    )


def parts_document(parts: NodeParts) -> Jsonb | None:
    """What is booked for an order of parts of nodes; None: whole nodes."""
    rows = [{"node": node, "part": part.model_dump(mode="json")} for node, part in parts]
    return Jsonb(rows) if rows else None


def booked_parts(pod_id: UUID, document: Any) -> tuple[tuple[str, Part], ...]:
    """The parts in such a document. If it can't be read, the nodes count as booked whole: no other order gets them."""
    try:
        return tuple((str(p["node"]), Part.model_validate(p["part"])) for p in document or ())
    except (ValidationError, KeyError, TypeError) as error:
        log.error("booking of pod %s: its parts can't be read: %s", pod_id, error)
        return ()
