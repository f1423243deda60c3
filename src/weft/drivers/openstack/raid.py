"""Software RAID of machines by Ironic's agent: what to request, and whether it exists. Pure.

Source: ironic 39, `drivers.modules.agent.AgentRAID`, `drivers/raid_config_schema.json`, api-ref (target RAID
configuration); ironic-python-agent 11, `hardware.GenericHardwareManager.validate_configuration`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from weft.drivers.openstack.service import Json
from weft.model.enrollment import LogicalDisk

STEPS: Sequence[Json] = (
    {"interface": "raid", "step": "delete_configuration"},
    {"interface": "deploy", "step": "erase_devices_metadata"},
    {"interface": "raid", "step": "create_configuration"},
)
"""Steps of a manual cleaning. The agent creates no array on disks with partitions."""


def target_of(arrays: Sequence[LogicalDisk]) -> Json:
    """`target_raid_config`; empty if no arrays are listed."""
    disks: list[Json] = [
        {
            "raid_level": one.level,
            "size_gb": one.size_gib or "MAX",
            "controller": "software",
            "is_root_volume": number == 0,
            **({"physical_disks": [dict(hints) for hints in one.disks]} if one.disks else {}),
        }
        for number, one in enumerate(arrays)
    ]
    return {"logical_disks": disks} if disks else {}


def array_differences(target: Mapping[str, Any], node: Mapping[str, Any]) -> tuple[str, ...]:
    """How the arrays that Ironic created on a machine differ from these."""
    wanted, there = _disks(target), _disks(node.get("raid_config"))
    if len(wanted) != len(there):
        return (f"it has {len(there)} arrays, and should have {len(wanted)}",)
    return tuple(
        f"array {number} has {name} {found.get(name)}, it should be {value}"
        for number, (one, found) in enumerate(zip(wanted, there, strict=True))
        for name, value in one.items()
        if found.get(name, False) != value
    )


def unlike_target(node: Mapping[str, Any]) -> str:
    """Why a machine's arrays differ from Ironic's target; empty if they don't, or if Ironic doesn't manage
    them."""
    target: object = node.get("target_raid_config")
    if node.get("raid_interface") != "agent" or not isinstance(target, Mapping) or not target:
        return ""
    return "; ".join(array_differences(cast(Mapping[str, Any], target), node))


def _disks(config: object) -> list[Mapping[str, Any]]:
    disks: object = (
        cast(Mapping[str, object], config).get("logical_disks") if isinstance(config, Mapping) else None
    )
    return cast(list[Mapping[str, Any]], disks) if isinstance(disks, list) else []
