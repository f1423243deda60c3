"""Who hears whom on an Ethernet fabric: one round of all members and some others, weighed.

A tenant can make its own adapter silent, or send what it has heard again: so silence of a server's own agent is told as
what it is, and a mark is only known to those whom a frame of its end has reached.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from weft.drivers.probes.client import Agent, HttpProbeAgent
from weft.model.errors import OutsideError, WeftError
from weft.model.fabric import Check, Clean, EvidenceItem, Membership
from weft.model.fabrictypes import Mode
from weft.model.probeapi import MOST_ASKED, MOST_ENDS, EndResult, RoundEnd, RoundQuery
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import SegmentSpec
from weft.model.site import Hca, Node, ProbeAgent, Site, Traffic

OTHERS = 8
"""Adapters that aren't members and take part in a round: those on the members' own leaves before the rest."""
PLANE = "frames"


@dataclass(frozen=True, slots=True)
class End:
    """An adapter that may take part. `agent`: its name; empty: none is beside it."""

    port: str
    name: str
    node: str
    pci: str
    agent: str


@dataclass(frozen=True, slots=True)
class Round:
    """What was found out.

    Attributes:
        members, others: of whom something is known.
        heard: port -> ports that it heard.
        unanswered: port -> addresses that it had no answer from.
        unknown: name of an end -> why nothing is known of it.
    """

    members: tuple[End, ...]
    others: tuple[End, ...]
    heard: Mapping[str, frozenset[str]]
    unanswered: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, str]


class FrameProber:
    """`Prober` of one fabric; `close` closes its connections."""

    def __init__(
        self, site: Site, fabric: str, traffic: Traffic, agents: Sequence[Agent] | None = None
    ) -> None:
        self._site, self._fabric, self._traffic = site, fabric, traffic
        made = [HttpProbeAgent(a, traffic) for a in traffic.agents] if agents is None else agents
        self._agents: Mapping[str, Agent] = {a.name: a for a in made}
        of_node = {node: a for a in traffic.agents for node in a.nodes}
        self._ends = {
            h.port_id: _end(n, h, of_node.get(n.name)) for n in site.nodes for h in n.hcas_on(fabric)
        }

    def close(self) -> None:
        for agent in self._agents.values():
            if isinstance(agent, HttpProbeAgent):
                agent.close()

    def silent(self) -> Iterator[str]:
        """Agents that don't answer, one sentence each."""
        for name, agent in sorted(self._agents.items()):
            try:
                agent.status()
            except WeftError as error:
                yield f"probe agent {name} can't be asked: {error}"

    def check(self, segment: SegmentSpec, addresses: Mapping[str, str]) -> Check:
        seen = self._round(segment, addresses)
        # Agents may have begun too far apart, and an adapter may have been coming up with its server.
        if seen.unknown or any(seen.unanswered.values()) or any(self._silences(segment, seen)):
            seen = _both(seen, self._round(segment, addresses))
        problems, notes = [*self._silences(segment, seen), *self._crossings(segment, seen)], list[Problem]()
        (problems if self._traffic.policy == "refuse" else notes).extend(self._unknown(seen))
        notes += self._unanswered(seen)
        asked = sum(len(a) for a in seen.unanswered.values())
        looked = {
            f"adapters of {self._fabric} that hear each other": len(seen.members),
            f"others of {self._fabric} that hear none of them": len(seen.others),
        }
        if addresses:
            looked[f"pings on {self._fabric} without an answer"] = asked
        return Check(tuple(problems), looked, tuple(notes))

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        seen = self._round(segment, {})
        crossing = {e.port: self._hears(e, seen, seen.members) for e in (*seen.members, *seen.others)}
        crossing |= {m.port: crossing[m.port] + self._hears(m, seen, seen.others) for m in seen.members}
        untried = tuple(
            f"frames of {name} were not tested: {why}" for name, why in sorted(seen.unknown.items())
        )
        items: list[EvidenceItem] = []
        if len(seen.members) + len(seen.others) > 1 and seen.members:
            loud = [
                f"{self._ends[port].name} hears {', '.join(names)}"
                for port, names in crossing.items()
                if names
            ]
            ends = f"{len(seen.members)} former members of {segment.named}, {len(seen.others)} others"
            nodes = sorted(
                {self._ends[p].node for p, names in crossing.items() if names} & _nodes(seen.members)
            )
            told = (
                "; ".join(loud)
                or "each sent, with and without the tag, and none of them was heard by another"
            )
            result = "not clean" if loud else "clean"
            items.append(EvidenceItem(PLANE, ends, result, told, tuple(nodes), untried))
            untried = ()
        if self._traffic.policy == "refuse" and seen.unknown:
            nodes = sorted({e.node for e in self._ends.values() if e.name in seen.unknown})
            told = "; ".join(f"{name}: {why}" for name, why in sorted(seen.unknown.items())[:3])
            items.append(EvidenceItem(PLANE, ", ".join(sorted(seen.unknown)), "unknown", told, tuple(nodes)))
            untried = ()
        return Clean(tuple(items)), untried

    # -- the round -------------------------------------------------------------------------------------------------

    def _round(self, segment: SegmentSpec, addresses: Mapping[str, str]) -> Round:
        members = {m.port: m for m in segment.members}
        # IPU-Machines have no agent, and can't have one.
        ends = [self._ends[p] for p in sorted(members) if p in self._ends]
        unknown = {e.name: f"no probe agent is beside {e.node}" for e in ends if not e.agent}
        beside = [e for e in ends if e.agent]
        inside, more = beside[: MOST_ENDS - OTHERS], beside[MOST_ENDS - OTHERS :]
        unknown |= {e.name: f"a round has {len(inside)} members at most" for e in more}
        others = self._others(members.keys(), inside)
        marks = {e.port: secrets.token_hex(8) for e in (*inside, *others)}
        asked = [(e.port, addresses[e.port]) for e in inside if e.port in addresses]
        wanted: dict[str, list[RoundEnd]] = {}
        for end in (*inside, *others):
            tags = _tags(members.get(end.port), segment.number)
            mine = _after(asked, end.port) if end.port in addresses else ()
            one = RoundEnd(adapter=end.name, pci=end.pci, mark=marks[end.port], tags=tags, asked=mine)
            wanted.setdefault(end.agent, []).append(one)
        results, silent = self._ask(wanted)
        for end in (*inside, *others):
            told = results.get(end.name)
            why = silent.get(end.agent) if told is None else told.unknown
            if told is not None and not why and not told.sent:
                why = "what it sent was not seen to leave"
            if why and end.port in members:
                unknown[end.name] = why
            if why:
                results.pop(end.name, None)
        by_mark = {mark: port for port, mark in marks.items()}
        known = {e.port: results[e.name] for e in (*inside, *others) if e.name in results}
        heard = {
            p: frozenset(by_mark[m] for m in r.heard if m in by_mark) & known.keys() for p, r in known.items()
        }
        to = {one.adapter: one.asked for group in wanted.values() for one in group}
        unanswered = {
            p: tuple(a for a in to[r.adapter] if a not in r.echoed) for p, r in known.items() if to[r.adapter]
        }
        return Round(
            tuple(e for e in inside if e.port in known),
            tuple(e for e in others if e.port in known),
            heard,
            unanswered,
            unknown,
        )

    def _others(self, members: Collection[str], inside: Sequence[End]) -> list[End]:
        leaves = {e.port.partition("/")[0] for e in inside}
        rest = [e for p, e in self._ends.items() if p not in members and e.agent]
        return sorted(rest, key=lambda e: (e.port.partition("/")[0] not in leaves, e.name))[:OTHERS]

    def _ask(self, wanted: Mapping[str, list[RoundEnd]]) -> tuple[dict[str, EndResult], dict[str, str]]:
        """What agents tell of their ends, and why others tell nothing; all at the same time."""
        number, seconds = secrets.token_hex(8), self._traffic.seconds
        size = self._site.fabrics[self._fabric].network_mtu or 84
        results: dict[str, EndResult] = {}
        silent: dict[str, str] = {}

        def one(agent: str) -> None:
            query = RoundQuery(number=number, seconds=seconds, size=size, ends=tuple(wanted[agent]))
            try:
                for end in self._agents[agent].round(query).ends:
                    results[end.adapter] = end
            except WeftError as error:
                answer = error.answer if isinstance(error, OutsideError) else str(error)
                silent[agent] = f"agent {agent}: {answer}"

        if wanted:
            with ThreadPoolExecutor(len(wanted)) as pool:
                list(pool.map(one, sorted(wanted)))
        return results, silent

    # -- what it means ---------------------------------------------------------------------------------------------

    def _hears(self, listener: End, seen: Round, senders: Sequence[End]) -> list[str]:
        return [s.name for s in senders if s.port in seen.heard[listener.port]]

    def _silences(self, segment: SegmentSpec, seen: Round) -> Iterator[Problem]:
        for listener in seen.members:
            missing = [
                s.name for s in seen.members if s != listener and s.port not in seen.heard[listener.port]
            ]
            if missing:
                yield self._problem(
                    ProblemKind.NOT_HEARD, listener, segment=segment.named, who=_some(missing)
                )

    def _crossings(self, segment: SegmentSpec, seen: Round) -> Iterator[Problem]:
        pairs = [(e, self._hears(e, seen, seen.members)) for e in seen.others]
        pairs += [(e, self._hears(e, seen, seen.others)) for e in seen.members]
        for listener, heard in pairs:
            if heard:
                yield self._problem(ProblemKind.HEARD, listener, segment=segment.named, who=_some(heard))

    def _unknown(self, seen: Round) -> Iterator[Problem]:
        for name, why in sorted(seen.unknown.items()):
            node = name.partition("/")[0]
            nodes = (node,) if node in self._site.node_by_name else ()
            said = f"frames of {name} on {self._fabric} were not tested: {why}"
            yield Problem(ProblemKind.UNREAD, name, self._fabric, nodes=nodes, detail={"why": said})

    def _unanswered(self, seen: Round) -> Iterator[Problem]:
        size = self._site.fabrics[self._fabric].network_mtu
        what = f" of {size} bytes" if size else ""
        for end in seen.members:
            if silent := seen.unanswered.get(end.port):
                yield self._problem(ProblemKind.NO_ECHO, end, what=what, who=_some(silent))

    def _problem(self, kind: ProblemKind, end: End, **detail: str) -> Problem:
        return Problem(kind, end.name, self._fabric, id=end.port, nodes=(end.node,), detail=detail)


def _both(first: Round, then: Round) -> Round:
    """What was heard in either; of whom something is known is what the second says."""
    heard = {p: (first.heard.get(p, frozenset()) | h) & then.heard.keys() for p, h in then.heard.items()}
    unanswered = {
        p: tuple(a for a in silent if a in first.unanswered.get(p, silent))
        for p, silent in then.unanswered.items()
    }
    return replace(then, heard=heard, unanswered=unanswered)


def _end(node: Node, hca: Hca, agent: ProbeAgent | None) -> End:
    return End(hca.port_id, f"{node.name}/{hca.name}", node.name, str(hca.pci), agent.name if agent else "")


def _tags(member: Membership | None, number: int) -> tuple[tuple[int, ...], ...]:
    """What an end sends: a member of a trunk its own tag; others whatever might get in."""
    if member is not None and member.mode is Mode.TRUNK:
        return ((number,),)
    return ((), (number,), (0, number))


def _after(asked: Sequence[tuple[str, str]], port: str) -> tuple[str, ...]:
    """Addresses of the members that come after this one, in a circle."""
    at = next(i for i, (p, _) in enumerate(asked) if p == port)
    around = [*asked[at + 1 :], *asked[:at]]
    return tuple(address for _, address in around[:MOST_ASKED])


def _nodes(ends: Sequence[End]) -> set[str]:
    return {e.node for e in ends}


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
