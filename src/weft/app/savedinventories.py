"""Hardware that other programs saved as JSON: NetBox's and Nautobot's listings, and Ironic's nodes.

A file is recognised by what is in it. Objects of NetBox and Nautobot (devices, interfaces, ip-addresses) may be in one
file or several.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.app.sitefile import read_text
from weft.drivers.nautobot import as_netbox, kind_of_object, other_object
from weft.drivers.netboxrecords import ADDRESS_STATUSES, DEVICE_STATUSES, Devices
from weft.model.errors import InputError, InputErrors
from weft.model.hardware import HardwareRecord
from weft.planning.fabric.ibnetdiscover import is_discovery
from weft.planning.hardware.ironicnodes import is_ironic_node, of_node

Json = Mapping[str, Any]
_LISTS = ("results", "nodes", "hardware")
"""Members that hold a listing: of NetBox and Nautobot, of Ironic, and of weft's own lists."""
_ODD_SHAPE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)


@dataclass(slots=True)
class Saved:
    """What files of other programs have.

    Attributes:
        lists: the other files, which are hardware lists.
        texts: those that were read, and their text: a pipe can't be read again.
        records: the hardware.
        machines: places of those that are Ironic's nodes.
    """

    lists: list[str] = field(default_factory=list[str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    records: list[HardwareRecord] = field(default_factory=list[HardwareRecord])
    machines: set[str] = field(default_factory=set[str])


def saved_inventories(
    files: Sequence[str], statuses: Collection[str], errors: list[InputError], left_out: list[str]
) -> Saved:
    """Reads the files that are other programs' JSON; problems are added to `errors`.

    Args:
        statuses: of NetBox's and Nautobot's devices and addresses to include, besides those in use.
        left_out: what isn't taken is added to it, a sentence each.
    """
    saved, objects = Saved(), dict[str, list[Json]]()
    for file in files:
        try:
            document = _json(file, saved.texts)
            if document is None:
                saved.lists.append(file)
                continue
            rows = _rows(document, file)
            if not rows:
                saved.lists.append(file)
            elif all(map(is_ironic_node, rows)):
                nodes = [of_node(one, f"{file} (node {i})") for i, one in enumerate(rows, 1)]
                saved.records += nodes
                saved.machines |= {one.place for one in nodes}
                left_out += [note for one in nodes for note in one.notes]
                left_out.append(
                    f"{file}: of Ironic's nodes everything but name, UUID, resource class, BMC, maintenance"
                )
            elif all(kind_of_object(one) for one in rows):
                for one in rows:
                    objects.setdefault(kind_of_object(one) or "", []).append(one)
            elif other := next(filter(None, map(other_object, rows)), None):
                allowed = "devices, interfaces and ip-addresses; this has other objects: leave them out"
                raise InputError("LIST", file, f"{allowed} ({other})")
            else:
                saved.lists.append(file)
        except InputError as error:
            errors.append(error)
    if objects:
        try:
            saved.records += _of_objects(objects, frozenset(statuses), left_out)
        except InputError as error:
            errors.append(error)
        except _ODD_SHAPE:
            allowed = "devices, interfaces and addresses as NetBox 3.3 or Nautobot (?depth=1) writes them"
            errors.append(InputError("LIST", ", ".join(f for f in files if f not in saved.lists), allowed))
    return saved


def without_unknown_bmcs(
    records: Sequence[HardwareRecord], machines: Collection[str], left_out: list[str]
) -> list[HardwareRecord]:
    """The records without BMCs whose MAC address nothing says: Ironic's nodes have only its address.

    Args:
        machines: places of Ironic's nodes.
        left_out: each of them is added to it.
    """
    found: list[HardwareRecord] = []
    for record in records:
        if record.place in machines and "bmc_address" in record.cells and "bmc_mac" not in record.cells:
            address = record.text("bmc_address")
            left_out.append(
                f"{record.place}: the BMC at {address}: its MAC address isn't in it (--redfish, --inspection)"
            )
            cells = {column: cell for column, cell in record.cells.items() if not column.startswith("bmc_")}
            found.append(replace(record, cells=cells))
        else:
            found.append(record)
    return found


def _json(file: str, texts: dict[str, str]) -> Any:
    """The document in a file; None if it isn't JSON, or can't be read, which is reported where lists are read.

    Args:
        texts: the file's text is added to it.
    """
    try:
        text = texts[file] = read_text(Path(file))
    except (InputError, InputErrors):
        return None
    if is_discovery(text):
        raise InputError("LIST", file, "a hardware list; this is ibnetdiscover's output: --fabric reads it")
    try:
        return json.loads(text) if text.lstrip()[:1] in ("[", "{") else None
    except (ValueError, RecursionError):
        return None


def _rows(document: Any, file: str) -> list[Any]:
    """The objects of a document. Raises `InputError` for one that another option reads, or that isn't whole."""
    if isinstance(document, list):
        return document
    if "inventory" in document:
        raise InputError(
            "LIST", file, "a hardware list; this is Ironic's inspection data: --inspection reads it"
        )
    if "ports" in document and "nodes" not in document:
        allowed = "Ironic's nodes; these are its ports: --inspection reads interfaces (baremetal node inventory save)"
        raise InputError("LIST", file, allowed)
    rows = next((document[name] for name in _LISTS if isinstance(document.get(name), list)), None)
    if rows is None:
        return [document]
    count = document.get("count")
    more = isinstance(count, int) and count > len(rows)  # also on the last page, which has no next one
    if document.get("next") or more:
        whole = f" of {count}" if isinstance(count, int) else ""
        shown = f"this is a page of {len(rows)} objects{whole}"
        raise InputError("LIST", file, f"all pages in one: {shown} (a larger `limit` gives all)")
    return rows


def _of_objects(
    objects: Mapping[str, list[Json]], statuses: frozenset[str], left_out: list[str]
) -> list[HardwareRecord]:
    made = Devices(DEVICE_STATUSES | statuses, ADDRESS_STATUSES | statuses, left_out)
    objects = {kind: [as_netbox(one) for one in rows] for kind, rows in objects.items()}
    devices = objects.get("devices", [])
    if not devices:
        raise InputError("LIST", None, "a listing of devices too; there are only interfaces or addresses")
    interfaces: dict[Any, list[Json]] = {}
    for one in objects.get("interfaces", ()):
        interfaces.setdefault((one.get("device") or {}).get("id"), []).append(one)
    addresses: dict[Any, list[Json]] = {}
    for one in objects.get("ip-addresses", ()):
        if one["assigned_object_type"] == "dcim.interface":
            addresses.setdefault(one["assigned_object_id"], []).append(one)
    _count_strays(devices, interfaces, addresses, left_out)
    records = [made.record(d, interfaces.get(d["id"], ()), addresses) for d in made.chosen(devices)]
    if "interfaces" not in objects:
        left_out.append("NetBox, Nautobot: interfaces and cables, since no listing of interfaces was given")
    return records


def _count_strays(
    devices: Sequence[Json],
    interfaces: Mapping[Any, Sequence[Json]],
    addresses: Mapping[Any, Sequence[Json]],
    left_out: list[str],
) -> None:
    """Count interfaces and addresses whose device or interface isn't in the files: they are left out."""
    known = {d["id"] for d in devices}
    strays = sum(len(rows) for device, rows in interfaces.items() if device not in known)
    if strays:
        left_out.append(f"NetBox, Nautobot: {strays} interfaces of devices that the files don't have")
    known = {one["id"] for rows in interfaces.values() for one in rows}
    strays = sum(len(rows) for interface, rows in addresses.items() if interface not in known)
    if strays and interfaces:
        left_out.append(f"NetBox, Nautobot: {strays} addresses of interfaces that the files don't have")
