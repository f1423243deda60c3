"""Checks of a site's cables: ends exist, ports are used once, hosts connect to leaves, fabrics are connected."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from weft.model.site import Link, Site, Switch
from weft.planning.site.wrongvalues import WrongValue


def check_cables(site: Site, links_needed: bool = True, adopting: Collection[str] = ()) -> list[WrongValue]:
    """Everything that is wrong with the cables, in the order of their rows.

    Args:
        adopting: fabrics of which more cables are about to be adopted: they needn't be connected yet.
    """
    fabric_of = {s.name: s.fabric for s in site.switches}
    fabric_of |= {f"{n.name}/{h.name}": h.fabric for n in site.nodes for h in n.hcas}
    switches = {s.name: s for s in site.switches}
    problems: list[WrongValue] = []
    used: dict[tuple[str, int], int] = {}
    for i, link in enumerate(site.links):
        problems += _ends(link, ("links", i), fabric_of, switches)
        for side in ("a", "b"):
            problems += _port(link, side, i, switches, used)
    if not problems:
        problems += _whole(site, switches, site.fabrics.keys() - set(adopting))
    if links_needed:
        problems += _without_leaf(site)
    return problems


def _ends(
    link: Link, path: tuple[str | int, ...], fabric_of: dict[str, str], switches: dict[str, Switch]
) -> Iterator[WrongValue]:
    known = True
    for side in ("a", "b"):
        end: str = getattr(link, side)
        if end not in fabric_of:
            known = False
            yield (*path, side), end, "a switch of the site, or node/adapter"
    if not known:
        return
    if link.a == link.b:
        yield (*path, "b"), link.b, "the two ends of a cable must differ"
    elif fabric_of[link.a] != fabric_of[link.b]:
        yield (*path, "b"), link.b, f"must be on fabric {fabric_of[link.a]}, like {link.a}"
    elif link.a not in switches and link.b not in switches:
        yield (*path, "b"), link.b, f"one end must be a switch, and {link.a} isn't one either"
    for host, side, other in ((link.a, "b", link.b), (link.b, "a", link.a)):
        if host not in switches and other in switches and switches[other].level != "leaf":
            yield (
                (*path, side),
                other,
                f"{host} must be connected to a leaf; this is a {switches[other].level}",
            )


def _port(
    link: Link, side: str, index: int, switches: dict[str, Switch], used: dict[tuple[str, int], int]
) -> Iterator[WrongValue]:
    end: str = getattr(link, side)
    port: int = getattr(link, f"{side}_port")
    path = ("links", index, f"{side}_port")
    switch = switches.get(end)
    if switch is not None and port > switch.ports:
        yield path, port, f"switch {end} has ports 1 to {switch.ports}"
    first = used.setdefault((end, port), index)
    if first != index:
        yield path, port, f"port {port} of {end} is already used by links[{first}]"
    if switch is None:
        # An adapter has one port here: a second cable on another port number is also a mistake.
        other = used.setdefault((end, 0), index)
        if other != index and first == index:
            yield path, port, f"{end} has one port, and links[{other}] uses it"


def _whole(site: Site, switches: dict[str, Switch], fabrics: Collection[str]) -> Iterator[WrongValue]:
    """A subnet manager manages one connected subnet: leaves with hosts that can't reach the others are a mistake."""
    neighbours: dict[str, list[str]] = {}
    with_hosts: set[str] = set()
    for link in site.links:
        for one, other in ((link.a, link.b), (link.b, link.a)):
            if one in switches and other in switches:
                neighbours.setdefault(one, []).append(other)
            elif one in switches:
                with_hosts.add(one)
    for fabric in (f for f in site.fabrics if f in fabrics):
        leaves = [(i, s) for i, s in enumerate(site.switches) if s.fabric == fabric and s.name in with_hosts]
        if not leaves:
            continue
        reached = {leaves[0][1].name}
        todo = list(reached)
        while todo:
            for other in neighbours.get(todo.pop(), ()):
                if other not in reached:
                    reached.add(other)
                    todo.append(other)
        for i, leaf in leaves:
            if leaf.name not in reached:
                yield (
                    ("switches", i, "name"),
                    leaf.name,
                    f"no path of cables connects it to {leaves[0][1].name}; a fabric must be connected",
                )


def _without_leaf(site: Site) -> Iterator[WrongValue]:
    ends = {end for link in site.links for end in (link.a, link.b)}
    by_port = {name for name, fabric in site.fabrics.items() if fabric.manager.switching is not None}
    for i, node in enumerate(site.nodes):
        for j, hca in enumerate(node.hcas):
            if hca.fabric not in by_port and f"{node.name}/{hca.name}" not in ends:
                path = ("nodes", i, "hcas", j, "name")
                yield (
                    path,
                    f"{node.name}/{hca.name}",
                    "every adapter needs a link to a leaf, and this one has none",
                )
