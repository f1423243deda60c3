"""A refused form is shown again with its input and the reason, and nothing is changed."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.helpers.consoles import Browser, Console, hidden
from tests.web.test_orders import yaml_of
from tests.web.test_pod_changes import fields_of, hidden_of_change
from tests.web.test_site_pages import OLGA
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.web import orderforms


def typed(browser: Browser) -> dict[str, str]:
    """Values of the form's text fields."""
    main = browser.page.text.partition("<main")[2]
    found = re.findall(
        r'<input id="[^"]+" name="([^"]+)" maxlength="\d+" autocomplete="off" value="([^"]*)"', main
    )
    return {unescape(name): unescape(value) for name, value in found}


@pytest.mark.parametrize(
    ("path", "to", "wrong", "said"),
    [
        ("drain", "drain/plan", {"by": "tomorrow"}, "by: 'tomorrow' is not allowed"),
        ("drain", "drain/plan", {"target": "no-such-node", "by": ""}, "no-such-node"),
        ("nodes/NODE/hold", "nodes/NODE/hold", {"what": "w" * 201}, "at most 200 characters"),
        ("nodes/NODE/quarantine", "nodes/NODE/quarantine", {"reason": "<b>" * 200}, "at most 500 characters"),
        ("reservations/new", "reservations/new", {"start": "<now>"}, "start"),
    ],
)
def test_refused_form_of_an_operator_keeps_its_text(
    pods_console: Console, browser: Browser, path: str, to: str, wrong: dict[str, str], said: str
) -> None:
    node = pods_console.house.service.nodes.list(OLGA)[0].name
    path, to = path.replace("NODE", node), to.replace("NODE", node)
    browser.sign_in("olga")
    browser.get(f"/ui/site/{path}")
    given = {name: f"{name} & <i>text</i>" for name in typed(browser)} | wrong
    answer = browser.post(f"/ui/site/{to}", {**hidden(browser), **given})
    assert 400 <= answer.status_code < 500 and said in browser.text
    assert typed(browser) == given and "<i>text" not in answer.text and "<b><b>" not in answer.text
    assert not pods_console.house.service.nodes.list(OLGA)[0].holds


def test_refused_form_of_a_webhook_keeps_its_input(pods_console: Console, browser: Browser) -> None:
    """Also if its name was used meanwhile; readers get no form."""
    browser.sign_in("alice")
    given = {"name": "ops", "url": "https://hooks.example.org/x", "events": "NODE_"}
    for wrong in ({"url": "http://hooks.example.org/"}, {"name": "O P S"}, {"events": "; ;"}, {}, {}):
        browser.get("/ui/webhooks/new")
        answer = browser.post("/ui/webhooks/new", {**given, **wrong})
        if answer.status_code != 200:
            assert typed(browser) == {**given, **wrong}
    assert answer.status_code == 409
    browser.sign_in("rita")
    browser.get("/ui/order")
    answer = browser.post("/ui/webhooks/new", {**given, "name": ""})
    assert answer.status_code in (400, 403) and 'name="url"' not in answer.text


def test_refused_confirmation_keeps_the_reason_but_not_the_name(
    pods_console: Console, browser: Browser
) -> None:
    """The pod's state beside it may have changed, so the name is typed again."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    pods_console.house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    browser.sign_in("olga")
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {"name": "train"})
    pods_console.house.worker.run_once()
    browser.get(f"/ui/pods/{pod.id}/abandon")
    browser.post(
        f"/ui/pods/{pod.id}/abandon", {**hidden(browser), "reason": "switch is gone", "name": "trian"}
    )
    assert "'trian' is not allowed" in browser.text
    assert typed(browser) == {"reason": "switch is gone", "name": ""}


def test_change_to_the_name_of_another_pod_is_refused(pods_console: Console, browser: Browser) -> None:
    """Whether planned or applied: it would show the other pod's difference."""
    pod = pods_console.order()
    other = pods_console.order(name="serve")
    browser.sign_in("alice")
    path = f"/ui/pods/{pod.id}/change"
    page = browser.get(path)
    given = {"yaml": yaml_of(page), **fields_of(browser), "name": "serve", "nodes.count": "4"}
    browser.post(path, {"do": "plan", **given})
    assert "name: 'serve' is not allowed" in browser.text and "Nodes that come" not in browser.text
    assert "change" not in hidden_of_change(browser)
    answer = browser.post(path, {"do": "apply", **given})
    assert answer.status_code in (400, 409)
    pods = pods_console.house.store.pods
    assert [pods.find(one.id, None).generation for one in (pod, other)] == [1, 1]


@pytest.mark.parametrize("do", ["plan-yaml", "apply"])
def test_text_of_a_change_is_kept_when_the_session_ends(
    pods_console: Console, browser: Browser, do: str
) -> None:
    """After signing in it is in the same pod's form, and nothing was changed."""
    pod = pods_console.order()
    browser.sign_in("alice")
    path = f"/ui/pods/{pod.id}/change"
    text = yaml_of(browser.get(path)) + "# my long text\n"
    csrf = hidden(browser)["csrf"]
    browser.cookie = ""
    browser.post(path, {"do": do, "yaml": text, "csrf": csrf})
    assert "The text that you sent is kept" in browser.text
    fields = hidden(browser)
    given = {"method": "password", "user": "alice", "domain": "Default", "password": "correct horse"}
    browser.post("/ui/sign-in", {**fields, **given})
    browser.post("/ui/project", {**hidden(browser), "project": "id-of-team-a"})
    assert "Change pod train" in browser.text and "# my long text" in yaml_of(browser.page)
    assert browser.page.url.path == path


def test_storage_entry_without_a_kind_is_refused(pods_console: Console, browser: Browser) -> None:
    """It stays in the form; an existing entry whose kind is emptied is removed."""
    browser.sign_in("alice")
    browser.get("/ui/order")
    given = {"name": "train", "nodes.count": "2", "nodes.flavor": "gpu8", "nodes.image": "tiny"}
    row = {
        "storage.0.kind": "",
        "storage.0.name": "data",
        "storage.0.mount": "/data",
        "storage.0.size": "5GiB",
    }
    browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **given, **row})
    assert "storage" in browser.text.partition("Plan ")[2] and "It fits now" not in browser.text
    kept = fields_of(browser)
    assert {name: kept.get(name) for name in row} == row
    browser.post(
        "/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **kept, "storage.0.kind": "share"}
    )
    assert orderforms.read(yaml_of(browser.page))["storage"] == [
        {"share": "data", "mount": "/data", "size": "5GiB"}
    ]
    kept = fields_of(browser)
    browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(browser.page), **kept, "storage.0.kind": ""})
    assert "storage" not in orderforms.read(yaml_of(browser.page))
