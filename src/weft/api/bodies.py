"""Bodies of requests and of answers.

Request bodies are read once the caller is known (`weft.api.asking`), limited in bytes and in values before they are
parsed, and parsed in the handler's thread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, cast

import anyio
from fastapi import Depends, Response
from fastapi import Request as HttpRequest
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from weft.api.asking import Asker
from weft.app.explain import validate
from weft.app.yamltext import Path, Positions, dotted
from weft.model.errors import InputError
from weft.model.siteparts import MOST_PARTS
from weft.planning.site.parts import LARGEST

KIB = 1 << 10
MIB = 1 << 20
BODY_SECONDS = 20.0
BODY_RATE = 512 * KIB
"""Seconds for a body to arrive, plus one per this many bytes of its size limit."""
_M = TypeVar("_M", bound=BaseModel)


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
    """Number of signs that precede a value in JSON, also within strings: about the number of values, or more."""
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


def answer(
    value: BaseModel, status: int = 200, location: str | None = None, generation: int | None = None
) -> Response:
    """A document as JSON, not validated again. Args: generation: becomes its `ETag`."""
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
"""Models of the bodies that routes read themselves, by name; the OpenAPI document contains those that a route names."""


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
