"""One request to the API and its answer; each failure becomes a `WeftError` that says what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session

from weft.model.errors import (
    InputError,
    NotFoundError,
    PermanentError,
    TemporaryError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.errortable import from_problem
from weft.model.messages.outside import NO_ANSWER

Json = dict[str, Any]
_AGAIN = "try again; `weft pod list` shows the outcome"


class Fetched(NamedTuple):
    """A file from the API.

    Attributes:
        mark: value of the header by which weft marks it.
    """

    text: str
    mark: str


class Transport:
    """Sends requests over a session that is signed in, or able to sign in.

    Args:
        url: address of the API, with or without `/v1`.
        timeout: seconds that a single answer may take, waiting on purpose not counted.
    """

    def __init__(self, session: Session, url: str, timeout: float) -> None:
        if not _is_address(url):
            raise InputError("--endpoint", url, "an address such as https://weft.example:8787")
        self._session = session
        self.url = url.rstrip("/").removesuffix("/v1")
        self._timeout = timeout

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        extra_time: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """The answer's document.

        Args:
            path: from `/v1`, quoted.
            extra_time: seconds that this answer may take beyond `timeout`.

        Raises the `WeftError` that the server raised, or one for a lost or strange answer.
        """
        asked, weft = f"{method} {path.partition('?')[0]}", f"weft at {self.url}"
        response = self._send(method, path, body, extra_time, headers or {})
        answer = _read(response, asked, weft)
        if response.status_code < 300 and answer is not None:
            return answer
        raise _refused(response.status_code, answer, asked, weft)

    def fetch(self, path: str, mark: str) -> Fetched:
        """A file as it is sent.

        Args:
            mark: a header that weft sends with every such file; an answer without it isn't weft's.
        """
        asked, weft = f"GET {path.partition('?')[0]}", f"weft at {self.url}"
        response = self._send("GET", path, None, 0.0, {"Accept": "*/*"})
        if response.status_code == 200 and mark in response.headers:
            return Fetched(response.content.decode("utf-8", "replace"), response.headers[mark])
        raise _refused(response.status_code, _read(response, asked, weft), asked, weft)

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None,
        extra_time: float,
        headers: Mapping[str, str],
    ) -> Any:
        """The answer, whatever its status. Raises `WeftError` if there is none."""
        asked, weft = f"{method} {path.partition('?')[0]}", f"weft at {self.url}"
        headers = {"Accept": "application/json, application/problem+json", **headers}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            return self._session.request(
                self.url + path,
                method,
                headers=headers,
                data=data,
                raise_exc=False,
                connect_retries=0,
                timeout=self._timeout + extra_time,
                redirect=False,
            )
        except ksa.ClientException as error:
            raise outside(error, asked, weft) from None


class _Answer(Json):
    """A JSON object of an answer; a missing member shows that the answer isn't from weft's API."""

    def __init__(self, fields: Json, error: WeftError) -> None:
        super().__init__(fields)
        self._error = error

    def __missing__(self, _: str) -> Any:
        raise self._error


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an IPv6 address, or no number as port
        return False


def _read(response: Any, asked: str, weft: str) -> Json | None:
    strange = _strange(response.status_code, asked, weft)
    try:
        answer = response.json(object_hook=lambda fields: _Answer(fields, strange))
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _strange(status: int, asked: str, weft: str) -> PermanentError:
    what = f"HTTP {status}, not an answer of weft's API"
    return PermanentError(asked, weft, what, "check --endpoint or the catalog's entry")


def _refused(status: int, answer: Json | None, asked: str, weft: str) -> WeftError:
    if answer is not None and "title" in answer and status >= 400:
        return from_problem(status, answer)
    if status in (502, 503, 504):
        return TemporaryError(asked, weft, f"HTTP {status} from something in front of it", _AGAIN)
    if status in (401, 403):
        return UnauthenticatedError(f"{asked} ({weft}): HTTP {status}; sign in again")
    return _strange(status, asked, weft)


_UNKNOWN = re.compile(r"token|application credential", re.IGNORECASE)
"""Credentials for which Keystone answers 404 if it doesn't know them ("Could not find token", "Failed to validate
token", "Could not find Application Credential")."""


def outside(error: ksa.ClientException, asked: str, whom: str) -> WeftError:
    """An error of keystoneauth as a `WeftError`: one sentence with what to do."""
    if isinstance(error, ksa.Unauthorized):
        return UnauthenticatedError(
            f"Keystone refused to sign in ({error.message}): check user, password and project, or get a new token"
        )
    if isinstance(error, ksa.SSLError) and "wrong version number" in str(error).lower().replace("_", " "):
        return PermanentError(
            asked, whom, "it doesn't speak TLS there", "http:// in its address, or its port for https"
        )
    if isinstance(error, ksa.SSLError):
        return PermanentError(
            asked,
            whom,
            f"its certificate is not trusted ({short(error)})",
            "give the authority that signed it as `cacert` in clouds.yaml or OS_CACERT",
        )
    if isinstance(error, ksa.ConnectTimeout):
        return TemporaryError(asked, whom, NO_ANSWER(), _AGAIN)
    if isinstance(error, ksa.ConnectionError | ksa.RetriableConnectionFailure):
        refused = "refused" in str(error)
        cause = "connection refused: nothing listens there" if refused else short(error)
        return TemporaryError(
            asked, whom, cause, "check the address and that the service runs, then try again"
        )
    if isinstance(error, ksa.CatalogException):
        return PermanentError(
            asked, whom, short(error), "sign in to a project, or give --endpoint or WEFT_ENDPOINT"
        )
    if isinstance(error, ksa.NotFound) and (what := _UNKNOWN.search(str(error))):
        return UnauthenticatedError(
            f"Keystone doesn't know the {what[0].lower()}, or not any more: get a new one"
        )
    if isinstance(error, ksa.NotFound):
        return NotFoundError(f"{asked} ({whom}): {short(error)}; check auth_url")
    if isinstance(error, ksa.AuthPluginException):
        return InputError("sign-in", "clouds.yaml or OS_*", f"complete sign-in data ({short(error)})")
    return PermanentError(asked, whom, short(error), "check auth_url and the sign-in data")


def short(error: Exception) -> str:
    """An error's text in one line of at most 300 characters."""
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:300] + "…"
