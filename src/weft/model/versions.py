"""Versions of documents that outlive the program which wrote them: read as they were written, told in today's shape.

A document says under `version` in which version of all shapes it was written; one that says nothing is of version 1.
There is one number for all, since documents stand in each other (a plan has an order and resources). A `Step` leads
from one version to the next: pure functions from dictionary to dictionary, for the types that changed. Reading takes a
document through all steps that it hasn't seen; writing always writes the newest version.

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
"""From a document of one version to one of the next; the one that is given may be changed, it is the caller's own."""
Path = tuple[str, ...]
"""Names of fields that lead to a document inside another; `*` is every item of a list."""
Parts = Mapping[type[Document], Sequence[tuple[Path, type[Document]]]]
"""Type of document -> where in it documents of which other types stand."""


class NewerVersionError(ValueError):
    """A newer weft wrote it: nobody may guess what it means."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next.

    Attributes:
        what: what has changed, in a few words.
        of: type of document -> what turns one of the version before into one of this; other types stay as they are.
    """

    what: str
    of: Mapping[type[Document], Upcaster]


def newest(steps: Sequence[Step]) -> int:
    """The version that the last step leads to."""
    return FIRST + len(steps)


def upcast(kind: type[Document], stored: Mapping[str, Any], steps: Sequence[Step], parts: Parts) -> Fields:
    """The fields of a document in the newest version, without the version itself; `stored` stays as it is.

    Raises `NewerVersionError` for a version that no step leads to, `ValueError` for one that is none.
    """
    version = stored.get(FIELD, FIRST)
    if type(version) is not int or version < FIRST:
        raise ValueError(f"{version!r} is no version of a document")
    if version > newest(steps):
        raise NewerVersionError(
            f"version {version} was written by a newer weft, this one reads up to {newest(steps)}"
        )
    document = {name: value for name, value in stored.items() if name != FIELD}
    for step in steps[version - FIRST :]:
        document = _take(step, kind, document, parts)
    return document


def _take(step: Step, kind: type[Document], document: Fields, parts: Parts) -> Fields:
    """One step, of the documents inside it first."""
    for path, part in parts.get(kind, ()):
        document = _at(document, path, lambda inner, part=part: _take(step, part, inner, parts))
    change = step.of.get(kind)
    return document if change is None else change(dict(document))


def _at(value: Any, path: Path, change: Upcaster) -> Any:
    """A copy of a value with the documents at the end of a path changed; what isn't there is left out."""
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
