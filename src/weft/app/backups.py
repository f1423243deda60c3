"""`weft backup`, `weft restore`: files, folders and the database of the settings; without the API, on weft's host."""

from __future__ import annotations

import errno
import getpass
import os
import pwd
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path

from weft.app.settings import ServeSettings
from weft.config.secretfiles import readable_by_others
from weft.engine.backup import dump, file, restore
from weft.engine.backup.file import Manifest
from weft.engine.base.sql import migrations
from weft.model.errors import ConflictError, InputError

SECRETS = (
    "it has tenants' user data and, unless they are encrypted (weft secrets list), the keys of receipts and pods. "
    "Its mode is 600; keep it like a private key"
)


@dataclass(frozen=True, slots=True)
class ShownBackup:
    """A backup file as the command line shows it.

    Attributes:
        size: of the file, in octets.
        pending: migrations of this version that it lacks.
        open: why others can read the file.
    """

    path: Path
    size: int
    manifest: Manifest
    pending: tuple[str, ...] = ()
    open: str | None = None


def make(settings: ServeSettings, to: Path | None) -> ShownBackup:
    """Back up the database into a new file.

    Args:
        to: the file, or an existing folder, in which its name is made of site and time; None: the current folder.

    Raises `InputError`, `OutsideError`. No file is left behind unless it is whole.
    """
    if str(to) == "-":
        raise InputError("FILE", "-", "a file or a folder: it isn't written to standard output")
    folder, name = (to.parent, to.name) if to is not None and not to.is_dir() else (to or Path(), None)
    if name is not None and os.path.lexists(folder / name):
        raise InputError("FILE", str(to), "a file that doesn't exist yet")
    part: Path | None = None
    try:
        with tempfile.NamedTemporaryFile(
            prefix=".weft-backup-", dir=folder, delete=False
        ) as into:  # mode 600
            part = Path(into.name)
            with database_url(settings, made=False) as url:
                manifest = dump.back_up(url, into, folder)
                into.flush()
                os.fsync(into.fileno())
                path = folder / (name or _name(manifest))
                size = part.stat().st_size
                _publish(part, path)
                dump.note(url, manifest.taken_at)
    except FileExistsError as error:
        raise InputError("FILE", str(error.filename2 or to), "a file that doesn't exist yet") from None
    except OSError as error:
        raise InputError("FILE", str(to or folder), f"a place to write to ({error.strerror})") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    return ShownBackup(path, size, manifest)


def verify(path: Path) -> ShownBackup:
    """Read a file as for a restore. Raises `InputError`."""
    with file.opened(path) as found:
        checked = restore.check(found)
        return ShownBackup(
            path, path.stat().st_size, found.manifest, checked.pending, readable_by_others(path)
        )


def put_back(settings: ServeSettings, path: Path, replace: bool, older: bool) -> ShownBackup:
    """Restore a file, which is verified before. Raises `InputError`, `ConflictError`, `OutsideError`."""
    with file.opened(path) as found:
        checked = restore.check(found)
        with database_url(settings, made=True) as url:
            restore.restore(url, checked, replace, older, _who())
        return ShownBackup(path, path.stat().st_size, found.manifest, checked.pending)


def schema() -> str:
    """The latest migration of this version."""
    return migrations()[-1][0]


@contextmanager
def database_url(settings: ServeSettings, made: bool) -> Generator[str]:
    """URL of the database; the embedded one is started for the block if it doesn't run.

    Args:
        made: whether an embedded one may be created if there is none.
    """
    if settings.database is not None:
        yield settings.database
        return
    from weft.engine.base.embedded import embedded

    _check_state(settings.state, made)
    with embedded(settings.state) as url:
        yield url


def _check_state(state: Path, made: bool) -> None:
    """Raise unless there is an embedded database of this user, or one may be created."""
    try:
        owner = (state / "postgres" / "PG_VERSION").stat().st_uid
    except FileNotFoundError:
        if not made:
            raise ConflictError(f"{state} has no database: --state or --database names another one") from None
        if not state.exists():
            return
        owner = state.stat().st_uid  # of a unit's user, who couldn't use another's database
    except OSError as error:
        raise InputError("--state", str(state), f"a folder to look into ({error.strerror})") from None
    me, name = os.geteuid(), str(owner)
    with suppress(KeyError):
        name = pwd.getpwuid(owner).pw_name
    # As root PostgreSQL runs as a user of its own, which would be given the folder.
    if owner != me and not (me == 0 and name == "pgserver"):
        raise ConflictError(
            f"the database in {state} is {name}'s: run this as {name} (sudo -u {name} weft …)"
        )


def _publish(part: Path, path: Path) -> None:
    """Give a file its name, unless there is one of that name. Raises `OSError`."""
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, "File exists", str(part), None, str(path)) from None
        part.rename(path)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    made = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(made)
    finally:
        os.close(made)


def _name(manifest: Manifest) -> str:
    at = manifest.taken_at.astimezone(UTC)
    return f"weft-{manifest.site or 'new'}-{at:%Y%m%dT%H%M%SZ}.backup"


def _who() -> str:
    user = str(os.getuid())
    with suppress(KeyError, OSError):
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"[:200]
