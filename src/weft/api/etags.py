"""`ETag` of every JSON document that is read, and 304 for those who have it already (RFC 9110 §8.8.3, §13.1.2).

The tag is strong: a digest of the document's bytes. If the document has a generation, the tag begins with it: `"3-…"`;
`If-Match` of a change accepts this tag as well as the generation alone.

Every answer to a GET says that shared caches must not keep it, and names the headers that it depends on: caches know
this of `Authorization`, but not of `X-Auth-Token`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST = 8 << 20
"""Most bytes of a document with a tag. Longer ones, and streams, have none."""
MOST_GIVEN = 8192
"""Bytes of `If-None-Match` that are read."""
_GENERATION = re.compile(rb'"(\d{1,9})"')
_CALLERS = (b"vary", b"X-Auth-Token, Authorization")
_PRIVATE = (b"cache-control", b"private, no-cache")
_JSON = (b"application/json", b"application/openapi+json")


class ETags:
    """ASGI middleware; see the module's docstring."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith("/v1"):
            await self._app(scope, receive, send)
            return
        given = b",".join(value for name, value in scope["headers"] if name == b"if-none-match")
        start: Message | None = None

        async def send_tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                message = _of_the_caller(message)
            if message["type"] == "http.response.start" and _takes_a_tag(message):
                start = message
                return
            if start is not None:
                first, start = start, None
                body = message.get("body", b"")
                if not message.get("more_body", False) and len(body) <= LARGEST:
                    first, message = _tagged(first, message, body, given)
                await send(first)
            await send(message)

        await self._app(scope, receive, send_tagged)


def _takes_a_tag(start: Message) -> bool:
    """Whether an answer is a JSON document that was found, and has no tag but its generation."""
    headers = dict(start.get("headers", ()))
    kind, tag = headers.get(b"content-type", b""), headers.get(b"etag")
    return start["status"] == 200 and kind.startswith(_JSON) and (tag is None or _is_generation(tag))


def _of_the_caller(start: Message) -> Message:
    headers = list(start.get("headers", ()))
    own = any(name == _PRIVATE[0] for name, _ in headers)
    return {**start, "headers": [*headers, _CALLERS, *([] if own else [_PRIVATE])]}


def _is_generation(tag: bytes) -> bool:
    return _GENERATION.fullmatch(tag) is not None


def _tagged(start: Message, message: Message, body: bytes, given: bytes) -> tuple[Message, Message]:
    """The answer with its tag; without the document if the caller has it."""
    headers = [(name, value) for name, value in start.get("headers", ()) if name != b"etag"]
    generation = next((v for n, v in start.get("headers", ()) if n == b"etag"), b"").strip(b'"')
    digest = hashlib.blake2b(body, digest_size=16).hexdigest().encode()
    tag = b'"%s-%s"' % (generation, digest) if generation else b'"%s"' % digest
    headers.append((b"etag", tag))
    if not is_known(tag, given):
        return {**start, "headers": headers}, message
    kept = [(name, value) for name, value in headers if name not in (b"content-length", b"content-type")]
    return {**start, "status": 304, "headers": kept}, {**message, "body": b""}


def is_known(tag: bytes, given: bytes) -> bool:
    """Whether `If-None-Match` names this tag, compared weakly, or is `*` (RFC 9110 §13.1.2)."""
    wanted = {one.strip().removeprefix(b"W/") for one in given[:MOST_GIVEN].split(b",")}
    return tag.removeprefix(b"W/") in wanted or b"*" in wanted


def describe(schema: dict[str, Any]) -> None:
    """Add tag, header and 304 to OpenAPI's description of each document that is read."""
    for path, operations in schema["paths"].items():
        read = operations.get("get")
        found = (read or {}).get("responses", {}).get("200", {})
        if read is None or not path.startswith("/v1") or "application/json" not in found.get("content", {}):
            continue
        found.setdefault("headers", {})["ETag"] = {
            "description": "Strong; a digest of the document, after its generation if it has one.",
            "schema": {"type": "string"},
        }
        read["responses"].setdefault(
            "304", {"description": "The document still has a tag that `If-None-Match` names."}
        )
        parameters = read.setdefault("parameters", [])
        if all(one.get("name", "").lower() != "if-none-match" for one in parameters):
            parameters.append(
                {
                    "name": "If-None-Match",
                    "in": "header",
                    "required": False,
                    "description": "`ETag` of an earlier answer.",
                    "schema": {"type": "string"},
                }
            )
