"""Logins to guests: by SSH from the namespace `door`, in the VLAN of a pod's management network."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from weftlab.hypervisor.bridges import DOOR, entered
from weftlab.layout import LabError
from weftlab.switches.openvswitch import Ovs

OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=3",
    # A guest that is destroyed says no goodbye.
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
)
PATIENCE = 90.0
"""Seconds until a guest that was just started accepts a login, on a busy machine."""
LONGEST = 60.0
"""Seconds of one command: SSH's own limits are of the connection, and of a guest that says nothing at all."""
PING = 3
"""Seconds for the answer to a ping."""


@dataclass(frozen=True, slots=True)
class Guests:
    """A pod's servers, as `weft pod show --json` has them.

    Attributes:
        addresses: node -> address on the management network.
    """

    vlan: int
    subnet: IPv4Network
    addresses: Mapping[str, str]


def guests_of(pod: Mapping[str, Any], network: Any) -> Guests:
    """A pod's guests.

    Args:
        pod: `weft pod show --json`.
        network: openstacksdk's Neutron, as a user who may read the pod's subnet.
    """
    subnet = next(r for r in pod["resources"] if r["key"] == "subnet/management")
    return Guests(
        int(pod["vlan"]),
        IPv4Network(network.get_subnet(subnet["id"]).cidr),
        {s["node"]: s["management_address"] for s in pod["servers"]},
    )


def make_key(folder: Path) -> Path:
    """A new key for SSH; its public half is beside it, with `.pub`."""
    path = folder / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", str(path)], check=True)
    return path


class SshClient:
    """SSH client in a VLAN of the management network, with a private key."""

    def __init__(self, ovs: Ovs, key: Path) -> None:
        self._ovs, self._key = ovs, key

    @contextlib.contextmanager
    def into(self, guests: Guests) -> Generator[None]:
        """Be in the pod's VLAN, with an address of its subnet, for the time of the block."""
        with entered(self._ovs, guests.vlan, f"{guests.subnet[-2]}/{guests.subnet.prefixlen}"):
            yield

    def run(self, address: str, command: str) -> subprocess.CompletedProcess[str]:
        """One command as root on a guest; exit code 255: login failed, or it didn't end in time."""
        return self._inside(self._ssh(address, command))

    @contextlib.contextmanager
    def session(self, address: str, command: str) -> Generator[subprocess.Popen[str]]:
        """A command that runs until the block ends; `communicate` gives its output."""
        argv = self._in_space(self._ssh(address, command))
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        try:
            yield child
        finally:
            child.terminate()
            child.wait()

    def awaited(self, address: str, command: str, seconds: float = PATIENCE) -> str:
        """Output of the command, once the guest accepts the login. Raises `LabError`."""
        end = time.monotonic() + seconds
        while (done := self.run(address, command)).returncode == 255:
            if time.monotonic() > end:
                raise LabError(f"{address} accepts no login after {seconds:.0f} s: {done.stderr.strip()}")
            time.sleep(0.3)
        if done.returncode:
            raise LabError(f"{command!r} on {address}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()

    def pings(self, address: str, others: Sequence[str]) -> set[str]:
        """Which of the others a guest gets an answer from, all asked at once."""
        each = [f"(ping -c 1 -W {PING} {o} >/dev/null && echo {o}) &" for o in map(shlex.quote, others)]
        return set(self.awaited(address, " ".join([*each, "wait"])).split())

    def reaches(self, address: str) -> bool:
        """Whether the address answers a ping from the namespace `door`."""
        return self._inside(["ping", "-n", "-q", "-c", "1", "-W", str(PING), address]).returncode == 0

    def taken(self, address: str, other: Guests) -> set[str]:
        """Root on a guest takes an address of another pod's network, and pings all who are there: who answered."""
        mine = f"{other.subnet[-3]}/{other.subnet.prefixlen}"
        self.awaited(address, f"ip address add {mine} dev eth0")
        try:
            return self.pings(address, list(other.addresses.values()))
        finally:
            self.awaited(address, f"ip address del {mine} dev eth0")

    def _ssh(self, address: str, command: str) -> list[str]:
        options = [word for option in OPTIONS for word in ("-o", option)]
        return ["ssh", "-i", str(self._key), "-q", *options, f"root@{address}", command]

    def _in_space(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", f"--net={self._ovs.space(DOOR)}", *argv]

    def _inside(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                self._in_space(argv),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(argv, 255, "", f"no end after {LONGEST:.0f} s")
