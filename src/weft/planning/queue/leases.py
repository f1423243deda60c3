"""What pods hold now, indexed by what placement needs, so that no order has to visit all pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.planning.place.marks import MarkedNodes
from weft.planning.queue.keep import Keep


class Leases:
    """Immutable; `with_changes` makes the next one, at the cost of the changes and of copying four dictionaries.

    Iterates by name. If several share a node, the last by name counts as its holder.

    Attributes:
        busy: node -> label of its holder.
        asking: name -> leases with constraints on their leaves: keeping others off, or guaranteed uplinks.
        in_parts: name -> leases with parts of shared nodes.
    """

    __slots__ = ("_by_name", "_of_node", "_ordered", "asking", "busy", "in_parts")

    def __init__(
        self,
        by_name: dict[str, Keep],
        of_node: dict[str, tuple[str, ...]],
        busy: MarkedNodes[str],
        asking: dict[str, Keep],
        in_parts: dict[str, Keep],
    ) -> None:
        self._by_name, self._of_node = by_name, of_node
        self._ordered: tuple[Keep, ...] | None = None
        self.busy = busy
        self.asking: Mapping[str, Keep] = asking
        self.in_parts: Mapping[str, Keep] = in_parts

    @classmethod
    def of(cls, keeps: Iterable[Keep]) -> Leases:
        """Several with the same name, as in a forecast, all count."""
        found: dict[str, Keep] = {}
        for number, keep in enumerate(keeps):
            found[f"{keep.name} {number:09}" if keep.name in found else keep.name] = keep
        return cls({}, {}, MarkedNodes[str](), {}, {}).with_changes(found)

    def __iter__(self) -> Iterator[Keep]:
        if self._ordered is None:
            self._ordered = tuple(self._by_name[name] for name in sorted(self._by_name))
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Keep:
        return self._by_name[name]

    def get(self, name: str) -> Keep | None:
        return self._by_name.get(name)

    def has_whole(self, node: str) -> bool:
        """Whether a pod holds the whole node."""
        return any(not self._by_name[name].parts for name in self._of_node.get(node, ()))

    def with_changes(self, changed: Mapping[str, Keep | None]) -> Leases:
        """A copy with other leases under these names; None: the lease has ended."""
        by_name, of_node, busy = dict(self._by_name), dict(self._of_node), MarkedNodes(self.busy)
        asking, in_parts = dict(self.asking), dict(self.in_parts)
        nodes: set[str] = set()
        for name, keep in changed.items():
            before = by_name.pop(name, None)
            nodes.update(before.nodes if before else (), keep.nodes if keep else ())
            for node in set(before.nodes) if before else ():
                of_node[node] = tuple(n for n in of_node[node] if n != name)
            for node in set(keep.nodes) if keep else ():
                of_node[node] = tuple(sorted((*of_node.get(node, ()), name)))
            if keep is not None:
                by_name[name] = keep
            _put(asking, name, keep if keep and (keep.terms.closing or keep.terms.gbps) else None)
            _put(in_parts, name, keep if keep and keep.parts else None)
        for node in nodes:
            if holders := of_node[node]:
                busy[node] = by_name[holders[-1]].label
            else:
                del of_node[node]
                busy.pop(node, None)
        busy.follow(self.busy, nodes)
        return Leases(by_name, of_node, busy, asking, in_parts)


def _put(into: dict[str, Keep], name: str, keep: Keep | None) -> None:
    if keep is None:
        into.pop(name, None)
    else:
        into[name] = keep


NO_LEASES = Leases.of(())
