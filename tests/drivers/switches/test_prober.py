"""Frames that weft sends itself, by its agents, through real switches: who hears whom, before and after."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import permutations

import pytest

from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from weft.drivers.probes import FrameProber
from weft.model.errors import UnknownError
from weft.model.fabric import Check
from weft.model.fabrictypes import Mode
from weft.model.probeapi import ProbeStatus, RoundQuery, RoundResult
from weft.model.problem import ProblemKind, render
from weft.model.resources import Resource
from weft.model.site import Traffic
from weft.model.specs import SegmentSpec
from weft.probeagent.agent import ProbeAgent as Agent
from weft.probeagent.config import Adapter, ProbeConfig
from weftlab.site import FABRIC

pytestmark = pytest.mark.fabric

FIRST, SECOND = 0x101, 0x102
MEMBERS = ("host1", "host2", "host5")


@pytest.fixture
def rig(switch_rigs: Callable[[str], RealSwitches]) -> RealSwitches:
    return switch_rigs("mixed")


@dataclass
class Beside:
    """An agent without its HTTPS; `silent`: it doesn't answer; `late`: seconds that its next round begins
    later, or `always` each."""

    name: str
    agent: Agent
    silent: bool = False
    late: float = 0.0
    always: bool = False
    asked: list[RoundQuery] = field(default_factory=list[RoundQuery])

    def status(self) -> ProbeStatus:
        return self.agent.status()

    def round(self, query: RoundQuery) -> RoundResult:
        self.asked.append(query)
        if self.silent:
            raise UnknownError("POST round", "the agent", "no answer")
        time.sleep(self.late)
        self.late = self.late if self.always else 0.0
        return self.agent.round(query)


class Probed:
    """Two agents: one beside host1 to host4, one beside all others."""

    def __init__(self, rig: RealSwitches, policy: str = "warn") -> None:
        names = [n.name for n in rig.site.nodes]
        near, far = [n for n in names if n in ("host1", "host2", "host3", "host4")], list[str]()
        far += [n for n in names if n not in near]
        self.agents = {a: Beside(a, self._agent(rig, a, mine)) for a, mine in (("near", near), ("far", far))}
        traffic = self.traffic = Traffic.model_validate(
            {
                "agents": [
                    {"name": "near", "url": "https://near.example", "nodes": near},
                    {"name": "far", "url": "https://far.example", "nodes": far},
                ],
                "ca": "ca.pem",
                "certificate": "weft.pem",
                "key": "weft.key",
                "seconds": 1.0,
                "policy": policy,
            }
        )
        self.prober = FrameProber(rig.site, FABRIC, traffic, list(self.agents.values()), ledger=rig.records)

    @staticmethod
    def _agent(rig: RealSwitches, name: str, nodes: list[str]) -> Agent:
        tls = {"ca": "ca.pem", "certificate": "a.pem", "key": "a.key"}
        adapters = {f"{n}/mlx5_0": Adapter(interface="eth0", namespace=rig.lab.ovs.space(n)) for n in nodes}
        listen = {"host": "127.0.0.1", "port": 1}
        settings = {"name": name, "listen": listen, "tls": tls, "adapters": adapters}
        return Agent(ProbeConfig.model_validate(settings))


def made(
    rig: RealSwitches, pod: int, number: int, hosts: tuple[str, ...], mode: Mode = Mode.ACCESS
) -> SegmentSpec:
    wanted = vlan(number, [rig.port(h) for h in hosts], mode)
    assert rig.driver.create(scope(pod), [wanted], {})["partition"].error is None
    return spec(wanted)


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def addresses(rig: RealSwitches, hosts: tuple[str, ...]) -> Mapping[str, str]:
    return {rig.port(h): rig.hosts.by_name[h].address for h in hosts}


def settled(rig: RealSwitches, *pairs: tuple[str, str]) -> None:
    """Spanning tree and bonds take a while."""
    rig.hosts.await_reach(pairs, seconds=40)


def kinds(check: Check) -> set[ProblemKind]:
    return {p.kind for p in check.problems}


def test_members_hear_and_ping_each_other_and_nobody_else(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, (*MEMBERS, "bonded"))
    other = made(rig, 2, SECOND, ("host3", "host6"))
    settled(rig, *permutations((*MEMBERS, "bonded"), 2), ("host3", "host6"))
    found = probed.prober.check(one, addresses(rig, (*MEMBERS, "bonded")))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at == {
        f"adapters of {FABRIC} that hear each other": 4,
        f"others of {FABRIC} that hear none of them": 5,
        f"other VLANs of {FABRIC} whose tags get none of them in": 1,
        f"pings on {FABRIC} without an answer": 0,
    }
    found = probed.prober.check(other, {})
    assert (found.problems, found.notes) == ((), ())


def test_after_a_release_nobody_hears_anybody(rig: RealSwitches) -> None:
    """And the receipt's item says of how many that was seen; before the release the same item isn't clean."""
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


def test_a_port_that_somebody_else_puts_in_is_heard(rig: RealSwitches) -> None:
    """In both directions, by what it does, whatever the switches' configuration says."""
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


def test_a_forged_tag_that_gets_a_member_into_another_pods_vlan_is_heard(rig: RealSwitches) -> None:
    """In it, and only with that tag; after a release too."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    made(rig, 2, SECOND, ("host3", "host6"))
    settled(rig, ("host1", "host5"), ("host3", "host6"))
    assert probed.prober.check(one, {}).problems == ()
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


def test_a_member_that_is_cut_off_is_not_heard(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    rig.remove(rig.port("host5"), FIRST)
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    assert kinds(found) == {ProblemKind.NOT_HEARD}
    text = render(found.problems)
    assert "host1/mlx5_0 doesn't hear host5/mlx5_0 in VLAN 257" in text
    assert "host5/mlx5_0 doesn't hear host1/mlx5_0, host2/mlx5_0 in VLAN 257" in text
    assert {n.kind for n in found.notes} == {ProblemKind.NO_ECHO}


def test_agents_that_do_not_begin_together_try_again(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    probed.agents["far"].late = 1.5
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert len(probed.agents["near"].asked) == 2


def test_an_adapter_that_comes_up_meanwhile_is_tried_again(rig: RealSwitches) -> None:
    """Its server has just been started: for a moment it is down, or has another host's interface."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    adapters = probed.agents["near"].agent._config.adapters  # pyright: ignore[reportPrivateUsage]
    back = threading.Timer(0.5, adapters.update, [{"host2/mlx5_0": adapters.pop("host2/mlx5_0")}])
    back.start()
    found = probed.prober.check(one, addresses(rig, MEMBERS))
    back.join()
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))


def test_a_live_vlan_is_never_called_clean_by_agents_that_miss_each_other(rig: RealSwitches) -> None:
    """One that begins when the other has ended hears nobody: that silence is none."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, ("host1", "host5"))
    settled(rig, ("host1", "host5"))
    probed.agents["far"].late = 1.5
    [item] = probed.prober.clean(one)[0].items
    assert item.result == "not clean", "the second round is in time"
    probed.agents["far"].late, probed.agents["far"].always = 1.5, True
    [item] = probed.prober.clean(one)[0].items
    assert item.subject.startswith("1 former members") and any("later than others" in u for u in item.unread)


def test_members_of_a_trunk_send_their_tag(rig: RealSwitches) -> None:
    """A host that two pods share hears both, each in its own round; released by one, it goes on for the other."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, ("host1", "host5"), Mode.TRUNK)
    other = made(rig, 2, SECOND, ("host1", "host6"), Mode.TRUNK)
    for segment in (one, other):
        found = probed.prober.check(segment, {})
        for _ in range(20):  # links of the spanning tree may still be coming up
            if not found.problems:
                break
            found = probed.prober.check(segment, {})
        assert (found.problems, found.notes) == ((), ()), render(found.problems)
    wanted = vlan(FIRST, sorted(one.ports), Mode.TRUNK)
    assert rig.driver.delete(scope(1), [wanted], {})["partition"].error is None
    [item] = probed.prober.clean(one)[0].items
    assert item.result == "clean", item.seen
    assert probed.prober.check(other, {}).problems == ()


@contextmanager
def down(agent: Beside) -> Generator[None]:
    agent.silent = True
    try:
        yield
    finally:
        agent.silent = False


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_what_was_not_tried_is_neither_fine_nor_wrong(rig: RealSwitches, policy: str) -> None:
    """An agent that doesn't answer: a note, or unknown; what its neighbours hear counts nevertheless."""
    probed = Probed(rig, policy)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    with down(probed.agents["far"]):
        found = probed.prober.check(one, {})
        said = found.notes if policy == "warn" else found.problems
        assert [p.unknown for p in said] == [True] and len(found.problems) + len(found.notes) == 1
        assert "frames of host5/mlx5_0 on ib0 were not tested: agent far: no answer" in render(said)
        assert found.looked_at[f"adapters of {FABRIC} that hear each other"] == 2
        assert rig.driver.delete(scope(1), [vlan(FIRST, sorted(one.ports))], {})["partition"].error is None
        clean, untried = probed.prober.clean(one)
        results = [(i.result, i.nodes) for i in clean.items]
        assert results == [("clean", ()), *([("unknown", ("host5",))] if policy == "refuse" else [])]
        assert any("host5" in u for u in clean.items[0].unread) and untried == ()
        with down(probed.agents["near"]):
            clean, untried = probed.prober.clean(one)
            assert [i.result for i in clean.items] == (["unknown"] if policy == "refuse" else [])
            assert len(untried) == (4 if policy == "warn" else 1)
            assert untried[0 if policy == "refuse" else -1].endswith("no former member could be tested")


def test_an_adapter_without_interface_is_unknown(rig: RealSwitches) -> None:
    """As on a hypervisor that has passed it to a guest: weft finds none at its PCI address."""
    probed = Probed(rig, "refuse")
    agent = probed.agents["near"].agent
    del agent._config.adapters["host2/mlx5_0"]  # pyright: ignore[reportPrivateUsage]
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    found = probed.prober.check(one, {})
    assert [p.unknown for p in found.problems] == [True]
    assert "PCI device 0000:c1:00.0 has no network interface on this host" in render(found.problems)


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_what_a_guest_has_by_now_was_tried_before(rig: RealSwitches, policy: str) -> None:
    """While the adapters are their hosts' all is known of them; when guests have them, nothing is missed."""
    probed = Probed(rig, policy)
    one = made(rig, 1, FIRST, MEMBERS)
    settled(rig, ("host1", "host5"))
    begun = probed.prober.begin(one)
    assert (begun.check.problems, begun.check.notes) == ((), ()), render(begun.check.problems)
    assert begun.ports == {*one.ports}
    for agent in probed.agents.values():
        agent.asked.clear()
        for host in MEMBERS:
            agent.agent._config.adapters.pop(f"{host}/mlx5_0", None)  # pyright: ignore[reportPrivateUsage]
    found = probed.prober.check(one, {}, begun.ports)
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at[f"adapters of {FABRIC} that did before their servers had them"] == 3
    assert len(probed.agents["near"].asked) == 1, "nobody waits for what is known"
    found = probed.prober.check(one, {}, begun.ports - {rig.port("host1")})
    told = found.notes if policy == "warn" else found.problems
    assert [p.subject for p in told] == ["host1/mlx5_0"]


def test_what_is_wrong_before_servers_are_there_is_found_then(rig: RealSwitches) -> None:
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    rig.add(rig.port("host4"), FIRST)
    settled(rig, ("host1", "host5"), ("host4", "host1"))
    begun = probed.prober.begin(one)
    assert kinds(begun.check) == {ProblemKind.HEARD}
    rig.remove(rig.port("host4"), FIRST)


def test_a_host_without_an_agent_is_asked_for_by_arp(rig: RealSwitches) -> None:
    """By members alone, with its MAC address as the site has it; after the release it answers nobody."""
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
    found = prober.check(one, addresses(rig, MEMBERS))
    assert (found.problems, found.notes) == ((), ()), render((*found.problems, *found.notes))
    assert found.looked_at[f"adapters of {FABRIC} without an agent that answer"] == 1
    sought = {e.adapter: e.sought for q in probed.agents["near"].asked for e in q.ends}
    assert {a for a, s in sought.items() if s} == {"host1/mlx5_0", "host2/mlx5_0"}, "no stranger asks"
    rig.remove(rig.port("host5"), FIRST)
    found = prober.check(one, addresses(rig, MEMBERS))
    assert "no probe agent is beside host5, and it answers no member's ARP request" in render(found.notes)


def test_a_mark_is_in_one_round_only_and_not_told_before(rig: RealSwitches) -> None:
    """Nobody can send what isn't known before the round: numbers and marks are new each time."""
    probed = Probed(rig)
    one = made(rig, 1, FIRST, MEMBERS)
    for _ in range(2):
        probed.prober.check(one, {})
    first, second = (q for q in probed.agents["near"].asked)
    assert first.number != second.number
    assert not {e.mark for e in first.ends} & {e.mark for e in second.ends}
