"""A machine that runs: a real Ironic boots it from virtual media, behind a BMC, on a switch; and cleans it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from ipaddress import IPv4Network
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.helpers.waiting import wait_for
from weft.drivers.openstack.networkdata import network_data
from weftlab.hypervisor import image
from weftlab.hypervisor.login import Door, Guests, make_key
from weftlab.layout import default_cache
from weftlab.metal.config import secret_path
from weftlab.metal.machines import RESOURCE_CLASS, mac
from weftlab.switches.front import PARKING
from weftlab.switches.labsite import lab_ovs

pytestmark = pytest.mark.cloud
VLAN, ADDRESS, SUBNET = 1234, "10.9.0.7", IPv4Network("10.9.0.0/24")
SECRET = b"what the tenant leaves"


@pytest.fixture
def ironic() -> Generator[RealIronic]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-boot-") as folder,  # a short path, for sockets
        real_ironic(Path(folder), booting=True) as ironic,
    ):
        guest = image.ensure(default_cache(), print)
        served = ironic.layout.data / "ironic" / "http"
        for file in (guest.kernel, guest.initrd):
            shutil.copy(file, served / file.name)
        yield ironic


def enrolled(ironic: RealIronic) -> None:
    """Its node, cleaned once; Neutron isn't there, so this test is who sets its switch port."""
    name, password = secret_path(ironic.layout).read_text().split()
    bmc = {"address": ironic.layout.url("bmc"), "system_id": f"/redfish/v1/Systems/{ironic.node}"}
    bmc |= {"username": name, "password": password, "verify_ca": "false"}
    node = {"uuid": ironic.node, "name": "bm01", "driver": "lab", "resource_class": RESOURCE_CLASS}
    node |= {"properties": {"capabilities": "boot_mode:bios"}}
    ironic.ask("POST", "nodes", {**node, "driver_info": {f"redfish_{k}": v for k, v in bmc.items()}})
    ironic.ask("POST", "ports", {"node_uuid": ironic.node, "address": mac(0)})
    ironic.provision("manage", "manageable")
    ironic.provision("provide", "available")


def deployed(ironic: RealIronic, key: Path) -> None:
    """As weft does it, with kernel and initramfs by URL, since there is no Glance."""
    images = f"{ironic.layout.url('bmc')}/images"
    info = {"kernel": f"{images}/vmlinuz", "ramdisk": f"{images}/initrd"}
    changes = [
        {"op": "add", "path": "/instance_info", "value": info},
        {"op": "add", "path": "/instance_uuid", "value": "11111111-1111-1111-1111-111111111111"},
    ]
    ironic.ask("PATCH", f"nodes/{ironic.node}", changes)
    fixed = [{"subnet_id": "s", "ip_address": ADDRESS}]
    subnet = {"ip_version": 4, "enable_dhcp": False, "cidr": str(SUBNET), "gateway_ip": None}
    networks = network_data(
        [{"id": "p", "network_id": "n", "mac_address": mac(0), "fixed_ips": fixed}],
        {"n": {"mtu": 1500}},
        {"s": {**subnet, "host_routes": [], "dns_nameservers": []}},
    )
    meta = {"uuid": info["kernel"], "hostname": "train-bm01", "public_keys": {"k": key.read_text().strip()}}
    drive = {"meta_data": meta, "network_data": networks}
    ironic.ask("PUT", f"nodes/{ironic.node}/states/provision", {"target": "active", "configdrive": drive})
    ironic.await_state("active")


def running(ironic: RealIronic) -> list[int]:
    """Processes of the machine."""
    found = subprocess.run(["pgrep", "-f", f"qemu-system.*{ironic.disk}"], capture_output=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def with_console(ironic: RealIronic) -> tuple[str, int]:
    """Where its serial console is."""
    path = f"nodes/{ironic.node}/states/console"
    ironic.ask("PUT", path, {"enabled": True})
    told = wait_for(lambda: ironic.ask("GET", path)["console_info"], "its console is on")
    url = urlsplit(told["url"])
    return str(url.hostname), int(url.port or 0)


@pytest.mark.nightly(reason="minutes; by day guests boot, and machines that don't are deployed and cleaned")
def test_a_machine_is_booted_logged_in_to_reset_watched_and_cleaned(
    ironic: RealIronic, tmp_path: Path
) -> None:
    ovs, disk = lab_ovs(ironic.layout), ironic.layout.data / "machines" / ironic.node / "disk"
    enrolled(ironic)
    assert not running(ironic) and not disk.exists()
    assert ovs.vsctl("get", "port", "bm01", "tag").strip() == str(PARKING)
    key = make_key(tmp_path)
    deployed(ironic, key.with_suffix(".pub"))
    door = Door(ovs, key)
    with door.into(Guests(VLAN, SUBNET, {})):
        assert not door.reaches(ADDRESS), "its port is parked"
        ovs.vsctl("set", "port", "bm01", f"tag={VLAN}")
        assert door.awaited(ADDRESS, "hostname", PATIENCE) == "train-bm01"
        door.awaited(ADDRESS, f"echo {SECRET.decode()} > /dev/vda; sync; touch /run/before")
        assert SECRET in disk.read_bytes()
        ironic.ask("PUT", f"nodes/{ironic.node}/states/power", {"target": "rebooting"})
        wait_for(
            lambda: door.run(ADDRESS, "test ! -e /run/before").returncode == 0, "it boots again", PATIENCE
        )
        assert door.awaited(ADDRESS, "head -c 22 /dev/vda").encode() == SECRET
    console = with_console(ironic)
    with socket.create_connection(console, timeout=PATIENCE) as serial:
        ironic.ask("PUT", f"nodes/{ironic.node}/states/power", {"target": "rebooting"})
        said = b""
        while b"GUEST UP train-bm01" not in said:
            said += (more := serial.recv(4096))
            assert more, said
        ironic.ask("PUT", f"nodes/{ironic.node}/states/console", {"enabled": False})
        wait_for(lambda: not serial.recv(4096), "whoever looks sees no more")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(console, timeout=5)
    ironic.provision("deleted", "available")
    assert not running(ironic) and not disk.exists()
