"""Refuses orders that a fabric, its manager or the site makes impossible, with changes that would be possible. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.fabric import Capabilities
from weft.model.fabrictypes import FabricKind
from weft.model.messages import placement
from weft.model.offer import FieldsOffer, OfferedChange, applied
from weft.model.order import Order
from weft.model.placement import Explanation, Refusal
from weft.planning.shapes.shape import Resolved


def not_possible(resolved: Resolved, can: Capabilities | None) -> Refusal | None:
    """The refusal of what the fabric's manager reports it can't do, or what the site lacks; None: all is possible."""
    order, fabric = resolved.order, resolved.fabric
    if order.fabric.rdma and resolved.site.fabrics[fabric].type is FabricKind.OMNIPATH:
        return _not_on_omni_path(resolved, fabric)
    if order.fabric.hcas != "shared":
        return None
    whole = [_change("fabric.hcas", "shared", "dedicated")]
    if order.nodes.sharing == "shared":  # shared nodes have no whole adapters
        whole.append(_change("nodes.sharing", "shared", "dedicated"))
    if can is None:
        why = "what its manager can do is not known"
    elif not can.virtual_functions:
        why = can.why_no_virtual_functions
    elif not any(h.vfs for n in resolved.site.nodes for h in n.hcas_on(fabric)):
        why = "the site describes no virtual functions"
    elif order.nodes.sharing == "dedicated":
        why, whole = "whole nodes have whole adapters", [_change("nodes.sharing", "dedicated", "shared")]
    else:
        return None
    return _impossible(placement.NO_SHARED_ADAPTERS(fabric=fabric, why=why), order, whole)


def _not_on_omni_path(resolved: Resolved, fabric: str) -> Refusal | None:
    order = resolved.order
    if order.nodes.kind == "bare_metal":
        return None
    what = "shared adapters" if order.fabric.hcas == "shared" else "virtual machines"
    reason = placement.NOT_ON_OMNI_PATH(what=what, fabric=fabric)
    return _impossible(reason, order, _as_machines(resolved))


def _as_machines(resolved: Resolved) -> list[OfferedChange]:
    """Changes that turn an order of virtual machines into one of whole machines, with the same accelerators if
    possible; none where no flavor is for machines."""
    order, flavors = resolved.order, resolved.site.clouds[resolved.cloud].flavors
    asked, same = order.nodes.accelerators, resolved.accelerators
    machines = {name: f.accelerators for name, f in flavors.items() if f.bare_metal}
    there = sorted(
        (same is not None and has != same, name)
        for name, has in machines.items()
        if asked is None or has == same
    )
    if not there:
        return []
    changes = [_change("nodes.kind", "virtual", "bare_metal")]
    if order.nodes.flavor is not None:
        changes.append(_change("nodes.flavor", order.nodes.flavor, there[0][1]))
    if order.nodes.sharing == "shared":
        changes.append(_change("nodes.sharing", "shared", "dedicated"))
    if order.fabric.hcas == "shared":
        changes.append(_change("fabric.hcas", "shared", "dedicated"))
    return changes


def _change(field: str, was: str, becomes: str) -> OfferedChange:
    return OfferedChange(field=field, was=was, becomes=becomes)


def _impossible(reason: str, order: Order, changes: Sequence[OfferedChange]) -> Refusal:
    """A refusal of what waiting won't make possible, with changes that would, if the order can have them."""
    offers = (FieldsOffer(changes=tuple(changes)),) if changes else ()
    possible = tuple(one for one in offers if _is_order(order, one))
    return Refusal(reason=reason, explanation=Explanation(considered=0, chosen=reason), would_fit=possible)


def _is_order(order: Order, offer: FieldsOffer) -> bool:
    try:
        applied(order, offer)
    except ValueError:  # such as spare nodes with shared ones
        return False
    return True
