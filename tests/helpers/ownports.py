"""A site's own networks on switches of a lab's Ethernet fabric: BMCs and gateways on ports of two leaves."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.sitenetworks import GATEWAYS, STORAGE
from weft.app.sitefile import checked
from weft.model.site import Device, Interface, Site, SiteNetwork
from weftlab.layout import Layout
from weftlab.site import make_site, settings
from weftlab.switches.labsite import FABRIC

ROWS: list[dict[str, Any]] = [
    {"device": "m1", "name": "bmc", "network": "gateways", "address": "10.201.0.11", "port": 31},
    {"device": "m1", "name": "gw", "network": "gateways", "address": "10.202.0.11", "port": 32},
    {"device": "m2", "name": "bmc", "network": "gateways", "address": "10.201.0.12", "port": 31},
    {"device": "nas1", "name": "eth0", "network": "storage", "address": "10.212.0.5", "port": 33},
]
LEAF = {"m1": "tor01", "m2": "tor02", "nas1": "tor01"}
TRUNK = "tor02/Ethernet40"
"""Port of one of the cloud's own hosts."""


@cache
def ethernet_lab() -> Site:
    """A lab's site: four nodes on two leaves, and a spine."""
    chosen = settings(nodes=4, leaves=2, spines=1, fabric="ethernet", switches="eos", ipus=0)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


def interfaces(**changes: str) -> tuple[Interface, ...]:
    """Interfaces of BMCs and gateways. Args: changes: another port for `m1_bmc` and so on."""
    found: list[Interface] = []
    for n, row in enumerate(ROWS, 1):
        port = changes.get(f"{row['device']}_{row['name']}", f"Ethernet{row['port']}")
        plug = {"switch": LEAF[row["device"]], "port": port, "mac": f"02:00:00:0f:00:{n:02x}"}
        found.append(Interface.model_validate({**row, **plug}))
    return tuple(found)


def document(**changes: str) -> Site:
    """The site with these interfaces, not validated."""
    networks = {
        "gateways": {**GATEWAYS, "fabric": FABRIC},
        "storage": {**STORAGE, "fabric": FABRIC, "trunks": [TRUNK]},
    }
    update = {
        "networks": {n: SiteNetwork.model_validate(net) for n, net in networks.items()},
        "devices": tuple(Device(name=n, kind="other") for n in LEAF),
        "interfaces": interfaces(**changes),
    }
    return ethernet_lab().model_copy(update=update)


def own_ports(**changes: str) -> Site:
    return checked(document(**changes))
