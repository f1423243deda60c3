"""Traces of sites that this user activated, on disk: digests, and names of nodes. What can't be trusted isn't there.

`$XDG_CACHE_HOME/weft/sites` (`~/.cache`) belongs to the user alone, and may be removed at any time.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weft import __version__
from weft.app.sitetrace import FileTrace
from weft.model.base import Document

MOST_ENTRIES = 16
MOST_BYTES = 64 << 20
"""Largest size of an entry."""
_FORMAT = 1
_MINE = re.compile(r"[0-9a-f]{32}\.trace|\.half-\w+")


class SiteTrace(Document):
    """A site's files, and the active site that was made of them.

    Attributes:
        document: digest of the active site's document (`digest_of`).
        starts: the first node of each part of its nodes.
    """

    files: tuple[FileTrace, ...]
    document: str
    starts: tuple[str, ...]


def digest_of(document: Mapping[str, Any]) -> str:
    """Digest of a JSON document, the same for any order of its fields."""
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def recall(site_file: Path) -> SiteTrace | None:
    """What was kept of this file by this version; None: nothing, or nothing that can be trusted."""
    try:
        path = _entry(site_file)
        if path is None:
            return None
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_mine(found) or found.st_size > MOST_BYTES:
                return None
            digest, _, body = file.read(MOST_BYTES).partition(b"\n")
        if sha256(body).hexdigest().encode() != digest:
            return None
        return SiteTrace.model_validate_json(body)
    except (OSError, ValidationError):
        return None


def keep(site_file: Path, trace: SiteTrace) -> None:
    """Keep it for the next activation, if that is possible; the oldest beyond `MOST_ENTRIES` are removed."""
    with suppress(OSError):
        path = _entry(site_file)
        body = trace.model_dump_json().encode()
        if path is None or len(body) > MOST_BYTES - 100:
            return
        handle, half = tempfile.mkstemp(dir=path.parent, prefix=".half-")  # for the user alone
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(sha256(body).hexdigest().encode() + b"\n" + body)
            Path(half).replace(path)
        except BaseException:
            Path(half).unlink(missing_ok=True)
            raise
        _prune(path.parent)


def _prune(folder: Path) -> None:
    """Remove the oldest traces, and what is left of half ones; other things in the folder are the user's."""
    mine = [one for one in folder.iterdir() if _MINE.fullmatch(one.name) and not one.is_dir()]
    for old in sorted(mine, key=lambda one: one.lstat().st_mtime)[:-MOST_ENTRIES]:
        old.unlink(missing_ok=True)


def _entry(site_file: Path) -> Path | None:
    """Where the trace of a site file is, in a folder that only the user can write; None: there is no such place."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = (base if base.is_absolute() else Path.home() / ".cache") / "weft" / "sites"
    except RuntimeError:  # a user without a home
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    there = folder.lstat()
    if not stat.S_ISDIR(there.st_mode) or not _is_mine(there):
        return None
    key = f"{_FORMAT} {__version__} {os.path.realpath(site_file)}"
    return folder / f"{sha256(os.fsencode(key)).hexdigest()[:32]}.trace"


def _is_mine(found: os.stat_result) -> bool:
    """Whether it is the user's, and for no one else."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077
