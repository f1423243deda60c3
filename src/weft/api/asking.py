"""Converts HTTP requests into a verb's arguments (caller and validated body), and values into responses.

The caller and its authorization are checked before a byte of the body is read or a parameter is parsed.
Bodies are limited in bytes and in values before they are parsed, and parsed in the handler's thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, TypeVar, cast

import anyio
from fastapi import Depends, Header, Response, params
from fastapi import Request as HttpRequest
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from weft.api.threadshares import READ_SECONDS, ThreadShares
from weft.app import redact
from weft.app.accessrules import check_access
from weft.app.explain import validate
from weft.app.service import Service
from weft.app.verbs import Request
from weft.app.yamltext import Path, Positions, dotted
from weft.client import SERVICE_TYPE
from weft.model.errors import InputError, NotFoundError, PreconditionError, UnauthenticatedError, WeftError
from weft.model.siteparts import MOST_PARTS
from weft.planning.site.parts import LARGEST
from weft.ports.cloud import Identity

KIB = 1 << 10
MIB = 1 << 20
BODY_SECONDS = 20.0
BODY_RATE = 512 * KIB
"""Seconds for a body to arrive, plus one per this many bytes of its size limit."""
LONGEST_NAME = 255
"""Maximum length of a name in a path."""
_M = TypeVar("_M", bound=BaseModel)

_token = APIKeyHeader(name="X-Auth-Token", auto_error=False, description="A Keystone token.")


async def verbs_of(http: HttpRequest) -> Service:  # async: FastAPI sends what isn't through a thread
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
    """Raise `InputError` for a parameter that the route doesn't have: it would be left out silently. To be called once
    it is known that the caller may ask this."""
    if given := http.query_params:
        known = _parameters(http.scope["route"], cast(dict[str, frozenset[str]], http.app.state.parameters))
        for name in given.keys() - known:
            raise InputError(
                name, given[name], f"unknown parameter; known here: {', '.join(sorted(known)) or 'none'}"
            )


def _parameters(route: APIRoute, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """Names of a route's parameters behind `?`, its dependencies' included. Args: known: what was found before."""
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
        method, path: of the API's request that does the same: what access rules of application credentials name.
        before: of the same request and token earlier: the answer if the token is remembered as it was then.
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
    """Whether nothing has changed: streams ask this at each event, so it takes little."""
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
    """A dependency: the request of a caller whom the policy allows `rule` at all. Must come first in a route."""

    async def allowed(http: HttpRequest, request: Asker, verbs: Backend) -> Request:
        if not verbs.permissions.is_known(request, rule):
            await run_in_threadpool(verbs.permissions.check, request, rule)
        check_parameters(http)
        return request

    return Depends(allowed)


def may_with(rule: str) -> Any:
    """As `may`, for the pod in the path: callers who may not see it get the same 404, whatever else they sent."""

    def allowed(http: HttpRequest, request: Asker, verbs: Backend, name: Named) -> Request:
        verbs.permissions.check(request, rule, name)
        check_parameters(http)
        return request

    return Depends(allowed)


def raw_body(limit: int, most: int) -> Callable[..., Any]:
    """A dependency that reads a JSON body of at most `limit` bytes and about `most` values.

    Routes list it after `may`, so that nothing is read for callers without permission.
    """

    async def read(http: HttpRequest, request: Asker) -> bytes:
        return await json_body(http, limit, most)

    return read


async def json_body(http: HttpRequest, limit: int, most: int) -> bytes:
    """A JSON body of at most `limit` bytes and about `most` values. Raises `HTTPException`."""
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"send the body as application/json, not as {kind or 'nothing'}")
    encoding = http.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        raise HTTPException(
            415, f"send the body without Content-Encoding, not as {encoding[:40] or 'nothing'}"
        )
    body = await limited_body(http, limit)
    if _signs(body) > most and await run_in_threadpool(_signs, _STRING.sub(b"", body)) > most:
        raise HTTPException(413, f"the body has more than {most} values, the limit here")
    return body


async def limited_body(http: HttpRequest, limit: int) -> bytes:
    """A body of at most `limit` bytes that arrives in time. Raises `HTTPException`."""
    length = http.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS + limit / BODY_RATE):
            async for chunk in http.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise HTTPException(408, "the body did not arrive in time") from None
    return bytes(body)


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def _signs(body: bytes) -> int:
    """Signs before values in JSON, and the same characters within strings."""
    return sum(body.count(sign) for sign in b",[{")


def _too_large(limit: int) -> HTTPException:
    size = f"{limit // MIB} MiB" if limit >= MIB else f"{limit // KIB} KiB"
    return HTTPException(413, f"the body is larger than {size}, the limit here")


SmallBody = Annotated[bytes, Depends(raw_body(256 * KIB, 5_000))]
"""An order: mostly 48 KiB of user data, escaped."""
LargeBody = Annotated[bytes, Depends(raw_body(8 * MIB, 400_000))]
"""A site whose tables have 2,000 to 8,000 nodes; longer ones are sent in parts."""
PartBody = Annotated[bytes, Depends(raw_body(LARGEST, 140_000))]
"""Rows of one of a site's tables."""
ListBody = Annotated[bytes, Depends(raw_body(MIB, MOST_PARTS + 10))]
"""Names of a site's parts."""


def json_object(body: bytes) -> dict[str, object]:
    """The JSON object in a body. Raises `InputError` for anything else, including duplicate keys."""
    value = _json(body)
    if not isinstance(value, dict):
        raise InputError("body", value, "a JSON object")
    return cast(dict[str, object], value)


def _json(body: bytes) -> object:
    try:
        # As text: the parser would guess UTF-16 and UTF-32, whose bytes `_signs` can't count.
        return json.loads(
            str(body, "utf-8-sig"), object_pairs_hook=_no_duplicate_names, parse_constant=_no_constant
        )
    except RecursionError:
        raise InputError("body", "…", "JSON with less nesting") from None
    except json.JSONDecodeError as error:
        raise InputError("body", _near(error), f"JSON ({error.msg} at line {error.lineno})") from None
    except UnicodeDecodeError:
        raise InputError("body", body[:40], "JSON in UTF-8") from None
    except ValueError as error:
        raise InputError("body", "…", f"JSON ({error})") from None


def json_rows(body: bytes) -> list[object]:
    """The JSON objects in a body that is a list of them. Raises `InputError` for anything else."""
    value = _json(body)
    rows = cast(list[object], value) if isinstance(value, list) else [value]
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError("body", "…", "a JSON list of objects")
    _refuse_nul(rows)
    return rows


def document(model: type[_M], body: bytes) -> _M:
    """The value in a body. Raises `InputErrors` with a sentence for each invalid or unknown field."""
    return validate(model, plain_object(body), Positions())


def plain_object(body: bytes) -> dict[str, object]:
    """A JSON object whose fields the verb itself checks."""
    value = json_object(body)
    _refuse_nul(value)
    return value


_TAG = re.compile(r'(W/)?(")?([0-9]{1,9})(?:-[0-9a-f]{32})?(?(2)")')


def generation_of(if_match: str | None) -> int | None:
    """The generation in an `If-Match` header (RFC 9110 §13.1.1), as `ETag` gave it; None: any. Raises `InputError`,
    `PreconditionError` for a weak tag.

    Of a document that was read the tag has a digest behind the generation, which doesn't count: what may not have
    changed is the order, not the pod's state. A weak tag matches nothing here: RFC 9110 compares strongly.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise InputError("If-Match", if_match, 'the generation that was changed, such as "3"')
    if found[1]:
        raise PreconditionError(f"{if_match.strip()} is a weak tag: send the strong one that `ETag` gave")
    return int(found[3])


Revised = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="Revision that this is based on, quoted, or the `ETag` of its document. Default: any.",
    ),
]


def existence_of(what: str, if_match: str | None, if_none_match: str | None) -> bool | None:
    """Whether it must exist (`If-Match: *`), or must not (`If-None-Match: *`); see RFC 9110 §13.1."""
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise InputError("If-None-Match", if_none_match, f"*, which only creates a {what}, without If-Match")
    if if_none_match is not None:
        return False
    return True if if_match is not None and if_match.strip() == "*" else None


def answer(
    value: BaseModel, status: int = 200, location: str | None = None, generation: int | None = None
) -> Response:
    """A document as JSON, without validating again what was made here; its generation is its `ETag`."""
    headers = {"Location": location} if location else {}
    if generation is not None:
        headers["ETag"] = f'"{generation}"'
    return Response(value.model_dump_json(), status, headers, "application/json")


ROWS_SCHEMA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}},
    }
}
"""OpenAPI's `requestBody` of rows of a table."""


BODIES: dict[str, type[BaseModel]] = {}
"""Models of bodies that routes read themselves, by name: the description of the API has each that a route names."""


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI's `requestBody` for a route that reads its body with `document`."""
    BODIES[model.__name__] = model
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def _no_duplicate_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        duplicate = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"the name {duplicate!r} occurs twice in one object")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _near(error: json.JSONDecodeError) -> str:
    return error.doc[max(0, error.pos - 10) : error.pos + 20]


def _refuse_nul(data: object) -> None:
    """Raise `InputError` for a NUL character in any text: neither database nor cloud can store one."""
    todo: list[tuple[Path, object]] = [((), data)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, str) and "\0" in value:
            raise InputError(dotted(path), value, "text without NUL characters")
        if isinstance(value, dict):
            for key, item in cast(dict[str, object], value).items():
                todo += [((*path, key), key), ((*path, key), item)]
        elif isinstance(value, list):
            todo += [((*path, index), item) for index, item in enumerate(cast(list[object], value))]
