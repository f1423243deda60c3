"""Secrets of the database: encrypted with keys outside, rotated while weft runs, and nothing without the key."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from weft.app.doctor.database import DatabaseCheck
from weft.app.settings import ServeSettings
from weft.app.wiring import shared_services
from weft.cli.main import main
from weft.config.secretfiles import HIDDEN
from weft.engine.base.database import Database
from weft.engine.base.sealing import Seal, read_keys
from weft.engine.store.podkeys import DerivedKeys
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.model.errors import InputError

FIRST, SECOND = (base64.b64encode(bytes([n]) * 32).decode() for n in (250, 2))


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WEFT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def keys(folder: Path, *lines: str, name: str = "secrets.key") -> Path:
    path = folder / name
    path.write_text("\n".join(["# weft", *lines, ""]))
    path.chmod(0o600)
    return path


def stored(database: Database) -> list[tuple[str, bytes, bool]]:
    with psycopg.connect(database.url) as connection:
        return connection.execute("SELECT name, value, sealed FROM secret ORDER BY name").fetchall()


def table_file(database: Database) -> bytes:
    """Contents of the table's file on disk."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute("SELECT pg_read_binary_file(pg_relation_filepath('secret'))").fetchone()
    assert row is not None
    return row[0]


def values(store: Store) -> tuple[object, str]:
    return Signer(store).key(), DerivedKeys(store).key("p", "k")


def codes(database: Database, path: Path | None, folder: Path) -> list[str]:
    settings = ServeSettings(state=folder, database=database.url, secrets_key=path)
    return [one.code for one in DatabaseCheck(settings, 8).look() if one.of == "secrets of the database"]


def weft(database: Database, path: Path | None, *words: str) -> int:
    return main(
        ["secrets", *words, "--database", database.url, *(["--secrets-key", str(path)] if path else [])]
    )


def test_first_secrets_are_encrypted_at_once(database: Database, tmp_path: Path) -> None:
    """Nothing of them is in the table; a value doesn't open as another one's."""
    path = keys(tmp_path, FIRST)
    before = values(Store(database, read_keys(path)))
    rows = stored(database)
    assert [row[2] for row in rows] == [True, True]
    assert values(Store(database, read_keys(path))) == before
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE secret SET value = (SELECT value FROM secret WHERE name = 'pod-keys')")
    with pytest.raises(InputError, match="receipt-ed25519"):
        values(Store(database, read_keys(path)))


def test_rotation_changes_no_value(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From none to a key, to another one, and back; a process with the file from before goes on."""
    before, path = values(Store(database)), keys(tmp_path, FIRST)
    assert codes(database, None, tmp_path) == [] and codes(database, path, tmp_path) == ["SECRETS_DUE"]
    assert weft(database, path, "rotate") == 0
    assert codes(database, path, tmp_path) == ["SECRETS_SEALED"]
    running = Store(database, read_keys(path))
    assert values(running) == before
    keys(tmp_path, SECOND, FIRST)
    assert codes(database, path, tmp_path) == ["SECRETS_DUE"]
    capsys.readouterr()
    assert weft(database, path, "list", "-f", "json") == 0
    assert [row["Key"] for row in json.loads(capsys.readouterr().out)] == [2, 2]
    assert weft(database, path, "rotate") == 0
    assert values(running) == before, "it reads the file again"
    keys(tmp_path, SECOND)
    assert weft(database, path, "list") == 0 and values(Store(database, read_keys(path))) == before
    out, err = capsys.readouterr()
    assert FIRST not in out + err and SECOND not in out + err
    assert weft(database, path, "rotate", "--unseal") == 0
    assert values(Store(database)) == before and codes(database, None, tmp_path) == []


def test_later_secret_is_encrypted_with_the_keys_of_its_time(database: Database, tmp_path: Path) -> None:
    """A process from before a rotation must not use a key that was removed since: the secret would be lost."""
    path = keys(tmp_path, FIRST)
    running = Store(database, read_keys(path))
    Signer(running)
    keys(tmp_path, SECOND, FIRST)
    assert weft(database, path, "rotate") == 0
    keys(tmp_path, SECOND)
    made = DerivedKeys(running).key("p", "k")
    assert Store(database, read_keys(path)).secrets.check() == 0
    assert DerivedKeys(Store(database, read_keys(path))).key("p", "k") == made
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM secret WHERE name = 'pod-keys'")
    path.write_text("")
    with pytest.raises(InputError, match="openssl rand"):
        DerivedKeys(running).key("p", "k")
    assert [row[0] for row in stored(database)] == ["receipt-ed25519"]


def test_rotation_leaves_no_plain_value_in_the_table_file(database: Database, tmp_path: Path) -> None:
    """PostgreSQL keeps replaced rows until it cleans the table, which it never does for two."""
    values(Store(database))
    plain = [row[1] for row in stored(database)]
    assert any(value in table_file(database) for value in plain)
    assert weft(database, keys(tmp_path, FIRST), "rotate") == 0
    assert not any(value in table_file(database) for value in plain)


def test_without_the_key_nothing_starts_or_changes(
    database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key, and another key: one sentence, exit code 2, and the rows stay."""
    path = keys(tmp_path, FIRST)
    values(Store(database, read_keys(path)))
    before, other = stored(database), keys(tmp_path, SECOND, name="other.key")
    for given, said in ((None, "missing"), (other, "a file without this key")):
        settings = ServeSettings(state=tmp_path, database=database.url, secrets_key=given)
        with pytest.raises(InputError, match=said), shared_services(settings):
            pass
        assert weft(database, given, "rotate") == 2
        assert weft(database, given, "rotate", "--unseal") == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 2 and "weft.secrets_key" in err and SECOND not in err
        assert weft(database, given, "list") == 1
        assert codes(database, given, tmp_path) == ["SECRETS_LOCKED"]
    assert stored(database) == before
    with shared_services(replace(settings, secrets_key=path, worker=False)) as made:
        assert made.store.secrets.check() == 0


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("", 0o600, "openssl rand"),
        ("# only a comment\n", 0o600, "openssl rand"),
        ("canary7\n", 0o600, "openssl rand"),
        (base64.b64encode(b"canary7").decode(), 0o600, "openssl rand"),
        (f"{FIRST}\n{FIRST[:-4]}", 0o600, "openssl rand"),
        ((FIRST + "\n") * 11, 0o600, "1 to 10 lines"),
        (FIRST, 0o644, "chmod 600"),
    ],
)
def test_wrong_files_of_keys_are_refused(
    tmp_path: Path, text: str, mode: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `weft config check` with the line of weft.toml; what is in the file is never shown."""
    path, file = tmp_path / "secrets.key", tmp_path / "weft.toml"
    path.write_text(text)
    path.chmod(mode)
    file.write_text('[weft]\nsecrets_key = "secrets.key"\n')
    with pytest.raises(InputError, match=said) as caught:
        read_keys(path)
    assert main(["config", "check", "--file", str(file)]) == 2
    err = capsys.readouterr().err
    assert f"{file}:2: weft.secrets_key" in err and said in err
    for secret in ("canary7", base64.b64encode(b"canary7").decode(), FIRST[:20]):
        assert secret not in err + str(caught.value) + str(HIDDEN)


def test_keys_are_read_in_both_alphabets_of_base64(tmp_path: Path) -> None:
    """As openssl and as Python write them; the first one encrypts."""
    key = bytes([255, 254]) * 16
    one = keys(tmp_path, base64.b64encode(key).decode(), name="a")
    two = keys(tmp_path, base64.urlsafe_b64encode(key).decode(), FIRST, name="b")
    sealed = read_keys(one).close("x", b"v")
    assert read_keys(two).open("x", sealed, True) == b"v" and read_keys(two).key_of("x", sealed) == 1
    assert Seal().open("x", b"v", False) == b"v" and not Seal().seals
