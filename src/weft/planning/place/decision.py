"""What the engine decided, in integers; names and sentences are rendered on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from weft.model.placement import Candidate, Explanation, FilterReport
from weft.planning.place.choose import Weights
from weft.planning.place.reasons import (
    TIGHTEST,
    TIGHTEST_DOMAIN,
    WITHOUT_REGARD,
    against,
    as_dear,
    besides,
    chosen,
    least_cost,
    left_over,
    tightest,
)
from weft.planning.place.sharing import Terms
from weft.planning.place.solver import Rival
from weft.planning.place.state import Numbers
from weft.planning.place.view import Reports


class Decision(NamedTuple):
    """Nodes for a pod, and the figures that the explanation needs, as they were at that moment.

    Attributes:
        bits: (leaf, bits of its nodes), in tree order.
        cost: leaves, further blocks, halls and buildings at their weights, and preferences; thousandths of a leaf.
        leftover: free units that remain on the leaves used.
        terms: what it requires of its leaves.
        size: how many nodes the order is for; more are held if it has spares.
        version: version of the engine's state that the decision is based on.
        reports: what each filter removed, of those whose result doesn't depend on the order.
        free: nodes that passed those filters and are not busy, `apart` of them on leaves that are closed to the order
            because of the pods there.
        halls: numbers of buildings, halls and blocks that it spans.
        preferred: the part of the cost that comes from preferences; None if there are none.
        rivals: alternatives that it was compared with.
        domain: NVLink domain that holds all, if one was asked for and found.
        own: nodes that are reserved for the order's project.
        beside: whether these were chosen near nodes of the pod that stay.
        one_numa: nodes that have everything required on one NUMA node; -1 if that doesn't matter.
    """

    numbers: Numbers
    pod: str
    terms: Terms
    size: int
    bits: tuple[tuple[int, int], ...]
    cost: int
    leftover: int
    blocks: int
    version: int
    reports: Reports
    free: int
    apart: int
    weights: Weights
    halls: tuple[int, int, int] = (1, 1, 1)
    preferred: int | None = None
    one_numa: int = -1
    rivals: tuple[Rival, ...] = ()
    beside: bool = False
    own: int = 0
    domain: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names in tree order."""
        return tuple(name for leaf, bits in self.bits for name in self.numbers.names(leaf, bits))

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names in tree order."""
        names = self.numbers.leaves
        return tuple([names[leaf] for leaf, _ in self.bits])

    @property
    def preferences(self) -> int:
        """The part of the cost that comes from preferences."""
        return self.preferred or 0

    @property
    def held(self) -> int:
        """Number of nodes: those in use and the spares."""
        return sum([bits.bit_count() for _, bits in self.bits])

    @property
    def spares(self) -> tuple[str, ...]:
        """Nodes that are held idle: on the leaves with the fewest of the pod, so that the others are together."""
        beyond = self.held - self.size
        found: list[str] = []
        for leaf, bits in sorted(self.bits, key=lambda b: b[1].bit_count()):
            if beyond > len(found):
                found += self.numbers.names(leaf, bits)[len(found) - beyond :]
        return tuple(found)

    @property
    def working(self) -> tuple[str, ...]:
        """The nodes without the spares, in tree order."""
        spares = set(self.spares)
        return tuple(n for n in self.nodes if n not in spares)

    def at_home(self, own: Mapping[int, int], cost: int, preferences: bool) -> Decision:
        """The decision without the cost of set-aside nodes, which isn't a preference of the order.

        Args:
            own: leaf -> nodes that are set aside for the project; each costs the order `cost` more than another.
            preferences: whether the order has preferences of its own.
        """
        number = sum([(bits & own.get(leaf, 0)).bit_count() for leaf, bits in self.bits])
        preferred = self.preferences - cost * number
        return self._replace(own=number, preferred=preferred if preferences else None)

    def explanation(self) -> Explanation:
        """What each filter removed, and why these leaves were chosen, from the figures above alone."""
        bits, free, apart, leftover = self.bits, self.free, self.apart, self.leftover
        filters = self.reports.and_busy(free)
        if apart:
            left = {"filter": "apart", "removed": apart, "left": free - apart, "examples": ()}
            filters = (*filters, FilterReport.trusted(left))
        numbers = self.numbers
        names = numbers.leaves
        if len(bits) == 1 and self.plain and self.size == bits[0][1].bit_count():
            leaf = names[bits[0][0]]
            why, taken = tightest(leftover)
            nodes = "1 node" if self.size == 1 else f"{self.size} nodes"
            sentence, leaves, rivals = f"{nodes} on 1 leaf ({leaf}){why}", (leaf,), ()
            for what, (other,), _, beyond in self.rivals:
                why = f"{what}: {as_dear(beyond, leftover)}"
                rivals = (_candidate((names[other],), 1, beyond, why),)
        else:
            why = self._why()
            taken, leaves, rivals = "taken: " + why, self.leaves, self._rivals()
            spares = self.spares if self.size != self.held else ()
            sentence = chosen(self.size, leaves, spares, self.beside, why + self._domains())
        return Explanation.trusted({
            "considered": len(numbers.nodes),
            "filters": filters,
            "compared": (_candidate(leaves, self.blocks, leftover, taken), *rivals),
            "chosen": sentence,
        })  # fmt: skip

    @property
    def plain(self) -> bool:
        """Whether only free units were weighed, and no nodes stay."""
        terms = self.terms
        return (
            self.preferred is None
            and self.one_numa < 0
            and not (terms.gbps or terms.exclusive or self.beside or self.own)
            and self.halls[1] == 1
            and not self.numbers.domains
        )

    def _domains(self) -> str:
        """How many nodes of which NVLink domains are used; nothing if the fabric has none."""
        numbers, used = self.numbers, list[str]()
        for leaf, bits in self.bits if numbers.domains else ():
            for name, domain in zip(numbers.domain_names[leaf], numbers.domains[leaf], strict=True):
                if mine := (bits & domain).bit_count():
                    used.append(f"{name} ({mine} of {domain.bit_count()} nodes)")
        more = f" and {len(used) - 8} more" if len(used) > 8 else ""
        return f"; NVLink domains: {', '.join(used[:8])}{more}" if used else ""

    def _why(self) -> str:
        why = "one leaf that holds them all" if self.own else TIGHTEST
        if self.domain:
            why = "one NVLink domain that holds them all" if self.own else TIGHTEST_DOMAIN
        elif len(self.bits) > 1 or self.preferred:
            why = least_cost(self.weights, self.halls, self.preferred is not None)
        why += ", " + left_over(self.leftover)
        if self.own:
            why += f", {self.own} of {self.held} nodes are set aside for the project"
        terms, preferred = self.terms, self.preferred
        if preferred is not None or terms.gbps or terms.exclusive or self.one_numa >= 0:
            of = None if preferred is None else (preferred, self.cost)
            why += besides(of, terms, self.one_numa, self.held)
        return why

    def _rivals(self) -> list[Candidate]:
        names, weights = self.numbers.leaves, self.weights
        mine = len(self.bits), self.blocks, self.leftover
        alike = self.preferred is None and not (self.terms.gbps or self.own) and self.halls[1] == 1
        found: list[Candidate] = []
        for what, leaves, blocks, leftover in self.rivals:
            why = against((len(leaves), blocks, leftover), mine, weights) if alike else WITHOUT_REGARD
            if alike and self.domain:
                why = as_dear(leftover, mine[2])
            found.append(_candidate(tuple([names[x] for x in leaves]), blocks, leftover, f"{what}: {why}"))
        return found


def _candidate(leaves: tuple[str, ...], blocks: int, leftover: int, why: str) -> Candidate:
    return Candidate.trusted({"leaves": leaves, "blocks": blocks, "leftover": leftover, "why": why})
