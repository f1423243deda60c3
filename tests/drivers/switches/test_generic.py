"""Switches with networking-generic-switch's own device classes: frames follow, nothing is read back, and weft says
so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.drivers.switches.rigs import RealSwitches, Recorded, Records, scope, vlan
from tests.drivers.switches.sshswitch import PASSWORD, USER, SshSwitch
from weft.drivers.switches import EthernetFabric, genericdevice, open_fabric
from weft.drivers.switches.generic import Generic
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabrictypes import Mode
from weft.model.resources import Resource, Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weftlab.site import FABRIC

FIRST, SECOND = 0x101, 0x102

pytestmark = pytest.mark.fabric


class GenericRig:
    """A fabric whose first leaf is managed by SSH, and the others by Open vSwitch's database."""

    def __init__(self, rig: RealSwitches, folder: Path) -> None:
        self.rig, self.records = rig, Records()
        self.switch = SshSwitch(folder, rig.lab.ovs.environment)
        keys = folder / "switches.json"
        keys.touch(mode=0o600)
        keys.write_text(json.dumps({"leaf1": {"user": USER, "password": PASSWORD}}))
        document = rig.site.model_dump(mode="json")
        switching = document["fabrics"][FABRIC]["manager"]["switching"]
        switching |= {"credentials": str(keys), "known_hosts": str(self.switch.known_hosts)}
        for access in switching["switches"]:
            if access["name"] == "leaf1":
                access |= {
                    "interface": "generic",
                    "device_type": "netmiko_ovs_linux",
                    "url": f"ssh://127.0.0.1:{self.switch.port}",
                }
        self.site = Site.model_validate(document)
        # links of such a switch are trunks from the start; the library changes only their VLANs
        for cable in rig.lab.plan.cables:
            for end in (e for e in (cable.a, cable.b) if e.switch == "leaf1"):
                name = rig.lab.plan.by_name["leaf1"].interface(end.number)
                rig.lab.ovs.vsctl(
                    "set", "port", name, "vlan_mode=trunk", "trunks=4095", "tag=[]", "protected=false"
                )
        # parking here also isolates a port from others in its VLAN, which the library can't do
        for host in ("host1", "host2", "host3"):
            rig.lab.ovs.vsctl("set", "port", rig.port(host).partition("/")[2], "protected=false")
        self.fabric = self.another()
        self.driver = Recorded(self.fabric, self.records)

    def another(self) -> EthernetFabric:
        return open_fabric(self.site, FABRIC, self.records)

    def tag(self, host: str) -> str:
        return self.rig.lab.ovs.vsctl("get", "port", self.rig.port(host).partition("/")[2], "tag").strip()

    def close(self) -> None:
        self.fabric.close()
        self.switch.close()


@pytest.fixture
def rig(switch_rigs: Callable[[str], RealSwitches], tmp_path: Path) -> Iterator[GenericRig]:
    rig = GenericRig(switch_rigs("ovs"), tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt to open a session."""
    monkeypatch.setattr(genericdevice, "CONNECT_SECONDS", 0)


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def results(rig: GenericRig, wanted: Resource, fabric: EthernetFabric | None = None) -> dict[str, str]:
    fabric = fabric or rig.fabric
    return {i.subject.split()[-1]: i.result for i in fabric.clean(spec(wanted), fabric.snapshot()).items}


def test_frames_follow_changes_and_nothing_is_reported_clean(rig: GenericRig) -> None:
    """Members on a leaf that can't be read back, and over its links; each change is one session, and saved."""
    hosts = ["host1", "host2", "host5"]
    wanted = vlan(FIRST, [rig.rig.port(h) for h in hosts])
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    assert rig.switch.sessions == 1
    assert rig.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    assert rig.fabric.check(spec(wanted), rig.fabric.snapshot()).problems == ()
    rig.rig.hosts.await_reach({("host1", "host2"), ("host1", "host5")}, seconds=40)
    assert rig.driver.delete(scope(), [wanted], {})["partition"].error is None
    assert rig.switch.sessions == 2
    # Open vSwitch forwards in the parking VLAN, and the library doesn't isolate its ports
    assert not rig.rig.hosts.reached({("host1", "host5"), ("host5", "host2")})
    assert rig.tag("host1") == "4000", "the default VLAN; without ngs_port_default_vlan a trunk of every VLAN"
    assert not rig.fabric.find(scope(), [wanted], {})["partition"].there
    found = results(rig, wanted)
    assert found[rig.rig.port("host1")] == found[rig.rig.port("host2")] == "accepted"
    assert found[rig.rig.port("host5")] == "clean"
    assert "leaf1 (netmiko_ovs_linux) can't be read back" in rig.fabric.capabilities.limits[0]


def test_leaving_member_is_removed_and_others_stay(rig: GenericRig) -> None:
    both = vlan(FIRST, [rig.rig.port("host1"), rig.rig.port("host2")])
    rig.driver.create(scope(), [both], {})
    one = vlan(FIRST, [rig.rig.port("host1")])
    other = vlan(SECOND, [rig.rig.port("host3")])
    rig.driver.create(scope(2), [other], {})
    rig.records.marks.clear()
    rig.records.write(scope(2).mark("partition"), spec(other))
    assert rig.driver.update(scope(), [one], {})["partition"].error is None
    assert (rig.tag("host1"), rig.tag("host2"), rig.tag("host3")) == (str(FIRST), "4000", str(SECOND))


def test_former_member_is_not_reported_gone_after_a_restart(rig: GenericRig) -> None:
    """The process that removed it died and its outcome is unknown, so the removal is repeated until it is accepted."""
    both = vlan(FIRST, [rig.rig.port("host1"), rig.rig.port("host2")])
    rig.driver.create(scope(), [both], {})
    fresh = rig.another()
    assert results(rig, both, fresh)[rig.rig.port("host2")] == "not clean"
    again = Recorded(fresh, rig.records)
    assert again.delete(scope(), [both], {})["partition"].error is None
    assert results(rig, both, fresh)[rig.rig.port("host2")] == "accepted"
    assert rig.tag("host2") == "4000"
    fresh.close()


@pytest.mark.usefixtures("impatient")
def test_silent_switch_is_unknown_and_retried(rig: GenericRig) -> None:
    wanted = vlan(FIRST, [rig.rig.port("host1")])
    rig.switch.refuse = True
    with pytest.raises(UnknownError):
        rig.driver.create(scope(), [wanted], {})
    assert rig.fabric.find(scope(), [wanted], {})["partition"].status is not Status.SETTLED
    rig.switch.refuse = False
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    assert rig.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    assert rig.tag("host1") == str(FIRST)


@pytest.mark.usefixtures("impatient")
def test_unaccepted_change_is_not_reported_present_after_a_restart(rig: GenericRig) -> None:
    """The process that added a second member got no answer and died: by the records it isn't settled."""
    one = vlan(FIRST, [rig.rig.port("host1")])
    rig.driver.create(scope(), [one], {})
    both = vlan(FIRST, [rig.rig.port("host1"), rig.rig.port("host2")])
    rig.switch.refuse = True
    rig.records.marks.clear()
    with pytest.raises(UnknownError):
        rig.driver.update(scope(), [both], {})
    rig.records.unsettled.add(scope().mark("partition"))
    fresh = rig.another()
    seen = fresh.find(scope(), [both], {})["partition"]
    assert seen.status is not Status.SETTLED and seen.differences
    rig.switch.refuse = False
    assert Recorded(fresh, rig.records).update(scope(), [both], {})["partition"].error is None
    assert fresh.find(scope(), [both], {})["partition"].status is Status.SETTLED
    assert rig.tag("host2") == str(FIRST)
    fresh.close()


def test_member_added_by_another_process_is_removed(rig: GenericRig) -> None:
    """Its node has another's server, so the next visit's worker knows the port only from the plan."""
    both = vlan(FIRST, [rig.rig.port("host1"), rig.rig.port("host2")])
    rig.driver.create(scope(), [both], {})
    rig.records.planned[scope().mark("partition")] = spec(both)
    fresh = rig.another()
    rig.records.marks.clear()
    one = vlan(FIRST, [rig.rig.port("host1")])
    assert Recorded(fresh, rig.records).update(scope(), [one], {})["partition"].error is None
    assert (rig.tag("host1"), rig.tag("host2")) == (str(FIRST), "4000")
    fresh.close()


def test_cached_state_expires_after_another_processs_change(rig: GenericRig) -> None:
    one, both = ([rig.rig.port(h) for h in hosts] for hosts in (("host1",), ("host1", "host2")))
    rig.driver.create(scope(), [vlan(FIRST, one)], {})
    assert rig.fabric.find(scope(), [vlan(FIRST, one)], {})["partition"].status is Status.SETTLED
    fresh = rig.another()
    rig.records.marks.clear()
    Recorded(fresh, rig.records).update(scope(), [vlan(FIRST, both)], {})
    rig.records.marks[scope().mark("partition")] = spec(vlan(FIRST, one))
    rig.records.unsettled.add(scope().mark("partition"))
    assert rig.fabric.find(scope(), [vlan(FIRST, one)], {})["partition"].status is not Status.SETTLED
    fresh.close()


def test_port_of_another_pod_counts_as_removed_once_accepted(rig: GenericRig) -> None:
    """After a restart too: an access port has one VLAN, and removing it again would take it from the other pod."""
    both = vlan(FIRST, [rig.rig.port("host1"), rig.rig.port("host2")])
    rig.driver.create(scope(), [both], {})
    rig.records.marks[scope().mark("partition")] = spec(vlan(FIRST, [rig.rig.port("host1")]))
    rig.driver.create(scope(2), [vlan(SECOND, [rig.rig.port("host2")])], {})
    rig.records.unsettled.add(scope(2).mark("partition"))
    fresh = rig.another()
    assert results(rig, both, fresh)[rig.rig.port("host2")] == "not clean"
    rig.records.unsettled.clear()
    assert results(rig, both, fresh)[rig.rig.port("host2")] == "accepted"
    assert rig.tag("host2") == str(SECOND)
    fresh.close()


def test_virtual_function_port_keeps_the_other_pods_vlan(rig: GenericRig) -> None:
    port = rig.rig.port("host1")
    name = port.partition("/")[2]
    rig.rig.lab.ovs.vsctl("set", "port", name, "vlan_mode=trunk", "trunks=4095", "tag=[]")
    one, other = vlan(FIRST, [port], Mode.TRUNK), vlan(SECOND, [port], Mode.TRUNK)
    rig.driver.create(scope(1), [one], {})
    rig.driver.create(scope(2), [other], {})
    rig.driver.delete(scope(1), [one], {})
    assert rig.rig.lab.ovs.vsctl("get", "port", name, "trunks").strip() == f"[{SECOND}, 4095]"


@pytest.mark.usefixtures("impatient")
def test_unknown_host_key_gets_no_password(rig: GenericRig, tmp_path: Path) -> None:
    """And no error contains the password."""
    rig.switch.known_hosts.write_text("")
    with pytest.raises(UnknownError) as caught:
        rig.driver.create(scope(), [vlan(FIRST, [rig.rig.port("host1")])], {})
    assert rig.switch.sessions == 0 and PASSWORD not in str(caught.value)


def test_unknown_device_type_is_named(rig: GenericRig) -> None:
    session = rig.fabric.session("leaf1")
    assert isinstance(session, Generic)
    device = session._device  # pyright: ignore[reportPrivateUsage]
    device._access = device._access.model_copy(update={"device_type": "netmiko_no_such"})  # pyright: ignore[reportPrivateUsage]
    refused = rig.driver.create(scope(), [vlan(FIRST, [rig.rig.port("host1")])], {})["partition"]
    assert isinstance(refused.error, PermanentError) and "netmiko_no_such" in str(refused.error)
