"""What readings and verdicts mean for an owner's rows: the changes and news that the rows lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from weft.engine.hold.status import News
from weft.engine.proof.readback import ReadBack
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.engine.visit.verifier import Verdict
from weft.model.messages import pods
from weft.model.pod import Aspect, Cause


def seen_again(read: ReadBack) -> list[Change]:
    """Changes that remove again what was seen though its row says that it is gone."""
    return [Change(key, RowState.DELETING, reason=pods.REAPPEARED()) for key in read.again]


def not_ready(verdict: Verdict, otherwise: str = "") -> News:
    """The news that an owner isn't READY, or that this is unknown, from a verdict."""
    unknown = bool(verdict.problems) and all(p.unknown for p in verdict.problems)
    cause = Cause.UNREADABLE if unknown else Cause.DIFFERENT
    return News(Aspect.READY, "unknown" if unknown else "false", cause, verdict.reason() or otherwise)


def news_of(records: Iterable[ResourceRecord], changes: Iterable[Change]) -> list[Change]:
    """The changes that differ from their rows."""
    old = {r.key: r for r in records}
    return [c for c in changes if _is_news(c, old[c.key])]


def _is_news(change: Change, old: ResourceRecord) -> bool:
    if (change.state, change.reason, change.differences) != (old.state, old.reason, old.differences):
        return True
    return bool(change.facts) and _as_stored(change.facts) != old.facts


_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Most facts: asking an abstract class about each takes a twelfth of a visit."""


def _as_stored(value: object) -> object:
    """A fact as the database returns it."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, object], value)
        return {name: _as_stored(field) for name, field in fields.items()}
    if isinstance(value, list | tuple):
        return [_as_stored(item) for item in cast(Sequence[object], value)]
    return value
