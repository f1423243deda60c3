"""Sessions of weft's service user: one token per project, one connection pool.

The service user authenticates with a profile of clouds.yaml. For each tenant's project it requests a token of
that project (its roles are inherited from the domain), so what it creates belongs to the tenant and counts against
the tenant's quota. keystoneauth renews tokens before they expire, and its plugins hold a lock while they do.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from keystoneauth1.session import Session
from openstack.config import OpenStackConfig
from openstack.config.cloud_region import CloudRegion
from openstack.config.loader import CONFIG_FILES, SECURE_FILES

from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.errors import OUTSIDE, error_of_exception
from weft.drivers.openstack.extensions import Extensions
from weft.drivers.openstack.service import CallCounter, CloudService
from weft.drivers.openstack.transport import TIMEOUT, BoundedAdapter
from weft.model.errors import InputError
from weft.planning.cloudsfile import check_clouds, check_profile
from weft.ports.cleanings import Cleanings, NoCleanings

DOUBT_PAUSE = 10.0
"""Seconds: minimum interval between new authentications of a project while a service is down."""


@dataclass(frozen=True, slots=True)
class Project:
    """The services as one project sees them. `project_id` is None for the service user's own project.

    Attributes:
        own: the service user's own project, which sees resources of all projects.
        cleaning: what the site demands of machines and their cleaning.
        cleanings: the cleanings that weft has watched.
        extensions: Neutron's.
    """

    project_id: str | None
    network: CloudService
    compute: CloudService
    image: CloudService
    identity: CloudService
    placement: CloudService
    baremetal: CloudService
    share: CloudService
    volume: CloudService
    own: Callable[[], Project]
    cleaning: Demands = field(default_factory=Demands)
    cleanings: Cleanings = field(default_factory=NoCleanings)
    extensions: Extensions = field(default_factory=Extensions)


class Sessions:
    """Authenticates for any project in which the service user has roles.

    Args:
        profile: name in clouds.yaml.
        files: clouds.yaml files to read; None: the usual locations.
        connections: connections kept open per service.
        cleaning, cleanings: see `Project`.
    """

    def __init__(
        self,
        profile: str,
        files: Sequence[Path] | None = None,
        connections: int = 16,
        cleaning: Demands | None = None,
        cleanings: Cleanings | None = None,
    ) -> None:
        self.profile = profile
        self._cleaning, self._cleanings = cleaning or Demands(), cleanings or NoCleanings()
        self._extensions = Extensions()
        self.counter = CallCounter()
        self._projects: dict[str | None, Project] = {}
        self._lock = threading.Lock()
        self._http = requests.Session()  # honors http_proxy and no_proxy of the environment
        for scheme in ("http://", "https://"):
            self._http.mount(scheme, BoundedAdapter(pool_connections=16, pool_maxsize=connections))
        self._discovery: dict[str, Any] = {}
        self._doubted: dict[str | None, float] = {}
        for variable, usual in (
            ("OS_CLIENT_CONFIG_FILE", files or CONFIG_FILES),
            ("OS_CLIENT_SECURE_FILE", SECURE_FILES),
        ):
            there = [*filter(None, [os.environ.get(variable)]), *usual]
            check_clouds((str(file), Path(file).read_bytes) for file in there)
        self._config = OpenStackConfig(
            config_files=[str(f) for f in files] if files else None,
            session_constructor=self._session,  # pyright: ignore[reportArgumentType] - any maker of a session
            app_name="weft",
        )
        if profile not in self._config.get_cloud_names():
            known = ", ".join(sorted(self._config.get_cloud_names())) or "none"
            raise InputError("profile", profile, f"clouds.yaml has these clouds: {known}")
        with suppress(*OUTSIDE):  # what else is wrong with it is said when it is used
            check_profile(self._config.get_one(cloud=profile).config)

    @property
    def auth_url(self) -> str:
        """Keystone's address."""
        return str(self._config.get_one(cloud=self.profile).config.get("auth", {}).get("auth_url", ""))

    @property
    def account(self) -> tuple[str, str]:
        """weft's user and its own project, as clouds.yaml names them."""
        auth = self._config.get_one(cloud=self.profile).config.get("auth", {})
        named = (("username", "user_id"), ("project_name", "project_id"))
        user, project = (str(auth.get(name) or auth.get(id_) or "?") for name, id_ in named)
        return user, project

    def own(self) -> Project:
        """The service user's own project: for reads across projects, and for its own key pairs."""
        return self._project(None)

    def project(self, project_id: str) -> Project:
        """A tenant's project. Lazy: no request before it is used."""
        return self._project(project_id)

    def served(self) -> Mapping[str, str]:
        """Id -> name of the projects in which the service user has a role: Keystone lists them for any token.

        Raises `UnknownError`, also if the token's own project isn't among them: others may be missing as well.
        """
        asked, identity = "list the projects that weft serves", self.own().identity
        rows = identity.listing(asked, "/auth/projects", "projects")
        found = {row["id"]: row["name"] for row in rows}
        mine = identity.signed_in_project()
        if mine not in found:
            raise identity.unseen(asked, f"{len(found)} are listed, and not {mine}, the token's own")
        return found

    def plain(self) -> Session:
        """A session for requests in users' own names: with the profile's TLS settings and limits.

        Raises what keystoneauth raises for a profile that it can't use.
        """
        return self._config.get_one(cloud=self.profile).get_session()

    def close(self) -> None:
        self._http.close()

    def _project(self, project_id: str | None) -> Project:
        with self._lock:
            known = self._projects.get(project_id)
            if known is None:
                known = self._projects[project_id] = self._signed_in(project_id)
            return known

    def _signed_in(self, project_id: str | None) -> Project:
        # A project's id is sufficient: a name, or its domain, next to it would contradict.
        other: dict[str, Any] = {}
        if project_id is not None:
            other = {"project_id": project_id, "project_name": None}
        try:
            region = self._config.get_one(cloud=self.profile, **other)
            if version_3 := _version_3(region):
                region = self._config.get_one(cloud=self.profile, auth_type=version_3, **other)
        except OUTSIDE as error:
            asked = f"read cloud {self.profile} from clouds.yaml"
            raise error_of_exception(asked, "clouds.yaml", error, False) from error

        def doubt(nowhere: bool) -> None:
            self._forget(project_id, nowhere)

        def service(service_type: str, version: str | None) -> CloudService:
            return CloudService(region, service_type, version, self.counter, doubt)

        return Project(
            project_id=project_id,
            network=service("network", "2.0"),
            compute=service("compute", None),
            image=service("image", "2"),
            identity=service("identity", "3"),
            placement=service("placement", None),
            baremetal=service("baremetal", None),
            share=service("shared-file-system", "2"),
            volume=service("block-storage", "3"),
            own=self.own,
            cleaning=self._cleaning,
            cleanings=self._cleanings,
            extensions=self._extensions,
        )

    def _forget(self, project_id: str | None, nowhere: bool) -> None:
        """Forget what authentication returned (token, catalog, version documents), since it may be wrong.

        keystoneauth caches it for the process's lifetime. So it is dropped at once if an address doesn't
        exist, and once per `DOUBT_PAUSE` if no service answered there.
        """
        with self._lock:
            now = time.monotonic()
            if nowhere or now - self._doubted.get(project_id, -DOUBT_PAUSE) >= DOUBT_PAUSE:
                self._doubted[project_id] = now
                self._projects.pop(project_id, None)
                # Replaced, not emptied: its current users would refill it with what they know.
                self._discovery = {}

    def _session(self, **given: Any) -> Session:
        given.update(session=self._http, discovery_cache=self._discovery)
        given["timeout"] = given.get("timeout") or TIMEOUT
        return Session(**given)


def _version_3(region: CloudRegion) -> str | None:
    """The plugin that requests a token without first asking for Keystone's versions; None: keep the profile's.

    keystoneauth's generic plugins hang if a version document is answered with 401: they request it again with a
    token, inside the lock under which they are getting that token (discover.py, `get_version_data`).
    """
    plain = not any(name.startswith("default_domain") for name in region.config.get("auth", {}))
    return {"password": "v3password", "token": "v3token"}.get(region.config["auth_type"]) if plain else None
