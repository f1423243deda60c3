"""Converts a site file into a deployment tool's files in a directory; all are computed before any is written."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.model.extras import installation
from weft.model.site import Site
from weft.planning.export.formats import PROMETHEUS, TERRAFORM, export
from weft.planning.export.terraform import NOTHING, cloud_with_networks, profile_of

MANIFEST = ".weft-export"
"""Checksums of the last export, for `sha256sum -c`; files changed since then aren't overwritten."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export.

    Attributes:
        written: paths of new and changed files.
        same: number of files that were there already with the same contents.
        removed: paths of files of the last export that are no longer part of it.
        notes: what the files can't say.
    """

    written: list[str]
    same: int
    removed: list[str]
    notes: list[str] = field(default_factory=list[str])


def export_site(
    site_file: str,
    form: str,
    cloud: str | None,
    output: str,
    force: bool = False,
    live: bool = False,
    profile: str | None = None,
) -> Exported:
    """Write the files of a format for a site's cloud.

    Args:
        force: overwrite files that aren't as the last export left them. Other files always stay.
        live: read from the cloud what is there already, for Terraform.
        profile: name of weft's service user in clouds.yaml, for Terraform; None: as the site says.

    Raises `InputError` or `InputErrors`, `ConflictError` if something in the cloud is in the way, and what says that
    the cloud can't be read; then nothing was written.
    """
    if form != TERRAFORM and (live or profile is not None):
        option = "--live" if live else "--cloud-profile"
        raise InputError(
            "--format", form, f"{TERRAFORM}, with {option}: the other formats don't read the cloud"
        )
    site = load_site(site_file)
    there, notes = NOTHING, list[str]()
    if live:
        from weft.app.existingthings import look  # openstacksdk takes a second

        chosen = cloud_with_networks(site, cloud)
        there, notes = look(site, chosen, profile or profile_of(site, chosen))
    texts = export(site, form, cloud, there, profile)
    if form == PROMETHEUS:
        texts |= _dashboards(site, notes)
    target = Path(output)
    try:
        done = _write(target, {name: text.encode() for name, text in texts.items()}, force)
        return replace(done, notes=notes)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise InputError("--output", output, f"a writable directory: {error.strerror}{where}") from None


def _dashboards(site: Site, notes: list[str]) -> dict[str, str]:
    """Grafana's dashboards; a note without its builders."""
    if find_spec("grafana_foundation_sdk") is None:
        notes.append(f"no dashboards of Grafana: {installation('grafana')}")
        return {}
    from weft.app.dashboards import dashboard_files  # its builders take a second

    return dashboard_files(site)


def _write(target: Path, files: Mapping[str, bytes], force: bool) -> Exported:
    """Replace each file atomically; an interrupted run leaves old and new files, which the next run replaces."""
    if target.exists() and not target.is_dir():
        raise InputError("--output", str(target), "a directory")
    target.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        before = _manifest(target)
        _refuse_others(target, files, before, force)
        for left in target.glob(f"{MANIFEST}-*"):  # of one that died
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
        stage = Path(tempfile.mkdtemp(dir=target, prefix=f"{MANIFEST}-"))
        try:
            return _replace(target, stage, files, before)
        finally:
            shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def _alone(target: Path) -> Generator[None]:
    """Lock the directory for one export at a time; the lock ends with the process. Raises `InputError`."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InputError(
            "--output", str(target), "a directory that no other export is writing to now"
        ) from None
    finally:
        os.close(descriptor)


def _replace(target: Path, stage: Path, files: Mapping[str, bytes], before: Mapping[str, str]) -> Exported:
    """Replace differing files, remove obsolete ones, and write the manifest last."""
    changed = {name: body for name, body in files.items() if _read(target / name) != body}
    for name, body in changed.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).write_bytes(body)
    for name in changed:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (stage / name).replace(target / name)
    removed = [name for name in before if name not in files and (target / name).is_file()]
    for name in removed:
        (target / name).unlink()
        _remove_empty(target / name, target)
    lines = "".join(f"{sha256(body).hexdigest()}  {name}\n" for name, body in sorted(files.items()))
    (stage / MANIFEST).write_text(lines)
    (stage / MANIFEST).replace(target / MANIFEST)
    return Exported(
        [str(target / name) for name in changed],
        len(files) - len(changed),
        [str(target / name) for name in removed],
    )


def _manifest(target: Path) -> dict[str, str]:
    """Path -> digest of the last export there; empty if there was none. Paths outside of it are ignored."""
    text = (_read(target / MANIFEST) or b"").decode(errors="replace")
    rows = (line.partition("  ") for line in text.splitlines())
    inside = {name: digest for digest, _, name in rows if name and ".." not in Path(name).parts}
    return {name: digest for name, digest in inside.items() if not Path(name).is_absolute()}


def _refuse_others(target: Path, files: Mapping[str, bytes], before: Mapping[str, str], force: bool) -> None:
    """Refuse a directory with other contents, and an export with files that were changed since.

    Other files aren't read: passwords and keys lie beside an export.
    """
    for name in {**before, **files}:
        for path in (target / name, *(target / p for p in Path(name).parents)):
            if path != target and path.is_symlink():
                raise InputError(
                    "--output", str(path), "a file or directory of its own, not a link: remove it first"
                )
    if force:
        return
    for name in {**before, **files}:
        body = _read(target / name)
        if body is None or body == files.get(name) or sha256(body).hexdigest() == before.get(name):
            continue
        raise InputError(
            "--output", str(target / name), "a file as the last export left it; --force overwrites it"
        )
    if not before and any(_others(target, files)):
        allowed = (
            "a directory that doesn't exist, is empty or has an export; with --force other files stay in it"
        )
        raise InputError("--output", str(target), allowed)


def _others(target: Path, files: Mapping[str, bytes]) -> Iterator[Path]:
    """Entries of a directory that don't belong to an export."""
    for path in target.rglob("*"):
        name = str(path.relative_to(target))
        if (path.is_symlink() or not path.is_dir()) and name not in files and not name.startswith(MANIFEST):
            yield path


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _remove_empty(path: Path, target: Path) -> None:
    """Directories that a removed file was the last one in."""
    for parent in path.parents:
        if parent == target or any(parent.iterdir()):
            return
        parent.rmdir()
