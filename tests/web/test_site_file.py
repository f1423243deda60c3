"""The site file in the browser: operators check a text, see what it changes, and activate exactly that."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml

from tests.helpers.consoles import PASSWORD, Browser, Console, hidden
from tests.web.test_in_chromium import axe, check_accessible, tab
from tests.web.test_orders import draft_in
from tests.web.test_site_pages import OLGA
from weft.app.sitefile import checked
from weft.app.yamltext import without_nulls
from weft.model.errors import InputErrors, TemporaryError, UnauthenticatedError
from weft.web.sitefiles import LARGEST
from weft.web.visits import Visit

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

__all__ = ["axe", "tab"]


def text_of(browser: Browser) -> str:
    """The text of the page's text area, without the line break after the tag, as browsers read it."""
    found = re.search(r'<textarea id="text"[^>]*>\n?(.*)</textarea>', browser.page.text, re.DOTALL)
    assert found
    return unescape(found[1])


def current(browser: Browser) -> dict[str, Any]:
    """The active site as the page shows it."""
    assert browser.get("/ui/site/file?current=true").status_code == 200
    return yaml.safe_load(text_of(browser))


def send(browser: Browser, document: dict[str, Any] | str, do: str = "check") -> str:
    """Checks or activates a document, with line breaks as browsers send them; the page's text in one line."""
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    given = {"text": text.replace("\n", "\r\n"), "do": do}
    browser.post("/ui/site/file", {**hidden(browser), **given})
    return browser.text


def test_text_of_the_active_site_changes_nothing(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("olga")
    before = pods_console.house.service.site.show(OLGA).generation
    document = current(browser)
    assert "It is the same as generation" in send(browser, document)
    assert pods_console.house.service.site.show(OLGA).generation == before


def test_changed_site_is_compared_and_then_activated(pods_console: Console, browser: Browser) -> None:
    """Exactly the text that was checked, and only once."""
    browser.sign_in("olga")
    was = pods_console.house.service.site.show(OLGA)
    document = current(browser)
    document["racks"] = [*document.get("racks", []), {"name": "r-new"}]
    document["nodes"][0]["labels"] = ["b7"]
    document["queue"] = {"waiting": 7}
    shown = send(browser, document)
    assert browser.page.status_code == 200
    assert "racks 1: r-new" in shown and f"{document['nodes'][0]['name']} (labels)" in shown
    assert "queue" in shown and f"Compared with generation {was.generation}" in shown
    other = {**document, "queue": {"waiting": 8}}
    assert "check it again" in send(browser, other, "activate") and browser.page.status_code == 409
    assert pods_console.house.service.site.show(OLGA).generation == was.generation
    send(browser, document)
    form = {**hidden(browser), "text": text_of(browser).replace("\n", "\r\n"), "do": "activate"}
    assert browser.post("/ui/site/file", form).status_code == 200
    now = pods_console.house.service.site.show(OLGA)
    assert (now.generation, now.activated_by) == (was.generation + 1, "olga")
    assert f"generation {now.generation}, was activated" in browser.text
    assert browser.post("/ui/site/file", form).status_code == 409, "it was sent twice"
    assert pods_console.house.service.site.show(OLGA).generation == now.generation


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a site file of at most 1 MiB"),
        ("- a\n", "must be a mapping"),
        ("name: [\n", "site.yaml:"),
        ("name: x\nnodes: {csv: /etc/passwd}\n", "can't include files; weft site activate"),
        ("name: x\nnodes:\n- {csv: nodes.csv}\n- {name: a}\n", "can't include files; weft site activate"),
        ("name: x\nnodes:\n- {name: a, colour: red}\n", "colour"),
        ("name: x\n# " + "y" * LARGEST, "at most 1 MiB"),
    ],
)
def test_invalid_text_is_refused_with_its_lines(
    pods_console: Console, browser: Browser, text: str, said: str
) -> None:
    """With field and line; the text is in the form again, and nothing changes."""
    browser.sign_in("olga")
    browser.get("/ui/site/file")
    before = pods_console.house.service.site.show(OLGA).generation
    shown = send(browser, text)
    assert browser.page.status_code == 400 and said in shown, shown[:500]
    assert text_of(browser) == text and "root:" not in shown
    assert pods_console.house.service.site.show(OLGA).generation == before


def test_form_that_is_too_large_is_refused(pods_console: Console, browser: Browser) -> None:
    browser.sign_in("olga")
    browser.get("/ui/site/file")
    send(browser, "\0" * (LARGEST + 100_000))
    assert browser.page.status_code == 413


def test_site_without_a_node_of_a_pod_is_refused(pods_console: Console, browser: Browser) -> None:
    """The page has the reason and the text."""
    pods_console.order()
    browser.sign_in("olga")
    document = current(browser)
    held = {n.name for n in pods_console.house.service.nodes.list(OLGA) if n.pod}
    gone = document["nodes"].pop(next(i for i, n in enumerate(document["nodes"]) if n["name"] in held))
    name = gone["name"]
    document["links"] = [one for one in document["links"] if not one["b"].startswith(f"{name}/")]
    document["interfaces"] = [one for one in document.get("interfaces", []) if one["device"] != name]
    shown = send(browser, document)
    assert f"1: {name}" in shown, shown[:1500]
    shown = send(browser, text_of(browser), "activate")
    assert browser.page.status_code == 409 and f"{name} is missing, but pod" in shown
    assert yaml.safe_load(text_of(browser)) == document


def test_active_site_that_would_be_refused_now_can_be_corrected(
    pods_console: Console, browser: Browser
) -> None:
    """An earlier version of weft accepted it."""
    store, site = pods_console.house.store, pods_console.house.site
    assert site.nodes[0].hcas
    twice = site.nodes[1].model_copy(update={"hcas": site.nodes[0].hcas})
    wrong = site.model_copy(update={"nodes": (site.nodes[0], twice, *site.nodes[2:])})
    with pytest.raises(InputErrors):
        checked(wrong)
    store.activate_site(wrong, "an earlier version")
    browser.sign_in("olga")
    document = current(browser)
    assert "is not allowed" in send(browser, document)
    document["nodes"][1]["hcas"] = without_nulls(site.model_dump(mode="json")["nodes"][1]["hcas"])
    assert f"nodes 1: {twice.name} (hcas)" in send(browser, document)
    send(browser, text_of(browser), "activate")
    assert pods_console.house.service.site.show(OLGA).activated_by == "olga"


@pytest.mark.parametrize("do", ["check", "activate"])
def test_text_is_shown_again_when_the_request_fails(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    """Browsers don't store these pages, so going back wouldn't show it."""
    browser.sign_in("olga")
    document = {**current(browser), "queue": {"waiting": 7}}
    send(browser, document)
    text = text_of(browser)

    def fails(*_: Any, **__: Any) -> None:
        raise TemporaryError("ask", "the database", "no answer", "repeat it later", 5.0)

    site = pods_console.house.service.site
    for verb in ("show", "missing_parts"):
        with monkeypatch.context() as patched:
            patched.setattr(site, verb, fails)
            send(browser, text, do)
        if verb == "missing_parts" and do == "check":
            assert browser.page.status_code == 200
            continue
        assert browser.page.status_code == 503 and "repeat it later" in browser.text
        assert text_of(browser) == text and "No site is active" not in browser.text
        send(browser, text)
        assert "What it changes" in browser.text


@pytest.mark.parametrize("end", ["row", "token"])
def test_text_is_kept_when_the_session_ends(pods_console: Console, browser: Browser, end: str) -> None:
    """Whether the session's row or its token ended; nothing is activated."""
    browser.sign_in("olga")
    document = {**current(browser), "queue": {"waiting": 7}}
    before = pods_console.house.service.site.show(OLGA).generation
    if end == "row":
        browser.cookie = "A" * 43
    else:
        pods_console.keystone.identity.error = UnauthenticatedError("expired")
    send(browser, document)
    pods_console.keystone.identity.error = None
    assert browser.page.status_code == 401 and "text that you sent is kept" in browser.text
    kept = {"draft": draft_in(browser.page), "next": "/site/file?draft=true"}
    given = {"method": "password", "user": "olga", "domain": "Default", "password": PASSWORD}
    browser.post("/ui/sign-in", {**given, **kept})
    assert yaml.safe_load(text_of(browser)) == document
    assert pods_console.house.service.site.show(OLGA).generation == before


@pytest.mark.parametrize("end", ["row", "token"])
def test_long_text_is_shown_to_be_copied_when_the_session_has_ended(
    pods_console: Console, browser: Browser, end: str
) -> None:
    """The sign-in form can't carry it. Only a few such texts are read at the same time."""
    browser.sign_in("olga")
    browser.get("/ui/site/file")
    text = "name: x\n# " + "y" * 300_000 + " end"
    if end == "row":
        browser.cookie = "A" * 43
    else:
        pods_console.keystone.identity.error = UnauthenticatedError("expired")
    send(browser, text)
    assert browser.page.status_code == 401 and "too long to be kept across the sign-in" in browser.text
    assert f"{'y' * 300_000} end</textarea>" in browser.page.text
    pods_console.keystone.identity.error = None
    assert pods_console.app is not None and pods_console.app.state.large_forms == 4
    pods_console.app.state.large_forms, browser.cookie = 0, "A" * 43
    try:
        send(browser, text)
        assert browser.page.status_code == 413
    finally:
        pods_console.app.state.large_forms = 4


def test_text_of_a_user_without_permission_is_not_read(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.sign_in("alice")
    read = list[int]()

    async def form(_: Any, again: Any = None, largest: int = 0) -> dict[str, str]:
        read.append(largest)
        return {}

    monkeypatch.setattr(Visit, "form", form)
    assert browser.post("/ui/site/file", {"text": "name: x"}).status_code == 403 and not read


def test_large_site_is_read_only_up_to_the_pages_limit(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part by part, until the text is too long."""
    part, read = b'[{"name": "%b"}]' % (b"n" * (LARGEST // 3)), list[str]()
    verbs = pods_console.house.service.site
    view = verbs.show(OLGA)
    wide = {**view.document, "nodes": {"parts": [f"{number:064}" for number in range(100)]}}
    monkeypatch.setattr(verbs, "show", lambda _: view.model_copy(update={"document": wide}))
    monkeypatch.setattr(verbs, "part", lambda _, digest: read.append(digest) or part)
    browser.sign_in("olga")
    browser.get("/ui/site/file?current=true")
    assert "the active site is larger than 1 MiB" in browser.text and len(read) == 3 == len(set(read))
    wide["nodes"] = {"parts": ["a" * 64, "b" * 64]}
    assert len(current(browser)["nodes"]) == 2


def test_same_generation_of_a_restored_database_is_another_one(
    pods_console: Console, browser: Browser
) -> None:
    """It has the number of the generation that the text was compared with, but another time."""
    browser.sign_in("olga")
    document = {**current(browser), "queue": {"waiting": 7}}
    send(browser, document)
    before = pods_console.house.service.site.show(OLGA).generation
    with psycopg.connect(pods_console.house.database.url) as connection:
        connection.execute("UPDATE site SET activated_at = activated_at + interval '1 second'")
    assert "check it again" in send(browser, text_of(browser), "activate")
    assert browser.page.status_code == 409
    assert pods_console.house.service.site.show(OLGA).generation == before


@pytest.mark.parametrize("who", ["alice", "sue"])
def test_site_file_is_for_those_who_may_activate_it(
    pods_console: Console, browser: Browser, who: str
) -> None:
    """Tenants and readers get neither text nor form."""
    browser.sign_in(who)
    for answer in (
        browser.get("/ui/site/file"),
        browser.get("/ui/site/file?current=true"),
        browser.post("/ui/site/file", {"text": "name: x", "do": "check"}),
    ):
        assert answer.status_code == 403 and "textarea" not in answer.text


def test_file_is_read_into_the_text_in_chromium(
    pods_console: Console, tab: tuple[Page, list[str]], axe: str, tmp_path: Path
) -> None:
    """It is chosen, checked and activated; the pages are accessible, without messages on the browser's console."""
    page, messages = tab
    page.goto(f"{pods_console.url}/ui/")
    page.fill("#user", "olga")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").first.click()
    page.get_by_role("heading", name="Pods").wait_for()
    page.goto(f"{pods_console.url}/ui/site/file?current=true")
    document = yaml.safe_load(page.locator("#text").input_value())
    document["nodes"][0]["labels"] = ["b7"]
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(document))
    page.get_by_label("Read a file of this machine").set_input_files(file)
    page.get_by_text("mine.yaml is in the text").wait_for()
    other = tmp_path / "other.yaml"
    other.write_bytes("name: Düsseldorf\n".encode("latin-1"))
    page.get_by_label("Read a file of this machine").set_input_files(other)
    page.get_by_text("other.yaml can't be read: it must be a file in UTF-8").wait_for()
    assert page.locator("#text").input_value() == file.read_text()
    check_accessible(page, axe)
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="What it changes").wait_for()
    check_accessible(page, axe)
    before = pods_console.house.service.site.show(OLGA).generation
    page.get_by_role("button", name="Activate").click()
    page.get_by_text(f"generation {before + 1}, was activated").wait_for()
    assert messages == []
