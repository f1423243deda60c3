"""Checks of a site's bare-metal machines, as Nova and Ironic take them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind
from weft.model.site import Site
from weft.planning.site.wrongvalues import WrongValue


def check_machines(site: Site) -> Iterator[WrongValue]:
    """Management and RDMA are on different physical networks: Ironic attaches Nova's ports to any adapter of a
    physical network, so that management's port could get an RDMA adapter."""
    for name, cloud in site.clouds.items():
        there = cloud.management.physical_network
        if cloud.machines_by != "nova" or there is None:
            continue
        used = {h.fabric for n in site.nodes if n.machine and n.cloud == name for h in n.hcas}
        for fabric in sorted(used & site.fabrics.keys()):
            one = site.fabrics[fabric]
            if one.type is FabricKind.ETHERNET and one.physical_network == there:
                allowed = (
                    f"another physical network than fabric {fabric}'s, or `machines_by: ironic`: through Nova, Ironic "
                    "attaches a machine's ports to any of its adapters on the same one"
                )
                yield ("clouds", name, "management", "physical_network"), there, allowed


def machine_hints(site: Site) -> Iterator[str]:
    """Hints about projects that may act on machines, one sentence each."""
    for name, cloud in sorted(site.clouds.items()):
        if cloud.machine_owners:
            listed = ", ".join(sorted(set(cloud.machine_owners)))
            yield (
                f"cloud {name}: members of project {listed} may act on machines that it owns in Ironic, whichever pod "
                "has them: it must be a project of operators only"
            )
