"""Judges which ends hear which on an Ethernet fabric, by rounds of all members and some others. A tenant can silence
its own adapter, or replay what it has heard. So silence of a server's own agent is reported as such, and a mark is
known only to ends that a frame of its sender has reached. Members without an agent are probed by ARP, only by other
members: a stranger's request could be answered by the stranger's own neighbours.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

from weft.drivers.probes.asking import Asker, without_agent
from weft.drivers.probes.client import HttpProbeAgent, RemoteProbeAgent
from weft.drivers.probes.forging import ambiguous, forged, leaf, listeners_first
from weft.drivers.probes.rounds import MOST_GROUPS, MOST_MEMBERS, OTHERS, ProbedPort, Round, parts
from weft.drivers.wire.agents import certificate_problems
from weft.model.errors import WeftError
from weft.model.fabric import Clean, EvidenceItem, SegmentCheck
from weft.model.fabrictypes import Mode
from weft.model.probeapi import MOST_ASKED
from weft.model.problem import Problem, ProblemKind
from weft.model.site import Site, Traffic
from weft.model.specs import SegmentSpec
from weft.ports.ledger import NoLedger, SegmentLedger
from weft.ports.prober import Tried

PLANE = "frames"


class FrameProber:
    """`Prober` of one fabric; `close` closes its connections.

    Args:
        in_use: names of nodes that pods hold: their adapters take part as strangers only if there are no free
        ones.
        ledger: the fabric's segments, some of whose tags members forge.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        traffic: Traffic,
        agents: Sequence[RemoteProbeAgent] | None = None,
        in_use: Callable[[], Collection[str]] = frozenset,
        ledger: SegmentLedger | None = None,
    ) -> None:
        self._site, self._fabric, self._traffic, self._in_use = site, fabric, traffic, in_use
        self._ledger = ledger or NoLedger()
        made = [HttpProbeAgent(a, traffic) for a in traffic.agents] if agents is None else agents
        self._agents: Mapping[str, RemoteProbeAgent] = {a.name: a for a in made}
        self._asker = Asker(self._agents, traffic.seconds, site.fabrics[fabric].network_mtu or 84)
        of_node = {node: a for a in traffic.agents for node in a.nodes}
        machines = [m for (on, _), m in site.machine_by_port.items() if on == fabric]
        ends = [
            ProbedPort.of_adapter(n, h, of_node.get(n.name)) for n in site.nodes for h in n.hcas_on(fabric)
        ]
        self._ends = {e.port: e for e in (*ends, *map(ProbedPort.of_machine, machines))}

    def close(self) -> None:
        for agent in self._agents.values():
            if isinstance(agent, HttpProbeAgent):
                agent.close()

    def troubles(self) -> tuple[str, ...]:
        with ThreadPoolExecutor(min(16, len(self._agents))) as pool:
            silent = [said for said in pool.map(_silence, self._agents.values()) if said]
        return (*certificate_problems(self._traffic, datetime.now(UTC)), *silent)

    def begin(self, segment: SegmentSpec) -> Tried:
        seen = self._rounds(segment, {}, _doubtful)
        tried = (*seen.known, *seen.answering) if _could_hear(seen) else ()
        problems, notes = self._weighed(segment, seen)
        return Tried(SegmentCheck(problems, self._looked(seen), notes), frozenset(e.port for e in tried))

    def check(
        self, segment: SegmentSpec, addresses: Mapping[str, str], tried: Collection[str] = ()
    ) -> SegmentCheck:
        before = {self._ends[p].name for p in tried if p in self._ends}
        seen = self._rounds(segment, addresses, lambda seen: _doubtful(seen, before))
        passed = before & seen.unknown.keys()
        problems, notes = self._weighed(segment, seen, passed)
        looked = self._looked(seen)
        if passed:
            looked[f"adapters of {self._fabric} that did before their servers had them"] = len(passed)
        if addresses:
            asked = sum(len(a) for a in seen.unanswered.values())
            looked[f"pings on {self._fabric} without an answer"] = asked
        if mute := [e for e in seen.known if e.port in addresses and e.port not in seen.asked]:
            looked[f"adapters of {self._fabric} that can't ping, for lack of an address"] = len(mute)
        return SegmentCheck(problems, looked, (*notes, *self._unanswered(seen)))

    def _weighed(
        self, segment: SegmentSpec, seen: Round, passed: Collection[str] = ()
    ) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
        """(problems, notes) of what was seen. Args: passed: names of ends that needn't be known any more."""
        problems = [
            *(self._problem(ProblemKind.NOT_HEARD, e, segment, who) for e, who in seen.missing()),
            *(self._problem(ProblemKind.HEARD, e, segment, _names(who)) for e, who in seen.crossing()),
        ]
        notes: list[Problem] = []
        unknown = problems if self._traffic.policy == "refuse" else notes
        unknown += [self._unread(name, why) for name, why in seen.untried.items() if name not in passed]
        if seen.known and seen.alone:
            said = f"whether others on {self._fabric} hear members was not tested: {seen.alone}"
            alone = Problem(ProblemKind.UNREAD, self._fabric, self._fabric, detail={"why": said})
            (unknown if seen.others else notes).append(alone)
        return tuple(problems), tuple(notes)

    def _looked(self, seen: Round) -> dict[str, int]:
        looked: dict[str, int] = {}
        if len(seen.known) > 1:
            looked[f"adapters of {self._fabric} that hear each other"] = len(seen.known)
        if seen.known and seen.listening:
            looked[f"others of {self._fabric} that hear none of them"] = len(seen.listening)
        if seen.kept_out:
            looked[f"other VLANs of {self._fabric} whose tags get none of them in"] = len(seen.kept_out)
        if seen.answering:
            looked[f"adapters of {self._fabric} without an agent that answer"] = len(seen.answering)
        return looked

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        seen = self._rounds(segment, {}, _left_open)
        loud = list(seen.loud())
        unread = {n: f"frames of {n} were not tested: {why}" for n, why in seen.untried.items()}
        if seen.alone:
            # Tenants must not learn whose adapters those are, nor what their agents report.
            why = "none of them could be tested" if seen.others else seen.alone
            why = why if seen.known else "no former member could be tested"
            unread[self._fabric] = f"whether others hear former members was not tested: {why}"
        items, left = list[EvidenceItem](), set(unread)
        if loud or (seen.known and (seen.apart or _could_hear(seen))):
            items.append(self._heard_item(segment, seen, loud, tuple(unread.values())))
            left = set[str]()
        if self._traffic.policy == "refuse" and (missed := self._missed(seen)):
            detail = "; ".join(unread[name] for name in sorted(missed)[:3])
            nodes = sorted({node for those in missed.values() for node in those})
            items.append(EvidenceItem(PLANE, ", ".join(sorted(missed)), "unknown", detail, tuple(nodes)))
            left -= missed.keys()
        return Clean(tuple(items)), tuple(unread[name] for name in sorted(left))

    def _missed(self, seen: Round) -> Mapping[str, Sequence[str]]:
        """What isn't known but must be -> the nodes that can't be freed until it is known."""
        # No more can be expected of a machine: it has no agent, and nothing may reach it any more.
        machines = {e.name for e in self._ends.values() if e.is_machine}
        missed = {name: [name.partition("/")[0]] for name in seen.untried if name not in machines}
        if seen.known and seen.others and seen.alone:
            missed[self._fabric] = [e.node for e in seen.known]
        return missed

    def _heard_item(
        self,
        segment: SegmentSpec,
        seen: Round,
        loud: Sequence[tuple[ProbedPort, list[ProbedPort]]],
        untried: tuple[str, ...],
    ) -> EvidenceItem:
        ends = f"{len(seen.known)} former members of {segment.named}, {len(seen.listening)} others"
        modes = {m.mode for m in segment.members}
        how = "with the tag" if modes == {Mode.TRUNK} else "with and without the tag"
        detail = f"each sent, {how}, and none of them was heard by another"
        if modes == {*Mode}:
            detail += "; those on shared ports sent only with the tag"
        if seen.kept_out:  # tenants must not learn whose they are
            detail += f"; other VLANs whose tags they forged and got into none: {len(seen.kept_out)}"
        if seen.apart:
            ends += f", {len(seen.apart)} without an agent"
            detail += "; those without an agent were asked for by ARP, and answered none"
        if loud:
            detail = "; ".join(f"{e.name} hears {', '.join(_names(who))}" for e, who in loud)
        heard = {e.node for listener, who in loud for e in (listener, *who)}
        nodes = sorted(heard & {e.node for e in (*seen.members, *seen.apart)})
        return EvidenceItem(PLANE, ends, "not clean" if loud else "clean", detail, tuple(nodes), untried)

    # -- rounds ----------------------------------------------------------------------------------------------------

    def _rounds(
        self, segment: SegmentSpec, addresses: Mapping[str, str], again: Callable[[Round], bool]
    ) -> Round:
        """Run as many rounds as are needed for every two members to meet.

        Args:
            again: whether a round is repeated a while later: an agent may have had too many rounds, or an
            adapter may have been coming up.
        """
        ends = [self._ends[p] for p in sorted(segment.ports) if p in self._ends]
        inside = [e for e in ends if e.agent]
        most = MOST_MEMBERS // 2 * MOST_GROUPS if len(inside) > MOST_MEMBERS else MOST_MEMBERS
        unknown = {e.name: f"{most} members are tested at most" for e in inside[most:]}
        found = list[ProbedPort]()
        for end in (e for e in ends if not e.agent):
            known = replace(end, address=end.address or addresses.get(end.port, ""))
            if known.address and known.mac and inside:
                found.append(known)
            else:
                unknown[end.name] = without_agent(end)
        together = parts(inside[:most], MOST_MEMBERS) if inside else []
        most = len(together) * MOST_ASKED
        unknown |= {e.name: f"{most} without an agent are asked for at most" for e in found[most:]}
        strangers, others = self._strangers(segment, inside) if inside else ([], ())
        seen = Round(unknown=unknown)
        for n, part in enumerate(together):
            sought = found[n * MOST_ASKED : (n + 1) * MOST_ASKED]
            one = self._held(segment, addresses, part, strangers, sought, others)
            if again(one):
                time.sleep(self._traffic.seconds)
                strangers = listeners_first([e for e in strangers if e.name not in one.unknown], others)
                one = one.again(self._held(segment, addresses, part, strangers, sought, others))
            seen = seen.and_then(one)
        return seen

    def _held(
        self,
        segment: SegmentSpec,
        addresses: Mapping[str, str],
        part: Sequence[ProbedPort],
        strangers: Sequence[ProbedPort],
        sought: Sequence[ProbedPort],
        others: Sequence[SegmentSpec],
    ) -> Round:
        """Run one round. If a forged VLAN was changed meanwhile, its tag may have become a member's own:
        repeat without it."""
        ends = strangers[:OTHERS]
        one = self._asker.round(segment, addresses, part, ends, sought, others)
        if not self._unchanged(others):
            one = self._asker.round(segment, addresses, part, ends, sought)
        return one

    def _unchanged(self, others: Sequence[SegmentSpec]) -> bool:
        now = {s.number: s.members for s in self._ledger.wanted().values()} if others else {}
        return all(now.get(s.number) == s.members for s in others)

    def _strangers(
        self, segment: SegmentSpec, inside: Sequence[ProbedPort]
    ) -> tuple[list[ProbedPort], tuple[SegmentSpec, ...]]:
        """Ends that aren't members, and VLANs whose tags are forged. First come some ends of these VLANs,
        then those that no pod has, and those on members' own leaves."""
        leaves, in_use = {leaf(e.port) for e in inside}, self._in_use()
        settled, recorded = self._ledger.wanted(settled=True), self._ledger.wanted()
        barred = segment.ports | ambiguous(segment, recorded.values())
        rest = [e for p, e in self._ends.items() if p not in barred and e.agent and not e.guest]
        random.shuffle(rest)
        rest.sort(key=lambda e: (e.node in in_use, leaf(e.port) not in leaves))
        exact = [s for mark, s in settled.items() if recorded.get(mark) == s]
        others = forged(segment, exact, rest)
        return listeners_first(rest, others), others

    # -- what it means ---------------------------------------------------------------------------------------------

    def _unread(self, name: str, why: str) -> Problem:
        node = name.partition("/")[0]
        nodes = (node,) if node in self._site.node_by_name else ()
        said = f"frames of {name} on {self._fabric} were not tested: {why}"
        return Problem(ProblemKind.UNREAD, name, self._fabric, nodes=nodes, detail={"why": said})

    def _unanswered(self, seen: Round) -> Iterator[Problem]:
        size = self._site.fabrics[self._fabric].network_mtu
        what = f" of {size} bytes" if size else ""
        for end in seen.known:
            if silent := seen.unanswered.get(end.port):
                detail = {"what": what, "who": _some(silent)}
                yield Problem(
                    ProblemKind.NO_ECHO, end.name, self._fabric, id=end.port, nodes=(end.node,), detail=detail
                )

    def _problem(
        self, kind: ProblemKind, end: ProbedPort, segment: SegmentSpec, who: Sequence[str]
    ) -> Problem:
        detail = {"segment": segment.named, "who": _some(who)}
        return Problem(kind, end.name, self._fabric, id=end.port, nodes=(end.node,), detail=detail)


def _silence(agent: RemoteProbeAgent) -> str:
    try:
        agent.status()
    except WeftError as error:
        return f"probe agent {agent.name} can't be asked: {error}"
    return ""


def _doubtful(seen: Round, before: Collection[str] = ()) -> bool:
    """Whether something is wrong or unknown. Args: before: names of ends that needn't be known."""
    # If none of the ends that were fully known before can be tested now, guests have the adapters.
    unknown = bool(seen.untried) and (bool(seen.known) or any(name not in before for name in seen.untried))
    return unknown or bool(seen.alone and seen.others) or any(seen.unanswered.values()) or any(seen.missing())


def _left_open(seen: Round) -> bool:
    """Whether silence of some end proves nothing yet; silence of an end without an agent never proves
    anything."""
    sure = len(seen.known) == len(seen.members) and not (seen.alone and seen.others)
    return not sure and not any(seen.loud())


def _could_hear(seen: Round) -> bool:
    """Whether two or more ends could have heard each other."""
    return len(seen.known) + len(seen.listening) + len(seen.answering) > 1


def _names(ends: Sequence[ProbedPort]) -> list[str]:
    return [e.name for e in ends]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
