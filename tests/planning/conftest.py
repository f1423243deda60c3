"""`UPDATE_GOLDEN=1` in the environment writes the golden texts again; look at the difference before it is committed."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def update_golden() -> bool:
    return bool(os.environ.get("UPDATE_GOLDEN"))
