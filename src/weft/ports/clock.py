"""Port: the time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A source of time. The monotonic clock of a process is only good for measuring intervals."""

    def now(self) -> datetime:
        """Now, with time zone UTC."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for this many seconds."""
