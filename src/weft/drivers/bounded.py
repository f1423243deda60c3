"""The body of an HTTP answer, read within limits of time and size, however slowly it trickles in; and JSON in it."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import httpx


def read_body(answer: httpx.Response, most: int, deadline: float) -> bytes:
    """The body of a streamed answer. Needed because httpx's own timeouts restart with every byte that arrives.

    Raises:
        httpx.DecodingError: it is larger than `most` bytes.
        httpx.ReadTimeout: it didn't end before `deadline`, in monotonic seconds.
    """
    content = bytearray()
    for chunk in answer.iter_bytes():
        content += chunk
        if len(content) > most:
            raise httpx.DecodingError(f"the answer is larger than {most} bytes")
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer didn't end in time")
    return bytes(content)


def read_json(content: bytes) -> Any:
    """Parse JSON strictly. Raises ValueError also for a name that occurs twice in an object (parsers differ in which
    one they use), for numbers that aren't finite, and for deep nesting.
    """
    try:
        return json.loads(content, object_pairs_hook=_once, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _finite(text: str) -> float:
    """A number that is finite. Raises ValueError for others, such as `1e999` or `Infinity`."""
    if not math.isfinite(number := float(text)):
        raise ValueError(text)
    return number
