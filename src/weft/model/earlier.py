"""Upcasters of documents of earlier versions, used by the steps in `weft.engine.base.documents`. Pure.

They use the terms of their time; nothing else does.
"""

from __future__ import annotations

from typing import Any, cast

from weft.model.spaces import SEGMENT, VLAN

Fields = dict[str, Any]


def partition_to_segment(resource: Fields) -> Fields:
    """Version 1: a fabric was an InfiniBand one, and its segments were partitions of full members."""
    spec = resource["spec"]
    if spec["kind"] != "partition":
        return resource
    members = [{"port": port, "mode": "full"} for port in spec["members"]]
    segment = {"kind": "segment", "number": int(spec["pkey"], 0), "members": members}
    return {**resource, "spec": segment | {"fabric_type": "infiniband"}}


def allotment_to_spaces(plan: Fields) -> Fields:
    """Version 1: P_Key and VLAN were fields of the allotment, not numbers of a space like all others."""
    allotment = dict(plan["allotment"])
    numbers = {**allotment.get("numbers", {}), VLAN + plan["cloud"]: allotment.pop("vlan")}
    pkey = allotment.pop("pkey", None)
    if pkey is not None:
        numbers[SEGMENT + plan["fabric"]] = int(pkey, 0)
    return {**plan, "allotment": {**allotment, "numbers": numbers, "segment": pkey}}


def order_of_blocks(order: Fields) -> Fields:
    """A group of leaves with spines of their own is a block; it was called a pod."""
    locality = dict(order.get("locality") or {})
    for field in ("required", "preferred"):
        if field in locality:
            locality[field] = _level(locality[field])
    if "preferences" in locality:
        locality["preferences"] = [{**one, "kind": _level(one["kind"])} for one in locality["preferences"]]
    return {**order, "locality": locality} if locality else order


def plan_of_blocks(plan: Fields) -> Fields:
    """Blocks were called pods in a plan's placement, too; the texts of its explanation stay unchanged."""
    placement = dict(plan["placement"])
    placement["level"] = _level(placement["level"])
    for field in ("nodes", "spares"):
        placement[field] = [_renamed(node, "pod", "block") for node in placement.get(field) or ()]
    explanation = dict(placement["explanation"])
    explanation["compared"] = [_renamed(one, "pods", "blocks") for one in explanation.get("compared") or ()]
    return {**plan, "placement": {**placement, "explanation": explanation}}


def site_of_blocks(site: Fields) -> Fields:
    """Blocks were called pods in a site's switches and in its placement's weights, too."""
    found = dict(site)
    if isinstance(switches := found.get("switches"), list):
        found["switches"] = [_renamed(switch, "pod", "block") for switch in cast(list[Fields], switches)]
    if "placement" in found:
        found["placement"] = _renamed(found["placement"], "pod", "block")
    return found


def site_of_bookings(site: Fields) -> Fields:
    """A start that is promised to an order is a booking; the queue's setting was called `promises`."""
    return {**site, "queue": _renamed(site["queue"], "promises", "bookings")} if "queue" in site else site


def _level(name: Any) -> Any:
    return "block" if name == "pod" else name


def _renamed(fields: Fields, old: str, new: str) -> Fields:
    return {new if name == old else name: value for name, value in fields.items()}
