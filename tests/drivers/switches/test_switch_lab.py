"""The lab's switches: frames follow the VLANs, and each problem found there stays solved."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.drivers.switches.switchlab import SwitchLab
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.ovs import Ovs as OvsSession
from weft.drivers.switches.ovs import OvsDatabase
from weft.drivers.switches.vlans import PARK, Batch, PortEdit, SwitchState
from weft.model.ranges import Range
from weftlab.layout import LabError
from weftlab.switches import leaf_spine
from weftlab.switches.bridge import Vlans
from weftlab.switches.hosts import frame
from weftlab.switches.openvswitch import SWITCHES, Ovs, run

pytestmark = pytest.mark.fabric


def test_only_members_reach_each_other(switches: SwitchLab) -> None:
    """On one leaf and over the spines; other VLANs, parked ports and ports in no VLAN don't."""
    for host, vlan in {"host1": 101, "host2": 101, "host5": 101, "host3": 102, "host6": 102}.items():
        switches.put(host, vlan)
    switches.carry({101, 102})
    inside = {("host1", "host2"), ("host1", "host5"), ("host5", "host2"), ("host3", "host6")}
    switches.hosts.await_reach(inside)
    strangers = {
        ("host1", "host3"),
        ("host5", "host6"),
        ("host4", "host7"),
        ("host4", "host1"),
        ("host1", "host8"),
    }
    parked_together = {("host7", "host8")}
    assert switches.hosts.reached(inside | strangers | parked_together) == inside


def test_vlan_not_on_a_trunk_stays_on_its_leaf(switches: SwitchLab) -> None:
    for host in ("host1", "host2", "host5"):
        switches.put(host, 101)
    switches.carry({102})
    switches.hosts.await_reach({("host1", "host2")})
    assert switches.hosts.reached({("host1", "host2"), ("host1", "host5")}) == {("host1", "host2")}


def test_moved_port_is_silent_at_once(switches: SwitchLab) -> None:
    for host in ("host1", "host2"):
        switches.put(host, 101)
    switches.hosts.await_reach({("host1", "host2")})
    switches.put("host2", None)
    assert not switches.hosts.reached({("host1", "host2"), ("host2", "host1")})


def test_bond_to_two_switches_outlives_one_of_its_links(switches: SwitchLab) -> None:
    """Both legs attach, since both switches announce the same LACP system; with one leg cut the host is reached."""
    for host in ("host1", "host5", "bonded"):
        switches.put(host, 101)
    switches.carry({101})
    switches.hosts.await_reach({("bonded", "host1"), ("bonded", "host5")})
    assert switches.ovs.appctl("lacp/show", "bonded-bo").count("current attached") == 2
    leg = switches.bridges["leaf1"].plan.interface(switches.port("bonded").number)
    for state in ("down", "up"):
        switches.ovs.inside(SWITCHES, ["ip", "link", "set", "dev", leg, state])
        switches.hosts.await_reach({("bonded", "host1"), ("bonded", "host5")})


def test_tcp_works_with_computed_checksums(switches: SwitchLab) -> None:
    """With checksums left to a missing adapter ping works and TCP hangs."""
    for host in ("host1", "host5"):
        switches.put(host, 101)
    switches.carry({101})
    switches.hosts.await_reach({("host1", "host5")})
    listen = (
        "import socket; s = socket.create_server(('', 7000)); print(flush=True); print(s.accept()[0].recv(9))"
    )
    address = switches.hosts.by_name["host5"].address
    inside = ["nsenter", f"--net={switches.ovs.space('host5')}", "python3", "-c", listen]
    with subprocess.Popen(inside, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        say = f"import socket; socket.create_connection(('{address}', 7000), 10).sendall(b'all there')"
        switches.ovs.inside("host1", ["python3", "-c", say])
        assert server.stdout.readline().strip() == "b'all there'"


def test_forged_tag_opens_no_other_vlan(switches: SwitchLab) -> None:
    """Neither with another VLAN's tag, nor with two tags of which the first is the sender's own."""
    vlans = {"host1": 101, "host5": 101, "host2": 102, "host6": 102, "host7": 103}
    for host, vlan in vlans.items():
        switches.put(host, vlan)
    switches.carry({101, 102, 103})
    switches.hosts.await_reach({("host1", "host5"), ("host2", "host6")})
    source = switches.hosts.by_name["host1"].mac
    listeners = sorted(set(switches.hosts.by_name) - {"host1"})
    honest = switches.hosts.heard(
        "host1", listeners, [frame(source, mark=b"honest")], b"honest", by=["host5"]
    )
    assert honest == {"host5"}
    forged = [
        frame(source, mark=b"forged", tags=tags)
        for tags in ((102,), (101, 102), (102, 102), (0, 102), (4095,))
    ]
    assert switches.hosts.heard("host1", listeners, forged, b"forged") <= {"host5"}


def test_flood_of_addresses_opens_no_other_vlan(switches: SwitchLab) -> None:
    """A full table of addresses makes a switch flood, but only inside the VLAN."""
    for host, vlan in {"host1": 101, "host5": 101, "host2": 102, "host6": 102}.items():
        switches.put(host, vlan)
    switches.carry({101, 102})
    switches.hosts.await_reach({("host1", "host5"), ("host2", "host6")})
    many = [frame(f"02:ff:00:00:{i // 256:02x}:{i % 256:02x}", mark=b"flood") for i in range(9000)]
    listeners = sorted(set(switches.hosts.by_name) - {"host1"})
    assert switches.hosts.heard("host1", listeners, many, b"flood", 2.0, by=["host5"]) == {"host5"}
    to_host6 = [frame(switches.hosts.by_name["host1"].mac, switches.hosts.by_name["host6"].mac, b"direct")]
    assert switches.hosts.heard("host1", listeners, to_host6, b"direct") <= {"host5"}
    switches.hosts.await_reach({("host2", "host6")})


def test_unconfigured_port_is_reported_as_a_trunk_of_all_vlans(switches: SwitchLab) -> None:
    """A careless driver leaves such ports; an empty `Vlans()` is different."""
    bridge, port = switches.bridges["leaf1"], switches.port("host1")
    assert bridge.read()[port.number] == Vlans()
    switches.ovs.vsctl("clear", "port", bridge.plan.interface(port.number), "tag")
    switches.ovs.vsctl("clear", "port", bridge.plan.interface(port.number), "vlan_mode")
    with pytest.raises(LabError, match="VLANs not named"):
        bridge.read()


def test_trunk_without_vlans_carries_none(switches: SwitchLab) -> None:
    number = switches.port("host1").number
    switches.put("host2", 101)
    switches.bridges["leaf1"].apply({number: Vlans(None, frozenset())})
    sent = [frame(switches.hosts.by_name["host1"].mac, mark=b"none", tags=tags) for tags in ((), (101,))]
    assert not switches.hosts.heard("host1", ["host2", "host3"], sent, b"none")


def test_impossible_tag_is_refused(switches: SwitchLab) -> None:
    """Some clients drop it without an error; read back, nothing has changed."""
    bridge, port = switches.bridges["leaf1"], switches.port("host1")
    with pytest.raises(LabError, match="constraint violation"):
        bridge.apply({port.number: Vlans(5000)})
    assert bridge.read()[port.number] == Vlans()


def test_two_labs_are_isolated(switches: SwitchLab) -> None:
    """Each has its own namespace: two vswitchd in one would share a tap, without an error."""
    with_another = SwitchLab(leaf_spine(leaves=1, spines=1, hosts_each=2))
    try:
        for host in ("host1", "host2"):
            with_another.put(host, 101)
            switches.put(host, 102)
        with_another.hosts.await_reach({("host1", "host2")})
        switches.hosts.await_reach({("host1", "host2")})
        assert with_another.ovs.space(SWITCHES) != switches.ovs.space(SWITCHES)
    finally:
        with_another.close()
    assert switches.hosts.reached({("host1", "host2")})


def test_stop_cleans_up_the_remains_of_a_crash() -> None:
    """After vswitchd and the holder were killed, `stop` ends the rest and leaves no namespace, cable or process."""
    lab = SwitchLab(leaf_spine(leaves=1, spines=1, hosts_each=2))
    try:
        spaces = [lab.ovs.space(name) for name in (SWITCHES, "host1")]
        for name in ("vswitchd", "namespaces"):
            lab.kill(name)
        folder = str(lab.ovs.folder)
        assert folder in run(["pgrep", "-fa", "ovsdb-server"], {})
    finally:
        lab.close()
    assert not any(Path(path).exists() for path in spaces)
    with pytest.raises(LabError):
        run(["pgrep", "-f", folder], {})


def test_killed_vswitchd_restarts_with_the_same_vlans() -> None:
    lab = SwitchLab(leaf_spine(leaves=1, spines=1, hosts_each=3))
    try:
        for host, vlan in {"host1": 101, "host2": 101, "host3": 102}.items():
            lab.put(host, vlan)
        lab.kill("vswitchd")
        lab.supervisor.run(lab.jobs)
        lab.hosts.await_reach({("host1", "host2")})
        assert not lab.hosts.reached({("host1", "host3")})
    finally:
        lab.close()


def test_too_long_socket_path_is_reported_at_once() -> None:
    with pytest.raises(LabError, match="shorter --state"):
        Ovs(Path("/tmp") / ("x" * 100)).make()


def test_parked_port_without_protection_reaches_others(switches: SwitchLab) -> None:
    """An operator who parks a port must protect it too; weft's own change does."""
    bridge, end = switches.bridges["leaf1"], switches.port("host1")
    port = bridge.plan.interface(end.number)
    limits = SwitchLimits(Range(first=257, last=260), frozenset({port}), 4000)
    session = OvsSession("leaf1", OvsDatabase(f"unix:{switches.ovs.socket}"), limits)
    switches.ovs.vsctl("set", "port", port, "tag=4000", "protected=false", "vlan_mode=access")
    bridge.forget()
    state = session.read()
    assert state.exposed == {port} and state.ports[port].numbers == set()
    session.change(lambda state: Batch({}, frozenset(), {port: PortEdit(257)}))
    session.change(lambda state: Batch({}, frozenset(), {port: PortEdit(PARK)}))
    assert session.read().exposed == set()


def test_vlan_just_added_to_a_trunk_stays(switches: SwitchLab) -> None:
    """A worker of another host adds it after this one decided and before this one's change, which must remove only
    its own.
    """
    bridge, end = switches.bridges["leaf1"], switches.port("host1")
    port = bridge.plan.interface(end.number)
    limits = SwitchLimits(Range(first=257, last=260), frozenset({port}), 4000)
    session = OvsSession("leaf1", OvsDatabase(f"unix:{switches.ovs.socket}"), limits)
    bridge.forget()
    tagged = frozenset({257, 258})
    session.change(lambda _: Batch({}, frozenset(), {port: PortEdit(PARK, add=tagged)}))

    def leave(_: SwitchState) -> Batch:
        switches.ovs.vsctl("add", "port", port, "trunks", "259")
        session.read()
        return Batch({}, frozenset(), {port: PortEdit(remove=frozenset({257}))})

    session.change(leave)
    assert session.read().ports[port].tagged == {258, 259}
