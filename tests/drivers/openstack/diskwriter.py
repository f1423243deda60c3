"""A disk in a file, written as Ironic's agent does, and what is on it afterwards.

Source: ironic-python-agent 11 `extensions.standby` (`_download_image`, `_write_whole_disk_image`,
`_write_partition_image`), `partition_utils` (`work_on_disk`, `create_config_drive_partition`).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

SECTOR, MIB = 512, 1 << 20
TABLE, ENTRY = 446, struct.Struct("<4xB3xII")
"""Offset of the four partitions in a master boot record; type, first sector and number of sectors of each."""
LINUX = 0x83
DRIVE_MIB = 64
"""Size of the partition with the config drive, at the end of the disk."""


@dataclass(frozen=True)
class Partition:
    """A partition; offset and size in bytes."""

    start: int
    size: int


def partitions(disk: Path) -> list[Partition]:
    """The partitions in the disk's own table."""
    head = disk.open("rb").read(SECTOR)
    assert head[510:] == b"\x55\xaa", "no master boot record"
    entries = (ENTRY.unpack_from(head, TABLE + n * ENTRY.size) for n in range(4))
    return [Partition(first * SECTOR, count * SECTOR) for _, first, count in entries if count]


def table(*parts: Partition) -> bytes:
    head = bytearray(SECTOR)
    for n, part in enumerate(parts):
        ENTRY.pack_into(head, TABLE + n * ENTRY.size, LINUX, part.start // SECTOR, part.size // SECTOR)
    head[510:] = b"\x55\xaa"
    return bytes(head)


def write_image(disk: Path, info: dict[str, Any]) -> None:
    """Write the image as the agent does; it must have the hash that is named.

    Args:
        disk: file of the disk.
        info: what Ironic's deploy step gives the agent.
    """
    answer = requests.get(info["urls"][0], timeout=60)
    assert answer.ok, answer.text
    image = answer.content
    algorithm, wanted = info.get("os_hash_algo") or "md5", info.get("os_hash_value") or info["checksum"]
    assert hashlib.new(algorithm, image).hexdigest() == wanted
    assert info["disk_format"] == "raw", "Ironic didn't convert the image"
    size = disk.stat().st_size
    drive = Partition(size - DRIVE_MIB * MIB, DRIVE_MIB * MIB)
    with disk.open("r+b") as file:
        if info.get("image_type") == "partition":
            root = Partition(MIB, int(info["root_mb"]) * MIB)
            file.write(table(root, drive))
            file.seek(root.start)
            file.write(image)
        else:
            file.write(image)
            file.flush()
            file.seek(0)
            file.write(table(*partitions(disk), drive))
        file.seek(drive.start)
        file.write(gzip.decompress(base64.b64decode(info["configdrive"])))


def read(disk: Path, part: Partition, size: int | None = None) -> bytes:
    with disk.open("rb") as file:
        file.seek(part.start)
        return file.read(part.size if size is None else size)
