"""UFM's REST API: one request at a time to whichever address is active, authenticated, over verified TLS.

A standby doesn't listen, and a UFM that is starting answers 502: then the next address is tried. The same
holds for another web server on a node without UFM: an address is trusted once it has reported UFM's version,
and asked for it again after each answer that may not be UFM's. Where a request may have been executed
although its answer was lost, the result is unknown, and reading back decides. Only JSON counts as an answer:
UFM and proxies in front of it also answer 200 with an HTML page.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from weft.drivers.bounded import read_body, read_json
from weft.drivers.ufm.credentials import UfmCredentials, changed_at, read_credentials
from weft.drivers.ufm.signin import PREFIXES, UfmSignIn, needs_signing_in
from weft.drivers.wire.tlsfiles import RenewedTls
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.site import FabricManager
from weft.ports.fences import Fence, unfenced

log = logging.getLogger(__name__)

CONNECT_SECONDS, ANSWER_SECONDS = 3.0, 30.0
SILENT_SECONDS = 15.0
"""Seconds after a timeout during which UFM isn't asked again."""
LANDS_SECONDS = 60.0
"""Seconds for which UFM may still work on a request whose answer was lost."""
MAX_ANSWER = 256 << 20
VERSION = "/app/ufm_version"
_AWAY = frozenset({502, 503, 504})
_SHOWN = 200

Transport = Callable[[str], httpx.BaseTransport | None]
"""Address -> transport of requests; None: the network. For tests."""


@dataclass(frozen=True, slots=True)
class UfmAnswer:
    """UFM's answer; `document`: its JSON, None for an empty body."""

    status: int
    headers: httpx.Headers
    document: Any


class Rest:
    """One UFM at its addresses. Thread-safe. Opens no connection before the first request.

    Args:
        transport: for tests.
    """

    def __init__(self, fabric: str, manager: FabricManager, transport: Transport = lambda _: None) -> None:
        self._fabric, self._manager, self._transport = fabric, manager, transport
        self._prefix = PREFIXES[manager.authentication]
        self._sign_in = UfmSignIn(manager.authentication)
        self._lock = threading.Lock()
        self._clients: dict[str, httpx.Client] = {}
        self._tls = RenewedTls(manager, "name PEM files that weft can read in the site's fabric")
        self._context: ssl.SSLContext | None = None
        self._credentials: tuple[int, UfmCredentials] | None = None
        self._silent: dict[str, tuple[float, str]] = {}
        self._proved = ""
        """The address that reported UFM's version, while all its answers are UFM's."""
        self.active = manager.addresses[0] if manager.addresses else ""
        """The address that gave the last answer."""

    def close(self) -> None:
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients = {}

    def get(self, path: str, **query: str) -> Any:
        """The document; None: UFM itself answered 404. Raises `UnknownError` for everything else."""
        answer = self._ask("GET", path, None, query)
        if answer.status == 404:
            return None
        if answer.status != 200 or answer.document is None:
            raise self._unknown(f"GET {path}", f"status {answer.status} without a document")
        return answer.document

    def change(self, method: str, path: str, body: object = None, fence: Fence = unfenced) -> UfmAnswer:
        """Request a change. Accepts any 2xx, and for a DELETE also 404; none of these proves that it was made.

        Args:
            fence: called each time right before the request is sent: to find the active address, and to sign in there,
                may have taken long.

        Raises:
            What the fence raises.
            PermanentError: UFM refuses the request as such.
            UnknownError: it may have been done.
        """
        return self._ask(method, path, body, {}, fence)

    # -- inside ------------------------------------------------------------------------------------------------

    def _ask(
        self, method: str, path: str, body: object, query: Mapping[str, str], fence: Fence = unfenced
    ) -> UfmAnswer:
        asked, failed, refused, lands = f"{method} {path}", list[str](), list[UnknownError](), 0.0
        addresses = sorted(self._manager.addresses, key=lambda a: a != self.active)
        for address in addresses:
            try:
                if address != self._proved:
                    self._prove(address)
                answer = self._signed(address, method, path, body, query, fence)
                if _is_doubtful(method, answer[0], answer[2]):
                    self._prove(address)
            except _AwayError as error:
                failed.append(f"{address}: {error}")
                if error.maybe_done and method != "GET":
                    lands = LANDS_SECONDS
                    break
                continue
            except UnknownError as error:  # access denied, maybe by a node without UFM
                self._proved = ""
                refused.append(error)
                continue
            self.active = address
            return self._read(asked, *answer)
        if refused and not lands:
            raise refused[0]
        said = "; ".join(failed) or "the site names no address"
        unknown = self._unknown(asked, said, "start UFM, or the network to it")
        unknown.lands = lands
        raise unknown

    def _prove(self, address: str) -> None:
        """Check that UFM runs there. Raises `_AwayError` if something else answers, `UnknownError` for access
        denied."""
        self._proved = ""
        status, _, content = self._signed(address, "GET", VERSION, None, {})
        if status == 403:
            raise self._not_let_in(f"GET {VERSION}", f"status 403 of {address}: {self._shown(content)}")
        try:
            document = read_json(content) if status == 200 else None
        except ValueError:
            document = None
        if not isinstance(document, dict) or "ufm_release_version" not in document:
            raise _AwayError(f"no version of UFM, but status {status}: {self._shown(content)}")
        self._proved = address

    def _signed(
        self,
        address: str,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str],
        fence: Fence = unfenced,
    ) -> tuple[int, httpx.Headers, bytes]:
        """Send one request; signs in if needed, and once more if the session or token has expired."""
        asked = f"{method} {path}"
        for attempt in (1, 2):
            credentials = self._current_credentials(afresh=attempt == 2)
            signed = self._sign_in.headers(address, credentials, partial(self._answered, address))
            if signed is None:
                raise self._not_let_in("sign in", f"{address} refuses the user or the password")
            fence()
            status, headers, content = self._answered(
                address, method, f"{self._prefix}{path}", body, query, signed
            )
            if not needs_signing_in(status, content):
                return status, headers, content
            self._sign_in.forget(address)
        raise self._not_let_in(asked, f"status {status} of {address}: {self._shown(content)}")

    def _answered(self, address: str, *question: Any) -> tuple[int, httpx.Headers, bytes]:
        """An answer of UFM itself, not of a proxy in front of a stopped UFM."""
        status, headers, content = self._exchange(address, *question)
        if status in _AWAY:
            raise _AwayError(f"status {status}")
        return status, headers, content

    def _exchange(
        self,
        address: str,
        method: str,
        path: str,
        body: object,
        query: Mapping[str, str],
        headers: Mapping[str, str],
    ) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and body, within limits of time and size. Raises `_AwayError`."""
        self._check_silence(address)
        end = time.monotonic() + ANSWER_SECONDS
        form = isinstance(body, bytes)
        kind = {"Content-Type": "application/x-www-form-urlencoded" if form else "application/json"}
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        try:
            with self._client(address).stream(
                method,
                path,
                params=query,
                content=raw,
                headers={**headers, "Cache-Control": "no-cache", **({} if raw is None else kind)},
                timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            ) as answer:
                return answer.status_code, answer.headers, read_body(answer, MAX_ANSWER, end)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _AwayError(f"{type(error).__name__}: {error}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"{type(error).__name__}: {error}"
            if isinstance(error, httpx.TimeoutException):
                self._silent[address] = time.monotonic(), said
            raise _AwayError(said, maybe_done=True) from error

    def _read(self, asked: str, status: int, headers: httpx.Headers, content: bytes) -> UfmAnswer:
        shown = self._shown(content)
        if status in (200, 201, 202, 204):
            try:
                return UfmAnswer(status, headers, read_json(content) if content.strip() else None)
            except ValueError as error:
                if status == 202:  # a job by its path, as JSON or as it is
                    return UfmAnswer(status, headers, shown)
                raise self._unknown(asked, f"status {status} with a text instead of JSON: {shown}") from error
        if status == 404 and asked.startswith(("GET", "DELETE")):
            return UfmAnswer(status, headers, None)
        if status == 403:
            if asked.startswith("GET"):
                raise self._not_let_in(asked, f"status 403: {shown}")
            raise PermanentError(
                asked, self._who, f"status 403: {shown}", "give weft's user the role Fabric Admin"
            )
        if status in (400, 404, 405, 409, 413, 422) or (status == 500 and "additionalProperties" in shown):
            raise PermanentError(asked, self._who, f"status {status}: {shown}", "see UFM's own log")
        raise self._unknown(asked, f"status {status}: {shown}")

    def _client(self, address: str) -> httpx.Client:
        """The client of an address; recreated when the certificates were replaced, so that renewal needs no restart."""
        context = self._tls.newest()
        with self._lock:
            if context is not self._context:
                # The old ones aren't closed here: another thread may be in the middle of a request.
                self._clients, self._context = {}, context
            if address not in self._clients:
                self._clients[address] = httpx.Client(
                    base_url=address,
                    verify=context,
                    transport=self._transport(address),
                    trust_env=False,
                    follow_redirects=False,
                )
            return self._clients[address]

    def _current_credentials(self, afresh: bool) -> UfmCredentials:
        """The credentials, read again when their file was replaced."""
        with self._lock:
            stamp = changed_at(self._manager)
            if self._credentials is None or afresh or self._credentials[0] != stamp:
                self._credentials = stamp, read_credentials(self._manager)
            return self._credentials[1]

    def _check_silence(self, address: str) -> None:
        silent = self._silent.get(address)
        if silent is not None and time.monotonic() - silent[0] < SILENT_SECONDS:
            raise _AwayError(f"it gave no answer a moment ago ({silent[1]})")
        self._silent.pop(address, None)

    def _shown(self, content: bytes) -> str:
        text = " ".join(content[: 4 * _SHOWN].decode(errors="replace").split())
        hidden = self._credentials[1].hide(text) if self._credentials else text
        return hidden[:_SHOWN] or "nothing"

    @property
    def _who(self) -> str:
        return f"UFM of {self._fabric}"

    def _unknown(self, asked: str, said: str, then: str = "it is asked again") -> UnknownError:
        return UnknownError(asked, self._who, said, then)

    def _not_let_in(self, asked: str, said: str) -> WeftError:
        then = "correct weft's credentials for UFM; what is on the fabric is unknown until then"
        return UnknownError(asked, self._who, f"access denied: {said}", then, delay=60.0, alarming=True)


def _is_doubtful(method: str, status: int, content: bytes) -> bool:
    """Whether any web server could have answered that: not found, a page, an empty document."""
    if method == "GET" and status == 200:
        return content[:1] not in (b"{", b"[") or len(content.strip()) <= len("{}")
    return status in (403, 404) or (method == "GET" and status == 500)


class _AwayError(Exception):
    """No answer from an address; `maybe_done`: the request had been sent."""

    def __init__(self, said: str, maybe_done: bool = False) -> None:
        super().__init__(said)
        self.maybe_done = maybe_done
