"""What an order says about storage: shares, volumes, the site's exports, local drives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from weft.model.base import Document

MOST_ENTRIES = 16
"""Entries of an order: each may be a share with an access rule for every node."""
MOST_GIB = 1 << 20
"""1 PiB."""
EXISTING = r"^[A-Za-z0-9][A-Za-z0-9._ -]*$"
TYPE = r"^[A-Za-z0-9_][A-Za-z0-9._ -]*$"
SIZE = r"^[1-9][0-9]{0,6}(GiB|TiB)$"
MOUNT = r"^(/[A-Za-z0-9][A-Za-z0-9._-]*)+$"
_SYSTEM = "bin boot dev etc lib lib32 lib64 proc root run sbin sys usr var"
SYSTEM = frozenset(_SYSTEM.split())
"""Top directories of a guest that nothing is mounted on."""


def gib(size: str) -> int:
    """A `Size` in GiB."""
    return int(size[:-3]) * (1024 if size.endswith("TiB") else 1)


def _bounded(size: str) -> str:
    if gib(size) > MOST_GIB:
        raise ValueError("at most 1024TiB")
    return size


def _free(path: str) -> str:
    first = path.split("/")[1]
    if first in SYSTEM:
        raise ValueError(f"a directory outside of the system's own: /{first} is one of these")
    return path


def _listed(value: Any) -> Any:
    """A single value may be given without a list."""
    return (value,) if isinstance(value, str) else value


Size = Annotated[
    str,
    StringConstraints(pattern=SIZE),
    AfterValidator(_bounded),
    WithJsonSchema({"type": "string", "pattern": SIZE}),
]
"""Whole GiB or TiB, such as `500GiB`; `gib` reads it."""
MountPath = Annotated[
    str,
    StringConstraints(pattern=MOUNT, max_length=200),
    AfterValidator(_free),
    WithJsonSchema({"type": "string", "pattern": MOUNT, "maxLength": 200}),
]
EntryName = Annotated[
    str, StringConstraints(min_length=1, max_length=40, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
]
Existing = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=EXISTING)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=TYPE)]


class StorageOrder(Document):
    """One entry: exactly one of `share`, `volume`, `export` and `scratch`."""

    share: EntryName | None = Field(
        default=None,
        description="A shared file system (Manila, NFS) that all servers mount; its name in the pod.",
    )
    volume: EntryName | None = Field(
        default=None,
        description="A block device (Cinder) for each server, with an ext4 file system; its name in the pod.",
    )
    export: EntryName | None = Field(
        default=None,
        description="An existing NFS export of the site, by its name there; weft only mounts it.",
    )
    scratch: Literal["nvme"] | None = Field(
        default=None,
        description="The servers' local NVMe drives as one file system, striped (MD RAID 0); for as long as the server "
        "exists.",
    )
    mount: MountPath = Field(description="Directory on the servers, such as /data.")
    size: Size | None = Field(
        default=None, description="Size of a new share, or of each new volume: `500GiB`, `1TiB`."
    )
    type: Words | None = Field(
        default=None,
        description="Share type in Manila, or volume type in Cinder. Default: the site's, otherwise the cloud's.",
    )
    existing: Annotated[
        tuple[Existing, ...], BeforeValidator(_listed, json_schema_input_type=str | tuple[Existing, ...])
    ] = Field(
        default=(),
        max_length=10_000,
        description="Instead of a size: an existing share of the project, by id or name, such as one kept "
        "from an earlier pod; for volumes, one for each node. weft never deletes it.",
    )
    keep: bool = Field(
        default=False,
        description="Whether a new share, or new volumes, stay in the project when the pod is released; the receipt "
        "names them.",
    )
    read_only: bool = Field(default=False, description="Shares and exports: mounted for reading only.")

    @property
    def kind(self) -> Literal["share", "volume", "export", "scratch"]:
        """Which of the four kinds of entries it is."""
        kinds: Sequence[Literal["share", "volume", "export", "scratch"]] = (
            "share",
            "volume",
            "export",
            "scratch",
        )
        return next(kind for kind in kinds if getattr(self, kind) is not None)

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(getattr(self, self.kind))

    @property
    def gib(self) -> int:
        """Size of a new share or volume; 0: an existing one."""
        return gib(self.size) if self.size is not None else 0

    @model_validator(mode="after")
    def _one_of_four(self) -> Self:
        given = [k for k in ("share", "volume", "export", "scratch") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError("exactly one of share, volume, export and scratch is required")
        return self

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        kind = self.kind
        made = kind in ("share", "volume")
        given = {
            "size": self.size is not None and not made,
            "type": self.type is not None and (not made or bool(self.existing)),
            "existing": bool(self.existing) and not made,
            "keep": self.keep and (not made or bool(self.existing)),
            "read_only": self.read_only and kind not in ("share", "export"),
        }
        if wrong := [name for name, is_wrong in given.items() if is_wrong]:
            of = "something that exists" if self.existing and made else kind
            raise ValueError(f"with {of}, omit {', '.join(wrong)}")
        if made and (self.size is None) == (not self.existing):
            raise ValueError(f"a {kind} needs exactly one of size (a new one) and existing")
        if kind == "share" and len(self.existing) > 1:
            raise ValueError("a share has one existing share")
        if len(set(self.existing)) < len(self.existing):
            raise ValueError("existing names each volume once")
        return self


def check_entries(entries: Sequence[StorageOrder]) -> None:
    """Raise ValueError for entries with the same name, or with mounts inside each other."""
    doubled = [name for name, n in Counter((e.kind, e.name) for e in entries).items() if n > 1]
    if doubled:
        kind, name = doubled[0]
        raise ValueError(f"{kind} {name} is ordered twice: give each another name")
    for number, one in enumerate(entries):
        for other in entries[number + 1 :]:
            if one.mount == other.mount:
                raise ValueError(f"two entries of storage have the mount {one.mount}")
            if one.mount.startswith(f"{other.mount}/") or other.mount.startswith(f"{one.mount}/"):
                raise ValueError(f"the mounts {one.mount} and {other.mount} are inside each other")
