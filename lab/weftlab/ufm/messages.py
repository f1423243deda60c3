"""A question and its answer, apart from any socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REAL_HEADERS = {"Server": "TwistedWeb/22.4.0", "Rest-Version": "1.6.0", "ClientCertAuthen": "yes"}
"""Headers of the answers of a real UFM."""


@dataclass(frozen=True, slots=True)
class Request:
    """Header names in lower case; `query` has the last value of each argument."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    certificate: str = ""
    """Common name of the client's certificate, if it showed one."""

    def json(self) -> Any:
        """The body as JSON. Raises `Refused` for anything else."""
        try:
            return json.loads(self.body or b"null")
        except ValueError as error:
            raise Refused(400, f"Bad request: {error}") from error


@dataclass(frozen=True, slots=True)
class Response:
    """`body`: a text is sent as it is, anything else as JSON."""

    status: int = 200
    body: object = field(default_factory=dict[str, object])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def raw(self) -> bytes:
        """The body as bytes; values as JSON."""
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


class Refused(Exception):  # noqa: N818 - what UFM does, not a fault of the program
    """What UFM answers instead: a status with a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Silence(Exception):  # noqa: N818
    """No answer: the connection is closed, as when the server dies or the network does."""
