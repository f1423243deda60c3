"""`UPDATE_GOLDEN=1` in the environment writes the golden texts; review the difference before committing it."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def update_golden() -> bool:
    return bool(os.environ.get("UPDATE_GOLDEN"))
