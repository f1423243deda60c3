"""The verbs about fabrics: what was read of them, and their cables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from weft.app.desk import DeskVerbs
from weft.app.show import site_view
from weft.app.sitefile import checked
from weft.app.verbs import Request
from weft.model.errors import InputError
from weft.model.site import Site
from weft.model.views import (
    FabricComparison,
    FabricReading,
    LeafView,
    SiteView,
)
from weft.planning.fabric.diff import adopt_links, fabric_differences
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept


class FabricVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def readings(self, request: Request) -> list[FabricReading]:
        """What workers read last of each fabric's managers, by name; no manager is asked."""
        self._desk.policy.check("site:show", request.caller)
        seen = {one.fabric: asdict(one) for one in self._desk.store.fabrics_seen()}
        names = sorted(self._desk.store.site().site.fabrics)
        return [FabricReading(**seen[name]) if name in seen else FabricReading(fabric=name) for name in names]

    def leaves(self, request: Request) -> list[LeafView]:
        """The leaves of the active site's fabrics that nodes are on, in tree order."""
        self._desk.policy.check("site:show", request.caller)
        return list(_leaves(self._desk.store.site().site))

    def compare(self, request: Request, fabric: str | None = None) -> FabricComparison:
        """The cables of the active site against those discovered now; None: the only fabric."""
        self._desk.policy.check("site:show", request.caller)
        record = self._desk.store.site()
        name = self._fabric_name(record.site, fabric)
        observed = self._desk.keeper.world().fabric(name).topology()
        differences = fabric_differences(record.site, name, observed)
        return FabricComparison(
            fabric=name,
            generation=record.generation,
            discovered_nodes=len(observed.nodes),
            discovered_cables=len(observed.links),
            differences=differences,
            partial=observed.partial,
        )

    def adopt_cabling(self, request: Request, fabric: str | None = None) -> SiteView:
        """Activate a new generation of the site with the discovered cabling."""
        with self._desk.logged(request, "site adopt cabling", fabric or "the only fabric"):
            self._desk.policy.check("site:activate", request.caller)
            record = self._desk.store.site()
            site = record.site
            name = self._fabric_name(site, fabric)
            links = adopt_links(site, name, self._desk.keeper.world().fabric(name).topology())
            # Checked like any site file: the discovered cabling must also result in a valid site.
            changed = checked(site.model_copy(update={"links": links}))
            return site_view(
                self._desk.store.activate_site(changed, request.caller.user_name, record.generation)
            )

    @staticmethod
    def _fabric_name(site: Site, fabric: str | None) -> str:
        """The fabric, or the only one. Raises `InputError`."""
        names = sorted(site.fabrics)
        if fabric is None and len(names) == 1:
            return names[0]
        if fabric is None or fabric not in site.fabrics:
            raise InputError("fabric", fabric, f"fabrics of site {site.name}: {', '.join(names)}")
        return fabric


@kept
def _leaves(site: Site) -> Sequence[LeafView]:
    found: list[LeafView] = []
    for fabric in sorted(site.fabrics):
        one = Topology.of(site, fabric)
        for block, leaves in one.blocks.items():
            found += [
                LeafView(name=leaf, fabric=fabric, block=block, uplink_gbps=one.uplinks.get(leaf))
                for leaf in leaves
            ]
    return found
