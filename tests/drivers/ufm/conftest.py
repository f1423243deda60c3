"""Fixtures: the stand-in as a program over real OpenSM (started once, cleaned before each test)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.ufm.real_rigs import RealUfmRig


@pytest.fixture(scope="session")
def running_ufm() -> Iterator[RealUfmRig]:
    rig = RealUfmRig()
    try:
        yield rig
    finally:
        rig.close()


@pytest.fixture
def real_ufm(running_ufm: RealUfmRig) -> RealUfmRig:
    """As it was at first."""
    running_ufm.clean()
    return running_ufm
