"""Port: machines of accelerators that stand apart from any host; their resources go through `ResourceDriver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class MachineReader(Protocol):
    def unfit(self) -> Mapping[str, str]:
        """Machine -> why it can't be given to anybody now: it doesn't answer, or is bound to somebody."""
        ...
