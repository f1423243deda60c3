"""`weft secrets`: the database's secrets, encrypted with the keys of the settings; without the API, on weft's host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.app.backups import database_url
from weft.app.settings import ServeSettings
from weft.engine.base.sealing import FIELD, Rotated, SecretRow, look, read_keys, rotate
from weft.model.errors import InputError


def check_keys(path: Path) -> None:
    """Raise `InputError` for a file that has no keys."""
    read_keys(path)


def listed(settings: ServeSettings) -> Sequence[SecretRow]:
    """All secrets, and which key opens each. Raises `InputError`, `OutsideError`."""
    seal = read_keys(settings.secrets_key)
    with database_url(settings, made=False) as url:
        return look(url, seal)


def rotated(settings: ServeSettings, unseal: bool) -> Rotated:
    """Encrypt all with the first key, or none any more. Raises `InputError`, `OutsideError`."""
    seal = read_keys(settings.secrets_key)
    if not seal.seals:
        raise InputError(FIELD, None, "a file with keys, by --secrets-key, WEFT_SECRETS_KEY or in weft.toml")
    with database_url(settings, made=False) as url:
        return rotate(url, seal, unseal)
