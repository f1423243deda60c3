"""Replaces a certificate and its key together: a reader finds two that belong together at any moment, also if the
process dies between two steps.

Two files can't be renamed at once, a link can. The files become links into one folder, `.pairs/NAME`, which is itself a
link to the newest of the folders beside it; replacing it replaces both. Readers need to know nothing of it.
These folders are open to those to whom the files' own folder is, so that both root and weft can renew a pair.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

PAIRS = ".pairs"
_CERTIFICATE, _KEY = "certificate.pem", "key.pem"


def replace_pair(
    certificate: Path, key: Path, certificate_pem: bytes, key_pem: bytes, *, alone: bool = False
) -> None:
    """Replace both files' contents. Replaced files keep their owner and mode; new keys are readable by their owner
    only.

    Args:
        alone: the caller has `locked` the certificate's folder.

    Raises OSError: the folder can't be written; both files are as they were.
    """
    certificate.parent.mkdir(parents=True, exist_ok=True)
    if certificate == key:
        _replace_file(key, certificate_pem + key_pem, key, 0o600)
        return
    with nullcontext() if alone else locked(certificate.parent):
        if not (certificate.exists() and key.exists()):
            _replace_file(key, key_pem, key, 0o600)
            _replace_file(certificate, certificate_pem, certificate, 0o644)
            return
        pairs = certificate.parent / PAIRS
        pairs.mkdir(exist_ok=True)
        _share(pairs, certificate.parent)
        current = pairs / certificate.name
        if not _linked(certificate, key, current):
            # The old pair first: from here on one link decides what both files are.
            _point(current, _stored(pairs, certificate, key, certificate.read_bytes(), key.read_bytes()))
            _put_link(certificate, os.path.relpath(current / _CERTIFICATE, certificate.parent))
            _put_link(key, os.path.relpath(current / _KEY, key.parent))
        old = current.resolve()
        _point(current, _stored(pairs, certificate, key, certificate_pem, key_pem))
        for folder in pairs.iterdir():
            # The previous pair stays until the next replacement: a reader may be between its two files.
            if folder.name.rpartition("~")[0] == current.name and folder not in (current.resolve(), old):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Exclude other processes that replace pairs in the folder. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _stored(pairs: Path, certificate: Path, key: Path, certificate_pem: bytes, key_pem: bytes) -> Path:
    """Write both into a new folder, synced to the disk; returns it."""
    folder = Path(tempfile.mkdtemp(prefix=f"{certificate.name}~", dir=pairs))
    try:
        _share(folder, certificate.parent)
        for name, old, text, mode in (
            (_KEY, key, key_pem, 0o600),
            (_CERTIFICATE, certificate, certificate_pem, 0o644),
        ):
            _write(folder / name, old, text, mode)
        _sync(folder)
    except OSError:  # don't leave half of it on a full disk
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _share(folder: Path, like: Path) -> None:
    """Give a folder another one's owner and mode; all may pass through it, to files that have modes of their own."""
    was = like.stat()
    with suppress(PermissionError):  # another user's folder, who has done this already; or not root
        folder.chmod(stat.S_IMODE(was.st_mode) & 0o775 | 0o711)
        os.chown(folder, was.st_uid, was.st_gid)


def _write(path: Path, old: Path, text: bytes, mode: int) -> None:
    """A new file with the owner and mode of an old one, if that is there."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        with suppress(FileNotFoundError):
            was = old.stat()
            mode = was.st_mode & 0o777
            if (was.st_uid, was.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):  # not root: it becomes this process' own
                    os.fchown(file.fileno(), was.st_uid, was.st_gid)
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _replace_file(path: Path, text: bytes, old: Path, mode: int) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        _write(new, old, text, mode)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    _sync(path.parent)


def _linked(certificate: Path, key: Path, current: Path) -> bool:
    return all(
        path.is_symlink() and str(path.readlink()) == os.path.relpath(current / name, path.parent)
        for path, name in ((certificate, _CERTIFICATE), (key, _KEY))
    )


def _point(current: Path, folder: Path) -> None:
    """Let the link `current` point to the folder: the one step that replaces both files."""
    _put_link(current, folder.name)


def _put_link(path: Path, to: str) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    new.symlink_to(to)
    try:
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
