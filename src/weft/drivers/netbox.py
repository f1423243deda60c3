"""Hardware as NetBox has it: devices, interfaces, addresses and cables, read only.

Source: NetBox's REST API from 3.3 on (devices, interfaces with `connected_endpoints`, ip-addresses), by pynetbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import pynetbox
import requests
from requests.adapters import HTTPAdapter

from weft.model.errors import InputError, PermanentError, TemporaryError
from weft.model.hardware import Cell, Record
from weft.planning.hardware.columns import PLAIN, canonical, interface_called
from weft.planning.hardware.kinds import kind_of

Json = Mapping[str, Any]

TIMEOUT = (10.0, 60.0)
"""Seconds to connect, and between two bytes."""
MOST = 500_000
"""Objects of one kind that are read; more is no site but a mistake."""
MOST_PAGES = 10_000
"""Pages of one listing, of 50 objects by default: a chain of empty ones has no end by itself."""
_DEVICES_AT_ONCE = 50
"""Ids in one query: URLs have a length."""
_ODD_SHAPE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What an answer of another shape ends in; the last: nested too deeply."""
_LOGICAL = frozenset({"virtual", "bridge", "lag"})
"""Types of interfaces that no cable is plugged into."""
_CUSTOM = PLAIN - {"name", "kind", "rack"}
"""Columns that custom fields may fill: for the others NetBox has fields of its own."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


Origin = tuple[str, str | None, int | None]
"""Scheme, host and port."""


class _Bounded(HTTPAdapter):
    """Every request has a timeout and goes to one origin.

    The client follows an answer's `next` wherever it points, with the token in its header, as often as there is one.

    Attributes:
        left: requests that the listing under way may still make.
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
    """Raises ValueError for what is no URL."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


class NetBox:
    """One NetBox.

    Args:
        url: `https://netbox.example.com`, with a path if it has one.
        token: of a user that may view devices, interfaces and addresses.
    """

    def __init__(self, url: str, token: str) -> None:
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

    def records(self, site: str | None = None) -> list[Record]:
        """Every device, of a site if one is given by its slug. Raises `OutsideError`."""
        try:
            return list(self._records({"site": site} if site else {}))
        except (pynetbox.ContentError, *_ODD_SHAPE):
            then = "check that the URL is that of NetBox 3.3 or newer"
            raise PermanentError("list hardware", self._name, "not an answer of NetBox's API", then) from None

    def _records(self, chosen: Mapping[str, str]) -> Iterator[Record]:
        dcim, ipam = self._api.dcim, self._api.ipam
        devices = self._list("devices", dcim.devices, chosen)
        if not devices:
            then = "check --netbox-site, and what the token may view"
            raise PermanentError("list devices", self._name, "it shows none", then)
        for start in range(0, len(devices), _DEVICES_AT_ONCE):
            some = devices[start : start + _DEVICES_AT_ONCE]
            ids = {"device_id": [d["id"] for d in some]}
            interfaces: dict[int, list[Json]] = {}
            for one in self._list("interfaces", dcim.interfaces, ids):
                interfaces.setdefault(one["device"]["id"], []).append(one)
            addresses: dict[int, list[Json]] = {}
            for one in self._list("addresses", ipam.ip_addresses, ids):
                if one["assigned_object_type"] == "dcim.interface":
                    addresses.setdefault(one["assigned_object_id"], []).append(one)
            for device in some:
                yield _record(device, interfaces.get(device["id"], ()), addresses)

    def _list(self, what: str, endpoint: Any, chosen: Mapping[str, Any]) -> list[dict[str, Any]]:
        """All of them as plain data; fewer than NetBox counts are none."""
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


def _record(device: Json, interfaces: Sequence[Json], addresses: Mapping[int, Sequence[Json]]) -> Record:
    place = f"NetBox device {device['id']}"
    cells = {c: Cell(text, column, place) for c, text, column in _of_device(device)}
    is_switch = kind_of(cells["kind"].text if "kind" in cells else "") == "switch"
    ports: list[str] = []
    names: dict[str, str] = {}
    for one in interfaces:
        its, where = addresses.get(one["id"], ()), f"NetBox interface {one['id']}"
        field, written = f"name of an interface of {device.get('name')}", str(one["name"])
        if is_switch and not its and not one.get("mgmt_only") and _type(one) not in _LOGICAL:
            if re.search(r"[\s\[\]]", written):
                raise InputError(field, written, "a port's name without spaces and brackets", where)
            ports.append(written)
        elif its or one.get("untagged_vlan"):
            try:
                name = interface_called(written, names)
            except ValueError as error:
                raise InputError(field, written, str(error), where) from None
            cells |= {c: Cell(text, column, where) for c, text, column in _of_interface(name, one, its)}
    if ports:
        cells["ports"] = Cell(" ".join(ports), "interfaces", place)
    return Record(place, cells)


def _of_device(device: Json) -> Iterator[tuple[str, str, str]]:
    """Column, text, and NetBox's name of the field."""
    if device.get("name"):
        yield "name", str(device["name"]), "name"
    # Its name until NetBox 3.6 was device_role.
    role = device.get("role") or device.get("device_role")
    if role:
        yield "kind", str(role["slug"]), "role"
    if device.get("rack"):
        yield "rack", str(device["rack"]["name"]), "rack"
    for name, value in (device.get("custom_fields") or {}).items():
        column = canonical(name)
        if column in _CUSTOM and isinstance(value, str | int | float) and value != "":
            if value is False:
                continue  # a box that isn't ticked says nothing; one that is says not what
            if value is True:
                where = f"NetBox device {device['id']}"
                raise InputError(f"custom_fields.{name}", value, "text or a number", where)
            yield column, str(value), f"custom_fields.{name}"


def _of_interface(name: str, one: Json, addresses: Sequence[Json]) -> Iterator[tuple[str, str, str]]:
    if one.get("mac_address"):
        yield f"{name}_mac", str(one["mac_address"]), f"{one['name']}.mac_address"
    ipv4 = [a for a in addresses if ":" not in str(a["address"])]
    if ipv4:
        # Several on one interface aren't one address: told as what is written, where the site is checked.
        text = " ".join(str(a["address"]).partition("/")[0] for a in ipv4)
        yield f"{name}_address", text, f"{one['name']}.address"
        host_name = str(ipv4[0].get("dns_name") or "").partition(".")[0]
        if host_name:
            yield f"{name}_dns_name", host_name, f"{one['name']}.dns_name"
    if one.get("untagged_vlan"):
        yield f"{name}_vlan", str(one["untagged_vlan"]["vid"]), f"{one['name']}.untagged_vlan"
    if one.get("speed"):
        yield f"{name}_rate_gbps", f"{int(one['speed']) / 1e6:g}", f"{one['name']}.speed"
    ends = one.get("connected_endpoints") or ()
    if len(ends) == 1 and one.get("connected_endpoints_type") == "dcim.interface":
        yield f"{name}_switch", str(ends[0]["device"]["name"]), f"{one['name']}.connected_endpoints"
        yield f"{name}_port", str(ends[0]["name"]), f"{one['name']}.connected_endpoints"


def _type(one: Json) -> str:
    kind = one.get("type")
    return str(kind.get("value")) if isinstance(kind, Mapping) else str(kind)
