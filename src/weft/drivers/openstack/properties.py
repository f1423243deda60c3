"""Keys that weft sets on resources that have other keys, too: compared and reported together; others are left
alone. The former value of a key is recorded in a note on the resource itself, and a note is only ever
extended: a second reading would see weft's own value. Only recorded keys are set and restored.

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
"""Version of notes, stored next to each one, in a key of its own."""
Note = Mapping[str, str | None]
"""Key -> its value from before weft set it; None: there was none."""


def read_note(text: str) -> dict[str, str | None]:
    """A note as written by `json.dumps`. Raises `ValueError` for any other text."""
    note: object = json.loads(text)
    table = cast(dict[str, object], note) if isinstance(note, dict) else {"": note}
    found = {key: value for key, value in table.items() if value is None or isinstance(value, str)}
    if len(found) != len(table) or not isinstance(note, dict):
        raise ValueError(f"not a note of weft's: {text[:100]!r}")
    return found


def completed(note: Note, spec: PropertiesSpec) -> dict[str, str | None]:
    """A note of a version before 2, completed with the keys that it omits: only weft has set them."""
    return {**dict.fromkeys((*spec.keys, *spec.former)), **note}


def to_note(note: Note, keys: Collection[str], there: Mapping[str, str]) -> dict[str, str | None]:
    """What must be added to a note before these keys are set."""
    return {key: there.get(key) for key in sorted(keys) if key not in note}


def check_given_back(asked: str, by: str, note: Note, there: Mapping[str, str]) -> None:
    """Raises `TemporaryError` unless everything recorded is as it was."""
    if wrong := sorted(key for key, value in note.items() if there.get(key) != value):
        seen = ", ".join(f"{k}={there.get(k) or 'none'} and had {note[k] or 'none'}" for k in wrong)
        raise TemporaryError(asked, by, f"it was given its values again, and has {seen}"[:300])


def note_lost(asked: str, by: str, note: str) -> PermanentError:
    """The error if the former values of a resource are no longer recorded."""
    seen = f"{note}, in which weft noted what it had before, isn't there"
    return PermanentError(asked, by, seen, "set what it should have, then remove weft's mark from it")


def note_incomplete(asked: str, by: str, note: str) -> PermanentError:
    """The error if there is only a note of a version before 2, and no site file names the keys that it omits."""
    seen = f"{note} is of an older weft, and doesn't have all keys that weft has set"
    return PermanentError(asked, by, seen, "set what it should have, then remove weft's mark from it")


def with_keys(
    observed: Observed, field: str, spec: PropertiesSpec, there: Mapping[str, str], note: Note
) -> Observed:
    """The observed state, with a difference for every key of weft's that isn't as desired.

    Args:
        there: the resource's current values; `note`: former values of the keys that weft set.
    """
    wanted = {**{k: note[k] for k in spec.former if k in note}, **spec.keys}
    wrong = sorted(k for k, value in wanted.items() if there.get(k) != value)
    if not wrong:
        return observed
    seen, should = (", ".join(f"{k}={table.get(k) or 'none'}" for k in wrong) for table in (there, wanted))
    return replace(
        observed, differences=(*observed.differences, Difference(field=field, wanted=should, observed=seen))
    )
