"""The engine: the state of a fabric, maintained so that a decision takes microseconds at any size.

`decide` changes nothing; `commit` takes the nodes decided on; `release` returns them and restores the state exactly.
An engine serves one fabric and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Self

from weft.model.errors import InputError
from weft.model.placement import Occupancy
from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Policy, Weights
from weft.planning.place.decision import Decision
from weft.planning.place.filters import keys_gone, site_dedicated, terms_of
from weft.planning.place.floor import Floor, leaf_marks, site_floor
from weft.planning.place.gang import GangChoice
from weft.planning.place.ledger import Ledger
from weft.planning.place.onedomain import DomainChoice
from weft.planning.place.sharing import NO_TERMS, NOTHING
from weft.planning.place.solver import Pool, fill, next_to, several
from weft.planning.place.state import Traits
from weft.planning.place.view import View, views_of
from weft.planning.place.weighing import Weigher


class Engine:
    """Decides by the state of one fabric, its ledger.

    Args:
        topology: where the nodes are.
        traits: what each node is; none: all the same.
        weights: the operator's settings.
        dedicated: leaf -> project that alone may use it.
        policy: another rule, to compare with.
    """

    def __init__(
        self,
        topology: Topology,
        traits: Mapping[str, Traits] | None = None,
        weights: Weights | None = None,
        dedicated: Mapping[str, str] | None = None,
        policy: Policy | None = None,
        floor: Floor | None = None,
    ) -> None:
        self.ledger = Ledger(topology, traits, weights, dedicated, floor)
        self.policy = policy
        self.weigher = Weigher(self.ledger)
        self.domains = DomainChoice(self.ledger, self.weigher)
        self._gangs = GangChoice(self.ledger, policy)

    @classmethod
    def of(cls, site: Site, fabric: str, occupancy: Occupancy, weights: Weights | None = None) -> Self:
        """An engine with the site's state: maintenance and weights from the site, the rest from the occupancy."""
        engine = cls._of_site(site, fabric, occupancy, weights)
        topology = engine.ledger.topology
        maintenance = {n.name: n.maintenance for n in site.nodes if n.maintenance is not None}
        for why, reasons in (
            ("maintenance", maintenance),
            ("down", occupancy.down),
            ("quarantine", occupancy.quarantined),
            ("hold", occupancy.on_hold),
            ("drain", occupancy.drained),
            ("checks", occupancy.failing),
            ("report", occupancy.reported),
            ("segments", keys_gone(occupancy, fabric)),
        ):
            for node, reason in reasons.items():
                if node in topology.locations:
                    engine.ledger.disable(node, why, reason)
        terms = {one.pod: terms_of(one) for one in occupancy.neighbours}
        pods: dict[str, list[str]] = {}
        for node, pod in occupancy.busy.items():
            if node in topology.locations:
                pods.setdefault(pod, []).append(node)
        for pod, nodes in pods.items():  # a node has one holder: nothing to check
            engine.ledger.take(
                pod, tuple(engine.ledger.numbers.masks(nodes).items()), terms.get(pod, NO_TERMS)
            )
        return engine

    @classmethod
    def among(
        cls,
        site: Site,
        fabric: str,
        nodes: Iterable[str],
        occupancy: Occupancy,
        weights: Weights | None = None,
    ) -> Self:
        """An engine in which exactly these nodes are free, regardless of holders, and without neighbors."""
        engine = cls._of_site(site, fabric, occupancy, weights)
        free = engine.ledger.numbers.masks(nodes)
        engine.ledger.available = [free.get(leaf, 0) for leaf in range(len(engine.ledger.available))]
        return engine

    @classmethod
    def of_marks(
        cls, site: Site, fabric: str, marks: int, occupancy: Occupancy, weights: Weights | None = None
    ) -> Self:
        """An engine of the marked nodes (`weft.planning.place.marks`), like `among`; it can only decide."""
        engine = cls._of_site(site, fabric, occupancy, weights)
        engine.ledger.available = leaf_marks(site, fabric).bits(marks)
        engine.ledger.kept = views_of(site, fabric)
        return engine

    @classmethod
    def _of_site(cls, site: Site, fabric: str, occupancy: Occupancy, weights: Weights | None) -> Self:
        """An engine of a site without any pods."""
        topology = Topology.of(site, fabric)
        dedicated, floor = site_dedicated(site, fabric), site_floor(site, fabric)
        engine = cls(topology, None, weights or Weights.of(site.placement), dedicated, None, floor)
        engine.ledger.unfit = occupancy.unfit
        return engine

    def decide(
        self, ask: Ask, hidden: Mapping[int, int] | None = None, extra_load: Mapping[int, int] = NOTHING
    ) -> Decision | None:
        """The best nodes for this ask, or None; changes nothing.

        Args:
            hidden: leaf -> bits of nodes that aren't available for the requested time (reservations).
            extra_load: leaf -> Gb/s that its uplinks carry in that time in addition to now.

        Raises:
            InputError: a count that is not a multiple of the slice.
        """
        if ask.plain and not hidden and not self.ledger.deep:
            view = self.ledger.view(ask)
            return self._gangs.choose(view, view.pool, ask, NOTHING)
        if ask.count < 1 or ask.count % ask.slice:
            raise InputError(
                "count", ask.count, f"a multiple of the slice ({ask.slice}), at least {ask.slice}"
            )
        if ask.spare:
            return self._with_spares(ask, hidden, extra_load)
        if ask.in_one_domain:
            found = self._in_domain(ask, hidden or {})
            if found is not None or ask.required == "nvlink_domain":
                return found
            return self.decide(replace(ask, preferred="leaf"), hidden, extra_load)
        view = self.ledger.view(ask)
        if hidden or ask.exclude or ask.failed:
            pool, hidden = self._without(view, ask, hidden or {})
        else:
            pool, hidden = view.pool, NOTHING
        if ask.preferences and self.policy is None:
            return self.weigher.weighed(
                view, pool, ask, self._bits(hidden), extra_load, self.ledger.closed_to(ask.terms)
            )
        found = (
            self._beside(view, pool, ask, hidden) if ask.near else self._gangs.choose(view, pool, ask, hidden)
        )
        if found is None or not (ask.gbps or self.ledger.deep) or self.policy is not None:
            return found
        nodes = {leaf: bits.bit_count() for leaf, bits in found.bits}
        for leaf, bits in self.ledger.numbers.masks(ask.near).items():
            nodes[leaf] = nodes.get(leaf, 0) + bits.bit_count()
        if self.weigher.allowed(ask, nodes, extra_load):
            return found
        return self.weigher.weighed(
            view, pool, ask, self._bits(hidden), extra_load, self.ledger.closed_to(ask.terms)
        )

    def _with_spares(
        self, ask: Ask, hidden: Mapping[int, int] | None, extra_load: Mapping[int, int]
    ) -> Decision | None:
        """The order and its spares are one gang; the decision says which of them are spares."""
        if ask.spare % ask.slice:
            raise InputError("nodes.spare", ask.spare, f"a multiple of the slice ({ask.slice})")
        found = self.decide(replace(ask, count=ask.count + ask.spare, spare=0), hidden, extra_load)
        return found and found._replace(size=ask.count)

    def _in_domain(self, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
        """One NVLink domain, which is on a single leaf: halls and uplinks don't matter."""
        out = self.ledger.numbers.masks((*ask.exclude, *ask.failed))
        for leaf, bits in hidden.items():
            out[leaf] = out.get(leaf, 0) | bits
        return self.domains.choose(ask, self._bits(out), self.ledger.closed_to(ask.terms))

    def _bits(self, hidden: Mapping[int, int]) -> Callable[[int], int]:
        return lambda leaf: self.ledger.available[leaf] & ~hidden.get(leaf, 0)

    def place(self, ask: Ask) -> Decision | None:
        """Decide and commit."""
        decision = self.decide(ask)
        if decision is not None:
            self.ledger.take(decision.pod, decision.bits, decision.terms)
        return decision

    def replace(self, ask: Ask, failed: str) -> Decision | None:
        """One node to replace a failed one of the pod that `ask` was about; changes nothing.

        The failed node's leaf comes first, then the other leaves of the pod, then its neighbourhood.
        """
        numbers = self.ledger.numbers
        leaf = numbers.leaf_of.get(failed)
        held = self.ledger.held.get(ask.pod)
        if leaf is None or held is None:
            raise InputError("failed", failed, f"a node of pod {ask.pod}")
        closing = self.ledger.neighbours.closing or ask.terms.closing
        special = ask.slice > 1 or ask.exclude or ask.preferences or ask.gbps or ask.in_one_domain
        if closing or special or self.ledger.deep:
            near = tuple(n for x, b in held.items() for n in numbers.names(x, b) if n != failed)
            one = replace(ask, count=1, slice=1, within="leaf", spare=0, near=near, failed=(failed,))
            if ask.within != "leaf":
                # Its group stays within its domain; the others' don't matter.
                locations = self.ledger.topology.locations
                domain = locations[failed].nvlink_domain
                near = tuple(n for n in near if locations[n].nvlink_domain == domain)
                one = replace(one, near=near, required="nvlink_domain")
            return self.decide(one)
        view = self.ledger.view(ask)
        pool, bit = view.pool, numbers.bit[failed]
        here = self.ledger.available[leaf] & view.mask[leaf] & ~bit
        if here and held.get(leaf, 0) & ~bit:
            bits = ((leaf, view.take(leaf, here, 1)),)
            return self.ledger.decided(view, ask, bits, 0, pool.free[leaf] - 1, 1, pool.total, size=1)
        found = next_to(pool, held, leaf, bit, ask.required, self.ledger.weights.beta)
        if found is None:
            return None
        chosen, cost = found
        bits = view.take(chosen, self.ledger.available[chosen] & ~(bit if chosen == leaf else 0), 1)
        return self.ledger.decided(
            view, ask, ((chosen, bits),), cost, pool.free[chosen] - 1, 1, pool.total, size=1
        )

    def _beside(self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
        """Near the nodes that stay: the failed node's leaf first, then theirs, then as few new ones as possible."""
        numbers = self.ledger.numbers
        stay = {leaf: bits.bit_count() for leaf, bits in numbers.masks(ask.near).items()}
        units = ask.count // ask.slice
        if not stay or ask.required == "node":
            return None if stay else self._gangs.choose(view, pool, ask, hidden)
        blocks = {pool.block_of[leaf] for leaf in stay}
        if (ask.required == "leaf" and len(stay) > 1) or (ask.required == "block" and len(blocks) > 1):
            return None
        total = pool.total if ask.slice == 1 else view.free
        shared = self.ledger.closed_to(ask.terms)
        apart = {x: 0 for x in shared if pool.free[x]}
        removed = sum([pool.free[x] for x in apart]) * ask.slice
        pool = pool.with_rooms(apart)
        lost = {numbers.leaf_of[n] for n in ask.failed if n in numbers.leaf_of}
        takes: list[tuple[int, int]] = []
        for leaf in sorted(stay, key=lambda x: (x not in lost, -stay[x], pool.free[x], x)):
            take = min(units, pool.free[leaf])
            if take:
                takes.append((leaf, take))
                units -= take
            if not units:
                return self._gangs.taken(
                    view, pool, ask, hidden, tuple(sorted(takes)), 0, len(blocks), total, removed
                )
        if ask.required == "leaf":
            return None
        elsewhere = [p for p in range(pool.blocks) if p not in blocks] if ask.required == "block" else []
        aside = {x: 0 for p in elsewhere for x in range(pool.block_start[p], pool.block_start[p + 1])}
        rest = pool.with_rooms(aside | dict.fromkeys(stay, 0))
        best = several(rest, units, self.ledger.weights.beta, frozenset(blocks))
        if best is None:
            return None
        takes += fill(rest.free, best[1], units)
        blocks |= {pool.block_of[leaf] for leaf in best[1]}
        return self._gangs.taken(
            view, pool, ask, hidden, tuple(sorted(takes)), best[0], len(blocks), total, removed
        )

    def _without(self, view: View, ask: Ask, hidden: Mapping[int, int]) -> tuple[Pool, Mapping[int, int]]:
        """The view's pool without hidden, excluded and failed nodes; and these nodes, by leaf."""
        out = self.ledger.numbers.masks((*ask.exclude, *ask.failed))
        for leaf, bits in hidden.items():
            out[leaf] = out.get(leaf, 0) | bits
        available, mask = self.ledger.available, view.mask
        if ask.slice == 1 and ask.within == "leaf":
            rooms = {x: (available[x] & mask[x] & ~bits).bit_count() for x, bits in out.items()}
        else:
            rooms = {x: view.units(x, available[x] & mask[x] & ~bits) for x, bits in out.items()}
        return view.pool.with_rooms(rooms), out
