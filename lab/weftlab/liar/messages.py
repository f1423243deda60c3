"""What is asked and what is answered, as values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

Headers = tuple[tuple[str, str], ...]

JSON: Headers = (("Content-Type", "application/json"),)
HTML: Headers = (("Content-Type", "text/html"),)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `path` has the query in it."""

    service: str
    method: str
    path: str
    headers: Headers = ()
    body: bytes = b""

    @property
    def reading(self) -> bool:
        """Whether it changes nothing: GET or HEAD."""
        return self.method in ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, and how it is delivered.

    Attributes:
        length: `Content-Length` of the header; None: the body's own.
        cut: bytes of the body after which the connection is closed; None: all are sent.
        wait: seconds before anything is sent.
        pace: seconds between two bytes of the body.
        reset: nothing is sent; the connection is reset.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    length: int | None = None
    cut: int | None = None
    wait: float = 0.0
    pace: float = 0.0
    reset: bool = False

    @property
    def document(self) -> Any:
        """The body as JSON; None if it isn't."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Source(Protocol):
    """The source of the truth for a lie."""

    def truth(self) -> Answer:
        """Forward the request, and give the service's own answer; each call is one more delivery."""
        ...

    def before(self) -> Answer | None:
        """What the service answered to the same request the last time that it was forwarded."""
        ...


def document(status: int, value: object, headers: Headers = JSON) -> Answer:
    """An answer with a value as JSON."""
    return Answer(status, headers, json.dumps(value).encode())


def page(status: int, title: str, headers: Headers = HTML) -> Answer:
    """A web page as proxies and sign-in portals send it."""
    text = f"<html><head><title>{title}</title></head><body><center><h1>{title}</h1></center><hr></body></html>\r\n"
    return Answer(status, headers, text.encode())
