"""URLs of databases, which have passwords: read strictly, so that no error or log shows a part of one as a host."""

from __future__ import annotations

import re
from urllib.parse import unquote

from weft.model.errors import InputError
from weft.model.errortable import Shown

_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/?#,\s]*)(?::[0-9]*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")
_USER = re.compile(r"[^@/?#\[\]:\s]*(?::[^@/?#\[\]:\s]*)?")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")


def check_database_url(field: str, url: str, example: str) -> None:
    """Raise `InputError`, which never shows the URL, unless user, password and host can't be taken for each other.

    Args:
        field: the setting, option or variable that the URL was given by.
        example: of a URL, for the error.
    """
    authority, _, rest = url.partition("://")[2].partition("/")
    user, _, hosts = authority.rpartition("@")
    path, _, query = rest.partition("?")
    if (
        not _USER.fullmatch(user)
        or not _HOSTS.fullmatch(hosts.partition("?")[0])
        or re.search(r"[@#\s]", path)
        or _BROKEN.search(url)
        or not all("=" in pair for pair in query.split("&") if pair)
        or not _is_text(url)
    ):
        allowed = (
            f"a URL such as {example}; in user and password write @ as %40, / as %2F, : as %3A, % as %25"
        )
        raise InputError(field, Shown("what is there"), allowed)


def _is_text(url: str) -> bool:
    try:
        return unquote(url, errors="strict").isprintable()
    except UnicodeDecodeError:
        return False
