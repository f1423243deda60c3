"""The lab's guests run: under libvirtd on Open vSwitch, configured by their config drive, and end with the lab."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.helpers.waiting import wait_for
from weft.planning.shapes.mounts import Mount, nfs_options, with_mounts
from weftlab import environment
from weftlab.hypervisor import config, debian, image
from weftlab.hypervisor import jobs as hypervisor
from weftlab.hypervisor.bridges import bridge_of, guest_hosts
from weftlab.hypervisor.login import Guests, SshClient, make_key
from weftlab.layout import LabError, Layout, default_cache
from weftlab.processes import everyone
from weftlab.programs.guestdomain import MEMORY_MIB, fitted
from weftlab.service import without
from weftlab.site import make_site, settings
from weftlab.storage import filer
from weftlab.supervisor import Supervisor
from weftlab.switches import PACKAGES
from weftlab.switches.jobs import ovs_jobs
from weftlab.switches.labsite import lab_ovs

DOMAIN = """\
<domain type='qemu'>
  <uuid>7a1cf0a4-0000-4000-8000-0000000000{n:02x}</uuid>
  <name>instance-{n}</name>
  <memory>1073741824</memory>
  <vcpu>96</vcpu>
  <os>
    <type machine='pc'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>{line}</cmdline>
  </os>
  <features><acpi/></features>
  <cputune><shares>98304</shares></cputune>
  <cpu><topology sockets='96' cores='1' threads='1'/></cpu>
  <devices>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw'/><source file='{drive}'/><target bus='scsi' dev='sda'/>
    </disk>
    {disk}
    <controller type='scsi' model='virtio-scsi'/>
    <interface type='bridge'>
      <mac address='fa:16:3e:00:00:{n:02x}'/><model type='virtio'/><driver name='qemu'/><source bridge='{bridge}'/>
      <mtu size='1500'/><target dev='tap{n}'/>
      <virtualport type='openvswitch'>
        <parameters interfaceid='11111111-2222-4333-8444-5555555555{n:02x}'/>
      </virtualport>
    </interface>
    <interface type='hostdev' managed='yes'>
      <source><address type='pci' domain='0x0000' bus='0x40' slot='0x00' function='0x2'/></source>
    </interface>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0x10' slot='0x00' function='0x0'/></source>
    </hostdev>
    <serial type='file'><source path='{console}'/></serial>
  </devices>
  {more}
</domain>
"""
"""Nova's definition of a server with 96 processors, 1 TiB, a GPU and a virtual function."""


def test_domain_keeps_only_what_this_machine_has() -> None:
    given = DOMAIN.format(
        n=1,
        kernel="/k",
        initrd="/i",
        line="x",
        drive="/d",
        disk="",
        bridge="int-gpu01",
        console="/c",
        more="",
    )
    left = ElementTree.fromstring(fitted(given))
    assert (left.findtext("memory"), left.findtext("vcpu")) == (str(MEMORY_MIB * 1024), "1")
    assert left.find("cpu") is None and left.find("cputune") is None
    devices = left.find("devices")
    assert devices is not None
    assert [d.tag for d in devices] == ["disk", "controller", "interface", "serial"]
    host = devices.find("interface/driver/host")
    assert host is not None and set(host.attrib.values()) == {"off"}
    assert devices.find("interface/virtualport/parameters") is not None
    assert ElementTree.fromstring(fitted(given, 512)).findtext("memory") == str(512 * 1024)


def test_bridge_name_of_a_host_is_valid_in_linux() -> None:
    assert bridge_of("gpu01") == "int-gpu01"
    with pytest.raises(LabError, match="host compute-rack-17"):
        bridge_of("compute-rack-17")


def test_servers_of_nodes_on_switches_do_not_run() -> None:
    layout = Layout(Path("/n"), Path("/n"), 23000)
    both = make_site(settings(nodes=2, leaves=2, ipus=4, fabric="both", guests=True), layout)
    assert [n.name for n in guest_hosts(both)] == ["gpu01", "gpu02"]
    with pytest.raises(LabError, match="--guests is not allowed with --fabric ethernet"):
        settings(nodes=2, leaves=2, fabric="ethernet", guests=True)


STARTED = "#!/bin/sh\necho started > /run/started\n"
FILER = "10.64.0.2"
EXPORT = """\
EXPORT {{ Export_Id = 1; Path = {path}; Pseudo = /shares/one; Protocols = 4; Transports = TCP; SecType = sys;
  Squash = No_Root_Squash; Access_Type = None; FSAL {{ Name = VFS; }}
  CLIENT {{ Clients = {client}; Protocols = 4; Access_Type = RW; }} }}
"""
REREAD = "Reread exports complete"
VOLUME = "4b1cf0a4-1111-4222-8333-444444444444"


class Machine:
    """Open vSwitch and libvirtd in a folder, as in a lab, and guests as Nova defines them."""

    def __init__(self, state: Path) -> None:
        self.layout = Layout(state, default_cache(), 29000)
        self.ovs = lab_ovs(self.layout)
        site = make_site(settings(nodes=2, leaves=2, ipus=0), self.layout)
        (state / "log").mkdir()
        hypervisor.ensure(self.layout.cache, print)
        hypervisor.write(self.layout)
        graph = (
            *ovs_jobs(self.ovs, hypervisor.SPACES, state / "log"),
            *hypervisor.hypervisor_jobs(self.layout, site, ("vswitchd",)),
        )
        self.supervisor = Supervisor(self.layout.run)
        self.key = make_key(state)
        try:
            self.supervisor.run(without(graph, frozenset({"guest-image"})))
        except BaseException:
            self.supervisor.stop()
            raise

    def connection(self) -> Any:
        sys.path.append(str(config.overlay(self.layout)))
        import libvirt  # type: ignore[import-not-found]  # Debian's, beside this environment

        return libvirt.open(f"qemu:///system?socket={config.socket(self.layout)}")

    def boot(
        self, number: int, address: str, bridge: str, vlan: int, disk: Path | None = None, data: str = STARTED
    ) -> None:
        """Starts a guest; sets its port's VLAN, as Neutron's agent would.

        Args:
            disk: of a whole guest, which then has a volume and two NVMe drives.
            data: user data.
        """
        drive = self._drive(number, address, disk is not None, data)
        found = image.ensure(self.layout.cache, print, image.DRIVERS if disk is None else debian.DRIVERS)
        console = self.layout.state / f"console{number}.log"
        described = DOMAIN.format(
            n=number,
            kernel=found.kernel,
            initrd=found.initrd,
            line=image.COMMAND_LINE if disk is None else debian.COMMAND_LINE,
            drive=drive,
            disk="" if disk is None else self._disk(number, disk) + self._volume(),
            bridge=bridge,
            console=console,
            more="" if disk is None else self._drives(),
        )
        self.connection().createXML(fitted(described, 0 if disk is None else debian.MEMORY_MIB))
        self.ovs.vsctl("set", "port", f"tap{number}", f"tag={vlan}")

    @contextmanager
    def filer(self, vlan: int, client: str) -> Generator[Path]:
        """A folder that NFS-Ganesha exports to a client in a VLAN."""
        folder = self.layout.state / "nas"
        filer.write(folder, FILER, 2049)
        shared = folder / "exports" / "one"
        shared.mkdir()
        self.admit(client)
        words = [sys.executable, "-m", "weftlab.storage.filer", str(folder), f"{FILER}/24"]
        process = subprocess.Popen(words)
        try:
            wait_for(lambda: filer.why_not(folder) is None)
            filer.plug(folder, self.ovs, vlan)
            yield shared
        finally:
            process.terminate()
            process.wait()

    def admit(self, client: str) -> None:
        """From now on exports to this client only."""
        folder = self.layout.state / "nas"
        head, export = (folder / "head.conf").read_text(), folder / "exports" / "one"
        (folder / "ganesha.conf").write_text(head + EXPORT.format(path=export, client=client))
        if (folder / "ganesha.pid").exists():
            log = folder / "ganesha.log"
            before = log.read_text(errors="replace").count(REREAD)
            os.kill(int((folder / "ganesha.pid").read_text()), signal.SIGHUP)
            wait_for(lambda: log.read_text(errors="replace").count(REREAD) > before)

    def _volume(self) -> str:
        """A volume as Nova attaches it: its serial number is the beginning of its id."""
        source = f"<source file='{self._empty('volume')}'/><target bus='virtio' dev='vdb'/>"
        driver = "<driver name='qemu' type='raw'/>"
        return f"<disk type='file' device='disk'>{driver}{source}<serial>{VOLUME}</serial></disk>"

    def _drives(self) -> str:
        """Two empty NVMe drives, as arguments of QEMU; libvirt has no element for them."""
        words: list[str] = []
        for name, slot in (
            ("nvme-a", "0x1d"),
            ("nvme-b", "0x1e"),
        ):  # libvirt assigns slots from the lowest on
            words += ["-drive", f"file={self._empty(name)},if=none,format=raw,id={name}"]
            words += ["-device", f"nvme,drive={name},serial={name},addr={slot}"]
        given = "".join(f"<q:arg value='{word}'/>" for word in words)
        return f"<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>{given}</q:commandline>"

    def _empty(self, name: str) -> Path:
        path = self.layout.state / f"{name}.raw"
        with path.open("wb") as file:
            file.truncate(64 << 20)
        return path

    def _drive(self, number: int, address: str, whole: bool, data: str) -> Path:
        """A config drive as Nova writes it."""
        folder = self.layout.state / f"drive{number}" / "openstack" / "latest"
        folder.mkdir(parents=True)
        public = self.key.with_suffix(".pub").read_text()
        meta = {"uuid": f"u{number}", "public_keys": {"k": public}, "keys": [], "hostname": f"guest-{number}"}
        link = {"id": "tapx", "vif_id": "v", "type": "ovs", "mtu": 1500}
        absent = {**link, "id": "tapy", "mtu": 9000, "ethernet_mac_address": "fa:16:3e:00:00:ff"}
        default = {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.64.0.1"}
        four = {"type": "ipv4", "netmask": "255.255.255.0", "network_id": "i", "services": []}
        network: dict[str, Any] = {
            "links": [absent, {**link, "ethernet_mac_address": f"fa:16:3e:00:00:{number:02x}"}],
            "networks": [
                {"id": "network0", **four, "link": "tapy", "ip_address": "10.128.0.1", "routes": []},
                {"id": "network1", **four, "link": "tapx", "ip_address": address, "routes": [default]},
            ],
            "services": [],
        }
        if whole:  # cloud-init rejects a drive with adapters that the guest doesn't have
            network |= {"links": network["links"][1:], "networks": network["networks"][1:]}
        (folder / "meta_data.json").write_text(json.dumps(meta))
        (folder / "network_data.json").write_text(json.dumps(network))
        (folder / "user_data").write_text(data)
        drive = self.layout.state / f"drive{number}.iso"
        made = [
            "genisoimage",
            "-quiet",
            "-J",
            "-r",
            "-V",
            "config-2",
            "-o",
            str(drive),
            str(folder.parents[1]),
        ]
        subprocess.run(made, check=True)
        return drive

    def _disk(self, number: int, base: Path) -> str:
        own = self.layout.state / f"disk{number}.qcow2"
        made = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base), str(own)]
        subprocess.run(made, check=True)
        driver, source = "<driver name='qemu' type='qcow2'/>", f"<source file='{own}'/>"
        return f"<disk type='file' device='disk'>{driver}{source}<target bus='virtio' dev='vda'/></disk>"

    def of_mine(self) -> list[str]:
        """Processes of guests that were started from this folder."""
        found: list[str] = []
        for process in everyone():
            try:
                line = Path(f"/proc/{process.pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if "qemu-system" in line and str(self.layout.state) in line:
                found.append(line)
        return found


@pytest.fixture
def machine() -> Generator[Machine]:
    environment.install_packages({**PACKAGES, **hypervisor.packages()}, print)
    with tempfile.TemporaryDirectory(prefix="weft-hv-") as folder:
        made = Machine(Path(folder))
        try:
            yield made
        finally:
            made.supervisor.stop()


@pytest.mark.fabric
def test_guests_reach_only_their_vlan_and_end_with_the_lab(machine: Machine) -> None:
    machine.boot(1, "10.64.0.11", "int-gpu01", 1005)
    machine.boot(2, "10.64.0.12", "int-gpu02", 1005)
    machine.boot(3, "10.64.1.11", "int-gpu02", 1006)
    door = SshClient(machine.ovs, machine.key)
    ours = Guests(1005, IPv4Network("10.64.0.0/24"), {"gpu01": "10.64.0.11", "gpu02": "10.64.0.12"})
    other = Guests(1006, IPv4Network("10.64.1.0/24"), {"gpu02": "10.64.1.11"})
    with door.into(ours):
        output = door.awaited(
            "10.64.0.11", "hostname; cat /run/started; ip route | grep default; ip -o address show eth0"
        )
        assert output.split("\n")[:3] == ["guest-1", "started", "default via 10.64.0.1 dev eth0 "]
        assert (
            "10.64.0.11/24" in output and "10.128.0.1" not in output
        )  # the address of an adapter that the guest lacks
        assert door.pings("10.64.0.11", ["10.64.0.12"]) == {"10.64.0.12"}
        door.awaited("10.64.0.12", "true")
        assert door.taken("10.64.0.12", other) == set()  # the stranger is on the same host
    with door.into(other):
        assert door.awaited("10.64.1.11", "hostname") == "guest-3"
    assert len(machine.of_mine()) == 3
    machine.supervisor.stop()
    wait_for(lambda: machine.of_mine() == [], "none of its processes is left")


@pytest.mark.nightly(reason="its image is made in a minute, and it boots twice, in two to four")
@pytest.mark.fabric
def test_debian_guest_follows_its_config_drive_by_cloud_init(machine: Machine) -> None:
    """And mounts its storage: the NVMe drives as one striped file system, the volume, and a share of a filer on
    the pod's VLAN, also after a reboot. While the filer doesn't admit it, writes fail instead of going to the root
    disk."""
    environment.install_packages({**debian.PACKAGES, **filer.packages()}, print)
    disk = debian.ensure(machine.layout.cache, print)
    share = Mount("nfs", "/data", f"{FILER}:/shares/one", nfs_options(False))
    local = [Mount("scratch", "/scratch"), Mount("volume", "/work", VOLUME, "new")]
    data = with_mounts(STARTED, [*local, share])
    machine.boot(1, "10.64.0.11", "int-gpu01", 1005, disk, data or "")
    door = SshClient(machine.ovs, machine.key)
    inside = Guests(1005, IPv4Network("10.64.0.0/24"), {"gpu01": "10.64.0.11"})
    with machine.filer(1005, "10.64.0.11") as shared, door.into(inside):
        output = door.awaited(
            "10.64.0.11", "cloud-init status --wait --long; hostname; ip route show default", debian.BOOT
        )
        assert "status: done" in output and "DataSourceConfigDrive" in output
        assert "guest-1" in output.split("\n") and "default via 10.64.0.1" in output
        assert door.awaited("10.64.0.11", "cat /run/started") == "started"
        _mounted(door, *LOCAL, "/data")
        door.awaited(
            "10.64.0.11",
            "echo kept | tee /scratch/file /work/file /data/file; sync; "
            "cat /proc/sys/kernel/random/boot_id > /work/boot; sync; echo 3 > /proc/sys/vm/drop_caches",
        )
        assert door.awaited("10.64.0.11", READ) == "kept\nkept\nkept"
        door.run("10.64.0.11", "systemctl reboot")
        boots = "cat /work/boot /proc/sys/kernel/random/boot_id | uniq | wc -l"
        wait_for(
            lambda: door.awaited("10.64.0.11", boots, debian.BOOT) == "2", "it boots again", debian.BOOT, 2
        )
        machine.admit("10.64.0.99")
        lost = "(echo lost > /data/lost) 2>&1 || true; findmnt -t noautofs /data || true"
        for _ in range(7):  # more often than systemd's limit of starts
            output = door.awaited("10.64.0.11", lost, debian.BOOT)
            assert "No such device" in output and "/shares/one" not in output, output
        machine.admit("10.64.0.11")
        _mounted(door, *LOCAL, "/data")
        assert door.awaited("10.64.0.11", READ) == "kept\nkept\nkept"
        assert {f.name for f in shared.iterdir()} == {"file"}


READ = "cat /scratch/file /work/file /data/file || { dmesg | tail -30 >&2; false; }"
LOCAL = ("/scratch", "/work")


def _mounted(door: SshClient, *places: str) -> None:
    """Waits until all are mounted, and checks in the kernel's tables which device is where."""
    all_are = " && ".join(f"ls {where} && findmnt -t noautofs {where}" for where in places)
    asked = f"({all_are}) > /dev/null 2>&1 && echo yes || true"
    try:
        wait_for(lambda: door.awaited("10.64.0.11", asked, debian.BOOT) == "yes", "mounted", debian.BOOT, 2)
    except AssertionError:
        pytest.fail(door.run("10.64.0.11", "cat /var/log/weft-storage.log; mount; dmesg | tail -30").stdout)
    columns = f"for at in {' '.join(places)}; do findmnt -rn -o TARGET,FSTYPE,SOURCE $at; done"
    shown = f"cat /proc/mdstat; {columns}; cat /var/log/weft-storage.log /etc/fstab"
    output = door.awaited("10.64.0.11", shown, debian.BOOT)
    assert re.search(r"active raid0 nvme\dn1\[\d\] nvme\dn1\[\d\]", output), output
    assert re.search(r"/scratch ext4 /dev/md", output) and "/work ext4 /dev/vdb" in output, output
    if "/data" in places:
        assert f"/data nfs4 {FILER}:/shares/one" in output, output
