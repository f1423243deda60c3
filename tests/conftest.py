"""One lab for the whole test run: started at the first test that asks for it, or one that runs already.

`WEFT_TEST_LAB` names the state folder of a running lab; it is used as it is, and left up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.amounts import load_profile
from weftlab.lab import Lab
from weftlab.layout import free_ports

load_profile()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab with its default 16 nodes: `lab.site_path`, `lab.clouds_yaml`, `lab.layout`, `lab.status()`."""
    if state := os.environ.get("WEFT_TEST_LAB"):
        running = Lab(Path(state))
        assert running.running, f"WEFT_TEST_LAB={state}: no lab is there; `weft lab up --state {state}`"
        yield running
        return
    ours = Lab(tmp_path_factory.mktemp("lab"), ports=free_ports(), say=print)
    ours.up()
    try:
        yield ours
    finally:
        ours.down()
        assert ours.layout.taken_ports() == {}
