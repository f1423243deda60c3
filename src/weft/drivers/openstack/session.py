"""Sessions of weft's service user: one token a project, one pool of connections, one way to ask.

The service user signs in with a profile of clouds.yaml. For each tenant's project it asks Keystone for a token of
that project (its roles are inherited from the domain), so what it makes belongs to the tenant and counts for the
tenant's quota. keystoneauth renews tokens before they expire, and its plugins hold a lock while they do.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion
from requests.adapters import HTTPAdapter

from weft.drivers.openstack.errors import OUTSIDE, Answer, error_of_answer, error_of_exception
from weft.model.errors import InputError, OutsideError

NOVA_MICROVERSION = "2.74"
"""Train: the first that takes a requested `host` which the scheduler checks; has tags and descriptions too."""
TIMEOUT = 180.0
"""Seconds for one answer: a bulk creation of many ports takes a loaded Neutron a minute."""

Json = dict[str, Any]
Params = Mapping[str, str | int | Sequence[str]]


class Service:
    """One service of the cloud, seen from one project. Safe to use from many threads."""

    def __init__(
        self, region: CloudRegion, service_type: str, version: str | None, counter: CallCounter
    ) -> None:
        self._type = service_type
        self._region = region
        self._version = version
        self._client: Adapter | None = None
        self._lock = threading.Lock()
        self._counter = counter

    def get(self, asked: str, path: str, params: Params | None = None) -> Json:
        """The body of a GET that must succeed. Raises `UnknownError` or `PermanentError`."""
        return dict(self.ask(asked, "GET", path, params=params).body)

    def listing(self, asked: str, path: str, collection: str, params: Params | None = None) -> list[Json]:
        """All rows of a collection, page after page (`next` in `{collection}_links`)."""
        rows: list[Json] = []
        page: str | None = path
        while page:
            body = self.get(asked, page, params)
            rows.extend(body.get(collection, []))
            links: list[Json] = body.get(f"{collection}_links", [])
            following = [str(link["href"]) for link in links if link.get("rel") == "next"]
            # The link has all parameters in it; its host may be one that only the service itself can reach.
            page = f"{path}?{following[0].partition('?')[2]}" if following else None
            params = None
        return rows

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
    ) -> Answer:
        """One request.

        Args:
            asked: what is asked, for the error, such as `create port weft-1a2b-port-gpu01`.
            ok: statuses of 400 and more that the caller handles itself.
        """
        reading = method == "GET"
        extra: dict[str, Any] = {"microversion": NOVA_MICROVERSION} if self._type == "compute" else {}
        try:
            response = self._connected().request(
                path, method, params=params, json=json, headers=dict(headers or {}), raise_exc=False, **extra
            )
        except OUTSIDE as error:
            raise error_of_exception(asked, self._of(), error, reading) from error
        self._counter.count(method, self._type, path)
        answer = _answer(response)
        if not answer.fine and answer.status not in ok:
            raise self.error(asked, answer, reading)
        return answer

    def signed_in_project(self) -> str:
        """Id of the project that the token is for."""
        asked = "sign in"
        try:
            return str(self._connected().get_project_id())
        except OUTSIDE as error:
            raise error_of_exception(asked, self._of(), error, True) from error

    def error(self, asked: str, answer: Answer, reading: bool = False) -> OutsideError:
        """The error of an answer that `ask` was told to let through."""
        return error_of_answer(asked, self._of(), answer, reading)

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

    def _of(self) -> str:
        """The service with its URL, or with Keystone's as long as that hasn't told it."""
        client = self._client
        try:
            url = client.get_endpoint() if client is not None else None
        except OUTSIDE:
            url = None
        keystone = self._region.config.get("auth", {}).get("auth_url", "an unknown address")
        return f"{self._type} at {url}" if url else f"{self._type}, by way of keystone at {keystone}"


class CallCounter:
    """Counts requests by method and path without ids: what a phase costs the cloud."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self._lock = threading.Lock()

    def count(self, method: str, service: str, path: str) -> None:
        parts = ["{id}" if len(p) >= 32 else p for p in path.split("?")[0].split("/")]
        row = f"{method} {service} {'/'.join(parts)}"
        with self._lock:
            self.calls[row] = self.calls.get(row, 0) + 1

    def take(self) -> dict[str, int]:
        """What was counted since the last time."""
        with self._lock:
            calls, self.calls = self.calls, {}
        return calls


@dataclass(frozen=True, slots=True)
class Project:
    """The services as one project sees them. `project_id` is None for the service user's own project."""

    project_id: str | None
    network: Service
    compute: Service
    image: Service
    identity: Service
    placement: Service


class Sessions:
    """Signs in for any project that the service user has roles in.

    Args:
        profile: name in clouds.yaml.
        files: clouds.yaml files to look into; none: where every OpenStack client looks.
        connections: connections that are kept open to one service.
    """

    def __init__(self, profile: str, files: Sequence[Path] | None = None, connections: int = 16) -> None:
        self.profile = profile
        self.counter = CallCounter()
        self._projects: dict[str | None, Project] = {}
        self._lock = threading.Lock()
        self._http = requests.Session()  # honours http_proxy and no_proxy of the environment
        for scheme in ("http://", "https://"):
            self._http.mount(scheme, HTTPAdapter(pool_connections=16, pool_maxsize=connections))
        self._discovery: dict[str, Any] = {}
        self._config = OpenStackConfig(
            config_files=[str(f) for f in files] if files else None,
            session_constructor=self._session,  # pyright: ignore[reportArgumentType] - any maker of a session
            app_name="weft",
        )
        if profile not in self._config.get_cloud_names():
            known = ", ".join(sorted(self._config.get_cloud_names())) or "none"
            raise InputError("profile", profile, f"clouds.yaml has these clouds: {known}")

    @property
    def auth_url(self) -> str:
        """Keystone's address."""
        return str(self._config.get_one(cloud=self.profile).config.get("auth", {}).get("auth_url", ""))

    def own(self) -> Project:
        """The service user's own project: for reading across projects, and for its own key pairs."""
        return self._project(None)

    def project(self, project_id: str) -> Project:
        """A tenant's project. Nothing is asked before it is used."""
        return self._project(project_id)

    def close(self) -> None:
        self._http.close()

    def _project(self, project_id: str | None) -> Project:
        with self._lock:
            known = self._projects.get(project_id)
            if known is None:
                known = self._projects[project_id] = self._signed_in(project_id)
            return known

    def _signed_in(self, project_id: str | None) -> Project:
        # A project's id says all: a name, or a domain of it, beside it would contradict.
        other: dict[str, Any] = {}
        if project_id is not None:
            other = {"project_id": project_id, "project_name": None}
        try:
            region = self._config.get_one(cloud=self.profile, **other)
        except OUTSIDE as error:
            asked = f"read cloud {self.profile} from clouds.yaml"
            raise error_of_exception(asked, "clouds.yaml", error, False) from error

        def service(service_type: str, version: str | None) -> Service:
            return Service(region, service_type, version, self.counter)

        return Project(
            project_id=project_id,
            network=service("network", "2.0"),
            compute=service("compute", None),
            image=service("image", "2"),
            identity=service("identity", "3"),
            placement=service("placement", None),
        )

    def _session(self, **given: Any) -> Session:
        given.update(session=self._http, discovery_cache=self._discovery)
        given["timeout"] = given.get("timeout") or TIMEOUT
        return Session(**given)


def _answer(response: requests.Response) -> Answer:
    try:
        body = response.json() if response.content else {}
    except ValueError:
        body = {}
    return Answer(
        status=response.status_code,
        body=body if isinstance(body, dict) else {},
        text=response.text if response.status_code >= 400 else "",
        request_id=response.headers.get("x-openstack-request-id", ""),
        retry_after=response.headers.get("Retry-After"),
    )


__all__ = ["CallCounter", "Json", "Project", "Service", "Sessions"]
