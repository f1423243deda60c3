"""The body of an HTTP answer, read within limits of time and size, however slowly it trickles in."""

from __future__ import annotations

import time

import httpx


def read_body(answer: httpx.Response, most: int, deadline: float) -> bytes:
    """What a streamed answer holds; httpx's own timeouts restart with every byte that arrives.

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
