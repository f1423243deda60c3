"""openvipu's layers, and its independence of weft."""

from __future__ import annotations

from pathlib import Path

from importlinter.cli import lint_imports

import openvipu

HERE = Path(__file__).parent
LONGEST_MODULE = 350


def test_imports_go_only_to_lower_layers() -> None:
    """The contracts of layers.ini: layers, pure rules, no import of weft."""
    assert lint_imports(config_filename=str(HERE / "layers.ini"), no_cache=True) == 0


def test_modules_stay_short() -> None:
    """Generated modules don't count."""
    for path in Path(openvipu.__file__).parent.rglob("*.py"):
        if "_pb2" not in path.name:
            assert len(path.read_text().splitlines()) <= LONGEST_MODULE, path.name
