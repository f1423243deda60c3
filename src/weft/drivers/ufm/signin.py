"""Ways to authenticate: each has its own prefix of the REST API and its own headers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx

from weft.drivers.ufm.credentials import UfmCredentials

PREFIXES = {"token": "/ufmRestV3", "basic": "/ufmRest", "session": "/ufmRestV2", "certificate": "/ufmRest"}
_LOGIN_PAGE = 4096

Exchange = Callable[..., tuple[int, httpx.Headers, bytes]]
"""Method, path, body, query, headers -> status, headers, body; at one address."""


class UfmSignIn:
    """Headers for each request. A session's cookie is kept per address, since a failover ends sessions."""

    def __init__(self, authentication: str) -> None:
        self._authentication = authentication
        self._lock = threading.Lock()
        self._cookies: dict[str, str] = {}

    def headers(self, address: str, credentials: UfmCredentials, ask: Exchange) -> Mapping[str, str] | None:
        """Headers that authenticate a request to the address; signs in first if needed. None: the login is refused."""
        match self._authentication:
            case "token":
                # The raw token, not base64 of a user and a password.
                return {"Authorization": f"Basic {credentials.token}"}
            case "basic":
                return {"Authorization": credentials.basic}
            case "session":
                cookie = self._cookie(address, credentials, ask)
                return {"Cookie": cookie} if cookie else None
            case _:
                return {}

    def forget(self, address: str) -> None:
        """Drop the session at an address: the next request begins another."""
        with self._lock:
            self._cookies.pop(address, None)

    def _cookie(self, address: str, credentials: UfmCredentials, ask: Exchange) -> str:
        """The first cookie that /dologin sets; an empty one is UFM's refusal."""
        with self._lock:
            if address in self._cookies:
                return self._cookies[address]
        form = urlencode({"httpd_username": credentials.username, "httpd_password": credentials.password})
        no_query: dict[str, Any] = {}
        status, headers, _ = ask("POST", "/dologin", form.encode(), no_query, {})
        given = (headers.get_list("set-cookie") or [""])[0].partition(";")[0].strip()
        if status >= 400 or not given.partition("=")[2].strip('"'):
            return ""
        with self._lock:
            self._cookies[address] = given
        return given


def needs_signing_in(status: int, content: bytes) -> bool:
    """Whether an answer means "not signed in (any more)": a status, a redirect, or a login page with 200."""
    if status in (401, 301, 302, 303, 307):
        return True
    if status != 200 or content[:1] in (b"{", b"["):
        return False
    text = content[:_LOGIN_PAGE].lower()
    return b"error 401" in text or (b"<html" in text and b"login" in text)
