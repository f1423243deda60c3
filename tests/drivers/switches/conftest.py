"""Fixtures: a small fabric of switches, started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.switches.switchlab import SwitchLab
from weftlab.switches import leaf_spine


@pytest.fixture(scope="session")
def running_switches() -> Iterator[SwitchLab]:
    """Two leaves that are an MLAG pair, two spines; fails where Open vSwitch can't be started."""
    lab = SwitchLab(leaf_spine(mlag=True))
    try:
        yield lab
    finally:
        lab.close()


@pytest.fixture
def switches(running_switches: SwitchLab) -> SwitchLab:
    running_switches.clear()
    return running_switches
