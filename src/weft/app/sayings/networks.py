"""What tenants see about their own networks: why a port isn't in."""

from __future__ import annotations

from weft.app.sayings.forms import OPERATORS, forms, told

_WHY = forms(
    "it is not bound to a host",
    "Neutron could not bind it",
    "Neutron could not bind it, since it has no address: give its network a subnet, and create it again",
    "Nova has not said which PCI device it has (binding:profile pci_slot)",
    "it has no DHCP option client-id, which names the adapter of a bare-metal node",
    "its DHCP options client-id name different adapters",
    "its adapter has not left another partition yet",
    "its function is not only where it belongs: …",
    "the fabric doesn't show it yet",
    "the network's VLAN {n} is not within {n} to {n}, which weft manages",
)


def why_not_in(text: str) -> str:
    """Why a port isn't in its network's partition, as far as its owner may know."""
    return (told(_WHY, text) or OPERATORS) if text else ""
