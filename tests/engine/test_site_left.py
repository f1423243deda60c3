"""What a site left in its cloud when its owner ended otherwise: after `site abandon`, or with a lost database."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.sitehouse import SiteHouse
from weft.engine.database import Database
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud_state import Thing


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


def abandoned(house: SiteHouse) -> Thing:
    """The site's end was begun, a tenant put a port on its storage network, and an operator gave up; the port."""
    house.applied()
    network = house.mine()["network/storage"]
    house.service.destroy_site(house.operator)
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network=network.id, address="10.212.0.101")
    house.visits(3)
    house.service.abandon_site(house.operator, "it hangs")
    house.visit(house.site_owner(), PodState.RELEASED)
    house.clock.sleep(900)
    assert port in house.cloud.things() and network in house.cloud.things()
    return port


def test_a_repair_leaves_tenants_ports_on_the_sites_networks(house: SiteHouse) -> None:
    """They may be servers' that run: they are named, and what they are on stays until they are gone."""
    port = abandoned(house)
    for repair in (False, True):
        report = house.service.audit(house.operator, repair=repair)
        [found] = [f for f in report.findings if f.kind == "network"]
        assert f"port theirs ({port.id}) of project team-a on storage" in str(found.repair), found
        assert not found.repaired and port in house.cloud.things()
    house.cloud.lose(port)
    house.service.audit(house.operator, repair=True)
    assert house.cloud.things() == []
