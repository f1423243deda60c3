"""Whether a refused order would fit if something were different: filtered once, then counted by leaf."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.placement import Occupancy, PlacementRequest
from weft.model.site import Node, Site
from weft.planning.fabric.topology import Topology
from weft.planning.place import filters

Decides = Callable[[PlacementRequest, Sequence[Node], Mapping[str, int]], bool]


@dataclass(slots=True)
class _Passing:
    """Nodes that pass every filter but those about quarantine and other pods: the free ones, how many of them each leaf
    has, those that each pod holds, and those in quarantine, held or not.
    """

    free: list[Node] = field(default_factory=list[Node])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    held: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])
    quarantined: list[Node] = field(default_factory=list[Node])


class Tries:
    """Answers for one refused request.

    Args:
        decides: whether nodes are enough for a request, with the Gb/s of each leaf's uplinks that are guaranteed.
    """

    def __init__(
        self,
        request: PlacementRequest,
        site: Site,
        topology: Topology,
        occupancy: Occupancy,
        decides: Decides,
    ) -> None:
        self._site, self._topology, self._occupancy, self._decides = site, topology, occupancy, decides
        terms = filters.terms_of(request)
        # The alternative never asks for more, so no other holder can conflict with it.
        self._at_odds = [n for n in occupancy.neighbours if terms.at_odds(filters.terms_of(n))]
        self._passing: dict[tuple[object, ...], _Passing] = {}

    def fits(self, changed: PlacementRequest, then: Occupancy, gone: Collection[str] = ()) -> bool:
        """Whether the changed request fits.

        Args:
            then: what is unavailable then: as now, except that fewer nodes may be in quarantine.
            gone: pods that have returned everything.
        """
        passing, topology = self._pass(changed), self._topology
        at_odds = [n for n in self._at_odds if n.pod not in gone]
        closed = filters.closed_leaves(filters.terms_of(changed), topology, at_odds) if at_odds else {}
        # Preferences refuse nothing, and spares are taken like other nodes.
        gang = changed.model_copy(
            update={"count": changed.count + changed.spare, "spare": 0, "preferences": ()}
        )
        more = [node for pod in gone for node in passing.held.get(pod, ())]
        clean = (n for n in passing.quarantined if n.name not in then.quarantined)
        more += [n for n in clean if then.busy.get(n.name) in (None, *gone)]
        by_domain = gang.slice_within != "leaf" or gang.required == "nvlink_domain"
        if gang.bisection_gbps or topology.above or gang.near or gang.required == "node" or by_domain:
            nodes = [n for n in (*passing.free, *more) if topology.locations[n.name].leaf not in closed]
            others = [n for n in filters.others(gang, then) if n.pod not in gone]
            return self._decides(gang, nodes, filters.carried(topology, others))
        counts = dict(passing.counts)
        for node in more:
            leaf = topology.locations[node.name].leaf
            counts[leaf] = counts.get(leaf, 0) + 1
        units = {leaf: n // gang.slice for leaf, n in counts.items() if leaf not in closed}
        return self._most(gang, units) >= gang.count // gang.slice

    def _most(self, request: PlacementRequest, units: Mapping[str, int]) -> int:
        """The most slices that one domain of the required level has; there are no halls here."""
        if request.required == "leaf":
            return max(units.values(), default=0)
        blocks = self._topology.blocks.values() if request.required == "block" else (units,)
        return max((sum(units.get(leaf, 0) for leaf in leaves) for leaves in blocks), default=0)

    def _pass(self, changed: PlacementRequest) -> _Passing:
        key = changed.hcas_per_node, changed.boot, changed.exclude
        found = self._passing.get(key)
        if found is None:
            found = self._passing[key] = _Passing()
            now = self._occupancy
            idle = now.model_copy(update={"busy": {}, "neighbours": (), "quarantined": {}})
            for node in filters.eligible(changed, self._site, self._topology, idle)[0]:
                pod = now.busy.get(node.name)
                if node.name in now.quarantined:
                    found.quarantined.append(node)
                    continue
                if pod is not None:
                    found.held.setdefault(pod, []).append(node)
                    continue
                found.free.append(node)
                leaf = self._topology.locations[node.name].leaf
                found.counts[leaf] = found.counts.get(leaf, 0) + 1
        return found
