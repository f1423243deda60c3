"""A lab with Cinder, Manila and a filer, for whole test modules; `WEFT_TEST_STORAGE_LAB` names one that is up."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from weftlab.lab import Lab
from weftlab.layout import free_ports


@pytest.fixture(scope="session")
def storage_lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    if state := os.environ.get("WEFT_TEST_STORAGE_LAB"):
        yield Lab(Path(state))
        return
    state = tmp_path_factory.mktemp("storage-lab")
    ours = Lab(state, ports=free_ports(), nodes=4, computes=4, ipus=0, storage=True, say=print)
    ours.up()
    try:
        yield ours
    finally:
        ours.down()
