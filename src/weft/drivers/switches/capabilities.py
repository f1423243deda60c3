"""Capabilities of a fabric of Ethernet switches. A separate module, since planning without a server imports
no driver."""

from __future__ import annotations

from weft.model.fabric import Capabilities
from weft.model.site import Site

WEFT = Capabilities(virtual_functions=True)
"""A virtual function's VLAN is tagged on the physical port; the host's SR-IOV agent sets it on the
function."""

NEUTRON = Capabilities(
    virtual_functions=False,
    why_no_virtual_functions="Neutron's ML2 driver sets the VLANs on its switches, and of whole ports only",
    configures=False,
    limits=(
        "Neutron's ML2 driver sets the VLANs on the switches, not weft: weft only reads the switches, reports what "
        "differs, and signs no clean receipt before it has read every former port without the VLAN.",
    ),
)


UNTRIED = (
    "Frames are not tested on this fabric (it has no probe agents): that members reach only each other is read "
    "from the switches."
)


REFUSED = (
    "An adapter whose frames can't be tested keeps a pod from READY and its release from completing "
    "(`traffic.policy: refuse`): one without an interface on its host, such as one bound to vfio-pci at boot, or "
    "that of a machine that is off after its release."
)


def capabilities_of(site: Site, fabric: str) -> Capabilities:
    """Capabilities by the site's switches, and by the agents next to its adapters."""
    found = _of_switches(site, fabric)
    traffic = site.fabrics[fabric].traffic
    untried = () if traffic is not None else (UNTRIED,)
    refused = (REFUSED,) if traffic is not None and traffic.policy == "refuse" else ()
    return found.model_copy(update={"limits": (*found.limits, *untried, *refused)})


def _of_switches(site: Site, fabric: str) -> Capabilities:
    switching = site.fabrics[fabric].manager.switching
    if switching is None:
        return WEFT
    if switching.configured_by == "neutron":
        return NEUTRON
    unreadable = [f"{s.name} ({s.device_type})" for s in switching.switches if s.interface == "generic"]
    if not unreadable:
        return WEFT
    limit = (
        f"{', '.join(unreadable)} can't be read back: weft knows only what was accepted there, finds no drift and no "
        "foreign port, and signs no clean receipt for a pod with a port there."
    )
    return WEFT.model_copy(update={"limits": (limit,)})
