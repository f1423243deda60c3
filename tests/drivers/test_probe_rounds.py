"""Pods with more members than a round of probe agents holds, with a simulated agent that decides who hears whom."""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import pytest

from tests.helpers.ownports import ethernet_lab
from weft.drivers.probes import prober
from weft.drivers.probes.prober import FrameProber
from weft.drivers.probes.rounds import ProbedPort, parts
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind
from weft.model.probeapi import EndResult, ProbeStatus, RoundQuery, RoundResult
from weft.model.problem import ProblemKind
from weft.model.site import ProbeAgent, Traffic
from weft.model.specs import SegmentSpec
from weftlab.switches.labsite import FABRIC

SITE = ethernet_lab()
PORTS = sorted(h.port_id for n in SITE.nodes for h in n.hcas_on(FABRIC))


class Wire:
    """An agent next to every adapter; members hear each other, or no one after a release.

    Attributes:
        members: names of adapters.
        meetings: the members of each round.
        deaf: pairs (listener, sender) that never hear.
    """

    name = "one"

    def __init__(self, members: Collection[str], deaf: Collection[tuple[str, str]] = ()) -> None:
        self.members, self.deaf = members, deaf
        self.meetings: list[frozenset[str]] = []
        self.silent_in: int | None = None

    def round(self, query: RoundQuery) -> RoundResult:
        self.meetings.append(frozenset(e.adapter for e in query.ends))
        inside = {e.adapter: e.mark for e in query.ends if e.adapter in self.members}
        lost = len(self.meetings) - 1 == self.silent_in

        def heard(listener: str) -> tuple[str, ...]:
            if listener not in inside:
                return ()
            return tuple(m for a, m in inside.items() if a != listener and (listener, a) not in self.deaf)

        ends = (EndResult(adapter=e.adapter, sent=not lost, heard=heard(e.adapter)) for e in query.ends)
        return RoundResult(name=self.name, ends=tuple(ends))

    def status(self) -> ProbeStatus:
        raise AssertionError("the prober asked for a status")


NAMES = {h.port_id: f"{n.name}/{h.name}" for n in SITE.nodes for h in n.hcas_on(FABRIC)}
INSIDE = PORTS[:7]
SEGMENT = SegmentSpec(
    number=50, fabric_type=FabricKind.ETHERNET, members=tuple(Membership(port=p) for p in INSIDE)
)


def probed(wire: Wire) -> FrameProber:
    nodes = tuple(n.name for n in SITE.nodes if n.hcas_on(FABRIC))
    agent = ProbeAgent(name="one", url="https://127.0.0.1:1", nodes=nodes)
    traffic = Traffic(agents=(agent,), ca="ca.pem", certificate="c.pem", key="k.pem")
    return FrameProber(SITE, FABRIC, traffic, [wire])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four members in a round."""
    monkeypatch.setattr(prober, "MOST_MEMBERS", 4)


@pytest.mark.usefixtures("small")
def test_every_pair_of_members_meets_in_some_round() -> None:
    wire = Wire([NAMES[p] for p in INSIDE])
    found = probed(wire).check(SEGMENT, {})
    assert (found.problems, found.notes) == ((), ()), found
    assert found.looked_at[f"adapters of {FABRIC} that hear each other"] == 7
    assert len(wire.meetings) == 6 and max(len(m & {*wire.members}) for m in wire.meetings) == 4
    for one, other in combinations(wire.members, 2):
        assert any({one, other} <= meeting for meeting in wire.meetings), (one, other)


@pytest.mark.usefixtures("small")
def test_silent_pair_is_found_in_any_round() -> None:
    first, last = NAMES[INSIDE[0]], NAMES[INSIDE[-1]]
    found = probed(Wire([NAMES[p] for p in INSIDE], deaf={(first, last)})).check(SEGMENT, {})
    [problem] = found.problems
    assert (problem.kind, problem.subject, problem.detail["who"]) == (ProblemKind.NOT_HEARD, first, last)


@pytest.mark.usefixtures("small")
def test_member_unknown_in_one_round_is_not_reported_good() -> None:
    wire = Wire([NAMES[p] for p in INSIDE])
    wire.silent_in = 2
    clean, _ = probed(wire).clean(SEGMENT)
    [item] = clean.items
    assert item.result == "not clean", "no member was released here"
    members = [u for u in item.unread if u.startswith("frames of ")]
    assert len(members) == 3 and all("was seen to leave" in u for u in members)
    [others] = [u for u in item.unread if u not in members]
    assert others.endswith("none of them could be tested"), "a tenant isn't shown whose they are"
    wire = Wire(())
    clean, untried = probed(wire).clean(SEGMENT)
    [item] = clean.items
    assert (item.result, item.unread, untried) == ("clean", (), ())
    assert item.subject.startswith("7 former members")


def test_members_beyond_all_rounds_are_reported_untested(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the receipt too."""
    monkeypatch.setattr(prober, "MOST_MEMBERS", 2)
    monkeypatch.setattr(prober, "MOST_GROUPS", 3)
    clean, untried = probed(Wire(())).clean(SEGMENT)
    assert not untried and [i.result for i in clean.items] == ["clean"]
    unread = clean.items[0].unread
    assert len(unread) == len(INSIDE) - 3
    assert all("3 members are tested at most" in one for one in unread)


@pytest.mark.parametrize("many", [0, 1, 248, 249, 372, 1488])
def test_size_of_a_round_is_limited(many: int) -> None:
    ends = [ProbedPort(str(n), str(n), str(n)) for n in range(many)]
    rounds = parts(ends, 248)
    assert all(len(r) <= 248 for r in rounds) and {e for r in rounds for e in r} == {*ends}
    assert len(rounds) == {0: 1, 1: 1, 248: 1, 249: 3, 372: 3, 1488: 66}[many]
