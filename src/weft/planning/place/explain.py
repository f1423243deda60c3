"""Why an order is refused, in one sentence. A decision explains its own placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.model.localityorder import Level
from weft.model.messages import placement
from weft.model.placement import FilterReport, PlacementRequest
from weft.planning.fabric.topology import NO_BLOCK, Topology
from weft.planning.place.ask import Ask
from weft.planning.place.engine import Engine
from weft.planning.place.nvlink import slices
from weft.planning.place.view import View
from weft.planning.words import some


def refusal_reason(
    request: PlacementRequest, engine: Engine, reports: Sequence[FilterReport], free: int
) -> str:
    """One sentence: how many nodes there are of how many, and what is in the way.

    Args:
        engine: an engine in which exactly the nodes that passed the filters are free, `free` in all.
    """
    wanted, size = request.count + request.spare, request.slice
    asked: dict[str, Any] = {"n": wanted, "spare": request.spare or None}
    total = engine.ledger.view(Ask.of(request)).pool.total * size
    if free < wanted:
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        return placement.TOO_FEW_NODES(**asked, there=free, removed=removed)
    if total < wanted:
        where = {
            "leaf": "per leaf",
            "nvlink_domain": "per NVLink domain",
            "whole_nvlink_domain": "that are whole NVLink domains",
        }[request.slice_within]
        return placement.TOO_FEW_GROUPS(**asked, size=size, where=where, there=total, free=free)
    if request.required == "node":
        return placement.NOT_ON_ONE_NODE(**asked)
    there: dict[str, Any] = {"there": total, "groups": size if size > 1 else None}
    if request.required != "site":
        most, where = _most_in_one(request, engine)
        if most < wanted or not request.bisection_gbps:
            return placement.NOT_IN_ONE(**there, most=most, n=wanted, level=request.required, where=where)
    what = some(wanted, "node") + (f" ({request.spare} of them spare)" if request.spare else "")
    what += f" within one {request.required}"
    return placement.UPLINKS_FULL(**there, gbps=request.bisection_gbps, what=what)


def _most_in_one(request: PlacementRequest, engine: Engine) -> tuple[int, str]:
    """The most nodes that one domain of the required level has, and its name; where nodes stay, theirs."""
    topology, view = engine.ledger.topology, engine.ledger.view(Ask.of(request))
    pool = view.pool
    free: dict[str, int] = {}
    for leaf, (name, room) in enumerate(zip(engine.ledger.numbers.leaves, pool.free, strict=True)):
        if not room:
            continue
        if request.required == "nvlink_domain":
            free |= _in_domains(engine, leaf, view)
        else:
            domain = _domain(
                request.required, name, engine.ledger.numbers.blocks[pool.block_of[leaf]], topology
            )
            free[domain] = free.get(domain, 0) + room * request.slice
    locations = [topology.locations[n] for n in request.near if n in topology.locations]
    if request.required == "nvlink_domain":
        stay = {s.nvlink_domain for s in locations}
    else:
        stay = {_domain(request.required, s.leaf, s.block, topology) for s in locations}
    if len(stay) > 1:
        return 0, "the nodes that stay are in several"
    if stay:
        domain = stay.pop()
        return free.get(domain, 0), f"{domain}, where the nodes that stay are"
    domain = max(free, key=free.__getitem__, default="there is none")
    return free.get(domain, 0), domain


def _in_domains(engine: Engine, leaf: int, view: View) -> dict[str, int]:
    """NVLink domain of a leaf -> how many free nodes of it form the groups that are asked for."""
    numbers = engine.ledger.numbers
    if not numbers.domains:
        return {}
    free, lens = engine.ledger.available[leaf] & view.mask[leaf], view.lens
    return {
        name: sum(units for units, _ in slices((domain,), free, lens)) * lens.slice
        for name, domain in zip(numbers.domain_names[leaf], numbers.domains[leaf], strict=True)
    }


def _domain(level: Level, leaf: str, block: str, topology: Topology) -> str:
    if level == "leaf":
        return leaf
    above = {"building": 0, "hall": 1}.get(level)
    return block if above is None else topology.above.get(block, (NO_BLOCK, NO_BLOCK))[above]
