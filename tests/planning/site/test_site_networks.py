"""The site's own networks: nothing overlaps, and tenants reach no privileged network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.hardwarelist import HardwareList
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors

NAS = "storage: {role: storage, addresses: 10.12.0.0/24, pool: {first: 10.12.0.100, last: 10.12.0.254}}"
BMC = "bmc: {role: bmc, addresses: 10.1.0.0/24, pool: {first: 10.1.0.200, last: 10.1.0.254}}"
GATEWAYS = "gw: {role: gateway, addresses: 10.2.0.0/24, pool: {first: 10.2.0.224, last: 10.2.0.254}}"
PUBLIC = "external_network: public"
PROJECT = "0123456789abcdef0123456789abcdef"
INFRA = "    vlan: 99\n"


def mistakes(folder: Path, old: str, new: str) -> list[str]:
    """What is wrong with the site after this change, without line numbers."""
    site = HardwareList(folder).site_text
    assert site.count(old) == 1, f"{old!r} occurs {site.count(old)} times"
    (folder / "site.yaml").write_text(site.replace(old, new))
    try:
        load_site(folder / "site.yaml")
    except InputErrors as error:
        return [str(e).partition(": ")[2] for e in error.errors]
    return []


def test_unchanged_site_is_valid(tmp_path: Path) -> None:
    """Without the changes of the table below."""
    assert mistakes(tmp_path, "two-racks", "three-racks") == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "vlan: 99",
            "vlan: 13",
            "networks.infra.vlan: 13 is not allowed: a VLAN of a physical network must be unique; network ipu-gw "
            "already has it (both are on physnet-1g)",
        ),
        (
            "vlan: 12\n",
            "vlan: 1150\n",
            "networks.storage.vlan: 1150 is not allowed: a VLAN outside the range of IPU-POD pod1 (1100 to 1199), "
            "which is for pods",
        ),
        (
            NAS,
            NAS.replace("10.12.0", "10.3.0"),
            "networks.storage.subnets.storage.addresses: '10.3.0.0/24' is not allowed: must not overlap subnet infra "
            "of network infra 10.3.0.0/24",
        ),
        (
            NAS,
            NAS.replace("10.12.0", "10.64.9"),
            "networks.storage.subnets.storage.addresses: '10.64.9.0/24' is not allowed: must not overlap cloud main's "
            "management addresses 10.64.0.0/16",
        ),
        (
            NAS,
            NAS.replace("10.12.0", "10.5.1"),
            "networks.storage.subnets.storage.addresses: '10.5.1.0/24' is not allowed: must not overlap the data "
            "network of IPU-POD pod1 10.5.1.0/24",
        ),
        (
            INFRA,
            f"{INFRA}    shared_with: [{PROJECT}]\n",
            f"networks.infra.shared_with: '{PROJECT}' is not allowed: none: tenants must not reach its subnets infra "
            "(infrastructure)",
        ),
        (
            f"shared_with: [{PROJECT}]",
            f"shared_with: [{PROJECT}, {PROJECT}]",
            f"networks.storage.shared_with[1]: '{PROJECT}' is not allowed: each project once",
        ),
        (
            f"shared_with: [{PROJECT}]",
            "shared_with: [everybody else]",
            "networks.storage.shared_with[0]: 'everybody else' is not allowed: the id of a project",
        ),
        (
            GATEWAYS,
            GATEWAYS + "\n      nas: {role: storage, addresses: 10.13.0.0/24, dhcp: false}",
            "networks.ipu-gw.subnets.nas.role: 'storage' is not allowed: a role that tenants never reach, like that of "
            "bmc: subnets of one VLAN reach each other",
        ),
        (
            "        gateway: 10.3.0.1",
            "        gateway: 10.3.0.1\n        nat: true",
            "networks.infra.subnets.infra.nat: True is not allowed: false: infrastructure must not be reachable "
            "through a router that tenants' subnets share",
        ),
        (
            NAS,
            NAS.replace("pool:", "nat: true, pool:"),
            "networks.storage.subnets.storage.gateway: missing: the address of its router, required with nat",
        ),
        (
            NAS,
            NAS.replace("last: 10.12.0.254", "last: 10.12.1.5"),
            "networks.storage.subnets.storage.pool.last: '10.12.1.5' is not allowed: an address in 10.12.0.0/24, not "
            "its first or last",
        ),
        (
            NAS,
            NAS.replace("first: 10.12.0.100, last: 10.12.0.254", "first: 10.12.0.200, last: 10.12.0.100"),
            "networks.storage.subnets.storage.pool.first: '10.12.0.200' is not allowed: not above last, which is "
            "10.12.0.100",
        ),
        (
            NAS,
            "storage: {role: storage, addresses: 10.12.0.0/24}",
            "networks.storage.subnets.storage.pool: missing: addresses for Neutron's own DHCP ports; or dhcp: false",
        ),
        (
            "gateway: 10.3.0.1\n",
            "gateway: 10.3.0.220\n",
            "networks.infra.subnets.infra.pool: '10.3.0.200 to 10.3.0.254' is not allowed: without the gateway "
            "10.3.0.220",
        ),
        (
            "gateway: 10.3.0.1\n",
            "gateway: 10.3.0.255\n",
            "networks.infra.subnets.infra.gateway: '10.3.0.255' is not allowed: an address in 10.3.0.0/24, not its "
            "first or last",
        ),
        (
            GATEWAYS,
            GATEWAYS.replace("10.2.0.224", "10.2.0.180"),
            "networks.ipu-gw.subnets.gw.pool: '10.2.0.180 to 10.2.0.254' is not allowed: outside 10.2.0.128/26, which "
            "is for V-IPU controllers",
        ),
        (
            GATEWAYS,
            GATEWAYS.replace("pool:", "gateway: 10.2.0.3, pool:"),
            "networks.ipu-gw.subnets.gw.gateway: '10.2.0.3' is not allowed: none: nothing may route to the gateways of "
            "IPU-Machines",
        ),
        (
            BMC,
            BMC.replace("role: bmc", "role: gateway"),
            "networks.ipu-gw.subnets.bmc.role: 'gateway' is not allowed: bmc: an IPU-POD has its bmc addresses there",
        ),
        (
            BMC,
            BMC.replace("10.1.0", "10.9.0"),
            "networks.ipu-gw.subnets: 'bmc, gw' is not allowed: one with addresses 10.1.0.0/24, as "
            "ipu_pods.pod1.bmc says",
        ),
        (
            "network: ipu-gw",
            "network: gateways",
            "networks.ipu-gw: 'ipu-gw' is not allowed: gateways, the name in ipu_pods.pod1.gateway for this VLAN",
        ),
        (
            NAS,
            NAS.replace("role: storage", "role: nas"),
            "networks.storage.subnets.storage.role: 'nas' is not allowed: 'bmc', 'gateway', 'infrastructure', "
            "'internal-api', 'provisioning', 'cleaning', 'management', 'data', 'storage', 'tenant' or 'external'",
        ),
        (
            PUBLIC,
            f"{PUBLIC}\n    storage: {{network: ipu-gw}}",
            "clouds.main.storage.network: 'ipu-gw' is not allowed: another network: tenants must never reach ipu-gw, "
            "which has role bmc, gateway",
        ),
        (
            PUBLIC,
            "external_network: infra",
            "clouds.main.external_network: 'infra' is not allowed: another network: tenants must never reach infra, "
            "which has role infrastructure",
        ),
        (
            PUBLIC,
            "external_network: storage",
            "clouds.main.external_network: 'storage' is not allowed: a network with a subnet of role external; storage "
            "has storage",
        ),
        ("mtu: 9000", "mtu: 90000", "networks.storage.mtu: '90000' is not allowed: 9216 or less"),
    ],
)
def test_network_mistakes_are_reported(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    """The first sentence is about the mistake."""
    found = mistakes(tmp_path, old, new)
    assert sentence in found, "\n".join(found)
    assert len(found) == 1, "\n".join(found)


def test_servers_mount_only_from_a_storage_network(tmp_path: Path) -> None:
    """Hardware on another network isn't meant for every tenant."""
    site = HardwareList(tmp_path).site_text.replace(PUBLIC, f"{PUBLIC}\n    storage: {{network: storage}}")
    (tmp_path / "site.yaml").write_text(site)
    assert load_site(tmp_path / "site.yaml").clouds["main"].storage.network == "storage"
    (tmp_path / "site.yaml").write_text(site.replace("role: storage", "role: tenant"))
    with pytest.raises(InputErrors, match=r"a network with a subnet of role storage; storage has tenant"):
        load_site(tmp_path / "site.yaml")


def test_undescribed_gateway_network_is_refused(tmp_path: Path) -> None:
    site = HardwareList(tmp_path).site_text.replace(PUBLIC, f"{PUBLIC}\n    storage: {{network: ipu-gw}}")
    first, rest = site.split("  ipu-gw:\n")
    (tmp_path / "site.yaml").write_text(first + rest[rest.index("  infra:") :])
    with pytest.raises(InputErrors, match="which has IPU-Machines' gateways"):
        load_site(tmp_path / "site.yaml")


def test_several_mistakes_are_reported_together(tmp_path: Path) -> None:
    """A privileged network shared with tenants, and on another network's VLAN."""
    found = mistakes(tmp_path, INFRA, f"    vlan: 13\n    shared_with: [{PROJECT}]\n")
    assert len(found) == 2
