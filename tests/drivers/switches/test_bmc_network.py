"""Machines' BMCs on a network of their own, on real Open vSwitch: the lab's Redfish emulator, and pods' hosts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from weftlab import environment
from weftlab.layout import LabError, Layout, default_cache, free_ports
from weftlab.metal import config as metal
from weftlab.metal import enroll
from weftlab.metal.jobs import DISTRIBUTIONS, PINS, PROGRAMS
from weftlab.site import make_site, settings
from weftlab.switches.hosts import frame

pytestmark = pytest.mark.fabric

OOB, TENANT = 2990, 0x101
"""The BMCs' VLAN, outside weft's range, and a pod's."""
BMC, CONDUCTOR = "host4", "host8"
TENANTS = ("host1", "host5")
ASK = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=3).status)"


@pytest.fixture
def rig(switch_rigs: Callable[[str], RealSwitches]) -> RealSwitches:
    return switch_rigs("ovs")


@pytest.fixture
def bmc(rig: RealSwitches, tmp_path: Path) -> Iterator[str]:
    """The URL of the emulator on its host."""
    chosen = settings(nodes=4, computes=1, ipus=0, metal=1, ports=free_ports())
    layout = Layout(tmp_path, default_cache(), chosen.ports)
    env = environment.ensure_other(layout.cache, "ironic", PINS, DISTRIBUTIONS, lambda line: None)
    enroll.write_secret(layout)
    (layout.data / "bmc").mkdir(parents=True)
    text = metal.emulator(layout, make_site(chosen, layout))
    file = layout.etc / "bmc" / "emulator.conf"
    file.write_text(text.replace("LISTEN_IP = '127.0.0.1'", "LISTEN_IP = '0.0.0.0'"))
    argv = ["nsenter", f"--net={rig.lab.ovs.space(BMC)}", env / "bin/python", PROGRAMS / "bmc.py"]
    running = subprocess.Popen(
        [*argv, file, metal.secret_path(layout)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    yield f"http://{rig.hosts.by_name[BMC].address}:{layout.port('bmc')}/redfish/v1"
    running.terminate()
    running.wait(60)


def asks(rig: RealSwitches, host: str, url: str) -> bool:
    """Whether the BMC answers this host."""
    try:
        return rig.lab.ovs.inside(host, [sys.executable, "-c", ASK, url]).strip() == "200"
    except LabError:
        return False


def test_ironic_reaches_the_bmcs_and_no_pod_does(rig: RealSwitches, bmc: str) -> None:
    for host in (BMC, CONDUCTOR):
        rig.add(rig.port(host), OOB)
    for switch, link in ((s, e) for k in rig.lab.plan.cables for e in (k.a, k.b) for s in [e.switch]):
        name = rig.lab.plan.by_name[switch].interface(link.number)
        rig.lab.ovs.vsctl("set", "port", name, "vlan_mode=trunk", f"trunks={OOB},4095", "tag=[]")
    pod = vlan(TENANT, [rig.port(h) for h in TENANTS])
    assert rig.driver.create(scope(), [pod], {})["partition"].error is None
    rig.hosts.await_reach({(CONDUCTOR, BMC), TENANTS}, seconds=40)
    end = time.monotonic() + 120
    while not asks(rig, CONDUCTOR, bmc):
        assert time.monotonic() < end, "the emulator doesn't answer Ironic's host"
    assert not any(asks(rig, host, bmc) for host in TENANTS)
    mac = rig.hosts.by_name[TENANTS[0]].mac
    tags: tuple[tuple[int, ...], ...] = ((OOB,), (TENANT, OOB), (OOB, OOB), (0, OOB), (4000, OOB))
    forged = [frame(mac, mark=b"forged", tags=t) for t in ((), *tags)]
    assert not rig.hosts.heard(TENANTS[0], [BMC, CONDUCTOR], forged, b"forged")
    assert rig.driver.delete(scope(), [pod], {})["partition"].error is None
    assert not any(asks(rig, host, bmc) for host in TENANTS), "not reached from the parking VLAN"
    assert asks(rig, CONDUCTOR, bmc)
