"""A host's interface as a raw socket, in the agent's own network namespace or in another."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import struct
import threading
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCGIFADDR, SIOCGIFHWADDR = 0x8913, 0x8914, 0x8915, 0x8927
IFF_UP, IFF_RUNNING = 1, 0x40
ALL = 3
"""ETH_P_ALL, linux/if_ether.h."""
SOL_PACKET, ADD_MEMBERSHIP, STATISTICS, PROMISCUOUS = 263, 1, 6, 1
ATTACH_FILTER = 26
OUTGOING = 4
"""Type of a packet that the host itself sent, packet(7)."""
PCI = Path("/sys/bus/pci/devices")
NET = Path("/sys/class/net")
IPV6 = Path("/proc/sys/net/ipv6/conf")
"""IPv6 settings, of the calling thread's network namespace."""

T = TypeVar("T")


class RawInterface:
    """Opened by its constructor, which brings it up if it is down, and leaves it up. Raises OSError.
    Promiscuous while open: an adapter may otherwise pass only frames of VLANs that its host knows.

    Args:
        program: which frames are received (`weft.probeagent.filter`).
        expected: MAC address that it must have; None: any. An interface with another address isn't changed.

    Attributes:
        mac: its own; `address`: IPv4 address, if it has one.
    """

    def __init__(self, name: str, namespace: str | None, program: bytes, expected: str | None = None) -> None:
        # A socket never receives what it sent itself: another one observes that frames leave.
        self._name, self._namespace = name, namespace
        opened = _inside(namespace, lambda: _opened(name, program, expected))
        self._mouth, self._ear, self.mac, self.address = opened
        self._missed = _missed(name, namespace)

    def close(self) -> None:
        self._mouth.close()
        self._ear.close()

    def fileno(self) -> int:
        """File descriptor to wait for frames on."""
        return self._ear.fileno()

    @property
    def running(self) -> bool:
        """Whether it is up and has a link; for a bond, whether one of its interfaces has."""
        flags = _flags(self._ear, self._name)
        return bool(flags & IFF_UP and flags & IFF_RUNNING)

    def lost(self) -> int:
        """Frames that arrived since it was opened, and were dropped by the adapter or the socket for lack of
        space."""
        missed = _missed(self._name, self._namespace) - self._missed
        return missed + struct.unpack("II", self._ear.getsockopt(SOL_PACKET, STATISTICS, 8))[1]

    def send(self, frame: bytes) -> None:
        """Send an Ethernet frame as it is."""
        self._mouth.send(frame)

    def receive(self) -> tuple[bytes, bool] | None:
        """The next frame, and whether the host itself sent it; None if there is none now."""
        try:
            frame, where = self._ear.recvfrom(65535)
        except BlockingIOError:
            return None
        return frame, where[2] == OUTGOING


def by_pci(address: str) -> str:
    """Name of a PCI device's interface in this namespace. Raises OSError if it has none.

    A device passed through to a guest has another driver, and no interface here.
    """
    if not all(part.isalnum() for part in address.replace(".", ":").split(":")):
        raise OSError(f"{address!r} isn't a PCI address")
    try:
        names = sorted(p for p in (PCI / address / "net").iterdir() if not _of_function(p))
        return names[0].name
    except (OSError, IndexError):
        raise OSError(f"PCI device {address} has no network interface on this host") from None


def _of_function(interface: Path) -> bool:
    """Whether it represents a virtual function behind the device's embedded switch, by Linux's `devlink` port
    names."""
    try:
        return bool(
            re.fullmatch(r"(c\d+)?pf\d+(vf|sf)\d+", (interface / "phys_port_name").read_text().strip())
        )
    except OSError:
        return False


def _opened(
    name: str, program: bytes, expected: str | None
) -> tuple[socket.socket, socket.socket, bytes, IPv4Address | None]:
    address: IPv4Address | None = None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        mac = _ioctl(asking, SIOCGIFHWADDR, name)[18:24]
        if expected is not None and mac.hex(":") != expected.lower():
            raise OSError(f"interface {name} has the MAC address {mac.hex(':')}, the site says {expected}")
        flags = _flags(asking, name)
        if not flags & IFF_UP:
            # Otherwise the interface would get an IPv6 address from others in the VLAN.
            with contextlib.suppress(OSError):
                (IPV6 / name / "disable_ipv6").write_text("1")
            _ioctl(asking, SIOCSIFFLAGS, name, struct.pack("H", flags | IFF_UP))
        with contextlib.suppress(OSError):  # the interface has no IPv4 address
            address = IPv4Address(_ioctl(asking, SIOCGIFADDR, name)[20:24])
    mouth = _raw(name)
    try:
        return mouth, _raw(name, program), mac, address
    except OSError:
        mouth.close()
        raise


def _raw(name: str, program: bytes = b"") -> socket.socket:
    """Open a raw socket. Args: program: filter of received frames; empty: it receives none."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        if program:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            steps = ctypes.create_string_buffer(program)
            head = struct.pack("HP", len(program) // 8, ctypes.addressof(steps))
            made.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, head)
        made.bind((name, ALL if program else 0))
        if program:
            wanted = struct.pack("iHH8s", socket.if_nametoindex(name), PROMISCUOUS, 0, b"")
            made.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, wanted)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _missed(name: str, namespace: str | None) -> int:
    """Received frames that the adapter dropped for lack of space; `rx_dropped` also counts frames without a
    receiver."""
    if namespace is not None:  # sysfs has the agent's own interfaces
        return 0
    try:
        return int((NET / name / "statistics/rx_missed_errors").read_text())
    except (OSError, ValueError):
        return 0


def _flags(asking: socket.socket, name: str) -> int:
    return struct.unpack("H", _ioctl(asking, SIOCGIFFLAGS, name)[16:18])[0]


def _ioctl(asking: socket.socket, request: int, name: str, value: bytes = b"") -> bytes:
    return fcntl.ioctl(asking, request, struct.pack("16s24s", name.encode()[:15], value))


def _inside(namespace: str | None, call: Callable[[], T]) -> T:
    """Call a function in a network namespace; in a new thread, since a thread that entered one may be unable to
    return."""
    if namespace is None:
        return call()
    made: list[T] = []
    failed: list[OSError] = []

    def run() -> None:
        try:
            with Path(namespace).open() as space:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(space.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            made.append(call())
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]
