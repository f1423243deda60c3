"""What an agent needs of its machine. A real IPU-Gateway is one implementation, the simulation another."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Protocol, cast, runtime_checkable

from openvipu.model.hardware import MachineStatus, Setting
from openvipu.model.site import Machine


class HardwareError(Exception):
    """The hardware can't do it; the text says what, for the controller's list of errors."""


@runtime_checkable
class Hardware(Protocol):
    """One machine. Every method may be called from any thread and may be repeated."""

    def describe(self) -> Machine:
        """Identity, IPUs, ports and what is plugged into them."""
        ...

    def configure(self, setting: Setting) -> None:
        """Configure IPUs as ``setting`` says, and block all their other links.

        HardwareError if an IPU belongs to another partition, or this one has a newer setting.
        """
        ...

    def reset(self, setting: Setting) -> None:
        """Bring the IPUs of the setting back to their first state, then configure. May take seconds."""
        ...

    def train(self, partition_id: str, generation: int) -> tuple[str, ...]:
        """Train the open links of the partition; one sentence for each that doesn't come up."""
        ...

    def clear(self, partition_id: str, generation: int) -> None:
        """Forget the partition if it isn't newer than ``generation``, and block its links."""
        ...

    def status(self) -> MachineStatus:
        """Health of the IPUs and of every setting."""
        ...

    def run_test(self, test: str, ports: tuple[str, ...]) -> tuple[str, ...]:
        """Test ``link-training`` or ``traffic`` on idle ports; one sentence for each that fails."""
        ...

    def sensors(self) -> Mapping[str, Mapping[str, float]]:
        """Readings for the exporter: name (with unit) to values by unit ("board", "ipu0" …)."""
        ...


def load(entry: str) -> Hardware:
    """The hardware that ``module:function`` makes, for machines that this package doesn't know.

    The function takes nothing and returns a :class:`Hardware`. HardwareError says what is wrong with
    ``entry``.
    """
    module, _, name = entry.partition(":")
    try:
        factory = cast("Callable[[], object]", getattr(importlib.import_module(module), name))
        made = factory()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise HardwareError(f"hardware {entry!r} can't be loaded: {error}") from None
    if not isinstance(made, Hardware):
        raise HardwareError(f"hardware {entry!r} made a {type(made).__name__}, which isn't an IPU-Machine")
    return made
