"""Fixtures of several drivers' tests: real fabrics, each started once in a process and reset before each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.drivers.opensm.rigs import RealRig
from tests.drivers.switches.rigs import RealSwitches
from tests.drivers.ufm.real_rigs import RealUfmRig


@pytest.fixture(scope="session")
def running() -> Iterator[RealRig]:
    """Real OpenSM over ibsim for the whole session."""
    rig = RealRig()
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def real(running: RealRig) -> RealRig:
    """Real OpenSM, reset to its first state."""
    running.clean()
    return running


@pytest.fixture(scope="session")
def running_ufm() -> Iterator[RealUfmRig]:
    """UFM's stand-in as a program over real OpenSM."""
    rig = RealUfmRig()
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def real_ufm(running_ufm: RealUfmRig) -> RealUfmRig:
    """UFM over real OpenSM, reset to its first state."""
    running_ufm.clean()
    return running_ufm


@pytest.fixture(scope="session")
def switch_rigs() -> Iterator[Callable[[str], RealSwitches]]:
    """The fabric of switches of each kind of interface, reset to its first state; fails if Open vSwitch can't be
    started.
    """
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
