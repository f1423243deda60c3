"""What a UFM remembers: P_Keys, tokens, jobs; in a file where it is to outlive the program."""

from __future__ import annotations

import copy
import json
import secrets
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MANAGEMENT = 0x7FFF


@dataclass
class Member:
    membership: str = "full"
    index0: bool = False


@dataclass
class Pkey:
    """One partition. `guids`: 16 lower hex digits -> how it is a member."""

    name: str
    ip_over_ib: bool = True
    guids: dict[str, Member] = field(default_factory=dict[str, Member])
    qos: dict[str, Any] = field(
        default_factory=lambda: {"mtu_limit": 4, "rate_limit": 200, "service_level": 0}
    )
    given: str = ""
    """The key as its creator wrote it."""


@dataclass
class User:
    password: str
    role: str = "system_admin"


@dataclass
class Token:
    username: str
    issued_at: int
    expires_in: int = 315_360_000
    revoked: bool = False


@dataclass
class Job:
    id: str
    operation: str
    created: str
    status: str = "Running"
    progress: int = 0
    summary: str = ""
    parent: str = ""


@dataclass
class State:
    """Everything that a standby gets by replication."""

    pkeys: dict[int, Pkey] = field(default_factory=dict[int, Pkey])
    tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    unhealthy: dict[str, str] = field(default_factory=dict[str, str])
    changed_at: float | None = None

    def copy(self) -> State:
        """A copy that shares nothing with it."""
        return copy.deepcopy(self)

    def save(self, path: Path) -> None:
        """Write it as JSON, at once and for its user alone."""
        new = path.with_suffix(".new")
        new.touch(mode=0o600)
        new.write_text(json.dumps(asdict(self)))
        new.replace(path)

    @classmethod
    def load(cls, path: Path) -> State:
        """What was saved; an empty state if there is no file yet."""
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            return cls()
        pkeys: dict[int, Pkey] = {}
        for key, found in document["pkeys"].items():
            members = {g: Member(**m) for g, m in found.pop("guids").items()}
            pkeys[int(key)] = Pkey(**found, guids=members)
        tokens = {t: Token(**of) for t, of in document["tokens"].items()}
        return cls(pkeys, tokens, document["unhealthy"], document["changed_at"])


def now_text() -> str:
    """UTC as UFM writes it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())


def new_token() -> str:
    """A token that can't be guessed."""
    return secrets.token_urlsafe(24)
