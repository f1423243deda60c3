"""Fixtures: the fake fabric and the real one."""

from __future__ import annotations

import pytest

from tests.drivers.opensm.rigs import FakeRig, Rig


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.fabric)])
def rig(request: pytest.FixtureRequest) -> Rig:
    """Each test runs on both."""
    return FakeRig() if request.param == "fake" else request.getfixturevalue("real")
