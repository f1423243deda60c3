"""Ports of RDMA devices: by sysfs, or by `ibstat` where sysfs has no ports."""

from __future__ import annotations

import re
from typing import NamedTuple

from weftcheck.host import Host, UnreadableError

FOLDER = "sys/class/infiniband"
TABLE_LIMIT = 512
"""Entries read of a GID or P_Key table; adapters have up to 256 and 128."""


class Port(NamedTuple):
    """A port of an RDMA device; None: not said, or not understood."""

    name: str
    """Such as mlx5_0/1."""
    source: str
    folder: str | None
    """Its folder in sysfs; None: read by ibstat."""
    state: str | None
    """Lower case, such as active, down, init."""
    physical: str | None
    """Lower case, such as linkup, polling, disabled."""
    rate: float | None
    """Gb/s."""
    width: int | None
    """Lanes; ibstat doesn't say."""
    layer: str | None
    """InfiniBand or Ethernet."""

    @property
    def device(self) -> str:
        """Name of its device, such as mlx5_0."""
        return self.name.partition("/")[0]


def ports(host: Host) -> list[Port]:
    """All ports; none: there is no RDMA device. Raises UnreadableError."""
    if not host.exists(FOLDER):
        return []
    found: list[Port] = []
    for device in host.names(FOLDER):
        folder = f"{FOLDER}/{device}/ports"
        if not host.exists(folder):
            return parse_ibstat(host.output("ibstat").text)
        found += [_port(host, f"{folder}/{number}", f"{device}/{number}") for number in host.names(folder)]
    return found


def _port(host: Host, folder: str, name: str) -> Port:
    rate = re.match(r"(\d+(?:\.\d+)?) Gb/sec(?: \((\d+)X)?", _soft(host, f"{folder}/rate"))
    return Port(
        name,
        f"/{folder}",
        folder,
        _after_number(_soft(host, f"{folder}/state")),
        _after_number(_soft(host, f"{folder}/phys_state")),
        float(rate[1]) if rate else None,
        int(rate[2]) if rate and rate[2] else None,
        _layer(_soft(host, f"{folder}/link_layer")),
    )


def _soft(host: Host, path: str) -> str:
    try:
        return host.text(path)
    except UnreadableError:
        return ""


def _after_number(text: str) -> str | None:
    """`4: ACTIVE` as `active`."""
    return text.partition(": ")[2].strip().lower() or None


def _layer(text: str) -> str | None:
    return {"infiniband": "InfiniBand", "ethernet": "Ethernet"}.get(text.lower())


def parse_ibstat(text: str) -> list[Port]:
    """Ports in the output of ibstat. Raises UnreadableError if there is none in it."""
    found: list[Port] = []
    device, number = "", ""
    values: dict[str, str] = {}

    def close() -> None:
        if device and number:
            found.append(_from_ibstat(f"{device}/{number}", values))
        values.clear()

    for line in text.splitlines():
        start = re.match(r"\s*CA '([^']+)'", line)
        port = re.match(r"\s*Port (\d+):\s*$", line)
        if start or port:
            close()
            device, number = (start[1], "") if start else (device, port[1] if port else "")
        elif ":" in line:
            name, _, value = line.partition(":")
            values[name.strip().lower()] = value.strip()
    close()
    if not found:
        raise UnreadableError("ibstat", "no port in its output is understood")
    return found


def _from_ibstat(name: str, values: dict[str, str]) -> Port:
    rate = re.match(r"\d+(?:\.\d+)?", values.get("rate", ""))
    state = {"initializing": "init"}.get(values.get("state", "").lower(), values.get("state", "").lower())
    return Port(
        name,
        "ibstat",
        None,
        state or None,
        values.get("physical state", "").lower() or None,
        float(rate[0]) if rate else None,
        None,
        _layer(values.get("link layer", "")),
    )


def table(host: Host, folder: str) -> dict[int, str]:
    """Index and text of each readable entry of a table such as pkeys, gids. Raises UnreadableError."""
    found: dict[int, str] = {}
    for name in host.names(folder)[:TABLE_LIMIT]:
        if not name.isdigit():
            continue
        try:
            found[int(name)] = host.text(f"{folder}/{name}")
        except UnreadableError:  # the kernel answers so for an empty entry of gid_attrs
            continue
    if not found:
        raise UnreadableError(f"/{folder}", "no entry can be read")
    return found
