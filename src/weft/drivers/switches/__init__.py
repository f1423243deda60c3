"""Ethernet switches: VLANs on their ports through each vendor's interface, and the fabric that they form."""

from weft.drivers.switches.fabric import EthernetFabric
from weft.drivers.switches.opened import open_fabric

__all__ = ["EthernetFabric", "open_fabric"]
