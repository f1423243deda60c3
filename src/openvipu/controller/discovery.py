"""Listening for agents' beacons."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, cast

from openvipu.agent import beacon
from openvipu.model.errors import BadRequest, Refusal
from openvipu.model.names import check_host, check_id, check_port, split_address

LONGEST_LIST = 4096
"""Agents that are remembered at most: beacons are not authenticated, memory is not for the asking."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An agent that announced itself. ``when`` is on the monotonic clock, in seconds."""

    host: str
    port: int
    name: str
    interface: str
    when: float


class Discovery:
    """A UDP listener; what it hears is a hint for people and never acted upon."""

    def __init__(self, address: str) -> None:
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.settimeout(0.5)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise BadRequest(f"discovery address {address} can't be listened on: {error.strerror}") from None
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, int], Seen] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)
        self._thread.start()

    def seen(self) -> list[Seen]:
        """Everything heard, by address."""
        with self._lock:
            return [self._seen[key] for key in sorted(self._seen)]

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                datagram, sender = self._socket.recvfrom(beacon.LONGEST + 1)
                found = read_beacon(datagram, str(sender[0]))
                if found is not None:
                    self._note(found)

    def _note(self, found: Seen) -> None:
        with self._lock:
            key = (found.host, found.port)
            if key in self._seen or len(self._seen) < LONGEST_LIST:
                self._seen[key] = found


def read_beacon(datagram: bytes, interface: str) -> Seen | None:
    """The agent that a datagram announces; None if the datagram is no beacon."""
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
    reached = interface if host in ("0.0.0.0", "::") else host
    return Seen(reached, port, name, interface, time.monotonic())
