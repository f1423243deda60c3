"""Holds the network namespaces of a lab's switches and hosts: they are there as long as this process is.

A namespace by name (`ip netns add`) stays after a crash, and two labs would have to share the names. These have none:
each is an open file of this process, and other programs enter `/proc/PID/fd/N` (nsenter, `ip link … netns …`).
When the supervisor ends the process, namespaces, cables and hosts are gone with it.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNET = 0x40000000  # linux/sched.h


def hold(names: list[str], listing: Path) -> None:
    """Make a namespace for each name, and write name -> path of each into `listing`."""
    libc = ctypes.CDLL(None, use_errno=True)
    paths: dict[str, str] = {}
    for name in names:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise OSError(
                ctypes.get_errno(), f"a network namespace for {name}: {os.strerror(ctypes.get_errno())}"
            )
        number = os.open("/proc/self/ns/net", os.O_RDONLY)
        paths[name] = f"/proc/{os.getpid()}/fd/{number}"
    for name, path in paths.items():
        listing.with_name(f"{name}.space").write_text(path)  # for a shell
    new = listing.with_suffix(".new")
    new.write_text(json.dumps(paths))
    new.replace(listing)


if __name__ == "__main__":
    hold(sys.argv[2:], Path(sys.argv[1]))
    signal.pause()
