"""Build hook of the distributions whose modules lie in the tree's `src` beside those of others.

`[tool.hatch.build.targets.wheel.hooks.custom] files` lists them, relative to `src`: files, or whole packages. An
editable install takes none: it is a path to `src`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path(__file__).resolve().parents[1] / "src"


class Files(BuildHookInterface[Any]):
    """Put what `files` lists into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError for an entry that isn't in the tree."""
        if version != "standard":
            return
        for name in self.config["files"]:
            if not (SOURCE / name).exists():
                raise FileNotFoundError(SOURCE / name)
            build_data["force_include"][str(SOURCE / name)] = name
