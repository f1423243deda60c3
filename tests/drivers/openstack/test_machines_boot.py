"""A machine that runs: a real Ironic boots it from virtual media, behind a BMC, on a switch; rescues and cleans it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, closing
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.drivers.openstack.agentroute import API_PORT, agent_route
from tests.drivers.openstack.fakehardware import clouds_file
from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, TinyCloud, tiny_cloud
from tests.helpers.waiting import wait_for
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.drivers.openstack.networkdata import network_data
from weft.ports.fences import unfenced
from weft.ports.servers import Action
from weftlab.config import Sections
from weftlab.hypervisor import image
from weftlab.hypervisor.bridges import DOOR
from weftlab.hypervisor.login import OPTIONS, Guests, SshClient, make_key
from weftlab.layout import default_cache
from weftlab.metal.config import secret_path
from weftlab.metal.machines import RESOURCE_CLASS, mac
from weftlab.switches.front import PARKING
from weftlab.switches.labsite import lab_ovs

pytestmark = pytest.mark.cloud
VLAN, ADDRESS, SUBNET = 1234, "10.9.0.7", IPv4Network("10.9.0.0/24")
DOOR_ADDRESS = str(SUBNET[-2])
"""Address of the machine that is put in the VLAN (`Door.into`)."""
RESCUING: Sections = {
    "DEFAULT": {"enabled_rescue_interfaces": "agent"},
    "agent": {"require_tls": False},
    "service_catalog": {"auth_type": "none", "endpoint_override": f"http://{DOOR_ADDRESS}:{API_PORT}"},
}
INSTANCE = "11111111-1111-1111-1111-111111111111"
SECRET = b"what the tenant leaves"


@pytest.fixture
def ironic() -> Generator[RealIronic]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-boot-") as folder,  # a short path, for sockets
        real_ironic(Path(folder), RESCUING, booting=True) as ironic,
    ):
        guest = image.ensure(default_cache(), print)
        served = ironic.layout.data / "ironic" / "http"
        for file in (guest.kernel, guest.initrd):
            shutil.copy(file, served / file.name)
        yield ironic


def enrolled(ironic: RealIronic) -> None:
    """Enroll and clean the node once. Without Neutron the test sets its switch port."""
    name, password = secret_path(ironic.layout).read_text().split()
    bmc = {"address": ironic.layout.url("bmc"), "system_id": f"/redfish/v1/Systems/{ironic.node}"}
    bmc |= {"username": name, "password": password, "verify_ca": "false"}
    node = {"uuid": ironic.node, "name": "bm01", "driver": "lab", "resource_class": RESOURCE_CLASS}
    node |= {"properties": {"capabilities": "boot_mode:bios"}}
    images = f"{ironic.layout.url('bmc')}/images"
    info = {f"redfish_{k}": v for k, v in bmc.items()}
    info |= {"rescue_kernel": f"{images}/vmlinuz", "rescue_ramdisk": f"{images}/initrd"}
    info |= {"kernel_append_params": "console=ttyS0 panic=1"}
    ironic.ask("POST", "nodes", {**node, "driver_info": info})
    ironic.ask("POST", "ports", {"node_uuid": ironic.node, "address": mac(0)})
    ironic.provision("manage", "manageable")
    ironic.provision("provide", "available")


def deployed(ironic: RealIronic, key: Path) -> None:
    """As weft does it, with kernel and initramfs by URL, since there is no Glance."""
    images = f"{ironic.layout.url('bmc')}/images"
    info = {"kernel": f"{images}/vmlinuz", "ramdisk": f"{images}/initrd"}
    changes = [
        {"op": "add", "path": "/instance_info", "value": info},
        {"op": "add", "path": "/instance_uuid", "value": INSTANCE},
    ]
    ironic.ask("PATCH", f"nodes/{ironic.node}", changes)
    meta = {"uuid": info["kernel"], "hostname": "train-bm01", "public_keys": {"k": key.read_text().strip()}}
    drive = {"meta_data": meta, "network_data": networks()}
    ironic.ask("PUT", f"nodes/{ironic.node}/states/provision", {"target": "active", "configdrive": drive})
    ironic.await_state("active")


def networks() -> dict[str, Any]:
    """The networks as Neutron would describe them."""
    fixed = [{"subnet_id": "s", "ip_address": ADDRESS}]
    subnet = {"ip_version": 4, "enable_dhcp": False, "cidr": str(SUBNET), "gateway_ip": None}
    return network_data(
        [{"id": "p", "network_id": "n", "mac_address": mac(0), "fixed_ips": fixed}],
        {"n": {"mtu": 1500}},
        {"s": {**subnet, "host_routes": [], "dns_nameservers": []}},
    )


def running(ironic: RealIronic) -> list[int]:
    """Processes of the machine."""
    found = subprocess.run(["pgrep", "-f", f"qemu-system.*{ironic.disk}"], capture_output=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def with_console(ironic: RealIronic) -> tuple[str, int]:
    """The address of its serial console, once it is on."""
    path = f"nodes/{ironic.node}/states/console"
    ironic.ask("PUT", path, {"enabled": True})
    console = wait_for(lambda: ironic.ask("GET", path)["console_info"], "its console is on")
    url = urlsplit(console["url"])
    return str(url.hostname), int(url.port or 0)


@pytest.mark.nightly(reason="minutes; by day guests boot, and machines that don't are deployed and cleaned")
def test_machine_boots_accepts_a_login_resets_and_is_cleaned(ironic: RealIronic, tmp_path: Path) -> None:
    ovs, disk = lab_ovs(ironic.layout), ironic.layout.data / "machines" / ironic.node / "disk"
    enrolled(ironic)
    assert not running(ironic) and not disk.exists()
    assert ovs.vsctl("get", "port", "bm01", "tag").strip() == str(PARKING)
    key = make_key(tmp_path)
    deployed(ironic, key.with_suffix(".pub"))
    door = SshClient(ovs, key)
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
        said, end = b"", time.monotonic() + PATIENCE
        while b"GUEST UP train-bm01" not in said:
            said += (more := serial.recv(4096))
            assert more and time.monotonic() < end, said[-3000:]
        ironic.ask("PUT", f"nodes/{ironic.node}/states/console", {"enabled": False})
        wait_for(lambda: not serial.recv(4096), "a reader gets no more")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(console, timeout=5)
    ironic.provision("deleted", "available")
    assert not running(ironic) and not disk.exists()


def login(ironic: RealIronic, folder: Path, password: str, command: str) -> subprocess.CompletedProcess[str]:
    """Log in as `rescue` with a password, from the tenant's VLAN."""
    asked = folder / "password"
    asked.write_text(f"#!/bin/sh\necho '{password}'\n")
    asked.chmod(0o700)
    options = [word for option in (*OPTIONS[1:], "NumberOfPasswordPrompts=1") for word in ("-o", option)]
    options += ["-o", "PreferredAuthentications=password", "-o", "PubkeyAuthentication=no"]
    space = lab_ovs(ironic.layout).space(DOOR)
    return subprocess.run(
        ["nsenter", f"--net={space}", "ssh", "-q", *options, f"rescue@{ADDRESS}", command],
        env={**os.environ, "SSH_ASKPASS": str(asked), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": "none"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


@pytest.mark.nightly(
    reason="minutes; by day the agent's stand-in gets the password's hash (test_direct_real.py)"
)
def test_tenant_logs_in_to_the_rescue_system_with_the_shown_password(
    ironic: RealIronic, tmp_path: Path
) -> None:
    """It finds its disk unchanged, no one else can log in, and its own system boots afterwards."""
    ovs, key, server = lab_ovs(ironic.layout), make_key(tmp_path), f"{INSTANCE}@{ironic.node}"
    enrolled(ironic)
    deployed(ironic, key.with_suffix(".pub"))
    ovs.vsctl("set", "port", "bm01", f"tag={VLAN}")
    door = SshClient(ovs, key)
    with ExitStack() as undo:
        _, text = undo.enter_context(tiny_cloud(TinyCloud))
        sessions = undo.enter_context(closing(Sessions("weft", [clouds_file(tmp_path, text, ironic)])))
        facts = OpenStackFacts(sessions, machines=[ironic.node], by_ironic=True)
        undo.enter_context(door.into(Guests(VLAN, SUBNET, {})))
        door.awaited(ADDRESS, f"echo {SECRET.decode()} > /dev/vda; sync", PATIENCE)
        assert login(ironic, tmp_path, "", "true").returncode == 255
        # with Neutron it would be in Ironic's network for rescues, which this machine doesn't have
        change = {"op": "add", "path": "/network_data", "value": networks()}
        ironic.ask("PATCH", f"nodes/{ironic.node}", [change])
        with agent_route(ovs.space(DOOR), DOOR_ADDRESS, ADDRESS, ironic.url):
            password = facts.act(PROJECT, server, Action.RESCUE, unfenced)
            assert password
            state = ironic.await_state("rescue", "rescue failed")
            assert state["provision_state"] == "rescue", state["last_error"]
            wait_for(
                lambda: login(ironic, tmp_path, password, "true").returncode == 0,
                "its user gets in",
                PATIENCE,
            )
        assert login(ironic, tmp_path, password, "head -c 22 /dev/vda").stdout.encode() == SECRET
        assert login(ironic, tmp_path, f"{password}x", "true").returncode == 255
        assert door.run(ADDRESS, "true").returncode == 255, "the server's key doesn't open the rescue system"
        assert facts.act(PROJECT, server, Action.UNRESCUE, unfenced) is None
        ironic.await_state("active")
        assert door.awaited(ADDRESS, "hostname", PATIENCE) == "train-bm01"
        assert login(ironic, tmp_path, password, "true").returncode == 255
    ironic.provision("deleted", "available")
