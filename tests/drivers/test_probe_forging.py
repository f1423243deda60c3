"""Which tags are forged by which end, and who listens: an end forges no tag that is, or may have become, its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.drivers.test_probe_verdicts import (
    FIRST,
    FOURTH,
    NODES,
    PORT,
    SECOND,
    SITE,
    THIRD,
    Air,
    Scripted,
    end,
)
from weft.drivers.probes.forging import MOST_FORGED, ambiguous, forged, listeners_first, tags_of
from weft.drivers.probes.prober import FrameProber
from weft.drivers.probes.rounds import ProbedPort
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.probeapi import MOST_TAGS
from weft.model.site import ProbeAgent, Traffic
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger
from weftlab.switches.labsite import FABRIC

TRUNK, ACCESS = Mode.TRUNK, Mode.ACCESS


def spec(number: int, *ports: str, mode: Mode = ACCESS) -> SegmentSpec:
    members = tuple(Membership(port=p, mode=mode) for p in sorted(ports))
    return SegmentSpec(number=number, fabric_type=FabricKind.ETHERNET, members=members)


def ends(*ports: str) -> list[ProbedPort]:
    return [ProbedPort(p, p, p, agent="a") for p in ports]


MINE = spec(50, "leaf1/1", "leaf1/2")


def test_forged_vlans_prefer_the_same_leaves_and_need_listeners() -> None:
    far, near, deaf = spec(51, "leaf9/1"), spec(60, "leaf1/8", "leaf9/2"), spec(52, "leaf1/9")
    also, strangers = spec(70, "leaf1/7"), ends("leaf9/1", "leaf9/2", "leaf1/7", "leaf1/3")
    assert forged(MINE, [far, also, deaf, MINE, near], strangers) == (near, also)
    assert forged(MINE, [far, deaf, near], strangers) == (near, far)


def test_tags_of_an_end_stay_within_the_agents_limit() -> None:
    """The forged tags of others, and those behind its own tag."""
    others = [spec(51 + n, f"leaf2/{n}") for n in range(MOST_FORGED)]
    tags = tags_of("leaf1/1", MINE, others)
    assert tags[:3] == ((), (50,), (0, 50)) and {(51,), (50, 51), (52,), (50, 52)} == {*tags[3:]}
    assert len(tags) <= MOST_TAGS
    trunk = spec(50, "leaf1/1", mode=TRUNK)
    assert tags_of("leaf1/1", trunk, others[:1]) == ((50,), (51,), (50, 51))


def test_ends_do_not_forge_their_own_tag() -> None:
    """A host that pods share, and a node outside the pod whose VLAN is on a member's port too."""
    mine, other = spec(50, "leaf1/1", "leaf1/2", mode=TRUNK), spec(51, "leaf1/1", "leaf2/1", mode=TRUNK)
    assert tags_of("leaf1/1", mine, [other]) == ((50,),)
    assert (51,) in tags_of("leaf1/2", mine, [other])
    assert tags_of("leaf2/1", mine, [other]) == ((), (50,), (0, 50))
    assert tags_of("leaf2/1", MINE, [spec(51, "leaf2/1")]) == ((), (50,), (0, 50), (51, 50))


def test_port_legitimately_heard_by_a_member_is_not_a_stranger() -> None:
    shared = spec(51, "leaf1/1", mode=TRUNK)
    whole = Membership(port="leaf2/5", mode=ACCESS)
    mixed = shared.model_copy(update={"members": (*shared.members, whole)})
    assert ambiguous(spec(50, "leaf1/1", mode=TRUNK), [mixed]) == {"leaf2/5"}
    assert ambiguous(MINE, [spec(52, "leaf2/6")]) == frozenset()


def test_listeners_of_each_vlan_come_before_others() -> None:
    whole = Membership(port="leaf2/1", mode=ACCESS)
    other = spec(51, "leaf2/2", "leaf2/3", mode=TRUNK)
    other = other.model_copy(update={"members": (whole, *other.members)})
    order = listeners_first(ends("leaf1/3", "leaf2/1", "leaf2/2", "leaf2/3"), [other])
    assert [e.port for e in order] == ["leaf2/2", "leaf2/3", "leaf1/3", "leaf2/1"]


# -- while others change


class Changing(NoLedger):
    """Another pod's segment that has another member after this many readings."""

    def __init__(self, before: SegmentSpec, after: SegmentSpec, readings: int) -> None:
        self.before, self.after, self.readings = before, after, readings

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        self.readings -= 1
        mark = Mark("lab", Owner.pod("00000002-0000-4000-8000-000000000001"), "partition")
        return {mark: self.before if self.readings >= 0 else self.after}


def tried(ledger: NoLedger, in_use: Callable[[], list[str]] = list) -> list[Scripted]:
    agents = [Scripted(n, Air()) for n in NODES]
    named = tuple(
        ProbeAgent(name=a.name, url=f"https://h{i}.example:1", nodes=(a.node,)) for i, a in enumerate(agents)
    )
    files = {"ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
    traffic = Traffic.model_validate({"agents": named, "seconds": 0.5, **files})
    FrameProber(SITE, FABRIC, traffic, agents, in_use, ledger).clean(spec(50, PORT[FIRST], PORT[SECOND]))
    return agents


def sent(agent: Scripted) -> list[set[tuple[int, ...]]]:
    """The forged tags of each round."""
    return [
        {t for e in q.ends if e.adapter == end(agent.node) for t in e.tags if 51 in t} for q in agent.asked
    ]


def test_vlan_changed_during_a_round_is_left_out_of_the_repetition() -> None:
    """Its tag may have become the member's own, so what was heard proves nothing."""
    before, after = spec(51, PORT[THIRD]), spec(51, PORT[THIRD], PORT[FIRST], mode=TRUNK)
    both = {(51,), (50, 51)}
    assert sent(tried(Changing(before, after, 99))[0]) == [both]
    assert sent(tried(Changing(before, after, 2))[0]) == [both, set()]
    assert sent(tried(Changing(before, after, 1))[0]) == [set()], "its change was already under way"


def test_held_host_of_a_forged_vlan_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.drivers.probes.prober.OTHERS", 1)
    held = spec(51, PORT[THIRD])
    agents = tried(Changing(held, held, 99), lambda: [THIRD])
    assert {a.node for a in agents if a.asked} == {FIRST, SECOND, THIRD} and FOURTH in NODES
