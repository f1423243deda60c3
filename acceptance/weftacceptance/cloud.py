"""Callers of the cloud's APIs. Everything that a step reports is read through them after its act."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]
NO_SERVICE = 0
"""In place of an HTTP status: the catalog has no such service."""
POD_SERVICE = "accelerator-pod"
"""weft's service type in the catalog."""


class LostError(Exception):
    """A service gave no answer, or one that can't be read: nothing is known."""


class SkipError(Exception):
    """The step isn't possible here, for the given reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A service's answer.

    Attributes:
        status: of HTTP.
        body: JSON, or None.
    """

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_done(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300

    def get(self, name: str) -> Any:
        """A member of the body. Raises `LostError` if the answer isn't of that shape."""
        if not self.is_done or not isinstance(self.body, dict) or name not in self.body:
            raise LostError(f"an answer {self.status} without '{name}'")
        return self.body[name]


class Caller(Protocol):
    """Someone with a token."""

    @property
    def user_id(self) -> str:
        """Keystone's id of the user."""
        ...

    @property
    def project_id(self) -> str:
        """Keystone's id of the token's project."""
        ...

    def ask(
        self, service: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request. Args: service: its type in the catalog; path: below its endpoint; body: JSON, or bytes.
        Raises `LostError` without an answer."""
        ...


class Cloud(Protocol):
    """The callers that steps act as."""

    def caller(self, name: str) -> Caller:
        """The caller of a profile in clouds.yaml."""
        ...

    def system(self, name: str) -> Caller:
        """As `caller`, with the system as its scope instead of a project: Ironic's machines belong to no project."""
        ...

    def key(self, key_id: str, secret: str) -> Caller:
        """The bearer of an application credential; its token is issued with the first request."""
        ...

    def login(self, user_id: str, password: str, project_id: str) -> Caller:
        """The caller for a user's password."""
        ...


class KeystoneCaller:
    """A caller with a session of Keystone. Args: session: of keystoneauth1, with its region and interface."""

    def __init__(self, session: Any, region: str | None) -> None:
        self._session, self._region = session, region

    @property
    def user_id(self) -> str:
        return self._asked(self._session.get_user_id)

    @property
    def project_id(self) -> str:
        return self._asked(self._session.get_project_id)

    def ask(
        self, service: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        from keystoneauth1.exceptions import ClientException, EndpointNotFound, NotFound, Unauthorized

        given: Json = (
            {"data": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
        )
        where = {"service_type": service, "interface": "public", "region_name": self._region}
        try:
            got = self._session.request(
                path, method, endpoint_filter=where, headers=dict(headers or {}), raise_exc=False, **given
            )
        except EndpointNotFound as error:
            return Answer(NO_SERVICE, {"error": str(error)})
        except (
            NotFound,
            Unauthorized,
        ) as error:  # for the token: Keystone doesn't know the credential, or refuses it
            return Answer(401, {"error": str(error)})
        except ClientException as error:
            raise LostError(f"{method} {path}: {error}") from error
        try:
            return Answer(got.status_code, got.json() if got.content else None, dict(got.headers))
        except ValueError:
            return Answer(got.status_code, None, dict(got.headers))

    def _asked(self, what: Callable[[], str | None]) -> str:
        from keystoneauth1.exceptions import ClientException

        try:
            found = what()
        except ClientException as error:
            raise LostError(str(error)) from error
        if not found:
            raise LostError("a token without project or user")
        return found


class KeystoneCloud:
    """The clouds of a clouds.yaml; a caller keeps its token as long as this lives."""

    def __init__(self, file: Path) -> None:
        from openstack.config.loader import OpenStackConfig

        self._config = OpenStackConfig(config_files=[str(file)], load_envvars=False)
        self._known: dict[str, KeystoneCaller] = {}

    def caller(self, name: str) -> Caller:
        if name not in self._known:
            found = self._config.get_one(name)
            self._known[name] = KeystoneCaller(found.get_session(), found.get_region_name())
        return self._known[name]

    def system(self, name: str) -> Caller:
        from keystoneauth1.identity import V3Password

        found = self._config.get_one(name).auth
        return self._caller(
            lambda url: V3Password(
                url,
                username=found["username"],
                password=found["password"],
                user_domain_id=found.get("user_domain_id"),
                user_domain_name=found.get("user_domain_name"),
                system_scope="all",
            )
        )

    def key(self, key_id: str, secret: str) -> Caller:
        from keystoneauth1.identity import V3ApplicationCredential

        return self._caller(
            lambda url: V3ApplicationCredential(
                url, application_credential_id=key_id, application_credential_secret=secret
            )
        )

    def login(self, user_id: str, password: str, project_id: str) -> Caller:
        from keystoneauth1.identity import V3Password

        return self._caller(
            lambda url: V3Password(url, user_id=user_id, password=password, project_id=project_id)
        )

    def _caller(self, made: Callable[[str], Any]) -> Caller:
        from keystoneauth1.session import Session

        found = self._config.get_one("team-a")
        session = Session(made(found.auth["auth_url"]), verify=found.get_requests_verify_args()[0])
        return KeystoneCaller(session, found.get_region_name())


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of a REST API. Answers to writes are no evidence; what `find` and `rows` read is."""

    caller: Caller
    service: str
    path: str
    one: str
    many: str

    def make(self, **values: Any) -> str:
        """Creates one; its id. Raises `LostError`."""
        return str(self.caller.ask(self.service, "POST", self.path, {self.one: values}).get(self.one)["id"])

    def find(self, key: str) -> Json | None:
        """The resource as it is now, or None if it doesn't exist. Raises `LostError` for any other answer."""
        got = self.caller.ask(self.service, "GET", f"{self.path}/{key}")
        if got.status == 404:
            return None
        found = got.get(self.one)
        if not isinstance(found, dict) or found.get("id") != key:
            raise LostError(f"{self.path}/{key}: an answer about something else")
        return found

    def rows(self, query: str = "") -> list[Json]:
        """All rows of the collection. Raises `LostError`."""
        found = self.caller.ask(self.service, "GET", self.path + query).get(self.many)
        if not isinstance(found, list):
            raise LostError(f"{self.path}: no list")
        return found

    def change(self, key: str, method: str = "PUT", **values: Any) -> Answer:
        """Changes values of one by its id, with PUT or `method`; the answer, whatever its status."""
        return self.caller.ask(self.service, method, f"{self.path}/{key}", {self.one: values})

    def delete(self, key: str) -> Answer:
        return self.caller.ask(self.service, "DELETE", f"{self.path}/{key}")


PATIENCE = 600.0
"""Longest wait in seconds; tests set it to 0."""


def pause(seconds: float) -> None:
    """Sleeps, for at most `PATIENCE` seconds."""
    time.sleep(min(seconds, PATIENCE))


def soon(is_so: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Polls until the condition holds, for at most `seconds`; whether it does."""
    end = time.monotonic() + min(seconds, PATIENCE)
    while not is_so():
        if time.monotonic() >= end:
            return False
        pause(0.3)
    return True
