"""weft's credentials for a UFM: from a file or the environment, never from the database, never in a log."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from weft.model.errors import PermanentError
from weft.model.site import FabricManager

TOKEN, USERNAME, PASSWORD = "WEFT_UFM_TOKEN", "WEFT_UFM_USERNAME", "WEFT_UFM_PASSWORD"
_MOST = 65_536
_NEEDED = {"token": ("token",), "basic": ("username", "password"), "session": ("username", "password")}
_VARIABLES = {"token": TOKEN, "username": USERNAME, "password": PASSWORD}


@dataclass(frozen=True, slots=True)
class UfmCredentials:
    """User and password, or a token. `repr` shows none of them."""

    token: str = field(default="", repr=False)
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def basic(self) -> str:
        """Value of an Authorization header for user and password."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    def hide(self, text: str) -> str:
        """The text without any of these credentials, in any form in which they are sent."""
        secrets = (self.token, self.password, self.basic.partition(" ")[2] if self.password else "")
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(secret, "(secret)")
        return text


def read_credentials(manager: FabricManager, environment: Mapping[str, str] | None = None) -> UfmCredentials:
    """Read the credentials from their file or the environment. Raises `PermanentError`, naming what is missing and
    where it was expected."""
    needed = _NEEDED.get(manager.authentication, ())
    if not needed:
        return UfmCredentials()
    given: Mapping[str, Any]
    if manager.credentials is None:
        source = "the environment"
        found = os.environ if environment is None else environment
        given = {name: found.get(variable, "") for name, variable in _VARIABLES.items()}
    else:
        source = manager.credentials
        given = _file(Path(manager.credentials))
    missing = [n for n in needed if not isinstance(given.get(n), str) or not given[n].strip()]
    if missing:
        names = ", ".join(_VARIABLES[n] if manager.credentials is None else n for n in missing)
        raise _error(source, f"no {names}", f"authentication is {manager.authentication}: give {names}")
    chosen = {name: given[name].strip() for name in needed}
    if any(not c.isprintable() for value in chosen.values() for c in value):
        raise _error(
            source, "a character that can't be sent", f"{', '.join(needed)}: printable characters only"
        )
    return UfmCredentials(**chosen)


def changed_at(manager: FabricManager) -> int:
    """When the credentials' file was last replaced, in nanoseconds since 1970; 0: there is no file."""
    try:
        return Path(manager.credentials).stat().st_mtime_ns if manager.credentials else 0
    except OSError:
        return 0


def credentials_problems(manager: FabricManager) -> list[str]:
    """Problems with the credentials' file: it can't be read, or others on this host can read it."""
    if manager.credentials is None:
        return []
    try:
        mode = Path(manager.credentials).stat().st_mode
    except OSError as error:
        return [f"the credentials {manager.credentials} can't be read: {error.strerror}"]
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return [f"the credentials {manager.credentials} can be read by others on this host: chmod 600"]
    return []


def _file(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            # Every value is a text as it is: a password may be 0012 or no.
            document = yaml.load(file.read(_MOST), Loader=yaml.BaseLoader)
    except OSError as error:
        raise _error(str(path), error.strerror or str(error), "name a file that weft can read") from error
    except (yaml.YAMLError, ValueError, RecursionError):
        # Not the parser's own words, neither here nor in a traceback: they quote the line.
        raise _error(str(path), "not a YAML file", "token: …, or username: … and password: …") from None
    if not isinstance(document, dict):
        raise _error(str(path), "it isn't a YAML mapping", "token: …, or username: … and password: …")
    return cast(dict[str, Any], document)


def _error(of: str, answer: str, then: str) -> PermanentError:
    return PermanentError("read UFM's credentials", of, answer, then)
