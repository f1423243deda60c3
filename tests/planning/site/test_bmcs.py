"""Which networks a machine's BMC may be on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weft.model.site import Node, Site
from weft.planning.site.bmcs import bmc_wrong
from weftlab.layout import Layout
from weftlab.site import make_site, settings


@cache
def site(**more: Any) -> Site:
    chosen = settings(nodes=4, computes=1, ipus=0, metal=2)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


def described() -> Site:
    """The site with a network for BMCs, and the first machine's interface on it."""
    bare = site()
    document = bare.model_dump(mode="json")
    document["networks"] = {
        "oob": {
            "cloud": next(iter(bare.clouds)),
            "physical_network": "oob",
            "vlan": 99,
            "subnets": {
                "bmc": {"role": "bmc", "addresses": "192.168.7.0/24", "dhcp": False},
                "pdu": {"role": "infrastructure", "addresses": "192.168.8.0/24", "dhcp": False},
            },
        }
    }
    row = {
        "device": "bm01",
        "name": "bmc",
        "network": "oob",
        "mac": "02:00:00:00:b1:01",
        "address": "192.168.7.11",
    }
    document["interfaces"] = [row]
    return Site.model_validate(document)


def machine(found: Site, name: str = "bm01") -> Node:
    return found.node_by_name[name]


@pytest.mark.parametrize("host", ["192.168.7.11", "192.168.7.12", "bmc-bm01.example", "127.0.0.1"])
def test_undescribed_networks_keep_bmcs_out_of_pod_addresses(host: str) -> None:
    assert bmc_wrong(site(), machine(site()), host) is None


@pytest.mark.parametrize("which", ["management", "rdma"])
def test_bmc_in_pod_addresses_is_refused(which: str) -> None:
    cloud = next(iter(site().clouds.values()))
    block = cloud.management.addresses if which == "management" else cloud.rdma_addresses
    for found in (site(), described()):
        assert f"outside of {block}, which is for pods" in (
            bmc_wrong(found, machine(found), str(block[9])) or ""
        )


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.168.7.11", None),
        ("192.168.7.12", "192.168.7.11, as the site has it"),
        ("192.168.8.11", "in 192.168.7.0/24 (oob/bmc)"),
        ("203.0.113.9", "in 192.168.7.0/24 (oob/bmc)"),
        ("bmc-bm01.example", "no name"),
        ("2001:db8::1", "no name"),
        ("", "no name"),
    ],
)
def test_bmc_must_be_on_the_bmc_network(host: str, why: str | None) -> None:
    found = bmc_wrong(described(), machine(described()), host)
    assert found is None if why is None else why in (found or "")


def test_bmc_in_another_clouds_pod_addresses_is_refused() -> None:
    document = described().model_dump(mode="json")
    other = {**next(iter(document["clouds"].values())), "rdma_addresses": "10.200.0.0/16"}
    other["management"] = {**other["management"], "addresses": "10.201.0.0/16"}
    document["clouds"]["second"] = other
    found = Site.model_validate(document)
    assert "which is for pods" in (bmc_wrong(found, machine(found), "10.200.0.9") or "")


def test_other_machines_interfaces_are_ignored() -> None:
    assert bmc_wrong(described(), machine(described(), "bm02"), "192.168.7.99") is None
