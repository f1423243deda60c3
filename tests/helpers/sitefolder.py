"""A copy of the small example site, which a test may change."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.helpers.paths import SMALL
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors


class Folder:
    """`examples/sites/small` copied to `path`, with edits of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path / "small"
        shutil.copytree(SMALL, self.path)
        self.site = self.path / "site.yaml"

    def replace(self, file: str, old: str, new: str) -> None:
        """Replaces text that must occur exactly once."""
        text = (self.path / file).read_text()
        assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {file}"
        (self.path / file).write_text(text.replace(old, new))

    def append(self, file: str, line: str) -> int:
        """Adds a line; its number."""
        text = (self.path / file).read_text() + line + "\n"
        (self.path / file).write_text(text)
        return text.count("\n")

    def errors(self) -> list[str]:
        """Errors when reading it, one sentence each, without the folder's name; empty if it is valid."""
        try:
            load_site(self.site)
        except InputErrors as error:
            return [str(e).replace(f"{self.path}/", "").replace(str(self.path), ".") for e in error.errors]
        return []
