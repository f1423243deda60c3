"""One round of an Ethernet fabric's adapters: what the agents are asked, and how their answers are interpreted."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weft.drivers.probes.client import RemoteProbeAgent
from weft.drivers.probes.forging import tags_of
from weft.drivers.probes.rounds import ProbedPort, Round
from weft.model.errors import OutsideError, WeftError
from weft.model.probeapi import MOST_ASKED, EndResult, RoundEnd, RoundQuery, Sought
from weft.model.specs import SegmentSpec

ASKING = 4
"""Number of members that send ARP requests to those without an agent."""
MOST_LATE = 0.5
"""Part of a round by which an agent's answer may be late. All agents begin after they were asked, and end
before they answer, so any two of them overlapped for the rest of the round."""


@dataclass(frozen=True, slots=True)
class Asker:
    """Runs rounds by asking the agents. Args: seconds: duration of a round; size: of pings, in bytes."""

    agents: Mapping[str, RemoteProbeAgent]
    seconds: float
    size: int

    def round(
        self,
        segment: SegmentSpec,
        addresses: Mapping[str, str],
        inside: Sequence[ProbedPort],
        others: Sequence[ProbedPort],
        apart: Sequence[ProbedPort],
        forged: Sequence[SegmentSpec] = (),
    ) -> Round:
        """Run a round. Args: addresses: port -> address; inside: members with an agent; apart: members
        without one, probed by ARP; forged: other VLANs whose tags members forge."""
        ends = (*inside, *others)
        marks = {e.port: secrets.token_hex(8) for e in ends}
        tags = {e.port: tags_of(e.port, segment, forged) for e in ends}
        reported, unknown = self._ask(_wanted(tags, addresses, inside, others, apart, marks), ends)
        senders = {mark: port for port, mark in marks.items()} | {e.address: e.port for e in apart}
        heard = {
            e.port: frozenset(senders[m] for m in (*r.heard, *r.found) if m in senders)
            for e in ends
            if (r := reported.get(e.name))
        }
        answered = frozenset[str]().union(*(heard.get(e.port, ()) for e in inside))
        unknown |= {e.name: without_agent(e) for e in apart if e.port not in answered}
        results = {e.port: reported[e.name] for e in ends if e.name in reported}
        return Round(
            tuple(inside),
            tuple(others),
            tuple(apart),
            heard,
            {p: frozenset(r.asked) for p, r in results.items() if r.asked},
            {p: frozenset(r.echoed) for p, r in results.items()},
            unknown,
            tuple(forged),
        )

    def _ask(
        self, wanted: Mapping[str, list[RoundEnd]], ends: Sequence[ProbedPort]
    ) -> tuple[dict[str, EndResult], dict[str, str]]:
        """The agents' results by end, and why silence of some ends proves nothing; all are asked
        concurrently."""
        number, begun = secrets.token_hex(8), time.monotonic()
        reported: dict[str, EndResult] = {}
        why: dict[str, str] = {}

        def one(agent: str) -> None:
            query = RoundQuery(number=number, seconds=self.seconds, size=self.size, ends=tuple(wanted[agent]))
            try:
                result = self.agents[agent].round(query)
            except WeftError as error:
                answer = error.answer if isinstance(error, OutsideError) else str(error)
                why[agent] = f"agent {agent}: {answer}"
                return
            reported.update((end.adapter, end) for end in result.ends)
            late = time.monotonic() - begun - self.seconds
            if late > MOST_LATE * self.seconds:
                why[agent] = f"agent {agent}: it began up to {late:.1f} s later than others"

        if wanted:
            with ThreadPoolExecutor(len(wanted)) as pool:
                list(pool.map(one, sorted(wanted)))
        reasons = ((e.name, why.get(e.agent, "") or _why(reported.get(e.name))) for e in ends)
        return reported, {**{name: said for name, said in reasons if said}, **dict(_twice(reported.values()))}


def _wanted(
    tags: Mapping[str, tuple[tuple[int, ...], ...]],
    addresses: Mapping[str, str],
    inside: Sequence[ProbedPort],
    others: Sequence[ProbedPort],
    apart: Sequence[ProbedPort],
    marks: Mapping[str, str],
) -> Mapping[str, list[RoundEnd]]:
    """Agent -> its ends."""
    asked = [(e.port, addresses[e.port]) for e in inside if e.port in addresses]
    sought = tuple(Sought(address=e.address, mac=e.mac.lower()) for e in apart)
    asking = {e.port for e in (*inside[: ASKING // 2], *inside[-ASKING // 2 :])}
    wanted: dict[str, list[RoundEnd]] = {}
    for end in (*inside, *others):
        one = RoundEnd(
            adapter=end.name,
            pci=end.pci,
            mac=end.mac.lower() or None,
            mark=marks[end.port],
            tags=tags[end.port],
            asked=_after(asked, end.port) if end.port in addresses else (),
            sought=sought if end.port in asking else (),
        )
        wanted.setdefault(end.agent, []).append(one)
    return wanted


def _after(asked: Sequence[tuple[str, str]], port: str) -> tuple[str, ...]:
    """Addresses of the members that come after this one, in a circle."""
    at = next(i for i, (p, _) in enumerate(asked) if p == port)
    around = [*asked[at + 1 :], *asked[:at]]
    return tuple(address for _, address in around[:MOST_ASKED])


def _why(result: EndResult | None) -> str:
    """Why silence of an end proves nothing; empty if it does prove something."""
    if result is None:
        return "its agent reported nothing about it"
    return result.unknown or ("" if result.sent else "not all that it sent was seen to leave")


def _twice(results: Collection[EndResult]) -> Iterator[tuple[str, str]]:
    """(End, why it is unknown) for ends that share an interface."""
    by_mac: dict[str, list[str]] = {}
    for one in results:
        by_mac.setdefault(one.mac, []).append(one.adapter)
    for mac, names in by_mac.items():
        for name in names if mac and len(names) > 1 else ():
            others = ", ".join(n for n in names if n != name)
            yield name, f"its interface has the MAC address {mac}, and so has that of {others}"


def without_agent(end: ProbedPort) -> str:
    """Why an end without an agent can't be tested."""
    asked = ", and it answers no member's ARP request" if end.address and end.mac else ""
    return f"no probe agent is beside {end.node}{asked}"
