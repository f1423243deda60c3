"""What was last read of a fabric's managers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SeenFabric:
    """The last answer of a fabric's managers.

    Attributes:
        age: age of the answer in seconds.
    """

    fabric: str
    known: bool
    problems: int
    port_errors: int | None
    read_at: datetime
    age: float
