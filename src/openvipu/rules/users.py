"""Users and their access keys."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace

from openvipu.model.errors import AlreadyExists, BadRequest, Conflict, Unauthenticated
from openvipu.model.names import check_id
from openvipu.model.site import User
from openvipu.model.state import State


def key_hash(salt: str, key: str) -> str:
    """Hex SHA-256 of salt and key. Keys are random and long, so no slow hash is needed."""
    return hashlib.sha256(f"{salt}:{key}".encode("utf-8", "surrogateescape")).hexdigest()


SHORTEST_KEY = 12
LONGEST_KEY = 128


def check_key(key: str) -> str:
    """``key`` if it is fit to be a chosen access key; else BadRequest, which doesn't repeat it."""
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise BadRequest(
            f"access_key is not allowed; use {SHORTEST_KEY} to {LONGEST_KEY} printable ASCII characters"
        )
    return key


def make(state: State, id_: str, salt: str, key: str, allocations: Sequence[str], admin: bool) -> User:
    """The new user with access to ``allocations``. The caller draws ``salt`` and ``key``."""
    check_id("user id", id_)
    if id_ in state.users:
        raise AlreadyExists(f"user {id_!r} exists already")
    return User(id_, salt, key_hash(salt, key), _checked(state, allocations), admin)


def with_allocations(state: State, id_: str, allocations: Sequence[str]) -> User:
    """The user with another list of allocations."""
    return replace(state.user(id_), allocation_ids=_checked(state, allocations))


def without(state: State, id_: str) -> State:
    """The state without this user; the last administrator of a secure controller stays."""
    user = state.user(id_)
    others = [entry for entry in state.users.values() if entry.admin and entry.id != id_]
    if state.settings.secure and user.admin and not others:
        raise Conflict(f"user {id_!r} is the last administrator; create another one first")
    return state.without_user(id_)


def authenticate(state: State, id_: str, key: str) -> User:
    """The user whose id and key these are. A wrong id and a wrong key get the same answer."""
    if not id_:
        raise Unauthenticated("this controller needs a user; give --api-user-id and --api-access-key")
    user = state.users.get(id_)
    expected = user.key_hash if user else key_hash("", "")
    given = key_hash(user.salt if user else "", key)
    if user is None or not hmac.compare_digest(expected, given):
        raise Unauthenticated(f"the access key of user {id_!r} is not right, or there is no such user")
    return user


def _checked(state: State, allocations: Sequence[str]) -> tuple[str, ...]:
    for allocation in allocations:
        state.allocation(allocation)
    return tuple(dict.fromkeys(allocations))
