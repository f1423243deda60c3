"""Access to switches: credentials from a file or the environment, and verified HTTPS.

Credentials appear in no site, database, log or error; only requests carry them.
"""

from __future__ import annotations

import email.utils
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from weft.config.secretfiles import readable_by_others
from weft.drivers.bounded import read_body, read_json
from weft.model.errors import PermanentError, UnknownError

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 30.0
MAX_ANSWER = 64 << 20
JSON = "application/json"
USER_VARIABLE, PASSWORD_VARIABLE = "WEFT_SWITCH_USER", "WEFT_SWITCH_PASSWORD"


class UnheardError(UnknownError):
    """The switch hasn't processed a request: there was no connection, or weft's credentials were refused."""


Stamps = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class SwitchCredentials:
    """Credentials for one switch; `repr` shows no password."""

    user: str
    password: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """Password of the privileged mode; only for switches that have one and aren't managed over HTTPS."""


def credentials_for(
    switch: str, path: str | None, environment: Mapping[str, str] = os.environ
) -> SwitchCredentials:
    """A switch's credentials, from the file (`{"default": {"user": …, "password": …}, "leaf01": {…}}`), without one
    from the environment.

    Raises `PermanentError` if there are none, or if others may read the file (root's group may be weft's).
    """
    asked, of = "read the credentials", f"switch {switch}"
    if path is None:
        user, password = environment.get(USER_VARIABLE), environment.get(PASSWORD_VARIABLE)
        if not user or not password:
            said = f"neither a file nor {USER_VARIABLE} and {PASSWORD_VARIABLE} are given"
            raise PermanentError(asked, of, said, "give one of them")
        return SwitchCredentials(user, password)
    try:
        Path(path).stat()
        if why := readable_by_others(Path(path)):
            raise PermanentError(asked, of, f"others than its owner may read {path}", f"it must be {why}")
        found: dict[str, dict[str, Any]] = json.loads(Path(path).read_text())
        mine = found.get(switch) or found["default"]
        texts = mine["user"], mine["password"], mine.get("secret", "")
        if not all(isinstance(text, str) for text in texts):  # such as a password of digits without quotes
            raise TypeError
        return SwitchCredentials(*texts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        said = f"{path} can't be read, or has neither {switch} nor default with user and password as strings"
        raise PermanentError(asked, of, said, "correct the file") from None  # the cause may quote the file


class Api:
    """HTTPS to one switch with basic authentication; its certificate is verified. Every call raises `UnknownError` if
    nothing answers or the answer can't be read, `UnheardError` if the request can't have been processed; the
    caller interprets other statuses.

    Args:
        credentials: called when they are first needed, and again when their file was replaced.
        ca: PEM file, which is read again if it has changed; None: the system's authorities.
        file: the credentials', if they are in one.
        timeout: seconds for a whole answer.
        media: type of requests' bodies.
    """

    def __init__(
        self,
        switch: str,
        url: str,
        credentials: Callable[[], SwitchCredentials],
        ca: str | None,
        file: str | None = None,
        timeout: float = ANSWER_SECONDS,
        media: str = JSON,
    ) -> None:
        self._switch, self.url, self._timeout = switch, url.rstrip("/"), timeout
        self._credentials, self._ca, self._file, self._media = credentials, ca, file, media
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._stamps: Stamps = ()

    def _opened(self) -> httpx.Client:
        """A client with the current password and authorities. One that is still in use is closed after its requests."""
        with self._lock:
            stamps = (_stamp(self._file), _stamp(self._ca))
            away = any(
                f is not None and s is None for f, s in zip((self._file, self._ca), stamps, strict=True)
            )
            if self._client is None or (stamps != self._stamps and not away):
                mine = self._credentials()
                self._client = httpx.Client(
                    base_url=self.url,
                    auth=(mine.user, mine.password),
                    verify=ssl.create_default_context(cafile=self._ca),
                    timeout=httpx.Timeout(self._timeout, connect=CONNECT_SECONDS),
                    trust_env=False,
                    follow_redirects=False,
                )
                self._stamps = stamps
            return self._client

    def ask(
        self, method: str, path: str, body: object = None, asked: str = "read the configuration"
    ) -> Reply:
        """Send one request. `path` must be quoted already."""
        try:
            content = None if body is None else json.dumps(body).encode()
            headers = {} if body is None else {"Content-Type": self._media}
            end = time.monotonic() + self._timeout
            with self._opened().stream(method, path, content=content, headers=headers) as answer:
                read = read_body(answer, MAX_ANSWER, end)
        except (httpx.HTTPError, OSError) as error:
            # httpx's words for a certificate or a refused connection name address and reason, and no password.
            said = f"no answer: {str(error) or type(error).__name__}"
            unheard = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            kind = UnheardError if unheard else UnknownError
            raise kind(asked, f"switch {self._switch} at {self.url}", said) from None
        if answer.status_code in (401, 403):
            said = f"access denied ({answer.status_code})"
            raise UnheardError(asked, f"switch {self._switch} at {self.url}", said, alarming=True)
        document = self._json(answer.status_code, read, asked)
        return Reply(answer.status_code, document, _date(answer.headers.get("Date", "")))

    def _json(self, status: int, body: bytes, asked: str) -> Any:
        if not body:
            return None
        try:
            return read_json(body)
        except ValueError:
            if status >= 400:
                return None
            said = "the answer isn't JSON"
            raise UnknownError(asked, f"switch {self._switch} at {self.url}", said) from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


@dataclass(frozen=True, slots=True)
class Reply:
    """A switch's reply, and when it was sent by the switch's own clock (seconds since 1970; 0: it doesn't say)."""

    status: int
    body: Any
    date: float


def _stamp(file: str | None) -> tuple[int, int, int] | None:
    """Identifies a version of a file; None: there is none, or it must not be read."""
    try:
        found = None if file is None else Path(file).stat()
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _date(text: str) -> float:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return 0.0
