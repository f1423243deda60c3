"""Files with secrets: how they are read, and who else may read them."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from weft.model.errors import InputError
from weft.model.errortable import Shown

CREDENTIALS = "CREDENTIALS_DIRECTORY"
"""systemd's variable of the folder with a unit's credentials."""
HIDDEN = Shown("this value")
"""Shown in place of a value that may be a secret."""
_LARGEST = 64 << 10


def secret_text(path: Path, field: str, where: str | None) -> str:
    """The text in a file with a secret, without white space around it. Raises `InputError`, which quotes none of it."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        text = data.decode("utf-8-sig").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it isn't text in UTF-8"
        raise InputError(field, str(path), f"a readable file with the value ({why})", where) from None
    if len(data) > _LARGEST:
        raise InputError(field, str(path), f"a file of at most {_LARGEST} bytes", where)
    return text


def credential(name: str, environment: Mapping[str, str]) -> Path | None:
    """The file of a unit's credential; None: the unit has none of that name.

    Raises `InputError` if that can't be found out: no other value may be used instead.
    """
    folder = environment.get(CREDENTIALS)
    if not folder:
        return None
    path = Path(folder) / name
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(CREDENTIALS, folder, f"a folder that can be entered ({error.strerror})") from None
    return path


def readable_by_others(path: Path) -> str | None:
    """What must change about a file with a secret, as the end of a sentence; None: nothing.

    Its owner may read it and, if root owns it, its group, which is that of weft's user.
    """
    try:
        found = path.stat()
    except OSError as error:
        return f"a file that can be read ({error.strerror})"
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode) or not mode & (0o077 if found.st_uid else 0o037):
        return None
    return (
        f"a file that others can't read (its mode is {mode:o}): chmod 600, or 640 where root owns it and its group is "
        "that of weft's user"
    )
