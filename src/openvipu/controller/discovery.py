"""Listening for agents' beacons."""

from __future__ import annotations

import contextlib
import fcntl
import json
import selectors
import socket
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from openvipu.agent import beacon
from openvipu.model.errors import BadRequest, Refusal
from openvipu.model.names import check_host, check_id, check_port, split_address

PORT = 8093
"""Where beacons are listened for unless an interface is given with a port. Our choice."""

LONGEST_LIST = 4096
"""Maximum number of remembered agents: beacons are not authenticated, so memory must be limited."""

REMEMBERED = 300.0
"""Seconds that an agent is listed after its last beacon; agents send one every five."""

_SIOCGIFADDR = 0x8915
"""linux/sockios.h: the IPv4 address of an interface."""


@dataclass(frozen=True, slots=True)
class AnnouncedAgent:
    """An agent that announced itself. ``interface`` heard it; ``when`` is on the monotonic clock, in seconds."""

    host: str
    port: int
    name: str
    interface: str
    when: float


class Discovery:
    """A UDP listener for beacons; they are shown to people and never acted upon.

    Args:
        interfaces: where to listen: names of interfaces or addresses of this host, each with ``:PORT`` or on
            :data:`PORT`. BadRequest names the one that can't be listened on.
    """

    def __init__(self, interfaces: Sequence[str]) -> None:
        self._selector = selectors.DefaultSelector()
        self.addresses: list[str] = []
        try:
            for interface in interfaces:
                self._listen(interface)
        except BadRequest:
            self._close_all()
            raise
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, int], AnnouncedAgent] = OrderedDict()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)
        self._thread.start()

    def seen(self) -> list[AnnouncedAgent]:
        """All agents heard recently, by address."""
        oldest = time.monotonic() - REMEMBERED
        with self._lock:
            return [self._seen[key] for key in sorted(self._seen) if self._seen[key].when > oldest]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._close_all()

    def _listen(self, interface: str) -> None:
        host, port = _where(interface)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_DGRAM)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, interface)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise BadRequest(f"discovery on {interface} can't be listened for: {error.strerror}") from None
        self.addresses.append(f"{host}:{listener.getsockname()[1]}")

    def _close_all(self) -> None:
        for key in list(self._selector.get_map().values()):
            cast("socket.socket", key.fileobj).close()
        self._selector.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(timeout=0.5):
                with contextlib.suppress(OSError):
                    listener = cast("socket.socket", key.fileobj)
                    datagram, sender = listener.recvfrom(beacon.LONGEST + 1)
                    found = read_beacon(datagram, str(sender[0]))
                    if found is not None:
                        self.note(replace(found, interface=str(key.data)))

    def note(self, found: AnnouncedAgent) -> None:
        """Remember an agent, evicting the one that was silent for longest: junk can't keep others out."""
        with self._lock:
            key = (found.host, found.port)
            self._seen[key] = found
            self._seen.move_to_end(key)
            while len(self._seen) > LONGEST_LIST:
                self._seen.popitem(last=False)


def _where(interface: str) -> tuple[str, int]:
    """Host and port of ``NAME``, ``ADDRESS``, ``NAME:PORT`` or ``ADDRESS:PORT`` (IPv6 in brackets)."""
    host, port = split_address(interface if ":" in interface else f"{interface}:{PORT}")
    check_host("interface", host)
    try:
        socket.if_nametoindex(host)
    except OSError:
        return host, port
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            reply = fcntl.ioctl(asking, _SIOCGIFADDR, struct.pack("256s", host.encode()[:15]))
        except OSError:
            raise BadRequest(f"interface {host} has no IPv4 address to listen on") from None
    return socket.inet_ntoa(reply[20:24]), port


def read_beacon(datagram: bytes, sender: str) -> AnnouncedAgent | None:
    """The agent that a datagram from ``sender`` announces; None if the datagram is no beacon."""
    if len(datagram) > beacon.LONGEST:
        return None
    try:
        body: Any = json.loads(datagram)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    fields = cast("dict[str, Any]", body)
    host, port, name = fields.get("host"), fields.get("port"), fields.get("name")
    if fields.get("openvipu") != 1 or not isinstance(host, str) or not isinstance(name, str):
        return None
    if not isinstance(port, int) or isinstance(port, bool):
        return None
    try:
        check_host("host", host)
        check_id("name", name)
        check_port("port", port)
    except Refusal:
        return None
    # an agent that listens everywhere doesn't know under which address it is reached; its sender's is one
    reached = sender if host in ("0.0.0.0", "::") else host
    return AnnouncedAgent(reached, port, name, "", time.monotonic())
