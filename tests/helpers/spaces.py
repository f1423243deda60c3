"""Network namespaces for tests."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def network_space(commands: str, seconds: int) -> Generator[str]:
    """Path of a network namespace in which the shell commands were run; it ends with the block, or after
    `seconds`."""
    command = ["unshare", "-n", "sh", "-ec", f"{commands}; echo there; exec sleep {seconds}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout and holder.stdout.readline() == "there\n"
            yield f"/proc/{holder.pid}/ns/net"
        finally:
            holder.kill()
