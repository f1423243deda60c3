"""Columns of hardware lists: what sites call them, and what they mean here. Pure.

A row is one piece of hardware. `<interface>_<attribute>` describes one of its interfaces: every `<interface>_mac` makes
one, so a list can have as many as the hardware has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from weft.model.errors import InputError
from weft.model.sitefile import csv_columns

GPU_COLUMNS = frozenset({"gpus", "gpu_type", "gpu_pci", "gpu_numa", "gpu_switch"})
"""Columns of a host's GPUs (`weft.planning.hardware.gpus`). `gpus`: how many, which the addresses must agree with."""

ATTRIBUTES = (
    "mac", "address", "dns_name", "network", "vlan", "switch", "port", "rate_gbps",
    "fabric", "guid", "port_guid", "pci", "bond_macs", "bond_ports",
)  # fmt: skip
"""Attributes of an interface in a list. Interfaces with a `fabric` are adapters on that fabric."""

_ALIASES = {
    "hostname": "name", "host_name": "name", "device": "name", "device_name": "name", "server": "name",
    "type": "kind", "device_type": "kind", "device_role": "kind",
    "cabinet": "rack", "rack_name": "rack", "ipupod": "ipu_pod", "ipu_pod_name": "ipu_pod",
    "gpu_count": "gpus", "number_of_gpus": "gpus", "num_gpus": "gpus", "gpu_model": "gpu_type", "gpu": "gpu_type",
    "accelerator_type": "gpu_type", "gpu_pci_address": "gpu_pci", "gpu_pci_addresses": "gpu_pci",
    "gpu_numa_node": "gpu_numa", "gpu_numa_nodes": "gpu_numa", "gpu_pcie_switch": "gpu_switch",
    "a_device": "a", "from": "a", "from_device": "a", "from_port": "a_port",
    "source": "a", "source_device": "a", "source_port": "a_port",
    "b_device": "b", "to": "b", "to_device": "b", "to_port": "b_port",
    "destination": "b", "destination_device": "b", "destination_port": "b_port",
}  # fmt: skip
_INTERFACES = {"ipu_gw": "gw", "ipu_gateway": "gw"}
_BMC = re.compile(
    r"(?:ipmi|idrac|ilo|imm|xcc|irmc|cimc)(?:_?s?[0-9]{1,2})?|ipmi_lan|xclarity(?:_controller)?"
)
"""Vendors' names of BMCs, with their generations: `iLO 6`, `iDRAC9`, `iRMC S5`."""
_ENDINGS = {
    "mac_address": "mac", "mac_addr": "mac", "macaddr": "mac", "hwaddr": "mac",
    "ip_address": "address", "ipv4_address": "address", "ipv4": "address", "ip": "address", "addr": "address",
    "fqdn": "dns_name", "hostname": "dns_name", "dns": "dns_name",
    "vlan_id": "vlan", "switch_name": "switch", "switch_port": "port", "speed_gbps": "rate_gbps",
}  # fmt: skip
_NODES = frozenset(csv_columns("nodes")) - {"role"}
_MACHINES = frozenset({"ipu_pod", "position", "agent_port"})
_SWITCHES = frozenset(csv_columns("switches"))
_DEVICES = frozenset(csv_columns("devices"))
_CABLES = frozenset(csv_columns("links"))
PLAIN = frozenset({"name", "kind"}) | _NODES | _MACHINES | _SWITCHES | _DEVICES | _CABLES | GPU_COLUMNS
"""Columns that aren't of an interface."""


_NOTHING = frozenset(
    {"-", "--", "–", "—", "?", "n/a", "#n/a", "n.a.", "none", "null", "nil", "tbd", "t.b.d.", "unknown"}
)


def says_nothing(text: str) -> bool:
    """Whether a cell is as good as empty: people write a dash, `N/A` or `TBD` where nothing is known."""
    return text.casefold() in _NOTHING


def columns_of(
    header: Sequence[str], given: Mapping[str, str], where: str, errors: list[InputError]
) -> dict[str, str | None]:
    """Column as written -> what it is here, None if it is left out; problems are added to `errors`.

    Args:
        given: `--column`: theirs -> ours, empty to leave one out.
        where: `file:line` of the header.
    """
    found: dict[str, str | None] = {}
    guessed = {h: given[h] if h in given else canonical(h) for h in header}
    adapters = {n.removesuffix("_pci") for n in guessed.values() if n.endswith("_pci") and n not in PLAIN}
    interfaces = (
        interfaces_of(list(guessed.values())) | adapters
    )  # discovery or an inspection may have the rest
    taken: dict[str, str] = {}
    for written, name in guessed.items():
        if not written:
            errors.append(InputError("column", "", "a name: the column has values", where))
        elif name == "":
            found[written] = None
        elif name not in PLAIN and not _of_interface(name, interfaces):
            errors.append(InputError("column", written, _unknown(name, interfaces), where))
        elif name in taken:
            allowed = f"each column once: {taken[name]!r} is {name} too; --column '{written}=' leaves it out"
            errors.append(InputError("column", written, allowed, where))
        else:
            taken[name], found[written] = written, name
    return found


def canonical(written: str) -> str:
    """`BMC MAC address` -> `bmc_mac`; what isn't known stays as it is, in lower case."""
    text = re.sub(r"[^a-z0-9]+", "_", written.strip().lower()).strip("_")
    if text in _ALIASES or text in PLAIN:
        return _ALIASES.get(text, text)
    for ending in sorted({*_ENDINGS, *ATTRIBUTES}, key=len, reverse=True):
        interface = text.removesuffix(f"_{ending}")
        if interface != text:
            return f"{_interface(interface)}_{_ENDINGS.get(ending, ending)}"
    return text


def _interface(text: str) -> str:
    return "bmc" if _BMC.fullmatch(text) else _INTERFACES.get(text, text)


def is_full_name(written: str) -> bool:
    """Whether a column of host names, as it is written, contains names with their domain."""
    return re.sub(r"[^a-z0-9]+", "_", written.strip().lower()).endswith(("_fqdn", "_hostname"))


def interface_called(written: str, others: dict[str, str]) -> str:
    """Name of an interface, as inventories have it (`Ethernet1/1`, `iDRAC`), as columns do.

    Args:
        others: name -> as it was written, of the same device's interfaces; this one is added.

    Raises ValueError, with what is allowed, for one that would be lost: without a name, or with that of another.
    """
    text = re.sub(r"[^a-z0-9]+", "_", written.strip().lower()).strip("_")
    if not text:
        raise ValueError("a name with Latin letters or digits")
    name = _interface(text)
    if (other := others.setdefault(name, written)) != written:
        raise ValueError(f"a name that differs from {other!r} by letters or digits: both are {name} here")
    return name


def split(column: str, interfaces: frozenset[str] | set[str]) -> tuple[str, str] | None:
    """Interface and attribute of a column; None for one that isn't of an interface."""
    for interface in sorted(interfaces, key=len, reverse=True):
        if column.startswith(f"{interface}_") and column[len(interface) + 1 :] in ATTRIBUTES:
            return interface, column[len(interface) + 1 :]
    return None


def interfaces_of(columns: Sequence[str] | Mapping[str, object]) -> frozenset[str]:
    """Interfaces that a list has, by their columns of MAC addresses, or of port GUIDs: InfiniBand has no others."""
    return frozenset(
        c[: -len(ending)]
        for c in columns
        for ending in ("_mac", "_port_guid")
        if c.endswith(ending) and c != ending
    )


def _of_interface(name: str, interfaces: frozenset[str]) -> bool:
    return name not in PLAIN and split(name, interfaces) is not None


def _unknown(name: str, interfaces: frozenset[str]) -> str:
    known = sorted(PLAIN | {f"{i}_{a}" for i in interfaces for a in ATTRIBUTES})
    for attribute in sorted(ATTRIBUTES, key=len, reverse=True):
        interface = name.removesuffix(f"_{attribute}")
        if interface != name:
            return f"unknown column: there is no column {interface}_mac, which makes an interface {interface}"
    near = difflib.get_close_matches(name, known, 1, cutoff=0.75)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown column; {hint}--column THEIRS=OURS says what it is, --column THEIRS= leaves it out"
