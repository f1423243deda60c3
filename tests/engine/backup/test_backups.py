"""Backups: what is in a file, what is refused, and that a restore is complete or changes nothing."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.engine.base.test_restored_database import another, outside, visit
from tests.engine.house import House
from tests.engine.timehouse import make
from tests.helpers.archives import unpack
from tests.helpers.folders import folder_in_memory
from tests.helpers.turns import new_database
from tests.helpers.waiting import wait_for
from weft.cli.main import main
from weft.engine.backup.file import Backup, opened
from weft.engine.backup.programs import Program, connection_of, program
from weft.engine.backup.restore import check, restore
from weft.engine.base.database import Database
from weft.engine.base.embedded import embedded
from weft.engine.base.listener import Listener
from weft.engine.base.sql import migrations
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.model.errors import ConflictError, InputError, PermanentError
from weft.model.pod import PodState

_number = itertools.count()
CANARY = "canary7"
NO_BRACKETS = str.maketrans("", "", "()")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("WEFT_", "PG"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """URL of a database without tables."""
    name = f"weft_restored_{next(_number)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        yield postgres.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def backup(house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A backup of a house with a READY pod."""
    house.ready(make("kept", 2))
    return backed_up(house.database.url, tmp_path / "one.backup", capsys)


def backed_up(url: str, path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["backup", str(path), "--database", url]) == 0, capsys.readouterr()
    capsys.readouterr()
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str, code: int = 2) -> str:
    """Run a command that refuses with one sentence; returns that."""
    assert main(list(words)) == code
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1, err
    return err


def restored(url: str, path: Path, *more: str) -> int:
    return main(["restore", str(path), "--database", url, *more])


def of_another_role(url: str) -> str:
    """URL for a role that owns the database, from which PostgreSQL hides what other roles' connections are."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS owner_of_restored")
        connection.execute("CREATE ROLE owner_of_restored NOLOGIN")
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} OWNER TO owner_of_restored".encode())
    return f"{url}&options=-c%20role%3Downer_of_restored"


def rows_of(url: str) -> dict[str, Any]:
    """Table -> a hash of all its rows."""
    with psycopg.connect(url) as connection:
        names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        texts = "SELECT md5(coalesce(string_agg(to_jsonb(t)::text, '|' ORDER BY to_jsonb(t)::text), '')) FROM ONLY {} t"
        return {
            name: connection.execute(texts.format(name).encode()).fetchone() for (name,) in names.fetchall()
        }


def changed(path: Path, change: Callable[[dict[str, Any]], None], to: Path) -> Path:
    """A copy of a backup with another manifest and correct checksums."""
    with tarfile.open(path) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    manifest = json.loads(members["manifest.json"])
    change(manifest)
    members["manifest.json"] = json.dumps(manifest).encode()
    sums = {name: hashlib.sha256(members[name]).hexdigest() for name in ("manifest.json", "database.dump")}
    members["SHA256SUMS"] = "".join(f"{value}  {name}\n" for name, value in sums.items()).encode()
    with tarfile.open(to, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return to


def test_backup_is_restored_into_empty_database(
    house: House, backup: Path, empty: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row, except sessions, heartbeats and the time of the last backup. The file is private, and plain tools read
    it."""
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600 and not list(backup.parent.glob(".weft-backup-*"))
    unpack(backup, backup.parent / "x")
    subprocess.run(
        ["sha256sum", "-c", "SHA256SUMS"], cwd=backup.parent / "x", check=True, capture_output=True
    )
    assert main(["backup", "verify", str(backup), "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["site"], shown["pods"], shown["pending"]) == (house.site.name, 1, [])
    assert shown["schema"] == migrations()[-1][0]
    assert restored(empty, backup) == 0
    said = capsys.readouterr()
    assert "1 pods" in said.out and "weft audit --accept" in said.err
    before, after = rows_of(house.database.url), rows_of(empty)
    assert before.pop("restored") != after.pop("restored")
    assert before.pop("last_backup") != after.pop("last_backup"), (
        "noted afterwards; a restored one has none yet"
    )
    age = house.store.counts().backup
    assert age is not None and 0 <= age < 3600
    assert before == after
    with psycopg.connect(empty) as one, psycopg.connect(house.database.url) as other:
        definitions = (
            "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal "
            "UNION ALL SELECT proname, md5(prosrc) FROM pg_proc WHERE pronamespace = 'public'::regnamespace "
            "UNION ALL SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
        )
        # PostgreSQL writes nested ORs without their parentheses, and then reads them as one.
        made, first = (
            {str(row).translate(NO_BRACKETS) for row in c.execute(definitions)} for c in (one, other)
        )
        assert made == first


@pytest.fixture
def replaced(postgres: str) -> Generator[House]:
    """A house whose database may be replaced beneath it."""
    with new_database(postgres) as url:
        house = House(Database(url), url)
        yield house
        house.close()
        house.database.close()


def stop_weft(house: House) -> None:
    """Close all connections of the house's weft."""
    house.listener.close()
    house.database.close()


def start_weft(house: House) -> None:
    """Connect the house's weft to its database again; cloud and fabric have gone on."""
    url, clock = house.database.url, house.database.clock
    Database.__init__(house.database, url)
    house.database.clock = clock
    house.database.gate, house.listener = house.gate, Listener(url)
    house.restart()


def restore_beneath(house: House, path: Path) -> None:
    """Stop weft, restore its database, start weft; cloud and fabric go on."""
    stop_weft(house)
    assert restored(house.database.url, path, "--replace") == 0
    start_weft(house)


def test_restored_database_changes_nothing_before_it_is_accepted(
    replaced: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither to its own pod nor to one that was ordered after the backup; then its pods live and end as before."""
    house = replaced
    kept = house.ready(make("kept", 2))
    key = house.service.receipt_key(house.request())
    path = backed_up(house.database.url, tmp_path / "one.backup", capsys)
    live = another(house, "live", 2)
    before = outside(house)
    assert any(str(live.id) in thing for thing in before)
    restore_beneath(house, path)
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))
    house.release(kept)
    assert "--accept" in visit(house, kept).reason and outside(house) == before
    assert house.service.health().checks["changes outside"].startswith("none: the database was restored")
    house.service.audits.accept_database(house.operator)
    house.run(kept, PodState.RELEASED)
    signed = house.store.records.receipt(kept.id)
    assert signed is not None and signed.public_key == key.public_key
    own = [thing for thing in before if str(live.id) in thing]
    assert [thing for thing in outside(house) if str(live.id) in thing] == own
    house.ready(make("next", 1))


def test_restored_database_waits_although_nothing_was_changed_since(
    replaced: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the cloud's note is gone: an operator looks first."""
    house = replaced
    house.ready(make("kept", 2))
    restore_beneath(house, backed_up(house.database.url, tmp_path / "one.backup", capsys))
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))
    house.cloud.witnesses.clear()
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))
    house.service.audits.accept_database(house.operator)
    house.ready(make("next", 1))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_backup_leaves_no_file(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """A timer's job that is stopped must not leave a part of a backup, with secrets, at each run."""
    folder = tmp_path / "backups"
    folder.mkdir()

    def stop() -> None:
        wait_for(lambda: list(folder.iterdir()))
        os.kill(os.getpid(), number)

    before = signal.signal(number, lambda *_: None)
    stopping = threading.Thread(target=stop)
    try:
        with psycopg.connect(house.database.url) as connection:
            connection.execute("LOCK TABLE pod")
            stopping.start()
            assert main(["backup", str(folder), "--database", house.database.url]) == 130
    finally:
        stopping.join()
        signal.signal(number, before)
    assert not list(folder.iterdir()) and "interrupted" in capsys.readouterr().err


def test_files_that_are_not_backups_are_refused(
    backup: Path, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence each; nothing is changed."""
    data = backup.read_bytes()
    with tarfile.open(backup) as archive:
        dump = archive.getmember("database.dump").offset_data
        end = max(one.offset_data + one.size for one in archive.getmembers())
    flipped = bytearray(data)
    flipped[dump + 3000] ^= 1
    cases = {
        "is missing": [data[:size] for size in (300, 600, dump - 100, dump + 5000, end - 1)],
        "checksums": [bytes(flipped)],
        "made by `weft backup`": [b"", b"weft", os.urandom(4096), data[dump:], json.dumps({}).encode()],
    }
    for said, texts in cases.items():
        for number, text in enumerate(texts):
            path = tmp_path / f"wrong-{number}"
            path.write_bytes(text)
            assert said in refused(capsys, "restore", str(path), "--database", empty), (said, number)
            assert said in refused(capsys, "backup", "verify", str(path))
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        assert said in refused(capsys, "restore", str(path), "--database", empty)
    foreign = tmp_path / "foreign.tar"
    with tarfile.open(foreign, "w") as archive:
        archive.add(backup, "backup")
    assert "made by `weft backup`" in refused(capsys, "restore", str(foreign), "--database", empty)
    assert rows_of(empty) == {}


def test_newer_and_older_backups_are_refused(
    backup: Path, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newer one needs its version of weft; an older one is restored on request."""
    newer = changed(
        backup,
        lambda m: m.update(weft="9.1", migrations=[*m["migrations"], "9999_x.sql"]),
        tmp_path / "newer",
    )
    said = refused(capsys, "restore", str(newer), "--database", empty, "--older")
    assert "weft 9.1 is newer (9999_x.sql)" in said
    format_ = changed(backup, lambda m: m.update(weft="9.1", format=2, others=1), tmp_path / "format")
    assert "made by a newer one (9.1)" in refused(capsys, "restore", str(format_), "--database", empty)
    gap = changed(backup, lambda m: m["migrations"].pop(3), tmp_path / "gap")
    assert "--older" in refused(capsys, "restore", str(gap), "--database", empty)
    wrong = changed(backup, lambda m: m["rows"].update(pod=7), tmp_path / "wrong")
    assert "rows aren't those of its manifest: pod" in refused(
        capsys, "restore", str(wrong), "--database", empty, code=1
    )
    assert rows_of(empty) == {}


def test_older_backup_is_migrated_by_serve(
    empty: str, postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A backup of a database without the latest migrations; the gate is closed all the same."""
    with psycopg.connect(empty) as connection:
        connection.execute("CREATE TABLE migration (name text PRIMARY KEY, at timestamptz DEFAULT now())")
        for name, statements in migrations():
            if name < "0074":
                connection.execute(statements.encode())
                connection.execute("INSERT INTO migration (name) VALUES (%s)", [name])
    old = backed_up(empty, tmp_path / "old.backup", capsys)
    with new_database(postgres) as url:
        said = refused(capsys, "restore", str(old), "--database", url, "--replace")
        assert "it lacks 0074_restored.sql" in said and "--older" in said
        assert restored(url, old, "--older", "--replace") == 0
        assert "weft serve migrates it" in capsys.readouterr().err
        Database(url).close()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT count(*) FROM restored").fetchone() == (1,)
            last = connection.execute("SELECT max(name) FROM migration").fetchone()
            assert last == (migrations()[-1][0],)


def test_database_in_use_or_not_empty_is_refused(
    backup: Path, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says who uses it and what is in it; an operator's own table is never removed by accident."""
    with psycopg.connect(empty, application_name="weft gpu-ctl1/4711"):
        said = refused(capsys, "restore", str(backup), "--database", empty)
        assert "in use by weft gpu-ctl1/4711 (user postgres from a local socket)" in said
        assert "in use by" in refused(capsys, "restore", str(backup), "--database", of_another_role(empty))
    with psycopg.connect(empty) as connection:
        connection.execute("CREATE TABLE books (id integer)")
    for more in ((), ("--replace",)):
        said = refused(capsys, "restore", str(backup), "--database", empty, *more)
        assert "isn't empty (table books), and has no tables of weft's" in said
    with psycopg.connect(empty) as connection:
        connection.execute("DROP TABLE books")
    assert restored(empty, backup) == 0
    capsys.readouterr()
    before = rows_of(empty)
    assert "--replace" in refused(capsys, "restore", str(backup), "--database", empty)
    with psycopg.connect(empty) as connection:
        connection.execute("INSERT INTO worker_seen (name, seen_at) VALUES ('host/1', now())")
    assert "worker host/1 sent a heartbeat" in refused(
        capsys, "restore", str(backup), "--database", empty, "--replace"
    )
    with psycopg.connect(empty) as connection:
        connection.execute("DELETE FROM worker_seen")
    other = changed(backup, lambda m: m.update(site="elsewhere"), tmp_path / "other")
    assert "the backup elsewhere" in refused(capsys, "restore", str(other), "--database", empty, "--replace")
    assert rows_of(empty) == before


def test_replacing_restore_removes_what_was_there(
    house: House, backup: Path, empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also tables, views, types and functions that a newer weft or an operator has made."""
    assert restored(empty, backup) == 0
    before = rows_of(empty)
    with psycopg.connect(empty) as connection:
        connection.execute("DELETE FROM event; DELETE FROM secret")
        connection.execute("CREATE TABLE newer (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
        connection.execute("CREATE VIEW seen AS SELECT name FROM pod; CREATE TYPE mood AS ENUM ('a')")
        connection.execute("INSERT INTO migration (name) VALUES ('9999_newer.sql')")
    assert restored(empty, backup, "--replace") == 0
    after = rows_of(empty)
    assert before.pop("restored") != after.pop("restored") and before == after


DYING = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from weft.engine.backup import file, restore

class Dying(file.Backup):
    calls = 0
    def dump(self):
        Dying.calls += 1
        if Dying.calls == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().dump()

with file.opened(Path(sys.argv[1])) as found:
    checked = restore.check(found)
    dying = Dying(found.name, found.manifest, found._file, found._offset)
    restore.restore(sys.argv[2], replace(checked, backup=dying), replace=True, older=False, by="test")
"""


def test_killed_restore_changes_nothing(backup: Path, empty: str) -> None:
    """Killed when the old tables are gone and the new rows are there; the next attempt succeeds."""
    assert restored(empty, backup) == 0
    with psycopg.connect(empty) as connection:
        connection.execute("DELETE FROM event")
    before = rows_of(empty)
    killed = subprocess.run([sys.executable, "-c", DYING, str(backup), empty, "3"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert rows_of(empty) == before
    wait_for(lambda: _alone(empty))
    assert restored(empty, backup, "--replace") == 0


def test_restore_whose_connection_is_lost_changes_nothing(backup: Path, empty: str) -> None:
    """PostgreSQL was stopped meanwhile: the error says that it's all or nothing."""

    class Losing(Backup):
        def dump(self) -> Iterator[bytes]:
            with psycopg.connect(empty, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            return super().dump()

    with opened(backup) as found:
        checked = check(found)
        losing = Losing(found.name, found.manifest, found._file, found._offset)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(PermanentError, match="as it was before"):
            restore(empty, replace(checked, backup=losing), replace=False, older=False, by="test")
    assert rows_of(empty) == {}


def _alone(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
        return row == (1,)


def test_backup_names_its_file_and_overwrites_none(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the current folder or in a given one; of two at once both are whole, under names of their own."""
    url, folder = house.database.url, tmp_path / "backups"
    folder.mkdir()
    assert main(["backup", str(folder), "--database", url]) == 0
    (made,) = folder.iterdir()
    out, err = capsys.readouterr()
    assert made.name.startswith(f"weft-{house.site.name}-2") and str(made) in out and "mode is 600" in err
    before = made.read_bytes()
    assert "doesn't exist yet" in refused(capsys, "backup", str(made), "--database", url)
    assert made.read_bytes() == before
    assert "No such file" in refused(capsys, "backup", str(folder / "a" / "b"), "--database", url)
    threads = [
        threading.Thread(target=main, args=(["backup", str(folder / name), "--database", url],))
        for name in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    capsys.readouterr()
    for name in "ab":
        assert main(["backup", "verify", str(folder / name)]) == 0
    (folder / "a").chmod(0o644)
    capsys.readouterr()
    assert main(["backup", "verify", str(folder / "a")]) == 0
    assert "chmod 600" in capsys.readouterr().err
    assert "one file to verify" in refused(capsys, "backup", "verify")
    assert "standard output" in refused(capsys, "backup", "-", "--database", url)
    assert sorted(one.name for one in folder.iterdir()) == sorted(["a", "b", made.name])


def test_backup_needs_a_database_of_wefts(
    empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise nothing is written, and no embedded PostgreSQL is made."""
    target = str(tmp_path / "x.backup")
    assert "no tables of weft's" in refused(capsys, "backup", target, "--database", empty, code=1)
    nowhere = f"postgresql://weft:{CANARY}@127.0.0.1:1/weft"
    assert CANARY not in refused(capsys, "backup", target, "--database", nowhere, code=1)
    assert "has no database" in refused(capsys, "backup", target, "--state", str(tmp_path / "state"))
    assert not (tmp_path / "state").exists() and not (tmp_path / "x.backup").exists()
    assert list(tmp_path.glob(".weft*")) == []


def test_embedded_database_is_backed_up_and_restored_into_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether its PostgreSQL runs or not; the other one is made."""
    with folder_in_memory("weft-backup-") as folder:
        one, other = folder / "one", folder / "two"
        with embedded(one) as url:
            database = Database(url)
            key = Signer(Store(database)).key()
            database.close()
        path = tmp_path / "x.backup"
        assert main(["backup", str(path), "--state", str(one)]) == 0
        assert main(["restore", str(path), "--state", str(other)]) == 0
        assert "no site yet" in capsys.readouterr().out
        with embedded(other) as url:
            database = Database(url)
            assert Signer(Store(database)).key() == key
            database.close()
        os.chown(one / "postgres" / "PG_VERSION", 12345, -1)
        said = refused(capsys, "backup", str(tmp_path / "y"), "--state", str(one))
        assert "is 12345's: run this as 12345" in said
        (folder / "unit").mkdir()
        os.chown(folder / "unit", 12345, -1)
        said = refused(capsys, "restore", str(path), "--state", str(folder / "unit"))
        assert "run this as 12345" in said and list((folder / "unit").iterdir()) == []


def test_programs_fit_the_servers_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of PostgreSQL's programs that aren't older than the server; if there are none, the error names those
    installed."""
    made = tmp_path / "pg_dump"
    made.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 99.2 (Debian 99.2-1)'\n")
    made.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program("pg_dump", 98, "ask", "db") == Program(made, "99.2", 99)
    assert program("pg_dump", 16, "ask", "db").major == 16
    with pytest.raises(PermanentError, match=r"PostgreSQL 100 or newer; here there is 16\.") as caught:
        program("pg_dump", 100, "ask", "db")
    assert "99.2" in str(caught.value) and "version 100" in str(caught.value)


def test_password_is_never_on_a_command_line() -> None:
    """Other users of the machine can read those."""
    url = f"postgresql://weft:{CANARY}@db1,db2/weft?sslmode=verify-full&target_session_attrs=read-write"
    arguments, environment = connection_of(url)
    assert CANARY not in " ".join(arguments) and environment["PGPASSWORD"] == CANARY
    assert "host=db1,db2" in arguments[-1] and "sslmode=verify-full" in arguments[-1]
    with pytest.raises(InputError, match="without a password"):
        connection_of(f"postgresql://weft@db/weft?sslpassword={CANARY}")
