"""A lab whose servers run: what Nova, Neutron and weft say of a pod is what its guests have, and who reaches whom."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.people import People, Person, assert_clean, connection
from tests.helpers.ownlab import own_lab
from weftlab import environment
from weftlab.hypervisor import debian
from weftlab.hypervisor.jobs import upload
from weftlab.hypervisor.login import Door, Guests, guests_of, make_key
from weftlab.lab import Lab
from weftlab.switches.labsite import lab_ovs

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own; guests on the same libvirt and Open vSwitch run by day"),
]

POD = """\
name: {name}
nodes: {{count: {count}, flavor: gpu8, image: {image}}}
fabric: {fabric}
access: {{ssh_key: {key}, user_data: {data}}}
"""
SCRIPT = "#!/bin/sh\\necho told > /run/told\\n"
CLOUD_CONFIG = "#cloud-config\\nwrite_files: [{path: /etc/told, content: told}]\\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    with own_lab(tmp_path_factory.mktemp("guests"), nodes=4, leaves=2, ipus=0, guests=True) as lab:
        yield lab


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path)


def ordered(who: Person, key: Path, name: str, count: int, **more: str) -> Guests:
    public = key.with_suffix(".pub").read_text().strip()
    given = {"image": "guest", "fabric": "{isolation: partition}", "data": f'"{SCRIPT}"', **more}
    (who.folder / f"{name}.yaml").write_text(POD.format(name=name, count=count, key=public, **given))
    made = who.weft("pod", "create", "-f", str(who.folder / f"{name}.yaml"), "--wait")
    assert made.code == 0, made.err
    network = connection(who.lab, "operator").network
    return guests_of(who.weft("pod", "show", name, "--json").json, network)


def plugged(lab: Lab) -> dict[str, Any]:
    """Interface of each guest -> its VLAN."""
    rows = json.loads(lab_ovs(lab.layout).vsctl("--format=json", "--columns=name,tag", "list", "port"))[
        "data"
    ]
    return {name: tag for name, tag in rows if name.startswith("tap")}


def up_since(door: Door, address: str) -> float:
    return time.time() - float(door.awaited(address, "cut -d' ' -f1 /proc/uptime"))


def test_members_reach_each_other_and_no_stranger_through_power_cycles_too(
    lab: Lab, people: People, key: Path
) -> None:
    tenant, other = people("team-a"), people("team-b")
    mine, theirs = ordered(tenant, key, "train", 2), ordered(other, key, "serve", 1)
    door, [first, second] = Door(lab_ovs(lab.layout), key), list(mine.addresses.values())
    with door.into(mine):
        told = door.awaited(first, "ip -o -4 address show dev eth0; cat /run/told; hostname")
        assert f"{first}/{mine.subnet.prefixlen}" in told and "\ntold\n" in told
        assert door.pings(first, [second]) == {second}
        assert door.taken(first, theirs) == set()
        began = up_since(door, first)
        node = next(n for n, a in mine.addresses.items() if a == first)
        assert tenant.weft("pod", "reboot", "train", node, "--hard").code == 0
        while up_since(door, first) < began + 5:
            time.sleep(1)
        assert set(plugged(lab).values()) == {mine.vlan, theirs.vlan}  # a port without a tag has every VLAN
        assert door.pings(first, [second]) == {second} and door.taken(first, theirs) == set()
    with door.into(theirs):
        assert all(door.reaches(a) for a in theirs.addresses.values())
    for who, name in ((tenant, "train"), (other, "serve")):
        assert who.weft("pod", "release", name, "--wait").code == 0
        receipt = who.weft("pod", "receipt", name, "--json").json["receipt"]
        assert all(item["result"] == "clean" for item in receipt["items"])
    assert plugged(lab) == {} and "dhcp" not in lab_ovs(lab.layout).vsctl("show")
    assert_clean(people("operator"))


def test_a_whole_debian_is_set_up_by_its_cloud_init(lab: Lab, people: People, key: Path) -> None:
    """By DHCP, since cloud-init believes Nova's network_data.json. Without RDMA, whose adapters no guest has."""
    environment.install_packages(debian.PACKAGES, print)
    upload(lab.layout, **debian.image_of(debian.ensure(lab.layout.cache, print)))
    more = {"image": debian.NAME, "fabric": "none", "data": f'"{CLOUD_CONFIG}"'}
    mine = ordered(people("team-a"), key, "whole", 1, **more)
    door, [address] = Door(lab_ovs(lab.layout), key), list(mine.addresses.values())
    with door.into(mine):
        told = door.awaited(address, "cloud-init status --wait --long; cat /etc/told", 420)
        assert "status: done" in told and "DataSourceConfigDrive" in told and told.endswith("told")
