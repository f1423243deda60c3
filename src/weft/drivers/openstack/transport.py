"""HTTP with limits: an answer is read within limits of time and size, however slowly it trickles in; and a service that
doesn't answer is known to be silent."""

from __future__ import annotations

import time
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ReadTimeoutError

from weft.drivers.openstack.silence import SILENCES, SILENT_SECONDS, RequestInProgress, Silences
from weft.ports.patience import impatient, patience

TIMEOUT = 180.0
"""Seconds for one answer to its last byte: a bulk creation of many ports takes a loaded Neutron a minute, and so does a
listing of everything."""
READ_SECONDS = 60.0
"""Seconds for the answer to a read, unless `weft.ports.patience` says otherwise."""
WRITE_SECONDS = 60.0
"""Seconds for the answer to a change that a caller waits for."""
CONNECT_SECONDS = 10.0
"""Seconds to connect."""
LARGEST = 256 << 20
"""Most bytes of one answer; 100,000 ports are 60 MB."""
CHUNK = 1 << 16


class BoundedAdapter(HTTPAdapter):
    """Sends requests with limits of time and size. requests' own timeout restarts with every byte that arrives, and its
    reads have no size limit."""

    silences: Silences = SILENCES

    def send(self, request: requests.PreparedRequest, *given: Any, **named: Any) -> requests.Response:
        # A token is requested by POST, which changes nothing.
        read = request.method in ("GET", "HEAD") or str(request.url).endswith("/auth/tokens")
        asking = self.silences.ask(str(request.url), read, impatient())
        try:
            response = self._answered(request, asking, read, *given, **named)
        except BaseException as error:
            asking.failed(in_time=not _is_over(error))
            if isinstance(error, HTTPError):
                raise requests.ConnectionError(error, request=request) from error
            raise
        asking.answered()
        return response

    def _answered(
        self,
        request: requests.PreparedRequest,
        asking: RequestInProgress,
        read: bool,
        *given: Any,
        **named: Any,
    ) -> requests.Response:
        seconds = _seconds(read, asking.tries, named.pop("timeout", None))
        deadline = time.monotonic() + seconds
        limits = (min(CONNECT_SECONDS, seconds), seconds)
        response = super().send(request, *given, **{**named, "stream": True, "timeout": limits})
        asking.begun()
        try:
            content = _read(response, deadline, seconds)
        except BaseException:
            response.close()
            raise
        # requests has no public way to pass a body that was already read.
        response._content = content  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        response._content_consumed = True  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return response


def _seconds(read: bool, tries: bool, given: object) -> float:
    """Seconds for an answer to its last byte. Args: given: the profile's own limit, if it is shorter."""
    waited = patience()
    usual = READ_SECONDS if read else TIMEOUT
    if waited is not None:
        usual = waited if read else max(waited, WRITE_SECONDS)
    own = float(given) if isinstance(given, int | float) else TIMEOUT
    return min(usual, own, SILENT_SECONDS if tries else usual)


def _is_over(error: BaseException) -> bool:
    """Whether the time limit passed without a complete answer."""
    return isinstance(error, requests.Timeout | ReadTimeoutError)


def _read(response: requests.Response, deadline: float, seconds: float) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := response.raw.read1(CHUNK, decode_content=True):
        chunks.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise requests.ConnectionError(f"the answer is larger than {LARGEST} bytes")
        if time.monotonic() > deadline:
            raise requests.ReadTimeout(f"the answer did not end within {seconds:.0f} s")
    return b"".join(chunks)
