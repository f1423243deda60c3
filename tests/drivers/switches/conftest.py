"""Fixtures: a small fabric of switches, started once, and one switch of each vendor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drivers.switches.onefront import One, one_of
from tests.drivers.switches.switchlab import SwitchLab
from weft.drivers.switches import turn
from weftlab.switches import leaf_spine


@pytest.fixture(scope="session")
def running_switches() -> Iterator[SwitchLab]:
    """Two leaves that are an MLAG pair and two spines; fails if Open vSwitch can't be started."""
    lab = SwitchLab(leaf_spine(mlag=True))
    try:
        yield lab
    finally:
        lab.close()


@pytest.fixture(autouse=True)
def folder_of_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test's own folder, so that equally named switches of other tests, also in other processes, don't share
    turns.
    """
    folder = tmp_path / "weft-switches"
    monkeypatch.setattr(turn, "folder_of_turns", lambda: folder)
    return folder


@pytest.fixture
def switches(running_switches: SwitchLab) -> SwitchLab:
    running_switches.clear()
    return running_switches


@pytest.fixture(params=["eos", "nvue", "sonic"])
def one(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[One]:
    with one_of(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[One]:
    with one_of(tmp_path, "eos") as made:
        yield made


@pytest.fixture
def nvue(tmp_path: Path) -> Iterator[One]:
    with one_of(tmp_path, "nvue") as made:
        yield made


@pytest.fixture
def sonic(tmp_path: Path) -> Iterator[One]:
    with one_of(tmp_path, "sonic") as made:
        yield made
