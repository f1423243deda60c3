"""A site file into the files of a deployment tool, in a directory: all of it is computed before any is written."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.planning.export.formats import export

MANIFEST = ".weft-export"
"""What was written last time, as `sha256sum -c` reads it; so that a file that somebody changed isn't overwritten."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Attributes:
    written: paths of new and changed files.
    same: how many files were there already just so.
    removed: paths of files of the last export that are no longer part of it.
    """

    written: list[str]
    same: int
    removed: list[str]


def export_site(site_file: str, form: str, cloud: str | None, output: str, force: bool = False) -> Exported:
    """Write the files of a format for a site's cloud.

    Args:
        force: overwrite files that aren't as the last export left them. Files that are no part of it always stay.

    Raises `InputError` or `InputErrors`; then nothing was written.
    """
    texts = export(load_site(site_file), form, cloud)
    target = Path(output)
    try:
        return _write(target, {name: text.encode() for name, text in texts.items()}, force)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise InputError("--output", output, f"a writable directory: {error.strerror}{where}") from None


def _write(target: Path, files: Mapping[str, bytes], force: bool) -> Exported:
    """Every file is replaced whole; whoever dies in the middle leaves old and new ones, and the next run mends it."""
    if target.exists() and not target.is_dir():
        raise InputError("--output", str(target), "a directory")
    before = _manifest(target)
    _refuse_others(target, files, before, force)
    target.mkdir(parents=True, exist_ok=True)
    for left in target.glob(f"{MANIFEST}-*"):  # of one that died
        shutil.rmtree(left)
    stage = Path(tempfile.mkdtemp(dir=target, prefix=f"{MANIFEST}-"))
    written: list[str] = []
    try:
        changed = {name: body for name, body in files.items() if _read(target / name) != body}
        for name, body in changed.items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_bytes(body)
        for name in changed:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).replace(target / name)
            written.append(str(target / name))
        removed = [name for name in before if name not in files and (target / name).is_file()]
        for name in removed:
            (target / name).unlink()
            _remove_empty(target / name, target)
        lines = "".join(f"{sha256(body).hexdigest()}  {name}\n" for name, body in sorted(files.items()))
        (stage / MANIFEST).write_text(lines)
        (stage / MANIFEST).replace(target / MANIFEST)
    finally:
        shutil.rmtree(stage)
    return Exported(written, len(files) - len(written), [str(target / name) for name in removed])


def _manifest(target: Path) -> dict[str, str]:
    """Path -> digest of the last export there; empty if there was none. Paths outside of it are ignored."""
    text = (_read(target / MANIFEST) or b"").decode(errors="replace")
    rows = (line.partition("  ") for line in text.splitlines())
    inside = {name: digest for digest, _, name in rows if name and ".." not in Path(name).parts}
    return {name: digest for name, digest in inside.items() if not Path(name).is_absolute()}


def _refuse_others(target: Path, files: Mapping[str, bytes], before: Mapping[str, str], force: bool) -> None:
    """Nothing is lost by accident: neither a directory of something else, nor what somebody changed in an export."""
    for name in files:
        for path in (target / name, *(target / p for p in Path(name).parents)):
            if path != target and path.is_symlink():
                raise InputError(
                    "--output", str(path), "a file or directory of its own, not a link: remove it first"
                )
    there = (p for p in target.rglob("*") if p.is_symlink() or not p.is_dir()) if target.is_dir() else ()
    for path in sorted(there):
        name = str(path.relative_to(target))
        if force or name == MANIFEST or name.startswith(f"{MANIFEST}-"):
            continue
        body = _read(path) or b""
        if body == files.get(name) or sha256(body).hexdigest() == before.get(name):
            continue
        if name in files or name in before:
            allowed = "a file as the last export left it; --force overwrites it"
            raise InputError("--output", str(path), allowed)
        if not before:
            allowed = "a directory that doesn't exist, is empty or has an export; with --force other files stay in it"
            raise InputError("--output", str(target), allowed)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _remove_empty(path: Path, target: Path) -> None:
    """Directories that a removed file was the last one in."""
    for parent in path.parents:
        if parent == target or any(parent.iterdir()):
            return
        parent.rmdir()
