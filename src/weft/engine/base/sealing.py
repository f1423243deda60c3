"""Secrets in the database, encrypted with keys outside of it: the database, or a backup, alone doesn't reveal them.

Fernet (AES-128-CBC and HMAC-SHA256) of the library cryptography, as for Keystone's credentials: the first key
encrypts, every key decrypts, so that a key can be replaced while processes run. A value is encrypted with
its name, so that it can't be opened as another secret.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from cryptography.fernet import Fernet, InvalidToken
from psycopg.rows import DictRow, dict_row

from weft.config.secretfiles import readable_by_others, secret_text
from weft.engine.base.postgres import address_of, connecting, outside_error
from weft.engine.base.schema import enter
from weft.model.errors import ConflictError, InputError
from weft.model.errortable import Shown

FIELD = "weft.secrets_key"
MOST_KEYS = 10
_ALLOWED = (
    f"1 to {MOST_KEYS} lines, each 32 bytes in base64, as of `openssl rand -base64 32`; the first encrypts"
)


class Seal:
    """Encrypts and decrypts; without keys it leaves values as they are.

    Args:
        keys: of 32 bytes; the first one encrypts.
        path: the file that they are from: read again when they don't open a value.
    """

    def __init__(self, keys: Sequence[bytes] = (), path: Path | None = None) -> None:
        self._path = path
        self._fernets = [Fernet(base64.urlsafe_b64encode(key)) for key in keys]

    @property
    def seals(self) -> bool:
        """Whether it has a key."""
        return bool(self._fernets)

    def newest(self) -> Seal:
        """A seal with the keys that the file has now. Raises `InputError` if they can't be read."""
        self._again()
        return self

    def close(self, name: str, value: bytes) -> bytes:
        """The value as it is stored: encrypted if there is a key."""
        return self._fernets[0].encrypt(f"{name}\0".encode() + value) if self._fernets else value

    def key_of(self, name: str, stored: bytes) -> int | None:
        """Which key opens an encrypted value, counted from 1; None: none does."""
        return next(
            (n for n, one in enumerate(self._fernets, 1) if _opened(one, name, stored) is not None), None
        )

    def open(self, name: str, stored: bytes, sealed: bool) -> bytes:
        """A stored value. Raises `InputError` if no key opens it."""
        if not sealed:
            return stored
        for fernets in (self._fernets, self._again()):
            for one in fernets:
                if (value := _opened(one, name, stored)) is not None:
                    return value
        found = Shown("a file without this key") if self._fernets else None
        raise InputError(FIELD, found, f"a file with the key that opens the database's secret {name}")

    def _again(self) -> Sequence[Fernet]:
        """Keys that the file has by now: a process may be older than the newest one."""
        if self._path is None:
            return ()
        self._fernets = read_keys(self._path)._fernets
        return self._fernets


def _opened(fernet: Fernet, name: str, stored: bytes) -> bytes | None:
    try:
        text = fernet.decrypt(stored)
    except InvalidToken:
        return None
    named, _, value = text.partition(b"\0")
    return value if named == name.encode() else None


def read_keys(path: Path | None) -> Seal:
    """The keys in a file; None: no keys. Raises `InputError`, which quotes none of them."""
    if path is None:
        return Seal()
    if why := readable_by_others(path):
        raise InputError(FIELD, str(path), why)
    lines = [line.strip() for line in secret_text(path, FIELD, None).splitlines()]
    keys = [_key(path, line) for line in lines if line and not line.startswith("#")]
    if not 1 <= len(keys) <= MOST_KEYS:
        raise InputError(FIELD, str(path), f"a file with {_ALLOWED}")
    return Seal(keys, path)


def _key(path: Path, line: str) -> bytes:
    try:
        key = base64.b64decode(line.translate(str.maketrans("-_", "+/")), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != 32:
        raise InputError(FIELD, str(path), f"a file with {_ALLOWED}")
    return key


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A secret as it is stored.

    Attributes:
        key: which key of the file opens it, counted from 1; None: none does, or it isn't encrypted.
    """

    name: str
    sealed: bool
    key: int | None


def secrets_of(connection: psycopg.Connection[DictRow], seal: Seal) -> list[SecretRow]:
    """All secrets of a database."""
    rows = connection.execute("SELECT name, value, sealed FROM secret ORDER BY name").fetchall()
    return [
        SecretRow(
            row["name"],
            row["sealed"],
            seal.key_of(row["name"], bytes(row["value"])) if row["sealed"] else None,
        )
        for row in rows
    ]


def look(url: str, seal: Seal) -> list[SecretRow]:
    """The secrets of the database at a URL. Raises `OutsideError`."""
    return _with(url, lambda connection: secrets_of(connection, seal))


@dataclass(frozen=True, slots=True)
class Rotated:
    """Attributes: left: why values from before may still be in the table's file; empty: they aren't."""

    number: int
    left: str


def rotate(url: str, seal: Seal, unseal: bool = False) -> Rotated:
    """Encrypt all secrets with the first key, in one transaction; then write the table's file again without old rows.

    Args:
        unseal: store them as they are instead.

    Raises `InputError` if one can't be opened: then none is changed; `OutsideError`.
    """

    def changed(connection: psycopg.Connection[DictRow]) -> int:
        rows = connection.execute(
            "SELECT name, value, sealed FROM secret ORDER BY name FOR UPDATE"
        ).fetchall()
        for row in rows:
            name = row["name"]
            value = seal.open(name, bytes(row["value"]), row["sealed"])
            stored = value if unseal else seal.close(name, value)
            if not unseal and seal.open(name, stored, True) != value:
                raise AssertionError(f"secret {name} doesn't open again")
            update = "UPDATE secret SET value = %s, sealed = %s WHERE name = %s"
            connection.execute(update, [stored, not unseal, name])
        return len(rows)

    number = _with(url, changed)
    return Rotated(number, _cleaned(url))


def _cleaned(url: str) -> str:
    """Remove replaced rows from the table's file, which PostgreSQL does late or never; why it failed, if it did."""
    said = list[str]()
    try:
        with psycopg.connect(url, **connecting(url), autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: said.append(notice.message_primary or "refused"))
            connection.execute("VACUUM (FULL) secret")  # for another role's table it only gives a warning
    except psycopg.Error as error:
        said.append(str(error).strip() or type(error).__name__)
    return said[0].partition("\n")[0] if said else ""


def _with(url: str, work: Any) -> Any:
    try:
        with psycopg.Connection[DictRow].connect(url, **connecting(url), row_factory=dict_row) as connection:
            enter(connection, url)
            return work(connection)
    except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable):
        raise ConflictError(
            f"{address_of(url)} lacks the tables of this version of weft: start weft serve first"
        ) from None
    except psycopg.Error as error:
        raise outside_error(url, error) from error
