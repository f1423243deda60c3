"""The map of a pod and the picture of the site: what is desired beside what was read; unread is never shown as
desired."""

from __future__ import annotations

import re
from typing import get_args
from xml.etree import ElementTree

import pytest

from tests.helpers.consoles import Browser, Console
from tests.helpers.doors import ORDER
from weft.app.verbs import Request
from weft.generate.sitepicture import COLOURS, Box, picture
from weft.model.errors import TemporaryError, UnknownError
from weft.model.linkreading import TimedRoutes
from weft.model.order import Order
from weft.model.views import HealthValue, PodMap
from weft.testing.callers import caller
from weft.web.sitepictures import LOADS

OLGA = Request(caller("olga", "admin", "admin"), "127.0.0.1", "req-0")


HEALTHS: tuple[str, ...] = get_args(HealthValue)


def seen(console: Console) -> PodMap:
    pod = console.house.store.pods.find("train", "id-of-team-a")
    return console.house.service.pods.map(OLGA, str(pod.id))


def silent(*_: object, **__: object) -> None:
    raise TemporaryError("read", "the manager", "timed out", "try again")


def test_pod_is_shown_down_to_its_leaf_ports(pods_console: Console, browser: Browser) -> None:
    """Each port with node, server, membership and cable; tenants have no such page."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    found = seen(pods_console)
    nodes = {one.node for one in pod.placed}
    assert {port.node for port in found.ports} == nodes and found.segment and found.further == 0
    for port in found.ports:
        assert not port.differs and port.wanted and port.seen == "in"
        assert port.held and port.held_since and port.server_id and port.server_state == "settled"
        assert port.leaf_seen == port.leaf_wanted and "port" in port.leaf_wanted
    assert found.members_age is not None and found.cables_age is not None
    browser.sign_in("olga")
    assert f"/ui/site/pods/{pod.id}/map" in browser.get(f"/ui/pods/{pod.id}").text
    browser.get(f"/ui/site/pods/{pod.id}/map")
    assert "ports listed are as wanted" in browser.text
    browser.sign_in("alice")
    assert "/map" not in browser.get(f"/ui/pods/{pod.id}").text
    assert browser.get(f"/ui/site/pods/{pod.id}/map").status_code == 403
    browser.sign_in("bob")
    assert browser.get(f"/ui/site/pods/{pod.id}/map").status_code in (403, 404)


def test_unread_members_and_cables_are_unknown(pods_console: Console, browser: Browser) -> None:
    """If members can't be read, cables still are, and the other way round."""
    pod = pods_console.order()
    house = pods_console.house
    house.finish("train")
    browser.sign_in("olga")
    topology = house.fabric.topology
    house.fabric.topology = silent  # type: ignore[assignment]
    found = seen(pods_console)
    assert {port.seen for port in found.ports} == {"in"} and all(port.differs for port in found.ports)
    assert found.cables_age is None and "timed out" in found.cables_unread
    house.fabric.topology, house.fabric.snapshot = topology, silent  # type: ignore[assignment]
    found = seen(pods_console)
    assert {port.seen for port in found.ports} == {"unknown"} and all(port.differs for port in found.ports)
    browser.get(f"/ui/site/pods/{pod.id}/map")
    assert "timed out" in browser.text and "aren't as wanted, or that isn't known" in browser.text


def test_port_that_differs_is_listed_first(pods_console: Console) -> None:
    """A port whose cable isn't discovered any more."""
    pods_console.order()
    house = pods_console.house
    house.finish("train")
    first = seen(pods_console).ports[-1]
    links = house.fabric.topology().links
    node = house.site.node_by_name[first.node]
    guid = next(hca.guid for hca in node.hcas if hca.name == first.adapter)
    whole = house.fabric.topology()
    fewer = whole.model_copy(
        update={"links": tuple(pair for pair in links if guid not in (pair[0].guid, pair[1].guid))}
    )
    house.fabric.topology = lambda: fewer
    now = seen(pods_console).ports
    assert now[0].port == first.port and now[0].leaf_seen == "" and now[0].differs and not now[1].differs


def test_waiting_pod_has_no_map_yet(pods_console: Console) -> None:
    """It is on no fabric, which the map says."""
    pods_console.house.fill()
    pods_console.order(queue=True)
    found = seen(pods_console)
    assert not found.ports and "no fabric" in found.members_unread


def test_site_is_shown_as_a_picture_and_a_table(pods_console: Console, browser: Browser) -> None:
    """Nodes by leaf or rack with their states; the SVG has neither styles nor scripts, and links to nodes."""
    pods_console.order()
    pods_console.house.store.quarantine("gpu09", "fan")
    browser.sign_in("olga")
    for by in ("leaf", "rack"):
        browser.get(f"/ui/site/picture?by={by}")
        assert f"/ui/site/picture.svg?by={by}" in browser.page.text and "quarantined" in browser.text
        answer = browser.get(f"/ui/site/picture.svg?by={by}")
        assert answer.headers["content-type"].startswith("image/svg+xml")
        root = ElementTree.fromstring(answer.text)
        links = [one.get("href") for one in root.iter("{http://www.w3.org/2000/svg}a")]
        assert "/ui/site/nodes/gpu09" in links and len(links) == len(set(links))
        assert COLOURS["quarantined"] in answer.text and COLOURS["busy"] in answer.text
        assert "style" not in answer.text and "script" not in answer.text
    assert browser.get("/ui/site/picture?by=nix").status_code == 400
    assert browser.get("/ui/site/picture.svg?by=nix").status_code == 400
    assert "No more" not in browser.get("/ui/site/picture?page=99").text
    browser.sign_in("alice")
    assert (
        browser.get("/ui/site/picture").status_code == browser.get("/ui/site/picture.svg").status_code == 403
    )


def test_picture_of_a_large_site_is_bounded() -> None:
    """With more than a thousand nodes leaves are bars; from 2,000 leaves on the rest is counted; names are
    escaped."""
    boxes = [
        Box(f"<leaf{n}>", f"leaf={n}", f"block{n // 50}", [(f"n{n}-{m}", "free") for m in range(8)], 3200)
        for n in range(2100)
    ]
    text = picture("16,800 nodes", boxes, "/ui/site/nodes")
    assert re.search(r'^<svg [^>]*viewBox="0 0 1600 (\d+)" width="1600" height="\1"', text), (
        "opened alone, its letters keep their size"
    )
    ElementTree.fromstring(text)
    assert "n7-1" not in text and "100 more are not drawn" in text and len(text) < 2_000_000
    small = picture("8 nodes", boxes[:1], "/ui/site/nodes")
    assert "n0-1" in small and "&lt;leaf0&gt;" in small and "<leaf0>" not in small
    ElementTree.fromstring(picture("no nodes", [], "/ui/site/nodes"))


def test_canvas_gets_each_node_with_its_colors(pods_console: Console, browser: Browser) -> None:
    """By state, pod, project and health, in the order of the boxes; refused to tenants."""
    pod = pods_console.order()
    bob = Request(pods_console.keystone.users["bob"][1], "127.0.0.1", "req-0")
    other = pods_console.house.service.pods.create(bob, Order.model_validate(ORDER))
    pods_console.house.store.quarantine("gpu09", "fan")
    browser.sign_in("olga")
    assert "/ui/site/picture.json?by=rack" in browser.get("/ui/site/picture?by=rack").text
    for by in ("leaf", "rack"):
        found = browser.get(f"/ui/site/picture.json?by={by}").json()
        names = found["nodes"]
        assert sum(box["nodes"] for box in found["boxes"]) == len(names) == len(set(names))
        seen = {
            kind: dict(zip(names, (found["values"][kind][n] for n in row), strict=True))
            for kind, row in found["colors"].items()
        }
        assert seen["state"]["gpu09"] == "quarantined" and seen["state"][pod.placed[0].node] == "busy"
        mine, theirs = pod.placed[0].node, other.placed[0].node
        assert (seen["pod"][mine], seen["pod"][theirs]) == ("train of id-of-team-a", "train of id-of-team-b")
        assert seen["project"]["gpu09"] == seen["pod"]["gpu09"] == ""
        assert set(seen) == {"state", "pod", "project", "health"} and set(seen["health"].values()) <= {
            *HEALTHS
        }
        assert set(found["fixed"]["health"]) == {*HEALTHS}, "the key has every health"
    assert browser.get("/ui/site/picture.json?by=nix").status_code == 400
    browser.sign_in("alice")
    assert browser.get("/ui/site/picture.json").status_code == 403


def test_canvas_gets_loads_from_a_request_of_its_own(
    pods_console: Console, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each node's step if its links' load is known, or why it isn't; for those who may see links."""
    browser.sign_in("olga")
    assert '<option value="load">' in browser.get("/ui/site/picture").text
    found = browser.get("/ui/site/picture-load.json").json()
    assert found["values"] == [*LOADS] == [*found["fixed"]] and found["unread"] == {}
    assert set(found["nodes"].values()) == {0} and {"gpu01", "gpu16"} <= found["nodes"].keys()

    def silent_agent(max_age: float) -> TimedRoutes:
        raise UnknownError("read routes", "ib0", "no answer")

    monkeypatch.setattr(pods_console.house.fabric, "routes", silent_agent)
    found = browser.get("/ui/site/picture-load.json").json()
    assert found["nodes"] == {} and found["unread"].keys() == {"ib0"}
    browser.sign_in("alice")
    assert browser.get("/ui/site/picture-load.json").status_code == 403


def test_canvas_of_an_unchanged_site_is_not_sent_again(pods_console: Console, browser: Browser) -> None:
    """304 for the last answer's tag, only for those who may see the site; changes show at once."""
    store = pods_console.house.store
    browser.sign_in("olga")
    path = "/ui/site/picture.json"
    first = browser.get(path)
    tag = first.headers["etag"]
    assert first.headers["content-encoding"] == "gzip" and first.headers["cache-control"] == "no-store"
    assert browser.get(path, **{"Accept-Encoding": "gzip;q=0"}).content == first.content
    again = browser.get(path, **{"If-None-Match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    store.quarantine("gpu09", "fan")
    changed = browser.get(path, **{"If-None-Match": tag})
    assert changed.status_code == 200 and changed.headers["etag"] != tag
    store.clear_quarantine("gpu09")
    assert browser.get(path, **{"If-None-Match": tag}).status_code == 304
    browser.sign_in("alice")
    assert browser.get(path, **{"If-None-Match": tag}).status_code == 403


def test_shared_tables_are_current_for_each_request(pods_console: Console, browser: Browser) -> None:
    """A node's change is on the next page of picture and health, also for users who loaded it before."""
    store = pods_console.house.store
    browser.sign_in("olga")
    before = [browser.get(f"/ui/site/{page}").text for page in ("picture", "health")]
    assert [browser.get(f"/ui/site/{page}").text for page in ("picture", "health")] == before
    store.quarantine("gpu09", "fan")
    after = [browser.get(f"/ui/site/{page}").text for page in ("picture", "health")]
    assert after[0] != before[0] and "fan" not in before[1] and "fan" in after[1]
    store.clear_quarantine("gpu09")
    assert [browser.get(f"/ui/site/{page}").text for page in ("picture", "health")] == before
    browser.sign_in("alice")
    assert [browser.get(f"/ui/site/{page}").status_code for page in ("picture", "health")] == [403, 403]
