"""Changing a pod in the browser: the order as a form, the difference, and the change that was shown."""

from __future__ import annotations

import re
from html import unescape

from tests.helpers.consoles import Browser, Console, hidden
from tests.web.test_orders import yaml_of
from weft.web import orderforms


def fields_of(browser: Browser) -> dict[str, str]:
    """Texts and chosen options of the form's fields."""
    text = browser.page.text
    found = dict(
        re.findall(
            r'<input id="[^"]+" name="([^"]+)" maxlength="\d+" autocomplete="off" value="([^"]*)"', text
        )
    )
    for name, options in re.findall(r'<select id="[^"]+" name="([^"]+)">(.*?)</select>', text, re.DOTALL):
        found[name] = next(iter(re.findall(r'<option value="([^"]*)" selected', options)), "")
    return {unescape(key): unescape(value) for key, value in found.items()}


def test_shown_change_of_a_pod_is_made(pods_console: Console, browser: Browser) -> None:
    """Without a change there is nothing to do; new nodes are named first; sent twice, the second is refused."""
    house, pod = pods_console.house, pods_console.order()
    house.finish("train")
    browser.sign_in("alice")
    assert "Change the order…" in browser.get(f"/ui/pods/{pod.id}").text
    path = f"/ui/pods/{pod.id}/change"
    page = browser.get(path)
    text, fields = yaml_of(page), fields_of(browser)
    assert fields["nodes.count"] == "2" and "flavor: gpu8" in text
    browser.post(path, {"do": "plan", "yaml": text, **fields})
    assert "Nothing to change" in browser.text
    planned = browser.post(path, {"do": "plan", "yaml": text, **fields, "nodes.count": "4"})
    assert re.search(r"nodes\.count 2 4", browser.text) and "Nodes that come" in browser.text
    assert len(re.findall(r"<text [^>]*>gpu\d+ comes</text>", planned.text)) == 2
    assert house.store.pods.find(str(pod.id), None).generation == 1
    shown = hidden_of_change(browser)
    planned_again, plan = list[object](), house.service.pods.plan
    house.service.pods.plan = lambda *_: planned_again.append(_)  # type: ignore[method-assign, assignment]
    refused = browser.post(path, {"do": "apply", **shown, "change": "0" * 32})
    assert refused.status_code == 409 and "would change something else now" in browser.text
    assert house.store.pods.find(str(pod.id), None).generation == 1
    browser.page = planned
    browser.post(path, {"do": "apply", **shown})
    assert not planned_again, "the change itself compares the difference"
    house.service.pods.plan = plan  # type: ignore[method-assign]
    assert "generation 2" in browser.text
    assert house.finish_change("train").plan.order.nodes.count == 4
    browser.page = planned
    assert browser.post(path, {"do": "apply", **shown}).status_code == 409
    browser.get(path)
    fewer = {**fields_of(browser), "nodes.count": "3", "remove": pod.placed[0].node}
    browser.post(path, {"do": "plan", "yaml": yaml_of(browser.page), **fewer})
    assert "deleted, with everything" in browser.text and pod.placed[0].node in browser.text


def hidden_of_change(browser: Browser) -> dict[str, str]:
    """Hidden fields of the form that makes the change."""
    found = re.findall(
        r'<input type="hidden" name="(\w+)" value="([^"]*)">', browser.page.text.partition('id="plan"')[2]
    )
    return {name: unescape(value) for name, value in found}


def test_impossible_change_says_why_and_has_no_button(pods_console: Console, browser: Browser) -> None:
    """Another image, another name, an unreadable text; a forged form doesn't get around it."""
    house, pod = pods_console.house, pods_console.order()
    house.finish("train")
    browser.sign_in("alice")
    path = f"/ui/pods/{pod.id}/change"
    text = yaml_of(browser.get(path))
    for wrong, said in (
        (text.replace("tiny", "other"), "nodes.image"),
        (text.replace("name: train", "name: other"), "name can't be changed"),
        ("name: [", "order"),
        (text + "nix: 1\n", "nix"),
    ):
        browser.get(path)
        browser.post(path, {"do": "plan-yaml", "yaml": wrong})
        assert browser.page.status_code == 200 and said in browser.text, wrong
        assert "Make generation" not in browser.text, wrong
        forged = browser.post(path, {"do": "apply", "yaml": wrong, "change": "x", "remove": ""})
        assert forged.status_code in (400, 409), wrong
    browser.get(path)
    assert browser.post(path, {"do": "nix", "yaml": text}).status_code == 400
    browser.get(path)
    assert browser.post(path, {"do": "plan", "yaml": text, "remove": "x" * 4001}).status_code == 400
    assert house.store.pods.find(str(pod.id), None).generation == 1


def test_change_page_is_shown_only_to_those_who_may_change_the_pod(
    pods_console: Console, browser: Browser
) -> None:
    """Readers may not; for other projects the pod doesn't exist; operators choose its project first; released pods
    have none."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    for who, status in (("rita", 403), ("bob", 404), ("olga", 409)):
        browser.sign_in(who)
        assert browser.get(f"/ui/pods/{pod.id}/change").status_code == status, who
        browser.get("/ui/")
        assert (
            browser.post(f"/ui/pods/{pod.id}/change", {"do": "plan", "yaml": "name: a"}).status_code == status
        )
    browser.sign_in("alice")
    browser.get(f"/ui/pods/{pod.id}/release")
    browser.post(f"/ui/pods/{pod.id}/release", {**hidden(browser), "name": "train"})
    pods_console.house.finish("train")
    assert browser.get(f"/ui/pods/{pod.id}/change").status_code == 409


def test_storage_is_ordered_by_fields(pods_console: Console, browser: Browser) -> None:
    """Rows of the form become entries and back; an entry that the form can't show stays in the text."""
    browser.sign_in("alice")
    page = browser.get("/ui/order")
    given = {**fields_of(browser), "name": "train", "nodes.flavor": "gpu8", "nodes.image": "tiny"}
    row = {"kind": "share", "name": "data", "mount": "/data", "size": "500GiB", "keep": "true"}
    given |= {f"storage.0.{name}": value for name, value in row.items()}
    page = browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(page), **given})
    entry = orderforms.read(yaml_of(page))["storage"]
    assert entry == [{"share": "data", "mount": "/data", "size": "500GiB", "keep": "true"}]
    again = fields_of(browser)
    assert again["storage.0.kind"] == "share" and again["storage.1.kind"] == ""
    volumes = {
        "storage.1.kind": "volume",
        "storage.1.name": "v",
        "storage.1.mount": "/v",
        "storage.1.existing": "a, b",
    }
    page = browser.post("/ui/order", {"do": "plan", "yaml": yaml_of(page), **again, **volumes})
    assert orderforms.read(yaml_of(page))["storage"][1] == {
        "volume": "v",
        "mount": "/v",
        "existing": ["a", "b"],
    }
    page = browser.post(
        "/ui/order", {"do": "plan", "yaml": yaml_of(page), **fields_of(browser), "storage.0.kind": ""}
    )
    assert [sorted(one) for one in orderforms.read(yaml_of(page))["storage"]] == [
        ["existing", "mount", "volume"]
    ]
    for odd in (
        "storage: nix",
        "storage: [{share: a, volume: b}]",
        "storage: [x]",
        "storage: [{share: a, nix: [1]}]",
    ):
        browser.post("/ui/order", {"do": "plan-yaml", "yaml": f"name: a\n{odd}\n"})
        assert "storage.0.kind" not in browser.page.text and browser.page.status_code == 200
