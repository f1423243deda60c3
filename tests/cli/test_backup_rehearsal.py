"""The commands of docs/operating.md for backup and restore, run one after the other on a service with pods."""

from __future__ import annotations

import shlex
from collections.abc import Generator

import psycopg
import pytest
from fastapi import FastAPI

from tests.docs.blocks import blocks
from tests.engine.backup.test_backups import start_weft, stop_weft
from tests.engine.house import House
from tests.helpers.desk import Desk, Run
from tests.helpers.doors import DoorsHouse
from tests.helpers.paths import DOCS
from tests.helpers.turns import new_database
from weft.engine.base.database import Database
from weft.model.pod import PodState
from weft.testing.keystone import FakeKeystone

FOLDER, FILE = "/var/backups/weft", "weft-lab-20261129T083000Z.backup"


@pytest.fixture
def doors(postgres: str) -> Generator[DoorsHouse]:
    """A service on a database that may be dropped."""
    with new_database(postgres) as url:
        house = DoorsHouse(Database(url), url)
        yield house
        house.close()
        house.database.close()


def lines() -> list[list[str]]:
    """The commands of the section, split into words."""
    page = (DOCS / "operating.md").read_text()
    before, _, rest = page.partition("\n## Backup\n")
    first = before.count("\n") + 2
    last = first + rest.partition("\n## ")[0].count("\n")
    found = [b for b in blocks() if b.place.startswith("docs/operating.md:") and b.language == "sh"]
    section = [b for b in found if first <= int(b.place.rpartition(":")[2]) <= last]
    assert len(section) == 2
    return [shlex.split(line, comments=True) for block in section for line in block.text.splitlines() if line]


def test_documented_commands_back_up_and_restore(
    desk: Desk, servers: tuple[FastAPI, str, FakeKeystone], postgres: str
) -> None:
    """Run as written, but for the directory and the file's name; the database is lost after one more pod was
    ordered."""
    house, made = desk.house, desk.folder / "backups"
    made.mkdir()
    desk.environment.setenv("WEFT_DATABASE", house.database.url)
    desk.weft("pod", "create", "-f", desk.pod_file("kept"))
    house.finish("kept")
    ran: list[tuple[str, Run]] = []
    for words in lines():
        text = shlex.join(words)
        if text.startswith("systemctl stop"):
            desk.weft("pod", "create", "-f", desk.pod_file("later"))
            house.finish("later")
            stop_weft(house)
            lose_database(house, postgres)
        elif text.startswith("systemctl start"):
            start_weft(house)
            house.stand_behind(servers[0], desk.keystone.identity)
        else:
            there = next(iter(made.iterdir()), made)
            given = [str(there) if FILE in w else w.replace(FOLDER, str(made)) for w in words[1:]]
            ran.append((text, desk.weft(*given, cloud="operator")))
            if text == "weft audit":
                refused = desk.weft("pod", "create", "-f", desk.pod_file("next"))
                assert refused.code == 2 and "not possible in the current state" in refused.err
    assert [text for text, run in ran if run.code and "audit" not in text] == []
    assert [run.code for text, run in ran if text == "weft audit"] == [1], "the pod that the backup lacks"
    (restored,) = (run for text, run in ran if text.startswith("weft restore"))
    assert "site lab, 1 pods" in restored.out and "weft audit --accept" in restored.err
    assert desk.weft("pod", "create", "-f", desk.pod_file("next")).code == 0
    assert desk.weft("pod", "show", "later").code == 2 and house.finish("next").state is PodState.READY


def lose_database(house: House, postgres: str) -> None:
    """Drops the database and creates an empty one."""
    name = house.database.url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
