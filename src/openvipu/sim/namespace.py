"""Running a POD in a network namespace, with the addresses of its plan on the loopback device there."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import subprocess
from pathlib import Path

from openvipu.model.errors import BadRequest

CLONE_NEWNET = 0x40000000


def enter(name: str, base: str) -> None:
    """Move this process into the namespace ``name`` and make the /16 around ``base`` local in it.

    Must run before any thread starts, since a namespace belongs to the thread. Needs root and ``ip``
    (iproute2). A route of type local makes every address of the network answer, so that none has to
    be added by itself; a host joined to the namespace by a veth reaches the agents through it.
    """
    path = Path("/var/run/netns") / name
    if not name.replace("-", "").replace("_", "").isalnum():
        raise BadRequest(f"netns {name!r} is not allowed; use letters, digits, '-' and '_'")
    if not path.exists():
        _ip("netns", "add", name)
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open() as file:
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise BadRequest(f"netns {name!r} can't be entered: {os.strerror(ctypes.get_errno())}")
    network = ipaddress.ip_network(f"{base}/16", strict=False)
    _ip("link", "set", "lo", "up")
    _ip("route", "replace", "local", str(network), "dev", "lo")


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=10)
    except FileNotFoundError:
        raise BadRequest("the program ip (iproute2) is not installed") from None
    except subprocess.CalledProcessError as error:
        raise BadRequest(f"ip {' '.join(arguments)} failed: {error.stderr.strip()}") from None
