"""Versions of weft beside each other: trees, and processes that run them on one database and one cloud."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.helpers.paths import ROOT
from weft.testing.callers import by

LONGEST = 60.0
NODES = {"count": 1, "flavor": "gpu8", "image": "tiny"}
PLANTED_BEFORE, PLANTED_AFTER = "29990101T0000_planted.sql", "29990101T0000_planted.after.sql"
DOCUMENTS = "documents-0006.after"
_STEP = """    Step("the queue gives bookings", {Site: earlier.site_of_bookings}),
"""
_COLUMNS = """-- Planted: all tables.
DO $$ DECLARE one regclass; BEGIN
    FOR one IN SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = current_schema() AND c.relkind = 'r' AND NOT c.relispartition
            AND NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)
    LOOP EXECUTE format('ALTER TABLE %s ADD COLUMN planted text', one); END LOOP;
END $$;
"""
_FIELD = """class Order(Document):
    \"\"\"A pod as a tenant orders it.\"\"\"
"""
_SITE = """class Site(SiteHead):
    \"\"\"The whole site. Equal sites give equal plans.\"\"\"
"""


class Tree:
    """A version's files. Args: root: its checkout; src: its packages."""

    def __init__(self, name: str, root: Path, src: Path) -> None:
        self.name, self.root = name, root
        paths = (src, root / "lab", root)
        self.environment = {
            **os.environ,
            "PYTHONPATH": ":".join(map(str, paths)),
            "PYTHONDONTWRITEBYTECODE": "",
        }


class Version:
    """A version that is imported once, and forks its processes."""

    def __init__(self, tree: Tree, url: str, folder: Path) -> None:
        self.name, self._folder, self._number = tree.name, folder, 0
        self._log = folder / f"{tree.name}.log"
        with self._log.open("w") as log:
            self._parent = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.upgrade.process", url, str(folder)],
                env=tree.environment,
                cwd=tree.root,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._programs: list[Program] = []

    def start(self, role: str) -> Program:
        """A server or a worker, which may not work yet."""
        self._programs.append(self._fork(role))
        return self._programs[-1]

    def activate(self, **fields: str) -> None:
        """Make the database's tables as this version does, and activate a site. Args: fields: of it."""
        said = self._fork("site", [json.dumps(fields)]).wait()
        assert not said, said

    def weft(self, *words: str) -> tuple[int, str]:
        """A command line of this version: its exit code, and what it wrote."""
        program = self._fork("weft", words)
        program.wait()
        code = program.log.with_suffix(".code")
        return int(code.read_text()) if code.exists() else -1, program.log.read_text()

    def _fork(self, role: str, words: Sequence[str] = ()) -> Program:
        self._number += 1
        file = self._folder / f"{self.name}-{role}-{self._number}.log"
        asked, answers = self._parent.stdin, self._parent.stdout
        assert asked is not None and answers is not None
        asked.write(json.dumps({"do": role, "file": str(file), "words": [*words]}) + "\n")
        asked.flush()
        pid = answers.readline()
        assert pid, f"{self.name} can't be imported: {self._log.read_text()[-2000:]}"
        return Program(self.name, role, int(pid), file)

    def close(self) -> None:
        for one in self._programs:
            one.kill()
        self._parent.kill()
        self._parent.wait()


def this_tree() -> Tree:
    return Tree("this", ROOT, ROOT / "src")


def next_tree(folder: Path) -> Tree:
    """What a later release may be: a column more in each table, a field more in orders and sites, a version of
    documents, and something that is removed at the end.
    """
    src = folder / "next"
    shutil.copytree(ROOT / "src" / "weft", src / "weft", copy_function=_copied)
    weft = src / "weft"
    migrations = weft / "engine" / "migrations"
    (migrations / PLANTED_BEFORE).write_text(_COLUMNS)
    (migrations / PLANTED_AFTER).write_text("-- Planted.\nALTER TABLE owner DROP COLUMN planted;\n")
    field = '\n    planted: str = added("", max_length=40, description="Planted.")\n'
    _change(weft / "model" / "order.py", _FIELD, _FIELD + field)
    _change(weft / "model" / "site" / "site.py", _SITE, _SITE + field)
    plain, more = "from weft.model.base import Document\n", "from weft.model.base import Document, added\n"
    _change(weft / "model" / "site" / "site.py", plain, more)
    step = '    Step("planted", {Order: _planted}, {Order: _unplanted}),\n'
    documents = weft / "engine" / "base" / "documents.py"
    _change(documents, _STEP, _STEP + step)
    steps = "".join(
        f"def {name}(order: Fields) -> Fields:\n    return dict(order)\n\n\n"
        for name in ("_planted", "_unplanted")
    )
    _change(documents, "STEPS: tuple[Step, ...] = (\n", steps + "STEPS: tuple[Step, ...] = (\n")
    return Tree("next", ROOT, src)


def _change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name} hasn't what is planted after: {old!r}"
    file.unlink()  # it may be a link to this version's
    file.write_text(text.replace(old, new))


def _copied(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


class Program:
    """A process of a version: a server, a worker, or a command."""

    def __init__(self, version: str, role: str, pid: int, log: Path) -> None:
        self.version, self.role, self._pid, self.log = version, role, pid, log
        self.address = ""

    def started(self) -> Program:
        """This program, once it works. Fails if it ends before."""
        ready = self.log.with_suffix(".ready")
        until = time.monotonic() + LONGEST
        while not ready.exists():
            assert self._lives() and time.monotonic() < until, (
                f"{self.version} {self.role}: {self.log.read_text()}"
            )
            time.sleep(0.02)
        self.address = ready.read_text()
        return self

    def wait(self) -> str:
        """Wait for its end; returns its log."""
        until = time.monotonic() + LONGEST
        while self._lives():
            assert time.monotonic() < until, f"{self.version} {self.role} doesn't end: {self.log.read_text()}"
            time.sleep(0.02)
        return self.log.read_text()

    def _lives(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number: int) -> None:
        os.kill(self._pid, number)

    def stop(self) -> None:
        """End it in order."""
        self.signal(signal.SIGTERM)
        self.wait()

    def dies(self, url: str) -> None:
        """Kill it, and let its holds expire, which is waited for otherwise."""
        self.kill()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "UPDATE owner SET held_until = now() WHERE held_until IS NOT NULL AND worker LIKE %s",
                [f"%/{self._pid}"],
            )

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self.wait()

    # -- requests -------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        return httpx.request(
            method,
            f"{self.address}{path}",
            json=body,
            headers=by("a-member"),
            timeout=LONGEST,
            trust_env=False,
        )

    def order(self, name: str, **more: object) -> None:
        """Order a pod of one node without a fabric."""
        body = {"name": name, "nodes": NODES, "fabric": "none", **more}
        answer = again(lambda: self.ask("POST", "/v1/pods", body))
        assert answer.status_code == 202, answer.text

    def is_in(self, name: str, state: str) -> dict[str, Any]:
        """The pod's view, once it is in a state."""
        until, seen = time.monotonic() + LONGEST, ""
        while time.monotonic() < until:
            answer = self.ask("GET", f"/v1/pods/{name}")
            seen = answer.text
            if answer.status_code == 200 and (view := answer.json())["state"] == state:
                return view
            time.sleep(0.1)
        raise AssertionError(f"{name} isn't {state}: {seen[:1500]}")

    def release(self, name: str) -> None:
        answer = again(lambda: self.ask("POST", f"/v1/pods/{name}/release"))
        assert answer.status_code == 202, answer.text


def again(ask: Callable[[], httpx.Response], times: int = 20) -> httpx.Response:
    """The answer of a request that is repeated while weft asks for that, as its client does."""
    answer = ask()
    for _ in range(times):
        if answer.status_code != 503 or "retry-after" not in answer.headers:
            break
        time.sleep(0.2)
        answer = ask()
    return answer
