"""Sends webhooks to URLs that tenants gave, and to nothing else.

A name is resolved once, its addresses are checked, and the connection is made to one that was checked: what the name
resolves to afterwards doesn't matter. TLS is verified against the name. No proxy is used, no redirect followed, and of
the answer only status and headers are read, all within one deadline.
"""

from __future__ import annotations

import http.client
import ipaddress
import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from weft.model.messages import webhooks
from weft.model.site import WebhookPolicy
from weft.ports.receivers import UndeliveredError

log = logging.getLogger(__name__)

SECONDS = 10.0
"""Seconds for a delivery, from resolving the name to the headers of the answer."""
LOOKUPS = 64
"""Most names that a process resolves at once."""
_lookups = threading.BoundedSemaphore(LOOKUPS)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "2002::/16", "2001::/32", "::/96", "::ffff:0:0:0/96", "fec0::/10"),
    )
)
"""Networks that count as not public: protocol assignments (metadata of some clouds), relays, and forms of IPv6 that
contain an IPv4 address and lead to it."""


def may_reach(address: Address, policy: WebhookPolicy) -> bool:
    """Whether webhooks may be sent to an address: a public one, or in a network that the site allows."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return may_reach(address.ipv4_mapped, policy)
        if address in _NAT64[0]:
            return may_reach(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF), policy)
    if any(address.version == network.version and address in network for network in policy.networks):
        return True
    if any(address.version == network.version and address in network for network in (*_SPECIAL, *_NAT64)):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def why_not(url: str, policy: WebhookPolicy) -> str:
    """What is wrong with a URL, as far as the URL alone shows; empty: nothing. Its host isn't resolved."""
    try:
        parts = urlsplit(url)
        port = 443 if parts.port is None else parts.port
        host = parts.hostname or ""
    except ValueError:
        return "an https URL"
    if parts.scheme != "https" or not host or parts.username is not None or parts.fragment:
        return "an https URL with a host, without user and fragment"
    if port not in policy.ports:
        return f"a URL with a port that the site allows: {', '.join(map(str, policy.ports))}"
    with suppress(ValueError):
        if not may_reach(ipaddress.ip_address(host), policy):
            return "a URL whose host is public, or in a network that the site allows"
    return ""


class HttpsReceivers:
    """`Receivers` over HTTPS. Thread-safe.

    Args:
        context: of TLS; None: the system's authorities (`SSL_CERT_FILE` names others).
        seconds: see `SECONDS`.
    """

    def __init__(self, context: ssl.SSLContext | None = None, seconds: float = SECONDS) -> None:
        self._context, self._seconds = context, seconds

    def post(self, url: str, headers: Mapping[str, str], body: bytes, policy: WebhookPolicy) -> int:
        """See `weft.ports.receivers.Receivers`."""
        if why_not(url, policy):
            raise UndeliveredError(webhooks.RECEIVER_REFUSED())
        parts = urlsplit(url)
        deadline = time.monotonic() + self._seconds
        address = self._address(parts, policy, deadline)
        late = threading.Event()
        try:
            with (
                socket.create_connection(address, max(0.001, deadline - time.monotonic())) as plain,
                self._secured(plain, parts.hostname or "") as link,
            ):
                timer = threading.Timer(max(0.0, deadline - time.monotonic()), _cut, (link, late))
                timer.daemon = True
                timer.start()
                try:
                    link.do_handshake()
                    status = _ask(link, parts, headers, body)
                    if late.is_set():  # headers that were cut count as complete there
                        raise TimeoutError
                    return status
                finally:
                    timer.cancel()
        except ssl.SSLCertVerificationError:
            raise UndeliveredError(_unreachable("its certificate is not trusted")) from None
        except TimeoutError:
            raise UndeliveredError(webhooks.RECEIVER_LATE(limit=round(self._seconds))) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            if late.is_set():
                raise UndeliveredError(webhooks.RECEIVER_LATE(limit=round(self._seconds))) from None
            raise UndeliveredError(_unreachable(_why(error))) from None

    def _address(self, parts: SplitResult, policy: WebhookPolicy, deadline: float) -> tuple[str, int]:
        """Address and port of the URL's host that may be reached. Raises `UndeliveredError`."""
        host, port = parts.hostname or "", parts.port or 443
        try:
            texts = _resolved(host, port, deadline)
        except TimeoutError:
            raise UndeliveredError(webhooks.RECEIVER_LATE(limit=round(self._seconds))) from None
        except (OSError, UnicodeError):
            raise UndeliveredError(_unreachable("its name is not known")) from None
        for text in texts:
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                continue
            if may_reach(address, policy):
                return text, port
        log.warning("webhook to %s: none of its addresses may be reached: %s", host, ", ".join(texts)[:200])
        raise UndeliveredError(webhooks.RECEIVER_REFUSED())

    def _secured(self, plain: socket.socket, host: str) -> ssl.SSLSocket:
        context = self._context or ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)


def _resolved(host: str, port: int, deadline: float) -> list[str]:
    """Addresses of a name. Raises `TimeoutError`, `OSError`, `UnicodeError`.

    The resolver can't be interrupted: one that is late stays in a thread that nothing waits for; `LOOKUPS` at most.
    """
    answer: Future[list[str]] = Future()
    lookups = _lookups

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            answer.set_result([str(one[4][0]) for one in found])
        except BaseException as error:  # the caller's to judge
            answer.set_exception(error)
        finally:
            lookups.release()

    if not lookups.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TimeoutError
    threading.Thread(target=ask, name="resolver of webhooks", daemon=True).start()
    return answer.result(max(0.0, deadline - time.monotonic()))


def _ask(link: ssl.SSLSocket, parts: SplitResult, headers: Mapping[str, str], body: bytes) -> int:
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 443)
    connection.default_port = 443  # so that `Host` names others only
    connection.sock = link
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request("POST", target, body, dict(headers))
    return connection.getresponse().status


def _cut(link: socket.socket, late: threading.Event) -> None:
    """Shut a connection down when its time is over: a socket's own timeout restarts with every byte."""
    late.set()
    with suppress(OSError):
        socket.socket.shutdown(link, socket.SHUT_RDWR)


def _unreachable(why: str) -> str:
    return webhooks.RECEIVER_UNREACHABLE(why=why)


def _why(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ssl.SSLError):
        return "it doesn't speak valid TLS"
    if isinstance(error, http.client.HTTPException | ValueError):
        return "its answer isn't HTTP"
    return "the connection failed"
