"""Which leaves form one domain: on a rail-wired fabric the leaves that the adapters of a group of nodes connect to.

HCA i of every node of a group connects to leaf i of the group; nodes that share all their leaves reach each other
without a spine on every rail. Such leaves form one domain, named after the first. A node with a missing cable, or one
to the wrong group's leaf, is in the domain of most of its adapters. If nodes have one adapter each, every leaf is its
own domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Rails = tuple[str, ...]
"""Leaf of each of a node's adapters, in their order."""


@dataclass(frozen=True, slots=True)
class Domains:
    """Leaves as domains.

    Attributes:
        of_rails: rails of a node -> name of its domain: one of the domain's leaves.
        of_leaf: leaf -> the domain that it belongs to.
        founders: domain -> the most common rails of its nodes, which define it.
    """

    of_rails: dict[Rails, str] = field(default_factory=dict[Rails, str])
    of_leaf: dict[str, str] = field(default_factory=dict[str, str])
    founders: dict[str, Rails] = field(default_factory=dict[str, Rails])

    @classmethod
    def of(cls, nodes: Iterable[Rails]) -> Domains:
        """The domains of nodes with these rails; the same for any order of the nodes."""
        counts: dict[Rails, int] = {}
        for rails in nodes:
            if rails:
                counts[rails] = counts.get(rails, 0) + 1
        found = cls()
        for rails in sorted(counts, key=lambda r: (-counts[r], -len(set(r)), r)):
            found._add(rails)
        return found

    def _add(self, rails: Rails) -> None:
        tally: dict[str, int] = {}
        leaves = tuple(dict.fromkeys(rails))
        for leaf in leaves:
            if leaf in self.of_leaf:
                tally[self.of_leaf[leaf]] = tally.get(self.of_leaf[leaf], 0) + 1
        new = [leaf for leaf in leaves if leaf not in self.of_leaf]
        name = max(tally, key=tally.__getitem__, default="")
        if new and 2 * tally.get(name, 0) <= len(leaves):
            name = new[0]
            self.founders[name] = rails
        self.of_rails[rails] = name
        self.of_leaf.update(dict.fromkeys(new, name))

    def uplinks(self, leaves: Mapping[str, int]) -> dict[str, int]:
        """Domain -> Gb/s to other switches that its nodes have together, evenly spread over their rails.

        Args:
            leaves: leaf -> Gb/s of its cables to other switches.

        The slowest rail decides, since traffic is spread over all of them. A leaf that several domains connect to
        counts for each with its share.
        """
        users: dict[str, int] = {}
        for rails in self.founders.values():
            for leaf in set(rails):
                users[leaf] = users.get(leaf, 0) + 1
        return {
            name: min(leaves.get(x, 0) * len(rails) // (rails.count(x) * users[x]) for x in set(rails))
            for name, rails in self.founders.items()
        }
