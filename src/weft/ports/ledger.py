"""Port: what weft's own records say of a fabric's segments, for the driver that writes them outside.

What a manager is told can be lost: a file is replaced by configuration management, restored from a copy, emptied by a
careless hand. So a driver never takes it for the whole truth: before each change it asks the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import SegmentSpec


class Ledger(Protocol):
    """Segments of one fabric. Every call may raise `TemporaryError`: then nothing is changed outside."""

    def wanted(self) -> Mapping[Mark, SegmentSpec]:
        """Segments of live pods that were made, and that nobody has asked to take away."""
        ...

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        """Those of them that are on record, wanted or not -> whether it is over: seen gone after its release."""
        ...

    def waiting(self) -> Sequence[str]:
        """A sentence for each manager that keeps numbers of released pods from being given out."""
        ...

    def tell(self, owner: Owner, message: str) -> None:
        """Say among an owner's events what happened to its segment."""
        ...


class NoLedger:
    """Nothing is on record: what the managers are told is all that is known. For tools and tests of a bare fabric."""

    def wanted(self) -> Mapping[Mark, SegmentSpec]:
        return {}

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        return {}

    def waiting(self) -> Sequence[str]:
        return ()

    def tell(self, owner: Owner, message: str) -> None:
        return
