"""The machine of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.weftcheck.machines import Rig
from weftcheck.host import Output
from weftlab.smioutput import output


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    """A healthy machine."""
    made = Rig(tmp_path / "root")
    made.commands["nvidia-smi -q -x"] = Output(output(), 0)
    return made
