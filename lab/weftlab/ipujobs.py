"""What runs for the lab's IPU-POD, and the network that a site's operator makes once."""

from __future__ import annotations

import sys
from typing import Any

from weftlab import checks
from weftlab.bootstrap import connect
from weftlab.ipu import AGENT_PORT, GATEWAY_NETWORK, MACHINES, agents_tls, octet
from weftlab.layout import Layout
from weftlab.service import Service, Step

CONTROL = 250
"""Last byte of the address of the simulation's control port."""


def simulation(layout: Layout, ipus: int) -> Service:
    """All agents in one process; their bindings survive it, as on real gateways."""
    net = f"127.{octet(layout)}.{MACHINES}"
    bindings = layout.data / "ipu-pod"
    argv = ("-m", "openvipu.sim.main", "--pod", str(ipus), "--base", f"{net}.0", "--port", str(AGENT_PORT))
    return Service(
        name="ipu-pod",
        argv=(
            sys.executable,
            *argv,
            *("--bindings", str(bindings), "--control", f"{net}.{CONTROL}:8092"),
            *("--tls", str(agents_tls(layout)), "--no-client-certificates"),
        ),
        log=layout.log("ipu-pod"),
        cwd=layout.work / "ipu-pod",
        ready=checks.answers_tcp(f"{net}.{CONTROL}", 8092),
        grace=5,
    )


def guests(layout: Layout, after: tuple[str, ...]) -> Service:
    """Imitates the virtual machines of controllers and Poplar servers: `weftlab.guests`."""
    return Service(
        name="guests",
        argv=(
            sys.executable,
            "-m",
            "weftlab.guests",
            str(layout.state),
            str(layout.cache),
            str(layout.ports),
        ),
        env={"OS_CLIENT_CONFIG_FILE": str(layout.clouds_yaml), "OS_CLOUD": "operator"},
        log=layout.log("guests"),
        cwd=layout.work / "guests",
        after=after,
        grace=10,
    )


def network_step(layout: Layout, after: tuple[str, ...]) -> Step:
    """Create the gateways' network in the project of weft's service user, as a site's operator does once."""

    def make() -> None:
        cloud: Any = connect(layout, "weft").network
        if cloud.find_network(GATEWAY_NETWORK) is not None:
            return
        network = cloud.create_network(
            name=GATEWAY_NETWORK,
            provider_network_type="vlan",
            provider_physical_network="physnet1",
            provider_segmentation_id=13,
        )
        cloud.create_subnet(
            network_id=network.id,
            name=GATEWAY_NETWORK,
            ip_version=4,
            cidr=f"127.{octet(layout)}.0.0/16",
            is_dhcp_enabled=False,
            gateway_ip=None,
        )

    return Step("gateways' network", make, after=after)
