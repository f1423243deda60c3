"""Rows of the console's sessions: sealed contents by the SHA-256 of their ids. They contain neither keys nor tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from weft.engine.base.database import Database

MOST = 50
"""Most sessions of one user; beyond that the oldest end."""


@dataclass(frozen=True, slots=True)
class SealedSession:
    """A session's contents, which only its id opens, and its end."""

    sealed: bytes
    expires_at: datetime


class WebSessions:
    """Any number of API processes may use the same rows. Each method raises `TemporaryError` without a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self, digest: bytes, sealed: bytes, user_id: str, ends: datetime, longest: float, after: bytes | None
    ) -> None:
        """Store a session, and end the one before it in the same transaction.

        Args:
            digest: SHA-256 of its id.
            ends: when its token expires.
            longest: seconds after which it ends anyway.
            after: digest of the session that it replaces.
        """
        with self._database.transaction() as tx:
            now = tx.now()
            if after is not None:
                tx.run("delete_web_session", digest=after)
            tx.run(
                "insert_web_session",
                digest=digest,
                sealed=sealed,
                user=user_id,
                at=now,
                expires=min(ends, now + timedelta(seconds=longest)),
            )
            tx.run("limit_web_sessions", user=user_id, most=MOST)

    def find(self, digest: bytes) -> SealedSession | None:
        """A session that hasn't ended."""
        with self._database.statement() as tx:
            row = tx.row("web_session", digest=digest, at=tx.given)
        return SealedSession(bytes(row["sealed"]), row["expires_at"]) if row else None

    def still_there(self, digests: Collection[bytes]) -> frozenset[bytes]:
        """The digests among these whose sessions haven't ended."""
        with self._database.statement() as tx:
            rows = tx.rows("web_sessions_there", digests=list(digests), at=tx.given)
        return frozenset(bytes(row["digest"]) for row in rows)

    def end(self, digest: bytes) -> None:
        """Delete a session; one that isn't there has ended already."""
        self._database.run("delete_web_session", digest=digest)
