"""Answers over HTTP are read within limits of time and size."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest

from weft.drivers.bounded import read_body

CHUNK = b"x" * 1000


class Endless(httpx.SyncByteStream):
    """A body without an end; `sent` counts the chunks that were read."""

    sent = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            self.sent += 1
            yield CHUNK


def test_endless_body_is_read_up_to_the_limit() -> None:
    body = Endless()
    with pytest.raises(httpx.DecodingError, match="larger than 2500 bytes"):
        read_body(httpx.Response(200, stream=body), 2500, time.monotonic() + 600)
    assert body.sent == 3


def test_body_is_not_waited_for_past_the_deadline() -> None:
    with pytest.raises(httpx.ReadTimeout, match="in time"):
        read_body(httpx.Response(200, stream=Endless()), 1 << 40, time.monotonic() - 1)


def test_body_within_the_limits_is_returned_whole() -> None:
    assert (
        read_body(httpx.Response(200, stream=httpx.ByteStream(b"abc")), 3, time.monotonic() + 600) == b"abc"
    )
