"""Ironic's nodes in a file, as records of hardware. Pure.

Source: ironic's API reference ("Nodes"), and python-ironicclient, whose list with `-f json` has titles for names
(`Provisioning State`). Only what a site file has is read: name, UUID, resource class, BMC, maintenance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from weft.model.hardware import Cell, HardwareRecord
from weft.model.ids import is_uuid
from weft.planning.hardware.where import address_of

_BMC = (
    "redfish_address",
    "ipmi_address",
    "ilo_address",
    "drac_address",
    "irmc_address",
    "xclarity_manager_ip",
)
_TRUE = (True, "True", "true")
_STATES = ("provision_state", "provisioning_state")

Json = Mapping[str, Any]


def is_ironic_node(one: Any) -> bool:
    """Whether an object is a node of Ironic's, as its API or its client writes one."""
    if not isinstance(one, Mapping):
        return False
    fields = _plain(one)
    return isinstance(fields.get("uuid"), str) and any(state in fields for state in _STATES)


def of_node(one: Json, place: str) -> HardwareRecord:
    """The node as a record; its kind is its resource class (`--kind baremetal.h100=compute`)."""
    fields = _plain(one)
    cells = {column: Cell(text, name, place) for column, text, name in _cells(fields)}
    return HardwareRecord(place, cells, tuple(_unread(fields, place)))


def _plain(one: Json) -> dict[str, Any]:
    """Fields by the API's names."""
    return {str(name).lower().replace(" ", "_"): value for name, value in one.items()}


def _cells(fields: Json) -> Iterator[tuple[str, str, str]]:
    """Column, text, and Ironic's name of the field."""
    uuid, name = str(fields["uuid"]), fields.get("name")
    yield "name", str(name) if name else uuid, "name" if name else "uuid"
    if is_uuid(uuid.lower()):
        yield "machine", uuid.lower(), "uuid"
    if fields.get("resource_class"):
        yield "kind", str(fields["resource_class"]), "resource_class"
    if fields.get("maintenance") in _TRUE:
        yield "maintenance", str(fields.get("maintenance_reason") or "maintenance in Ironic"), "maintenance"
    elif fields.get("retired") in _TRUE:
        yield "maintenance", str(fields.get("retired_reason") or "retired in Ironic"), "retired"
    info = fields.get("driver_info")
    if not isinstance(info, Mapping):
        return
    for field in _BMC:
        if (address := address_of(_host(info.get(field)))) is not None:
            yield "bmc_address", str(address), f"driver_info.{field}"
            return


def _unread(fields: Json, place: str) -> Iterator[str]:
    """A note on a BMC that the record lacks, since its address isn't IPv4, as a site's must be."""
    info = fields.get("driver_info")
    if info and not isinstance(info, Mapping):
        yield f"{place}: the BMC: driver_info isn't a mapping, as `baremetal node list --long -f json` writes it"
        return
    hosts = [_host(given) or f"in {field}" for field in _BMC if (given := (info or {}).get(field))]
    if hosts and not any(address_of(host) for host in hosts):
        yield f"{place}: the BMC {hosts[0]}: not an IPv4 address"


def _host(text: Any) -> str:
    """The host in a URL or an address; empty for anything else."""
    if not isinstance(text, str):
        return ""
    try:
        return urlsplit(text if "//" in text else f"//{text}").hostname or ""
    except ValueError:  # such as half of an IPv6 address
        return ""
