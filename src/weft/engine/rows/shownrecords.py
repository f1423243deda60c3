"""Rows as values that people see, which aren't validated again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from weft.engine.base.documents import fields, message_text
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.rows.records import PodRecord, RowState
from weft.model.pod import PodState
from weft.model.resources import Difference, Resource


@dataclass(frozen=True, slots=True)
class ShownResource:
    """One resource of a pod as people see it; its document isn't validated again.

    Attributes:
        document: the fields of a `Resource`.
        generation: the pod's that first wanted it as it is.
        wanted: whether the newest generation wants it.
    """

    key: str
    kind: str
    state: RowState
    outside_id: str | None
    reason: str
    differences: tuple[Difference, ...]
    facts: Mapping[str, Any]
    started_at: datetime | None
    finished_at: datetime | None
    document: Mapping[str, Any]
    generation: int
    wanted: bool

    @property
    def is_over(self) -> bool:
        """Whether it was seen gone, or was no longer wanted before it was requested."""
        return self.state is RowState.ABSENT or (self.state is RowState.WANTED and not self.wanted)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The kind's specification, as its row has it."""
        return self.document["spec"]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ShownResource:
        """From a row. Raises `UnreadableError`."""
        try:
            document = fields(Resource, row["document"])
            return cls(
                key=document["key"],
                kind=document["spec"]["kind"],
                state=RowState(row["state"]),
                outside_id=row["outside_id"],
                reason=message_text(row["reason"]),
                differences=tuple(Difference.model_validate(d) for d in row["differences"]),
                facts=row["facts"],
                started_at=row["started_at"],
                finished_at=row["finished_at"],
                document=document,
                generation=row["generation"],
                wanted=row["expunged"] is None,
            )
        except READING as error:
            raise unreadable(f"resource {row['key']} of {row['owner_id']}", error) from error


@dataclass(frozen=True, slots=True)
class FoundPod:
    """Which pod a name refers to, its project, and its state.

    Attributes:
        changing: a change of its order is under way.
        last_event: the highest sequence of its events; 0: there is none.
    """

    id: UUID
    project_id: str
    state: PodState
    changing: bool
    last_event: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> FoundPod:
        """From a row."""
        state = PodState(row["state"])
        return cls(row["id"], row["project_id"], state, row["changing"], row["last_event"])


@dataclass(frozen=True, slots=True)
class ShownPod:
    """Everything that people see of a pod.

    Attributes:
        pod: its row; the graph of its plan is left out.
        drains: rows of its nodes that operators empty.
        failures: rows of its nodes that fail.
        checks: rows of node, code and since of its nodes' own checks that failed.
        bandwidth: since, result and hosts of the last bandwidth test that was reported; none, or one.
    """

    pod: PodRecord
    resources: tuple[ShownResource, ...]
    has_receipt: bool
    drains: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    bandwidth: tuple[Mapping[str, Any], ...] = ()

    @property
    def project_id(self) -> str:
        """Keystone's id of the pod's project."""
        return self.pod.project_id
