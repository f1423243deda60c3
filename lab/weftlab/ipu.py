"""The lab's IPU-POD: simulated IPU-Machines with their agents on loopback, a Poplar server, a node for controllers.

The gateways' network is `127.<lab>.0.0/16` here: agents and controllers answer at the very addresses that the site
and Neutron have for them, and two labs don't meet. A virtual machine's address on a vPOD's management network
can't be loopback (the cloud gives those out by DHCP): what the guest at 10.64.c.d listens on is reached at
`127.<lab>.c.d` on this machine (`here`).
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from openvipu.controller import authority
from weft.model.ranges import Range
from weft.model.site import (
    IpuBmcNetwork,
    IpuController,
    IpuDataNetwork,
    IpuGatewayNetwork,
    IpuMachine,
    IpuPod,
    Node,
)
from weftlab.layout import PORTS_EACH, LabError, Layout

IPU_POD = "ipupod1"
SIZES = (0, 4, 16, 64)
PHYSICAL_NETWORK = "datanet"
GATEWAY_NETWORK = "ipu-gw"
RACK = "ipu"
POPLAR, GENERIC = "poplar1", "generic1"
VIRTUAL_FUNCTIONS = 8
RNIC = "0000:41:00.0"
AGENT_PORT = 8080

MACHINES, CONTROLLERS = 254, 253
"""Third byte of the machines' and of the controllers' addresses."""


def octet(layout: Layout) -> int:
    """Second byte of this lab's loopback addresses."""
    return 1 + layout.ports // PORTS_EACH % 250


def here(layout: Layout, address: str) -> str:
    """Where a guest's address is on this machine: loopback addresses are themselves."""
    given = IPv4Address(address)
    if given.is_loopback:
        return address
    return f"127.{octet(layout)}.{given.packed[2]}.{given.packed[3]}"


def check_size(ipus: int) -> int:
    """The number of IPUs, if the lab has such an IPU-POD. Raises `LabError`."""
    if ipus not in SIZES:
        raise LabError(f"--ipus {ipus} is not allowed: {', '.join(map(str, SIZES))}")
    return ipus


def agents_tls(layout: Layout) -> Path:
    """Where the agents' certificates are."""
    return layout.data / "ipu-tls"


def make_agents_tls(layout: Layout) -> None:
    """Create the agents' certificates, as a site's operator does once."""
    if not (agents_tls(layout) / "ca.crt").exists():
        authority.create(agents_tls(layout), [])


def _agents_ca(layout: Layout) -> str | None:
    path = agents_tls(layout) / "ca.crt"
    return path.read_text() if path.exists() else None


def ipu_pod(layout: Layout, ipus: int, flavor: str, image: str) -> IpuPod:
    """The IPU-POD as a row of weft's site, with the networks and images of its controllers."""
    net, authority_text = f"127.{octet(layout)}", _agents_ca(layout)
    return IpuPod(
        cloud="lab",
        topology="torus" if ipus == 64 else "mesh",
        data=IpuDataNetwork(
            physical_network=PHYSICAL_NETWORK,
            segments=Range(first=1100, last=1199),
            addresses=IPv4Network("10.5.1.0/24"),
        ),
        gateway=IpuGatewayNetwork(
            network=GATEWAY_NETWORK,
            physical_network="physnet1",
            vlan=13,
            addresses=IPv4Network(f"{net}.0.0/16"),
            controllers=IPv4Network(f"{net}.{CONTROLLERS}.0/24"),
            managed_from=IPv4Network("127.0.0.1/32"),
            agents_ca=authority_text,
            # A lab that was never started has none: `up` makes it before the site.
            keys_in_clear=authority_text is None,
        ),
        bmc=IpuBmcNetwork(physical_network="physnet1", vlan=13, addresses=IPv4Network("10.1.0.0/16")),
        controller=IpuController(image=image, flavor=flavor),
    )


def machines(layout: Layout, ipus: int) -> tuple[IpuMachine, ...]:
    """Addresses as in the reference design: 10.<network>.<pod>.<machine>, the gateways' on loopback."""
    return tuple(
        IpuMachine(
            name=f"ipum{n}",
            ipu_pod=IPU_POD,
            position=n,
            rack=RACK,
            rnic_mac=f"0c:42:a1:00:00:{n:02x}",
            rnic_address=IPv4Address(f"10.5.1.{n}"),
            rnic_switch="tor1",
            rnic_port=8 + n,
            bmc_mac=f"70:69:79:20:00:{2 * n:02x}",
            bmc_address=IPv4Address(f"10.1.1.{n}"),
            gw_mac=f"70:69:79:20:00:{2 * n + 1:02x}",
            gw_address=IPv4Address(f"127.{octet(layout)}.{MACHINES}.{n}"),
            agent_port=AGENT_PORT,
        )
        for n in range(1, ipus // 4 + 1)
    )


def poplars(ipus: int) -> tuple[str, ...]:
    """Names of the Poplar servers: an IPU-POD64 has four."""
    return tuple(f"poplar{n}" for n in range(1, 5 if ipus == 64 else 2))


def nodes(ipus: int) -> tuple[Node, ...]:
    """Poplar servers and the node of controllers, as rows of weft's site."""
    poplar: dict[str, Any] = {"role": "poplar", "ipu_pod": IPU_POD, "servers": VIRTUAL_FUNCTIONS}
    return (
        *(Node(name=name, rack=RACK, cloud="lab", **poplar) for name in poplars(ipus)),
        Node(name=GENERIC, role="controller", rack=RACK, cloud="lab"),
    )


def device_spec() -> dict[str, str]:
    """Which PCI devices of a Poplar server may be given to servers: the virtual functions of its RNIC."""
    return {"vendor_id": "15b3", "product_id": "1018", "physical_network": PHYSICAL_NETWORK}


def devices() -> list[dict[str, object]]:
    """A Poplar server's RNIC (ConnectX-5) with its virtual functions, as libvirt's driver reports them."""
    common: dict[str, object] = {"vendor_id": "15b3", "numa_node": 0, "status": "available"}
    virtual = {**common, "product_id": "1018", "dev_type": "type-VF", "parent_addr": RNIC}
    return [
        {**virtual, "address": f"0000:41:01.{n}", "label": "label_15b3_1018"}
        for n in range(VIRTUAL_FUNCTIONS)
    ]
