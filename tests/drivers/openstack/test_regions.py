"""A catalog with several regions: a resource in one is never proved absent by another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.drivers.openstack.test_absence import IDS, SCOPE, SERVER
from tests.drivers.openstack.tinycloud import PROJECT, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.errors import TemporaryError, UnknownError
from weft.model.resources import Status


@dataclass(frozen=True)
class Regions:
    """Keystone of the first region, with both in its catalog, the other one first; the server is in the first."""

    one: TinyCloud
    driver: OpenStackDriver
    clouds: Path
    urls: tuple[str, str]

    def catalog(self, *places: tuple[str, str]) -> None:
        endpoints = [
            {
                "id": f"e{n}",
                "interface": "public",
                "region": region,
                "region_id": region,
                "url": f"{url}/compute",
            }
            for n, (region, url) in enumerate(places)
        ]
        self.one.catalog = [{"id": "nova", "type": "compute", "name": "nova", "endpoints": endpoints}]

    def status(self) -> Status:
        return self.driver.find(SCOPE, [SERVER], IDS)[SERVER.key].status


def url_of(text: str) -> str:
    return text.partition("auth_url: ")[2].partition("/v3")[0]


@pytest.fixture(params=["", "RegionOne"])
def regions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Regions]:
    with tiny_cloud() as (one, text), tiny_cloud() as (_, other):
        left_out = (
            "compute_endpoint_override" if request.param else ("compute_endpoint_override", "region_name")
        )
        lines = [line for line in text.splitlines() if not line.strip().startswith(left_out)]
        file = tmp_path / "clouds.yaml"
        file.write_text("\n".join(lines))
        row = {
            "name": SERVER.name,
            "description": "",
            "tenant_id": PROJECT,
            "created": "2026-01-01T00:00:00Z",
        }
        one.things["servers"] = [{"id": IDS[SERVER.key], "status": "ACTIVE", "flavor": {}, **row}]
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield Regions(one, driver, file, (url_of(text), url_of(other)))
        driver.close()
        sessions.close()


@pytest.mark.parametrize("regions", ["RegionOne"], indirect=True)
def test_region_of_the_profile_is_asked(regions: Regions) -> None:
    regions.catalog(("Another", regions.urls[1]), ("RegionOne", regions.urls[0]))
    assert regions.status() is not Status.ABSENT


@pytest.mark.parametrize("regions", [""], indirect=True)
def test_unnamed_region_proves_nothing_if_there_are_several(regions: Regions) -> None:
    """Without a name the catalog's first region is used, and one that is added later would have no pod's server."""
    regions.catalog(("RegionOne", regions.urls[0]))
    assert regions.status() is not Status.ABSENT
    regions.catalog(("Another", regions.urls[1]), ("RegionOne", regions.urls[0]))
    sessions = Sessions("weft", [regions.clouds])  # as after the token has expired
    driver = OpenStackDriver("lab", sessions)
    with pytest.raises(
        UnknownError, match="in the regions Another, RegionOne, and the profile has no region_name"
    ):
        driver.find(SCOPE, [SERVER], IDS)
    with pytest.raises(TemporaryError):
        driver.delete(SCOPE, [SERVER], IDS)
    driver.close()
    sessions.close()


@pytest.mark.parametrize("regions", [""], indirect=True)
def test_regions_with_the_same_address_count_as_one(regions: Regions) -> None:
    regions.catalog(("Another", regions.urls[0]), ("RegionOne", regions.urls[0]))
    assert regions.status() is not Status.ABSENT
