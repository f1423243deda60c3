"""Mistakes about IPU-PODs in a site file, each reported in one sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from openvipu.controller import authority
from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors
from weft.planning.site.check import hints

EXAMPLE = EXAMPLES / "sites" / "ipupod64"


def errors(folder: Path) -> list[str]:
    with pytest.raises(InputErrors) as raised:
        load_site(folder / "site.yaml")
    return [str(e).replace(f"{folder}/", "") for e in raised.value.errors]


def changed(folder: Path, file: str, old: str, new: str) -> list[str]:
    """The errors of the example after one text was replaced once."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    text = (folder / file).read_text()
    assert old in text, old
    (folder / file).write_text(text.replace(old, new, 1))
    return errors(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "ipu_machines.csv",
            "0c:42:a1:75:00:02",
            "0c:42:a1:75:00:01",
            "rnic_mac: '0c:42:a1:75:00:01' is not allowed: a MAC address must be unique",
        ),
        (
            "ipu_machines.csv",
            "70:69:79:20:14:05",
            "0c:42:a1:75:00:01",
            "gw_mac: '0c:42:a1:75:00:01' is not allowed: a MAC address must be unique; lr75-ipum1 (",
        ),
        (
            "ipu_machines.csv",
            "10.2.1.2",
            "10.2.1.1",
            "gw_address: '10.2.1.1' is not allowed: an IPv4 address must be",
        ),
        (
            "ipu_machines.csv",
            "10.2.1.2",
            "10.2.250.7",
            "outside 10.2.250.0/24, which is for V-IPU controllers",
        ),
        (
            "ipu_machines.csv",
            "10.2.1.2",
            "10.9.1.2",
            "gw_address: '10.9.1.2' is not allowed: an address in 10.2.0.0/16",
        ),
        (
            "ipu_machines.csv",
            "10.5.1.2",
            "10.5.1.230",
            "below 10.5.1.224: the last 32 of 10.5.1.0/24 are for",
        ),
        ("ipu_machines.csv", "10.5.1.2", "12", "rnic_address: '12' is not allowed"),
        (
            "ipu_machines.csv",
            "pod1,2,",
            "pod1,1,",
            "a position in an IPU-POD must be unique; lr75-ipum1",
        ),
        ("ipu_machines.csv", "pod1,2,", "pod1,17,", "position: '17' is not allowed"),
        (
            "ipu_machines.csv",
            "pod1,2,",
            "pod9,2,",
            "ipu_pod: 'pod9' is not allowed: IPU-PODs of the site: pod1",
        ),
        (
            "ipu_machines.csv",
            "tor75,10",
            "tor75,9",
            "a switch port must be unique; lr75-ipum1 already has it",
        ),
        (
            "ipu_machines.csv",
            "lr75-ipum2",
            "poplar1",
            "a name of a switch, node or IPU-Machine must be unique",
        ),
        (
            "ipu_machines.csv",
            "lr75-ipum2",
            "controller",
            "another name: this one is reserved for the pod's V-IPU controller",
        ),
        ("site.yaml", "first: 1100", "first: 1300", "not above last, which is 1199"),
        (
            "site.yaml",
            "last: 1199}\n      addresses: 10.5",
            "last: 5000}\n      addresses: 10.5",
            "at most 4094, the highest VLAN",
        ),
        (
            "site.yaml",
            "physical_network: physnet-data",
            "physical_network: physnet-mgmt",
            "must not overlap the range of cloud main (1000 to 1199)",
        ),
        (
            "site.yaml",
            "physical_network: physnet-1g\n      vlan: 13",
            "physical_network: physnet-data\n      vlan: 1150",
            "gateway.vlan: 1150 is not allowed: a VLAN outside the range of IPU-POD pod1 (1100 to 1199), which is for "
            "tenants",
        ),
        (
            "site.yaml",
            "vlan: 13, addresses: 10.1.0.0/16",
            "vlan: 13, addresses: 10.64.0.0/16",
            "bmc.addresses: '10.64.0.0/16' is not allowed: must not overlap cloud main's management addresses",
        ),
        (
            "site.yaml",
            "vlan: 13, addresses: 10.1.0.0/16",
            "vlan: 13, addresses: 10.2.0.0/16",
            "must differ from the gateways' subnet",
        ),
        ("site.yaml", "controllers: 10.2.250.0/24", "controllers: 10.3.0.0/24", "a subnet of 10.2.0.0/16"),
        (
            "site.yaml",
            "addresses: 10.5.1.0/24",
            "addresses: 10.128.1.0/24",
            "must not overlap cloud main's rdma_addresses",
        ),
        (
            "site.yaml",
            "flavor: vipu-controller}",
            "flavor: huge}",
            "flavors of cloud main: poplar, vipu-controller",
        ),
        (
            "site.yaml",
            "role: poplar, ipu_pod: pod1",
            "role: poplar",
            "ipu_pod: missing: required for a Poplar server",
        ),
        ("site.yaml", "role: controller}", "role: controller, ipu_pod: pod1}", "only for Poplar servers"),
        (
            "site.yaml",
            "ipu_pods:\n  pod1:",
            "ipu_pods:\n  main:",
            "another name: a cloud or fabric has this one",
        ),
        (
            "site.yaml",
            "topology: torus",
            "topology: star",
            "topology: 'star' is not allowed: 'mesh' or 'torus'",
        ),
    ],
)
def test_mistake_is_reported_at_its_row(tmp_path: Path, file: str, old: str, new: str, sentence: str) -> None:
    """File, line, field, value and what is allowed."""
    found = changed(tmp_path, file, old, new)
    assert any(sentence in line and line.startswith(("site.yaml:", "ipu_machines.csv:")) for line in found), (
        found
    )


def test_site_needs_a_fabric_or_ipu_pods(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    lines = (tmp_path / "site.yaml").read_text().splitlines()
    start, end = lines.index("ipu_pods:"), lines.index("racks:")
    kept = [*lines[:start], *lines[end:-1]]
    (tmp_path / "site.yaml").write_text("\n".join(kept).replace(", ipu_pod: pod1", "") + "\n")
    assert any("a site needs at least one fabric, or ipu_pods" in line for line in errors(tmp_path))


def test_hints_name_what_prevents_orders(tmp_path: Path) -> None:
    """An IPU-POD without Poplar servers or controller nodes is valid, with a hint."""
    site = load_site(EXAMPLE / "site.yaml")
    bare = site.model_copy(update={"nodes": ()})
    assert [h for h in hints(bare) if "IPU-POD" in h] == [
        "IPU-POD pod1 has no Poplar servers: no IPUs can be ordered there",
        "IPU-POD pod1 has no controller nodes: no IPUs can be ordered there",
    ]
    assert not [h for h in hints(site) if "IPU-POD" in h]


def test_cleartext_keys_are_reported_explicitly(tmp_path: Path) -> None:
    """Without the agents' authority the site is refused, unless it says that keys may be read; then the check gives
    a hint.
    """
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "site.yaml").read_text()
    start, end = text.index("      agents_ca:"), text.index("    bmc:")
    (tmp_path / "site.yaml").write_text(text[:start] + text[end:])
    (found,) = errors(tmp_path)
    assert "agents_ca: missing" in found or "agents_ca" in found
    assert "or keys_in_clear: true, and all keys of agents can be sniffed on the gateway network" in found
    (tmp_path / "site.yaml").write_text(text[:start] + "      keys_in_clear: true\n" + text[end:])
    site = load_site(tmp_path / "site.yaml")
    assert [h for h in hints(site) if "keys_in_clear" in h] == [
        "IPU-POD pod1 has keys_in_clear: keys of agents and of controllers without TLS can be sniffed on the "
        "gateway network"
    ]
    authority.create(tmp_path / "tls", [])
    for pem, sentence in (
        ("nonsense", "one or more certificates in PEM format"),
        ((tmp_path / "tls" / "agent.crt").read_text(), "a CA certificate"),
    ):
        block = "".join(f"        {line}\n" for line in pem.splitlines())
        (tmp_path / "site.yaml").write_text(f"{text[:start]}      agents_ca: |\n{block}{text[end:]}")
        (found,) = errors(tmp_path)
        assert sentence in found
