"""The controller's address and the caller's credentials: flags, environment, configuration file, in this order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openvipu.model.errors import BadRequest
from openvipu.model.names import check_host, check_port

FILE_NAME = "vipu-cli.hcl"
LARGEST_FILE = 1 << 20

KEYS = ("api-host", "api-port", "admin-port", "api-user-id", "api-access-key", "tls")
"""Keys of a configuration file. Others are ignored: they may be another program's."""

_ENVIRONMENT = {
    "api-host": "VIPU_CLI_API_HOST",
    "api-port": "VIPU_CLI_API_PORT",
    "admin-port": "VIPU_CLI_ADMIN_PORT",
    "api-user-id": "VIPU_CLI_API_USER_ID",
    "api-access-key": "VIPU_CLI_API_ACCESS_KEY",
    "tls": "VIPU_CLI_TLS",
}

_LINE = re.compile(r'([A-Za-z_][A-Za-z0-9_-]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([A-Za-z0-9_.+-]+))\s*')
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Connection:
    """A controller's address and the caller's credentials."""

    host: str
    port: int
    user_id: str
    access_key: str
    tls: str

    @property
    def target(self) -> str:
        """``host:port``, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse(text: str, where: str) -> dict[str, str]:
    """Key and value of every ``key = value`` line of HCL; BadRequest names the line that isn't one.

    Comments begin with ``#`` or ``//``. Blocks and lists have no place in this file.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        rest = line.strip()
        if not rest or rest.startswith(("#", "//")):
            continue
        match = _LINE.match(rest)
        if match is None or not (match.end() == len(rest) or rest[match.end() :].startswith(("#", "//"))):
            raise BadRequest(f'{where}, line {number}: expected key="value", found {rest[:60]!r}')
        key, quoted, plain = match.groups()
        found[key] = plain if quoted is None else re.sub(r"\\(.)", _unescape, quoted)
    return found


def resolve(
    flags: Mapping[str, str | None], environment: Mapping[str, str], home: Path, here: Path, admin: bool
) -> Connection:
    """The connection that flags, environment and file give together; localhost by default.

    The file is ``--config``, or the first ``vipu-cli.hcl`` of: this directory, the home directory
    (there also ``.vipu-cli.hcl``), ``/etc/vipu``.
    """
    file = _file(flags.get("config"), home, here)

    def value(key: str, default: str) -> str:
        for candidate in (flags.get(key), environment.get(_ENVIRONMENT[key]), file.get(key)):
            if candidate:
                return candidate
        return default

    # `api-port` in the file and the environment is the user API's: scripts set it for both programs
    port = flags.get("api-port") or (value("admin-port", "8091") if admin else value("api-port", "8090"))
    return Connection(
        host=check_host("api-host", value("api-host", "localhost")),
        port=check_port("api-port", _number(port)),
        user_id=value("api-user-id", ""),
        access_key=value("api-access-key", ""),
        tls=value("tls", ""),
    )


def user_file(host: str, port: str, user_id: str, access_key: str) -> str:
    """The configuration file of a new user."""
    pairs = {"api-host": host, "api-port": port, "api-user-id": user_id, "api-access-key": access_key}
    return "".join(f'{key}="{value}"\n' for key, value in pairs.items())


def _file(named: str | None, home: Path, here: Path) -> dict[str, str]:
    if named:
        return _read(Path(named))
    for path in (here / FILE_NAME, home / FILE_NAME, home / f".{FILE_NAME}", Path("/etc/vipu") / FILE_NAME):
        if path.is_file():
            return _read(path)
    return {}


def _read(path: Path) -> dict[str, str]:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadRequest(f"configuration file {path} is larger than {LARGEST_FILE} bytes")
        return parse(path.read_text(encoding="utf-8"), f"configuration file {path}")
    except UnicodeDecodeError:
        raise BadRequest(f"configuration file {path} is not UTF-8 text") from None
    except OSError as error:
        raise BadRequest(f"configuration file {path} can't be read: {error.strerror}") from None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadRequest(f"api-port {text[:40]!r} is not a number")
    return int(text)


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match.group(1), match.group(1))
