"""Whether a cloud's services can be reached, and lets weft's user read what it needs: for `weft doctor`, which only
reads."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import requests
from cryptography import x509
from keystoneauth1.exceptions import ClientException

from weft.drivers.openstack.service import CloudService, Params
from weft.drivers.openstack.session import Sessions
from weft.model.errors import UnknownError, without_password

READS: Mapping[str, tuple[tuple[str, str, str, Params], ...]] = {
    "identity": (("list the projects that it serves", "/auth/projects", "projects", {}),),
    "network": (
        ("list networks", "/networks", "networks", {"limit": 20}),
        ("list ports", "/ports", "ports", {"limit": 1}),
    ),
    "compute": (
        ("list compute services", "/os-services", "services", {"binary": "nova-compute"}),
        ("list hypervisors", "/os-hypervisors/detail", "hypervisors", {"limit": 1}),
        ("list servers of all projects", "/servers/detail", "servers", {"all_tenants": "1", "limit": 1}),
        ("list flavors", "/flavors/detail", "flavors", {"is_public": "None", "limit": 1}),
    ),
    "image": (("list images", "/images", "images", {"limit": 1}),),
    "placement": (("list resource providers", "/resource_providers", "resource_providers", {}),),
    "baremetal": (("list machines", "/nodes", "nodes", {"limit": 1}),),
    "shared-file-system": (("list shares", "/shares", "shares", {"limit": 1}),),
    "block-storage": (("list volumes", "/volumes", "volumes", {"limit": 1}),),
}
"""Service -> what weft reads there: in words, path, the collection in the answer, parameters."""
_LARGEST = 1 << 20
_VERSION = re.compile(r"/v\d+(\.\d+)?(/.*)?$")


@dataclass(frozen=True, slots=True)
class Met:
    """A service's root, as seen without a token.

    Attributes:
        version: the one that it names as current, such as `v2.1`; empty: it names none.
        newest: microversion up to which it answers, such as `2.96`; empty: it names none.
        ahead: seconds that its clock is ahead of this host's, whole ones; None: it doesn't say its time (uWSGI, for
            one, sends no `Date`).
    """

    url: str
    version: str
    newest: str
    ahead: float | None


def service_of(sessions: Sessions, name: str) -> CloudService:
    """A service as weft's user sees it in its own project."""
    own = sessions.own()
    every = (own.identity, own.network, own.compute, own.image, own.placement)
    every += (own.baremetal, own.share, own.volume)
    return {one.name: one for one in every}[name]


def meet(sessions: Sessions, name: str) -> Met:
    """Ask a service for its version document, without a token. Raises `UnknownError` if nothing answers there."""
    service = service_of(sessions, name)
    url = service.endpoint()
    asked = f"read the versions of {name}"
    if not url:
        then = "add an endpoint to the catalog: openstack endpoint create"
        raise UnknownError(asked, "Keystone's catalog", "it has no such service", then)
    parts = urlsplit(url)
    # The root, which lists versions: without the version, and without the project's id that Cinder's has behind it.
    path = _VERSION.sub("", parts.path)
    before = datetime.now(UTC)
    try:
        response = sessions.plain().get(
            parts._replace(path=f"{path.rstrip('/')}/").geturl(),
            authenticated=False,
            raise_exc=False,
            headers={"Accept": "application/json"},
        )
    except (ClientException, requests.RequestException, OSError, ValueError) as error:
        said = without_password(f"{type(error).__name__}: {error}")[:300]
        raise UnknownError(
            asked, f"{name} at {url}", said, "check the address, and its certificate"
        ) from error
    if response.status_code >= 500:
        raise UnknownError(asked, f"{name} at {url}", f"HTTP {response.status_code}", "see the service's log")
    return Met(url, *_version(response.content[:_LARGEST]), _ahead(response.headers.get("Date"), before))


def keystone_ahead(sessions: Sessions) -> float | None:
    """Seconds that Keystone's clock is ahead of this host's, by when it says that it issued a token; None: it doesn't
    say. Raises `UnknownError` if it gives no token.

    Args:
        sessions: new ones, which have no token yet.
    """
    keystone = sessions.own().identity
    before = datetime.now(UTC)
    token = keystone.token()
    after = datetime.now(UTC)
    asked = "read weft's own token"
    answer = keystone.ask(asked, "GET", "/auth/tokens", headers={"X-Subject-Token": token})
    try:
        issued = datetime.fromisoformat(str(keystone.part(asked, answer, "token").get("issued_at")))
        return _outside(issued, before, after)
    except (ValueError, TypeError):
        return None


def refused_reads(sessions: Sessions, name: str) -> tuple[list[str], list[dict[str, object]]]:
    """What the service doesn't let weft's user read, a sentence each, and the rows of its first listing.

    Raises `UnknownError` for any other answer that isn't such a listing.
    """
    service, refused = service_of(sessions, name), list[str]()
    rows: list[dict[str, object]] = []
    for number, (asked, path, collection, params) in enumerate(READS[name]):
        answer = service.ask(asked, "GET", path, params=params, ok=(401, 403))
        if answer.status in (401, 403):
            refused.append(
                f"HTTP {answer.status} to weft's user who wants to {asked}: {answer.message[:200]}"
            )
            continue
        found = service.rows(asked, answer, collection)
        if number == 0:
            rows = found
    return refused, rows


def certificate_end(url: str, seconds: float) -> datetime:
    """When the certificate of an https address ends; it isn't verified here, the requests do that.

    Raises `OSError` or `ValueError` if it can't be read.
    """
    parts = urlsplit(url)
    pem = ssl.get_server_certificate((str(parts.hostname), parts.port or 443), timeout=seconds)
    return x509.load_pem_x509_certificate(pem.encode()).not_valid_after_utc


def _version(body: bytes) -> tuple[str, str]:
    """The current version of a version document, of one version or of several, and its newest microversion."""
    try:
        document = json.loads(body)
        many = document.get("versions") or document.get("version") or []
        many = many.get("values", [many]) if isinstance(many, dict) else many
        rows = [row for row in many if isinstance(row, dict)]
        current = next((row for row in rows if row.get("status") in ("CURRENT", "stable")), rows[0])
        number, most = str(current.get("id", ""))[:20], current.get("max_version") or current.get("version")
    except (ValueError, AttributeError, IndexError, TypeError):
        return "", ""
    return number, str(most or "")[:20]


def _ahead(date: str | None, before: datetime) -> float | None:
    """Seconds that a clock is ahead by an answer's `Date`, which is cut to whole seconds; None: it can't be read."""
    try:
        said = parsedate_to_datetime(date or "")
        return _outside(said, before - timedelta(seconds=1), datetime.now(UTC))
    except (ValueError, TypeError):
        return None


def _outside(said: datetime, before: datetime, after: datetime) -> float:
    """Seconds by which a time lies after the later or before (below 0) the earlier of two."""
    if said < before:
        return (said - before).total_seconds()
    return max(0.0, (said - after).total_seconds())
