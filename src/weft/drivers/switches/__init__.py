"""Ethernet switches: VLANs on their ports, by each vendor's own interface, and the fabric that they are together."""

from weft.drivers.switches.fabric import EthernetFabric
from weft.drivers.switches.opened import open_fabric

__all__ = ["EthernetFabric", "open_fabric"]
