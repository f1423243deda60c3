"""Lists in pages: each row once, in one order, while others come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from httpx import Client

from weft.api.paging import PageOf, page
from weft.client.asking import Pages, events, listed
from weft.client.transport import Json, Transport
from weft.model.errors import PermanentError
from weft.testing.callers import by


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
    """By name; a page after the last row, or after a row that left, isn't an error."""
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
    """Two of one project may have the names of two of another one."""
    for name in ("a", "b"):
        for user in ("a-member", "b-member"):
            given = {"name": name, "url": "https://hooks.example.org/x"}
            assert api.post("/v1/webhooks", json=given, headers=by(user)).status_code == 201
    found = pages(api, "/v1/webhooks?all_projects=true", "webhooks", 3)
    assert [len(one) for one in found] == [3, 1]
    assert len({(h["project_id"], h["name"]) for one in found for h in one}) == 4
    assert len(pages(api, "/v1/webhooks", "webhooks", 1)) <= 1


def test_leaves_are_in_pages(api: Client) -> None:
    every = api.get("/v1/site/leaves", headers=by("operator")).json()["leaves"]
    found = pages(api, "/v1/site/leaves", "leaves", 2)
    assert [one for leaves in found for one in leaves] == every and len(every) > 2


@pytest.mark.parametrize(
    "path",
    ["nodes", "holds", "reports", "drains", "check-tokens", "reservations", "webhooks", "site/leaves"],
)
@pytest.mark.parametrize("wrong", ["limit=0", "limit=1001", "limit=x", "marker=" + "a" * 1001])
def test_impossible_page_is_refused(api: Client, path: str, wrong: str) -> None:
    """With the parameter's name."""
    answer = api.get(f"/v1/{path}?{wrong}", headers=by("operator"))
    assert answer.status_code == 400 and wrong.partition("=")[0] in answer.text


def test_row_that_leaves_between_pages_moves_no_other() -> None:
    """Also the one that the marker names."""
    rows = [f"n{i}" for i in range(6)]
    first, marker = page(rows, lambda name: (name,), PageOf(limit=3))
    second, end = page(
        [n for n in rows if n != first[-1]], lambda name: (name,), PageOf(limit=3, marker=marker)
    )
    assert (first, second, end) == (("n0", "n1", "n2"), ("n3", "n4", "n5"), None)


def test_client_reads_page_after_page() -> None:
    """With the parameters that were given, which the marker joins."""
    asked = list[str]()

    def ask(_: str, path: str) -> Json:
        asked.append(path)
        return {"tokens": [len(asked)], **({"next": "a/b"} if len(asked) == 1 else {})}

    assert listed(ask, "/v1/check-tokens", "tokens", node="gpu01", other=None) == [1, 2]
    assert asked == ["/v1/check-tokens?node=gpu01", "/v1/check-tokens?node=gpu01&marker=a%2Fb"]


def test_repeated_page_fails_the_listing() -> None:
    """Something in front of the API that drops the query would be asked without an end."""
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
