"""Which IPU-Machines an order gets: a run of adjacent machines that breaks as few larger runs as possible.

Partitions are powers of two that lie at multiples of their size (docs/openvipu.md), so what is worth keeping whole
are the aligned runs of 2, 4, 8 and 16 free machines. Of all runs that fit, the best breaks the fewest of the longest
aligned runs; then of the next shorter, and so on; among equals an aligned run comes first, then the run in the shortest
stretch of free machines, then the first. In a torus a run may wrap around the end of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.model.messages import placement
from weft.model.offer import Offer, ReleaseOffer, offered
from weft.model.placement import (
    Candidate,
    Explanation,
    FilterReport,
    Occupancy,
    PlacedNode,
    Placement,
    Refusal,
)
from weft.model.site import IPUS_PER_MACHINE, IpuMachine, Site
from weft.planning.fabric.topology import natural

SHOWN = 5
"""Maximum number of runs in an explanation."""
SIZES = (16, 8, 4, 2)

Reason = Callable[[IpuMachine], str | None]


@dataclass(frozen=True, slots=True)
class MachineRow:
    """The machines of one IPU-POD that are free, by position.

    Attributes:
        ring: how many machines the ring has; 0: the ends are open, or a place in the row is empty.
    """

    ipu_pod: str
    ring: int
    free: Mapping[int, IpuMachine]


@dataclass(frozen=True, slots=True)
class Run:
    """Machines in the order of the cables.

    Attributes:
        broken: how many aligned free runs of 16, 8, 4 and 2 machines it breaks.
        stretch: how many free neighbours it is taken from.
    """

    row: MachineRow
    positions: tuple[int, ...]
    broken: tuple[int, ...]
    stretch: int

    @property
    def rank(self) -> tuple[object, ...]:
        """Sort key: the best run has the lowest."""
        unaligned = (self.positions[0] - 1) % len(self.positions) != 0
        return (self.broken, unaligned, self.stretch, natural(self.row.ipu_pod), self.positions)

    @property
    def machines(self) -> tuple[IpuMachine, ...]:
        """The machines, in the order of their cables."""
        return tuple(self.row.free[p] for p in self.positions)

    @property
    def whole_ring(self) -> bool:
        """Whether it takes all machines of a ring."""
        return len(self.positions) == self.row.ring

    def text(self) -> str:
        """`pod1 3-6`: the IPU-POD, and the first and last position."""
        first, last = self.positions[0], self.positions[-1]
        return f"{self.row.ipu_pod} {first}" + (f"-{last}" if last != first else "")

    def why(self) -> str:
        """Which longer free runs it breaks, for explanations."""
        lost = [f"{n} of {size}" for n, size in zip(self.broken, SIZES, strict=True) if n]
        return f"breaks aligned runs: {', '.join(lost)}" if lost else "breaks no aligned run"


def choose_run(
    machines: int,
    cloud: str,
    ipu_pod: str | None,
    site: Site,
    occupancy: Occupancy,
    full: Mapping[str, str] | None = None,
) -> tuple[Run, Placement] | Refusal:
    """A run of this many machines, or a refusal that says what is available.

    Args:
        machines: a power of two.
        ipu_pod: the only IPU-POD to use; None: any of the cloud.
        full: IPU-POD -> why it has no capacity for the order's servers.
    """
    passing, reports = _eligible(cloud, ipu_pod, site, occupancy, full or {})
    found = sorted(runs(machines, rows(site, passing)), key=lambda r: r.rank)
    if not found:
        return _refuse(machines, cloud, ipu_pod, site, occupancy, passing, reports)
    best = found[0]
    chosen = f"{best.text()}: {_machines(machines)}, which {best.why()}" + (
        ", and the whole ring" if best.whole_ring else ""
    )
    explanation = Explanation(
        considered=len(site.ipu_machines),
        filters=reports,
        compared=tuple(_candidate(r, r is best) for r in found[:SHOWN]),
        chosen=chosen,
    )
    placed = tuple(
        PlacedNode(node=m.name, rack=m.rack, leaf=m.rnic_switch, block=m.ipu_pod) for m in best.machines
    )
    switches = {m.rnic_switch for m in best.machines}
    level = "node" if machines == 1 else "leaf" if len(switches) == 1 else "block"
    return best, Placement(nodes=placed, level=level, explanation=explanation)


def rows(site: Site, free: Sequence[IpuMachine]) -> list[MachineRow]:
    """The free machines of each IPU-POD."""
    found: list[MachineRow] = []
    for name in sorted(site.ipu_pods, key=natural):
        there = {m.position for m in site.ipu_machines if m.ipu_pod == name}
        closed = site.ipu_pods[name].topology == "torus" and there == set(range(1, len(there) + 1))
        mine = {m.position: m for m in free if m.ipu_pod == name}
        found.append(MachineRow(name, len(there) if closed else 0, mine))
    return found


def runs(machines: int, among: Sequence[MachineRow]) -> Iterator[Run]:
    """Every run of free neighbours of that length."""
    for row in among:
        free = _bits(row.free)
        whole = _whole(free)
        for stretch in stretches(row):
            last = len(stretch) - machines
            # A fully free ring has as many runs as machines; a run of the whole ring begins at its first.
            turns = len(stretch) if len(stretch) == row.ring and last > 0 else last + 1
            for start in range(turns):
                positions = tuple(stretch[(start + i) % len(stretch)] for i in range(machines))
                left = _whole(free & ~_bits(positions))
                broken = tuple(a - b for a, b in zip(whole, left, strict=True))
                yield Run(row, positions, broken, len(stretch))


def stretches(row: MachineRow) -> list[tuple[int, ...]]:
    """Maximal stretches of free neighbours; in a ring the first may wrap around."""
    found: list[list[int]] = []
    for position in sorted(row.free):
        if found and found[-1][-1] == position - 1:
            found[-1].append(position)
        else:
            found.append([position])
    if row.ring and len(found) > 1 and found[0][0] == 1 and found[-1][-1] == row.ring:
        found[0] = found.pop() + found[0]
    return [tuple(s) for s in found]


def _bits(positions: Iterable[int]) -> int:
    return sum(1 << p for p in positions)


def _whole(free: int) -> tuple[int, ...]:
    """How many aligned runs of each size are free; bit p is position p, and a row has 16 at most."""
    two = free & free >> 1
    four = two & two >> 2
    eight = four & four >> 4
    starts = (eight & eight >> 8, 0x2), (eight, 0x202), (four, 0x2222), (two, 0xAAAA)
    return tuple((found & aligned).bit_count() for found, aligned in starts)


def _eligible(
    cloud: str, ipu_pod: str | None, site: Site, occupancy: Occupancy, full: Mapping[str, str]
) -> tuple[tuple[IpuMachine, ...], tuple[FilterReport, ...]]:
    """Machines that may be chosen, and what each filter removed."""
    servers: list[tuple[str, Reason]] = [("servers", lambda m: full.get(m.ipu_pod))]
    filters: tuple[tuple[str, Reason], ...] = (
        ("cloud", lambda m: None if site.ipu_pods[m.ipu_pod].cloud == cloud else "belongs to another cloud"),
        ("ipu_pod", lambda m: None if ipu_pod in (None, m.ipu_pod) else f"stands in IPU-POD {m.ipu_pod}"),
        *(servers if full else ()),
        ("maintenance", lambda m: m.maintenance),
        ("down", lambda m: occupancy.down.get(m.name)),
        ("quarantine", lambda m: occupancy.quarantined.get(m.name)),
        *((name, lambda m, out=out: out.get(m.name)) for name, out in _stops(occupancy).items() if out),
        ("busy", lambda m: _busy(m, occupancy)),
        ("reserved", lambda m: occupancy.reserved.get(m.name)),
    )
    left, reports = site.ipu_machines, list[FilterReport]()
    for name, reason in filters:
        checked = [(m, reason(m)) for m in left]
        out = [f"{m.name}: {why}" for m, why in checked if why is not None]
        left = tuple(m for m, why in checked if why is None)
        reports.append(FilterReport(filter=name, removed=len(out), left=len(left), examples=tuple(out[:3])))
    return left, tuple(reports)


def _stops(occupancy: Occupancy) -> dict[str, Mapping[str, str]]:
    """Filter -> machine -> why operators keep it from new orders, or that the project has reported it."""
    return {
        "hold": occupancy.on_hold,
        "drain": occupancy.drained,
        "checks": occupancy.failing,
        "report": occupancy.reported,
    }


def _machines(count: int) -> str:
    what = "IPU-Machine" if count == 1 else "neighbouring IPU-Machines"
    return f"{count} {what} ({count * IPUS_PER_MACHINE} IPUs)"


def _busy(machine: IpuMachine, occupancy: Occupancy) -> str | None:
    pod = occupancy.busy.get(machine.name)
    return None if pod is None else f"held by pod {pod}"


def _candidate(run: Run, won: bool) -> Candidate:
    left = run.stretch - len(run.positions)
    why = f"{'taken' if won else 'not taken'}: {run.why()}"
    return Candidate(leaves=(run.text(),), blocks=1, leftover=left, why=why)


def _refuse(
    machines: int,
    cloud: str,
    ipu_pod: str | None,
    site: Site,
    occupancy: Occupancy,
    passing: Sequence[IpuMachine],
    reports: tuple[FilterReport, ...],
) -> Refusal:
    longest = max((s for row in rows(site, passing) for s in stretches(row)), key=len, default=())
    where = f"IPU-POD {ipu_pod}" if ipu_pod else f"cloud {cloud}"
    run, free = _machines(machines), len(passing)
    reason = placement.NO_RUN(place=where, run=run, free=free, longest=len(longest))
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=len(site.ipu_machines), filters=reports, chosen=reason),
        would_fit=tuple(_changes(machines, cloud, ipu_pod, site, occupancy, len(longest))),
    )


def _changes(
    machines: int, cloud: str, ipu_pod: str | None, site: Site, occupancy: Occupancy, longest: int
) -> Iterator[Offer]:
    """Fewer IPUs, another IPU-POD, or the release of one pod."""

    def fits(pod: str | None, then: Occupancy) -> bool:
        return next(runs(machines, rows(site, _eligible(cloud, pod, site, then, {})[0])), None) is not None

    if longest:
        fewer = (1 << (longest.bit_length() - 1)) * IPUS_PER_MACHINE
        yield offered("ipus.count", machines * IPUS_PER_MACHINE, fewer)
    if ipu_pod is not None and fits(None, occupancy):
        yield offered("ipus.ipu_pod", ipu_pod, None)
    for pod in sorted(set(occupancy.busy.values())):
        busy = {n: p for n, p in occupancy.busy.items() if p != pod}
        if fits(ipu_pod, occupancy.model_copy(update={"busy": busy})):
            yield ReleaseOffer(pod=pod)
