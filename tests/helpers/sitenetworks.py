"""A site's own networks: hardware management without routes, and storage shared by tenants. Rows of the site file."""

from __future__ import annotations

from typing import Any

GATEWAYS: dict[str, Any] = {
    "cloud": "lab",
    "physical_network": "physnet-9g",
    "vlan": 13,
    "subnets": {
        "bmc": {
            "role": "bmc",
            "addresses": "10.201.0.0/24",
            "pool": {"first": "10.201.0.200", "last": "10.201.0.254"},
            "dns": ["10.201.0.2"],
        },
        "gw": {
            "role": "gateway",
            "addresses": "10.202.0.0/24",
            "pool": {"first": "10.202.0.200", "last": "10.202.0.254"},
        },
    },
}
STORAGE: dict[str, Any] = {
    "cloud": "lab",
    "physical_network": "physnet-d",
    "vlan": 12,
    "mtu": 9000,
    "shared_with": ["team-b", "team-a"],
    "subnets": {
        "storage": {
            "role": "storage",
            "addresses": "10.212.0.0/24",
            "gateway": "10.212.0.3",
            "pool": {"first": "10.212.0.100", "last": "10.212.0.254"},
            "nat": True,
        }
    },
}
