"""HTTP client of weft's API: signs in like every OpenStack client, finds the API in the catalog, gives plain data.

Answers are plain dicts as the API's schema (/openapi.json) says, not models: a client must understand a newer
server that knows more fields. Errors are the `WeftError`s that the server raised, by `weft.model.problems`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session

from weft.model.errors import (
    InputError,
    NotFoundError,
    PermanentError,
    TemporaryError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.problems import Shown, from_problem

SERVICE_TYPE = "accelerator-pod"
"""Type of weft's entry in Keystone's catalog."""
PAGE = 500
"""Pods that are asked for at once."""
LONGEST_WAIT = 20.0
"""Seconds that one request for events waits; shorter than the time-outs of usual proxies."""

Json = dict[str, Any]
_AGAIN = "try again; `weft pod list` shows what has come of it"


def connect(
    cloud: str | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    timeout: float = 60.0,
) -> Client:
    """Sign in by clouds.yaml or OS_* and find the API.

    Args:
        cloud: name in clouds.yaml; None: OS_CLOUD, or OS_* alone.
        endpoint: address of the API; None: as the catalog says.
        timeout: seconds that a single answer may take.

    Raises `InputError` if there is nothing to sign in with, `UnauthenticatedError` if Keystone refuses,
    `TemporaryError` if it can't be reached and `PermanentError` if the catalog has no such service.
    """
    # Imported here: openstacksdk's configuration alone takes a second to load.
    import yaml
    from openstack import exceptions as sdk
    from openstack.config import OpenStackConfig

    try:
        config = OpenStackConfig(app_name="weft")
        settings: Json = {"region_name": region} if region else {}
        found = config.get_one(cloud=cloud, **settings)
        return Client.from_config(found, endpoint, timeout)
    except sdk.ConfigException as error:
        raise InputError("--os-cloud", cloud, f"a cloud of clouds.yaml ({_short(error)})") from None
    except yaml.YAMLError as error:
        raise InputError("clouds.yaml", Shown("the file"), f"YAML ({_short(error)})") from None
    except (AttributeError, TypeError) as error:  # openstacksdk takes any YAML for what it should be
        raise InputError(
            "clouds.yaml", Shown("the file"), f"a mapping with `clouds` ({_short(error)})"
        ) from None
    except (ksa.AuthPluginException, ValueError) as error:
        raise InputError(
            "--os-cloud", cloud, f"sign-in data in clouds.yaml (OS_CLOUD, --os-cloud) or OS_* ({error})"
        ) from None


def _from_catalog(session: Session, found: Any) -> str:
    keystone = f"Keystone at {found.config.get('auth', {}).get('auth_url', '?')}"
    try:
        url = session.get_endpoint(
            service_type=SERVICE_TYPE,
            interface=found.get_interface(SERVICE_TYPE),
            region_name=found.get_region_name(SERVICE_TYPE),
        )
    except ksa.ClientException as error:
        raise _outside(error, f"sign in and find the service {SERVICE_TYPE}", keystone) from None
    if not url:
        raise PermanentError(
            f"find the service {SERVICE_TYPE}",
            keystone,
            "its catalog has no such entry for this region and interface",
            "have the operator register weft's endpoint, or give --endpoint or WEFT_ENDPOINT",
        )
    return str(url)


class Client:
    """The API's verbs, by the names of `weft.app.verbs.Verbs`; orders and answers are plain JSON.

    Args:
        session: signed in, or able to.
        url: address of the API, with or without `/v1`.
        timeout: seconds that a single answer may take, waiting on purpose not counted.
    """

    def __init__(self, session: Session, url: str, timeout: float = 60.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError("--endpoint", url, "an address such as https://weft.example:8787")
        self._session = session
        self.url = url.rstrip("/").removesuffix("/v1")
        self._timeout = timeout

    @classmethod
    def from_config(cls, found: Any, endpoint: str | None = None, timeout: float = 60.0) -> Client:
        """The client for one cloud of openstacksdk's configuration (a `CloudRegion`)."""
        session = found.get_session()
        url = endpoint or found.get_endpoint(SERVICE_TYPE) or _from_catalog(session, found)
        return cls(session, url, timeout)

    def plan_pod(self, order: Mapping[str, Any], remove: Sequence[str] = ()) -> Json:
        return self._ask("POST", "/v1/pods/plan" + _removing(remove), order)

    def apply_pod(
        self, order: Mapping[str, Any], remove: Sequence[str] = (), generation: int | None = None
    ) -> Json:
        """Args:
        generation: of which the pod must be; None: of any.
        """
        path = f"/v1/pods/{_part('name', str(order['name']))}{_removing(remove)}"
        given = {"If-Match": f'"{generation}"'} if generation is not None else None
        return self._ask("PUT", path, order, headers=given)

    def create_pod(self, order: Mapping[str, Any]) -> Json:
        return self._ask("POST", "/v1/pods", order)

    def list_pods(
        self, all_projects: bool = False, limit: int | None = None, page: int = PAGE, **search: str | None
    ) -> list[Json]:
        """Pods by name, page after page.

        Args:
            limit: at most so many; None: all.
            page: so many at once.
            search: project, state, node, name, marker (see the API's `/v1/pods`); None: not given.
        """
        asked = {"all_projects": "true" if all_projects else None, **search}
        given = {name: value for name, value in asked.items() if value is not None}
        found: list[Json] = []
        while True:
            wanted = page if limit is None else min(page, limit - len(found))
            answer = self._ask("GET", f"/v1/pods?{urlencode({**given, 'limit': wanted})}")
            found += answer["pods"]
            if answer.get("next") is None or len(found) == limit:
                return found
            given["marker"] = answer["next"]

    def show_pod(self, name: str) -> Json:
        return self._ask("GET", f"/v1/pods/{_part('name', name)}")

    def pod_events(self, name: str, after: int = 0, wait: float = 0.0) -> list[Json]:
        """Events after a sequence; waits up to `wait` seconds (at most `LONGEST_WAIT`) for the first."""
        wait = min(wait, LONGEST_WAIT)
        path = f"/v1/pods/{_part('name', name)}/events?after={after}&wait={wait:g}"
        return self._ask("GET", path, extra_time=wait)["events"]

    def release_pod(self, name: str) -> Json:
        return self._ask("POST", f"/v1/pods/{_part('name', name)}/release")

    def pod_receipt(self, name: str) -> Json:
        return self._ask("GET", f"/v1/pods/{_part('name', name)}/receipt")

    def extend_pod(self, name: str, until: str) -> Json:
        return self._ask("POST", f"/v1/pods/{_part('name', name)}/extend", {"until": until})

    def retry_pod(self, name: str) -> Json:
        return self._ask("POST", f"/v1/pods/{_part('name', name)}/retry")

    def abandon_pod(self, name: str, reason: str) -> Json:
        return self._ask("POST", f"/v1/pods/{_part('name', name)}/abandon", {"reason": reason})

    def capacity(
        self, accelerator: str | None = None, level: str | None = None, duration: str | None = None
    ) -> Json:
        given = {"accelerator": accelerator, "level": level, "duration": duration}
        query = urlencode({k: v for k, v in given.items() if v is not None})
        return self._ask("GET", "/v1/capacity" + (f"?{query}" if query else ""))

    def reservations(self) -> list[Json]:
        return self._ask("GET", "/v1/reservations")["reservations"]

    def create_reservation(self, reservation: Mapping[str, Any]) -> Json:
        return self._ask("POST", "/v1/reservations", reservation)

    def delete_reservation(self, name: str) -> Json:
        return self._ask("DELETE", f"/v1/reservations/{_part('name', name)}")

    def show_site(self) -> Json:
        """Long tables of its document are in parts; `whole_site` has their rows."""
        return self._ask("GET", "/v1/site")

    def whole_site(self) -> Json:
        """The same with every row. Raises `NotFoundError` if another site comes into force meanwhile."""
        view = self.show_site()
        for table, value in view["document"].items():
            if isinstance(value, dict) and "parts" in value:
                parts = (self._ask("GET", f"/v1/site/parts/{_part('part', d)}") for d in value["parts"])
                view["document"][table] = [row for part in parts for row in part["rows"]]
        return view

    def apply_site(
        self,
        document: Mapping[str, Any],
        base: int | None = None,
        parts: Mapping[str, bytes] | None = None,
    ) -> Json:
        """Put a site in force; of its parts those are sent that the server hasn't.

        Args:
            base: generation that it was made from, 0 for the first; the server refuses an older one.
            parts: by the digests that the document has in place of rows (`weft.planning.site.parts.cut`).
        """
        headers = {} if base is None else {"If-Match": f'"{base}"'}
        if parts:
            self._send_parts(parts)
        return self._ask("PUT", "/v1/site", document, extra_time=600, headers=headers)

    def _send_parts(self, parts: Mapping[str, bytes]) -> None:
        asked = {"parts": list(parts)}
        for digest in self._ask("POST", "/v1/site/parts/missing", asked, extra_time=60)["missing"]:
            if digest in parts:
                self._ask("PUT", f"/v1/site/parts/{digest}", parts[digest])

    def site_generation(self) -> int:
        """Of the site in force; 0: there is none yet."""
        try:
            return int(self.show_site()["generation"])
        except NotFoundError:
            return 0

    def compare_fabric(self, fabric: str | None = None) -> Json:
        return self._ask("GET", "/v1/site/differences" + _fabric(fabric), extra_time=120)

    def adopt_cabling(self, fabric: str | None = None) -> Json:
        return self._ask("POST", "/v1/site/adopt-cabling" + _fabric(fabric), extra_time=240)

    def nodes(self) -> list[Json]:
        return self._ask("GET", "/v1/nodes")["nodes"]

    def quarantine_node(self, node: str, reason: str) -> Json:
        return self._ask("PUT", f"/v1/nodes/{_part('node', node)}/quarantine", {"reason": reason})

    def clear_node(self, node: str) -> Json:
        return self._ask("DELETE", f"/v1/nodes/{_part('node', node)}/quarantine")

    def audit(self, repair: bool = False, unknown_pods: Sequence[str] = ()) -> Json:
        """Looks at everything outside: give it time."""
        if repair:
            body: dict[str, Any] = {"repair": True}
            if unknown_pods:
                body["unknown_pods"] = list(unknown_pods)
            return self._ask("POST", "/v1/audit", body, extra_time=1800)
        return self._ask("GET", "/v1/audit", extra_time=600)

    def accept_database(self) -> Json:
        """Looks at everything outside, as `audit` does."""
        return self._ask("POST", "/v1/audit/accept", extra_time=600)

    def audit_log(self, **search: Any) -> list[Json]:
        """Newest first. Args: the fields of `weft.model.views.AuditLogSearch`; None is left out."""
        query = urlencode({k: v for k, v in search.items() if v is not None})
        return self._ask("GET", "/v1/audit-log" + (f"?{query}" if query else ""))["entries"]

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        extra_time: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        asked, weft = f"{method} {path.partition('?')[0]}", f"weft at {self.url}"
        headers = {"Accept": "application/json, application/problem+json", **(headers or {})}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            response = self._session.request(
                self.url + path,
                method,
                headers=headers,
                data=data,
                raise_exc=False,
                connect_retries=0,
                timeout=self._timeout + extra_time,
                redirect=False,
            )
        except ksa.ClientException as error:
            raise _outside(error, asked, weft) from None
        answer = _read(response)
        if response.status_code < 300 and answer is not None:
            return answer
        raise _refused(response.status_code, answer, asked, weft)


def _removing(nodes: Sequence[str]) -> str:
    return "?" + "&".join(f"remove={quote(n, safe='')}" for n in nodes) if nodes else ""


def _fabric(name: str | None) -> str:
    return "" if name is None else f"?fabric={quote(name, safe='')}"


def _part(field: str, name: str) -> str:
    """A name as one part of a path. Raises `InputError` for what would be another path."""
    if name in ("", ".", ".."):
        raise InputError(field, name, "a name or an id")
    return quote(name, safe="")


def _read(response: Any) -> Json | None:
    try:
        answer = response.json()
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _refused(status: int, answer: Json | None, asked: str, weft: str) -> WeftError:
    if answer is not None and "title" in answer and status >= 400:
        return from_problem(status, answer)
    if status in (502, 503, 504):
        return TemporaryError(asked, weft, f"HTTP {status} from something in front of it", _AGAIN)
    if status in (401, 403):
        return UnauthenticatedError(f"{asked} ({weft}): HTTP {status}; sign in again")
    what = "not an answer of weft's API"
    return PermanentError(asked, weft, f"HTTP {status}, {what}", "check --endpoint or the catalog's entry")


def _outside(error: ksa.ClientException, asked: str, whom: str) -> WeftError:
    """What keystoneauth raises, as one sentence with what to do."""
    if isinstance(error, ksa.Unauthorized):
        return UnauthenticatedError(
            f"Keystone refused to sign in ({error.message}): check user, password and project, or get a new token"
        )
    if isinstance(error, ksa.SSLError):
        return PermanentError(
            asked,
            whom,
            f"its certificate is not trusted ({_short(error)})",
            "give the authority that signed it as `cacert` in clouds.yaml or OS_CACERT",
        )
    if isinstance(error, ksa.ConnectTimeout):
        return TemporaryError(asked, whom, "no answer in time", _AGAIN)
    if isinstance(error, ksa.ConnectionError | ksa.RetriableConnectionFailure):
        refused = "refused" in str(error)
        cause = "connection refused: nothing listens there" if refused else _short(error)
        return TemporaryError(
            asked, whom, cause, "check the address and that the service runs, then try again"
        )
    if isinstance(error, ksa.CatalogException):
        return PermanentError(
            asked, whom, _short(error), "sign in to a project, or give --endpoint or WEFT_ENDPOINT"
        )
    if isinstance(error, ksa.NotFound):
        return NotFoundError(f"{asked} ({whom}): {_short(error)}; check auth_url")
    if isinstance(error, ksa.AuthPluginException):
        return InputError("sign-in", "clouds.yaml or OS_*", f"complete sign-in data ({_short(error)})")
    return PermanentError(asked, whom, _short(error), "check auth_url and the sign-in data")


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:300] + "…"
