"""The operator's settings of nodes' own checks (weft-check)."""

from __future__ import annotations

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Duration


class ChecksPolicy(Document):
    """What follows from results of nodes' own checks."""

    age: Duration = Field(
        default="26h",
        description="How long a result counts. An older one is `old`: unknown, whatever it says.",
    )
