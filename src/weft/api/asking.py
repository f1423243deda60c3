"""Converts an HTTP request into the caller of a verb: who asks, whether that is allowed, and its parameters.

The caller and its authorization are checked before a byte of the body is read or a parameter is parsed.
"""

from __future__ import annotations

from functools import partial
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, cast

from fastapi import Depends, params
from fastapi import Request as HttpRequest
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import READ_SECONDS, ThreadShares
from weft.app import redact
from weft.app.accessrules import check_access
from weft.app.service import Service
from weft.app.verbs import Request
from weft.client import SERVICE_TYPE
from weft.model.errors import InputError, NotFoundError, UnauthenticatedError, WeftError
from weft.ports.cloud import Identity

LONGEST_NAME = 255
"""Maximum length of a name in a path."""
_token = APIKeyHeader(name="X-Auth-Token", auto_error=False, description="A Keystone token.")


async def verbs_of(http: HttpRequest) -> Service:  # async: FastAPI runs a plain function in a thread
    """The verbs passed to `create_app`."""
    return cast(Service, http.app.state.verbs)


async def asker(http: HttpRequest, token: Annotated[str | None, Depends(_token)]) -> Request:
    """The caller. Raises `UnauthenticatedError` without a valid token, `UnknownError` if Keystone is unreachable."""
    request = await asker_as(http, token, http.method, http.scope["path"])
    _check_once(http)
    return request


LISTS = frozenset({"node", "remove"})
"""Parameters that may be given several times."""


def _check_once(http: HttpRequest) -> None:
    """Raise `InputError` for a parameter or condition given twice: one of the values would be left out silently."""
    given = http.query_params
    for name in given.keys() - LISTS:
        if len(values := given.getlist(name)) > 1:
            raise InputError(name, ", ".join(values), "one value")
    for name in ("If-Match", "If-None-Match"):
        if len(values := http.headers.getlist(name)) > 1 and http.method not in ("GET", "HEAD"):
            raise InputError(name, ", ".join(values), "one value")


def check_parameters(http: HttpRequest) -> None:
    """Raise `InputError` for a parameter that the route doesn't have, which would be left out silently, or with a NUL
    character, which the database can't store. Call it once it is known that the caller may ask this."""
    if given := http.query_params:
        known = _parameters(http.scope["route"], cast(dict[str, frozenset[str]], http.app.state.parameters))
        for name in given.keys() - known:
            raise InputError(
                name, given[name], f"unknown parameter; known here: {', '.join(sorted(known)) or 'none'}"
            )
        for name, value in given.multi_items():
            if "\0" in value:
                raise InputError(name, value, "text without NUL characters")


def _parameters(route: APIRoute, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Names of a route's query parameters, its dependencies' included. Args: known: a cache by route, filled here."""
    if route.unique_id not in known:
        fields = get_flat_params(route.dependant)
        elsewhere = params.Path | params.Header | params.Cookie
        names = (field.alias for field in fields if not isinstance(field.field_info, elsewhere))
        known[route.unique_id] = frozenset(names)
    return known[route.unique_id]


async def asker_as(
    http: HttpRequest, token: str | None, method: str, path: str, before: Request | None = None
) -> Request:
    """The caller with this token, who asks for a page of the console.

    Args:
        method, path: of the API request that does the same, for the access rules of application credentials.
        before: the caller of this request and token at an earlier check; returned if the token's answer is still
            cached.
    """
    if before is not None and _is_remembered(http, token, before):
        return before
    strangers = cast(ThreadShares, http.app.state.strangers)
    return await _asker(http, token, strangers, neighbourhood(address_of(http)), method, path)


async def asker_again(http: HttpRequest, before: Request) -> Request:
    """The caller after a wait, in which the token may have expired or been revoked."""
    token = http.headers.get("x-auth-token")
    if _is_remembered(http, token, before):
        return before
    who = before.caller.project_id or before.caller.user_id
    shares = cast(ThreadShares, http.app.state.returning)
    return await _asker(http, token, shares, who, http.method, http.scope["path"])


def _is_remembered(http: HttpRequest, token: str | None, before: Request) -> bool:
    """Whether Keystone's answer for the token is still the cached one. Cheap, since streams call it at each event."""
    return bool(token) and cast(Identity, http.app.state.identity).remembered(token) is before.caller


async def _asker(
    http: HttpRequest, token: str | None, shares: ThreadShares, who: str, method: str, path: str
) -> Request:
    """Args: who: key of the share whose thread asks Keystone."""
    if not token:
        raise UnauthenticatedError("no token: authenticate with Keystone and send the token as X-Auth-Token")
    identity = cast(Identity, http.app.state.identity)
    try:
        caller = identity.remembered(token)
        if caller is None:
            caller = await shares.run(who, partial(identity.check, token), READ_SECONDS)
        check_access(caller, SERVICE_TYPE, method, path, http.app.state.prefix)
    except WeftError as error:
        raise redact.error(error) from error  # an unauthenticated caller is no operator
    http.state.caller = caller
    return Request(caller, address_of(http), http.state.request_id, user_agent(http))


def address_of(http: HttpRequest) -> str:
    """The client's address; behind a proxy the proxy's."""
    return http.client.host if http.client else ""


def neighbourhood(host: str) -> str:
    """Key that counts all addresses a host may choose as one: the IPv4 address, or the IPv6 /64 network."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ip_network((address, 64), strict=False))


def user_agent(http: HttpRequest) -> str:
    """The client's User-Agent for the log: short, and without control characters."""
    given = http.headers.get("user-agent", "")[:200]
    return given.encode("ascii", "backslashreplace").decode() if given.isprintable() else ""


async def path_name(name: str) -> str:
    """The name in the path. Raises `NotFoundError` for an impossible one."""
    if "\0" in name or len(name) > LONGEST_NAME:  # the database has no NUL
        raise NotFoundError("no such object")
    return name


Asker = Annotated[Request, Depends(asker)]
Named = Annotated[str, Depends(path_name)]
Backend = Annotated[Service, Depends(verbs_of)]


def may(rule: str) -> Any:
    """A dependency: the request of a caller to whom the policy allows `rule` for some object. Must come first in a
    route.
    """

    async def allowed(http: HttpRequest, request: Asker, verbs: Backend) -> Request:
        if not verbs.permissions.is_known(request, rule):
            await run_in_threadpool(verbs.permissions.check, request, rule)
        check_parameters(http)
        return request

    return Depends(allowed)


def may_with(rule: str) -> Any:
    """Like `may`, for the pod in the path. Callers who may not see it get the same 404, whatever else they sent."""

    def allowed(http: HttpRequest, request: Asker, verbs: Backend, name: Named) -> Request:
        verbs.permissions.check(request, rule, name)
        check_parameters(http)
        return request

    return Depends(allowed)
