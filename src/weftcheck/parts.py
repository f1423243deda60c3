"""Parts of the machine with a serial number, by which weft recognizes them in another machine."""

from __future__ import annotations

from weftcheck.host import UnreadableError
from weftcheck.machine import Machine

MOST = 256
_ADAPTERS = "sys/class/infiniband"


def parts(machine: Machine) -> list[dict[str, str]]:
    """GPUs by serial number, or UUID where the board has none, and RDMA adapters by node GUID. What can't be read is
    left out."""
    found: list[dict[str, str]] = []
    try:
        for gpu in machine.report.gpus:
            serial = gpu.get("serial") or gpu.get("uuid")
            if serial:
                model, firmware = gpu.get("product_name") or "", gpu.get("vbios_version") or ""
                found.append(_part("gpu", serial, gpu.address, model, firmware))
    except UnreadableError:
        pass
    try:
        for name in machine.host.names(_ADAPTERS):
            try:
                guid = machine.host.text(f"{_ADAPTERS}/{name}/node_guid").strip()
            except UnreadableError:
                continue
            if guid.strip("0:"):
                found.append(_part("adapter", guid, name, "", _firmware(machine, name)))
    except UnreadableError:
        pass
    return found[:MOST]


def _firmware(machine: Machine, adapter: str) -> str:
    try:
        return machine.host.text(f"{_ADAPTERS}/{adapter}/fw_ver").strip()
    except UnreadableError:
        return ""


def _part(kind: str, serial: str, place: str, model: str, firmware: str) -> dict[str, str]:
    """A part for the document. Args: firmware: its version; empty: it can't be read."""
    named = {"kind": kind, "serial": serial[:100], "place": place[:200], "model": model[:200]}
    return {**named, "firmware": firmware[:100]}
