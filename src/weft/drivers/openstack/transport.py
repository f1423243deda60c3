"""HTTP with limits: an answer is read within limits of time and size, however slowly it trickles in."""

from __future__ import annotations

import time
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

TIMEOUT = 180.0
"""Seconds for one answer to its last byte: a bulk creation of many ports takes a loaded Neutron a minute."""
LARGEST = 256 << 20
"""Maximum bytes of one answer; 100,000 ports are 60 MB."""
CHUNK = 1 << 16


class BoundedAdapter(HTTPAdapter):
    """requests' own timeout restarts with every byte that arrives, and its reads have no size limit."""

    def send(self, request: requests.PreparedRequest, *given: Any, **named: Any) -> requests.Response:
        deadline = time.monotonic() + TIMEOUT
        response = super().send(request, *given, **{**named, "stream": True})
        try:
            content = _read(response, deadline)
        except BaseException as error:
            response.close()
            if isinstance(error, HTTPError):
                raise requests.ConnectionError(error, request=request) from error
            raise
        # requests has no public way to pass a body that was already read.
        response._content = content  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        response._content_consumed = True  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return response


def _read(response: requests.Response, deadline: float) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := response.raw.read1(CHUNK, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise requests.ConnectionError(f"the answer is larger than {LARGEST} bytes")
        if time.monotonic() > deadline:
            raise requests.ReadTimeout(f"the answer did not end within {TIMEOUT:.0f} s")
    return b"".join(chunks)
