"""A copy of the small example site that a test may spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.helpers.paths import SMALL
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors


class Folder:
    """`examples/sites/small` copied to `path`, with edits by line."""

    def __init__(self, path: Path) -> None:
        self.path = path / "small"
        shutil.copytree(SMALL, self.path)
        self.site = self.path / "site.yaml"

    def replace(self, file: str, old: str, new: str) -> None:
        """Replace text that must be there exactly once."""
        text = (self.path / file).read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
        (self.path / file).write_text(text.replace(old, new))

    def append(self, file: str, line: str) -> int:
        """Add a line; gives its number."""
        text = (self.path / file).read_text() + line + "\n"
        (self.path / file).write_text(text)
        return text.count("\n")

    def errors(self) -> list[str]:
        """What reading it says, one sentence each, without the folder's own name; empty if it is good."""
        try:
            load_site(self.site)
        except InputErrors as error:
            return [str(e).replace(f"{self.path}/", "").replace(str(self.path), ".") for e in error.errors]
        return []
