"""Kinds of settings: what a value may be, in the file and as text on the command line or in the environment."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from weft.config.databaseurl import check_database_url
from weft.model.errors import InputError


class NotAllowedError(ValueError):
    """A value that isn't allowed.

    Args:
        allowed: what would be, as the end of a sentence.
        shown: what is shown in place of the value, which may be a secret.
    """

    def __init__(self, allowed: str, shown: str | None = None) -> None:
        super().__init__(allowed)
        self.allowed, self.shown = allowed, shown


class SettingKind:
    """A kind of value: text, unless a subclass says otherwise. Its `from_` methods may raise `NotAllowedError`."""

    what = "text"
    """Name of the kind in the documentation."""

    @property
    def said(self) -> str:
        """Name of the kind with its limits."""
        return self.what

    def from_file(self, value: Any, folder: Path) -> Any:
        """Convert a TOML value; paths are relative to `folder`."""
        if not isinstance(value, str):
            raise NotAllowedError(f"{self.what}, as a string in quotes")
        return self.from_text(value)

    def from_text(self, text: str) -> Any:
        """Convert the text of an option or a variable."""
        if not text or not text.isprintable():
            raise NotAllowedError(f"{self.what}, not empty, of printable characters")
        return text

    def has_secret(self, value: Any) -> bool:
        """Whether a value of a secret setting really has one."""
        return True

    def missing(self, value: Any) -> str | None:
        """What must exist on this host but doesn't, as the end of a sentence; None: nothing."""
        return None


@dataclass(frozen=True, slots=True)
class Whole(SettingKind):
    """A whole number from `least` to `most`."""

    least: int
    most: int
    unit: str = ""
    what = "whole number"

    @property
    def said(self) -> str:
        return f"{self.what}, {self.allowed}"

    @property
    def allowed(self) -> str:
        """The range, with its unit."""
        return f"{self.least} to {self.most}{' ' if self.unit else ''}{self.unit}"

    def from_file(self, value: Any, folder: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise NotAllowedError(f"a whole number, {self.allowed}, without quotes")
        return self._bounded(value)

    def from_text(self, text: str) -> int:
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20):
            raise NotAllowedError(self.allowed)
        return self._bounded(int(text))

    def _bounded(self, value: int) -> int:
        if not self.least <= value <= self.most:
            raise NotAllowedError(self.allowed)
        return value


class Flag(SettingKind):
    """true or false."""

    what = "true or false"

    def from_file(self, value: Any, folder: Path) -> bool:
        if not isinstance(value, bool):
            raise NotAllowedError("true or false, without quotes")
        return value

    def from_text(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise NotAllowedError("true or false")
        return text == "true"


@dataclass(frozen=True, slots=True)
class Choice(SettingKind):
    """One of several words."""

    values: tuple[str, ...]

    @property
    def said(self) -> str:
        return " or ".join(f"`{v}`" for v in self.values)

    def from_file(self, value: Any, folder: Path) -> str:
        return self.from_text(value if isinstance(value, str) else "")

    def from_text(self, text: str) -> str:
        if text not in self.values:
            raise NotAllowedError(", ".join(self.values))
        return text


class Folder(SettingKind):
    """A folder, which may not exist yet."""

    what = "path"

    def from_file(self, value: Any, folder: Path) -> Path:
        if not isinstance(value, str):
            raise NotAllowedError("a path, as a string in quotes")
        return folder / self.from_text(value)

    def from_text(self, text: str) -> Path:
        if not text or "\0" in text:
            raise NotAllowedError("a path")
        if text[0] in "~$":  # a folder called ~ is never meant
            raise NotAllowedError("a path as it is: neither ~ nor variables are replaced")
        return Path(text)


class File(Folder):
    """A file that must exist."""

    def missing(self, value: Any) -> str | None:
        try:
            return None if Path(value).is_file() else "an existing file"
        except OSError as error:
            return f"an existing file ({error.strerror})"


class ListenAddress(SettingKind):
    """`HOST:PORT`."""

    what = "HOST:PORT"

    def from_text(self, text: str) -> str:
        listen(text)
        return text


class HttpUrl(SettingKind):
    """A URL that clients use."""

    what = "URL"

    def from_text(self, text: str) -> str:
        try:
            parts = urlsplit(text)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable()
            named = "@" in parts.netloc
        except ValueError:
            good, named = False, "@" in text
        if named:
            raise NotAllowedError(
                "a URL without user and password, such as https://weft.example", "what is there"
            )
        if not good:
            raise NotAllowedError("a URL such as https://weft.example")
        return text


class DatabaseUrl(SettingKind):
    """`postgresql://…`, which may have a password: its text is never shown."""

    what = "URL"
    example = "postgresql://user@host/weft"

    def from_file(self, value: Any, folder: Path) -> str:
        if not isinstance(value, str):
            raise NotAllowedError(f"a URL in quotes, such as {self.example}", "what is there")
        return self.from_text(value)

    def from_text(self, text: str) -> str:
        if not text.startswith(("postgresql://", "postgres://")):
            scheme = text.partition("://")[0] if "://" in text else "no scheme"
            raise NotAllowedError(f"a URL such as {self.example}", repr(scheme[:40]))
        try:
            check_database_url("", text, self.example)
        except InputError as error:
            raise NotAllowedError(error.allowed, "what is there") from None
        return text

    def has_secret(self, value: Any) -> bool:
        _, _, rest = str(value).partition("://")
        user, at, _ = rest.partition("/")[0].rpartition("@")
        named = {name for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
        return bool(at and user.partition(":")[2]) or bool(named & {"password", "sslpassword"})


def listen(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[IPv6]:PORT` or `:PORT` (all addresses). Raises `NotAllowedError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise NotAllowedError("HOST:PORT, such as 127.0.0.1:8787 or [::]:8787")
    return host or "0.0.0.0", int(port)


def is_loopback(host: str) -> bool:
    """Whether all addresses of a host are this machine's own; False for a name whose addresses can't be found out now:
    it may have others a moment later."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return all(ipaddress.ip_address(str(row[4][0]).partition("%")[0]).is_loopback for row in found)
    except (OSError, ValueError):
        return False
