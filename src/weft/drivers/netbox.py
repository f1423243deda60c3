"""Reads hardware from NetBox: devices, interfaces, addresses and cables. Changes nothing.

Source: NetBox's REST API from 3.3 on (devices, interfaces with `connected_endpoints`, ip-addresses), by pynetbox.
`weft.drivers.netboxrecords` converts the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pynetbox
import requests
from requests.adapters import HTTPAdapter

from weft.drivers.netboxfields import value_of
from weft.drivers.netboxrecords import ADDRESS_STATUSES, DEVICE_STATUSES, Devices
from weft.model.errors import InputError, PermanentError, TemporaryError
from weft.model.hardware import HardwareRecord

Json = Mapping[str, Any]

TIMEOUT = (10.0, 60.0)
"""Seconds to connect, and between two bytes."""
MOST = 500_000
"""Most objects of one kind that are read; more than that indicates a mistake, not a site."""
MOST_PAGES = 10_000
"""Most pages of one listing, of 50 objects by default: a server could chain empty pages without end."""
_DEVICES_AT_ONCE = 50
"""Ids in one query, since the length of a URL is limited."""
_ODD_SHAPE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""Errors raised by answers of an unexpected shape; the last one by answers that are nested too deeply."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


Origin = tuple[str, str | None, int | None]
"""Scheme, host and port."""


class _Bounded(HTTPAdapter):
    """Every request has a timeout and goes to one origin.

    pynetbox follows an answer's `next` to any URL, any number of times, and sends the token along.

    Attributes:
        left: requests that the current listing may still make.
    """

    def __init__(self, name: str, origin: Origin) -> None:
        super().__init__()
        self._name, self._origin = name, origin
        self.left = MOST_PAGES

    def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override]
        asked = _origin(request.url)
        if asked != self._origin:
            scheme, host, port = asked
            answer = f"it names {scheme}://{host}:{port} for more, another place than --netbox: no token is sent there"
            then = "check the Host and X-Forwarded-Proto headers that the proxy in front of it sets"
            raise PermanentError("list hardware", self._name, answer, then)
        self.left -= 1
        if self.left < 0:
            answer, then = f"a page after {MOST_PAGES} others", "name one site of it"
            raise PermanentError("list hardware", self._name, answer, then)
        options["timeout"] = options.get("timeout") or TIMEOUT
        return super().send(request, **options)


def _origin(url: str) -> Origin:
    """Scheme, host and port of a URL. Raises ValueError if it isn't one."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


class NetBox:
    """One NetBox.

    Args:
        url: `https://netbox.example.com`, with a path if it has one.
        token: of a user that may view devices, interfaces and addresses.

    Attributes:
        left_out: what the last call of `records` left out and why, one sentence each.
    """

    def __init__(self, url: str, token: str) -> None:
        self.left_out: list[str] = []
        try:
            parts, origin = urlsplit(url), _origin(url)
        except ValueError:
            raise InputError("--netbox", url, "a URL such as https://netbox.example.com") from None
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise InputError("--netbox", url, "a URL that begins with https://: the token is sent there")
        if parts.username or parts.password or not parts.hostname:
            raise InputError("--netbox", parts.hostname, "a URL with a host and without credentials")
        self._name = f"NetBox at {parts.hostname}"
        session = requests.Session()
        self._bounded = _Bounded(self._name, origin)
        for scheme in ("https://", "http://"):
            session.mount(scheme, self._bounded)
        self._api = pynetbox.api(url, token=token)
        self._api.http_session = session

    def records(self, site: str | None = None, statuses: Collection[str] = ()) -> list[HardwareRecord]:
        """All existing devices, of one site if its slug is given. Raises `OutsideError`.

        Args:
            statuses: further statuses of devices and addresses to include, besides those in use.
        """
        self.left_out = []
        try:
            return list(self._records({"site": site} if site else {}, frozenset(statuses)))
        except (pynetbox.ContentError, *_ODD_SHAPE):
            then = "check that the URL is that of NetBox 3.3 or newer"
            raise PermanentError("list hardware", self._name, "not an answer of NetBox's API", then) from None

    def _records(self, chosen: Mapping[str, str], more: frozenset[str]) -> Iterator[HardwareRecord]:
        dcim, ipam = self._api.dcim, self._api.ipam
        devices = self._list("devices", dcim.devices, chosen)
        if not devices:
            then = "check --netbox-site, and what the token may view"
            raise PermanentError("list devices", self._name, "it shows none", then)
        made = Devices(DEVICE_STATUSES | more, ADDRESS_STATUSES | more, self.left_out)
        taken = made.chosen(devices)
        if not taken:
            seen = ", ".join(sorted({str(value_of(d, "status")) for d in devices}))
            answer = f"it shows none with status {' or '.join(sorted(DEVICE_STATUSES | more))}, but {seen}"
            raise PermanentError("list devices", self._name, answer, "name the status in --status")
        for start in range(0, len(taken), _DEVICES_AT_ONCE):
            some = taken[start : start + _DEVICES_AT_ONCE]
            ids = {"device_id": [d["id"] for d in some]}
            interfaces: dict[int, list[Json]] = {}
            for one in self._list("interfaces", dcim.interfaces, ids):
                interfaces.setdefault(one["device"]["id"], []).append(one)
            addresses: dict[int, list[Json]] = {}
            for one in self._list("addresses", ipam.ip_addresses, ids):
                if one["assigned_object_type"] == "dcim.interface":
                    addresses.setdefault(one["assigned_object_id"], []).append(one)
            for device in some:
                yield made.record(device, interfaces.get(device["id"], ()), addresses)

    def _list(self, what: str, endpoint: Any, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All objects as plain data; an error if there are fewer than NetBox counts."""
        found: list[dict[str, Any]] = []
        self._bounded.left = MOST_PAGES
        try:
            rows = endpoint.filter(**chosen) if chosen else endpoint.all()
            for one in rows:
                found.append(dict(one))
                if len(found) > MOST:
                    raise PermanentError(
                        f"list {what}", self._name, f"more than {MOST}", "name one site of it"
                    )
        except pynetbox.RequestError as error:
            status = error.req.status_code
            answer = f"HTTP {status}"
            if status in (401, 403):
                raise PermanentError(
                    f"list {what}", self._name, answer, "check NETBOX_TOKEN and its rights"
                ) from None
            if status == 400:
                raise PermanentError(
                    f"list {what}", self._name, answer, "check the name of the site"
                ) from None
            raise TemporaryError(f"list {what}", self._name, answer, "try again") from None
        except requests.RequestException as error:
            answer = type(error).__name__
            raise TemporaryError(f"list {what}", self._name, answer, "check that it can be reached") from None
        count = getattr(rows.request, "count", None)  # null where pages have cursors
        read = len({one["id"] for one in found})
        if count is not None and read != count:
            raise TemporaryError(f"list {what}", self._name, f"{read} of the {count} it counts", "try again")
        return found
