"""What hosts of the fabric can do: ping each other, and send frames that no honest host sends."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import subprocess
import threading
import time
from collections.abc import Collection, Generator, Iterable, Mapping

from weftlab.layout import LabError
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import FabricPlan, HostPlan

CLONE_NEWNET = 0x40000000
EXPERIMENT = 0x88B5
"""EtherType for local experiments, IEEE Std 802-2014 clause 9.2.4."""
BROADCAST = "ff:ff:ff:ff:ff:ff"
PATIENCE = 20.0
LONGEST = 2.0
"""Seconds that one ping of those that must be answered is waited for: a busy machine takes its time."""

Pair = tuple[str, str]


class Reach:
    """Pings from one namespace to an address."""

    def __init__(self, ovs: Ovs) -> None:
        self._ovs = ovs

    def answered(self, pairs: Iterable[Pair], seconds: float = 1.0, size: int = 84) -> set[Pair]:
        """Which of the pairs (from, address) a ping was answered for; no ARP cache helps: it is emptied before.

        Args:
            size: of the packet in bytes, which isn't fragmented.
        """
        wanted = list(pairs)
        for name in {here for here, _ in wanted}:
            self._ovs.inside(name, ["ip", "neigh", "flush", "all"])
        running = {pair: self._ping(pair, seconds, size) for pair in wanted}
        return {pair for pair, child in running.items() if child.wait() == 0}

    def awaited(self, pairs: Iterable[Pair], seconds: float = 20.0, size: int = 84) -> set[Pair]:
        """As `answered`, tried again until all are, or for `seconds`: a spanning tree, or a bond, takes a while."""
        wanted = set(pairs)
        left, end, patience = set(wanted), time.monotonic() + seconds, 0.1
        while left:
            left -= self.answered(left, patience, size)
            if left and time.monotonic() > end:
                break
            patience = min(2 * patience, LONGEST)
        return wanted - left

    @contextlib.contextmanager
    def taken(self, addresses: Mapping[str, str]) -> Generator[None]:
        """Within the block, namespaces are up and have addresses that weren't assigned to them, as root can set.

        Args:
            addresses: namespace -> address/prefix.
        """

        def change(verb: str) -> None:
            for name, address in addresses.items():
                line = f"address {verb} {address} dev eth0"
                up = ["link set dev eth0 up"] if verb == "replace" else []
                self._ovs.inside(name, ["ip", "-batch", "-"], "\n".join([*up, line]))

        change("replace")
        try:
            yield
        finally:
            change("delete")

    def _ping(self, pair: Pair, seconds: float, size: int) -> subprocess.Popen[bytes]:
        space = self._ovs.space(pair[0])
        argv = ["nsenter", f"--net={space}", "ping", "-n", "-c", "1", "-M", "do", "-s", str(size - 28)]
        argv += ["-W", str(seconds), pair[1]]
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Hosts:
    """The hosts of one lab's fabric, by name."""

    def __init__(self, ovs: Ovs, plan: FabricPlan) -> None:
        self._ovs, self._plan = ovs, plan
        self._reach = Reach(ovs)
        self.by_name: Mapping[str, HostPlan] = {h.name: h for h in plan.hosts}

    def reached(self, pairs: Iterable[Pair], seconds: float = 1.0) -> set[Pair]:
        """Which of the pairs of hosts (from, to) a ping was answered for; both begin without an ARP cache."""
        wanted = {(here, self.by_name[there].address): (here, there) for here, there in pairs}
        for _, there in wanted.values():
            self._ovs.inside(there, ["ip", "neigh", "flush", "all"])
        return {wanted[pair] for pair in self._reach.answered(wanted, seconds)}

    def await_reach(self, pairs: Iterable[Pair], seconds: float = 20.0) -> None:
        """Wait until every pair is reached. Raises `LabError` if not."""
        left, end, patience = set(pairs), time.monotonic() + seconds, 0.1
        while left:
            left -= self.reached(left, patience)
            if left and time.monotonic() > end:
                raise LabError(f"no answer within {seconds:.0f} s: {sorted(left)}")
            patience = min(2 * patience, LONGEST)

    def heard(
        self,
        sender: str,
        listeners: Collection[str],
        frames: Iterable[bytes],
        mark: bytes,
        seconds: float = 1.0,
        by: Collection[str] = (),
    ) -> set[str]:
        """Which of `listeners` get a frame with `mark` in it when `sender` sends these frames.

        Args:
            by: those who must hear it: as long as one hasn't, the frames are sent again. A busy machine loses some.
        """
        end = time.monotonic() + PATIENCE
        with contextlib.ExitStack() as open_ones:
            ears = {n: open_ones.enter_context(self._socket(n)) for n in listeners}
            mouth = open_ones.enter_context(self._socket(sender))
            sent, found = list(frames), set[str]()
            while True:
                for frame in sent:
                    mouth.send(frame)
                found |= _hear(ears, mark, seconds)
                if found.issuperset(by) or time.monotonic() > end:
                    return found

    def _socket(self, name: str) -> socket.socket:
        """A raw socket on a host's eth0. A socket stays in the namespace that it was opened in."""
        made: list[socket.socket] = []
        failed: list[OSError] = []

        def inside() -> (
            None
        ):  # in a thread of its own, since a thread can't leave a namespace without a way back
            try:
                with open(self._ovs.space(name)) as space:  # noqa: PTH123 - a namespace, no file to be read
                    if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                ear.bind(("eth0", 0))
                ear.setblocking(False)
                made.append(ear)
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if failed:
            raise LabError(f"host {name}: {failed[0]}")
        return made[0]


@contextlib.contextmanager
def _nothing_heard() -> Generator[None]:
    """There is nothing more, or the interface has just gone down: then nothing can be heard there."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENETDOWN):
            raise


def _hear(ears: Mapping[str, socket.socket], mark: bytes, seconds: float) -> set[str]:
    heard: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(heard) < len(ears):
        for name, ear in ears.items():
            with _nothing_heard():
                while True:
                    if mark in ear.recv(65535):
                        heard.add(name)
        time.sleep(0.01)
    return heard


def frame(source: str, to: str = BROADCAST, mark: bytes = b"weft", tags: Iterable[int] = ()) -> bytes:
    """An Ethernet frame with VLAN tags in front, the outermost first."""
    head = _mac(to) + _mac(source)
    for tag in tags:
        head += b"\x81\x00" + tag.to_bytes(2, "big")
    return (head + EXPERIMENT.to_bytes(2, "big") + mark).ljust(64, b"\0")


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
