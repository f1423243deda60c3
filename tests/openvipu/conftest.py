"""Fixtures of the openvipu tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.openvipu.vipuhouse import Controller, house


@pytest.fixture
def pod16(tmp_path: Path) -> Iterator[Controller]:
    """A controller over a POD16, whose four machines are the mesh cluster ``c``."""
    with house(tmp_path) as controller:
        yield controller
