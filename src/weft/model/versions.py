"""Versions of documents that outlive the program that wrote them: read as they were written, returned in today's shape.

A document's `version` is the version of all shapes in which it was written; without one it is version 1. There is one
number for all types, since documents contain others (a plan has an order and resources). A `Step` leads from one
version to the next: pure functions from dictionary to dictionary, for the types that changed. Reading applies all steps
since the document's version; writing always writes the newest version.

    STEPS = (Step("P_Key partitions are segments", {Resource: _to_segment}),)
    upcast(Plan, {"order": {…}, "graph": {"resources": [{…}]}}, STEPS, PARTS)

A field that is new and has a default needs no step: what is missing is read as the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from weft.model.base import Document

FIRST = 1
FIELD = "version"

Fields = dict[str, Any]
Upcaster = Callable[[Fields], Fields]
"""Turns a document of one version into the next; it may change its argument, which belongs to the caller."""
Path = tuple[str, ...]
"""Names of fields that lead to a document inside another; `*` is every item of a list."""
Parts = Mapping[type[Document], Sequence[tuple[Path, type[Document]]]]
"""Type of document -> paths of other documents inside it, with their types."""


class NewerVersionError(ValueError):
    """A newer weft wrote it: its meaning must not be guessed."""


@dataclass(frozen=True, slots=True)
class Step:
    """The step from one version to the next.

    Attributes:
        what: what has changed, in a few words.
        of: type of document -> function that turns a document of the previous version into one of this; other types
            stay unchanged.
        back: the way back, for the types that have one: while the previous version of weft works on the same database,
            documents are written for it. None: there is none, and documents are written in the new version at once.
    """

    what: str
    of: Mapping[type[Document], Upcaster]
    back: Mapping[type[Document], Upcaster] | None = None


def newest(steps: Sequence[Step]) -> int:
    """The version that the last step leads to."""
    return FIRST + len(steps)


def upcast(kind: type[Document], stored: Mapping[str, Any], steps: Sequence[Step], parts: Parts) -> Fields:
    """The fields of a document in the newest version, without the version itself; `stored` isn't changed.

    Raises `NewerVersionError` for a version that no step leads to, `ValueError` for an invalid one.
    """
    version = stored.get(FIELD, FIRST)
    if type(version) is not int or version < FIRST:
        raise ValueError(f"{version!r} is not a version of a document")
    if version > newest(steps):
        raise NewerVersionError(
            f"version {version} was written by a newer weft, this one reads up to {newest(steps)}"
        )
    document = {name: value for name, value in stored.items() if name != FIELD}
    for step in steps[version - FIRST :]:
        document = _take(step, kind, document, parts)
    return document


def downcast(
    kind: type[Document], document: Fields, steps: Sequence[Step], parts: Parts, version: int
) -> tuple[Fields, int]:
    """The fields of a document of the newest version in an earlier one, and that version: the one that was asked for,
    or the earliest one that there is a way back to.
    """
    reached = newest(steps)
    while reached > version and (back := steps[reached - FIRST - 1].back) is not None:
        document, reached = _back(back, kind, document, parts), reached - 1
    return document, reached


def _back(
    back: Mapping[type[Document], Upcaster], kind: type[Document], document: Fields, parts: Parts
) -> Fields:
    """Undo one step, in the documents inside it last: they are where this version has them."""
    change = back.get(kind)
    document = document if change is None else change(dict(document))
    for path, part in parts.get(kind, ()):
        document = _at(document, path, lambda inner, part=part: _back(back, part, inner, parts))
    return document


def _take(step: Step, kind: type[Document], document: Fields, parts: Parts) -> Fields:
    """Apply one step, to the documents inside it first."""
    for path, part in parts.get(kind, ()):
        document = _at(document, path, lambda inner, part=part: _take(step, part, inner, parts))
    change = step.of.get(kind)
    return document if change is None else change(dict(document))


def _at(value: Any, path: Path, change: Upcaster) -> Any:
    """A copy of a value with the documents at the end of a path changed; missing ones are left out."""
    if value is None:
        return None
    if not path:
        return change(value)
    if path[0] == "*":
        return [_at(item, path[1:], change) for item in cast(Sequence[Any], value)]
    fields = cast(Mapping[str, Any], value)
    if path[0] not in fields:
        return dict(fields)
    return {**fields, path[0]: _at(fields[path[0]], path[1:], change)}
