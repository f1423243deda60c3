"""The controller that an agent is bound to: the first that claims it with a key, until that one releases it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from pathlib import Path
from typing import Any, cast

from openvipu.model.codec import decode, encode
from openvipu.model.errors import Forbidden, StateError
from openvipu.model.names import check_id
from openvipu.model.state import Owner


class Binding:
    """The agent's owner, kept in a file so that a restart doesn't let another controller in.

    With ``preset_key`` only a controller that shows this key can claim, so that not even the first
    claim is on trust.
    """

    def __init__(self, path: Path | None = None, preset_key: str = "") -> None:
        self._path = path
        self._preset = preset_key
        self._lock = threading.Lock()
        self.owner: Owner | None = _read(path) if path and path.exists() else None

    def claim(self, controller_id: str, key: str) -> None:
        """Make this controller the owner; idempotent for the owner, Forbidden for others."""
        check_id("controller id", controller_id)
        if not key:
            raise Forbidden("a controller must show its key to claim this agent")
        with self._lock:
            if self.owner is not None:
                self._check(controller_id, key)
                return
            if self._preset and not hmac.compare_digest(_hash(self._preset), _hash(key)):
                raise Forbidden("this agent was prepared for another controller's key")
            self._set(Owner(controller_id, _hash(key)))

    def check(self, controller_id: str, key: str) -> None:
        """Forbidden unless the caller is the owner."""
        with self._lock:
            self._check(controller_id, key)

    def release(self) -> None:
        """Forget the owner; the next claim wins."""
        with self._lock:
            self._set(None)

    def _check(self, controller_id: str, key: str) -> None:
        if self.owner is None:
            raise Forbidden("this agent has no controller yet; add it with 'vipu-admin create agent'")
        same_key = hmac.compare_digest(self.owner.key_hash, _hash(key))
        if self.owner.controller_id != controller_id or not same_key:
            raise Forbidden("this agent belongs to another controller")

    def _set(self, owner: Owner | None) -> None:
        if self._path is not None:
            unfinished = self._path.with_name(self._path.name + ".new")
            unfinished.touch(mode=0o600)
            with unfinished.open("w") as file:
                json.dump({**encode(owner), "digest": _digest(owner)} if owner else None, file)
                file.flush()
                os.fsync(file.fileno())
            unfinished.chmod(0o600)
            unfinished.replace(self._path)
        self.owner = owner


def _read(path: Path) -> Owner | None:
    try:
        body = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(f"agent state {path} can't be read: {error}") from None
    if body is None:
        return None
    # files of the first layout have no digest; damage can't remove it from one that has
    digest = cast("dict[str, Any]", body).pop("digest", None) if isinstance(body, dict) else None
    owner = decode(Owner, body, f"agent state {path}")
    if digest is not None and digest != _digest(owner):
        raise StateError(f"agent state {path} is damaged: its text doesn't fit its digest")
    return owner


def _digest(owner: Owner) -> str:
    return hashlib.sha256(json.dumps(encode(owner), sort_keys=True).encode()).hexdigest()


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
