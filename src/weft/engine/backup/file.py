"""The file of a backup: a tar archive with a manifest, the dump of pg_dump, and the checksums of both at the end.

`tar xf` and `sha256sum -c SHA256SUMS` read it without weft.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from weft.model.errors import InputError

MANIFEST, DUMP, SUMS = "manifest.json", "database.dump", "SHA256SUMS"
FORMAT = 1
CHUNK = 1 << 20
_LARGEST = 1 << 20
"""Most bytes of a manifest."""
_A_BACKUP = "a backup made by `weft backup`"


class Manifest(BaseModel):
    """What a backup contains; all values are from the snapshot that was dumped.

    Attributes:
        format: of the file.
        weft: version that made it.
        taken_at: the database's time.
        site: name of the active site, or None.
        epochs: cloud -> how many claims, releases and other counted changes were made in it.
        pods: live ones.
        migrations: of the schema, in order.
        namespace: PostgreSQL's schema that has the tables.
        rows: table -> number of rows in the dump.
        postgresql: version of the server; pg_dump: of the program.
        size, sha256: octets and hash of the dump.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["weft backup"] = "weft backup"
    format: int
    weft: str
    taken_at: AwareDatetime
    site: str | None
    epochs: Mapping[str, int]
    pods: int
    migrations: tuple[str, ...] = Field(min_length=1)
    namespace: str
    rows: Mapping[str, int]
    postgresql: str
    pg_dump: str = Field(pattern=r"^[1-9][0-9]{1,3}\b")
    size: int = Field(ge=0)
    sha256: str

    @property
    def schema_name(self) -> str:
        """The latest migration."""
        return self.migrations[-1]


@dataclass(frozen=True, slots=True)
class Backup:
    """A file whose checksums are right.

    Attributes:
        name: of the file, for errors.
    """

    name: str
    manifest: Manifest
    _file: BinaryIO
    _offset: int

    def dump(self) -> Iterator[bytes]:
        """The dump, in chunks."""
        self._file.seek(self._offset)
        yield from _limited(self._file, self.manifest.size)


def write(into: IO[bytes], manifest: Manifest, dump: BinaryIO) -> None:
    """Write a file's members. Raises `OSError`."""
    body = manifest.model_dump_json(indent=1).encode() + b"\n"
    sums = f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n{manifest.sha256}  {DUMP}\n".encode()
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for name, size, data in (
            (MANIFEST, len(body), io.BytesIO(body)),
            (DUMP, manifest.size, dump),
            (SUMS, len(sums), io.BytesIO(sums)),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = size, 0o600, int(manifest.taken_at.timestamp())
            archive.addfile(member, data)


@contextmanager
def opened(path: Path) -> Generator[Backup]:
    """A checked backup during the block. Raises `InputError` if it isn't a backup, or is cut off or changed."""
    try:
        with path.open("rb") as file:
            if not file.seekable():
                raise InputError("FILE", str(path), "a regular file")
            yield _read(str(path), file)
    except OSError as error:
        raise InputError("FILE", str(path), f"a file that can be read ({error.strerror})") from None


def _read(name: str, file: BinaryIO) -> Backup:
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            first = _next(archive, MANIFEST)
            if first is None:
                raise InputError("FILE", name, _A_BACKUP)
            if first.size > _LARGEST:
                raise InputError("FILE", name, f"{_A_BACKUP}: its manifest has at most {_LARGEST} bytes")
            body = _whole(name, file, first)
            manifest = _manifest(name, body)
            dump, sums = _next(archive, DUMP), None
            if dump is not None and dump.size == manifest.size:
                sums = _next(archive, SUMS)
            if dump is None or sums is None or sums.size > _LARGEST:
                raise _cut(name)
            said = _whole(name, file, sums)
    except tarfile.ReadError:
        raise _foreign(name, file) from None
    except tarfile.TarError:
        raise _cut(name) from None
    found = Backup(name, manifest, file, dump.offset_data)
    actual = hashlib.sha256()
    for chunk in found.dump():
        actual.update(chunk)
    right = f"{hashlib.sha256(body).hexdigest()}  {MANIFEST}\n{manifest.sha256}  {DUMP}\n".encode()
    if said != right or actual.hexdigest() != manifest.sha256:
        raise InputError("FILE", name, "the file as it was written: its checksums are other ones")
    return found


def _next(archive: tarfile.TarFile, name: str) -> tarfile.TarInfo | None:
    """The next member, if it is the expected one."""
    member = archive.next()
    return member if member is not None and member.name == name and member.isreg() else None


def _whole(name: str, file: BinaryIO, member: tarfile.TarInfo) -> bytes:
    file.seek(member.offset_data)
    data = file.read(member.size)
    if len(data) < member.size:
        raise _cut(name)
    return data


def _limited(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (chunk := file.read(min(CHUNK, size))):
        size -= len(chunk)
        yield chunk


def _cut(name: str) -> InputError:
    return InputError("FILE", name, "a whole backup: its end is missing")


def _foreign(name: str, file: BinaryIO) -> InputError:
    file.seek(0)
    begin = file.read(len(MANIFEST))
    if begin == MANIFEST.encode():
        return _cut(name)
    if begin.startswith(b"PGDMP"):
        return InputError("FILE", name, f"{_A_BACKUP}: this is a dump of pg_dump, for pg_restore")
    return InputError("FILE", name, _A_BACKUP)


def _manifest(name: str, body: bytes) -> Manifest:
    try:
        found = _Kind.model_validate_json(body)
        if found.format > FORMAT:
            allowed = f"a backup of this version of weft: it was made by a newer one ({found.weft[:40]})"
            raise InputError("FILE", name, allowed)
        return Manifest.model_validate_json(body)
    except ValidationError:
        raise InputError("FILE", name, f"{_A_BACKUP}: its manifest can't be read") from None


class _Kind(BaseModel):
    """The fields that manifests of every format have."""

    kind: Literal["weft backup"]
    format: int
    weft: str
