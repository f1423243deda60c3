"""IPUoF configuration files: what Poplar reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openvipu.proto import vipuuser_pb2 as pb

FOLDER = ".ipuof.conf.d"


def text(gcd: pb.PartitionConfig.Gcd) -> str:
    """One GCD's file: string-valued ``attributes`` and the ``devices``, each with every field."""
    devices: list[dict[str, Any]] = [
        {field.name: getattr(device, field.name) for field in device.DESCRIPTOR.fields}
        for device in gcd.devices
    ]
    return json.dumps({"attributes": dict(sorted(gcd.attributes.items())), "devices": devices}, indent=2)


def gcd_id(gcd: pb.PartitionConfig.Gcd) -> int:
    """The number of a graph compile domain in its partition."""
    return int(gcd.attributes["GCD Id"])


def write(home: Path, partition_id: str, config: pb.PartitionConfig) -> list[Path]:
    """Write ``~/.ipuof.conf.d/<partition>_gcd<N>_ipuof.conf`` for every GCD; the files."""
    folder = home / FOLDER
    folder.mkdir(exist_ok=True)
    written: list[Path] = []
    for gcd in config.gcd_configs:
        path = folder / f"{partition_id}_gcd{gcd_id(gcd)}_ipuof.conf"
        unfinished = path.with_suffix(".new")
        unfinished.write_text(text(gcd) + "\n")
        unfinished.replace(path)
        written.append(path)
    return written


def remove(home: Path, partition_id: str) -> None:
    """Delete the partition's files, those of this user."""
    folder = home / FOLDER
    prefix, suffix = f"{partition_id}_gcd", "_ipuof.conf"
    for path in folder.glob(f"*{suffix}") if folder.is_dir() else ():
        middle = path.name.removeprefix(prefix).removesuffix(suffix)
        if path.name.startswith(prefix) and middle.isdigit():
            path.unlink(missing_ok=True)
