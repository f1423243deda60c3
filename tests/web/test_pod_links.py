"""The picture of a pod's links: what operators and tenants see, its bounds, and the same as a table."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.helpers.consoles import Browser, Console
from weft.generate.linkpicture import (
    COLOURS,
    MOST_LEAVES,
    OWN,
    SHARED,
    UNKNOWN,
    WAITS,
    link_picture,
    state_of,
)
from weft.model.views import LinkReading, PodLink, PodLinks

SVG = "{http://www.w3.org/2000/svg}"


def link(sender: str, receiver: str, shared: int = 0, congested: bool | None = False) -> PodLink:
    """A direction between two of `node/adapter`, `leaf…` and `spine…`."""
    level = {"l": "leaf", "s": "other"}
    ends = {
        "sender_level": "adapter" if "/" in sender else level[sender[0]],
        "receiver_level": "adapter" if "/" in receiver else level[receiver[0]],
    }
    return PodLink.model_validate(
        {"sender": sender, "sender_port": 1, "receiver": receiver, "receiver_port": 2, "paths": 3}
        | {"shared_with": shared, "congested": congested, **ends}
    )


def answer(*links: PodLink, operator: bool = True, **more: object) -> PodLinks:
    reading = LinkReading(fabric="ib0", pattern="rail", routes_age=1.0, routes="x", exact=True)
    values = {"pod": "train", "id": "x", "fabric": "ib0", "pattern": "rail", "routes_age": 1.0, "exact": True}
    values |= {"adapters": 2, "shared_with": 1, "links": links, "reading": reading if operator else None}
    return PodLinks.model_validate(values | more)


def drawn(text: str) -> dict[str, list[ElementTree.Element]]:
    """Elements by tag; asserts that there are no scripts, references or styles."""
    root = ElementTree.fromstring(text)
    found: dict[str, list[ElementTree.Element]] = {}
    for element in root.iter():
        found.setdefault(element.tag.removeprefix(SVG), []).append(element)
        assert not {"style", "href", "class"} & set(element.attrib)
        assert not [name for name in element.attrib if name.startswith("on")]
    assert set(found) <= {"svg", "title", "rect", "line", "text"}
    return found


def test_cable_shows_both_directions_and_the_worse_state() -> None:
    text = link_picture(
        answer(
            link("gpu01/mlx5_0", "leaf01"),
            link("leaf01", "spine01", shared=2),
            PodLink.model_validate(
                link("spine01", "leaf01", shared=1, congested=True).model_dump()
                | {"sender_port": 2, "receiver_port": 1}
            ),
        )
    )
    (line,) = drawn(text)["line"]
    assert line.attrib["stroke"] == COLOURS[WAITS]
    said = line.findtext(f"{SVG}title") or ""
    assert "leaf01:1 to spine01:2: 3 paths, shared with 2 others" in said and "spine01:2 to leaf01:1" in said


@pytest.mark.parametrize(
    ("links", "operator", "state"),
    [
        ([link("leaf01", "spine01", 1, True)], True, WAITS),
        ([link("leaf01", "spine01", 1, None)], True, UNKNOWN),
        ([link("leaf01", "spine01", 0, None)], True, UNKNOWN),
        ([link("leaf01", "spine01", 1, None)], False, SHARED),
        ([link("leaf01", "spine01", 0, None)], False, OWN),
    ],
)
def test_link_of_unknown_load_is_unknown_to_operators(
    links: list[PodLink], operator: bool, state: str
) -> None:
    assert state_of(links, operator) == state


def test_picture_is_bounded_and_counts_what_it_leaves_out() -> None:
    links = [link(f"gpu{n}/mlx5_0", f"leaf{n:03}") for n in range(MOST_LEAVES + 5)]
    links += [link(f"many{n}/mlx5_0", "leaf000") for n in range(200)]
    text = link_picture(answer(*links, more_links=7, exact=False))
    assert "5 more leaf switches are not drawn" in text and "7 more links are not drawn" in text
    assert "141 more" in text and "paths are possible" in text and len(text) < 200_000


def test_switches_of_three_levels_are_all_drawn() -> None:
    """And cables of core switches; tenants, who see no names of upper switches, see the number of such cables."""
    links = (link("gpu01/mlx5_0", "leaf01"), link("leaf01", "spine01"), link("spine01", "score01", 2))
    assert len(drawn(link_picture(answer(*links)))["line"]) == 2
    hidden = link("spine01", "score01").model_copy(update={"sender": "hidden", "receiver": "hidden"})
    text = link_picture(answer(links[0], link("leaf01", "spine01"), hidden, operator=False))
    assert len(drawn(text)["line"]) == 1 and "cables among switches above leaves, not drawn: 1" in text


def test_names_are_escaped_in_the_picture() -> None:
    text = link_picture(answer(link('gpu"<b>/mlx5_0', "leaf<01>")))
    assert "<b>" not in text and drawn(text)["rect"]


def test_picture_without_links_is_empty() -> None:
    assert "line" not in drawn(link_picture(answer()))


def test_tenant_sees_its_own_links_without_others_names(pods_console: Console, browser: Browser) -> None:
    """As picture and table; operators see switches and rates too; other projects' pods aren't found."""
    pod = pods_console.order()
    pods_console.house.finish("train")
    browser.sign_in("alice")
    assert f"/ui/pods/{pod.id}/links" in browser.get(f"/ui/pods/{pod.id}").text
    browser.get(f"/ui/pods/{pod.id}/links")
    assert browser.page.status_code == 200 and "Shared with" in browser.text and "Waits" not in browser.text
    picture = browser.get(f"/ui/pods/{pod.id}/links.svg")
    assert picture.headers["content-type"] == "image/svg+xml" and "spine" not in picture.text
    assert "leaf0" in picture.text and drawn(picture.text)["rect"]
    browser.sign_in("olga")
    browser.get(f"/ui/pods/{pod.id}/links")
    assert "Waits" in browser.text
    browser.sign_in("bob")
    assert browser.get(f"/ui/pods/{pod.id}/links").status_code == 404
    assert browser.get(f"/ui/pods/{pod.id}/links.svg").status_code == 404


def test_pod_without_a_segment_says_so(pods_console: Console, browser: Browser) -> None:
    pods_console.house.fill()
    pod = pods_console.order(queue=True)
    browser.sign_in("alice")
    assert browser.get(f"/ui/pods/{pod.id}/links").status_code == 409
    assert "no segment on a fabric" in browser.text
