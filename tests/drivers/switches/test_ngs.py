"""weft's drivers loaded by networking-generic-switch, on the simulated vendors' interfaces."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("networking_generic_switch")
from networking_generic_switch.devices import device_manager
from networking_generic_switch.exceptions import GenericSwitchException

from tests.drivers.switches.rigs import RealSwitches
from weft.drivers.switches import ngs
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.opened import session_of
from weft.drivers.switches.switch import SwitchSession
from weft.drivers.switches.vlans import Batch, PortEdit, PortVlans
from weft.model.ranges import Range
from weft.model.site import SwitchAccess
from weftlab.site import FABRIC
from weftlab.switches import leaf_spine
from weftlab.switches.front import Front
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import Speaks

PROVISIONING, CLEANING, TENANT, PARKING = 2901, 2902, 301, 4000
NETWORK = str(uuid.UUID(int=7))


class Neutrons:
    """One leaf as Neutron has it, and a separate session that reads and changes it from outside."""

    def __init__(self, folder: Path, speaks: Speaks) -> None:
        plan = leaf_spine(speaks, leaves=1, spines=1, hosts_each=3)
        self.fronts = Fronts(folder, plan, None)
        self.front: Front = self.fronts.by_name["leaf1"]
        switch = plan.by_name["leaf1"]
        self.ports = [switch.port(n) for n in (1, 2, 3)]
        [cable] = plan.cables
        self.link = next(switch.port(e.number) for e in (cable.a, cable.b) if e.switch == "leaf1")
        self.section = {
            "device_type": "weft",
            "weft_interface": speaks,
            "weft_url": self.fronts.urls["leaf1"],
            "weft_credentials": str(self.fronts.credentials),
            "weft_ca": str(self.fronts.ca),
            "ngs_port_default_vlan": str(PARKING),
            "ngs_trunk_ports": self.link,
            "ngs_physical_networks": "physnet1",
        }
        self.switch: Any = device_manager(dict(self.section), "leaf1")
        limits = SwitchLimits(Range(first=2, last=4094), frozenset((*self.ports, self.link)), PARKING)
        access = SwitchAccess.model_validate(
            {"name": "leaf1", "interface": speaks, "url": self.section["weft_url"]}
        )
        self.eyes: SwitchSession = session_of(
            access, str(self.fronts.credentials), str(self.fronts.ca), limits, 1.0
        )

    def seen(self, port: int) -> PortVlans:
        return self.eyes.read().ports[self.ports[port]]

    def put(self, port: int, edit: PortEdit, define: int | None = None) -> None:
        """Change the port from outside."""
        batch = Batch({define: "other"} if define else {}, ports={self.ports[port]: edit})
        self.eyes.change(lambda state: batch)

    def close(self) -> None:
        self.eyes.close()
        self.fronts.close()


@pytest.fixture(params=["eos", "nvue", "sonic"])
def leaf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neutrons]:
    made = Neutrons(tmp_path, request.param)
    yield made
    made.close()


def test_machines_port_moves_through_its_vlans(leaf: Neutrons) -> None:
    """As Ironic requires: removed from one network before it joins the next, and parked in between."""
    port, other = leaf.ports[0], leaf.seen(1)
    for number in (PROVISIONING, TENANT, CLEANING):
        leaf.switch.add_network(number, NETWORK)
        leaf.switch.plug_port_to_network(port, number)
        assert leaf.seen(0) == PortVlans(number)
        assert number in leaf.eyes.read().ports[leaf.link].tagged
        leaf.switch.delete_port(port, number)
        assert leaf.seen(0) == PortVlans(None)
    assert leaf.seen(1) == other  # no change of that port was requested


def test_trunk_port_becomes_an_access_port_of_its_vlan(leaf: Neutrons) -> None:
    leaf.put(0, PortEdit(add=frozenset({TENANT + 1}), trunk=True), define=TENANT + 1)
    leaf.switch.add_network(TENANT, NETWORK)
    leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    assert leaf.seen(0) == PortVlans(TENANT)


def test_late_or_repeated_calls_keep_a_port_in_its_new_network(leaf: Neutrons) -> None:
    port = leaf.ports[0]
    for number in (PROVISIONING, TENANT):
        leaf.switch.add_network(number, NETWORK)
    leaf.switch.plug_port_to_network(port, PROVISIONING)
    leaf.switch.plug_port_to_network(port, TENANT)
    leaf.switch.plug_port_to_network(port, TENANT)
    leaf.switch.delete_port(port, PROVISIONING)
    assert leaf.seen(0) == PortVlans(TENANT)
    leaf.switch.delete_port(port, TENANT)
    leaf.switch.delete_port(port, TENANT)
    assert leaf.seen(0) == PortVlans(None)


def test_deleted_networks_vlan_is_removed_from_links(leaf: Neutrons) -> None:
    for number in (TENANT, CLEANING):
        leaf.switch.add_network(number, NETWORK)
    leaf.switch.del_network(TENANT, NETWORK)
    state = leaf.eyes.read()
    assert state.ports[leaf.link].tagged & {TENANT, CLEANING} == {CLEANING}
    assert TENANT not in state.vlans and CLEANING in state.vlans


def test_silent_switch_is_an_error_for_neutron(leaf: Neutrons) -> None:
    """The port doesn't become ACTIVE, for which Ironic waits with `fail_on_port_binding_failure`."""
    leaf.front.faults.down = True
    with pytest.raises(GenericSwitchException, match="switch leaf1"):
        leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    assert leaf.switch.vlan_has_ports(TENANT)  # unknown counts as having ports


def test_freeing_a_port_is_retried(leaf: Neutrons, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neutron neither reports an error of this call nor repeats it."""
    leaf.switch.add_network(TENANT, NETWORK)
    leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        leaf.front.faults.down = len(pauses) < 2

    monkeypatch.setattr(ngs, "time", SimpleNamespace(sleep=pause))
    leaf.front.faults.down = True
    leaf.switch.delete_port(leaf.ports[0], TENANT)
    assert len(pauses) == 2 and leaf.seen(0) == PortVlans(None)
    leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    monkeypatch.setattr(ngs, "time", SimpleNamespace(sleep=pauses.append))
    leaf.front.faults.down = True
    with pytest.raises(GenericSwitchException, match="switch leaf1"):
        leaf.switch.delete_port(leaf.ports[0], TENANT)


def test_missing_port_or_link_is_named(leaf: Neutrons) -> None:
    before = leaf.eyes.read().ports
    for port, why in (("Ethernet999", "Ethernet999"), (leaf.link, "is a link")):
        with pytest.raises(GenericSwitchException, match=why):
            leaf.switch.plug_port_to_network(port, TENANT)
    assert leaf.eyes.read().ports == before


@pytest.mark.parametrize("leaf", ["eos"], indirect=True)
def test_foreign_vlan_stays_on_its_links(leaf: Neutrons) -> None:
    """Neutron's network had the same number for a while."""
    both = Batch({TENANT: "storage"}, ports={leaf.link: PortEdit(add=frozenset({TENANT}), trunk=True)})
    leaf.eyes.change(lambda state: both)
    leaf.switch.add_network(TENANT, NETWORK)
    leaf.switch.del_network(TENANT, NETWORK)
    state = leaf.eyes.read()
    assert state.vlans[TENANT] == "storage" and TENANT in state.ports[leaf.link].tagged


@pytest.mark.parametrize("leaf", ["eos"], indirect=True)
def test_missing_link_is_named(leaf: Neutrons) -> None:
    switch: Any = device_manager({**leaf.section, "ngs_trunk_ports": "Ethernet99"}, "leaf1")
    for do in (switch.add_network, switch.del_network):
        with pytest.raises(GenericSwitchException, match="no port Ethernet99: correct ngs_trunk_ports"):
            do(TENANT, NETWORK)


@pytest.mark.parametrize("leaf", ["eos"], indirect=True)
def test_unsaved_change_of_another_process_is_saved(leaf: Neutrons, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure was reported to Neutron, and the next call finds nothing to change."""
    leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    kept: list[str] = []
    monkeypatch.setattr(leaf.switch._session, "_keep", lambda: kept.append("saved"))
    leaf.switch.plug_port_to_network(leaf.ports[0], TENANT)
    assert kept == ["saved"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ngs_port_default_vlan": None}, "ngs_port_default_vlan = nothing.*trunk of every VLAN"),
        ({"ngs_port_default_vlan": "0"}, "ngs_port_default_vlan = 0: allowed is the parking VLAN"),
        ({"weft_interface": "junos"}, "weft_interface = junos: allowed is one of eos"),
        ({"weft_url": "http://10.0.0.1"}, "weft_url = http://10.0.0.1"),
        ({"weft_url": None}, "weft_url = nothing"),
        ({"ngs_physical_networks": None}, "ngs_physical_networks = nothing.*those of all"),
    ],
)
def test_incomplete_section_is_refused_at_start(
    tmp_path: Path, change: dict[str, str | None], why: str
) -> None:
    given = {
        "device_type": "weft",
        "weft_interface": "eos",
        "weft_url": "https://10.0.0.1",
        "ngs_port_default_vlan": "4000",
        "ngs_physical_networks": "physnet1",
    } | change
    with pytest.raises(GenericSwitchException, match=why):
        device_manager({k: v for k, v in given.items() if v is not None}, "leaf1")


def test_unsupported_operations_are_reported(leaf: Neutrons) -> None:
    for asked in (
        lambda: leaf.switch.plug_port_to_network(leaf.ports[0], TENANT, mtu=9000),
        lambda: leaf.switch.plug_port_to_network(leaf.ports[0], TENANT, trunk_details={"sub_ports": []}),
        lambda: leaf.switch.add_security_group(object()),
        lambda: leaf.switch.plug_switch_to_network(5000, TENANT),
    ):
        with pytest.raises(GenericSwitchException):
            asked()


NEUTRON = """
import sys
from oslo_config import cfg
from networking_generic_switch.devices import get_devices
from networking_generic_switch.devices.utils import get_switch_device
cfg.CONF(["--config-file", sys.argv[1]], project="neutron")
switch = get_switch_device(get_devices(), "leaf1", "02:00:00:00:FF:01")
switch.add_network(int(sys.argv[3]), sys.argv[4])
switch.plug_port_to_network(sys.argv[2], int(sys.argv[3]))
"""


@pytest.mark.parametrize("leaf", ["eos"], indirect=True)
def test_driver_is_built_from_neutrons_configuration_file(leaf: Neutrons, tmp_path: Path) -> None:
    """The documented section, read by the library in a process of its own; the switch is found by its MAC address."""
    file = tmp_path / "ml2_conf.ini"
    lines = [f"{name} = {value}" for name, value in leaf.section.items()]
    lines += ["ngs_mac_address = 02:00:00:00:ff:01", "unknown = 7"]
    file.write_text("\n".join(["[ml2]", "[genericswitch:leaf1]", *lines]) + "\n")
    argv = [sys.executable, "-c", NEUTRON, str(file), leaf.ports[1], str(TENANT), NETWORK]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert leaf.seen(1) == PortVlans(TENANT)


@pytest.mark.fabric
@pytest.mark.parametrize("kind", ["ovs", "mixed"])
def test_frames_follow_neutrons_calls(kind: str, switch_rigs: Callable[[str], RealSwitches]) -> None:
    """Machines of one network reach each other over the spines; one in another network, or parked, reaches none."""
    rig = switch_rigs(kind)
    switching = rig.site.fabrics[FABRIC].manager.switching
    assert switching is not None
    links = [end for link in switching.links for end in (link.a, link.b)]
    switches: dict[str, Any] = {}
    for access in switching.switches:
        mine = [end.partition("/")[2] for end in links if end.startswith(f"{access.name}/")]
        section = {
            "device_type": "weft",
            "weft_interface": access.interface,
            "weft_url": access.url,
            "weft_credentials": switching.credentials,
            "weft_ca": switching.ca,
            "ngs_port_default_vlan": str(switching.parking),
            "ngs_trunk_ports": ",".join(mine),
            "ngs_physical_networks": "physnet1",
        }
        switches[access.name] = device_manager({k: v for k, v in section.items() if v}, access.name)

    def move(host: str, was: int | None, number: int | None) -> None:
        switch, _, port = rig.port(host).partition("/")
        if was is not None:
            switches[switch].delete_port(port, was)
        if number is not None:
            switches[switch].plug_port_to_network(port, number)

    for number in (PROVISIONING, TENANT):
        for switch in switches.values():
            switch.add_network(number, NETWORK)
    for host in ("host1", "host5"):
        move(host, None, PROVISIONING)
    pair = {("host1", "host5")}
    rig.hosts.await_reach(pair, seconds=40)
    move("host1", PROVISIONING, TENANT)
    assert not rig.hosts.reached(pair | {("host1", "host2")})
    move("host5", PROVISIONING, TENANT)
    rig.hosts.await_reach(pair)
    for host in ("host1", "host5"):
        move(host, TENANT, None)
    assert not rig.hosts.reached(pair)
    move("host1", None, TENANT)
    assert not rig.hosts.reached(pair), "a parked port is in no network's VLAN"
