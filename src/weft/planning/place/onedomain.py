"""The choice of one NVLink domain for all nodes of an order.

Every domain is examined: few orders ask for one, and domains have tens of nodes. The rank is that of leaves: least cost
of preferences first, then the tightest, then that on the fullest leaf, then tree order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from weft.planning.place.ask import Ask
from weft.planning.place.decision import Decision
from weft.planning.place.ledger import Ledger
from weft.planning.place.solver import LEAF, NEXT_DOMAIN
from weft.planning.place.view import View
from weft.planning.place.weighing import Weigher

RankedDomain = tuple[int, int, int, int, int]
"""(cost of preferences, room beyond the order, room on the leaf, leaf, number of the domain on it)."""


class DomainChoice:
    """Chooses one NVLink domain of a ledger."""

    def __init__(self, ledger: Ledger, weigher: Weigher) -> None:
        self._ledger, self._weigher = ledger, weigher

    def choose(
        self, ask: Ask, bits_of: Callable[[int], int], shared: Collection[int] = ()
    ) -> Decision | None:
        """The best domain that holds the whole order beside the pod's nodes that stay, or None.

        Args:
            bits_of: leaf -> its nodes that are free.
            shared: leaves that the order keeps away from.
        """
        numbers, need = self._ledger.numbers, ask.count
        view = self._ledger.view(replace(ask, slice=1, within="leaf"))
        home = self._home(ask)
        if not numbers.domains or (ask.near and home is None):
            return None
        touched = self._weigher.touched(ask)
        whole = ask.within == "whole_nvlink_domain"
        free = away = 0
        found: list[RankedDomain] = []
        for leaf, domains in enumerate(numbers.domains):
            bits = bits_of(leaf) & view.mask[leaf]
            if not bits:
                continue
            there = bits.bit_count()
            free += there
            if leaf in shared:
                away += there
                continue
            for number, domain in enumerate(domains):
                room = (bits & domain).bit_count()
                if room < need or home not in (None, (leaf, number)):
                    continue
                if whole and not room == need == ask.slice == domain.bit_count():
                    continue
                cost = self._cost(view, leaf, bits & domain, ask) if leaf in touched else 0
                found.append((cost, room - need, there, leaf, number))
        return self._of_best(view, ask, sorted(found)[:2], bits_of, free, away) if found else None

    def _of_best(
        self,
        view: View,
        ask: Ask,
        found: list[RankedDomain],
        bits_of: Callable[[int], int],
        free: int,
        away: int,
    ) -> Decision:
        """The decision for the first of these, and what it is compared with."""
        cost, leftover, _, leaf, number = found[0]
        bits = bits_of(leaf) & view.mask[leaf] & self._ledger.numbers.domains[leaf][number]
        if ask.preferences:
            nodes = self._weigher.by_cost(view, leaf, bits, ask.preferences)[: ask.count]
            bits = sum(bit for _, _, bit in nodes)
        else:
            bits = view.take(leaf, bits, ask.count)
        others = tuple((NEXT_DOMAIN, (other,), 1, beyond) for _, beyond, _, other, _ in found[1:])
        total = cost if ask.near else LEAF + cost
        decision = self._ledger.decided(
            view, ask, ((leaf, bits),), total, leftover, 1, free, away, None, others
        )
        return decision._replace(
            domain=self._ledger.numbers.domain_names[leaf][number],
            preferred=cost if ask.preferences else None,
        )

    def _cost(self, view: View, leaf: int, bits: int, ask: Ask) -> int:
        """The cost of the cheapest of these nodes by the ask's preferences."""
        return sum(
            cost for cost, _, _ in self._weigher.by_cost(view, leaf, bits, ask.preferences)[: ask.count]
        )

    def _home(self, ask: Ask) -> tuple[int, int] | None:
        """The only domain, as leaf and number, of all nodes of the pod that stay."""
        homes = {
            next(
                ((leaf, i) for i, d in enumerate(self._ledger.numbers.domains[leaf]) if d & bits == bits),
                None,
            )
            for leaf, bits in self._ledger.numbers.masks(ask.near).items()
            if self._ledger.numbers.domains
        }
        return homes.pop() if len(homes) == 1 else None
