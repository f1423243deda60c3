"""A listing is complete or unknown: dropped filters, cut pages, URLs that are too long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.filters import LONGEST, in_urls
from weft.drivers.openstack.networks import OpenStackNetworks
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError


class Paging(TinyCloud):
    """Manila: pages of up to `most` rows by offset, with a link only if the caller sends a limit."""

    most = 1000
    deaf = False
    """Whether it ignores offsets."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        QUERIES.append(query)
        if path == "/network/networks" and "networks" in self.things:
            return self._networks(path, query)
        if path != "/share/shares/detail":
            return super().answer(method, path, query, seer, body)
        self.asked.append(f"{method} {path}")
        at = 0 if self.deaf else int(query.get("offset", ["0"])[0])
        limit = min(self.most, int(query.get("limit", [str(self.most)])[0]))
        page = self.things["shares"][at : at + limit]
        full = "limit" in query and len(page) == limit
        links = {"shares_links": [{"rel": "next", "href": f"{path}?limit={limit}&marker=x"}]} if full else {}
        return Reply(200, {"shares": page, **links})

    def _networks(self, path: str, query: dict[str, list[str]]) -> Reply:
        """Neutron: pages of up to its own limit, with a link only if the caller sends a limit."""
        ids = [row["id"] for row in self.things["networks"]]
        at = ids.index(query["marker"][0]) + 1 if "marker" in query else 0
        limit = min(self.most, int(query.get("limit", [str(self.most)])[0]))
        page = self.things["networks"][at : at + limit]
        full = "limit" in query and not self.deaf and len(page) == limit
        href = f"{path}?limit={limit}&marker={page[-1]['id']}" if full else ""
        return Reply(
            200, {"networks": page, **({"networks_links": [{"rel": "next", "href": href}]} if full else {})}
        )


QUERIES: list[dict[str, list[str]]] = []


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Paging, Project, Sessions]]:
    QUERIES.clear()
    with tiny_cloud(Paging) as (tiny, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        assert isinstance(tiny, Paging)
        yield tiny, sessions.own(), sessions
        sessions.close()


Cloud = tuple[Paging, Project, Sessions]


def shares(count: int) -> list[dict[str, Any]]:
    return [{"id": f"s{n}", "name": f"n{n}"} for n in range(count)]


@pytest.mark.parametrize("most", [1000, 400])
@pytest.mark.parametrize("count", [0, 999, 1000, 1001, 2300])
def test_all_of_a_projects_shares_are_listed(cloud: Cloud, count: int, most: int) -> None:
    """Beyond 1,000, and beyond a smaller limit of the site."""
    tiny, own, _ = cloud
    tiny.most, tiny.things["shares"] = most, shares(count)
    rows = own.share.listing("list shares", "/shares/detail", "shares")
    assert [r["id"] for r in rows] == [f"s{n}" for n in range(count)]


def test_share_listing_that_ignores_the_offset_is_unknown(cloud: Cloud) -> None:
    """What is after the first page can't be read."""
    tiny, own, _ = cloud
    tiny.deaf, tiny.things["shares"] = True, shares(1500)
    with pytest.raises(UnknownError):
        own.share.listing("list shares", "/shares/detail", "shares")


@pytest.mark.parametrize(("count", "most"), [(1000, 9999), (2000, 9999), (1000, 1000), (2300, 1000)])
def test_round_listing_is_complete_if_its_links_end(cloud: Cloud, count: int, most: int) -> None:
    """A round number of rows from a Neutron without a limit of its own, or with one."""
    tiny, own, _ = cloud
    tiny.most, tiny.things["networks"] = most, shares(count)
    rows = own.network.listing("list networks", "/networks", "networks", {"fields": ("id",)})
    assert [r["id"] for r in rows] == [f"s{n}" for n in range(count)]


def test_round_listing_without_links_despite_a_limit_is_unknown(cloud: Cloud) -> None:
    """There may be more rows."""
    tiny, own, _ = cloud
    tiny.deaf, tiny.things["networks"] = True, shares(1500)
    with pytest.raises(UnknownError, match="cut at 1000"):
        own.network.listing("list networks", "/networks", "networks")


def test_unpaged_listing_of_1000_services_is_complete(cloud: Cloud) -> None:
    """Nova doesn't page services."""
    tiny, own, _ = cloud
    tiny.lies = [("GET /compute/os-services", Reply(200, {"services": shares(1000)}))]
    assert len(own.compute.listing("list services", "/os-services", "services")) == 1000


@pytest.mark.parametrize("answer", [{"volumes": shares(1000)}, {"volumes": shares(3), "truncated": True}])
def test_possibly_truncated_listing_is_unknown(cloud: Cloud, answer: object) -> None:
    """A round number of rows without a link, or `truncated` as Keystone has it."""
    tiny, own, _ = cloud
    tiny.lies = [("GET /volume/volumes/detail", Reply(200, answer))]
    with pytest.raises(UnknownError, match="cut at"):
        own.volume.listing("list volumes", "/volumes/detail", "volumes")


@pytest.mark.parametrize(
    "row", [{"id": "p2", "network_id": "another"}, {"id": "p2"}, {"id": "p2", "network_id": None}]
)
def test_rows_despite_a_dropped_filter_are_rejected(cloud: Cloud, row: dict[str, Any]) -> None:
    """A row with another value of the filtered field, or none."""
    tiny, own, _ = cloud
    first = {"id": "p1", "network_id": "mine"}
    tiny.lies = [("GET /network/ports", Reply(200, {"ports": [first, row]}))]
    with pytest.raises(UnknownError, match="network_id mine alone"):
        own.network.listing(
            "list ports", "/ports", "ports", {"fields": ("id",)}, only={"network_id": ["mine"]}
        )
    assert QUERIES[-1]["fields"] == ["id", "network_id"]
    tiny.lies = [("GET /network/ports", Reply(200, {"ports": [first]}))]
    only = {"network_id": ["mine", "other"]}
    assert len(own.network.listing("list ports", "/ports", "ports", only=only)) == 1


def test_ports_in_other_groups_are_rejected(cloud: Cloud) -> None:
    """Fields with several values, and addresses, are filtered by one of them."""
    tiny, own, _ = cloud
    fixed = [{"subnet_id": "a", "ip_address": "10.0.0.1"}]
    port = {"id": "p1", "security_groups": ["x", "y"], "fixed_ips": fixed}
    tiny.lies = [("GET /network/ports", Reply(200, {"ports": [port]}))]
    for only in ({"security_groups": ["y"]}, {"fixed_ips": "subnet_id=a"}):
        assert len(own.network.listing("list ports", "/ports", "ports", only=only)) == 1
    for only in ({"security_groups": ["z"]}, {"fixed_ips": "subnet_id=b"}):
        with pytest.raises(UnknownError):
            own.network.listing("list ports", "/ports", "ports", only=only)


def test_filter_without_values_gives_nothing_and_makes_no_request(cloud: Cloud) -> None:
    """Without the filter everything would be listed."""
    tiny, own, _ = cloud
    tiny.things["ports"] = [{"id": "p1", "network_id": "mine"}]
    assert own.network.listing("list ports", "/ports", "ports", only={"network_id": []}) == []
    assert not any("/ports" in line for line in tiny.asked)


def test_users_of_a_pods_networks_are_unknown_if_foreign_rows_are_listed(cloud: Cloud) -> None:
    """An operator's repair removes what is listed here."""
    tiny, _, sessions = cloud
    port = {
        "id": "p1",
        "network_id": "another",
        "name": "",
        "project_id": PROJECT,
        "device_owner": "",
        "device_id": "",
    }
    tiny.lies = [("GET /network/ports", Reply(200, {"ports": [port]}))]
    with pytest.raises(UnknownError):
        OpenStackNetworks(sessions).on_networks(PROJECT, ["mine"])


def test_long_filter_is_split_over_several_urls() -> None:
    """Each fits uWSGI's 4,096 bytes with a long token, and each value is in one of them."""
    ids = [f"{n:036}" for n in range(200)]
    parts = list(in_urls({"network_id": ids, "project_id": PROJECT}))
    assert [i for part in parts for i in part["network_id"]] == ids
    assert all(part["project_id"] == PROJECT for part in parts)
    assert all(sum(len(i) + len("network_id=&") for i in part["network_id"]) <= LONGEST for part in parts)
