"""Tokens with which nodes report their checks, each bound to one. The database has only the SHA-256 of their secrets.

A token is `wct_ID_SECRET`: its row is found by the id, which isn't secret, and the secret's digest is compared in
constant time.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from weft.engine.base.database import Database, Tx
from weft.model.errors import ConflictError, NotFoundError, UnauthenticatedError
from weft.model.messages import hostchecks

MOST_TOKENS = 5
"""Most tokens of one node, including those that have ended: a new one is made before the old one is revoked."""
_TOKEN = re.compile(r"wct_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_NO_DIGEST = bytes(32)
_UNUSED = "no such token, or it has ended: make one with `weft node check-token NODE`"


@dataclass(frozen=True, slots=True)
class CheckToken:
    """A token's row, without anything secret. Attributes: used_at: when it was used last; None: never."""

    id: str
    node: str
    made_at: datetime
    made_by: str
    expires_at: datetime
    used_at: datetime | None


def make_token(database: Database, node: str, ends: datetime, by: str) -> tuple[str, CheckToken]:
    """A new token of a node, which is kept nowhere, and its row. Raises `ConflictError` if it has too many."""
    name, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    with database.transaction() as tx:
        tx.run("lock_check_tokens", node=node)
        if len(tx.rows("check_tokens", node=node)) >= MOST_TOKENS:
            raise ConflictError(hostchecks.TOO_MANY_TOKENS(node=node, most=MOST_TOKENS))
        values = {"id": name, "node": node, "digest": sha256(secret.encode()).digest()}
        made = tx.one(CheckToken, "insert_check_token", **values, at=tx.now(), by=by, ends=ends)
    return f"wct_{name}_{secret}", made


def list_tokens(database: Database, node: str | None = None) -> list[CheckToken]:
    """All tokens, by node and age, or those of a node."""
    return database.all(CheckToken, "check_tokens", node=node)


def revoke_token(database: Database, name: str) -> CheckToken:
    """Delete a token by its id; it is refused from then on. Raises `NotFoundError`."""
    gone = database.all(CheckToken, "delete_check_token", id=name)
    if not gone:
        raise NotFoundError(hostchecks.NO_SUCH_TOKEN(token=name))
    return gone[0]


def node_of(database: Database, token: str) -> tuple[str, str]:
    """A token's id and the node that it is bound to. Raises `UnauthenticatedError` if it isn't valid now."""
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise UnauthenticatedError(_UNUSED)
    with database.statement() as tx:
        row = tx.row("report_token", id=found[1])
        now = tx.now()
    digest = sha256(found[2].encode()).digest()
    same = hmac.compare_digest(digest, bytes(row["digest"]) if row else _NO_DIGEST)
    if row is None or not same or row["expires_at"] <= now:
        raise UnauthenticatedError(_UNUSED)
    return found[1], row["node"]


def use_token(tx: Tx, name: str) -> None:
    """Note that a token is used; it stays until the transaction ends. Raises `UnauthenticatedError` if it has ended."""
    if tx.row("use_check_token", id=name, at=tx.now()) is None:
        raise UnauthenticatedError(_UNUSED)
