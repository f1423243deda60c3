"""Messages about networks that tenants created in Neutron: why a port's adapter isn't in the network's segment."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, ID, TEXT

PORT_UNBOUND = Code("PORT_UNBOUND", Component.NETWORK, "it is not bound to a host", True, "networks")
BINDING_FAILED = Code("BINDING_FAILED", Component.NETWORK, "Neutron could not bind it", True, "networks")
NO_ADDRESS = Code(
    "NO_ADDRESS",
    Component.NETWORK,
    "Neutron could not bind it, since it has no address: give its network a subnet, and create it again",
    True,
    "networks",
)
NO_PCI_DEVICE = Code(
    "NO_PCI_DEVICE",
    Component.NETWORK,
    "Nova has not said which PCI device it has (binding:profile pci_slot)",
    True,
    "networks",
)
NO_CLIENT_ID = Code(
    "NO_CLIENT_ID",
    Component.NETWORK,
    "it has no DHCP option client-id, which names the adapter of a bare-metal node",
    True,
    "networks",
)
CLIENT_IDS_DIFFER = Code(
    "CLIENT_IDS_DIFFER",
    Component.NETWORK,
    "its DHCP options client-id name different adapters",
    True,
    "networks",
)
IN_ANOTHER_PARTITION = Code(
    "IN_ANOTHER_PARTITION",
    Component.FABRIC,
    "its adapter has not left another partition yet",
    True,
    "networks",
)
FUNCTION_NOT_ALONE = Code(
    "FUNCTION_NOT_ALONE",
    Component.FABRIC,
    "its function also appears elsewhere: {why}",
    "its function also appears elsewhere",
    "networks",
    {"why": TEXT},
)
NOT_SHOWN_YET = Code("NOT_SHOWN_YET", Component.FABRIC, "the fabric doesn't show it yet", True, "networks")
VLAN_OUT_OF_RANGE = Code(
    "VLAN_OUT_OF_RANGE",
    Component.NETWORK,
    "the network's VLAN {number} is not within {first} to {last}, which weft manages",
    True,
    "networks",
    {"number": COUNT, "first": COUNT, "last": COUNT},
)
_PORT = {"port": ID, "segment": ID, "why": TEXT}
PORT_IN = Code(
    "PORT_IN_SEGMENT", Component.FABRIC, "port {port} is in segment {segment}", True, "networks", _PORT
)
PORT_OUT = Code(
    "PORT_OUT_OF_SEGMENT",
    Component.FABRIC,
    "port {port} is no longer in segment {segment}: {why}",
    "port {port} is no longer in segment {segment}",
    "networks",
    _PORT,
)
