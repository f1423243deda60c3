"""`weft site export --format terraform --live` compares the cloud's resources with the site, field by field."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.drivers.openstack.tinycloud import PROJECT, TinyCloud, tiny_cloud
from tests.helpers.rdg import RDG
from weft.cli.main import main

HERE = {"description": "", "project_id": PROJECT}
NETWORK = {
    "id": "n1",
    "name": "provisioning",
    "provider:physical_network": "provisioning",
    "provider:network_type": "flat",
    "provider:segmentation_id": None,
    "port_security_enabled": True,
    "mtu": 1500,
    "router:external": False,
    **HERE,
}
SUBNET = {
    "id": "s1",
    "name": "ctlplane",
    "network_id": "n1",
    "cidr": "192.168.24.0/24",
    "ip_version": 4,
    "gateway_ip": "192.168.24.1",
    "enable_dhcp": True,
    "allocation_pools": [{"start": "192.168.24.30", "end": "192.168.24.99"}],
    "dns_nameservers": [],
    **HERE,
}
PORT = {
    "id": "p1",
    "name": "controller-1",
    "network_id": "n1",
    "mac_address": "0c:42:a1:00:02:00",
    "fixed_ips": [{"subnet_id": "s1", "ip_address": "192.168.24.11"}],
    "dns_name": "controller-1-eno1",
    "device_id": "",
    "device_owner": "",
    "status": "DOWN",
    "port_security_enabled": False,
    "security_groups": [],
    "allowed_address_pairs": [],
    "binding:vnic_type": "normal",
    "binding:host_id": "",
    "binding:vif_type": "unbound",
    "binding:profile": {},
    **HERE,
}


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[TinyCloud]:
    """A cloud with the provisioning network of the guide's site, and the port of one of its controllers."""
    with tiny_cloud() as (tiny, text):
        known = yaml.safe_load(text)["clouds"]
        file = tmp_path / "clouds.yaml"
        file.write_text(yaml.safe_dump({"clouds": {"overcloud": next(iter(known.values()))}}))
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
        things: dict[str, list[dict[str, Any]]] = {
            "networks": [dict(NETWORK)],
            "subnets": [dict(SUBNET)],
            "ports": [dict(PORT)],
            "routers": [],
            "rbac_policies": [],
            "security_group_rules": [],
        }
        tiny.things.update(things)
        yield tiny


def exported(folder: Path) -> int:
    """Exit code of the export."""
    where = str(folder / "out")
    return main(["site", "export", str(RDG / "site.yaml"), "--format", "terraform", "--live", "-o", where])


def test_matching_resources_are_imported_silently(
    cloud: TinyCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(tmp_path) == 0
    said = capsys.readouterr()
    assert "would change" not in said.out + said.err, said.out
    imports = (tmp_path / "out/imports.tf.json").read_text()
    assert all(f'"{one}"' in imports for one in ("n1", "s1", "p1"))


@pytest.mark.parametrize(
    ("collection", "changed", "expected"),
    [
        ("networks", {"mtu": 9000}, "network/provisioning n1 has mtu 9000, not 1500 as in the site"),
        ("networks", {"port_security_enabled": False}, "network/provisioning n1 has port_security"),
        ("networks", {"router:external": True}, "network/provisioning n1 has external"),
        ("subnets", {"gateway_ip": None}, "subnet/provisioning/ctlplane-subnet s1 has gateway"),
        ("subnets", {"enable_dhcp": False}, "subnet/provisioning/ctlplane-subnet s1 has dhcp"),
        ("subnets", {"allocation_pools": []}, "subnet/provisioning/ctlplane-subnet s1 has pool"),
    ],
)
def test_terraform_change_is_reported(
    cloud: TinyCloud,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    collection: str,
    changed: dict[str, Any],
    expected: str,
) -> None:
    cloud.things[collection][0].update(changed)
    assert exported(tmp_path) == 0
    out = capsys.readouterr().out
    assert expected in out and "Terraform would change it" in out, out


@pytest.mark.parametrize(
    ("collection", "changed", "expected"),
    [
        (
            "ports",
            {"fixed_ips": [{"subnet_id": "s1", "ip_address": "192.168.24.200"}]},
            "its address is 192.168.24.200, not 192.168.24.11",
        ),
        ("ports", {"binding:vnic_type": "baremetal"}, "its vnic_type is baremetal, not normal"),
        (
            "networks",
            {"provider:segmentation_id": 7, "provider:network_type": "vlan"},
            "the name provisioning",
        ),
    ],
)
def test_immutable_difference_is_refused_and_nothing_is_written(
    cloud: TinyCloud,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    collection: str,
    changed: dict[str, Any],
    expected: str,
) -> None:
    cloud.things[collection][0].update(changed)
    assert exported(tmp_path) == 2
    said = capsys.readouterr()
    assert expected in said.err and said.err.count("\n") == 1, said.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clouds: {overcloud: [1, 2]}", "a mapping"),
        ("clouds: {overcloud: text}", "a mapping"),
        ("clouds: {overcloud: {auth: text}}", "a mapping"),
        ("clouds: [overcloud]", "a mapping"),
        ("clouds: {overcloud: {auth: {", "a YAML file"),
        (b"clouds: \xff", "a YAML file"),
        ("[1, 2]", "a mapping"),
    ],
)
def test_broken_clouds_yaml_gives_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str | bytes,
    expected: str,
) -> None:
    """The sentence names the file, not a cloud."""
    file = tmp_path / "clouds.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(file))
    assert exported(tmp_path) == 2
    said = capsys.readouterr().err
    assert str(file) in said and expected in said and said.count("\n") == 1, said
    assert not (tmp_path / "out").exists()
