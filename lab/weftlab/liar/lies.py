"""The table of lies.

Each is a function of the request, the source of the truth and the rule's own values. It returns the
false answer, or None if this request leaves nothing to lie about; then the true answer is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from weftlab.liar.messages import HTML, JSON, Answer, Asked, Headers, Source, document, page

ELSEWHERE = "/weft-lab-elsewhere"
"""Path on each of the liar's ports that belongs to no service: a sign-in page with status 200."""
REQUEST_ID = "x-openstack-request-id"


class LieValues(Protocol):
    """Values of a rule that a lie may use."""

    @property
    def seconds(self) -> float:
        """How long a late or slow answer takes."""
        ...

    @property
    def rows(self) -> str:
        """Which rows `hidden_rows` leaves out: a regular expression over their JSON."""
        ...


Tell = Callable[[Asked, Source, LieValues], Answer | None]


@dataclass(frozen=True, slots=True)
class Lie:
    """`says` is one line for people; `forwards`: the real service gets the request as well."""

    says: str
    tell: Tell
    forwards: bool = False


def said(answer: Answer) -> Tell:
    """The same answer to every request; nothing is forwarded."""
    return lambda asked, source, values: answer


def maintenance() -> Answer:
    """A page with status 200 that isn't the service's."""
    return page(200, "We'll be back soon!")


def login() -> Answer:
    """The page that a redirect leads to."""
    return page(200, "Sign in")


def shaped(change: Callable[[dict[str, Any]], object]) -> Tell:
    """The truth of a GET with another document in it; only answers with 200 and a JSON object are changed."""

    def tell(asked: Asked, source: Source, values: LieValues) -> Answer | None:
        truth = source.truth()
        body = truth.document
        if asked.method != "GET" or truth.status != 200 or not isinstance(body, dict):
            return None
        changed = change(body)
        return None if changed == body else replace(truth, body=json.dumps(changed).encode())

    return tell


def _collections(body: dict[str, Any]) -> list[str]:
    """Names of what a document lists: arrays, and Placement's allocations, which are an object."""
    return [
        name
        for name, value in body.items()
        if not name.endswith("_links") and (isinstance(value, list) or name == "allocations")
    ]


def _listed_as(value: Callable[[Any], object]) -> Callable[[dict[str, Any]], object]:
    """Each collection changed, and no further pages."""

    def change(body: dict[str, Any]) -> object:
        names = _collections(body)
        kept = {k: v for k, v in body.items() if not names or not k.endswith("_links")}
        return {k: value(v) if k in names else v for k, v in kept.items()}

    return change


def _misnamed(body: dict[str, Any]) -> object:
    return {f"{name}s" if name in _collections(body) else name: value for name, value in body.items()}


def _hidden_rows(asked: Asked, source: Source, values: LieValues) -> Answer | None:
    def kept(rows: Any) -> object:
        if not isinstance(rows, list):
            return rows
        return [row for row in rows if not re.search(values.rows, json.dumps(row))]

    return shaped(_listed_as(kept))(asked, source, values)


def _redirect(status: int, to: str | None) -> Tell:
    """Redirect to a page of the liar's own, or (`to` None) to the same address."""

    def tell(asked: Asked, source: Source, values: LieValues) -> Answer:
        host = {k.lower(): v for k, v in asked.headers}.get("host", "")
        where = f"http://{host}{to or asked.path}"
        return Answer(status, (*HTML, ("Location", where)), f'<a href="{where}">Moved</a>'.encode())

    return tell


def _choices(asked: Asked, source: Source, values: LieValues) -> Answer:
    """The list of versions with which a service answers at an address without one (RFC 9110, 15.4.1)."""
    versions = {"versions": [{"id": "v2.1", "status": "CURRENT", "links": []}]}
    return document(300, versions)


def _brought(**how: Any) -> Tell:
    """The real answer with changed fields: `how` maps a field of `Answer` to a function of the answer."""

    def tell(asked: Asked, source: Source, values: LieValues) -> Answer | None:
        truth = source.truth()
        if not truth.body:
            return None
        return replace(truth, **{name: value(truth) for name, value in how.items()})

    return tell


def _half(truth: Answer) -> int:
    return len(truth.body) // 2


def _slow(asked: Asked, source: Source, values: LieValues) -> Answer | None:
    truth = source.truth()
    return replace(truth, pace=values.seconds / len(truth.body)) if truth.body else None


def _hang(asked: Asked, source: Source, values: LieValues) -> Answer:
    return Answer(0, wait=values.seconds, reset=True)


def _late(asked: Asked, source: Source, values: LieValues) -> Answer:
    return replace(source.truth(), wait=values.seconds)


def _lost(answer: Answer) -> Tell:
    """The service has done it, and its answer is lost."""

    def tell(asked: Asked, source: Source, values: LieValues) -> Answer:
        source.truth()
        return answer

    return tell


def _twice(asked: Asked, source: Source, values: LieValues) -> Answer:
    source.truth()
    return source.truth()


def _stale(asked: Asked, source: Source, values: LieValues) -> Answer | None:
    return source.before() if asked.reading else None


def _accepted(asked: Asked, source: Source, values: LieValues) -> Answer | None:
    """Answers as if a change had been made, without forwarding it."""
    return None if asked.reading else document(202, {})


def _nowhere(asked: Asked, source: Source, values: LieValues) -> Answer | None:
    """Links and catalogs name unreachable addresses, as inside another network."""
    truth = source.truth()
    answer = re.sub(rb"http://127\.0\.0\.1:\d+", b"http://127.0.0.1:9", truth.body)
    return None if answer == truth.body else replace(truth, body=answer)


def _without_request_id(asked: Asked, source: Source, values: LieValues) -> Answer:
    truth = source.truth()
    return replace(truth, headers=tuple(h for h in truth.headers if h[0].lower() != REQUEST_ID))


def _problem(status: int, title: str, message: str) -> Answer:
    return document(status, {"error": {"code": status, "title": title, "message": message}})


def _refused(status: int, **more: str) -> Answer:
    headers: Headers = tuple((name.replace("_", "-"), value) for name, value in more.items())
    return page(status, f"{status} Service Temporarily Unavailable", (*HTML, *headers))


LIES: Mapping[str, Lie] = {
    # 200, and yet not the answer
    "html200": Lie("200 with a maintenance page", said(maintenance())),
    "empty_object200": Lie("200 with {}", said(document(200, {}))),
    "empty_array200": Lie("200 with []", said(document(200, []))),
    "null200": Lie("200 with null", said(document(200, None))),
    "nothing200": Lie("200 without a body", said(Answer(200, JSON))),
    "broken200": Lie(
        "200 with JSON that ends in the middle", said(Answer(200, JSON, b'{"servers": [{"id": "'))
    ),
    "empty_list200": Lie(
        "the right collection with no rows", shaped(_listed_as(lambda rows: type(rows)())), True
    ),
    "null_list200": Lie("the right collection as null", shaped(_listed_as(lambda _: None)), True),
    "object_list200": Lie("the right collection as {}", shaped(_listed_as(lambda _: {})), True),
    "text_list200": Lie('the right collection as ["x"]', shaped(_listed_as(lambda _: ["x"])), True),
    "wrong_list200": Lie("the rows in a collection of another name", shaped(_misnamed), True),
    "hidden_rows": Lie("listings without the rows that match --rows", _hidden_rows, True),
    "stale": Lie("a GET is answered as it was before", _stale),
    "nowhere": Lie("the real answer with unreachable addresses", _nowhere, True),
    # other statuses below 400
    "accepted202": Lie("202 to a change that isn't made", _accepted),
    "no_content204": Lie("204", said(Answer(204))),
    "choices300": Lie("300 with a document of versions", _choices),
    "elsewhere302": Lie("302 to a sign-in page, which answers 200", _redirect(302, ELSEWHERE)),
    "circle302": Lie("302 to the same address", _redirect(302, None)),
    # refusals
    "unauthorized401": Lie(
        "401 as from a service", said(_problem(401, "Unauthorized", "The request requires authentication"))
    ),
    "forbidden403": Lie(
        "403 as from a service", said(_problem(403, "Forbidden", "Policy doesn't allow it to be performed"))
    ),
    "forbidden403_html": Lie("403 with a proxy's page", said(page(403, "403 Forbidden"))),
    "notfound404_html": Lie("404 with a proxy's page", said(page(404, "404 Not Found"))),
    "notfound404_empty": Lie("404 without a body", said(Answer(404))),
    "notfound404_json": Lie(
        "404 with a gateway's JSON document",
        said(document(404, {"message": "no Route matched with those values"})),
    ),
    "notfound404_forged": Lie(
        "404 with a document as OpenStack's, but no request id",
        said(_problem(404, "Not Found", "The resource could not be found.")),
    ),
    "gone410": Lie("410 with a proxy's page", said(page(410, "410 Gone"))),
    "busy429": Lie("429, come back in a second", said(_refused(429, Retry_After="1"))),
    "error500": Lie(
        "500 as from a service", said(_problem(500, "Internal Server Error", "Unexpected API Error"))
    ),
    "gateway502": Lie("502 with a proxy's page", said(page(502, "502 Bad Gateway"))),
    "away503_day": Lie("503, come back in a day", said(_refused(503, Retry_After="86400"))),
    "away503_inf": Lie("503 with Retry-After: inf", said(_refused(503, Retry_After="inf"))),
    "away503_nan": Lie("503 with Retry-After: nan", said(_refused(503, Retry_After="nan"))),
    # real answers, badly delivered
    "cut": Lie("the truth, cut in the middle", _brought(cut=_half), True),
    "longer": Lie(
        "the truth with a Content-Length that is too long", _brought(length=lambda t: len(t.body) + 64), True
    ),
    "shorter": Lie("the truth with a Content-Length that is too short", _brought(length=_half), True),
    "slow": Lie("the truth byte by byte, over --seconds", _slow, True),
    "late": Lie("the truth after --seconds", _late, True),
    "hang": Lie("nothing for --seconds, then a reset", _hang),
    "reset": Lie("a reset; the service never gets the request", said(Answer(0, reset=True))),
    "lost": Lie("a reset after the service has done it", _lost(Answer(0, reset=True)), True),
    "lost504": Lie("504 after the service has done it", _lost(page(504, "504 Gateway Time-out")), True),
    "twice": Lie("the request is delivered twice", _twice, True),
    "no_request_id": Lie("the truth without the service's request id", _without_request_id, True),
}
