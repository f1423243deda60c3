"""Lists in pages: each row once, in a stable order, while rows come and go."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.paths import DOCS
from weft.api.paging import PageOf, page
from weft.client.asking import Pages, events, listed, whole
from weft.client.transport import Json, Transport
from weft.model.errors import PermanentError
from weft.testing.callers import by

ONE = "of one thing, and no longer than that has parts"
BOUNDED = "has a limit of its own, which the document says"
NOT_PAGED = {
    "/v1/pods/{name}": ONE,
    "/v1/pods/{name}/receipt": "signed as a whole",
    "/v1/pods/{name}/health": ONE,
    "/v1/pods/{name}/map": ONE,
    "/v1/pods/{name}/links": BOUNDED,
    "/v1/pods/{name}/bandwidth/plan": "read by weft-check as one file",
    "/v1/pods/{name}/topograph/v2/instances": "topograph reads it as one list",
    "/v1/bandwidth/plan": "of the nodes that are named in it",
    "/v1/webhooks/{name}": ONE,
    "/v1/nodes/{name}": ONE,
    "/v1/nodes/{name}/health": ONE,
    "/v1/nodes/{name}/checks": ONE,
    "/v1/networks/{name}": ONE,
    "/v1/networks/{name}/receipt": "signed as a whole",
    "/v1/reservations/{name}": ONE,
    "/v1/parts/{serial}/history": BOUNDED,
    "/v1/links": "the directions of one cable",
    "/v1/capacity": "a row by level and type, not by node",
    "/v1/capacity/history": BOUNDED,
    "/v1/search": BOUNDED,
    "/v1/monitoring/targets": "Prometheus reads it as one list",
    "/v1/site": "managers of the site's fabrics",
    "/v1/site/fabrics": "managers of the site's fabrics",
    "/v1/site/health": "a row by group, not by node",
    "/v1/site/impact": BOUNDED,
    "/v1/site/who-disturbs": BOUNDED,
    "/v1/site/plan": "one plan: what is applied is the whole",
    "/v1/site/differences": "one comparison with one reading: what is adopted is the whole",
    "/v1/site/receipt": "signed as a whole",
    "/v1/site/parts/{name}": "a part of a table: it is the page",
}
"""Paths of documents whose lists have no pages, and why."""


def test_every_list_of_the_api_is_in_pages() -> None:
    """Exceptions are listed with their reasons; an exception without its list is an error."""
    described: dict[str, Any] = json.loads((DOCS / "schemas" / "openapi.json").read_text())

    def meant(schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            schema = described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return schema

    lists: dict[str, set[str]] = {}
    for path, verbs in described["paths"].items():
        found = verbs.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        schema = meant(found.get("application/json", {}).get("schema", {}))
        kinds = {meant(one).get("type") for one in (schema, *schema.get("properties", {}).values())}
        if "array" in kinds:
            lists[path] = {p["name"] for p in verbs["get"].get("parameters", ()) if p["in"] == "query"}
    paged = {path for path, names in lists.items() if names & {"marker", "after", "before", "offset"}}
    assert len(paged) > 15 and {*lists} - paged == {*NOT_PAGED}


def pages(api: Client, path: str, rows: str, limit: int) -> list[list[Json]]:
    """All pages of a list."""
    found, marker = list[list[Json]](), ""
    while True:
        more = httpx.QueryParams(path.partition("?")[2])
        more = more.merge({"limit": limit, **({"marker": marker} if marker else {})})
        answer = api.get(path.partition("?")[0], params=more, headers=by("operator"))
        assert answer.status_code == 200, answer.text
        found.append(answer.json()[rows])
        marker = answer.json().get("next", "")
        if not marker:
            return found
        assert len(found) < 100


def test_nodes_in_pages_are_all_nodes_once(api: Client) -> None:
    """By name; a marker after the last row, or of a row that is gone, isn't an error."""
    every = api.get("/v1/nodes", headers=by("operator")).json()
    names = [n["name"] for n in every["nodes"]]
    assert "next" not in every and names == sorted(names) and len(names) > 3
    found = pages(api, "/v1/nodes", "nodes", 3)
    assert [n["name"] for one in found for n in one] == names and {len(one) for one in found[:-1]} == {3}
    assert pages(api, "/v1/nodes", "nodes", len(names)) == [every["nodes"]], "no empty page at the end"
    beyond = api.get("/v1/nodes", params={"marker": "zzz"}, headers=by("operator")).json()
    assert beyond == {"nodes": []}


def test_holds_of_one_node_continue_on_the_next_page(api: Client) -> None:
    """A marker names the hold, not its node alone."""
    for what in ("a b/c&d", "burn-in", "ü"):
        assert api.put("/v1/nodes/gpu01/hold", json={"what": what}, headers=by("operator")).status_code == 200
    assert api.put("/v1/nodes/gpu02/hold", json={"what": "x"}, headers=by("operator")).status_code == 200
    found = pages(api, "/v1/holds", "holds", 2)
    assert [(h["node"], h["what"]) for one in found for h in one] == [
        *(("gpu01", what) for what in ("a b/c&d", "burn-in", "ü")),
        ("gpu02", "x"),
    ]


def test_webhooks_of_all_projects_are_in_pages(api: Client) -> None:
    """Two projects may have webhooks of the same names."""
    for name in ("a", "b"):
        for user in ("a-member", "b-member"):
            given = {"name": name, "url": "https://hooks.example.org/x"}
            assert api.post("/v1/webhooks", json=given, headers=by(user)).status_code == 201
    found = pages(api, "/v1/webhooks?all_projects=true", "webhooks", 3)
    assert [len(one) for one in found] == [3, 1]
    assert len({(h["project_id"], h["name"]) for one in found for h in one}) == 4
    assert len(pages(api, "/v1/webhooks", "webhooks", 1)) <= 1


def test_no_webhook_is_beyond_the_last_page(api: Client, doors: DoorsHouse) -> None:
    """Markers are compared by bytes, as the rows are sorted, whatever the database's collation is."""
    for name in ("Z", "a-b", "a", "b", "a0"):
        made = {"name": name, "url": "https://hooks.example.org/x"}
        assert api.post("/v1/webhooks", json=made).status_code in (201, 400)
    every = [h["name"] for h in api.get("/v1/webhooks").json()["webhooks"]]
    found = pages(api, "/v1/webhooks?all_projects=true", "webhooks", 1)
    assert [h["name"] for one in found for h in one] == every == sorted(every) and len(every) >= 4
    doors.multiply("a", 10_000, "webhook")
    found = pages(api, "/v1/webhooks?all_projects=true", "webhooks", 1000)
    assert sum(map(len, found)) == len(every) + 10_000


def test_health_of_nodes_is_in_pages(api: Client) -> None:
    every = api.get("/v1/site/health/nodes", headers=by("operator")).json()["nodes"]
    found = pages(api, "/v1/site/health/nodes", "nodes", 3)
    assert [one["node"] for nodes in found for one in nodes] == sorted(one["node"] for one in every)
    health = every[0]["health"]
    some = pages(api, f"/v1/site/health/nodes?health={health}", "nodes", 2)
    assert {one["health"] for nodes in some for one in nodes} == {health}


def test_use_is_in_pages(api: Client) -> None:
    """The first page's `until` goes with the requests for the others, so that all are of one moment."""
    for name in ("train", "other", "third"):
        given = {**ORDER, "name": name, "nodes": {**ORDER["nodes"], "count": 1}}
        assert api.post("/v1/pods", json=given).status_code == 202
    path = "/v1/use?all_projects=true&since=2026-12-31T00:00Z&until=2027-02-01T00:00Z"
    found = pages(api, path, "rows", 2)
    assert [len(rows) for rows in found] == [2, 1]
    assert [row["pod"] for rows in found for row in rows] == ["other", "third", "train"]


def test_loads_of_nodes_are_in_pages(api: Client) -> None:
    """With what couldn't be read on each node."""
    every = api.get("/v1/site/loads", headers=by("operator")).json()
    page_ = api.get("/v1/site/loads?limit=1", headers=by("operator")).json()
    assert page_["nodes"] == sorted(every["nodes"], key=lambda one: one["node"])[:1]
    assert page_["unread"] == every["unread"]


def test_findings_are_in_pages(api: Client, doors: DoorsHouse) -> None:
    api.post("/v1/pods", json={**ORDER, "nodes": {**ORDER["nodes"], "count": 1}})
    pod = doors.finish("train")
    for _ in range(3):
        doors.orphan(pod)
    every = api.get("/v1/audit", headers=by("operator")).json()["findings"]
    found = pages(api, "/v1/audit", "findings", 2)
    assert [one["key"] for one in every] == [one["key"] for some in found for one in some]
    assert len(every) >= 3 and len(found) == (len(every) + 1) // 2


def test_leaves_are_in_pages(api: Client) -> None:
    every = api.get("/v1/site/leaves", headers=by("operator")).json()["leaves"]
    found = pages(api, "/v1/site/leaves", "leaves", 2)
    assert [one for leaves in found for one in leaves] == every and len(every) > 2


@pytest.mark.parametrize(
    "path",
    [
        *("nodes", "holds", "reports", "drains", "check-tokens", "reservations", "webhooks", "site/leaves"),
        *("site/health/nodes", "site/loads", "site/resources", "audit"),
    ],
)
@pytest.mark.parametrize("wrong", ["limit=0", "limit=1001", "limit=x", "marker=" + "a" * 1001])
def test_impossible_page_is_refused(api: Client, path: str, wrong: str) -> None:
    """400 with the parameter's name."""
    answer = api.get(f"/v1/{path}?{wrong}", headers=by("operator"))
    assert answer.status_code == 400 and wrong.partition("=")[0] in answer.text


def test_removed_row_between_pages_moves_no_other() -> None:
    """Also if it is the row that the marker names."""
    rows = [f"n{i}" for i in range(6)]
    first, marker = page(rows, lambda name: (name,), PageOf(limit=3))
    second, end = page(
        [n for n in rows if n != first[-1]], lambda name: (name,), PageOf(limit=3, marker=marker)
    )
    assert (first, second, end) == (("n0", "n1", "n2"), ("n3", "n4", "n5"), None)


def test_client_reads_page_after_page() -> None:
    """The marker is added to the parameters of the first request."""
    asked = list[str]()

    def ask(_: str, path: str) -> Json:
        asked.append(path)
        return {"tokens": [len(asked)], **({"next": "a/b"} if len(asked) == 1 else {})}

    assert listed(ask, "/v1/check-tokens", "tokens", node="gpu01", other=None) == [1, 2]
    assert asked == ["/v1/check-tokens?node=gpu01", "/v1/check-tokens?node=gpu01&marker=a%2Fb"]


def test_client_reads_the_rows_of_all_pages_into_the_first_document() -> None:
    """`until` of the first page goes with the requests for the others."""
    asked = list[str]()

    def ask(_: str, path: str) -> Json:
        asked.append(path)
        return {"until": f"t{len(asked)}", "rows": [len(asked)], **({"next": "m"} if len(asked) < 2 else {})}

    assert whole(ask, "/v1/use", "rows", "until", by="pod", until=None) == {"until": "t1", "rows": [1, 2]}
    assert asked == ["/v1/use?by=pod", "/v1/use?by=pod&until=t1&marker=m"]


def test_repeated_page_fails_the_listing() -> None:
    """A proxy that drops the query would make the client ask without end."""
    asked: list[str] = []

    def first(method: str, path: str, **_: float) -> Json:
        asked.append(path)
        return {"nodes": [{"name": "a"}], "events": [{"sequence": 1}], "next": "a"}

    with pytest.raises(PermanentError, match="begins at 'a' for the second time"):
        listed(first, "/v1/nodes", "nodes")
    assert asked == ["/v1/nodes", "/v1/nodes?marker=a"]
    with pytest.raises(PermanentError, match="second time"):
        events(cast(Transport, SimpleNamespace(ask=first)), "/v1/pods/train", {"after": 0})
    assert len(asked) == 4
    pages = Pages()
    assert [pages.after({"next": n}) for n in (3, 2, 1, None)] == [3, 2, 1, None]
