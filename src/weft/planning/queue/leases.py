"""What pods hold now, indexed by what placement needs, so that no order has to visit all pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.planning.overlay import Overlay
from weft.planning.place.marks import MarkedNodes
from weft.planning.queue.keep import Keep


class Leases:
    """Immutable; `with_changes` makes the next one, at the cost of the changes.

    Iterates by name. If several share a node, the last by name counts as its holder.

    Attributes:
        busy: node -> label of its holder.
        asking: name -> leases with constraints on their leaves: keeping others off, or guaranteed uplinks.
        in_parts: name -> leases with parts of shared nodes.
    """

    __slots__ = ("_by_name", "_of_node", "_ordered", "asking", "busy", "in_parts")

    def __init__(
        self,
        by_name: Overlay[str, Keep],
        of_node: Overlay[str, tuple[str, ...]],
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
        """The leases by name. If several have the same name, as in a forecast, all count."""
        found: dict[str, Keep] = {}
        for number, keep in enumerate(keeps):
            found[f"{keep.name} {number:09}" if keep.name in found else keep.name] = keep
        return cls(Overlay(), Overlay(), MarkedNodes(), {}, {}).with_changes(found)

    def __iter__(self) -> Iterator[Keep]:
        if self._ordered is None:
            self._ordered = tuple(self._by_name[name] for name in sorted(self._by_name))
        return iter(self._ordered)

    def __len__(self) -> int:
        return len(self._by_name)

    def __getitem__(self, name: str) -> Keep:
        return self._by_name[name]

    def get(self, name: str) -> Keep | None:
        """What a pod holds, by its name; None: nothing."""
        return self._by_name.get(name)

    def has_whole(self, node: str) -> bool:
        """Whether a pod holds the whole node."""
        return any(not self._by_name[name].parts for name in self._of_node.get(node, ()))

    def with_changes(self, changed: Mapping[str, Keep | None]) -> Leases:
        """A copy with other leases under these names; None: the lease has ended."""
        asking, in_parts = dict(self.asking), dict(self.in_parts)
        of_node: dict[str, tuple[str, ...]] = {}
        for name, keep in changed.items():
            before = self._by_name.get(name)
            has = frozenset(keep.nodes if keep else ())
            for node in has.union(before.nodes if before else ()):
                holders = of_node[node] if node in of_node else self._of_node.get(node, ())
                others = [n for n in holders if n != name]
                of_node[node] = tuple(sorted([*others, name])) if node in has else tuple(others)
            _put(asking, name, keep if keep and (keep.terms.closing or keep.terms.gbps) else None)
            _put(in_parts, name, keep if keep and keep.parts else None)
        by_name = self._by_name.with_changes(changed)
        busy = {node: by_name[holders[-1]].label if holders else None for node, holders in of_node.items()}
        return Leases(
            by_name,
            self._of_node.with_changes({node: holders or None for node, holders in of_node.items()}),
            self.busy.with_changes(busy),
            asking,
            in_parts,
        )


def _put(into: dict[str, Keep], name: str, keep: Keep | None) -> None:
    if keep is None:
        into.pop(name, None)
    else:
        into[name] = keep


NO_LEASES = Leases.of(())
