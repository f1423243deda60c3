"""Rounds of an Ethernet fabric's adapters: which ends take part together, and what is known afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from weft.model.probeapi import MOST_ENDS
from weft.model.site import Hca, IpuMachine, Node, ProbeAgent
from weft.model.specs import SegmentSpec

OTHERS = 8
"""Number of adapters in a round that aren't members: those on the members' own leaves come first."""
MOST_MEMBERS = MOST_ENDS - OTHERS
"""Most members of a round: every end hears all broadcasts."""
MOST_GROUPS = 12
"""Most groups of members, any two of which meet in a round: 1,488 members take 66 rounds."""

Ports = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class ProbedPort:
    """A port of the fabric that may take part.

    Attributes:
        agent: name of the agent next to it; empty: there is none. guest: its tenant controls it.
        mac: of its interface, if the site has it.
        address: with `mac`, where an end without an agent is probed; empty: it can't be.
        is_machine: no agent can run next to it.
    """

    port: str
    name: str
    node: str
    pci: str | None = None
    agent: str = ""
    guest: bool = False
    address: str = ""
    mac: str = ""
    is_machine: bool = False

    @classmethod
    def of_adapter(cls, node: Node, hca: Hca, agent: ProbeAgent | None) -> ProbedPort:
        """The port of an adapter. A bond has no MAC address here, since it may use either of its two."""
        name, mac = f"{node.name}/{hca.name}", "" if hca.bond_pci else (hca.mac or "")
        beside, guest = (agent.name, agent.guest) if agent else ("", False)
        return cls(hca.port_id, name, node.name, str(hca.pci), beside, guest, mac=mac)

    @classmethod
    def of_machine(cls, machine: IpuMachine) -> ProbedPort:
        """An IPU-Machine's end, whose address is the same in every pod."""
        name, address = f"{machine.name}/rnic", str(machine.rnic_address)
        return cls(
            machine.port_id, name, machine.name, address=address, mac=machine.rnic_mac, is_machine=True
        )


@dataclass(frozen=True, slots=True)
class Round:
    """The results of a round.

    Attributes:
        members, others: ends that were to send and to listen.
        apart: members without an agent, which were probed by ARP.
        heard: port -> ports whose broadcasts it heard, or that answered it. That is proof, whatever else is unknown of
            the two: marks can't be invented.
        asked, echoed: port -> addresses that it pinged, and that answered.
        unknown: name of an end -> why its silence proves nothing.
        forged: other VLANs whose tags members sent, unless they are in them.
    """

    members: tuple[ProbedPort, ...] = ()
    others: tuple[ProbedPort, ...] = ()
    apart: tuple[ProbedPort, ...] = ()
    heard: Ports = field(default_factory=dict[str, frozenset[str]])
    asked: Ports = field(default_factory=dict[str, frozenset[str]])
    echoed: Ports = field(default_factory=dict[str, frozenset[str]])
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])
    forged: tuple[SegmentSpec, ...] = ()

    @property
    def kept_out(self) -> tuple[SegmentSpec, ...]:
        """The forged VLANs that a known member tried to reach while one of their ports listened."""
        there, known = {e.port for e in self.listening}, {e.port for e in self.known}
        return tuple(s for s in self.forged if s.ports & there and known - s.ports)

    @property
    def known(self) -> tuple[ProbedPort, ...]:
        """Members that sent and listened in each round."""
        return self._sure(self.members)

    @property
    def listening(self) -> tuple[ProbedPort, ...]:
        """Others that sent and listened in each round."""
        return self._sure(self.others)

    @property
    def answering(self) -> tuple[ProbedPort, ...]:
        """Members without an agent that answered another member."""
        return self._sure(self.apart)

    @property
    def untried(self) -> Mapping[str, str]:
        """The unknown ends that are members."""
        others = {e.name for e in self.others}
        return {name: why for name, why in sorted(self.unknown.items()) if name not in others}

    @property
    def alone(self) -> str:
        """Why no stranger took part together with known members; empty if one did."""
        if self.listening:
            return ""
        why = next((f"{e.name}: {self.unknown[e.name]}" for e in self.others), "")
        return why or "no probe agent is beside any other adapter"

    def _sure(self, ends: Sequence[ProbedPort]) -> tuple[ProbedPort, ...]:
        return tuple(e for e in ends if e.name not in self.unknown)

    @property
    def unanswered(self) -> Mapping[str, tuple[str, ...]]:
        """Port of a member -> addresses that it had no answer from."""
        ports = {e.port for e in self.known} & self.asked.keys()
        return {p: tuple(sorted(self.asked[p] - self.echoed.get(p, frozenset()))) for p in ports}

    def missing(self) -> Iterator[tuple[ProbedPort, list[str]]]:
        """Members, each with the others that it doesn't hear."""
        for listener in self.known:
            heard = self.heard.get(listener.port, frozenset())
            if missing := [s.name for s in self.known if s != listener and s.port not in heard]:
                yield listener, missing

    def crossing(self) -> Iterator[tuple[ProbedPort, list[ProbedPort]]]:
        """Ends that hear others although only one of the two is a member, each with those it hears."""
        pairs = [(e, self._hears(e, self.members)) for e in self.others]
        pairs += [(e, self._hears(e, self.others)) for e in self.members]
        return ((e, heard) for e, heard in pairs if heard)

    def loud(self) -> Iterator[tuple[ProbedPort, list[ProbedPort]]]:
        """Ends that hear a former member, or are one and hear anything, each with those it hears."""
        pairs = [(e, self._hears(e, (*self.members, *self.others, *self.apart))) for e in self.members]
        pairs += [(e, self._hears(e, self.members)) for e in self.others]
        return ((e, heard) for e, heard in pairs if heard)

    def _hears(self, listener: ProbedPort, senders: Iterable[ProbedPort]) -> list[ProbedPort]:
        heard = self.heard.get(listener.port, frozenset())
        return [s for s in senders if s.port in heard and s != listener]

    def and_then(self, other: Round) -> Round:
        """This round joined with one of other members: an end that is unknown in either is unknown."""
        forged = tuple(s for s in other.forged if s in self.forged or not self.members)
        return self._with(other, {**self.unknown, **other.unknown}, forged)

    def again(self, other: Round) -> Round:
        """This round joined with a repetition for the same members: what is unknown in the repetition is
        unknown."""
        there = {e.name for e in (*other.members, *other.others, *other.apart)}
        before = {name: why for name, why in self.unknown.items() if name not in there}
        return self._with(other, {**before, **other.unknown}, other.forged)

    def _with(self, other: Round, unknown: Mapping[str, str], forged: tuple[SegmentSpec, ...]) -> Round:
        return Round(
            _union(self.members, other.members),
            _union(self.others, other.others),
            _union(self.apart, other.apart),
            _merged(self.heard, other.heard),
            _merged(self.asked, other.asked),
            _merged(self.echoed, other.echoed),
            unknown,
            forged,
        )


def parts(members: Sequence[ProbedPort], most: int) -> list[tuple[ProbedPort, ...]]:
    """Divide members into rounds, so that any two of them meet in one. Args: most: members of a round."""
    if len(members) <= most:
        return [tuple(members)]
    half = max(1, most // 2)
    groups = [tuple(members[at : at + half]) for at in range(0, len(members), half)]
    return [(*one, *other) for one, other in combinations(groups, 2)]


def _union(first: Sequence[ProbedPort], then: Sequence[ProbedPort]) -> tuple[ProbedPort, ...]:
    return tuple(dict.fromkeys((*first, *then)))


def _merged(first: Ports, then: Ports) -> Ports:
    return {p: first.get(p, frozenset()) | then.get(p, frozenset()) for p in first.keys() | then.keys()}
