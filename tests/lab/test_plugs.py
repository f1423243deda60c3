"""Programs that stand for the hosts' agents where guests run: DHCP servers, and plugging of ports."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weftlab
from tests.helpers.spaces import network_space
from tests.helpers.waiting import wait_for
from weftlab.processes import look
from weftlab.switches.openvswitch import Ovs

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
    """A network namespace with an interface for a DHCP server."""
    made = "ip link add d0 type veth peer name d1 && ip address add 10.9.0.2/24 dev d0 && ip link set d0 up"
    with network_space(made, 60) as path:
        yield path


@contextlib.contextmanager
def served(space: str, interface: str, folder: Path) -> Generator[str]:
    """A program that starts a DHCP server as the agents do; yields its first line: the server's pid, or an error."""
    argv = [sys.executable, "-c", SERVE, str(PROGRAMS), space, interface, str(folder)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as agents:
        try:
            assert agents.stdout
            yield agents.stdout.readline()
        finally:
            agents.kill()


def test_dhcp_server_ends_when_its_agents_are_killed(space: str, tmp_path: Path) -> None:
    """It doesn't work in the lab's folder, so `down` wouldn't find it."""
    with served(space, "d0", tmp_path) as line:
        pid = int(line)
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        assert name == "dnsmasq" and Path(f"/proc/{pid}/ns/net").stat().st_ino == Path(space).stat().st_ino
    try:
        wait_for(lambda: (process := look(pid)) is None or not process.alive, "dnsmasq has ended", 60)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise


def test_dhcp_server_that_ends_at_once_is_reported(space: str, tmp_path: Path) -> None:
    with served(space, "nowhere0", tmp_path) as line:
        assert "dnsmasq ended at once, with exit code" in line


@pytest.fixture
def ovs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Generator[Ovs]:
    """Open vSwitch with a dummy datapath, which forwards nothing but can be traced."""
    made = Ovs(tmp_path_factory.mktemp("ovs"))
    made.make()
    for name, value in (made.environment | {"WEFT_LAB_OVSDB": f"unix:{made.socket}"}).items():
        monkeypatch.setenv(name, value)
    switch = ["ovs-vswitchd", f"unix:{made.socket}", f"--unixctl={made.folder / 'vs.ctl'}"]
    with subprocess.Popen(made.server()) as database:
        try:
            with subprocess.Popen([*switch, "--enable-dummy=override", "-vconsole:off"]) as switchd:
                try:
                    while not made.socket.exists():
                        time.sleep(0.02)
                    made.vsctl("add-br", "int-a", "--", "set", "bridge", "int-a", "datapath_type=dummy")
                    yield made
                finally:
                    switchd.terminate()
        finally:
            database.terminate()


class Neutron:
    """Neutron's RPC for agents; of ports that it doesn't know it returns only the name."""

    def __init__(self) -> None:
        self.vlans: dict[str, int] = {}
        self.up: list[str] = []
        self.down: list[str] = []

    def get_device_details(self, context: object, port: str, agent: str, host: str) -> dict[str, Any]:
        known = {"network_type": "vlan", "segmentation_id": self.vlans.get(port), "port_id": port}
        return known if port in self.vlans else {"device": port}

    def update_device_up(self, context: object, port: str, agent: str, host: str) -> None:
        self.up.append(port)

    def update_device_down(self, context: object, port: str, agent: str, host: str) -> None:
        self.down.append(port)


def plug(ovs: Ovs, name: str, port: str) -> None:
    """Plugs a port as libvirt does."""
    words = ("add-port", "int-a", name, "--", "set", "interface", name, "type=dummy")
    ovs.vsctl(*words, f"external_ids:iface-id={port}")


def heard(ovs: Ovs, name: str) -> set[str]:
    """The ports that get a broadcast of this port."""
    numbers = {
        n: ovs.vsctl("get", "interface", n, "ofport").strip()
        for n in ovs.vsctl("list-ports", "int-a").split()
    }
    trace = ovs.appctl("ofproto/trace", "int-a", f"in_port={numbers[name]},dl_dst=ff:ff:ff:ff:ff:ff")
    [line] = [line for line in trace.splitlines() if line.startswith("Datapath actions: ")]
    words = line.removeprefix("Datapath actions: ").split(",")
    ports = {w for w in words if w.isdecimal()}
    shown = ovs.appctl("dpif/show")
    return {n for n in numbers for w in ports if f"{n} {numbers[n]}/{w}:" in shown}


def test_plugged_ports_are_isolated_until_neutron_gives_their_vlan(
    ovs: Ovs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tap without a tag would be in every VLAN, so it is isolated before Neutron is asked, also from other
    isolated ones. Neutron is asked again, and ports that were unplugged meanwhile are reported."""
    monkeypatch.syspath_prepend(PROGRAMS)
    import plugs  # type: ignore[import-not-found]

    neutron, gone = Neutron(), list[str]()
    dhcp = SimpleNamespace(add=lambda details, vlan: None, drop=gone.append)
    agent: Any = plugs.Plugs({"int-a": "a"}, neutron, object, dhcp)
    with plugs.tables() as updates:
        agent.seen(next(updates))
        for n in (1, 2, 3):
            plug(ovs, f"tap{n}", f"port{n}")
            agent.seen(next(updates))
        ovs.vsctl("add-port", "int-a", "other", "--", "set", "interface", "other", "type=dummy")
        assert not any(heard(ovs, f"tap{n}") for n in (1, 2, 3)) and not heard(ovs, "other") - {"int-a"}
        assert agent.settle() == {"tap1", "tap2", "tap3"} and neutron.up == []
        assert not any(heard(ovs, f"tap{n}") for n in (1, 2, 3)), "Neutron doesn't know them"
        neutron.vlans = {"port1": 1001, "port2": 1001}
        assert agent.settle() == {"tap3"} and sorted(neutron.up) == ["port1", "port2"]
        assert heard(ovs, "tap1") - {"int-a", "other"} == {"tap2"} and not heard(ovs, "tap3")
    ovs.vsctl("del-port", "tap1")
    ovs.vsctl("del-port", "tap2")
    plug(ovs, "tap2", "port2")
    with plugs.tables() as updates:
        agent.seen(next(updates))
    assert not heard(ovs, "tap2")
    assert agent.settle() == {"tap3"}
    assert sorted(gone) == sorted(neutron.down) == ["port1", "port2"] and neutron.up[2:] == ["port2"]
    assert "other" in heard(ovs, "tap2")
    neutron.vlans["port3"] = 1003
    threading.Thread(target=agent.work, daemon=True).start()
    wait_for(lambda: neutron.up[-1] == "port3")
    neutron.vlans["port4"] = 1003
    plug(ovs, "tap4", "port4")
    with plugs.tables() as updates:
        agent.seen(next(updates))
    wait_for(lambda: neutron.up[-1] == "port4")
    assert heard(ovs, "tap3") - {"int-a", "other"} == {"tap4"} and len(neutron.up) == 5
