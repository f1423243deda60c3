"""Keys that weft sets on things which have others besides: compared and told together, others left alone.

What a key was before weft set it is noted on the thing itself, and a note is only ever completed: a second look would
see weft's own value. Only keys that are noted are set, and given back.

Notes of versions before 2 have only keys that were there with another value, and no version beside them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

from weft.model.errors import PermanentError, TemporaryError
from weft.model.resources import Difference, Observed
from weft.model.specs import PropertiesSpec

VERSION = "2"
"""Of notes: beside each one, in a key of its own."""
Note = Mapping[str, str | None]
"""Key -> the value that it had before weft set it; None: there was none."""


def read_note(text: str) -> dict[str, str | None]:
    """A note as written by `json.dumps`. Raises `ValueError` for any other text."""
    note: object = json.loads(text)
    table = cast(dict[str, object], note) if isinstance(note, dict) else {"": note}
    found = {key: value for key, value in table.items() if value is None or isinstance(value, str)}
    if len(found) != len(table) or not isinstance(note, dict):
        raise ValueError(f"not a note of weft's: {text[:100]!r}")
    return found


def completed(note: Note, spec: PropertiesSpec) -> dict[str, str | None]:
    """A note of a version before 2, with the keys that it leaves out: weft alone has set them."""
    return {**dict.fromkeys((*spec.keys, *spec.former)), **note}


def to_note(note: Note, keys: Collection[str], there: Mapping[str, str]) -> dict[str, str | None]:
    """What must be added to a note before these keys are set."""
    return {key: there.get(key) for key in sorted(keys) if key not in note}


def check_given_back(asked: str, by: str, note: Note, there: Mapping[str, str]) -> None:
    """Raises `TemporaryError` unless everything noted is there as it was."""
    if wrong := sorted(key for key, value in note.items() if there.get(key) != value):
        seen = ", ".join(f"{k}={there.get(k) or 'none'} and had {note[k] or 'none'}" for k in wrong)
        raise TemporaryError(asked, by, f"it was given its values again, and has {seen}"[:300])


def note_lost(asked: str, by: str, note: str) -> PermanentError:
    """The error if nothing says any more what a thing had before."""
    seen = f"{note}, in which weft noted what it had before, isn't there"
    return PermanentError(asked, by, seen, "set what it should have, then remove weft's mark from it")


def note_incomplete(asked: str, by: str, note: str) -> PermanentError:
    """The error if a note of a version before 2 is all there is: no site file names the keys that it leaves out."""
    seen = f"{note} is of an older weft, and doesn't have all keys that weft has set"
    return PermanentError(asked, by, seen, "set what it should have, then remove weft's mark from it")


def with_keys(
    observed: Observed, field: str, spec: PropertiesSpec, there: Mapping[str, str], note: Note
) -> Observed:
    """With a difference for every key of weft's that isn't as wanted.

    Args:
        there: what the thing has now; `note`: what it had before weft, of keys that weft has set.
    """
    wanted = {**{k: note[k] for k in spec.former if k in note}, **spec.keys}
    wrong = sorted(k for k, value in wanted.items() if there.get(k) != value)
    if not wrong:
        return observed
    seen, should = (", ".join(f"{k}={table.get(k) or 'none'}" for k in wrong) for table in (there, wanted))
    return replace(
        observed, differences=(*observed.differences, Difference(field=field, wanted=should, observed=seen))
    )
