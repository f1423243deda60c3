"""Port: accelerator machines that aren't in a host; their resources go through `ResourceDriver`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from weft.ports.resources import ResourceDriver


class MachineReader(Protocol):
    """Reads the state of accelerator machines."""

    def unfit(self) -> Mapping[str, str]:
        """Machine -> why it can't be assigned now: it doesn't respond, or is bound to another controller."""
        ...


class MachineDriver(ResourceDriver, MachineReader, Protocol):
    """Reads the machines of one manager and drives their resources."""
