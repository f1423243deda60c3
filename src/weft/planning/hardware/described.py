"""What an inventory has on networks that a site file doesn't describe. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.model.hardware import HardwareRecord
from weft.model.site import SiteNetwork
from weft.planning.hardware.columns import ATTRIBUTES, interfaces_of
from weft.planning.hardware.kinds import IPU_MACHINE, KINDS, kind_of
from weft.planning.hardware.legs import LEGS
from weft.planning.hardware.where import address_of


def on_described(
    record: HardwareRecord, networks: Mapping[str, SiteNetwork], left_out: list[str]
) -> HardwareRecord:
    """An inventory's record without interfaces on networks that the site file doesn't describe.

    Args:
        left_out: each of them is appended, with the reason.
    """
    gone: set[str] = set()
    for interface in sorted(interfaces_of(record.cells)):
        texts = {a: c.text for a in ATTRIBUTES if (c := record.cells.get(f"{interface}_{a}"))}
        # Legs of IPU-Machines are on the networks of their IPU-POD.
        is_leg = KINDS.get(kind_of(record.text("kind") or "") or "") is IPU_MACHINE and interface in LEGS
        if is_leg or texts.keys() & {"fabric", "guid", "port_guid"}:
            continue
        if (why := _undescribed(texts, networks)) is not None:
            gone |= {f"{interface}_{attribute}" for attribute in ATTRIBUTES}
            place = record.cells[f"{interface}_mac"].place
            left_out.append(
                f"{place}: {record.text('name')}'s {interface}: no network of the site file {why}"
            )
    kept = {column: cell for column, cell in record.cells.items() if column not in gone}
    return replace(record, cells=kept)


def _undescribed(texts: Mapping[str, str], networks: Mapping[str, SiteNetwork]) -> str | None:
    """Why no network of the site has an interface; None: one has it, or the interface's values don't decide it."""
    if "network" in texts:
        name = texts["network"].partition("/")[0]
        return None if name in networks else f"is called {name}"
    if "address" in texts:
        if (address := address_of(texts["address"])) is None:
            return None
        known = any(address in s.addresses for one in networks.values() for s in one.subnets.values())
        return None if known else f"has the address {address}"
    vlan = texts.get("vlan")
    known = vlan is None or any(str(one.vlan) == vlan for one in networks.values())
    return None if known else f"has VLAN {vlan}"
