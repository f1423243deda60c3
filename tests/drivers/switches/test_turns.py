"""Readings and turns that several sessions share."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from weft.drivers.switches import ovs
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.ovs import Ovs, OvsDatabase
from weft.drivers.switches.sessions import SwitchSessions
from weft.drivers.switches.turn import folder_of_turns
from weft.model.ranges import Range

BRIDGES = tuple(f"leaf{n}" for n in range(1, 10))


def tables(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
    """What `ovs-vsctl` prints for bridges without ports."""
    bridges = [[name, ["set", []], ["map", []]] for name in BRIDGES]
    answers = ({"data": bridges}, {"data": []}, {"data": [[3, 3]]})
    return subprocess.CompletedProcess(argv, 0, "\n".join(map(json.dumps, answers)), "")


def test_fabric_reading_reads_each_database_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although the bridges' sessions ask at slightly different times."""
    asked: list[str] = []

    def run(argv: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        asked.append(argv[0])
        time.sleep(0.5)  # the others ask while it is read
        return tables(argv, **more)

    monkeypatch.setattr(ovs.subprocess, "run", run)
    database, limits = (
        OvsDatabase("unix:/nowhere"),
        SwitchLimits(Range(first=257, last=382), frozenset(), 4000),
    )
    sessions = SwitchSessions("eth0", [Ovs(name, database, limits) for name in BRIDGES])
    try:
        states, unread = sessions.read(time.monotonic())
        assert states.keys() == {*BRIDGES} and not unread and len(asked) == 1
        sessions.read(time.monotonic())
        assert len(asked) == 2, "a later reading of the fabric reads again"
    finally:
        sessions.close()


def test_turns_folder_follows_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units have separate /tmp folders, but may share a runtime folder."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/weft:/run/other")
    assert folder_of_turns().parent == Path("/run/weft")
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert folder_of_turns().parent == Path(tempfile.gettempdir())
