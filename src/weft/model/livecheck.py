"""What `weft site check --live` finds where a fabric is managed."""

from __future__ import annotations

from weft.model.base import Document
from weft.model.observedfabric import FabricDifference


class Weakness(Document):
    """A setting of a fabric's manager that is insufficient for isolation."""

    fabric: str
    manager: str
    setting: str
    found: str
    wanted: str
    allows: str


class LiveCheck(Document):
    """Managers' settings and state, as they were just read."""

    managers: int = 0
    """How many were queried."""
    weaknesses: tuple[Weakness, ...] = ()
    problems: tuple[str, ...] = ()
    """What is wrong, and what could not be read; one sentence each."""
    notes: tuple[str, ...] = ()
    """What can't be known, and is no problem."""
    differences: tuple[FabricDifference, ...] = ()
    """Cables, as switches hear them by LLDP."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong and nothing differs."""
        return not self.weaknesses and not self.problems and not self.differences

    def of(self, fabric: str) -> LiveCheck:
        """This result with the fabric's name before each sentence."""
        return self.model_copy(
            update={
                "problems": tuple(f"{fabric}: {p}" for p in self.problems),
                "notes": tuple(f"{fabric}: {n}" for n in self.notes),
            }
        )

    def __add__(self, other: LiveCheck) -> LiveCheck:
        return LiveCheck(
            managers=self.managers + other.managers,
            weaknesses=self.weaknesses + other.weaknesses,
            problems=self.problems + other.problems,
            notes=self.notes + other.notes,
            differences=self.differences + other.differences,
        )
