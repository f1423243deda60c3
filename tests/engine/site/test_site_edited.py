"""A site sent after one that this process has checked: what differs is taken over or refused, as of the first one."""

from __future__ import annotations

from typing import Any

import httpx
import psycopg
import pytest

from tests.engine.house import House
from tests.engine.site.test_site_upload import Counting, applied, client, door, large
from weft.app.siteedit import edited
from weft.model.errors import InputErrors
from weft.model.site import Site
from weft.planning.site.parts import cut
from weft.testing.callers import by

__all__ = ["door"]


def with_networks(vlan: int) -> Site:
    """A large site with a network that has the name of the field of tables that are in parts."""
    site = large()

    def network(vlan: int, subnet: str) -> dict[str, Any]:
        subnets = {f"oob{vlan}": {"addresses": subnet, "role": "bmc", "dhcp": False}}
        return {"cloud": "lab", "physical_network": "oob", "vlan": vlan, "subnets": subnets}

    networks = {"parts": network(vlan, "192.168.77.0/24"), "other": network(77, "192.168.78.0/24")}
    return Site.model_validate({**site.model_dump(mode="json"), "networks": networks})


def test_changed_network_called_parts_is_taken_over(house: House) -> None:
    applied(house, cut(with_networks(40)))
    assert house.store.site().site.networks["parts"].vlan == 40
    applied(house, cut(with_networks(41)))
    assert house.store.site().site.networks["parts"].vlan == 41


def test_site_with_a_network_called_parts_is_read_whole(house: House, door: tuple[Counting, str]) -> None:
    applied(house, cut(with_networks(40)))
    found = client(door[1]).site.whole()["document"]
    assert Site.model_validate(found) == house.store.site().site


def test_if_match_and_if_none_match_are_checked_for_a_site(house: House, door: tuple[Counting, str]) -> None:
    """`If-None-Match: *` never replaces a site, and `If-Match: *` never makes the first one."""
    document = cut(house.site).document

    def put(**conditions: str) -> int:
        given = {name.replace("_", "-"): value for name, value in conditions.items()}
        return httpx.put(f"{door[1]}/v1/site", json=document, headers={**by("operator"), **given}).status_code

    before = house.store.site().generation
    assert (put(If_None_Match="*"), put(If_Match='W/"1"'), put(If_Match='"0"')) == (412, 412, 412)
    assert (put(If_None_Match='"1"'), put(If_None_Match="*", If_Match="*")) == (400, 400)
    assert house.store.site().generation == before
    assert put(If_Match="*") == 200 and house.store.site().generation == before + 1
    with psycopg.connect(house.database.url) as connection:
        connection.execute("TRUNCATE site CASCADE")
    assert put(If_Match="*") == 412
    assert put(If_None_Match="*") == 200


@pytest.mark.parametrize("wrong", [None, 5, {}, "digests"])
@pytest.mark.parametrize("table", ["nodes", "networks", "racks"])
def test_table_of_another_shape_is_refused(house: House, table: str, wrong: object) -> None:
    made = cut(with_networks(40))
    applied(house, made)
    before = house.store.site()
    parts = made.document["nodes"]["parts"] if wrong == "digests" else wrong
    document: dict[str, Any] = {**made.document, table: {"parts": parts, "more": 1}}
    with pytest.raises(InputErrors):
        house.service.site.activate(house.operator, document)
    assert house.store.site() is before


def test_value_of_another_type_is_not_taken_for_the_same(house: House) -> None:
    """JSON's true isn't 1, though Python's is."""
    made = cut(large())
    applied(house, made)
    record = house.store.site()
    assert edited(record, made.document, house.store.sites) == record.site
    queue = made.document["queue"]
    assert queue["bookings"] == 1
    wrong = {**made.document, "queue": {**queue, "bookings": True}}
    assert edited(record, wrong, house.store.sites) is None
