"""Frames follow changes through every vendor's interface: only members reach each other, and none after release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy

import pytest

from tests.drivers.switches.rigs import ALONE_AT_NIGHT, RealSwitches, scope, vlan
from weft.drivers.switches import open_fabric
from weft.model.errors import PermanentError
from weft.model.fabrictypes import Mode
from weft.model.problem import ProblemKind
from weft.model.resources import Resource, Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weftlab.site import FABRIC
from weftlab.switches.hosts import frame
from weftlab.switches.probe import Probe

pytestmark = pytest.mark.fabric

FIRST, SECOND = 0x101, 0x102
INSIDE = {("host1", "host2"), ("host1", "host5"), ("host5", "bonded"), ("bonded", "host2")}
"""Pairs of the first pod: on one leaf, over the spines, and with a bond to both leaves."""
OTHERS = {("host3", "host6"), ("host6", "host3")}
"""Pairs of the second pod."""
ACROSS = {("host1", "host3"), ("host3", "bonded"), ("host6", "host5"), ("host4", "host1"), ("host7", "host5")}


@pytest.fixture(params=ALONE_AT_NIGHT)
def rig(request: pytest.FixtureRequest, switch_rigs: Callable[[str], RealSwitches]) -> RealSwitches:
    return switch_rigs(request.param)


def made(rig: RealSwitches, pod: int, number: int, hosts: Iterable[str]) -> Resource:
    wanted = vlan(number, [rig.port(h) for h in hosts])
    assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
    found = rig.fabric.find(scope(pod), [wanted], {})["partition"]
    assert found.status is Status.SETTLED, found.reason
    return wanted


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def two_pods(rig: RealSwitches) -> tuple[Resource, Resource]:
    one = made(rig, 1, FIRST, ["host1", "host2", "host5", "bonded"])
    other = made(rig, 2, SECOND, ["host3", "host6"])
    rig.hosts.await_reach(INSIDE | OTHERS, seconds=40)
    return one, other


def test_members_reach_each_other_until_they_are_released(rig: RealSwitches) -> None:
    """By ping, with ARP. After one pod's release the other pod's hosts still reach each other."""
    one, other = two_pods(rig)
    assert not rig.hosts.reached(ACROSS)
    assert rig.fabric.check(spec(one), rig.fabric.snapshot()).problems == ()
    assert rig.driver.delete(scope(1), [one], {})["partition"].error is None
    assert not rig.hosts.reached(INSIDE | ACROSS)
    rig.hosts.await_reach(OTHERS)
    clean = rig.fabric.clean(spec(one), rig.fabric.snapshot())
    assert {i.result for i in clean.items} == {"clean"} and not clean.stale
    assert "link between switches" in {i.plane for i in clean.items}
    assert rig.fabric.check(spec(other), rig.fabric.snapshot()).problems == ()


def test_neither_forged_tags_nor_a_flood_of_addresses_reach_another_pod(rig: RealSwitches) -> None:
    two_pods(rig)
    mac = rig.hosts.by_name["host1"].mac
    strangers = sorted({"host3", "host4", "host6", "host7", "host8"})
    tags = ((SECOND,), (FIRST, SECOND), (SECOND, SECOND), (0, SECOND), (4000,), (4000, SECOND))
    forged = [frame(mac, mark=b"forged", tags=t) for t in tags]
    assert not rig.hosts.heard("host1", strangers, forged, b"forged")
    flood = [frame(f"02:ff:00:00:{i // 256:02x}:{i % 256:02x}", mark=b"flood") for i in range(3000)]
    assert not rig.hosts.heard("host1", strangers, flood, b"flood")
    members = {"host2", "host5"}
    assert rig.hosts.heard("host1", members, [frame(mac, mark=b"honest")], b"honest", by=members) == members


def test_trunk_member_has_only_its_vlan_tagged(rig: RealSwitches) -> None:
    """Virtual machines of one host: their VLAN arrives with its tag; forged frames and floods reach no one else."""
    ports = [rig.port("host1"), rig.port("host5")]
    wanted = vlan(FIRST, ports, Mode.TRUNK)
    assert rig.driver.create(scope(), [wanted], {})["partition"].error is None
    found = rig.fabric.find(scope(), [wanted], {})["partition"]
    assert found.status is Status.SETTLED, found.reason
    made(rig, 2, SECOND, ["host2", "host6"])
    rig.hosts.await_reach({("host2", "host6")}, seconds=40)
    mac, everybody = rig.hosts.by_name["host1"].mac, ["host2", "host5", "host6", "host7"]
    tagged = [frame(mac, mark=b"tagged", tags=(FIRST,))]
    assert rig.hosts.heard("host1", everybody, tagged, b"tagged", by=["host5"]) == {"host5"}
    wrong = [
        frame(mac, mark=b"wrong", tags=t)
        for t in ((), (SECOND,), (1,), (4000,), (0, SECOND), (SECOND, FIRST))
    ]
    assert not rig.hosts.heard("host1", everybody, wrong, b"wrong")
    # a second tag stays inside the first, so only the member gets the frame, unchanged
    nested = [frame(mac, mark=b"nested", tags=(FIRST, SECOND))]
    assert rig.hosts.heard("host1", everybody, nested, b"nested") <= {"host5"}
    flood = [
        frame(f"02:ff:00:00:{i // 256:02x}:{i % 256:02x}", mark=b"flood", tags=(FIRST,)) for i in range(3000)
    ]
    assert rig.hosts.heard("host1", everybody, flood, b"flood", by=["host5"]) == {"host5"}


def test_pods_sharing_a_port_have_separate_tags(rig: RealSwitches) -> None:
    """Virtual functions of two pods on one host: a tag reaches its own pod's members, and none after its release."""
    one, other = (
        vlan(FIRST, [rig.port("host1"), rig.port("host5")], Mode.TRUNK),
        vlan(SECOND, [rig.port("host1"), rig.port("host6")], Mode.TRUNK),
    )
    for pod, wanted in ((1, one), (2, other)):
        assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
    for pod, wanted in ((1, one), (2, other)):
        found = rig.fabric.find(scope(pod), [wanted], {})["partition"]
        assert found.status is Status.SETTLED, found.reason
        assert rig.fabric.check(spec(wanted), rig.fabric.snapshot()).problems == ()
    mac, everybody = rig.hosts.by_name["host1"].mac, ["host2", "host5", "host6", "host7"]

    def reached(number: int, by: tuple[str, ...]) -> set[str]:
        mark = f"tag{number}".encode()
        return rig.hosts.heard("host1", everybody, [frame(mac, mark=mark, tags=(number,))], mark, by=by)

    assert reached(FIRST, ("host5",)) == {"host5"} and reached(SECOND, ("host6",)) == {"host6"}
    assert rig.driver.delete(scope(1), [one], {})["partition"].error is None
    assert {i.result for i in rig.fabric.clean(spec(one), rig.fabric.snapshot()).items} == {"clean"}
    assert not reached(FIRST, ()) and reached(SECOND, ("host6",)) == {"host6"}
    assert rig.driver.delete(scope(2), [other], {})["partition"].error is None
    assert not reached(SECOND, ())


def test_root_on_a_shared_host_reaches_only_its_pods(rig: RealSwitches) -> None:
    """As in the demo of a whole lab: both pods' tags, others' tags, no tag, a flood; before and after a release."""
    one = vlan(FIRST, [rig.port("host1"), rig.port("host5")], Mode.TRUNK)
    other = vlan(SECOND, [rig.port("host1"), rig.port("host6")], Mode.TRUNK)
    for pod, wanted in ((1, one), (2, other)):
        assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
        found = rig.fabric.find(scope(pod), [wanted], {})["partition"]
        assert found.status is Status.SETTLED, found.reason
    made(rig, 3, SECOND + 1, ["host2", "host7"])
    probe = Probe(rig.fabric, rig.lab.ovs, rig.lab.plan)
    assert probe.trunks()["host1"] == {FIRST, SECOND} and probe.members(FIRST) == {"host1", "host5"}
    strangers = {"host2", "host3", "host7"}
    everybody = {"host5", "host6", *strangers}
    assert probe.honest("host1", everybody, by=["host5"], tag=FIRST) == {"host5"}
    assert probe.forged("host1", everybody, [SECOND + 1], own=()) == set()
    assert probe.forged("host1", strangers, [SECOND + 1], own=[FIRST, SECOND]) == set(), "behind its own tag"
    assert probe.honest("host1", everybody, by=()) == set(), "an untagged frame belongs to no pod"
    assert probe.forged("host5", {"host6", *strangers}, [SECOND], own=[FIRST]) == set(), "on the same leaf"
    assert probe.flooded("host1", {"host6", *strangers}, tag=FIRST) == set()
    assert probe.forged("host2", everybody - {"host7", "host2"}, [FIRST, SECOND], own=[SECOND + 1]) == set()
    assert rig.driver.delete(scope(1), [one], {})["partition"].error is None
    assert probe.carried(FIRST) == set()
    assert probe.honest("host1", everybody, by=(), tag=FIRST) == set()
    assert probe.honest("host1", everybody, by=["host6"], tag=SECOND) == {"host6"}


def test_only_needed_switches_and_links_carry_the_vlan(rig: RealSwitches) -> None:
    """Hosts on one leaf need no spine; after the last member no switch has it."""
    made(rig, 1, FIRST, ["host1", "host2"])
    snapshot = rig.fabric.snapshot()
    assert FIRST not in snapshot.carriers
    assert {s for s, vlans in snapshot.configured.read.items() if FIRST in vlans} == {"leaf1"}
    made(rig, 1, FIRST, ["host1", "host5"])
    snapshot = rig.fabric.snapshot()
    assert {e.partition("/")[0] for e in snapshot.carriers[FIRST]} == {"leaf1", "leaf2", "spine1", "spine2"}
    rig.hosts.await_reach({("host1", "host5")}, seconds=40)
    made(rig, 1, FIRST, ["host5"])
    snapshot = rig.fabric.snapshot()
    assert FIRST not in snapshot.carriers
    assert {s for s, vlans in snapshot.configured.read.items() if FIRST in vlans} == {"leaf2"}


def test_all_ends_of_a_bond_are_set_together(rig: RealSwitches) -> None:
    """With one drifted end the bond isn't a member, and is repaired."""
    wanted = made(rig, 1, FIRST, ["host1", "bonded"])
    [bundle] = rig.site.fabrics["ib0"].manager.switching.bundles  # type: ignore[union-attr]
    assert {e.partition("/")[0] for e in bundle.ports} == {"leaf1", "leaf2"}
    rig.remove(bundle.ports[1], FIRST)
    found = rig.fabric.find(scope(), [wanted], {})["partition"]
    assert "some of its ends" in found.reason
    made(rig, 1, FIRST, ["host1", "bonded"])
    assert all(FIRST in rig.fabric.snapshot().ends[e].numbers for e in bundle.ports)
    document = rig.site.model_dump(mode="json")
    document["fabrics"]["ib0"]["manager"]["switching"]["bundles"][0]["ports"][1] += "0"
    changed = Site.model_validate(document)
    assert changed.used_of("bonded", False) != rig.site.used_of("bonded", False), (
        "a changed site must not leave an end behind"
    )
    assert changed.used_of("host1", False) == rig.site.used_of("host1", False)


def test_foreign_port_in_a_pods_vlan_is_found_and_removed(rig: RealSwitches) -> None:
    wanted = made(rig, 1, FIRST, ["host1", "host5"])
    rig.hosts.await_reach({("host1", "host5")}, seconds=40)
    rig.add(rig.port("host4"), FIRST)
    rig.hosts.await_reach({("host4", "host1")}, seconds=40)
    assert rig.fabric.check(spec(wanted), rig.fabric.snapshot()).problems
    made(rig, 1, FIRST, ["host1", "host5"])
    assert rig.hosts.reached({("host4", "host1"), ("host1", "host5")}) == {("host1", "host5")}


def test_foreign_configuration_is_not_touched(rig: RealSwitches) -> None:
    """A VLAN outside weft's range stays, and a port in one isn't changed."""
    rig.add(rig.port("host8"), 50)
    rig.add(rig.port("host4"), 50)
    wanted = made(rig, 1, FIRST, ["host1", "host2"])
    rig.driver.delete(scope(), [wanted], {})
    ends = rig.fabric.snapshot().ends
    assert ends[rig.port("host8")].untagged == ends[rig.port("host4")].untagged == 50
    refused = rig.driver.create(scope(), [vlan(FIRST, [rig.port("host8"), rig.port("host1")])], {})[
        "partition"
    ]
    assert refused.error is not None and "VLAN 50, which isn't weft's" in str(refused.error)
    assert rig.fabric.snapshot().ends[rig.port("host8")].untagged == 50


def test_whole_adapters_port_loses_foreign_vlans(rig: RealSwitches) -> None:
    """Even tagged ones, since root on the machine can send tags. A host that pods share keeps its own."""
    for host in ("host4", "host8"):
        rig.tag(rig.port(host), 50)
        refused = rig.driver.create(scope(), [vlan(FIRST, [rig.port(host)])], {})["partition"]
        assert refused.error is not None
        assert f"{rig.port(host)} is in VLAN 50, which isn't weft's" in str(refused.error)
        assert rig.fabric.snapshot().ends[rig.port(host)].numbers == {50}
    wanted = made(rig, 1, FIRST, ["host1", "host5"])
    shared = vlan(SECOND, [rig.port("host4"), rig.port("host8")], Mode.TRUNK)
    assert rig.driver.create(scope(2), [shared], {})["partition"].error is None
    assert rig.fabric.check(spec(shared), rig.fabric.snapshot()).problems == ()
    for host in ("host1", "host5"):
        rig.tag(rig.port(host), 50)
        problems = rig.fabric.check(spec(wanted), rig.fabric.snapshot()).problems
        assert [(p.kind, p.id) for p in problems] == [(ProblemKind.OTHER_SEGMENTS, rig.port(host))]
        assert problems[0].text().endswith("VLAN 50")
        rig.add(rig.port(host), FIRST)


@pytest.mark.parametrize("rig", ["mixed"], indirect=True)
def test_switch_booted_with_an_old_configuration_is_repaired(rig: RealSwitches) -> None:
    """It has the VLAN with a released pod's port. The VLAN's present pod removes it, and so does the audit, which
    lists both.
    """
    leaf = rig.fronts.by_name["leaf1"]
    one = made(rig, 1, FIRST, ["host1", "host5"])
    old = deepcopy(leaf.running)
    assert rig.driver.delete(scope(1), [one], {})["partition"].error is None
    live = made(rig, 2, FIRST, ["host2", "host6"])

    def start() -> None:
        with leaf.lock:
            leaf.running = deepcopy(old)
            leaf.follow()
        assert rig.port("host1") in rig.fabric.snapshot().ports_in[FIRST]

    start()
    assert rig.fabric.find(scope(2), [live], {})["partition"].differences
    third = rig.fabric.create(scope(3), [live], {})["partition"].error
    assert isinstance(third, PermanentError) and "taken" in str(third), (
        "a pod that isn't recorded gets nothing"
    )
    made(rig, 2, FIRST, ["host2", "host6"])
    assert rig.fabric.snapshot().ports_in[FIRST] == {rig.port("host2"), rig.port("host6")}
    start()
    found = {t.owner: t for t in rig.fabric.marked("lab", ())}
    assert set(found) == {scope(1).owner, scope(2).owner}
    assert rig.fabric.remove_marked([found[scope(1).owner]])[str(FIRST)].error is None
    assert rig.fabric.snapshot().ports_in[FIRST] == {rig.port("host6")}
    [mine] = rig.fabric.marked("lab", ())
    assert mine.owner == scope(2).owner
    made(rig, 2, FIRST, ["host2", "host6"])
    rig.hosts.await_reach({("host2", "host6")}, seconds=40)


def test_two_workers_change_one_fabric_concurrently(rig: RealSwitches) -> None:
    """Their segments share links; neither removes the other's VLANs there."""
    from concurrent.futures import ThreadPoolExecutor

    other = rig.another()
    pods = [(1, FIRST, ["host1", "host5"]), (2, SECOND, ["host2", "host6"])]
    for pod, number, hosts in pods:
        rig.records.write(scope(pod).mark("partition"), spec(vlan(number, [rig.port(h) for h in hosts])))

    def make(driver: object, pod: int, number: int, hosts: list[str]) -> None:
        wanted = vlan(number, [rig.port(h) for h in hosts])
        driver.create(scope(pod), [wanted], {})  # type: ignore[attr-defined]

    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(make, d, *p) for d, p in zip((rig.fabric, other), pods, strict=True)]:
            job.result()
    rig.hosts.await_reach({("host1", "host5"), ("host2", "host6")}, seconds=40)
    assert not rig.hosts.reached({("host1", "host2"), ("host5", "host6")})


def test_fabric_that_neutron_configures_is_only_read(rig: RealSwitches) -> None:
    """weft reports what differs, and a former member that is still in the VLAN."""
    document = rig.site.model_dump(mode="json")
    document["fabrics"][FABRIC]["manager"]["switching"]["configured_by"] = "neutron"
    driver = open_fabric(Site.model_validate(document), FABRIC, rig.records)
    wanted = vlan(FIRST, [rig.port("host1"), rig.port("host2")])
    try:
        assert driver.create(scope(), [wanted], {})["partition"].error is None
        assert driver.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
        assert len(driver.check(spec(wanted), driver.snapshot()).problems) == 2
        rig.define(FIRST)
        rig.add(rig.port("host1"), FIRST)
        rig.add(rig.port("host2"), FIRST)
        rig.hosts.await_reach({("host1", "host2")})
        assert driver.check(spec(wanted), driver.snapshot()).problems == ()
        rig.remove(rig.port("host1"), FIRST)
        driver.delete(scope(), [wanted], {})
        found = driver.find(scope(), [wanted], {})["partition"]
        assert found.status is Status.PENDING and rig.port("host2") in found.reason
        assert "not clean" in {i.result for i in driver.clean(spec(wanted), driver.snapshot()).items}
        rig.remove(rig.port("host2"), FIRST)
        assert not driver.find(scope(), [wanted], {})["partition"].there
        assert {i.result for i in driver.clean(spec(wanted), driver.snapshot()).items} == {"clean"}
    finally:
        driver.close()
