"""What a machine must have: a JSON document, made by weft or by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NamedTuple

LIMIT = 1024 * 1024
VERSION = 1
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From near to far, as `nvidia-smi topo -m` names them."""
_MANY = 1024


class ExpectedError(Exception):
    """One sentence about the document: member, value and what is allowed."""


class Link(NamedTuple):
    """Speed in GT/s and number of lanes."""

    speed: float
    width: int

    def __str__(self) -> str:
        return f"{self.speed:g} GT/s x{self.width}"


class Key(NamedTuple):
    """A P_Key without its membership bit, whether full membership is needed, and the index that it must have."""

    value: int
    full: bool
    place: int | None


@dataclass(frozen=True)
class Expected:
    """Expected values; None: not judged, unless something is wrong by itself."""

    gpus: int | None = None
    hcas: int | None = None
    numa_nodes: int | None = None
    gpu_link: Link | None = None
    hca_link: Link | None = None
    max_read_request: int | None = None
    max_payload: int | None = None
    ats: bool | None = None
    acs: bool | None = None
    distance: str | None = None
    iommu: str | None = None
    modules: tuple[str, ...] = ()
    parameters: Mapping[str, str] | None = None
    kernel_arguments: tuple[str, ...] = ()
    firmware: Mapping[str, tuple[str, ...]] | None = None
    gpu_driver: str | None = None
    ecc: bool | None = None
    persistence: bool | None = None
    pcie_replays: int | None = None
    fabric_clique: str | None = None
    ports: tuple[str, ...] | None = None
    link_layer: str | None = None
    rate: float | None = None
    width: int | None = None
    pkeys: tuple[Key, ...] = ()
    gid_index: int | None = None
    clock_offset: float | None = None


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise ValueError("a whole number from 0")
    return value


def _size(value: Any) -> int:
    if _count(value) not in (128, 256, 512, 1024, 2048, 4096):
        raise ValueError("128, 256, 512, 1024, 2048 or 4096 (bytes)")
    return value


def _amount(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e6:
        raise ValueError("a number above 0")
    return float(value)


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _choice(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(", ".join(allowed[:-1]) + f" or {allowed[-1]}")
        return value

    return read


def _word(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]{1,200}", value):
        raise ValueError("a word of at most 200 characters")
    return value


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MANY:
        raise ValueError(f"a list of at most {_MANY} words")
    return tuple(_word(one) for one in value)


def _link(value: Any) -> Link:
    found = re.fullmatch(r"(\d{1,3}(?:\.\d)?) GT/s x(\d{1,2})", value if isinstance(value, str) else "")
    if not found:
        raise ValueError("a link such as '32 GT/s x16'")
    return Link(float(found[1]), int(found[2]))


def _lanes(value: Any) -> int:
    found = re.fullmatch(r"(\d{1,2})X", value if isinstance(value, str) else "")
    if not found:
        raise ValueError("a width such as '4X'")
    return int(found[1])


def _table(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or len(value) > _MANY:
        raise ValueError("an object of MODULE.PARAMETER and value, both text")
    if not all(re.fullmatch(r"[\w-]+\.\w+", name) for name in value):
        raise ValueError("names such as 'nvidia_peermem.peerdirect_support'")
    return {name: _word(one) for name, one in value.items()}


def _settings(value: Any) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(value, dict) or len(value) > _MANY:
        raise ValueError("an object of setting and value, or list of allowed values")
    if not all(re.fullmatch(r"[A-Z0-9_]+(\[\d+\])?", name) for name in value):
        raise ValueError("names as mstconfig prints them, such as 'MAX_ACC_OUT_READ'")
    return {name: _words(one if isinstance(one, list) else [one]) for name, one in value.items()}


def _keys(value: Any) -> tuple[Key, ...]:
    if not isinstance(value, list) or not value or len(value) > 126:
        raise ValueError("a list of 1 to 126 keys")
    return tuple(_key(one) for one in value)


def _key(value: Any) -> Key:
    members = value if isinstance(value, dict) else {"key": value}
    text = members.get("key")
    good = isinstance(text, str) and re.fullmatch(r"0x[0-9a-fA-F]{1,4}", text)
    if not good or members.keys() - {"key", "index"} or int(str(text), 16) & 0x7FFF == 0:
        raise ValueError('keys such as "0x8101", or {"key": "0x8101", "index": 1}')
    index = members.get("index")
    number = int(str(text), 16)
    return Key(number & 0x7FFF, bool(number & 0x8000), None if index is None else _count(index))


class Member(NamedTuple):
    """A member of the document: how it is read, an example, and what it means."""

    read: Callable[[Any], Any]
    example: str
    meaning: str


MEMBERS: Mapping[str, Member] = {
    "gpus": Member(_count, "8", "number of NVIDIA GPUs"),
    "hcas": Member(
        _count, "8", "number of RDMA adapters (PCI functions), virtual functions of this host excluded"
    ),
    "numa_nodes": Member(_count, "2", "number of NUMA nodes"),
    "gpu_link": Member(_link, '"32 GT/s x16"', "PCIe link of each GPU, at least"),
    "hca_link": Member(_link, '"32 GT/s x16"', "PCIe link of each adapter, at least"),
    "max_read_request": Member(_size, "4096", "MaxReadReq of each adapter, in bytes"),
    "max_payload": Member(_size, "256", "MaxPayload of each adapter, in bytes"),
    "ats": Member(_switch, "true", "whether adapters translate addresses themselves (ATS)"),
    "acs": Member(
        _switch, "false", "whether bridges above adapters and GPUs redirect peer-to-peer traffic (ACS)"
    ),
    "distance": Member(_choice(*DISTANCES), '"PXB"', "how far each GPU's nearest adapter may be"),
    "iommu": Member(
        _choice("off", "passthrough", "translated"), '"passthrough"', "mode of adapters and GPUs"
    ),
    "modules": Member(_words, '["nvidia_peermem"]', "kernel modules that must be loaded"),
    "parameters": Member(_table, '{"mlx5_core.prof_sel": "2"}', "parameters of kernel modules"),
    "kernel_arguments": Member(_words, '["iommu=pt"]', "words of the kernel's command line"),
    "firmware": Member(
        _settings,
        '{"MAX_ACC_OUT_READ": ["0", "44"]}',
        "settings of each adapter's firmware, each with its allowed values",
    ),
    "gpu_driver": Member(_word, '"580.105.08"', "version of NVIDIA's driver"),
    "ecc": Member(_switch, "true", "whether GPUs' memory has ECC enabled"),
    "persistence": Member(_switch, "true", "whether GPUs are in persistence mode"),
    "pcie_replays": Member(_count, "1000", "replays of a GPU's PCIe link since its reset, at most"),
    "fabric_clique": Member(_word, '"2"', "NVLink partition of each GPU (cliqueId)"),
    "ports": Member(
        _words,
        '["mlx5_0/1"]',
        "ports that the pod uses; by default all. Other ports and their adapters aren't judged",
    ),
    "link_layer": Member(_choice("InfiniBand", "Ethernet"), '"InfiniBand"', "link layer of each port"),
    "rate": Member(_amount, "400", "rate of each port in Gb/s, at least"),
    "width": Member(_lanes, '"4X"', "width of each port's link, at least"),
    "pkeys": Member(
        _keys,
        '[{"key": "0x8101", "index": 1}]',
        "the pod's P_Keys in each InfiniBand port's table; with `index` also where",
    ),
    "gid_index": Member(_count, "3", "index of the RoCE v2 GID with an IPv4 address on each Ethernet port"),
    "clock_offset": Member(_amount, "0.01", "offset of the clock in seconds, at most (1 by default)"),
}


def load(path: Path) -> tuple[Expected, bytes]:
    """The document in a file, with its bytes. Raises ExpectedError."""
    try:
        with path.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise ExpectedError(f"{path}: can't be read: {error.strerror}") from None
    if len(data) > LIMIT:
        raise ExpectedError(f"{path}: more than {LIMIT} bytes")
    try:
        return parse(data), data
    except ExpectedError as error:
        raise ExpectedError(f"{path}: {error}") from None


def parse(data: bytes) -> Expected:
    """The document. Raises ExpectedError."""
    try:
        document: Any = json.loads(data.decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise ExpectedError(f"isn't JSON: {error}") from None
    if not isinstance(document, dict):
        raise ExpectedError("isn't a JSON object")
    members: dict[str, Any] = dict(document)
    if members.pop("version", None) != VERSION:
        raise ExpectedError(f"version is {document.get('version')!r}; allowed is {VERSION}")
    values: dict[str, Any] = {}
    for name, value in members.items():
        if name not in MEMBERS:
            raise ExpectedError(f"{name[:100]!r} isn't a member; allowed are {', '.join(MEMBERS)}")
        try:
            values[name] = MEMBERS[name].read(value)
        except ValueError as error:
            raise ExpectedError(f"{name} is {json.dumps(value)[:200]}; allowed: {error}") from None
    return Expected(**values)


def _once(pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"member {name!r} is there twice")
        found[name] = value
    return found
