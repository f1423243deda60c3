"""Searching for values that people have in hand, in any notation, within what they may see."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from tests.helpers.consoles import Browser, Console
from tests.helpers.explained import scanned
from weft.app.verbs import Request
from weft.model.errors import InputError
from weft.model.ids import format_guid
from weft.model.views import PodSearch, SearchResult
from weft.planning.fabric.search import plain
from weft.ports.cloud import AccessRule
from weft.testing.callers import caller

OLGA = Request(caller("olga", "admin", "admin"), "127.0.0.1", "req-0")


def test_operator_finds_pod_and_hardware(pods_console: Console, browser: Browser) -> None:
    """By name, id, node, P_Key, VLAN, address, GUID and MAC address, in any notation; each hit links to its page."""
    house, pod = pods_console.house, pods_console.order()
    house.finish("train")
    pod = house.service.pods.show(OLGA, str(pod.id))
    node = house.site.node_by_name[pod.placed[0].node]
    server, hca = pod.servers[0], node.hcas[0]
    guid = format_guid(hca.port_guid)
    port = next(one for one in pod.resources if one.kind == "port" and one.id)
    pods = ("train", str(pod.id), str(pod.id).upper(), node.name, pod.segment or "", f"VLAN {pod.vlan}")
    pods = (
        *pods,
        server.management_address,
        server.name,
        port.id or "",
        f"0x{int(pod.segment or '0', 16) + 0x8000:x}",
    )
    for text in pods:
        assert [h.id for h in found(pods_console, text).hits if h.kind == "pod"] == [str(pod.id)], text
    ways = (
        guid,
        guid.upper().replace("0X", "0x"),
        guid[2:],
        ":".join(guid[2:][i : i + 4] for i in range(0, 16, 4)),
    )
    for text in (*ways, node.name, format_guid(hca.guid)):
        assert node.name in [h.unit for h in found(pods_console, text).hits], text
    switch = house.site.switches[0]
    named = {switch.guid and format_guid(switch.guid): "switch", house.site.racks[0].name: "rack"}
    for interface in house.site.interfaces[:1]:
        named |= {interface.mac.upper().replace(":", "-"): "interface", str(interface.address): "interface"}
    for text, kind in named.items():
        assert text and kind in [hit.kind for hit in found(pods_console, text).hits], text
    assert [h.kind for h in found(pods_console, switch.name).hits] == ["switch"]
    browser.sign_in("olga")
    assert browser.get("/ui/search?q=nix").status_code == 200 and "Nothing has exactly" in browser.text
    page = browser.get(f"/ui/search?q={node.name}").text
    assert f"/ui/pods/{pod.id}" in page and f"/ui/site/nodes/{node.name}" in page


def found(console: Console, text: str) -> SearchResult:
    return console.house.service.search(OLGA, text)


def test_tenant_finds_only_its_own_pods(pods_console: Console, browser: Browser) -> None:
    """Not by another project's name, number or address, and no hardware."""
    house, pod = pods_console.house, pods_console.order()
    house.finish("train")
    pod = house.service.pods.show(OLGA, str(pod.id))
    values = ("train", str(pod.id), pod.segment or "", f"vlan {pod.vlan}", pod.servers[0].management_address)
    node = house.site.node_by_name[pod.placed[0].node]
    secret = (format_guid(node.hcas[0].port_guid), house.site.switches[0].name, "gpu15")
    for who, expected in (("alice", True), ("bob", False)):
        browser.sign_in(who)
        for text in (*values, node.name):
            browser.get(f"/ui/search?q={text}")
            assert (f"/ui/pods/{pod.id}" in browser.page.text) is expected, (who, text)
            assert "/ui/site" not in browser.page.text
        for text in secret:
            assert "Nothing has exactly this value" in browser.get(f"/ui/search?q={text}").text, (who, text)


def test_credential_limited_to_the_search_can_search(pods_console: Console, browser: Browser) -> None:
    """Its access rules don't include the history of parts."""
    rules = tuple(AccessRule("accelerator-pod", "GET", path) for path in ("/v1/pods", "/v1/search"))
    olga = replace(pods_console.keystone.users["olga"][1], access_rules=rules)
    pods_console.keystone.users["c0ffee"] = ("s3cret", olga)
    given = {"method": "credential", "credential": "c0ffee", "secret": "s3cret", "next": "/"}
    browser.post("/ui/sign-in", given)
    node = pods_console.house.site.nodes[0].name
    assert browser.get(f"/ui/search?q={node}").status_code == 200 and "found" in browser.text


def test_search_with_too_many_hits_or_long_values_says_so(pods_console: Console, browser: Browser) -> None:
    """50 hits are shown with a sign that there are more; values that can't be searched for are refused."""
    house = pods_console.house
    pods_console.order()
    house.multiply("train", 70)
    pods = house.store.pods.summaries(PodSearch(limit=100), None)
    with house.database.transaction() as tx:
        numbers = [{"owner_id": one.id, "space": f"vlan/x{n}", "number": 77} for n, one in enumerate(pods)]
        tx.many("hold_number", numbers)
    assert len(found(pods_console, "77").hits) == 50 and found(pods_console, "77").more
    browser.sign_in("olga")
    browser.get("/ui/search?q=77")
    assert "50 of more found" in browser.text
    for text in ("%00", "a%0Ab", "x" * 256):
        assert browser.get(f"/ui/search?q={text}").status_code == 400, text
    assert "Table of what was found" not in browser.get("/ui/search?q=%20").text
    for text in ("'", "%' OR 1=1 --", "\\", "0xzz", "99999999999999999999", "VLAN 99999", "::1", "ff" * 8):
        assert not found(pods_console, text).hits, text
    with pytest.raises(InputError):
        found(pods_console, " ")


@pytest.mark.parametrize("text", ["nix", "10.64.0.17", "train"])
def test_tenants_search_reads_own_resources_only(pods_console: Console, text: str) -> None:
    """Otherwise any tenant could keep the database busy with short requests."""
    house = pods_console.house
    pods_console.order()
    house.finish("train")
    house.multiply("train", 20)
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE pod SET project_id = 'others' WHERE name <> 'train'")
        names = ["key", "kind", "position", "document", "state", "facts", "generation"]
        values = ", ".join(f"resource.{one}" for one in names)
        rows = (
            f"SELECT pod.id, gen_random_uuid()::text, {values} FROM pod, resource WHERE pod.name <> 'train'"
        )
        copy = f"INSERT INTO resource (owner_id, outside_id, {', '.join(names)}) {rows}"
        connection.execute(copy.encode())
    pod = house.store.pods.find("train", None)
    asked = {"text": text, "id": None, "numbers": [], "mac": None, "kinds": ["server", "port"], "limit": 51}
    asked |= {"address": text if text[0] == "1" else None, "project_id": pod.project_id}
    read = scanned(house.database, "searched_owners", **asked)
    assert read["resource"] <= 2 * len(house.store.pods.resources(pod.id)) and read["pod"] <= 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x0002C903000E0B72", "0002c903000e0b72"),
        ("0002:c903:000e:0b72", "0002c903000e0b72"),
        ("00:02:C9:03:0E:72", "0002c9030e72"),
        ("0002.c903.0e72", "0002c9030e72"),
        ("0x2c90300300010", "0002c90300300010"),
        ("2C90300300010", "0002c90300300010"),
        (" GPU01 ", "gpu01"),
        ("10.0.0.1", "10.0.0.1"),
    ],
)
def test_values_are_compared_independently_of_notation(text: str, expected: str) -> None:
    assert plain(text) == expected
