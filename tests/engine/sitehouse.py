"""A site that describes its own networks and hardware, applied in the loop on the fakes."""

from __future__ import annotations

from functools import cache
from typing import Any

import psycopg

from tests.engine.house import small_site, stood_still
from tests.engine.ownerhouse import OwnerHouse
from tests.engine.timehouse import HandClock
from tests.helpers.sitenetworks import GATEWAYS, STORAGE
from weft.app.sitefile import checked
from weft.engine.base.database import Database
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.site.siteowner import applied_site, site_owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Device, Interface, Site, SiteNetwork
from weft.model.siteplan import SitePlan
from weft.testing.cloud_state import Thing

DEVICES = [
    {"name": "pdu9", "kind": "pdu"},
    {"name": "nas1", "kind": "storage"},
    {"name": "m1", "kind": "other"},
]
INTERFACES = [
    {
        "device": "m1",
        "name": "bmc",
        "network": "gateways",
        "mac": "02:00:00:00:00:01",
        "address": "10.201.0.11",
    },
    {
        "device": "m1",
        "name": "gw",
        "network": "gateways",
        "mac": "02:00:00:00:00:02",
        "address": "10.202.0.11",
    },
    {
        "device": "nas1",
        "name": "eth0",
        "network": "storage",
        "mac": "02:00:00:00:00:03",
        "address": "10.212.0.5",
    },
]


@cache
def described() -> Site:
    """The lab's default site with two networks, one of them shared with tenants, and three interfaces."""
    return with_networks(
        {"gateways": GATEWAYS, "storage": STORAGE}, [Interface.model_validate(i) for i in INTERFACES]
    )


def with_networks(networks: dict[str, Any], interfaces: list[Interface]) -> Site:
    site = small_site().model_copy(
        update={
            "networks": {name: SiteNetwork.model_validate(n) for name, n in networks.items()},
            "devices": tuple(Device.model_validate(d) for d in DEVICES),
            "interfaces": tuple(interfaces),
        }
    )
    return checked(site)


KEYS = frozenset(
    {
        *("network/gateways", "subnet/gateways/bmc", "subnet/gateways/gw"),
        *("network/storage", "subnet/storage/storage", "router/storage"),
        *(f"security_group/lab/{role}" for role in ("bmc", "gateway", "storage")),
        *("port/m1/bmc", "port/m1/gw", "port/nas1/eth0"),
    }
)


class SiteHouse(OwnerHouse):
    """A house with short ways to plan, apply and destroy its site's resources."""

    def __init__(self, database: Database, url: str) -> None:
        super().__init__(database, url, clock=HandClock())
        self.wants |= {"site": applied_site(database)}
        self.activate(described())

    def activate(self, site: Site) -> None:
        self.site = site
        self.store.activate_site(site, "test")

    def change(self, **networks: dict[str, Any]) -> None:
        """Activate the site with other fields of some networks."""
        now = {
            name: SiteNetwork.model_validate({**net.model_dump(mode="json"), **networks.get(name, {})})
            for name, net in self.site.networks.items()
        }
        self.activate(checked(self.site.model_copy(update={"networks": now})))

    def end(self, network: str, vlan: int | None) -> None:
        """Activate a site in which the network has another VLAN, or (None) isn't there any more."""
        if vlan is not None:
            self.change(**{network: {"vlan": vlan}})
            return
        here = {name: n for name, n in self.site.networks.items() if name != network}
        rows = tuple(i for i in self.site.interfaces if i.network != network)
        self.activate(checked(self.site.model_copy(update={"networks": here, "interfaces": rows})))

    def plan(self, adopt: bool = False) -> SitePlan:
        return self.service.site.plan(self.operator, adopt)

    def steps(self, adopt: bool = False) -> list[str]:
        """`action key` of each step."""
        return [f"{s.action} {s.key}" for s in self.plan(adopt).steps]

    def ask(self, adopt: bool = False) -> SitePlan:
        return self.service.site.apply(self.operator, adopt)

    def applied(self, adopt: bool = False) -> OwnerRecord:
        """Apply the site, and visit until everything is there."""
        self.ask(adopt)
        return self.settle()

    def settle(self, visits: int = 20) -> OwnerRecord:
        for _ in range(visits):
            owner = self.visit(self.site_owner())
            if self.service.site.resources(self.operator).done:
                return owner
        raise AssertionError(f"{owner.state}: {owner.reason}")

    def visits(self, number: int) -> OwnerRecord:
        for _ in range(number):
            self.visit(self.site_owner())
        return self.site_owner()

    def site_owner(self) -> OwnerRecord:
        with self.database.transaction() as tx:
            found = site_owner(tx, self.site.name)
        assert found is not None
        return found

    def run_out(self) -> None:
        """Let all holds of owners run out, as if their worker had been stopped."""
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            connection.execute("UPDATE owner SET held_until = now() - interval '1 s', next_at = now()")
        stood_still(self.database)

    def destroyed(self) -> OwnerRecord:
        self.service.site.destroy(self.operator)
        return self.visit(self.site_owner(), PodState.RELEASED)

    def mine(self) -> dict[str, Thing]:
        """Key -> thing with the mark of the site's owner."""
        owner = self.site_owner().owner
        return {t.mark.key: t for t in self.cloud.things() if t.mark and t.mark.owner == owner}

    def others_network(self, project: str = "service", **fields: object) -> Thing:
        """A network on VLAN 13 that an operator created by hand."""
        made = {"physical_network": "physnet-9g", "segment": 13, "shared_with": (), "mtu": 1500, **fields}
        made |= {"port_security": True, "external": False}
        return self.cloud.add(Kind.NETWORK, "by-hand", project, None, **made)
