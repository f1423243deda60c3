"""Fixtures: the fake fabric, and the real one (started once, cleaned before each test)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.opensm.rigs import FakeRig, RealRig, Rig
from tests.drivers.ufm.conftest import real_ufm, running_ufm

__all__ = ["real_ufm", "running_ufm"]


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
    """The real fabric, as it was at first."""
    running.clean()
    return running


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.fabric)])
def rig(request: pytest.FixtureRequest) -> Rig:
    """The fake, then the real one: one suite for both."""
    return FakeRig() if request.param == "fake" else request.getfixturevalue("real")
