"""The programs that stand for the hosts' agents where guests run: DHCP servers, and ports that are plugged."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import weftlab
from weftlab.processes import look

PROGRAMS = Path(weftlab.__file__).parent / "programs"
SERVE = """\
import sys, threading, time
from pathlib import Path
from types import SimpleNamespace
sys.path.insert(0, sys.argv[1])
import dhcp
subnet = SimpleNamespace(cidr="10.9.0.0/24", gateway_ip=None)
def work():
    try:
        print(dhcp.begun(sys.argv[2], dhcp.command(sys.argv[3], subnet, Path(sys.argv[4]))).pid, flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    time.sleep(60)
threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""


@pytest.fixture
def space() -> Generator[str]:
    """A network namespace with an interface that a DHCP server can serve on."""
    made = "ip link add d0 type veth peer name d1 && ip address add 10.9.0.2/24 dev d0 && ip link set d0 up"
    command = ["unshare", "-n", "sh", "-ec", f"{made}; echo there; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout and holder.stdout.readline() == "there\n"
            yield f"/proc/{holder.pid}/ns/net"
        finally:
            holder.kill()


@contextlib.contextmanager
def served(space: str, interface: str, folder: Path) -> Generator[str]:
    """A program that begins a DHCP server, as the agents do; its first line: the server's number, or why not."""
    argv = [sys.executable, "-c", SERVE, str(PROGRAMS), space, interface, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as agents:
        try:
            assert agents.stdout
            yield agents.stdout.readline()
        finally:
            agents.kill()


def test_a_dhcp_server_ends_with_the_agents_that_are_killed(space: str, tmp_path: Path) -> None:
    """It works in no folder of the lab, and would be nobody's."""
    with served(space, "d0", tmp_path) as line:
        pid = int(line)
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        assert name == "dnsmasq" and Path(f"/proc/{pid}/ns/net").stat().st_ino == Path(space).stat().st_ino
    end = time.monotonic() + 10
    while (alive := (process := look(pid)) is not None and process.alive) and time.monotonic() < end:
        time.sleep(0.05)
    if alive:
        os.kill(pid, signal.SIGKILL)
    assert not alive


def test_a_dhcp_server_that_ends_at_once_is_told(space: str, tmp_path: Path) -> None:
    with served(space, "nowhere0", tmp_path) as line:
        assert "dnsmasq ended at once, with exit code" in line
