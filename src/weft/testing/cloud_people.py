"""The fake cloud's Keystone: users with tokens."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from weft.model.errors import UnauthenticatedError
from weft.ports.cloud import Caller
from weft.testing.cloud_state import caller
from weft.testing.cloud_store import CloudStore


class FakePeople(CloudStore):
    """`Identity`."""

    def add_user(
        self,
        name: str,
        project: str | None = None,
        roles: Sequence[str] = ("member",),
        *,
        system: bool = False,
        valid: timedelta = timedelta(hours=1),
    ) -> str:
        """Add a user; returns a token. Project id and name are the same."""
        with self._lock:
            token = f"token-{name}-{self._seeded.id()[:8]}"
            self.offers.tokens[token] = caller(name, project, roles, self.clock.now() + valid, system)
        return token

    def revoke(self, token: str) -> None:
        """Invalidate a token."""
        del self.offers.tokens[token]

    def remembered(self, token: str) -> Caller | None:
        """None: the fake caches no callers."""
        return None

    def check(self, token: str) -> Caller:
        self._call("check", None)
        known = self.offers.tokens.get(token)
        if known is None or known.expires_at <= self.clock.now():
            raise UnauthenticatedError("the token is not valid, or not any more: sign in again")
        return known
