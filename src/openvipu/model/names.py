"""Identifiers of agents, clusters, allocations, partitions and users."""

from __future__ import annotations

import re

from openvipu.model.errors import BadRequest

LONGEST = 128
_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def check_id(field: str, value: str) -> str:
    """``value`` if it can be an identifier, else BadRequest that names ``field``.

    Our choice: letters, digits, ``_``, ``.`` and ``-``. Ids become file names
    (``<partition>_gcd0_ipuof.conf``) and words in tables that scripts split, so neither a slash nor
    a blank may be in them.
    """
    if not value:
        raise BadRequest(f"{field} is empty; give a name")
    if len(value) > LONGEST:
        raise BadRequest(f"{field} has {len(value)} characters; at most {LONGEST} are allowed")
    if not _PATTERN.fullmatch(value):
        raise BadRequest(
            f"{field} {value!r} is not allowed; use letters, digits, '_', '.' and '-', "
            "beginning with a letter or digit"
        )
    return value


def check_host(field: str, value: str) -> str:
    """``value`` if it looks like a host name or an IP address, else BadRequest that names ``field``."""
    if not value or len(value) > 253 or not re.fullmatch(r"[A-Za-z0-9.:_-]+", value):
        raise BadRequest(f"{field} {value[:64]!r} is not a host name or IP address")
    return value


def check_port(field: str, value: int) -> int:
    """``value`` if it is a TCP port (1 to 65535), else BadRequest that names ``field``."""
    if not 1 <= value <= 65535:
        raise BadRequest(f"{field} {value} is not allowed; a port is 1 to 65535")
    return value


def split_address(text: str) -> tuple[str, int]:
    """``host:port`` as a pair; BadRequest if it isn't one."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise BadRequest(f"address {text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
