"""A lab with Cinder, Manila and a filer, for whole test modules; `WEFT_TEST_STORAGE_LAB` names one that is up."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.helpers.ownlab import own_lab
from weftlab.lab import Lab


@pytest.fixture(scope="session")
def storage_lab() -> Generator[Lab]:
    if state := os.environ.get("WEFT_TEST_STORAGE_LAB"):
        yield Lab(Path(state))
        return
    with own_lab(nodes=4, computes=4, ipus=0, storage=True) as ours:
        yield ours
