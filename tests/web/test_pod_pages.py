"""Pages of pods: contents, who may see them, and escaping."""

from __future__ import annotations

from hashlib import sha256
from html import unescape

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.helpers.consoles import Browser, Console
from tests.helpers.paths import ROOT
from weft.testing.serving import served
from weft.web.problems import problem_page

HOSTILE = '<script>alert("1")</script>{{ 7 * 7 }}'


def test_pods_are_listed_and_one_is_shown(pods_console: Console, browser: Browser) -> None:
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("alice")
    assert "train" in browser.text and "READY" in browser.text
    browser.get(f"/ui/pods/{pod.id}")
    for shown in ("Pod train", "READY", "Health", "Servers", "ssh ", "segment 0x", "Events"):
        assert shown in browser.text, shown
    assert (
        browser.get("/ui/?state=FAILED").status_code == 200
        and "No pod of this project is FAILED" in browser.text
    )
    assert browser.get("/ui/?state=NONE").status_code == 400


def test_list_of_pods_comes_in_pages(pods_console: Console, browser: Browser) -> None:
    pods_console.order()
    pods_console.house.multiply("train", 120)
    browser.sign_in("alice")
    seen: list[str] = []
    for _ in range(3):
        seen += [line for line in browser.page.text.splitlines() if '<th scope="row">' in line]
        following = [part.split('"')[0] for part in browser.page.text.split('href="') if "Next page" in part]
        if following:
            browser.get(following[-1].replace("&amp;", "&"))
    assert len(seen) == len(set(seen)) == 121


def test_pod_of_another_project_is_not_found(pods_console: Console, browser: Browser) -> None:
    """Like one that doesn't exist."""
    pod = pods_console.order()
    browser.sign_in("bob")
    pages = [browser.get(f"/ui/pods/{name}") for name in (str(pod.id), "train", "nosuch", "a%00b", "x" * 300)]
    assert [page.status_code for page in pages] == [404] * 5
    assert "train" not in browser.get("/ui/").text


def test_newest_of_many_events_are_shown(pods_console: Console, browser: Browser) -> None:
    """From more than 20,000; the live stream continues after the last one."""
    pod = pods_console.order()
    with psycopg.connect(pods_console.house.database.url) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) "
            "SELECT %s, now(), 'step', to_jsonb('number ' || n) FROM generate_series(1, 20500) n",
            [pod.id],
        )
        last = connection.execute("SELECT max(sequence) FROM event").fetchone()
    browser.sign_in("olga")
    text = browser.get(f"/ui/pods/{pod.id}").text
    assert "number 20500" in text and "number 20301" in text and "number 20300" not in text
    assert last and f"live?after={last[0]}" in text and "The newest 200" in text


def test_hostile_names_are_escaped(pods_console: Console, browser: Browser) -> None:
    """Names of pods, events, states, projects and paths."""
    pod = pods_console.order()
    with psycopg.connect(pods_console.house.database.url) as connection:
        connection.execute("UPDATE pod SET name = %s", [HOSTILE])
    with pods_console.house.database.transaction() as tx:
        values = {"owner_id": pod.id, "at": tx.now(), "type": "step", "key": None}
        tx.many("insert_event", [{**values, "message": Jsonb(HOSTILE)}])
    browser.sign_in("olga")
    paths = (
        "/ui/",
        f"/ui/pods/{pod.id}",
        "/ui/%3Cscript%3E",
        "/ui/?state=%3Cscript%3E",
        "/ui/problems/%3Cscript%3E",
    )
    for path in paths:
        assert "<script>" not in browser.get(path).text, path
    assert HOSTILE in unescape(browser.get(f"/ui/pods/{pod.id}").text)


def test_every_answer_has_security_headers(console: Console, browser: Browser) -> None:
    """Errors, files and redirects, too; pages aren't kept by caches."""
    answers = {
        path: browser.client.get(path)
        for path in (
            "/ui",
            "/ui/",
            "/ui/sign-in",
            "/ui/nosuch",
            "/ui/static/console.css",
            "/ui/static/../app.py",
        )
    }
    answers["method"] = browser.client.delete("/ui/sign-in")
    answers["large"] = browser.client.post(
        "/ui/sign-in",
        content="a=" + "b" * 300_000,
        headers={"Content-Type": "application/x-www-form-urlencoded"},
    )
    answers["kind"] = browser.client.post("/ui/sign-in", json={})
    for path, answer in answers.items():
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert "unsafe" not in answer.headers["content-security-policy"]
    assert answers["/ui/sign-in"].headers["cache-control"] == "no-store"
    assert "immutable" in answers["/ui/static/console.css"].headers["cache-control"]
    codes = {path: answer.status_code for path, answer in answers.items()}
    assert (codes["/ui/nosuch"], codes["method"], codes["large"], codes["kind"]) == (404, 405, 413, 415)


def test_internal_error_is_a_page_without_details(
    console: Console, browser: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    """With the headers, and the request's id, to find it in the log."""

    class Broken:
        def begin(self, *_: object) -> None:
            raise RuntimeError("secret detail")

        def find(self, key: str) -> None:
            raise RuntimeError("secret detail")

    app = console.process()
    app.state.sessions = Broken()
    with served(app) as url, Browser(url) as other:
        other.cookie = "A" * 43
        page = other.get("/ui/")
        assert page.status_code == 500 and "secret" not in page.text and "req-" in page.text
    assert "secret detail" in caplog.text


def test_code_has_a_page_in_the_console(console: Console, browser: Browser) -> None:
    """Made from docs/problems, without signing in; links to files that the console doesn't serve are text."""
    browser.get("/ui/problems/IN_QUEUE")
    assert "The order is in the queue" in browser.text and "How to get out" in browser.text
    assert ".md" not in browser.page.text.split("<main")[1]
    assert browser.get("/ui/problems/NO_SUCH_CODE").status_code == 404
    found = problem_page("NODES_OF_PROJECT")
    assert found is not None and "<code>weft site check FILE</code>" in found.own


def test_scripts_of_third_parties_have_the_pinned_digests() -> None:
    """Each has its licence beside it."""
    folder = ROOT / "src/weft/web/static/vendor"
    sums = dict(line.split("  ")[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert sums.keys() == {file.name for file in folder.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert sha256((folder / name).read_bytes()).hexdigest() == digest, name
        assert name.endswith(".txt") or f"{name.removesuffix('.js')}.LICENSE.txt" in sums
