"""Frames that weft's agents send through real switches: who hears whom, before and after."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from tests.drivers.switches.probed import (
    FIRST,
    MEMBERS,
    SECOND,
    Probed,
    addresses,
    kinds,
    made,
    quiet,
    settled,
)
from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from weft.drivers.probes import FrameProber
from weft.model.fabrictypes import Mode
from weft.model.problem import ProblemKind, render
from weftlab.site import FABRIC

pytestmark = pytest.mark.fabric


@pytest.fixture
def rig(switch_rigs: Callable[[str], RealSwitches]) -> RealSwitches:
    return switch_rigs("mixed")


def test_members_hear_and_ping_only_each_other(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, (*MEMBERS, "bonded"))
    other = made(rig, 2, SECOND, ("host3", "host6"))
    settled(rig, *permutations((*MEMBERS, "bonded"), 2), ("host3", "host6"))
    found = quiet(probed.prober, one, addresses(rig, (*MEMBERS, "bonded")))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at == {
        f"adapters of {FABRIC} that hear each other": 4,
        f"others of {FABRIC} that hear none of them": 5,
        f"other VLANs of {FABRIC} whose tags get none of them in": 1,
        f"pings on {FABRIC} without an answer": 0,
    }
    found = quiet(probed.prober, other, {})
    assert (found.problems, found.notes) == ((), ())


def test_released_members_hear_nothing(rig: RealSwitches) -> None:
    """The receipt's item says for how many; before the release the same item isn't clean."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    made(rig, 2, SECOND, ("host3", "host6"))
    settled(rig, ("host1", "host5"), ("host3", "host6"))
    before, untried = probed.prober.clean(one)
    [item] = before.items
    assert item.result == "not clean" and "host1/mlx5_0 hears host2/mlx5_0" in item.seen
    assert set(item.nodes) == set(MEMBERS) and untried == ()
    assert rig.driver.delete(scope(1), [vlan(FIRST, sorted(one.ports))], {})["partition"].error is None
    after, untried = probed.prober.clean(one)
    [item] = after.items
    assert (item.result, item.plane, untried, item.unread) == ("clean", "frames", (), ())
    assert item.subject == "3 former members of VLAN 257, 6 others"
    assert item.seen.endswith("other VLANs whose tags they forged and got into none: 1")


def test_externally_added_port_is_heard(rig: RealSwitches) -> None:
    """In both directions, whatever the switches' configuration says."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    rig.add(rig.port("host4"), FIRST)
    settled(rig, ("host1", "host5"), ("host4", "host1"))
    found = probed.prober.check(one, {})
    assert kinds(found) == {ProblemKind.HEARD}
    text = render(found.problems)
    assert "host4/mlx5_0 hears host1/mlx5_0, host2/mlx5_0, host5/mlx5_0" in text
    assert "host1/mlx5_0 hears host4/mlx5_0, and only one of them is in VLAN 257" in text
    rig.remove(rig.port("host4"), FIRST)


def test_forged_tag_reaching_another_pod_is_detected(rig: RealSwitches) -> None:
    """Only with that tag, and after a release too."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    made(rig, 2, SECOND, ("host3", "host6"))
    settled(rig, ("host1", "host5"), ("host3", "host6"))
    assert quiet(probed.prober, one, {}).problems == ()
    rig.tag(rig.port("host1"), SECOND)
    settled(rig, ("host1", "host5"), ("host3", "host6"))
    text = render(probed.prober.check(one, {}).problems)
    for listener in ("host3", "host6"):
        assert f"{listener}/mlx5_0 hears host1/mlx5_0, and only one of them is in VLAN 257" in text
    assert rig.driver.delete(scope(1), [vlan(FIRST, sorted(one.ports))], {})["partition"].error is None
    rig.tag(rig.port("host1"), SECOND)
    [item] = probed.prober.clean(one)[0].items
    assert item.result == "not clean" and "host3/mlx5_0 hears host1/mlx5_0" in item.seen, item
    rig.remove(rig.port("host1"), SECOND)


def test_disconnected_member_is_reported(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    rig.remove(rig.port("host5"), FIRST)
    deaf = "host5/mlx5_0 doesn't hear host1/mlx5_0, host2/mlx5_0 in VLAN 257"
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    for _ in range(20):  # the datapath forgets its cached paths one after the other
        if deaf in render(found.problems):
            break
        found = probed.prober.check(one, addresses(rig, MEMBERS))
    text = render(found.problems)
    assert kinds(found) == {ProblemKind.NOT_HEARD}
    assert "host1/mlx5_0 doesn't hear host5/mlx5_0 in VLAN 257" in text and deaf in text
    assert {n.kind for n in found.notes} == {ProblemKind.NO_ECHO}


def test_trunk_members_send_their_tag(rig: RealSwitches) -> None:
    """A host that two pods share hears both, each in its own round; released by one, it still serves the other."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, ("host1", "host5"), Mode.TRUNK)
    other = made(rig, 2, SECOND, ("host1", "host6"), Mode.TRUNK)
    for segment in (one, other):
        found = quiet(probed.prober, segment, {})
        assert (found.problems, found.notes) == ((), ()), render(found.problems)
    wanted = vlan(FIRST, sorted(one.ports), Mode.TRUNK)
    assert rig.driver.delete(scope(1), [wanted], {})["partition"].error is None
    [item] = probed.prober.clean(one)[0].items
    assert item.result == "clean", item.seen
    assert quiet(probed.prober, other, {}).problems == ()


def test_faults_are_found_before_servers_exist(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    rig.add(rig.port("host4"), FIRST)
    settled(rig, ("host1", "host5"), ("host4", "host1"))
    begun = probed.prober.begin(one)
    assert kinds(begun.check) == {ProblemKind.HEARD}
    rig.remove(rig.port("host4"), FIRST)


def test_host_without_an_agent_is_probed_by_arp(rig: RealSwitches) -> None:
    """By members only, for the site's MAC address; after the release it answers none."""
    document = rig.site.model_dump(mode="json")
    for node in document["nodes"]:
        node["hcas"][0]["mac"] = rig.hosts.by_name[node["name"]].mac
    site = type(rig.site).model_validate(document)
    probed = Probed(rig)
    [near] = [a for a in probed.traffic.agents if a.name == "near"]
    alone = probed.traffic.model_copy(update={"agents": (near,)})
    prober = FrameProber(site, FABRIC, alone, [probed.agents["near"]])
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    found = quiet(prober, one, addresses(rig, MEMBERS))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at[f"adapters of {FABRIC} without an agent that answer"] == 1
    sought = {e.adapter: e.sought for q in probed.agents["near"].asked for e in q.ends}
    assert {a for a, s in sought.items() if s} == {"host1/mlx5_0", "host2/mlx5_0"}, "only members ask"
    rig.remove(rig.port("host5"), FIRST)
    found = prober.check(one, addresses(rig, MEMBERS))
    assert "no probe agent is beside host5, and it answers no member's ARP request" in render(found.notes)


def test_mark_is_used_in_one_round_and_not_revealed_before(rig: RealSwitches) -> None:
    """Round numbers and marks are new each time, so no one can send one in advance."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    for _ in range(2):
        probed.prober.check(one, {})
    first, second = (q for q in probed.agents["near"].asked)
    assert first.number != second.number
    assert not {e.mark for e in first.ends} & {e.mark for e in second.ends}
