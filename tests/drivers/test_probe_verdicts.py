"""Interpretation of agents' answers: late, lost, one-sided, from the wrong interface, or none."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.helpers.ownports import ethernet_lab
from weft.app.livecheck import certificate_notes
from weft.drivers.probes.prober import FrameProber
from weft.fabricagent.tls import make_certificates
from weft.model.errors import UnknownError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.probeapi import EndResult, ProbeStatus, RoundEnd, RoundQuery, RoundResult
from weft.model.problem import ProblemKind, render
from weft.model.site import ProbeAgent, Traffic
from weft.model.specs import SegmentSpec
from weftlab.switches.labsite import FABRIC

SITE = ethernet_lab()
NODES = [n.name for n in SITE.nodes if n.hcas_on(FABRIC)]
FIRST, SECOND, THIRD, FOURTH = NODES
PORT = {n: SITE.node_by_name[n].hcas_on(FABRIC)[0].port_id for n in NODES}


def end(node: str) -> str:
    return f"{node}/{SITE.node_by_name[node].hcas_on(FABRIC)[0].name}"


@dataclass
class Air:
    """What is on the wire: each adapter's mark of this round; `hears`: listener -> senders."""

    hears: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    marks: dict[str, str] = field(default_factory=dict[str, str])


@dataclass
class Scripted:
    """An agent beside one node: its ends hear what `Air` says, and `change` alters each answer.

    Attributes:
        late: seconds after the round's end at which it answers, in the first `for_rounds` rounds.
        lost: its answers in these rounds are lost, and it has no status.
    """

    node: str
    air: Air
    change: Callable[[EndResult], EndResult] = lambda result: result
    late: float = 0.0
    lost: bool = False
    for_rounds: int = 99
    asked: list[RoundQuery] = field(default_factory=list[RoundQuery])

    @property
    def name(self) -> str:
        return f"a-{self.node}"

    def status(self) -> ProbeStatus:
        if self.lost:
            raise UnknownError("GET status", self.name, "no answer")
        return ProbeStatus(name=self.name)

    def round(self, query: RoundQuery) -> RoundResult:
        self.asked.append(query)
        self.air.marks.update({e.adapter: e.mark for e in query.ends})
        time.sleep(0.1)  # all have begun
        if len(self.asked) <= self.for_rounds:
            time.sleep(query.seconds + self.late if self.late else 0.0)
            if self.lost:
                raise UnknownError("POST round", self.name, "the answer was lost")
        return RoundResult(name=self.name, ends=tuple(self.change(self._as_answered(e)) for e in query.ends))

    def _as_answered(self, one: RoundEnd) -> EndResult:
        heard = tuple(self.air.marks[s] for s in self.air.hears.get(one.adapter, ()) if s in self.air.marks)
        return EndResult(adapter=one.adapter, sent=True, heard=heard, asked=one.asked, echoed=one.asked)


def prober(
    *agents: Scripted, policy: str = "warn", guests: Collection[str] = (), in_use: Collection[str] = ()
) -> FrameProber:
    named = tuple(
        ProbeAgent(name=a.name, url=f"https://h{i}.example:1", nodes=(a.node,), guest=a.node in guests)
        for i, a in enumerate(agents)
    )
    files = {"ca": "ca.pem", "certificate": "c.pem", "key": "k.pem"}
    traffic = Traffic.model_validate({"agents": named, "policy": policy, "seconds": 0.5, **files})
    return FrameProber(SITE, FABRIC, traffic, agents, lambda: frozenset(in_use))


def segment(*nodes: str, mode: Mode = Mode.ACCESS) -> SegmentSpec:
    members = tuple(Membership(port=PORT[n], mode=mode) for n in nodes)
    return SegmentSpec(number=50, fabric_type=FabricKind.ETHERNET, members=members)


def together(*nodes: str) -> Air:
    names = [end(n) for n in nodes]
    return Air({name: [n for n in names if n != name] for name in names})


def unknown(why: str) -> Callable[[EndResult], EndResult]:
    return lambda result: result.model_copy(update={"unknown": why})


# -- what is proved


@pytest.mark.parametrize(
    "spoiled",
    [
        {"lost": True},
        {"change": lambda r: r.model_copy(update={"sent": False})},
        {"change": unknown("its interface had no link")},
    ],
)
def test_hearing_a_former_member_is_proof_whatever_is_unknown(spoiled: Mapping[str, object]) -> None:
    """The listener's or the sender's answer is spoiled, but the mark was heard and can't be guessed."""
    for air in (Air({end(FIRST): [end(SECOND)]}), Air({end(SECOND): [end(FIRST)]})):
        listener = next(iter(air.hears))
        if "lost" in spoiled and listener == end(SECOND):
            continue  # the lost answer had what was heard
        agents = (Scripted(FIRST, air), Scripted(SECOND, air, **spoiled), Scripted(THIRD, air))  # type: ignore[arg-type]
        [item] = prober(*agents).clean(segment(FIRST, SECOND))[0].items
        assert item.result == "not clean", item
        assert set(item.nodes) == {FIRST, SECOND}, "neither node is released"


def test_frames_that_pass_one_way_keep_both_former_members() -> None:
    air = Air({end(FIRST): [end(SECOND)], end(FOURTH): [end(THIRD)]})
    [item] = prober(*(Scripted(n, air) for n in NODES)).clean(segment(FIRST, SECOND, THIRD))[0].items
    assert item.result == "not clean" and set(item.nodes) == {FIRST, SECOND, THIRD}


def test_breach_in_the_first_round_is_kept_in_the_second() -> None:
    air = Air({end(FIRST): [end(SECOND)], end(SECOND): [end(FIRST)], end(THIRD): [end(FIRST)]})
    third = Scripted(THIRD, air)
    third.change = lambda r: unknown("no link")(r) if len(third.asked) > 1 else r
    second = Scripted(SECOND, air, lost=True, for_rounds=1)
    found = prober(Scripted(FIRST, air), second, third).check(segment(FIRST, SECOND), {})
    assert {p.kind for p in found.problems} == {ProblemKind.HEARD}, found


# -- silence


def test_silence_of_a_late_agent_proves_nothing() -> None:
    """It may have begun after the others ended, so a live VLAN isn't reported clean."""
    air = Air()
    near, far = Scripted(FIRST, air), Scripted(SECOND, air, late=0.6)
    [item] = prober(near, far).clean(segment(FIRST, SECOND))[0].items
    assert item.subject.startswith("1 former members") and "later than others" in item.unread[0]
    far.for_rounds = len(far.asked) + 1
    [item] = prober(near, far).clean(segment(FIRST, SECOND))[0].items
    assert item.result == "clean" and item.subject.startswith("2 former members"), (
        "the second round was in time"
    )


def test_two_ends_on_one_interface_are_unknown() -> None:
    """As if two hosts' agents were swapped in the site: the frames' sender isn't known."""
    air = Air()

    def same(result: EndResult) -> EndResult:
        return result.model_copy(update={"mac": "02:00:00:00:00:01"} if "/mlx5_0" in result.adapter else {})

    agents = [Scripted(n, air, same) for n in (FIRST, SECOND)] + [Scripted(THIRD, air)]
    clean, untried = prober(*agents).clean(segment(FIRST, SECOND))
    assert not clean.items
    assert (
        f"its interface has the MAC address 02:00:00:00:00:01, and so has that of {end(SECOND)}" in untried[0]
    )


def test_request_contains_the_sites_mac_address() -> None:
    document = SITE.model_dump(mode="json")
    node = next(n for n in document["nodes"] if n["name"] == FIRST)
    node["hcas"][0]["mac"] = "02:00:00:00:00:0A"
    air, agent = Air(), Scripted(FIRST, Air())
    other = Scripted(SECOND, air)
    made = prober(agent, other)
    site = type(SITE).model_validate(document)
    FrameProber(site, FABRIC, made._traffic, [agent, other]).clean(segment(FIRST))  # pyright: ignore[reportPrivateUsage]
    assert {e.adapter: e.mac for e in agent.asked[0].ends}[end(FIRST)] == "02:00:00:00:00:0a"


# -- nothing tried


def test_single_member_is_reported_untested() -> None:
    """Neither as heard, nor by leaving frames out of the receipt."""
    alone = Scripted(FIRST, Air())
    made = prober(alone, policy="refuse")
    whole = SegmentSpec(
        number=50,
        fabric_type=FabricKind.ETHERNET,
        members=tuple(Membership(port=h.port_id) for h in SITE.node_by_name[FIRST].hcas_on(FABRIC)),
    )
    alone.air.hears = together_all(FIRST).hears
    found = made.check(whole, {})
    assert found.problems == () and "hear members was not tested: no probe agent" in render(found.notes)
    alone.air.hears = {}
    clean, untried = made.clean(whole)
    [item] = clean.items
    assert item.result == "clean" and "whether others hear former members was not tested" in item.unread[0]
    assert untried == ()


def together_all(node: str) -> Air:
    names = [f"{node}/{h.name}" for h in SITE.node_by_name[node].hcas_on(FABRIC)]
    return Air({name: [n for n in names if n != name] for name in names})


def test_segment_without_agents_is_reported() -> None:
    clean, untried = prober(Scripted(FIRST, Air())).clean(segment(SECOND))
    assert not clean.items
    assert f"frames of {end(SECOND)} were not tested: no probe agent is beside {SECOND}" in untried
    empty = SegmentSpec(
        number=50, fabric_type=FabricKind.ETHERNET, members=(Membership(port="nowhere/Ethernet1"),)
    )
    clean, untried = prober(Scripted(FIRST, Air())).clean(empty)
    assert not clean.items
    assert untried == ("whether others hear former members was not tested: no former member could be tested",)


@pytest.mark.parametrize("policy", ["warn", "refuse"])
def test_failing_listeners_outside_the_pod_are_reported_if_none_is_left(policy: str) -> None:
    air = together(FIRST, SECOND)
    lost = [Scripted(n, air, lost=True) for n in (THIRD, FOURTH)]
    quiet = [
        Scripted(n, air, lambda r: r if r.adapter in air.hears else unknown("no link")(r))
        for n in (FIRST, SECOND)
    ]
    made = prober(*quiet, *lost, policy=policy)
    found = made.check(segment(FIRST, SECOND), {})
    reported = found.problems if policy == "refuse" else found.notes
    assert "whether others on roce hear members was not tested" in render(reported)
    assert not any(what.startswith("others of") for what in found.looked_at)
    air.hears = {}
    quiet[0].change = quiet[1].change = lambda r: (
        r if r.adapter in {end(FIRST), end(SECOND)} else unknown("no link")(r)
    )
    items = made.clean(segment(FIRST, SECOND))[0].items
    assert [i.result for i in items] == ["clean", *(["unknown"] if policy == "refuse" else [])]
    if policy == "refuse":
        assert set(items[-1].nodes) == {FIRST, SECOND}


def test_member_without_an_address_is_not_reported_unanswered() -> None:
    air = together(FIRST, SECOND)
    mute = Scripted(FIRST, air, lambda r: r.model_copy(update={"asked": (), "echoed": ()}))
    found = prober(mute, Scripted(SECOND, air), Scripted(THIRD, air)).check(
        segment(FIRST, SECOND), {PORT[FIRST]: "10.0.0.1", PORT[SECOND]: "10.0.0.2"}
    )
    assert not found.notes and not found.problems, found
    assert found.looked_at[f"adapters of {FABRIC} that can't ping, for lack of an address"] == 1
    assert len(mute.asked) == 1, "no round is repeated for what wasn't asked"


# -- others


def test_listeners_outside_the_pod_are_free_nodes_first_and_never_guests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod in use isn't disturbed while other ports exist, and a tenant's report proves nothing."""
    monkeypatch.setattr("weft.drivers.probes.prober.OTHERS", 2)
    air = Air()
    agents = [Scripted(n, air) for n in NODES]
    prober(*agents, guests=[SECOND], in_use=[FIRST, THIRD]).clean(segment(FIRST))
    asked = {e.adapter.partition("/")[0] for a in agents for q in a.asked for e in q.ends}
    assert asked == {FIRST, FOURTH}


# -- agents that are silent all the time


def test_silent_agents_and_certificates_are_reported() -> None:
    reported = prober(Scripted(FIRST, Air(), lost=True), Scripted(SECOND, Air())).troubles()
    assert any("certificate c.pem can't be read" in t for t in reported)
    assert [t.partition(":")[0] for t in reported if "agent" in t] == [
        f"probe agent a-{FIRST} can't be asked"
    ]


def test_certificate_for_probe_agents_is_watched(tmp_path: Path) -> None:
    make_certificates(tmp_path, {"a": ["127.0.0.1"]}, days=0)
    agent = {"name": "a", "url": "https://127.0.0.1:1", "nodes": [FIRST]}
    files = {"ca": str(tmp_path / "ca.pem"), "certificate": str(tmp_path / "weft.pem"), "key": "k.pem"}
    document = SITE.model_dump(mode="json")
    document["fabrics"][FABRIC]["traffic"] = {"agents": [agent], **files}
    assert any("weft.pem expired" in note for note in certificate_notes(type(SITE).model_validate(document)))
