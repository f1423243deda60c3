"""The console's sessions: a random id in a cookie, and contents that only this id opens.

The database has the id's SHA-256 and the contents (the user's token) encrypted with a key that follows from the id;
the browser has the id. Neither alone gives a token. Any number of API processes share them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from weft.engine.store.websessions import WebSessions

COOKIE = "__Host-weft"
"""Browsers accept a name with this prefix only with Secure, for the whole host, and from the host itself."""
LONGEST = 12 * 3600.0
"""Seconds after which a session ends, even if its token is valid for longer."""
_ID = re.compile(r"[A-Za-z0-9_-]{43}")
_ID_BYTES, _NONCE_BYTES = 32, 12


@dataclass(frozen=True, slots=True)
class SessionContents:
    """What a session holds.

    Attributes:
        stage: passcode: the password was right, a passcode is missing; scope: no project chosen yet; in: signed in.
        token: of Keystone; in stage `passcode` its receipt of the first factor.
        unscoped: the token that another project can be chosen with; empty: none can (application credential).
        draft: text of an order or a site that was sent when the session before had ended; empty: none was.
    """

    stage: Literal["passcode", "scope", "in"]
    token: str
    user_id: str
    user_name: str = ""
    project_id: str | None = None
    project_name: str | None = None
    system: bool = False
    unscoped: str = ""
    draft: str = ""


@dataclass(frozen=True, slots=True)
class Session:
    """A session that hasn't ended. `key`: its id, the cookie's value."""

    key: str
    contents: SessionContents
    expires_at: datetime

    @property
    def csrf(self) -> str:
        """What every form of this session sends along; it follows from the id, which other sites can't read."""
        return hmac.new(self.key.encode(), b"weft console form", hashlib.sha256).hexdigest()


class SessionBook:
    """Opens, finds and ends sessions. Each method may raise `TemporaryError`: the database can't be reached."""

    def __init__(self, rows: WebSessions) -> None:
        self._rows = rows

    def begin(self, contents: SessionContents, ends: datetime, before: Session | None = None) -> Session:
        """A session with a new id; the one before it ends.

        Args:
            ends: when the token expires.
        """
        key = base64.urlsafe_b64encode(secrets.token_bytes(_ID_BYTES)).rstrip(b"=").decode()
        digest, nonce = _digest(key), secrets.token_bytes(_NONCE_BYTES)
        plain = json.dumps(asdict(contents)).encode()
        sealed = nonce + AESGCM(_sealing_key(key)).encrypt(nonce, plain, digest)
        after = _digest(before.key) if before else None
        self._rows.put(digest, sealed, contents.user_id, ends, LONGEST, after)
        return Session(key, contents, ends)

    def find(self, key: str) -> Session | None:
        """The session of a cookie's value, which may be any text; None if there is none, or it has ended."""
        if not _ID.fullmatch(key):
            return None
        digest = _digest(key)
        row = self._rows.find(digest)
        if row is None:
            return None
        nonce, sealed = row.sealed[:_NONCE_BYTES], row.sealed[_NONCE_BYTES:]
        try:
            plain = AESGCM(_sealing_key(key)).decrypt(nonce, sealed, digest)
            return Session(key, SessionContents(**json.loads(plain)), row.expires_at)
        except (InvalidTag, ValueError, TypeError):  # made for another row, or by another version of weft
            return None

    def still_there(self, keys: Collection[str]) -> frozenset[str]:
        """The keys among these whose sessions haven't ended."""
        digests = {_digest(key): key for key in keys}
        there = self._rows.still_there(list(digests))
        return frozenset(key for digest, key in digests.items() if digest in there)

    def end(self, session: Session) -> None:
        """Sign-out: the cookie is worth nothing from now on, for all processes."""
        self._rows.end(_digest(session.key))


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _sealing_key(key: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"weft console token").derive(key.encode())
