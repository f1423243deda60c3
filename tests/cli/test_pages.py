"""The generated documents are those of the code."""

from __future__ import annotations

from tests.helpers.paths import DOCS
from weft.cli.pages import files


def test_generated_documents_are_up_to_date() -> None:
    """`make docs` makes them."""
    due = [path.name for path, text in files(DOCS).items() if not path.is_file() or path.read_text() != text]
    assert due == []
