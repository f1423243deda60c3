"""The filer: a network namespace with a bridge, and NFS-Ganesha in it with the exports that Manila's driver writes.

`python -m weftlab.storage.filer FOLDER ADDRESS/PREFIX` runs until it is ended; namespace, bridge and Ganesha end
with it. A client gets a cable to the bridge (`StorageHost`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weftlab.environment import program
from weftlab.hypervisor.bridges import MANAGEMENT
from weftlab.layout import LabError
from weftlab.switches.openvswitch import SWITCHES, Ovs

CLONE_NEWNET = 0x40000000  # linux/sched.h
PACKAGES = {"ganesha.nfsd": "nfs-ganesha", "nfs-ls": "libnfs-utils", "ip": "iproute2"}
"""Program -> Debian package."""
VFS = "ganesha/libfsalvfs.so"
BRIDGE, CABLE = "nas", "nas-up"

HEAD = """\
NFS_CORE_PARAM {{ Protocols = 4; NFS_Port = {port}; Bind_addr = {address}; Enable_NLM = false; Enable_RQUOTA = false; \
MNT_Port = 0; }}
NFSv4 {{ RecoveryBackend = fs; RecoveryRoot = {folder}/recovery; Grace_Period = 5; Lease_Lifetime = 60; \
Graceless = true; Minor_Versions = 0,1,2; Only_Numeric_Owners = true; }}
LOG {{ Default_Log_Level = EVENT; }}
EXPORT {{ Export_Id = 99; Path = {folder}/home; Pseudo = /home; Protocols = 4; Transports = TCP; SecType = sys; \
Squash = No_Root_Squash; Access_Type = RW; FSAL {{ Name = VFS; }} }}
"""
"""Head of the configuration, with an export of the site's that every host of the network may mount."""


def packages() -> dict[str, str]:
    """Packages for `weftlab.environment.install_packages`, with a file of each: what exports folders is a library."""
    there = any(Path("/usr/lib").glob(f"*/{VFS}"))
    return PACKAGES if there else {**PACKAGES, VFS: "nfs-ganesha-vfs"}


def write(folder: Path, address: str, port: int) -> None:
    """Folders and Ganesha's configuration without exports, which are in `exports.conf` beside it."""
    for name in ("exports", "home", "recovery", "shares"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "head.conf").write_text(HEAD.format(folder=folder, address=address, port=port))


def main(folder: Path, address: str) -> None:
    """Hold the namespace and run Ganesha in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "a network namespace for the filer")
    for words in (
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"link set {BRIDGE} up",
        f"addr add {address} dev {BRIDGE}",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    (folder / "space").write_text(f"/proc/{os.getpid()}/ns/net")
    conf = folder / "ganesha.conf"
    if not conf.exists():
        conf.write_text((folder / "head.conf").read_text())
    log = folder / "ganesha.log"
    argv = [program("ganesha.nfsd") or "ganesha.nfsd", "-F", "-f", str(conf), "-L", str(log)]
    child = subprocess.Popen([*argv, "-p", str(folder / "ganesha.pid"), "-N", "NIV_EVENT"])
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    sys.exit(child.wait())


def plug(folder: Path, ovs: Ovs, vlan: int) -> None:
    """Cable the filer's bridge to the switches between the hosts of guests, in the storage network's VLAN.

    A second call changes nothing.
    """
    space = (folder / "space").read_text()
    there = subprocess.run(
        ["nsenter", f"--net={space}", "ip", "link", "show", CABLE], capture_output=True, check=False
    )
    if there.returncode == 0:
        return
    added = ["add-port", MANAGEMENT, CABLE, f"tag={vlan}", "--", "set", "interface", CABLE, "type=internal"]
    ovs.vsctl("--if-exists", "del-port", CABLE, "--", *added)
    ovs.inside(SWITCHES, ["ip", "link", "set", "dev", CABLE, "netns", space])
    _ip(space, f"link set {CABLE} master {BRIDGE} up")
    # Frames of the userspace datapath need their checksums.
    off = ["nsenter", f"--net={space}", "ethtool", "-K", CABLE, "tx", "off"]
    subprocess.run(off, check=True, capture_output=True)


def why_not(folder: Path) -> str | None:
    """None if Ganesha serves."""
    try:
        started = "NFS SERVER INITIALIZED" in (folder / "ganesha.log").read_text(errors="replace")
        os.kill(int((folder / "ganesha.pid").read_text()), 0)
    except (OSError, ValueError):
        return "Ganesha doesn't run yet"
    return None if started else "Ganesha isn't ready yet"


class StorageHost:
    """A host on the storage network with an address of its own; whichever server has that address could be this one.

    Args:
        space: path of its network namespace.
    """

    def __init__(self, space: str) -> None:
        self._space = space

    def files(self, location: str, port: int = 2049) -> list[str] | None:
        """Names in an export, or None: it isn't there for this client. Raises `LabError` for another failure."""
        done = self._nfs("nfs-ls", location, port)
        if done.returncode == 0:
            return [line.split()[-1] for line in done.stdout.splitlines()]
        if any(word in done.stderr for word in ("NFS4ERR_NOENT", "NFS4ERR_ACCESS", "NFS4ERR_PERM")):
            return None
        raise LabError(f"nfs-ls of {location}: {done.stderr.strip() or done.stdout.strip()}")

    def write(self, location: str, name: str, file: Path, port: int = 2049) -> bool:
        """Copy a file into an export; False: it is refused."""
        done = self._run(["nfs-cp", str(file), f"{_url(location)}/{name}?version=4&nfsport={port}"])
        return done.returncode == 0

    def read(self, location: str, name: str, port: int = 2049) -> str:
        return self._run(["nfs-cat", f"{_url(location)}/{name}?version=4&nfsport={port}"]).stdout

    @contextmanager
    def reading(self, location: str, name: str, port: int = 2049) -> Generator[subprocess.Popen[bytes]]:
        """A program that has opened a file and gets on as its output is read."""
        url = f"{_url(location)}/{name}?version=4&nfsport={port}"
        inside = ["nsenter", f"--net={self._space}", "nfs-cat", url]
        with subprocess.Popen(inside, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()

    def _nfs(self, command: str, location: str, port: int) -> subprocess.CompletedProcess[str]:
        return self._run([command, f"{_url(location)}?version=4&nfsport={port}"])

    def _run(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", f"--net={self._space}", *argv]
        return subprocess.run(inside, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def client(folder: Path, address: str) -> Generator[StorageHost]:
    """A host in a namespace of its own, on the filer's bridge. Args: address: with prefix length."""
    holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
    try:
        space = (folder / "space").read_text()
        theirs, ours = Path(f"/proc/{holder.pid}/ns/net"), Path("/proc/self/ns/net")
        while theirs.readlink() == ours.readlink():
            time.sleep(0.01)
        leg = f"c{holder.pid}"
        _ip(space, f"link add {leg} type veth peer name eth0 netns {holder.pid}")
        _ip(space, f"link set {leg} master {BRIDGE} up")
        for words in ("link set lo up", f"addr add {address} dev eth0", "link set eth0 up"):
            _ip(f"/proc/{holder.pid}/ns/net", words)
        yield StorageHost(f"/proc/{holder.pid}/ns/net")
    finally:
        holder.kill()
        with contextlib.suppress(OSError):
            holder.wait()


def _ip(space: str, words: str) -> None:
    subprocess.run(["nsenter", f"--net={space}", "ip", *words.split()], check=True)


def _url(location: str) -> str:
    server, _, path = location.partition(":")
    return f"nfs://{server}{path}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
