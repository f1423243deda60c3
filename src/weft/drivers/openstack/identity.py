"""Keystone checks callers' tokens; weft never sees a password and keeps no token."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from weft.drivers.openstack.session import Json, Sessions
from weft.model.errors import UnauthenticatedError
from weft.ports.cloud import Caller

LONGEST = 60.0
KEPT = 10_000
"""Answers that are kept at most; then the oldest go."""


class KeystoneIdentity:
    """`Identity` by `GET /v3/auth/tokens` with the service user's own token (role `service`).

    Args:
        remembered: seconds that an answer is believed, at most 60 and never beyond the token's expiry. A token
            that is revoked is refused after as long. Kept under the token's SHA-256, never under the token.
    """

    def __init__(
        self,
        sessions: Sessions,
        remembered: float = 30.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._sessions = sessions
        self._remembered = timedelta(seconds=min(remembered, LONGEST))
        self._now = now
        self._known: dict[bytes, tuple[datetime, Caller]] = {}
        self._lock = threading.Lock()

    @property
    def auth_url(self) -> str:
        """Keystone's address, for callers that come without a token."""
        return self._sessions.auth_url

    def check(self, token: str) -> Caller:
        if not token or not token.isascii() or not token.isprintable():
            raise UnauthenticatedError("the token is not one of Keystone's: sign in again")
        name, now = hashlib.sha256(token.encode()).digest(), self._now()
        with self._lock:
            until, caller = self._known.get(name, (now, None))
        if caller is not None and now < until:
            return caller
        caller = self._ask(token)
        if caller.expires_at <= self._now():
            raise UnauthenticatedError("the token has expired: sign in again")
        with self._lock:
            self._known.pop(name, None)
            while len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[name] = (min(now + self._remembered, caller.expires_at), caller)
        return caller

    def _ask(self, token: str) -> Caller:
        answer = self._sessions.own().identity.ask(
            "check a caller's token",
            "GET",
            "/auth/tokens",
            params={"nocatalog": "1"},
            headers={"X-Subject-Token": token},
            ok=(400, 404),
        )
        if not answer.fine:
            raise UnauthenticatedError("the token is not valid, or not any more: sign in again")
        return caller_of(answer.body["token"])


def caller_of(token: Json) -> Caller:
    """The caller in the body of Keystone's answer (Identity API v3, "Validate and show information for token")."""
    project: Json = token.get("project") or {}
    return Caller(
        user_id=token["user"]["id"],
        user_name=token["user"]["name"],
        project_id=project.get("id"),
        project_name=project.get("name"),
        roles=frozenset(str(role["name"]).lower() for role in token.get("roles", [])),
        expires_at=datetime.fromisoformat(token["expires_at"]).astimezone(UTC),
        system=bool((token.get("system") or {}).get("all")),
    )


__all__ = ["KeystoneIdentity", "caller_of"]
