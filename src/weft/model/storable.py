"""Text as PostgreSQL, and canonical JSON in UTF-8, can hold it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def storable(value: Any) -> Any:
    """A JSON value with U+FFFD for NUL and halves of surrogate pairs, which JSON from outside may have."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {storable(key): storable(one) for key, one in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [storable(one) for one in cast(Sequence[Any], value)]
    return value
