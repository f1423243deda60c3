"""Who hears whom on an Ethernet fabric: rounds of all members and some others, weighed.

A tenant can make its own adapter silent, or send what it has heard again: so silence of a server's own agent is told as
what it is, and a mark is only known to those whom a frame of its end has reached. Members without an agent are asked
for by ARP, by other members alone: to a stranger's request its own neighbours could answer in their place.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from weft.drivers.probes.client import Agent, HttpProbeAgent
from weft.drivers.probes.rounds import MOST_GROUPS, MOST_MEMBERS, OTHERS, End, Round, parts
from weft.model.errors import OutsideError, WeftError
from weft.model.fabric import Check, Clean, EvidenceItem, Membership
from weft.model.fabrictypes import Mode
from weft.model.probeapi import MOST_ASKED, EndResult, RoundEnd, RoundQuery, Sought
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import SegmentSpec
from weft.model.site import Site, Traffic
from weft.ports.prober import Tried

PLANE = "frames"
ASKING = 4
"""Members that ask for those without an agent."""


class FrameProber:
    """`Prober` of one fabric; `close` closes its connections."""

    def __init__(
        self, site: Site, fabric: str, traffic: Traffic, agents: Sequence[Agent] | None = None
    ) -> None:
        self._site, self._fabric, self._traffic = site, fabric, traffic
        made = [HttpProbeAgent(a, traffic) for a in traffic.agents] if agents is None else agents
        self._agents: Mapping[str, Agent] = {a.name: a for a in made}
        of_node = {node: a for a in traffic.agents for node in a.nodes}
        machines = [m for (on, _), m in site.machine_by_port.items() if on == fabric]
        ends = [End.of_adapter(n, h, of_node.get(n.name)) for n in site.nodes for h in n.hcas_on(fabric)]
        self._ends = {e.port: e for e in (*ends, *map(End.of_machine, machines))}

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

    def begin(self, segment: SegmentSpec) -> Tried:
        seen = self._rounds(segment, {}, patient=True)
        check = Check(self._wrong(segment, seen), self._looked(seen), tuple(self._unknown(seen)))
        return Tried(check, frozenset(e.port for e in (*seen.known, *seen.answering)))

    def check(self, segment: SegmentSpec, addresses: Mapping[str, str], tried: Collection[str] = ()) -> Check:
        before = frozenset(self._ends[p].name for p in tried if p in self._ends)
        seen = self._rounds(segment, addresses, patient=True, before=before)
        passed = before & seen.unknown.keys()
        problems, notes = list(self._wrong(segment, seen)), list[Problem]()
        (problems if self._traffic.policy == "refuse" else notes).extend(self._unknown(seen, passed))
        notes += self._unanswered(seen)
        looked = self._looked(seen)
        if passed:
            looked[f"adapters of {self._fabric} that did before their servers had them"] = len(passed)
        if addresses:
            asked = sum(len(a) for a in seen.unanswered.values())
            looked[f"pings on {self._fabric} without an answer"] = asked
        return Check(tuple(problems), looked, tuple(notes))

    def _wrong(self, segment: SegmentSpec, seen: Round) -> tuple[Problem, ...]:
        return (
            *(self._problem(ProblemKind.NOT_HEARD, e, segment, who) for e, who in seen.missing()),
            *(self._problem(ProblemKind.HEARD, e, segment, _names(who)) for e, who in seen.crossing()),
        )

    def _looked(self, seen: Round) -> dict[str, int]:
        looked = {
            f"adapters of {self._fabric} that hear each other": len(seen.known),
            f"others of {self._fabric} that hear none of them": len(seen.listening),
        }
        if seen.answering:
            looked[f"adapters of {self._fabric} without an agent that answer"] = len(seen.answering)
        return looked

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        seen = self._rounds(segment, {}, patient=False)
        loud = list(seen.loud())
        untried = {
            name: f"frames of {name} were not tested: {why}" for name, why in sorted(seen.unknown.items())
        }
        items: list[EvidenceItem] = []
        if loud or (seen.known and len(seen.known) + len(seen.listening) + len(seen.apart) > 1):
            items.append(self._heard_item(segment, seen, loud, tuple(untried.values())))
            untried = {}
        # Of a machine nobody expects more: it has no agent, and nobody may reach it any more.
        silent = {e.name: e.node for e in self._ends.values() if e.name in seen.unknown and not e.is_machine}
        if self._traffic.policy == "refuse" and silent:
            told = "; ".join(f"{name}: {seen.unknown[name]}" for name in sorted(silent)[:3])
            nodes = tuple(sorted({*silent.values()}))
            items.append(EvidenceItem(PLANE, ", ".join(sorted(silent)), "unknown", told, nodes))
        left = untried.keys() - silent.keys() if items else untried.keys()
        return Clean(tuple(items)), tuple(untried[name] for name in sorted(left))

    def _heard_item(
        self,
        segment: SegmentSpec,
        seen: Round,
        loud: Sequence[tuple[End, list[End]]],
        untried: tuple[str, ...],
    ) -> EvidenceItem:
        ends = f"{len(seen.known)} former members of {segment.named}, {len(seen.listening)} others"
        told = "each sent, with and without the tag, and none of them was heard by another"
        if seen.apart:
            ends += f", {len(seen.apart)} without an agent"
            told += "; those without an agent were asked for by ARP, and answered none"
        if loud:
            told = "; ".join(f"{e.name} hears {', '.join(_names(who))}" for e, who in loud)
        heard = {e.node for listener, who in loud for e in (listener, *who)}
        nodes = sorted(heard & {e.node for e in (*seen.members, *seen.apart)})
        return EvidenceItem(PLANE, ends, "not clean" if loud else "clean", told, tuple(nodes), untried)

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _rounds(
        self,
        segment: SegmentSpec,
        addresses: Mapping[str, str],
        patient: bool,
        before: frozenset[str] = frozenset(),
    ) -> Round:
        """As many as it takes for each two members to meet.

        Args:
            patient: a round in which something was unknown or not heard is held once more: agents may have begun too
                far apart, and an adapter may have been coming up with its server.
            before: names of ends that needn't be known.
        """
        members = {m.port: m for m in segment.members}
        ends = [self._ends[p] for p in sorted(members) if p in self._ends]
        inside = [e for e in ends if e.agent]
        most = MOST_MEMBERS // 2 * MOST_GROUPS if len(inside) > MOST_MEMBERS else MOST_MEMBERS
        unknown = {e.name: f"{most} members are tested at most" for e in inside[most:]}
        apart, found = [e for e in ends if not e.agent], list[End]()
        for end in apart:
            known = replace(end, address=end.address or addresses.get(end.port, ""))
            if known.address and known.mac and inside:
                found.append(known)
            else:
                unknown[end.name] = _alone(end)
        together = parts(inside[:most], MOST_MEMBERS) if inside else []
        most = len(together) * MOST_ASKED
        unknown |= {e.name: f"{most} without an agent are asked for at most" for e in found[most:]}
        others = self._others(members.keys(), inside)
        seen = Round(unknown=unknown)
        for n, part in enumerate(together):
            sought = found[n * MOST_ASKED : (n + 1) * MOST_ASKED]
            one = self._round(segment, addresses, part, others, sought)
            # Where nobody of whom all was known before can be tested now, guests have the adapters.
            doubtful = bool(one.unknown) and (bool(one.known) or not before.issuperset(one.unknown))
            doubtful = doubtful or any(one.unanswered.values())
            if patient and (doubtful or any(one.missing())):
                one = one.again(self._round(segment, addresses, part, others, sought))
            seen = seen.and_then(one)
        return seen

    def _round(
        self,
        segment: SegmentSpec,
        addresses: Mapping[str, str],
        inside: Sequence[End],
        others: Sequence[End],
        apart: Sequence[End],
    ) -> Round:
        marks = {e.port: secrets.token_hex(8) for e in (*inside, *others)}
        wanted = _asked_of(segment, addresses, marks, inside, others, apart)
        results, silent = self._ask(wanted)
        by_mark = {mark: port for port, mark in marks.items()}
        by_address = {e.address: e.port for e in apart}
        told = {
            e.port: results[e.name]
            for e in (*inside, *others)
            if e.name in results and not results[e.name].unknown
        }
        heard = {
            p: frozenset(
                {by_mark[m] for m in r.heard if m in by_mark}
                | {by_address[a] for a in r.found if a in by_address}
            )
            for p, r in told.items()
        }
        to = {one.adapter: frozenset(one.asked) for group in wanted.values() for one in group}
        unknown = {e.name: why for e in inside if (why := _why(results.get(e.name), silent.get(e.agent, "")))}
        answered = frozenset[str]().union(*(heard.get(e.port, ()) for e in inside))
        unknown |= {e.name: _alone(e) for e in apart if e.port not in answered}
        return Round(
            tuple(inside),
            tuple(others),
            tuple(apart),
            heard,
            {p: to[r.adapter] for p, r in told.items() if to[r.adapter]},
            {p: frozenset(r.echoed) for p, r in told.items()},
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

    def _unknown(self, seen: Round, passed: Collection[str] = ()) -> Iterator[Problem]:
        for name, why in sorted((n, why) for n, why in seen.unknown.items() if n not in passed):
            node = name.partition("/")[0]
            nodes = (node,) if node in self._site.node_by_name else ()
            said = f"frames of {name} on {self._fabric} were not tested: {why}"
            yield Problem(ProblemKind.UNREAD, name, self._fabric, nodes=nodes, detail={"why": said})

    def _unanswered(self, seen: Round) -> Iterator[Problem]:
        size = self._site.fabrics[self._fabric].network_mtu
        what = f" of {size} bytes" if size else ""
        for end in seen.known:
            if silent := seen.unanswered.get(end.port):
                detail = {"what": what, "who": _some(silent)}
                yield Problem(
                    ProblemKind.NO_ECHO, end.name, self._fabric, id=end.port, nodes=(end.node,), detail=detail
                )

    def _problem(self, kind: ProblemKind, end: End, segment: SegmentSpec, who: Sequence[str]) -> Problem:
        detail = {"segment": segment.named, "who": _some(who)}
        return Problem(kind, end.name, self._fabric, id=end.port, nodes=(end.node,), detail=detail)


def _asked_of(
    segment: SegmentSpec,
    addresses: Mapping[str, str],
    marks: Mapping[str, str],
    inside: Sequence[End],
    others: Sequence[End],
    apart: Sequence[End],
) -> dict[str, list[RoundEnd]]:
    """Agent -> what its ends are to do in a round. Args: marks: port -> mark of what it sends."""
    members = {m.port: m for m in segment.members}
    asked = [(e.port, addresses[e.port]) for e in inside if e.port in addresses]
    sought = tuple(Sought(address=e.address, mac=e.mac.lower()) for e in apart)
    asking = {e.port for e in (*inside[: ASKING // 2], *inside[-ASKING // 2 :])}
    wanted: dict[str, list[RoundEnd]] = {}
    for end in (*inside, *others):
        one = RoundEnd(
            adapter=end.name,
            pci=end.pci,
            mark=marks[end.port],
            tags=_tags(members.get(end.port), segment.number),
            asked=_after(asked, end.port) if end.port in addresses else (),
            sought=sought if end.port in asking else (),
        )
        wanted.setdefault(end.agent, []).append(one)
    return wanted


def _why(told: EndResult | None, silent: str) -> str:
    """Why nothing is known of an end; empty: something is."""
    if told is None:
        return silent
    return told.unknown or ("" if told.sent else "what it sent was not seen to leave")


def _alone(end: End) -> str:
    asked = ", and it answers no member's ARP request" if end.address and end.mac else ""
    return f"no probe agent is beside {end.node}{asked}"


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


def _names(ends: Sequence[End]) -> list[str]:
    return [e.name for e in ends]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
