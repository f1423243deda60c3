"""Rows about what keeps a node from orders: what it is held for, its drain, and projects' reports of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hold:
    """What a node is held for.

    Attributes:
        cause: why weft holds it, as a message in JSON; an empty text: a user holds it.
        tests: name -> its result, as `weft.model.nodetests.tests_of` reads them.
        tests_from: since when results count; None: since the hold began.
    """

    node: str
    what: str
    since: datetime
    held_by: str
    cause: Any
    tests: Mapping[str, Mapping[str, Any]]
    tests_from: datetime | None
    revision: int

    @property
    def is_own(self) -> bool:
        """Whether weft itself holds it: such a hold has a cause. Names and texts prove nothing: users choose them."""
        return self.cause != ""

    @property
    def counts_from(self) -> datetime:
        """Since when results count: since it began, or since a pod or a quarantine left the node."""
        return max(self.since, self.tests_from or self.since)

    @property
    def failed_tests(self) -> list[str]:
        """Names of the tests that didn't pass."""
        return sorted(name for name, one in self.tests.items() if one["status"] != "passed")


@dataclass(frozen=True, slots=True)
class Drain:
    """A drained node: it gets no new orders, and is to be emptied.

    Attributes:
        until_at: when it should be empty; None: no time was given.
        waits: whether pods stay then.
        public: what projects with pods there read.
    """

    node: str
    since: datetime
    drained_by: str
    until_at: datetime | None
    reason: str
    public: str
    waits: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Report:
    """A project's report of a node that one of its pods had: only that project does without it."""

    node: str
    project_id: str
    pod_id: UUID
    pod: str
    at: datetime
    reported_by: str
    reason: str


def of_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """A `kind`, a dataclass, from its row, to which a newer version may have added columns."""
    names: Mapping[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: row[name] for name in names})
