"""A bandwidth test of several nodes: rounds of pairs, slow ones again, all together; and the document of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from hashlib import sha256
from random import SystemRandom
from typing import Any

from weftcheck import VERSION, tournament
from weftcheck.bandwidthplan import Plan
from weftcheck.found import SCRIPT, Endpoint, Port, endpoint, ports
from weftcheck.measuring import measure
from weftcheck.ratetext import Collective, NoRate, Rate
from weftcheck.remote import LOGIN, Session
from weftcheck.tournament import Match, Way

FORMAT = 1
_FIRST_PORT, _PORTS = 20000, 12000
"""First port for servers and how many there are, below the ports that Linux gives to clients (32768)."""
Say = Callable[[str], None]


class Test:
    """One run of a plan. `stop` ends it: what is left is not tried."""

    def __init__(self, plan: Plan, sessions: Sequence[Session], deadline: float, say: Say) -> None:
        self.plan = plan
        self._sessions = sessions
        self._deadline = deadline
        self._say = say
        self._lock = threading.Lock()
        self._port = SystemRandom().randrange(_PORTS)
        self._ends: list[dict[int, Endpoint | str]] = [{} for _ in plan.nodes]
        self.stop = threading.Event()
        self.pairs: dict[Way, list[float] | str] = {}
        self.together: dict[Way, float | str] = {}

    def run(self) -> None:
        """Measure everything. A failure of this program leaves what wasn't measured as not tried."""
        plan = tournament.schedule(len(self.plan.nodes), self.plan.seed)
        self._expect(plan.first)
        with ThreadPoolExecutor(max_workers=len(self.plan.nodes)) as pool:
            list(pool.map(self._open, range(len(self.plan.nodes))))
        for i, ends in enumerate(self._ends):
            for rail, end in sorted(ends.items()):
                if isinstance(end, str):
                    self._say(f"{self.plan.nodes[i].name}: rail {rail}: {end}")
        self._rounds("round", plan.first)
        self._again()
        if plan.rest:
            measured = [way for way, one in self.pairs.items() if not isinstance(one, str)]
            found = tournament.suspects(measured, self._slow())
            rest = [[m for m in one if found & set(m)] for one in plan.rest]
            self._expect(rest)
            self._rounds("round for suspects", [one for one in rest if one])
            self._again()
        self._all_together()

    def _expect(self, rounds: Sequence[Sequence[Match]]) -> None:
        """Note pairs that should be measured, so that the document has them whatever happens."""
        for a, b in (match for one in rounds for match in one):
            for rail in sorted({*self.plan.nodes[a].adapters} & {*self.plan.nodes[b].adapters}):
                self.pairs[(a, b, rail)] = self.pairs[(b, a, rail)] = "NOT_TRIED"

    def _open(self, place: int) -> None:
        """Log in, and find the adapters."""
        node, session = self.plan.nodes[place], self._sessions[place]
        reason = session.hold()
        there: list[Port] | None = []
        if reason is None and any(
            a.device is None or self.plan.program != "ucx" for a in node.adapters.values()
        ):
            there = ports(session.run(SCRIPT, LOGIN).text)
        for rail, adapter in node.adapters.items():
            if reason is not None:
                self._ends[place][rail] = reason
            elif self.plan.program == "ucx" and adapter.device is not None and not there:
                self._ends[place][rail] = Endpoint(adapter.device, 0)
            else:
                unread = "NOT_UNDERSTOOD"
                self._ends[place][rail] = (
                    unread if there is None else endpoint(adapter, there, self.plan.pkey)
                )

    def _rounds(self, name: str, rounds: Sequence[Sequence[Match]]) -> None:
        for number, one in enumerate(rounds, 1):
            began = time.monotonic()
            self._round(one, self.plan.rails)
            spent = time.monotonic() - began
            self._say(f"{name} {number} of {len(rounds)}: {len(one)} pairs, {spent:.0f} s")

    def _round(self, matches: Sequence[Match], rails: Sequence[int]) -> None:
        if not matches:
            return
        with ThreadPoolExecutor(max_workers=len(matches)) as pool:
            list(pool.map(lambda match: self._both_ways(match, rails), matches))

    def _both_ways(self, match: Match, rails: Sequence[int]) -> None:
        for sender, receiver in (match, match[::-1]):
            groups = [list(rails)] if self.plan.rails_together else [[rail] for rail in rails]
            for group in groups:
                for way, rate in self._one(sender, receiver, group).items():
                    before = self.pairs.get(way)
                    if isinstance(rate, Rate):
                        self.pairs[way] = [*(before if isinstance(before, list) else []), round(rate.gbps, 4)]
                    elif not isinstance(before, list):
                        self.pairs[way] = rate.reason

    def _one(self, sender: int, receiver: int, rails: Iterable[int]) -> dict[Way, Rate | NoRate]:
        """Measure one pair on the rails that both nodes have; for rails that can't be measured, why."""
        found: dict[Way, Rate | NoRate] = {}
        ends: dict[int, tuple[Endpoint, Endpoint]] = {}
        over = self.stop.is_set() or time.monotonic() > self._deadline
        lost = self._sessions[sender].lost or self._sessions[receiver].lost
        for rail in rails:
            mine, theirs = (self._ends[i].get(rail) for i in (sender, receiver))
            if mine is None or theirs is None:
                continue
            way = (sender, receiver, rail)
            if isinstance(mine, str):
                found[way] = NoRate(mine)
            elif isinstance(theirs, str):
                found[way] = NoRate(theirs)
            elif over or lost:
                found[way] = NoRate("NOT_TRIED" if over else "NODE_LOST")
            else:
                ends[rail] = (mine, theirs)
        if ends:
            inside = self.plan.nodes[receiver].inside
            a, b = self._sessions[sender], self._sessions[receiver]
            gbps = {rail: self.plan.nominal(sender, receiver, rail) for rail in ends}
            rates = measure(self.plan, a, b, inside, ends, self._ports(list(ends)), gbps)
            found.update({(sender, receiver, rail): rate for rail, rate in rates.items()})
        return found

    def _ports(self, rails: Sequence[int]) -> Mapping[int, int]:
        with self._lock:
            first, self._port = self._port, (self._port + len(rails)) % _PORTS
        return {rail: _FIRST_PORT + (first + i) % _PORTS for i, rail in enumerate(rails)}

    def _slow(self) -> list[Way]:
        """Pairs whose best figure is below their floor."""
        found: list[Way] = []
        for way, one in self.pairs.items():
            floor = self.plan.floor(*way)
            if floor is not None and not isinstance(one, str) and max(one) < floor:
                found.append(way)
        return found

    def _again(self) -> None:
        """Measure slow pairs twice more, rail by rail, so that a hiccup isn't taken for a fault."""
        slow = [way for way in self._slow() if len(self.pairs[way]) == 1]
        for rail in sorted({way[2] for way in slow}):
            matches = dict.fromkeys((min(a, b), max(a, b)) for a, b, r in slow if r == rail)
            rounds = tournament.packed(matches)
            for one in [*rounds, *rounds]:
                self._round(one, [rail])
            self._say(f"rail {rail}: measured {len(matches)} slow pairs twice more")

    def _all_together(self) -> None:
        matches = tournament.across([node.leaf for node in self.plan.nodes])
        if not matches:
            return
        with ThreadPoolExecutor(max_workers=len(matches)) as pool:
            for found in pool.map(lambda match: self._one(match[0], match[1], self.plan.rails), matches):
                self.together.update(
                    {w: round(r.gbps, 4) if isinstance(r, Rate) else r.reason for w, r in found.items()}
                )
        self._say(f"all together: {len(matches)} pairs across leaves")


def document(
    plan: Plan, source: bytes, test: Test, times: tuple[datetime, datetime], nccl: Collective | None
) -> Mapping[str, Any]:
    """What was measured, for weft. Nodes are positions in `nodes`."""
    value: dict[str, Any] = {
        "version": FORMAT,
        "program": f"weft-check {VERSION}",
        "measured_by": "ib_write_bw" if plan.program == "perftest" else "ucx_perftest",
        "plan": "sha256:" + sha256(source).hexdigest(),
        "began": _time(times[0]),
        "ended": _time(times[1]),
        "seconds": plan.seconds,
        "size": plan.size,
        "memory": "gpu"
        if any(a.gpu is not None for n in plan.nodes for a in n.adapters.values())
        else "host",
        "rails_together": plan.rails_together,
        "nodes": [node.name for node in plan.nodes],
        "pairs": [[*way, *_figure(one)] for way, one in sorted(test.pairs.items())],
        "together": [[*way, one] for way, one in sorted(test.together.items())],
    }
    if nccl is not None:
        value["nccl"] = nccl._asdict()
    return value


def summary(plan: Plan, test: Test) -> tuple[list[str], int]:
    """Lines for people, and the exit code: 1: slow pairs; 3: none slow, some not measured; else 0."""
    measured = {way: max(one) for way, one in test.pairs.items() if not isinstance(one, str)}
    missing: dict[str, int] = {}
    for one in test.pairs.values():
        if isinstance(one, str):
            missing[one] = missing.get(one, 0) + 1
    floors = {way: plan.floor(*way) for way in measured}
    slow = sorted((rate, way) for way, rate in measured.items() if (floors[way] or 0) > rate)
    lines = [f"{len(measured)} pairs measured, {len(slow)} slow, {sum(missing.values())} not run"]
    for rate, (a, b, rail) in slow[:20]:
        names = f"{plan.nodes[a].name} -> {plan.nodes[b].name}"
        lines.append(f"slow: {names}, rail {rail}: {rate:.2f} Gb/s, floor {floors[(a, b, rail)]:.2f}")
    lines += [f"... and {len(slow) - 20} more"] if len(slow) > 20 else []
    lines += [f"not run: {number} pairs: {reason}" for reason, number in sorted(missing.items())]
    unknown = sum(floor is None for floor in floors.values())
    lines += [f"no floor: {unknown} pairs, whose nominal rate isn't known"] if unknown else []
    return lines, 1 if slow else 3 if missing or unknown or not measured else 0


def _figure(one: list[float] | str) -> tuple[Any, ...]:
    """The best of the runs and their number, or why there is none."""
    return (one,) if isinstance(one, str) else (max(one), len(one))


def _time(when: datetime) -> str:
    return when.astimezone(timezone.utc).isoformat(timespec="microseconds")
