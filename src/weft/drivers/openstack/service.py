"""One service of the cloud: requests, paging, and the interpretation of its answers and its silence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

import requests
from keystoneauth1.access import AccessInfo
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ConnectionError as NotConnected
from keystoneauth1.exceptions import HttpError
from keystoneauth1.identity.base import BaseIdentityPlugin
from openstack.config.cloud_region import CloudRegion
from openstack.exceptions import ConfigException

from weft.drivers.openstack.errors import CloudAnswer, error_of_answer, error_of_exception
from weft.drivers.openstack.filters import Filters, in_urls, texts_of
from weft.drivers.openstack.hiding import without_secrets
from weft.model.errors import OutsideError, TemporaryError, UnknownError
from weft.model.messages import outside

MOST_PAGES = 1000
"""Most pages of one listing; a service that continues beyond that is not trusted."""
NOVA_MICROVERSION = "2.74"
"""Nova's microversion of Train, the first to accept a requested `host` that the scheduler checks; also has tags and
descriptions."""
IRONIC_MICROVERSION = "1.78"
"""Ironic's microversion of Xena, the first with the history of a node."""
MANILA_MICROVERSION = "2.45"
"""Manila's microversion of Rocky, the first with metadata on access rules, and with rules by their id."""
_MICROVERSIONS = {
    "compute": NOVA_MICROVERSION,
    "baremetal": IRONIC_MICROVERSION,
    "shared-file-system": MANILA_MICROVERSION,
}
Json = dict[str, Any]
Params = Mapping[str, str | int | Sequence[str]]
ROUND = 1000
"""Number of rows at which services truncate listings: `osapi_max_limit`, `max_limit`. A whole multiple of it
without a link to more may not be complete."""
_UNPAGED = frozenset({"/os-services", "/os-aggregates", "/auth/projects"})
"""Listings that Nova and Keystone never page; Keystone sets `truncated` if it has a limit."""
_KNOWN = (HttpError, NotConnected, requests.RequestException, OSError, ConfigException)
"""Errors of a request that aren't caused by a malformed document."""
_BY_OFFSET = frozenset({"shared-file-system"})


class CloudService:
    """One service of the cloud, seen from one project. Thread-safe."""

    def __init__(
        self,
        region: CloudRegion,
        service_type: str,
        version: str | None,
        counter: CallCounter,
        doubt: Callable[[bool], None],
    ) -> None:
        self._type = service_type
        self._region = region
        self._version = version
        self._doubt = doubt
        self._client: Adapter | None = None
        self._checked: AccessInfo | None = None
        self._lock = threading.Lock()
        self._counter = counter

    @property
    def name(self) -> str:
        """The service's type, such as `compute`."""
        return self._type

    def item(
        self,
        asked: str,
        path: str,
        name: str,
        params: Params | None = None,
        microversion: str | None = None,
    ) -> Json:
        """The object `name` in the body of a GET that must succeed. Raises `UnknownError`."""
        return self.part(asked, self.ask(asked, "GET", path, params=params, microversion=microversion), name)

    def item_or_absent(
        self, asked: str, path: str, name: str, thing_id: str, shown: str = "id"
    ) -> Json | None:
        """The object `name`; None only if the service itself says that it doesn't exist. Raises `UnknownError`,
        also if the answer is about another object.

        Args:
            shown: field of the object that has `thing_id`.
        """
        answer = self.ask(asked, "GET", path, ok=(404,))
        if answer.status == 404:
            if not answer.proves_absent(thing_id):
                raise self.error(asked, answer, reading=True)
            return None
        part = self.part(asked, answer, name)
        if str(part.get(shown)) != thing_id:
            raise self._misshapen(asked, answer, f"another {name}'s {shown}, {str(part.get(shown))[:80]!r},")
        return part

    def part(self, asked: str, answer: CloudAnswer, name: str, reading: bool = True) -> Json:
        """The object `name` of an answer's body. Raises `UnknownError`; `TemporaryError` if it was no read."""
        part = answer.body.get(name)
        if not isinstance(part, dict):
            raise self._misshapen(asked, answer, f"no object {name!r}", reading)
        return cast(Json, part)

    def rows(self, asked: str, answer: CloudAnswer, collection: str) -> list[Json]:
        """The list `collection` of an answer's body. Raises `UnknownError`."""
        found = answer.body.get(collection)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in cast(list[object], found)):
            raise self._misshapen(asked, answer, f"no list {collection!r}")
        return cast(list[Json], found)

    def listing(
        self,
        asked: str,
        path: str,
        collection: str,
        params: Params | None = None,
        *,
        only: Filters | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> list[Json]:
        """All rows of a collection, or those that a filter selects, with as many requests as the length of
        URLs requires. Services and proxies drop filters that they don't know or don't allow, and answer with
        everything: rows that show another value, or none, make the answer unknown.

        Args:
            only: filter -> its value, or alternative values; with no value there are no rows.
            shown: filter -> the field of a row that shows it, if it has another name.

        Raises `UnknownError`.
        """
        pages = self._by_offset if self._type in _BY_OFFSET else self._pages
        if not only:
            return pages(asked, path, collection, params)
        fields = {name: (shown or {}).get(name, name) for name in only}
        found: list[Json] = []
        for some in in_urls(only):
            filters: dict[str, str | int | Sequence[str]] = {**(params or {}), **some}
            if isinstance(known := filters.get("fields"), Sequence):
                filters["fields"] = [*dict.fromkeys((*known, *fields.values()))]
            rows = pages(asked, path, collection, filters)
            for name, field in fields.items():
                meant = texts_of(some[name])
                other = next((row for row in rows if not texts_of(row.get(field)) & meant), None)
                if other is not None:
                    raise self._unfiltered(asked, f"{name} {min(meant)}", field, other)
            found.extend(rows)
        return found

    def _pages(self, asked: str, path: str, collection: str, params: Params | None) -> list[Json]:
        """All rows, page after page.

        A round number of rows without a link may be truncated: it is read again with a limit, for which
        services add links. Raises `UnknownError` for anything that isn't such a listing: an answer that
        doesn't say what exists proves no absence.
        """
        rows, _, whole = self._followed(asked, path, collection, params)
        if whole:
            return rows
        again, last, whole = self._followed(asked, path, collection, {**(params or {}), "limit": ROUND})
        if not whole or len(again) < len(rows):
            cut = f"a listing that was cut at {min(len(again), len(rows))}, without a link to the rest"
            raise self._misshapen(asked, last, cut)
        return again

    def _followed(
        self, asked: str, path: str, collection: str, params: Params | None
    ) -> tuple[list[Json], CloudAnswer, bool]:
        """The rows that links lead to, the last answer, and whether the listing looks complete.

        The next page is in `{collection}_links` (Nova, Neutron) or is `next` of the body (Ironic, Glance).
        """
        rows: list[Json] = []
        pages: set[str] = set()
        page = path
        while True:
            answer = self.ask(asked, "GET", page, params=params)
            pages.add(page)
            found = self.rows(asked, answer, collection)
            rows.extend(found)
            if answer.body.get("truncated"):  # Keystone
                raise self._misshapen(asked, answer, f"a listing that was cut at {len(found)}")
            links = (
                self.rows(asked, answer, f"{collection}_links")
                if f"{collection}_links" in answer.body
                else []
            )
            following = [str(link.get("href")) for link in links if link.get("rel") == "next"]
            if answer.body.get("next"):
                following.append(str(answer.body["next"]))
            if not following:
                return rows, answer, path in _UNPAGED or not found or len(found) % ROUND != 0
            # The link contains all parameters; its host may be reachable only for the service itself.
            page, params = f"{path}?{following[0].partition('?')[2]}", None
            if page in pages or len(pages) >= MOST_PAGES:
                raise self._misshapen(asked, answer, f"a listing without an end ({len(pages)} pages)")

    def _by_offset(self, asked: str, path: str, collection: str, params: Params | None) -> list[Json]:
        """Manila's pages: it truncates at `osapi_max_limit`, adds a link only if the request has a limit, and
        ignores the link's marker (manila 23, `api.common._get_collection_links`). Each page begins with the
        last row of the one before, since deletions in between move the rest.
        """
        rows: dict[str, Json] = {}
        for _ in range(MOST_PAGES):
            at = max(len(rows) - 1, 0)
            answer = self.ask(asked, "GET", path, params={**(params or {}), "limit": ROUND, "offset": at})
            page = self.rows(asked, answer, collection)
            ids = [str(row["id"]) for row in page]
            if rows and ids[:1] != [next(reversed(rows))]:
                raise self._misshapen(asked, answer, "a listing that changed while it was read")
            known = len(rows)
            rows |= dict(zip(ids, page, strict=True))
            if len(page) < ROUND and not answer.body.get(f"{collection}_links"):
                return [*rows.values()]
            if len(rows) == known:
                raise self._misshapen(asked, answer, f"a listing that was cut at {known}")
        raise UnknownError(asked, self._of(), f"a listing without an end ({MOST_PAGES} pages)")

    def ask(
        self,
        asked: str,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        json: object | None = None,
        headers: Mapping[str, str] | None = None,
        ok: Collection[int] = (),
        microversion: str | None = None,
    ) -> CloudAnswer:
        """Send one request.

        Args:
            asked: the request in words, for the error, such as `create port weft-1a2b-port-gpu01`.
            ok: statuses of 400 and above that the caller handles.
            microversion: replaces the one that all requests to the service have.
        """
        if ".." in path.partition("?")[0].split("/"):  # an id that would change the path
            raise UnknownError(asked, self._of(), "not asked: an id in its path isn't one")
        reading, version = method == "GET", microversion or _MICROVERSIONS.get(self._type)
        extra: dict[str, Any] = {"microversion": version} if version else {}
        try:
            client = self._connected()
            self._check_region(client)
            response = client.request(
                path,
                method,
                params=params,
                json=json,
                headers=dict(headers or {}),
                raise_exc=False,
                redirect=False,  # only the service's own answer counts
                **extra,
            )
        except Exception as error:  # keystoneauth raises anything for malformed documents
            self._doubt(not isinstance(error, _KNOWN))
            raise error_of_exception(asked, self._of(), error, reading) from error
        self._counter.count(method, self._type, path)
        answer = without_secrets(_answer(response), json, response.request.headers.get("X-Auth-Token"))
        if not (answer.readable if reading else answer.fine) and answer.status not in ok:
            raise self.error(asked, answer, reading)
        return answer

    def endpoint(self) -> str:
        """The service's address, as the catalog or the profile has it; empty: neither has one. Raises
        `UnknownError`."""
        return self._signed_in(lambda client: client.get_endpoint() or "")

    def signed_in_project(self) -> str:
        """Id of the token's project."""
        return self._signed_in(Adapter.get_project_id)

    def signed_in_user(self) -> str:
        """Id of the token's user: weft's own."""
        return self._signed_in(Adapter.get_user_id)

    def token(self) -> str:
        """The token itself: a secret."""
        return self._signed_in(Adapter.get_token)

    def _signed_in(self, get: Callable[[Adapter], str | None]) -> str:
        try:
            client = self._connected()
            self._check_region(client)
            return str(get(client))
        except Exception as error:
            self._doubt(False)
            raise error_of_exception("sign in", self._of(), error, True) from error

    def error(self, asked: str, answer: CloudAnswer, reading: bool = False) -> OutsideError:
        """The error of an answer whose status was passed to `ask` as `ok`."""
        if not answer.request_id or answer.status in (401, 403):
            self._doubt(False)
        return error_of_answer(asked, self._of(), answer, reading, _MICROVERSIONS.get(self._type))

    def unseen(self, asked: str, seen: str) -> UnknownError:
        """The error if the positive control isn't seen. The token may lack a role that was granted again
        meanwhile."""
        self._doubt(False)
        then = "check the roles of weft's user in this project (docs/operating-roles.md), and the catalog"
        return UnknownError(asked, self._type, seen, then)

    def _connected(self) -> Adapter:
        with self._lock:
            if self._client is None:
                region, kind = self._region, self._type
                self._client = Adapter(
                    session=region.get_session(),
                    service_type=region.get_service_type(kind),
                    service_name=region.get_service_name(kind),
                    interface=region.get_interface(kind),
                    region_name=region.get_region_name(kind),
                    endpoint_override=region.get_endpoint(kind),
                    version=self._version,
                )
            return self._client

    def _check_region(self, client: Adapter) -> None:
        """Raise `ConfigException` if the catalog has the service in several regions and the profile names none:
        the first one counts then, which another region that is added later may become, and whatever is in the
        other ones would be proved absent. Checked once per token.
        """
        auth = client.session.auth
        if client.region_name or client.endpoint_override or self._type == "identity":
            return
        if not isinstance(auth, BaseIdentityPlugin):
            return
        access = auth.get_access(client.session)
        if access is self._checked:
            return
        wanted = {"service_type": client.service_type, "service_name": client.service_name}
        found = access.service_catalog.get_endpoints_data(interface=client.interface, **wanted)
        places = {(e.region_name or "", e.catalog_url) for of_type in found.values() for e in of_type}
        regions = sorted({region for region, _ in places})
        if len(regions) > 1 and len({url for _, url in places}) > 1:
            where = f"the catalog has {self._type} in the regions {', '.join(regions)}"
            raise ConfigException(f"{where}, and the profile has no region_name")
        self._checked = access

    def _unfiltered(self, asked: str, only: str, field: str, row: Json) -> UnknownError:
        has = f"{field} {row[field]}" if field in row else f"no {field}"
        seen = f"asked for {only} alone, it shows {row.get('id')} with {has}"[:300]
        then = "check weft's policies (docs/operating-roles.md), the service's filters and any proxy in front of it"
        return UnknownError(asked, self._of(), seen, then)

    def _misshapen(self, asked: str, answer: CloudAnswer, what: str, reading: bool = True) -> OutsideError:
        if not answer.request_id:
            self._doubt(False)
        seen = f"{answer.sentence()}: {what} in it ({', '.join(map(str, answer.body)) or 'nothing'})"[:300]
        then = "its state is unknown: check the catalog's endpoint and any proxy in front of the service"
        return (UnknownError if reading else TemporaryError)(asked, self._of(), seen, then)

    def _of(self) -> str:
        """The service with its URL, or with Keystone's if the catalog isn't known yet; for errors."""
        client = self._client
        try:
            url = client.get_endpoint() if client is not None else None
        except Exception:
            url = None  # only needed for the message; the error itself was reported
        keystone = self._region.config.get("auth", {}).get("auth_url", "an unknown address")
        return outside.service(self._type, url) if url else outside.service(self._type, keystone=keystone)


class CallCounter:
    """Counts requests by method and path without ids: the cost of a phase for the cloud."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self._lock = threading.Lock()

    def count(self, method: str, service: str, path: str) -> None:
        parts = ["{id}" if len(p) >= 32 else p for p in path.split("?")[0].split("/")]
        row = f"{method} {service} {'/'.join(parts)}"
        with self._lock:
            self.calls[row] = self.calls.get(row, 0) + 1

    def take(self) -> dict[str, int]:
        """What was counted since the last call."""
        with self._lock:
            calls, self.calls = self.calls, {}
        return calls


def _answer(response: requests.Response) -> CloudAnswer:
    strange = ""
    try:
        body = response.json() if response.content else None
    except ValueError:
        body, strange = None, response.headers.get("Content-Type", "text")
    if not isinstance(body, dict):
        strange = strange or ("nothing" if body is None else type(body).__name__)
        body = {}
    return CloudAnswer(
        status=response.status_code,
        body=body,
        text=response.text if strange or response.status_code >= 400 else "",
        request_id=response.headers.get("x-openstack-request-id", ""),
        retry_after=response.headers.get("Retry-After"),
        strange=strange,
        subject=response.headers.get("X-Subject-Token", ""),
    )
