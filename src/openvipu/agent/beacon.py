"""Beacons: agents announce themselves by UDP, so that ``vipu-admin discover agent`` can list them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Sequence

from openvipu.model.names import split_address

LONGEST = 512
"""Most bytes of a beacon; a longer datagram is no beacon."""


def encode(host: str, port: int, name: str) -> bytes:
    """One beacon: where the agent is and what it would like to be called."""
    return json.dumps({"openvipu": 1, "host": host, "port": port, "name": name}).encode()


class Beacon:
    """Sends the beacons of some agents every ``interval`` seconds until closed."""

    def __init__(self, target: str, beacons: Sequence[bytes], interval: float = 5.0) -> None:
        self._target = split_address(target)
        self._beacons = beacons
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beacon", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        family = socket.AF_INET6 if ":" in self._target[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as out:
            while True:
                for beacon in self._beacons:
                    # no controller may be listening yet; the next beacon follows soon
                    with contextlib.suppress(OSError):
                        out.sendto(beacon, self._target)
                if self._stop.wait(self._interval):
                    return
