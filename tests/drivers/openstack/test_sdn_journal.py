"""The journal of networking-mlnx's driver: abandoned rows are found, reported and sent again.

The table is the driver's own (its model at 21.0.0), in SQLite here; the lab's tests do the same on its MariaDB.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.helpers.turns import new_database
from weft.app.neutronjournal import database_url
from weft.cli.main import main
from weft.drivers.openstack.sdnjournal import SdnJournal, StuckRow
from weft.model.errors import InputError, PermanentError, UnknownError

_TABLE = """
CREATE TABLE sdn_journal (
    id VARCHAR(36) PRIMARY KEY, object_type VARCHAR(36) NOT NULL, object_uuid VARCHAR(36) NOT NULL,
    operation VARCHAR(36) NOT NULL, data TEXT, job_id VARCHAR(36), state VARCHAR(10) NOT NULL, retry_count INTEGER,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP, last_retried TIMESTAMP DEFAULT CURRENT_TIMESTAMP)
"""


class Neutron:
    """Neutron's database and configuration."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "neutron.db"
        self.config = folder / "neutron.conf"
        self.url = f"sqlite:///{self.file}"
        self.config.write_text(f"[DEFAULT]\ncore_plugin = ml2\n[database]\nconnection = {self.url}\n")
        self.run(_TABLE)

    def run(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.file)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def row(self, id_: str, state: str, seconds: int, operation: str = "POST") -> None:
        self.run(
            "INSERT INTO sdn_journal (id, object_type, object_uuid, operation, state, last_retried)"
            f" VALUES (?, 'Port', ?, ?, ?, strftime('%Y-%m-%d %H:%M:%f', 'now', '-{seconds} seconds'))",
            id_,
            f"port-{id_}",
            operation,
            state,
        )

    def states(self) -> dict[str, str]:
        return dict(self.run("SELECT id, state FROM sdn_journal"))


@pytest.fixture
def neutron(tmp_path: Path) -> Neutron:
    return Neutron(tmp_path)


Weft = Callable[..., tuple[int, str, str]]


@pytest.fixture
def weft(neutron: Neutron, capsys: pytest.CaptureFixture[str]) -> Weft:
    def run(*more: str) -> tuple[int, str, str]:
        code = main(["network", "journal", "--neutron-config", str(neutron.config), *more])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


def test_only_abandoned_rows_are_stuck(neutron: Neutron) -> None:
    for id_, state, seconds in (
        ("old", "processing", 7000),
        ("lost", "processing", 200),
        ("under-way", "processing", 5),
        ("waiting", "pending", 7000),
        ("polled", "monitoring", 7000),
        ("done", "completed", 7000),
        ("given-up", "failed", 7000),
    ):
        neutron.row(id_, state, seconds)
    journal = SdnJournal(neutron.url)
    found = journal.stuck(100)
    assert [(r.id, r.object_type, r.object_id, r.operation) for r in found] == [
        ("old", "Port", "port-old", "POST"),
        ("lost", "Port", "port-lost", "POST"),
    ]
    assert 6990 <= found[0].seconds <= 7600
    assert journal.free(found, 100) == 2
    assert neutron.states() == {
        "old": "pending",
        "lost": "pending",
        "under-way": "processing",
        "waiting": "pending",
        "polled": "monitoring",
        "done": "completed",
        "given-up": "failed",
    }
    assert journal.stuck(100) == [] and journal.free(found, 100) == 0
    journal.close()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_postgresql_time_with_a_zone_is_handled(postgres: str, zone: str) -> None:
    with new_database(postgres) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TABLE.replace("DATETIME", "TIMESTAMP").encode())
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET timezone = '{zone}'".encode())
        with psycopg.connect(url, autocommit=True) as connection:
            for id_, seconds in (("old", 200), ("under-way", 5)):
                connection.execute(
                    "INSERT INTO sdn_journal (id, object_type, object_uuid, operation, state, last_retried)"
                    " VALUES (%s, 'Port', 'p', 'POST', 'processing', now() - make_interval(secs => %s))",
                    (id_, seconds),
                )
        journal = SdnJournal(url.replace("postgresql://", "postgresql+psycopg://"))
        found = journal.stuck(100)
        assert [r.id for r in found] == ["old"] and 200 <= found[0].seconds < 800
        assert journal.free(found, 100) == 1 and journal.stuck(100) == []
        journal.close()


def test_row_resumed_by_the_driver_is_left_alone(neutron: Neutron) -> None:
    neutron.row("a", "processing", 200)
    journal = SdnJournal(neutron.url)
    found = journal.stuck(100)
    neutron.run("UPDATE sdn_journal SET last_retried = strftime('%Y-%m-%d %H:%M:%f', 'now')")
    assert journal.free(found, 100) == 0 and neutron.states() == {"a": "processing"}
    neutron.run("UPDATE sdn_journal SET state = 'monitoring', last_retried = '2001-01-01 00:00:00.000000'")
    assert journal.free(found, 100) == 0 and neutron.states() == {"a": "monitoring"}
    journal.close()


def test_command_reports_stuck_rows_and_repairs_on_request(neutron: Neutron, weft: Weft) -> None:
    assert weft() == (0, "no notice is stuck for more than 100 s\n", "")
    neutron.row("a", "processing", 200, "DELETE")
    code, out, _ = weft()
    assert code == 1 and "DELETE" in out and "port-a" in out and "--repair" in out
    assert neutron.states() == {"a": "processing"}
    code, out, _ = weft("--json")
    (row,) = json.loads(out)["rows"]
    assert code == 1 and (row["operation"], row["object_id"]) == ("DELETE", "port-a")
    code, out, _ = weft("--repair")
    assert code == 0 and "sends 1 of 1 again" in out and neutron.states() == {"a": "pending"}
    code, out, _ = weft("--repair", "--json")
    assert code == 0 and json.loads(out) == {"rows": [], "freed": 0, "pruned": None}


def test_age_limit_of_rows_is_an_option(neutron: Neutron, weft: Weft) -> None:
    neutron.row("a", "processing", 60)
    assert weft()[0] == 0
    assert weft("--older", "30")[0] == 1
    for wrong in ("19", "86401", "-1"):
        code, _, err = weft("--older", wrong)
        assert code == 2 and "20 to 86400 seconds" in err


@pytest.mark.parametrize(
    "text, said",
    [
        ("[DEFAULT]\n", "[database] connection"),
        ("[database]\nconnection =\n", "[database] connection"),
        ("no section\n", "Neutron's configuration, readable"),
        ("[database]\nconnection = no-url-with-secret\n", "a URL such as mysql+pymysql"),
        ("[database]\nconnection = nosuch://u:secret@h/n\n", "a URL such as mysql+pymysql"),
        ("[database]\nconnection = mysql+pymysql://u:secret@h:abc/n\n", "a URL such as mysql+pymysql"),
        ("[database]\nconnection = mysql+mysqldb://u:secret@h/n\n", "MySQLdb isn't"),
        ("[database]\nconnection = mysql+pymysql://u:secret@127.0.0.1:1/n\n", "check the URL"),
        ("[database]\nconnection = mysql+pymysql://u@127.0.0.1:1/n?password=secret\n", "check the URL"),
        ("[database]\nconnection = sqlite:////nowhere/at/all.db\n", "check the URL"),
        (
            "[database]\nconnection = mysql+pymysql://u:secret@127.0.0.1:1/n?foo=secret\n",
            "parameters: 'foo' is not",
        ),
        (
            "[database]\nconnection = mysql+pymysql://u@127.0.0.1:1/n?charset=secret\n",
            "parameters: 'charset' is not",
        ),
    ],
)
def test_unusable_configuration_is_reported_without_the_password(
    neutron: Neutron, weft: Weft, text: str, said: str
) -> None:
    neutron.config.write_text(text)
    code, out, err = weft()
    assert code != 0 and said in err and "secret" not in err + out and "Traceback" not in err


def test_missing_files_and_tables_are_reported(neutron: Neutron, weft: Weft) -> None:
    neutron.run("DROP TABLE sdn_journal")
    code, _, err = weft("--repair")
    assert code == 1 and "--subproject networking-mlnx upgrade head" in err
    with pytest.raises(PermanentError):
        SdnJournal(neutron.url).stuck(100)
    with pytest.raises(PermanentError):
        SdnJournal(neutron.url).free([StuckRow("a", "Port", "p", "POST", 200)], 100)
    neutron.config.unlink()
    code, _, err = weft()
    assert code == 2 and str(neutron.config) in err
    neutron.config.mkdir()
    assert weft()[0] == 2


def test_percent_sign_in_a_password_is_not_interpolated(neutron: Neutron) -> None:
    neutron.config.write_text("[database]\nconnection = mysql+pymysql://n:a%25b$$c@h/n?charset=utf8\n")
    assert database_url(neutron.config) == "mysql+pymysql://n:a%25b$c@h/n?charset=utf8"


def test_silent_database_is_unknown() -> None:
    with pytest.raises(UnknownError, match=r"[Cc]an.t connect"):
        SdnJournal("mysql+pymysql://u:secret@127.0.0.1:1/n").stuck(100)
    with pytest.raises(InputError):
        SdnJournal("")


def test_only_long_completed_rows_are_removed(neutron: Neutron, weft: Weft) -> None:
    """Stuck, waiting, failed and recent rows stay; a second run finds none to remove."""
    for id_, state, seconds in (
        ("done", "completed", 7000),
        ("just-done", "completed", 500),
        ("stuck", "processing", 7000),
        ("waiting", "pending", 7000),
        ("given-up", "failed", 7000),
    ):
        neutron.row(id_, state, seconds)
    code, out, _ = weft("--prune", "600")
    assert code == 1, "stuck rows are reported as before"
    assert "1 notices that were completed more than 600 s ago are removed" in out
    assert neutron.states().keys() == {"just-done", "stuck", "waiting", "given-up"}
    code, out, _ = weft("--prune", "600", "--repair", "--json")
    assert code == 0
    assert (json.loads(out)["pruned"], json.loads(out)["freed"]) == (0, 1)
    assert neutron.states()["stuck"] == "pending"


def test_retention_below_the_drivers_is_refused(neutron: Neutron, weft: Weft) -> None:
    """Nothing is removed then."""
    neutron.row("done", "completed", 7000)
    code, _, err = weft("--prune", "0")
    assert code == 2
    assert "600 to 31536000 seconds" in err
    assert neutron.states() == {"done": "completed"}
