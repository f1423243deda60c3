"""Finds device, port, P_Key index and GID index that a node uses for an adapter, in its sysfs."""

from __future__ import annotations

import re
from typing import NamedTuple

from weftcheck.bandwidthplan import Adapter

SCRIPT = r"""
r() { v=; { read -r v <"$1"; } 2>/dev/null; [ -n "$v" ]; }
for d in /sys/class/infiniband/*; do [ -d "$d" ] || continue
for p in "$d"/ports/*; do
echo "device ${d##*/} ${p##*/}"
for f in "$d/node_guid" "$p/state" "$p/link_layer"; do r "$f"; echo "${f##*/} $v"; done
for g in "$p"/pkeys/*; do r "$g" && [ "$v" != 0x0000 ] && echo "pkey ${g##*/} $v"; done
for g in "$p"/gids/*; do i=${g##*/}; r "$g" || continue
[ "$v" = 0000:0000:0000:0000:0000:0000:0000:0000 ] && continue
a=$v; r "$p/gid_attrs/ndevs/$i"; r "/sys/class/net/$v/address"; m=${v:--}; r "$p/gid_attrs/types/$i"
echo "gid $i $a $m $v"; done
done; done; echo end
"""
"""Script for a shell: prints each port of each RDMA device; only reads, and by the shell itself: a table has up to
1,024 GIDs."""

_NUMBER = re.compile("[0-9]{1,5}")
"""Number of a port, or a place in a table: a node may print anything."""


class Port(NamedTuple):
    """A port of a device as sysfs has it. Attributes: gids: index, 32 digits, MAC of its interface, type."""

    device: str
    number: int
    facts: dict[str, str]
    pkeys: dict[int, int]
    gids: list[list[str]]


class Endpoint(NamedTuple):
    """How a program is given an adapter; indices are None where the program's default is right."""

    device: str
    port: int = 1
    pkey_index: int | None = None
    gid_index: int | None = None
    gpu: int | None = None


def ports(text: str) -> list[Port] | None:
    """What `SCRIPT` printed; None: it didn't come to its end."""
    found: list[Port] = []
    ended = False
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        parts = rest.split()
        ended = word == "end"
        if word == "device" and len(parts) == 2 and _NUMBER.fullmatch(parts[1]):
            found.append(Port(parts[0], int(parts[1]), {}, {}, []))
        elif found and word == "pkey" and len(parts) == 2:
            if _NUMBER.fullmatch(parts[0]) and re.fullmatch("0x[0-9a-fA-F]{4}", parts[1]):
                found[-1].pkeys[int(parts[0])] = int(parts[1], 16)
        elif found and word == "gid" and len(parts) >= 3 and _NUMBER.fullmatch(parts[0]):
            found[-1].gids.append(
                [parts[0], parts[1].replace(":", ""), parts[2].lower(), " ".join(parts[3:])]
            )
        elif found and rest:
            found[-1].facts[word] = rest.strip()
    return found if ended else None


def endpoint(adapter: Adapter, there: list[Port], pkey: int | None) -> Endpoint | str:
    """How a program is given an adapter, or a code of `weftcheck.ratetext.REASONS`."""
    mine = [port for port in there if _is(adapter, port)]
    if not mine:
        return "NO_ADAPTER"
    port = mine[0]
    if not port.facts.get("state", "").endswith("ACTIVE"):
        return "PORT_DOWN"
    if port.facts.get("link_layer") == "Ethernet":
        gid = _gid(port)
        return "NO_GID" if gid is None else Endpoint(port.device, port.number, None, gid, adapter.gpu)
    if pkey is None:
        return Endpoint(port.device, port.number, None, None, adapter.gpu)
    # A full member's entry first: limited members don't reach each other.
    indices = sorted(
        (not value & 0x8000, i) for i, value in port.pkeys.items() if (value ^ pkey) & 0x7FFF == 0
    )
    return Endpoint(port.device, port.number, indices[0][1], None, adapter.gpu) if indices else "NO_PKEY"


def _is(adapter: Adapter, port: Port) -> bool:
    if adapter.device is not None:
        return port.device == adapter.device
    if adapter.mac is not None:
        return any(gid[2] == adapter.mac for gid in port.gids)
    digits = f"{adapter.guid:016x}"
    node = port.facts.get("node_guid", "").replace(":", "").lower()
    return node == digits or any(gid[1].endswith(digits) for gid in port.gids[:1])


def _gid(port: Port) -> int | None:
    """Index of RoCE v2 with an IPv4 address, else of any RoCE v2 that isn't link-local."""
    second = [gid for gid in port.gids if gid[3].replace(" ", "").lower() == "rocev2"]
    mapped = [gid for gid in second if gid[1].startswith("0" * 20 + "ffff")]
    routed = [gid for gid in second if not gid[1].startswith("fe80")]
    chosen = mapped or routed or second
    return int(chosen[0][0]) if chosen else None
