"""What weft-check expects of a machine, by machine type: the members of its file of expected values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from weft.model.base import Document

FORMAT = 1
"""Version of weft-check's document."""


def _form(pattern: str, allowed: str) -> AfterValidator:
    """Text of a form, described in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(allowed)
        return text

    return AfterValidator(check)


def _size(value: int) -> int:
    if value not in (128, 256, 512, 1024, 2048, 4096):
        raise ValueError("128, 256, 512, 1024, 2048 or 4096 (bytes)")
    return value


def _names(pattern: str, allowed: str) -> AfterValidator:
    """A mapping whose names have a form."""

    def check(values: Mapping[str, Any]) -> Mapping[str, Any]:
        if wrong := [name for name in values if not re.fullmatch(pattern, name)]:
            raise ValueError(f"{allowed}; not {wrong[0][:60]}")
        return values

    return AfterValidator(check)


_Count = Annotated[int, Field(ge=0, lt=2**32)]
_Amount = Annotated[float, Field(gt=0, lt=1e6)]
_Size = Annotated[int, AfterValidator(_size)]
_Word = Annotated[str, _form(r"[!-~]{1,200}", "a word of at most 200 printable ASCII characters")]
_Words = Annotated[tuple[_Word, ...], Field(max_length=1024)]
_Link = Annotated[str, _form(r"\d{1,3}(?:\.\d)? GT/s x\d{1,2}", "a link such as '32 GT/s x16'")]
_Several = Annotated[
    tuple[_Word, ...],
    Field(min_length=1, max_length=1024),
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
]
_Settings = Annotated[
    dict[str, _Several],
    Field(max_length=1024),
    _names(r"[A-Z0-9_]+(\[\d+\])?", "names as mstconfig prints them, such as MAX_ACC_OUT_READ"),
]
_Parameters = Annotated[
    dict[str, _Word],
    Field(max_length=1024),
    _names(r"[\w-]+\.\w+", "names such as nvidia_peermem.peerdirect_support"),
]


class ExpectedHost(Document):
    """Expected values of weft-check; what isn't given isn't judged, unless it is wrong by itself."""

    gpus: _Count | None = Field(default=None, description="Number of NVIDIA GPUs.")
    hcas: _Count | None = Field(default=None, description="Number of RDMA adapters (PCI functions).")
    numa_nodes: _Count | None = Field(default=None, description="Number of NUMA nodes.")
    gpu_link: _Link | None = Field(
        default=None, description="PCIe link of each GPU, at least, such as 32 GT/s x16."
    )
    hca_link: _Link | None = Field(default=None, description="PCIe link of each adapter, at least.")
    max_read_request: _Size | None = Field(default=None, description="MaxReadReq of each adapter, in bytes.")
    max_payload: _Size | None = Field(default=None, description="MaxPayload of each adapter, in bytes.")
    ats: bool | None = Field(
        default=None, description="Whether adapters translate addresses themselves (ATS)."
    )
    acs: bool | None = Field(
        default=None,
        description="Whether bridges above adapters and GPUs redirect peer-to-peer traffic (ACS).",
    )
    distance: Literal["PIX", "PXB", "PHB", "NODE", "SYS"] | None = Field(
        default=None, description="How far each GPU's nearest adapter may be."
    )
    iommu: Literal["off", "passthrough", "translated"] | None = Field(
        default=None, description="Mode of adapters and GPUs."
    )
    modules: _Words = Field(default=(), description="Kernel modules that must be loaded.")
    parameters: _Parameters = Field(
        default_factory=dict[str, str], description="Parameters of kernel modules, by MODULE.PARAMETER."
    )
    kernel_arguments: _Words = Field(default=(), description="Words of the kernel's command line.")
    firmware: _Settings = Field(
        default_factory=dict[str, tuple[str, ...]],
        description="Settings of each adapter's firmware, each with its value or a list of allowed ones.",
    )
    gpu_driver: _Word | None = Field(default=None, description="Version of NVIDIA's driver.")
    ecc: bool | None = Field(default=None, description="Whether GPUs' memory has ECC enabled.")
    persistence: bool | None = Field(default=None, description="Whether GPUs are in persistence mode.")
    pcie_replays: _Count | None = Field(
        default=None, description="Replays of a GPU's PCIe link since its reset, at most."
    )
    fabric_clique: _Word | None = Field(default=None, description="NVLink partition of each GPU (cliqueId).")
    ports: _Words = Field(default=(), description="Ports that are judged, such as mlx5_0/1; all by default.")
    link_layer: Literal["InfiniBand", "Ethernet"] | None = Field(
        default=None, description="Link layer of each port."
    )
    rate: _Amount | None = Field(default=None, description="Rate of each port in Gb/s, at least.")
    width: Annotated[str, _form(r"\d{1,2}X", "a width such as 4X")] | None = Field(
        default=None, description="Width of each port's link, at least, such as 4X."
    )
    gid_index: _Count | None = Field(
        default=None, description="Index of the RoCE v2 GID with an IPv4 address on each Ethernet port."
    )
    clock_offset: _Amount | None = Field(
        default=None, description="Offset of the clock in seconds, at most; 1 by default."
    )

    def file(self) -> bytes:
        """The file of expected values as weft-check reads it; the same for equal values."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return json.dumps({"version": FORMAT, **values}, sort_keys=True, indent=1).encode()

    def digest(self) -> str:
        """Digest of the file, as weft-check's document has it."""
        return "sha256:" + sha256(self.file()).hexdigest()
