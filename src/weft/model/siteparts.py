"""Parts of a site's document: a long table is stored and sent in parts, each named by its SHA-256.

In the document such a table is `{"parts": [digest, …]}`; a short one is a list of rows. Tables are split in
`weft.planning.site.parts`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from weft.model.base import Document

MOST_PARTS = 10_000
"""Most parts of one document."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a part's bytes, in hexadecimal."""


class PartsInclude(Document):
    """Rows that were uploaded before, in parts."""

    parts: tuple[Digest, ...] = Field(
        min_length=1,
        max_length=MOST_PARTS,
        description="SHA-256 of each part, in row order; a part is a JSON list of rows.",
    )


class PartsQuestion(Document):
    """Asks which of these parts must be uploaded."""

    parts: tuple[Digest, ...] = Field(max_length=MOST_PARTS, description="SHA-256 of each part.")


class MissingParts(Document):
    """The parts that must be uploaded. The others are kept for a day, and permanently once a site uses them."""

    missing: tuple[Digest, ...]


class StoredPart(Document):
    """An accepted part."""

    digest: Digest
    bytes: int
