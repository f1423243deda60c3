"""The site as one kind of order sees it: which nodes could serve it, and the pool of those that are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from weft.model.localityorder import SliceWithin
from weft.model.placement import FilterReport
from weft.model.site import Site
from weft.planning.kept import kept
from weft.planning.place import nvlink
from weft.planning.place.filters import EXAMPLES
from weft.planning.place.solver import Pool
from weft.planning.place.state import NodeNeeds, Numbers, Traits, lowest

NONE_UNFIT: Mapping[str, str] = {}
STATIC = ("role", "cloud", "fabric", "accelerators")
KEPT = 1000
"""Maximum number of cached reports."""
MOST_LENSES = 64
"""Views that are kept of a fabric: projects with leaves of their own have some for themselves."""
DYNAMIC: tuple[str, ...] = (
    "maintenance",
    "down",
    "quarantine",
    "hold",
    "drain",
    "checks",
    "report",
    "segments",
)
"""Filters whose state changes by itself, in the order in which they are reported."""
STOPS = frozenset({"hold", "drain", "checks", "report"})
"""Filters of `DYNAMIC` that are reported only while they remove a node of the fabric."""


@dataclass(frozen=True, slots=True)
class Lens:
    """What distinguishes views: the kind of node, slices, and whose dedicated leaves may be used."""

    kind: NodeNeeds
    slice: int = 1
    owner: str | None = None
    within: SliceWithin = "leaf"


class Reports:
    """What filters removed whose result doesn't depend on the order, until that changes.

    Attributes:
        fixed: by each filter, with examples.
        healthy: how many nodes passed them.
    """

    __slots__ = ("_and_busy", "fixed", "healthy")

    def __init__(self, fixed: tuple[FilterReport, ...], healthy: int) -> None:
        self.fixed = fixed
        self.healthy = healthy
        self._and_busy: dict[int, tuple[FilterReport, ...]] = {}

    def and_busy(self, free: int) -> tuple[FilterReport, ...]:
        """These reports with that of the filter `busy`, which leaves `free` nodes; the last thousand are cached."""
        found = self._and_busy.get(free)
        if found is None:
            if len(self._and_busy) >= KEPT:
                self._and_busy.clear()
            busy = {"filter": "busy", "removed": self.healthy - free, "left": free, "examples": ()}
            found = self._and_busy[free] = (*self.fixed, FilterReport.trusted(busy))
        return found


class KeptViews:
    """The last view of each lens that placement had of a fabric, from which the next one is derived.

    Nothing changes such a view; threads may share it.
    """

    def __init__(self) -> None:
        self._views: dict[Lens, View] = {}

    def view(self, lens: Lens, available: Sequence[int], make: Callable[[], View]) -> View:
        """The view with these nodes available. Args: make: makes it from nothing."""
        known = self._views.get(lens)
        found = make() if known is None else known.with_available(available)
        if known is None and len(self._views) >= MOST_LENSES:
            self._views.clear()
        self._views[lens] = found
        return found


@kept
def views_of(site: Site, fabric: str) -> KeptViews:
    """Views of one of the site's fabrics."""
    return KeptViews()


class View:
    """A pool for one lens, with what its filters removed.

    Attributes:
        mask: by leaf, the nodes that could serve, without dedicated leaves of others.
        eligible: how many these are.
        reports: what each filter removed whose result doesn't depend on the order.
        free: nodes of a view of slices that are available; its pool counts only whole slices.
        pool: their free units by leaf; a unit is a node, or a slice of several.
        away: units on the leaves that each project is kept away from.
        one_numa: by leaf, nodes of `parts` that have everything required on one NUMA node; None unless the order needs
            only a part of a node.
    """

    __slots__ = (
        "_available",
        "_domains",
        "_nodes",
        "_static",
        "_tiers",
        "away",
        "eligible",
        "free",
        "lens",
        "mask",
        "one_numa",
        "parts",
        "pool",
        "reports",
    )

    def __init__(
        self,
        lens: Lens,
        numbers: Numbers,
        groups: Mapping[Traits, Mapping[int, int]],
        available: Sequence[int],
        dedicated: Mapping[int, str],
        unfit: Mapping[str, str] = NONE_UNFIT,
    ) -> None:
        self.lens = lens
        self.away: dict[str, int] = {}
        self.mask = [0] * len(numbers.leaves)
        self.one_numa: list[int] | None = None
        self.parts = [0] * len(numbers.leaves)
        out = self._sort(numbers, groups, dedicated, unfit)
        self.eligible = sum(bits.bit_count() for bits in self.mask)
        self.reports = Reports((), self.eligible)
        self._static = _static_reports(numbers, out, lens, unfit)
        self._domains = numbers.domains
        self._available = list(available)
        self._nodes = [(bits & free).bit_count() for bits, free in zip(self.mask, available, strict=True)]
        self.free = sum(self._nodes)
        self.pool = Pool(
            [self.units(leaf, bits) for leaf, bits in enumerate(self.mask)],
            [self.units(leaf, bits & available[leaf]) for leaf, bits in enumerate(self.mask)],
            numbers.block_start,
        )

    def with_available(self, available: Sequence[int]) -> View:
        """A copy of this view with other nodes available; it costs as much as leaves differ.

        Only for a view that nothing has changed since it was made; this one doesn't change.
        """
        mask, nodes = self.mask, list(self._nodes)
        rooms: dict[int, int] = {}
        free = self.free
        for leaf, (was, now) in enumerate(zip(self._available, available, strict=True)):
            if was != now:
                bits = now & mask[leaf]
                rooms[leaf] = self.units(leaf, bits)
                free += bits.bit_count() - nodes[leaf]
                nodes[leaf] = bits.bit_count()
        other = copy(self)
        other._available, other._nodes, other.free, other.away = list(available), nodes, free, {}
        other.pool = self.pool.with_rooms(rooms)
        return other

    def _sort(
        self,
        numbers: Numbers,
        groups: Mapping[Traits, Mapping[int, int]],
        dedicated: Mapping[int, str],
        unfit: Mapping[str, str],
    ) -> dict[str, list[tuple[int, int]]]:
        """Which nodes could serve, and how well; filter -> leaves with the nodes that it removes."""
        lens, none = self.lens, [0] * len(numbers.leaves)
        tiers: dict[tuple[int, int, int], list[int]] = {}
        one_numa = [*none]
        names = (*STATIC, *(("image",) if unfit else ()), "dedicated")
        out: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        unfit_bits = numbers.masks(unfit)
        for traits, bits in groups.items():
            why = lens.kind.refuses(traits)
            if why is not None:
                out[why] += bits.items()
                continue
            if lens.kind.is_part(traits):
                self.one_numa = one_numa
                for leaf, members in bits.items():
                    self.parts[leaf] |= members
            if lens.kind.on_one_numa(traits):
                for leaf, members in bits.items():
                    one_numa[leaf] |= members
            tier = tiers.setdefault(lens.kind.surplus(traits), [*none])
            for leaf, every in bits.items():
                members = every & ~unfit_bits.get(leaf, 0)
                if members != every:
                    out["image"].append((leaf, every ^ members))
                if dedicated.get(leaf, lens.owner) != lens.owner:
                    out["dedicated"].append((leaf, members))
                else:
                    self.mask[leaf] |= members
                    tier[leaf] |= members
        self._tiers = [tiers[key] for key in sorted(tiers)]
        return out

    def units(self, leaf: int, bits: int) -> int:
        """How many units these nodes of a leaf make up."""
        lens = self.lens
        if lens.within == "leaf":
            return bits.bit_count() // lens.slice
        return sum(u for u, _ in nvlink.slices(self._domains[leaf], bits, lens)) if self._domains else 0

    def health(self, numbers: Numbers, blocked: Mapping[str, Mapping[str, str]]) -> None:
        """Nodes are blocked for these reasons (node -> filter -> reason); a node counts for the first filter."""
        given = {why for reasons in blocked.values() for why in reasons}
        removed: dict[str, list[str]] = {w: [] for w in DYNAMIC if w in given or w not in STOPS}
        for node, reasons in blocked.items():
            if self.mask[numbers.leaf_of[node]] & numbers.bit[node]:
                why = next(w for w in DYNAMIC if w in reasons)
                removed[why].append(f"{node}: {reasons[why]}")
        left = self.eligible
        reports = list(self._static)
        for why, nodes in removed.items():
            left -= len(nodes)
            examples = tuple(nodes[:EXAMPLES])
            reports.append(FilterReport(filter=why, removed=len(nodes), left=left, examples=examples))
        self.reports = Reports(tuple(reports), left)

    def refresh(self, leaf: int, available: int, away: Iterable[str]) -> None:
        """Set the leaf's available nodes, and the projects that are kept away from it."""
        size, pool = self.lens.slice, self.pool
        count = (available & self.mask[leaf]).bit_count()
        if size > 1:
            self.free += count - self._nodes[leaf]
            self._nodes[leaf] = count
            count = self.units(leaf, available & self.mask[leaf])
        for project in away:
            self.away[project] += count - pool.free[leaf]
        pool.set(leaf, count)

    def keep_away(self, project: str, leaf: int, sign: int) -> None:
        """Keep a project away from the leaf (1), or no longer (-1)."""
        self.away[project] = self.away.get(project, 0) + sign * self.pool.free[leaf]

    def tier(self, leaf: int, bit: int) -> int:
        """How many kinds of nodes fit the order better than this node's."""
        return next(i for i, tier in enumerate(self._tiers) if tier[leaf] & bit)

    def take(self, leaf: int, available: int, units: int) -> int:
        """The bits of the nodes to take: those with the least surplus first, then by name.

        NVLink domains are kept whole: as few as possible are used, and of these the tightest.
        """
        bits = available & self.mask[leaf]
        if self._domains:
            return self._take_in_domains(leaf, bits, units)
        count = units * self.lens.slice
        return lowest(bits, count) if len(self._tiers) == 1 else self._best(leaf, bits, count)

    def by_unit(self, leaf: int, nodes: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """A leaf's nodes (cost, tier, bit), the cheapest first, as whole units, the cheapest first."""
        lens = self.lens
        if lens.within == "leaf":
            return list(nodes)
        found: list[list[tuple[int, int, int]]] = []
        every = sum(bit for _, _, bit in nodes)
        for units, bits in nvlink.slices(self._domains[leaf], every, lens) if self._domains else ():
            mine = [node for node in nodes if node[2] & bits]
            found += [mine[i * lens.slice : (i + 1) * lens.slice] for i in range(units)]
        return [node for unit in sorted(found, key=lambda u: sum(cost for cost, _, _ in u)) for node in unit]

    def _take_in_domains(self, leaf: int, bits: int, units: int) -> int:
        domains, lens, taken = self._domains[leaf], self.lens, 0
        if lens.within != "leaf":
            for mine, number in nvlink.tightest(nvlink.slices(domains, bits, lens), units):
                taken |= self._best(leaf, mine, number * lens.slice)
            return taken
        count = units * lens.slice
        for tier in self._tiers:
            rooms = nvlink.rooms(domains, bits & tier[leaf])
            for mine, number in nvlink.tightest(rooms, min(count, (bits & tier[leaf]).bit_count())):
                taken |= lowest(mine, number)
                count -= number
            if not count:
                break
        return taken

    def _best(self, leaf: int, bits: int, count: int) -> int:
        """The `count` of these nodes of a leaf with the least surplus."""
        if len(self._tiers) == 1:
            return lowest(bits, count)
        taken = 0
        for tier in self._tiers:
            more = lowest(bits & tier[leaf], count)
            taken |= more
            count -= more.bit_count()
            if not count:
                break
        return taken


def _static_reports(
    numbers: Numbers, out: Mapping[str, Sequence[tuple[int, int]]], lens: Lens, unfit: Mapping[str, str]
) -> tuple[FilterReport, ...]:
    left = len(numbers.nodes)
    reports: list[FilterReport] = []
    for name, places in out.items():
        removed = sum(bits.bit_count() for _, bits in places)
        left -= removed
        examples = [node for leaf, bits in sorted(places)[:EXAMPLES] for node in numbers.names(leaf, bits)]
        reports.append(
            FilterReport(
                filter=name,
                removed=removed,
                left=left,
                examples=tuple(f"{n}: {_reason(name, n, lens, unfit)}" for n in examples[:EXAMPLES]),
            )
        )
    return tuple(reports)


def _reason(name: str, node: str, lens: Lens, unfit: Mapping[str, str]) -> str:
    return {
        "image": unfit.get(node, ""),
        "role": "is no compute node",
        "cloud": f"does not belong to cloud {lens.kind.cloud}",
        "fabric": f"has fewer than {lens.kind.hcas} cabled HCAs on the fabric",
        "accelerators": f"has fewer than {lens.kind.accelerators} {lens.kind.accelerator}",
        "dedicated": "its leaf is dedicated to another project",
    }[name]
