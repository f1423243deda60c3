"""Port: IPU-Machines, as planning and the loop see them; their resources go through `ResourceDriver`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from weft.model.resources import Resource
from weft.ports.resources import Scope


class MachineReader(Protocol):
    def unfit(self) -> Mapping[str, str]:
        """Machine -> why it can't be given to anybody now: its agent doesn't answer, or obeys somebody."""
        ...

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        """Do once what the pod is for, as its tenant: make a partition, and take it away again.

        A sentence for the pod's events. Raises `TemporaryError` or `PermanentError` if it can't be done. Where the
        tenant's own partitions leave no room, they are the proof. Safe to repeat, also after a lost answer.
        """
        ...
