"""What documents of earlier versions looked like: the functions of the steps in `weft.engine.documents`. Pure.

They know the words of their time; nothing else does.
"""

from __future__ import annotations

from typing import Any

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
    """Version 1: P_Key and VLAN were fields of the allotment, and not numbers of a space like all others."""
    allotment = dict(plan["allotment"])
    numbers = {**allotment.get("numbers", {}), VLAN + plan["cloud"]: allotment.pop("vlan")}
    pkey = allotment.pop("pkey", None)
    if pkey is not None:
        numbers[SEGMENT + plan["fabric"]] = int(pkey, 0)
    return {**plan, "allotment": {**allotment, "numbers": numbers, "segment": pkey}}
