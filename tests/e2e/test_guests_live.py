"""A lab whose servers run: what Nova, Neutron and weft say of a pod is what its guests have, who reaches whom, and what
they mount.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.people import People, Person, assert_clean, connection, wait_for
from tests.helpers.ownlab import own_lab
from weftlab import environment
from weftlab.hypervisor import debian
from weftlab.hypervisor.bridges import DOOR, bridge_of, entered
from weftlab.hypervisor.jobs import upload
from weftlab.hypervisor.login import Guests, SshClient, guests_of, make_key
from weftlab.lab import Lab
from weftlab.layout import LabError
from weftlab.storage.config import NETWORK, VLAN, folder
from weftlab.storage.filer import StorageHost
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
storage: {storage}
"""
SCRIPT = "#!/bin/sh\\necho started > /run/started\\n"
CLOUD_CONFIG = "#cloud-config\\nwrite_files: [{path: /etc/started, content: started}]\\n"


@pytest.fixture(scope="module")
def lab() -> Generator[Lab]:
    asked = {"nodes": 4, "leaves": 2, "ipus": 0, "guests": True, "storage": True}
    with own_lab(**asked) as lab:
        yield lab


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return make_key(tmp_path)


def ordered(who: Person, key: Path, name: str, count: int, **more: str) -> Guests:
    public = key.with_suffix(".pub").read_text().strip()
    given = {
        "image": "guest",
        "fabric": "{isolation: partition}",
        "data": f'"{SCRIPT}"',
        "storage": "[]",
        **more,
    }
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


def test_members_stay_isolated_through_power_cycles(lab: Lab, people: People, key: Path) -> None:
    tenant, other = people("team-a"), people("team-b")
    mine, theirs = ordered(tenant, key, "train", 2), ordered(other, key, "serve", 1)
    door, [first, second] = SshClient(lab_ovs(lab.layout), key), list(mine.addresses.values())
    with door.into(mine):
        output = door.awaited(first, "ip -o -4 address show dev eth0; cat /run/started; hostname")
        assert f"{first}/{mine.subnet.prefixlen}" in output and "\nstarted\n" in output
        assert door.pings(first, [second]) == {second}
        assert door.taken(first, theirs) == set()
        door.awaited(first, "touch /run/before")
        node = next(n for n, a in mine.addresses.items() if a == first)
        assert tenant.weft("pod", "reboot", "train", node, "--hard").code == 0
        wait_for(lambda: door.run(first, "test ! -e /run/before").returncode == 0)
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


def test_sessions_and_pings_of_others_outlive_a_replacement(lab: Lab, people: People, key: Path) -> None:
    """A session by SSH stays open, and no ping from it to another server is lost. The new server answers at the failed
    one's address, under its name."""
    tenant, operator = people("team-a"), people("operator")
    mine = ordered(tenant, key, "repair", 3)
    door, (failed, *_) = SshClient(lab_ovs(lab.layout), key), mine.addresses
    place, first, second = mine.addresses.values()
    with door.into(mine):
        for address in mine.addresses.values():
            door.awaited(address, "true")
        name = door.awaited(place, "touch /run/before; hostname")
        with door.session(first, f"ping -i 1 -W 5 {second}") as session:
            assert tenant.weft("pod", "replace", "repair", failed).code == 0
            wait_for(lambda: not tenant.weft("pod", "show", "repair", "--json").json["changing_since"])
            assert session.poll() is None
        seen = [int(n) for n in re.findall(r"seq=(\d+)", session.communicate()[0])]
        assert len(seen) > 5 and seen == [*range(seen[0], seen[0] + len(seen))]
        assert door.awaited(place, "test ! -e /run/before && hostname") == name
    now = tenant.weft("pod", "show", "repair", "--json").json
    assert failed not in {s["node"] for s in now["servers"]}
    assert operator.weft("node", "accept", failed, "--for", "repair").code == 0
    assert tenant.weft("pod", "release", "repair", "--wait").code == 0
    assert tenant.weft("pod", "receipt", "repair", "--json").json["receipt"]["clean"]
    assert_clean(operator)


def test_debian_guest_is_configured_by_cloud_init(lab: Lab, people: People, key: Path) -> None:
    """By DHCP, since cloud-init believes Nova's network_data.json. Without RDMA, whose adapters no guest has. It mounts
    the pod's share from its port on the storage network, through its VLAN on the switches; no other guest does. And an
    export of the site's.
    """
    environment.install_packages(debian.PACKAGES, print)
    upload(lab.layout, **debian.image_of(debian.ensure(lab.layout.cache, print)))
    more = {"image": debian.NAME, "fabric": "none", "data": f'"{CLOUD_CONFIG}"'}
    tenant = people("team-a")
    mine = ordered(tenant, key, "whole", 1, storage=STORAGE, **more)
    door, [address] = SshClient(lab_ovs(lab.layout), key), list(mine.addresses.values())
    with door.into(mine):
        output = door.awaited(address, "cloud-init status --wait --long; cat /etc/started", debian.BOOT)
        assert "status: done" in output and "DataSourceConfigDrive" in output and output.endswith("started")
        log = "cat /var/log/weft-storage.log"
        output = door.awaited(
            address, f"timeout 120 sh -c '{MOUNTED}'; findmnt -rn /data; {log}", debian.BOOT
        )
        assert "/data 10.79.0.2:" in output and "vers=4.2" in output, output
        door.awaited(address, "echo from the guest | tee /data/text > /home/weft/text; sync", debian.BOOT)
        assert "/home/weft 10.79.0.2:/home" in door.awaited(address, "findmnt -rn /home/weft", debian.BOOT)
        output = door.awaited(address, "ip -o -4 address show", debian.BOOT)
        assert _storage_address(lab, tenant, "whole") in output, output
    nas = folder(lab.layout)
    texts = (nas / "home" / "text", *(nas / "exports").glob("*/text"))
    assert [f.read_text() for f in texts] == ["from the guest\n"] * 2
    assert VLAN in plugged(lab).values()
    assert tenant.weft("pod", "release", "whole", "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "whole", "--json").json["receipt"]
    assert receipt["clean"] and "share_access" in {i["plane"] for i in receipt["items"]}
    assert plugged(lab) == {}
    assert_clean(people("operator"))


def test_share_is_mounted_through_the_vlan_until_the_release(lab: Lab, people: People, key: Path) -> None:
    """By libnfs, plugged into the member's host in the guest's stead. Neither a neighbour's address in that VLAN, nor
    the member's own in another VLAN, gets in.
    """
    tenant, ovs = people("team-b"), lab_ovs(lab.layout)
    entry = "{share: data, size: 1GiB, mount: /data, keep: true}"
    mine = ordered(tenant, key, "nfs", 1, storage=f"[{entry}]")
    [(node, address)] = mine.addresses.items()
    share, own, host = _share(lab, "team-b"), _storage_address(lab, tenant, "nfs"), bridge_of(node)
    door = SshClient(ovs, key)
    with door.into(mine):
        found = door.awaited(address, f"ip -o -4 address show | grep {own}/")
        interface = found.split()[1]
        door.awaited(address, f"ip link set {interface} down")
    host_in_vlan = StorageHost(ovs.space(DOOR))
    text = tenant.folder / "text"
    text.write_text("through the switch")
    with entered(ovs, VLAN, f"{own}/24", host):
        assert host_in_vlan.files(share) == []
        assert (
            host_in_vlan.write(share, "text", text) and host_in_vlan.read(share, "text") == text.read_text()
        )
    with entered(ovs, VLAN, f"{NEIGHBOUR}/24", host):
        assert host_in_vlan.files(share) is None, "the rule is for the pod's address alone"
    with entered(ovs, mine.vlan, f"{own}/24", host), pytest.raises((LabError, subprocess.TimeoutExpired)):
        host_in_vlan.files(share)
    assert tenant.weft("pod", "release", "nfs", "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "nfs", "--json").json["receipt"]
    assert receipt["clean"] and [i["plane"] for i in receipt["items"] if i["result"] == "kept"] == ["share"]
    with entered(ovs, VLAN, f"{own}/24", host):
        assert host_in_vlan.files(share) is None, "no client mounts what is left"
    assert plugged(lab) == {}
    proxy: Any = connection(lab, "team-b").shared_file_system
    for row in proxy.get("/shares", microversion="2.82").json()["shares"]:
        proxy.delete(f"/shares/{row['id']}", microversion="2.82")
    assert_clean(people("operator"))


NEIGHBOUR = "10.79.0.253"
"""On the storage network; no port has it."""
STORAGE = "[{share: data, size: 1GiB, mount: /data}, {export: home, mount: /home/weft}]"
MOUNTED = "until findmnt -t noautofs /data; do sleep 1; done"


def _share(lab: Lab, who: str) -> str:
    """Path of a user's only share."""
    proxy: Any = connection(lab, who).shared_file_system
    (share,) = proxy.get("/shares", microversion="2.82").json()["shares"]
    path = f"/shares/{share['id']}/export_locations"
    return proxy.get(path, microversion="2.82").json()["export_locations"][0]["path"]


def _storage_address(lab: Lab, who: Person, name: str) -> str:
    """Address of a pod's only port on the storage network, as Neutron has it."""
    pod = who.weft("pod", "show", name, "--json").json
    network = connection(lab, "operator").network
    ports = network.ports(network_id=network.find_network(NETWORK, ignore_missing=False).id)
    (own,) = (p.fixed_ips[0]["ip_address"] for p in ports if p.name.startswith(f"weft-{pod['id'][:8]}-"))
    return own
