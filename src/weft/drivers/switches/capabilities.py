"""What a fabric of Ethernet switches can do. A module of its own, since planning without a server imports no driver."""

from __future__ import annotations

from weft.model.fabric import Capabilities

CAPABILITIES = Capabilities(virtual_functions=True)
"""A virtual function's VLAN has its tag on the physical port; the host's SR-IOV agent sets it on the function."""
