"""Names that operators have for several nodes: racks and leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.model.errors import InputError
from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept

_OWN = ("service", "subnet-manager")
"""Roles of hosts of the site's own services."""


@kept
def nodes_of_leaves(site: Site) -> Mapping[str, tuple[str, ...]]:
    """Leaf switch -> nodes and machines that are cabled to it, or to another switch of its leaf."""
    found: dict[str, dict[str, None]] = {}
    for fabric in sorted(site.fabrics):
        topology = Topology.of(site, fabric)
        for leaf, whole in topology.rails.items():
            found.setdefault(leaf, {}).update(dict.fromkeys(topology.leaves[whole]))
    for machine in site.machine_by_name.values():
        if machine.rnic_switch:
            found.setdefault(machine.rnic_switch, {})[machine.name] = None
    return {leaf: tuple(members) for leaf, members in found.items() if members}


@kept
def nodes_of_racks(site: Site) -> Mapping[str, tuple[str, ...]]:
    """Rack -> nodes and machines in it."""
    found: dict[str, list[str]] = {}
    for unit in site.units.values():
        if unit.rack:
            found.setdefault(unit.rack, []).append(unit.name)
    return {rack: tuple(members) for rack, members in found.items()}


def nodes_at(site: Site, target: str) -> tuple[str, ...]:
    """The nodes of a place that orders may get.

    Args:
        target: a node, a rack or a leaf; with `node:`, `rack:` or `leaf:` before a name of several.

    Raises:
        InputError: the site has no such place with nodes for orders, or several of that name.
    """
    kinds = {
        "node": {name: (name,) for name in site.units},
        "rack": nodes_of_racks(site),
        "leaf": nodes_of_leaves(site),
    }
    kind, _, name = target.partition(":")
    named = bool(name) and kind in kinds
    asked, place = ({kind: kinds[kind]}, name) if named else (kinds, target)
    found = {k: mine for k, those in asked.items() if (mine := _ordered(site, those.get(place, ())))}
    if not found:
        raise InputError("target", target, f"a node, rack or leaf of site {site.name} with nodes for orders")
    if len({frozenset(nodes) for nodes in found.values()}) > 1:
        raise InputError("target", target, " or ".join(f"{k}:{target}" for k in found))
    return next(iter(found.values()))


def _ordered(site: Site, names: Iterable[str]) -> tuple[str, ...]:
    """The names, in the given order, without hosts of the site's own services."""
    return tuple(n for n in names if (node := site.node_by_name.get(n)) is None or node.role not in _OWN)
