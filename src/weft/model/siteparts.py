"""Parts of a site's document: a table that is long is stored and sent in parts, each named by its SHA-256.

In the document such a table is `{"parts": [digest, …]}` where a short one is a list of rows. What is cut where is
`weft.planning.site.parts`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from weft.model.base import Document

MOST_PARTS = 10_000
"""Of one document."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a part's bytes in hexadecimal digits."""


class PartsInclude(Document):
    """Rows that were sent before, in parts."""

    parts: tuple[Digest, ...] = Field(
        min_length=1,
        max_length=MOST_PARTS,
        description="SHA-256 of each part, in the order of the rows; a part is a JSON list of rows.",
    )


class PartsQuestion(Document):
    """Which of these parts have to be sent?"""

    parts: tuple[Digest, ...] = Field(max_length=MOST_PARTS, description="SHA-256 of each part.")


class MissingParts(Document):
    """The answer: what isn't there. The others are kept for a day from now, and for good once a site names them."""

    missing: tuple[Digest, ...]


class StoredPart(Document):
    """A part that was taken."""

    digest: Digest
    bytes: int
