"""Networks that tenants created in Neutron, and the keeper that observes them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from tests.engine.ownerhouse import OwnerHouse
from tests.engine.timehouse import HandClock
from weft.engine.base.database import Database
from weft.engine.base.documents import read
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.site.tenantkeeper import TenantKeeper, tenant_network
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Site
from weft.model.tenantnetwork import ServedNetwork, ServedPort
from weft.testing.cloud_state import Thing


class TenantHouse(OwnerHouse):
    """A house whose site serves the networks of its cloud's tenants."""

    def __init__(self, database: Database, url: str) -> None:
        super().__init__(database, url, clock=HandClock())
        self.serve(True)
        self.tenants = self.new_keeper()
        self.wants |= {"network": tenant_network(database)}

    def new_keeper(self, site: Callable[[], Site] | None = None) -> TenantKeeper:
        """Another keeper. Args: site: gives the site that it takes for the active one."""
        return TenantKeeper(self.database, self.keeper.world, site or self.keeper.site)

    def serve(self, yes: bool, leave: bool = False) -> None:
        """Serve tenants' networks, or stop. Args: leave: when stopping, leave partitions to another manager."""
        fabric = self.site.fabrics["ib0"].model_copy(
            update={"tenant_networks": yes, "leave_tenant_networks": leave}
        )
        self.apply(self.site.model_copy(update={"fabrics": {"ib0": fabric}}))

    def apply(self, site: Site) -> None:
        self.site = site
        self.store.activate_site(site, "test")

    def free_number(self, back: int = 10) -> int:
        return self.site.fabrics["ib0"].segments.last - back

    def network(self, name: str = "mine", number: int | None = None) -> Thing:
        """Create a network as a tenant does."""
        where = {"physical_network": self.site.fabrics["ib0"].physical_network, "shared_with": ()}
        segment = self.free_number() if number is None else number
        return self.cloud.add(Kind.NETWORK, name, "team-b", None, segment=segment, **where)

    def adapter(self, network: Thing, node: str = "gpu15") -> Thing:
        """A port that has a node's first adapter, as Nova binds it."""
        hca = self.site.node_by_name[node].hcas_on("ib0")[0]
        port = self.cloud.add(Kind.PORT, f"{network.name}-{node}", "team-b", None, network=network.id, mac="")
        port.fields |= {"vnic_type": "direct-physical", "vif_type": "hostdev_physical"}
        port.fields |= {"bound_host": self.site.node_by_name[node].nova_host, "pci_slot": hca.pci}
        return port

    def guid(self, node: str = "gpu15") -> int:
        return self.site.node_by_name[node].hcas_on("ib0")[0].port_guid

    def owner(self, network: Thing) -> OwnerRecord:
        """The newest owner of this network."""
        return self.see(self._row(network)["owner_id"])

    def owner_id(self, network: Thing) -> UUID:
        return self._row(network)["owner_id"]

    def served(self, network: Thing) -> ServedNetwork:  # pyright: ignore[reportIncompatibleMethodOverride]
        return read(ServedNetwork, self._row(network)["document"])

    def port(self, network: Thing, port: Thing) -> ServedPort:
        return next(p for p in self.served(network).ports if p.id == port.id)

    def owners(self) -> list[Owner]:
        """Live owners that are networks."""
        with self.database.transaction() as tx:
            return [Owner(r["kind"], str(r["id"])) for r in tx.rows("live_owners") if r["kind"] == "network"]

    def settle(self, network: Thing, looks: int = 6) -> ServedNetwork:
        """Look and visit until nothing changes any more."""
        for _ in range(looks):
            self.look()
            self.visit(self.owner(network))
        return self.served(network)

    def look(self) -> bool:
        """Look at the cloud a second later: of two readings of one moment the first one counts."""
        self.clock.sleep(1.0)
        return self.tenants.look()

    def ready(self, network: Thing) -> ServedNetwork:  # pyright: ignore[reportIncompatibleMethodOverride]
        served = self.settle(network)
        owner = self.owner(network)
        assert owner.state is PodState.READY, f"{owner.state}: {owner.reason}"
        return served

    def _row(self, network: Thing) -> dict[str, object]:
        with self.database.transaction() as tx:
            rows = tx.rows("tenant_networks", cloud="lab", fabric="ib0")
        return next(r for r in rows if r["network_id"] == network.id)
