"""Pages of lists of nodes. A site may have 16,000: only those of a page get a view, the others only a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.app.show import node_since, views_of_nodes
from weft.engine.book.capacity import Capacity
from weft.engine.book.checkstate import verdict
from weft.engine.book.holdrows import NodeHold
from weft.model.site import Site
from weft.model.views import NodePage, NodeSearch, NodeSort
from weft.planning.fabric.topology import Topology
from weft.planning.kept import Latest, kept


class NodeMark(NamedTuple):
    """What a picture of all nodes shows of one.

    Attributes:
        leaf: "-" if it is on none.
        pod, project_id: of the pod that has the whole node.
    """

    name: str
    rack: str | None
    leaf: str
    state: str
    pod: str | None
    project_id: str | None


def node_marks(site: Site, capacity: Capacity, found: Mapping[str, str]) -> Sequence[NodeMark]:
    """What each node's view says, in the site's order; the same object for as long as nothing changes."""
    states, holds = node_states(site, capacity, found), capacity.holds
    return _MARKS.of((site, states, holds), (), lambda: _marks(site, states, dict(holds)))


def _marks(site: Site, states: Mapping[str, str], holds: Mapping[str, NodeHold]) -> tuple[NodeMark, ...]:
    resting, rest = _resting_marks(site), _at_rest(site)
    marks = list(resting)
    for number, (name, state) in enumerate(states.items()):
        if (hold := holds.get(name)) is not None:
            _, rack, leaf, *_ = resting[number]
            marks[number] = NodeMark(name, rack, leaf, state, hold.pod.name, hold.pod.project_id)
        elif state != rest[name]:
            marks[number] = resting[number]._replace(state=state)
    return tuple(marks)


@kept
def _resting_marks(site: Site) -> tuple[NodeMark, ...]:
    rest = _at_rest(site)
    return tuple(NodeMark(name, rack, leaf, rest[name], None, None) for name, rack, leaf in _places(site))


_MARKS = Latest[tuple[NodeMark, ...]]()
_STATES = Latest[Mapping[str, str]]()
_NAMES = Latest[tuple[str, ...]](most=16)
"""By states, and what was searched for: viewers reload the same few lists, and go from page to page."""
_COUNTS = Latest[Mapping[str, int]]()


def node_page(
    site: Site,
    capacity: Capacity,
    found: Mapping[str, str],
    unknown: Mapping[str, str],
    wanted: NodeSearch,
) -> NodePage:
    """A page of what `node_views` returns, with how many nodes are in each state."""
    states = node_states(site, capacity, found)

    def make() -> tuple[str, ...]:
        return _names(site, capacity, states, wanted)

    if wanted.sort == "since":  # of which `states` says nothing
        names = make()
    else:
        search = wanted.model_dump(exclude={"skip", "limit"})
        names = _NAMES.of((site, states), tuple(search.items()), make)
    shown = names[wanted.skip : wanted.skip + wanted.limit]
    return NodePage(
        nodes=tuple(views_of_nodes(shown, site, capacity, found, unknown)),
        counts=dict(_COUNTS.of((states,), (), lambda: Counter(states.values()))),
        total=len(states),
        found=len(names),
    )


def _names(
    site: Site,
    capacity: Capacity,
    states: Mapping[str, str],
    wanted: NodeSearch,
) -> tuple[str, ...]:
    """All nodes that are wanted, in the order that is wanted."""
    names = [
        name
        for name, rack, leaf in _places(site)
        if (wanted.state is None or states[name] == wanted.state)
        and (not wanted.rack or rack == wanted.rack)
        and (not wanted.leaf or leaf == wanted.leaf)
        and wanted.name in name
    ]
    if wanted.sort != "site":
        keys = _sort_keys(site, capacity, states, names, wanted.sort)
        names.sort(key=lambda name: (not keys[name], keys[name], name))
    return tuple(names)


def _sort_keys(
    site: Site,
    capacity: Capacity,
    states: Mapping[str, str],
    names: Sequence[str],
    sort: NodeSort,
) -> Mapping[str, str]:
    """Name -> what it is sorted by; empty: nothing."""
    match sort:
        case "state":
            return states
        case "rack" | "leaf":
            return {name: (rack if sort == "rack" else leaf) or "" for name, rack, leaf in _places(site)}
        case "pod":
            return {name: hold.pod.name if (hold := capacity.holds.get(name)) else "" for name in names}
        case "since":
            failing = verdict(capacity.stops, site, capacity.at).excluded
            since = {name: node_since(name, site, capacity, failing.get(name, "")) for name in names}
            return {name: at.isoformat() if at else "" for name, at in since.items()}
        case _:
            return {name: name for name in names}


@kept
def _places(site: Site) -> tuple[tuple[str, str | None, str], ...]:
    """Name, rack and leaf of every node, in the site's order."""
    topologies = [Topology.of(site, fabric).locations for fabric in sorted(site.fabrics)]
    machines = site.machine_by_name
    return tuple(
        (
            name,
            unit.rack,
            machines[name].rnic_switch
            if name in machines
            else next((locations[name].leaf for locations in topologies if name in locations), "-"),
        )
        for name, unit in site.units.items()
    )


@kept
def _at_rest(site: Site) -> Mapping[str, str]:
    """Every node -> its state if nothing is known about it."""
    return {name: "free" if unit.is_whole else "not-compute" for name, unit in site.units.items()}


def node_states(site: Site, capacity: Capacity, found: Mapping[str, str]) -> Mapping[str, str]:
    """Every node -> its state, as in its view, in the site's order; the same object for as long as none changes.

    Only nodes about which something is known are computed.
    """
    stops = capacity.stops
    excluded = verdict(stops, site, capacity.at).excluded
    marked: tuple[tuple[str, frozenset[str]], ...] = (
        ("busy", frozenset(name for name, why in found.items() if why)),
        ("maintenance", _maintained(site)),
        ("failed", frozenset(name for name, why in excluded.items() if why)),
        ("drained", frozenset(name for name, one in stops.items() if one.drain)),
        ("held", frozenset(name for name, one in stops.items() if one.holds)),
    )
    shared = frozenset(hold.node for hold in capacity.shared)

    def make() -> Mapping[str, str]:
        rest = _at_rest(site)
        states = dict(rest)
        later = (("busy", capacity.holds), ("busy", shared), ("quarantined", capacity.quarantines))
        for state, names in (*marked, *later):
            states.update((name, state) for name in names if name in rest)
        return states

    return _STATES.of((site, capacity.holds, capacity.quarantines), (marked, shared), make)


@kept
def _maintained(site: Site) -> frozenset[str]:
    return frozenset(name for name, unit in site.units.items() if unit.maintenance)
