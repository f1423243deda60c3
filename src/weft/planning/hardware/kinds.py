"""Kinds of hardware that a list can name, and the table of the site that each is a row of. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.hardware import HardwareRecord
from weft.model.sitefile import csv_columns
from weft.planning.hardware.columns import GPU_COLUMNS, PLAIN


@dataclass(frozen=True, slots=True)
class HardwareKind:
    """A kind of hardware.

    Attributes:
        table: of the site file.
        fixed: the fields that the kind itself decides.
    """

    table: str
    fixed: Mapping[str, str]

    @property
    def columns(self) -> frozenset[str]:
        """Columns of a list that have values of this kind of hardware."""
        own = frozenset(csv_columns(self.table)) | (GPU_COLUMNS if self.table == "nodes" else frozenset())
        return (PLAIN & own) - self.fixed.keys() | {"name", "kind"}


def _node(role: str) -> HardwareKind:
    return HardwareKind("nodes", {"role": role})


def _device(kind: str) -> HardwareKind:
    return HardwareKind("devices", {"kind": kind})


IPU_MACHINE = HardwareKind("ipu_machines", {})
FABRIC_SWITCH = HardwareKind("switches", {})
CABLE = HardwareKind("links", {})
KINDS: dict[str, HardwareKind] = {
    "ipu-machine": IPU_MACHINE,
    **{role: _node(role) for role in ("compute", "poplar", "controller", "subnet-manager", "service")},
    **{kind: _device(kind) for kind in ("switch", "pdu", "storage", "router", "other")},
    "cable": CABLE,
}
_ALSO = {
    "ipu-m2000": "ipu-machine", "ipu-m": "ipu-machine", "ipum": "ipu-machine", "bow-2000": "ipu-machine",
    "link": "cable", "infiniband-cable": "cable", "ib-cable": "cable",
    "gpu-node": "compute", "gpu-server": "compute", "compute-node": "compute", "poplar-server": "poplar",
    "controller-node": "controller",
    "management-switch": "switch", "tor": "switch", "tor-switch": "switch", "nas": "storage", "nfs": "storage",
}  # fmt: skip


def kind_of(text: str) -> str | None:
    """The kind that a list means by this text; None for an unknown one."""
    name = re.sub(r"[\s_]+", "-", text.strip().lower())
    name = _ALSO.get(name, name)
    return name if name in KINDS else None


def is_cable(record: HardwareRecord) -> bool:
    """Whether a row is a cable: by its kind, or as it has two ends and no name."""
    kind = record.text("kind")
    if kind is None:
        return record.text("name") is None and bool({"a", "b"} & record.cells.keys())
    return kind_of(kind) == "cable"


def is_host(record: HardwareRecord) -> bool:
    """Whether a row is a host."""
    kind = KINDS.get(kind_of(record.text("kind") or "") or "")
    return kind is not None and kind.table == "nodes"
