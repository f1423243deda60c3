"""Fixtures of several drivers' tests: fabrics of real switches, started once for each kind of interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.drivers.switches.rigs import RealSwitches


@pytest.fixture(scope="session")
def switch_rigs() -> Iterator[Callable[[str], RealSwitches]]:
    """Kind -> its fabric, as it was at first; fails where Open vSwitch can't be started."""
    started: dict[str, RealSwitches] = {}

    def rig(kind: str) -> RealSwitches:
        if kind in started:
            started[kind].reset()
        else:
            started[kind] = RealSwitches(kind)
        return started[kind]

    yield rig
    for one in started.values():
        one.close()
