"""What nodes lose if nodes, switches or cables of a site fail, by its description alone. Pure.

An adapter is lost if none of its cables is left, and cut off if its leaf has no path any more to the leaves with most
of the fabric's adapters. One of several cables of a bond is redundancy, not loss.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from weft.model.site import Node, Site
from weft.planning.fabric.topology import natural
from weft.planning.fabric.wires import End, FabricCable, InterfacePlug, Wiring, wiring
from weft.planning.words import first_names


@dataclass(frozen=True, slots=True)
class Failed:
    """What fails.

    Attributes:
        nodes: nodes and IPU-Machines, as a whole.
        switches: of fabrics or of the site's own networks.
        ends: single cables, by their end at a switch.
    """

    nodes: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    ends: frozenset[End] = frozenset()

    def has(self, end: End) -> bool:
        """Whether what is cabled to this end is down."""
        return end[0] in self.switches or end in self.ends

    def down(self, wire: FabricCable) -> bool:
        """Whether a cable carries nothing any more."""
        return self.has(wire.a) or (not wire.host and self.has(wire.b))


@dataclass(slots=True)
class NodeLoss:
    """What one node, or IPU-Machine, loses.

    Attributes:
        everything: it fails itself.
        lost: fabric -> its adapters without a cable that works.
        cut: fabric -> its adapters that reach only a smaller part of the fabric.
        networks: interfaces on the site's own networks without a cable that works, each with its network.
        thinner: adapters and interfaces with fewer cables than before, all of which carry the same.
    """

    node: str
    everything: bool = False
    lost: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    cut: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    networks: list[str] = field(default_factory=list[str])
    thinner: list[str] = field(default_factory=list[str])

    @property
    def touched(self) -> bool:
        """Whether it loses anything but redundancy."""
        return bool(self.everything or self.lost or self.cut or self.networks)


@dataclass(frozen=True, slots=True)
class UplinkLoss:
    """A switch that keeps working, with less bandwidth to other switches: Gb/s before and after."""

    fabric: str
    switch: str
    level: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Outage:
    """What is lost.

    Attributes:
        nodes: node -> what it loses; those that only lose redundancy included.
        uplinks: in natural order of switches.
        others: interfaces of other hardware that lose their network: `device/interface on network`.
        notes: what else is lost, and what the site doesn't say; a sentence each.
    """

    nodes: Mapping[str, NodeLoss]
    uplinks: tuple[UplinkLoss, ...] = ()
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def touched(self) -> tuple[str, ...]:
        """Nodes that lose more than redundancy, in natural order."""
        return tuple(n for n, loss in self.nodes.items() if loss.touched)


def outage(site: Site, failed: Failed) -> Outage:
    """What is lost when these parts of the site fail. Names that the site doesn't have are ignored."""
    wires = wiring(site)
    losses = {name: NodeLoss(name, everything=True) for name in failed.nodes if name in site.units}

    def of(name: str) -> NodeLoss:
        return losses.setdefault(name, NodeLoss(name))

    for end, fabric, left in _hosts(wires, failed):
        node, _, adapter = end.partition("/")
        if left:
            of(node).thinner.append(f"{adapter} on {fabric}")
        else:
            of(node).lost.setdefault(fabric, []).append(adapter)
    for fabric in site.fabrics:
        for end in _cut_off(wires, fabric, failed):
            node, _, adapter = end.partition("/")
            if adapter not in of(node).lost.get(fabric, ()):
                of(node).cut.setdefault(fabric, []).append(adapter)
    others: list[str] = []
    for plug, left in _plugged(wires, failed):
        what = f"{plug.name} on {plug.network}"
        if plug.device not in site.units:
            others += [] if left else [f"{plug.device}/{what}"]
        else:
            (of(plug.device).thinner if left else of(plug.device).networks).append(what)
    ordered = {name: losses[name] for name in sorted(losses, key=natural)}
    notes = (*_managers(site, failed), *_peers(wires, failed), *_unknown(site, wires, failed))
    return Outage(ordered, tuple(_uplinks(site, wires, failed)), tuple(sorted(others, key=natural)), notes)


def whole(site: Site, loss: NodeLoss, fabric: str) -> bool:
    """Whether no adapter of the node on a fabric is left that works and reaches the others."""
    unit = site.units[loss.node]
    adapters = {h.name for h in unit.hcas_on(fabric)} if isinstance(unit, Node) else {"rnic"}
    gone = {*loss.lost.get(fabric, ()), *loss.cut.get(fabric, ())}
    wires = wiring(site).of_host
    return not {a for a in adapters - gone if f"{loss.node}/{a}" in wires}


def _hosts(wires: Wiring, failed: Failed) -> Iterator[tuple[str, str, int]]:
    """Adapters at failed switches and cables, their fabric, and how many of their cables are left."""
    hosts: dict[str, str] = {}
    for switch in sorted({*failed.switches, *(switch for switch, _ in failed.ends)}, key=natural):
        for wire in wires.at.get(switch, ()):
            if wire.host and failed.has(wire.a):
                hosts[wire.b[0]] = wire.fabric
    for end in sorted(hosts, key=natural):
        if end.partition("/")[0] not in failed.nodes:
            yield end, hosts[end], sum(not failed.down(w) for w in wires.of_host[end])


def _plugged(wires: Wiring, failed: Failed) -> Iterator[tuple[InterfacePlug, int]]:
    """Interfaces at failed switches and cables, and how many of their links are left."""
    at = sorted({*failed.switches, *(switch for switch, _ in failed.ends)}, key=natural)
    for plug in dict.fromkeys(p for switch in at for p in wires.plugs.get(switch, ())):
        left = sum(not failed.has(end) for end in plug.ends)
        if left < len(plug.ends) and plug.device not in failed.nodes and plug.device not in failed.switches:
            yield plug, left


def _cut_off(wires: Wiring, fabric: str, failed: Failed) -> Iterator[str]:
    """Adapters whose leaf works, without a path to the largest part of what was connected before."""
    between = wires.between.get(fabric, ())
    if not any(failed.down(w) for w in between):
        return
    before = _parts(between)
    after = _parts(
        (w for w in between if not failed.down(w)), {s for s in before if s not in failed.switches}
    )
    hosts: dict[tuple[str, str], int] = {}
    for switch, part in after.items():
        if number := sum(w.host and not failed.down(w) for w in wires.at[switch]):
            hosts[before[switch], part] = hosts.get((before[switch], part), 0) + number
    main: set[str] = set()
    for whole_ in {of for of, _ in hosts}:
        sizes = {part: n for (of, part), n in hosts.items() if of == whole_}
        most = max(sizes.values())
        largest = [part for part, n in sizes.items() if n == most]
        main.update(largest if len(largest) == 1 else ())
    cut = [s for s, part in after.items() if part not in main]
    ends = {w.b[0] for s in cut for w in wires.at[s] if w.host and not failed.down(w)}
    for end in sorted(ends, key=natural):
        left = (w.a[0] for w in wires.of_host[end] if not failed.down(w))
        if end.partition("/")[0] not in failed.nodes and not any(after.get(s) in main for s in left):
            yield end


def _parts(wires: Iterable[FabricCable], alone: Collection[str] = ()) -> dict[str, str]:
    """Switch -> name of the connected part that it is in. Args: alone: switches that may have no cable."""
    beside: dict[str, list[str]] = {switch: [] for switch in alone}
    for wire in wires:
        beside.setdefault(wire.a[0], []).append(wire.b[0])
        beside.setdefault(wire.b[0], []).append(wire.a[0])
    found: dict[str, str] = {}
    for first in beside:
        waiting = [first] if first not in found else []
        while waiting:
            switch = waiting.pop()
            if switch not in found:
                found[switch] = first
                waiting += beside[switch]
    return found


def _uplinks(site: Site, wires: Wiring, failed: Failed) -> Iterator[UplinkLoss]:
    """Switches that keep working with fewer cables to others. Peer links of MLAG pairs aren't counted."""
    ends = (s for w in _lost_between(wires, failed) if not w.peer for s in (w.a[0], w.b[0]))
    for name in sorted({s for s in ends if s not in failed.switches}, key=natural):
        mine = [w for w in wires.at[name] if not w.host and not w.peer]
        switch = site.switch_by_name[name]
        fastest = wires.fastest.get(switch.fabric, 0)
        before = sum(w.gbps or fastest for w in mine)
        after = sum(w.gbps or fastest for w in mine if not failed.down(w))
        yield UplinkLoss(switch.fabric, name, switch.level, before, after)


def _lost_between(wires: Wiring, failed: Failed) -> Iterator[FabricCable]:
    return (w for mine in wires.between.values() for w in mine if failed.down(w))


def _peers(wires: Wiring, failed: Failed) -> Iterator[str]:
    for wire in _lost_between(wires, failed):
        if wire.peer:
            yield f"the MLAG pair of {wire.a[0]} and {wire.b[0]} loses its peer link, so its redundancy"


def _managers(site: Site, failed: Failed) -> Iterator[str]:
    for name, fabric in sorted(site.fabrics.items()):
        agents = fabric.manager.agents
        gone = [a.name for a in agents if a.node in failed.nodes]
        if gone:
            yield f"fabric {name} loses {len(gone)} of {len(agents)} subnet managers: {first_names(gone)}"


def _unknown(site: Site, wires: Wiring, failed: Failed) -> Iterator[str]:
    """Notes on what can't be concluded, because the site's description lacks it; a sentence each."""
    on_fabric = {s.name for s in site.switches}
    for switch in sorted(failed.switches & on_fabric, key=natural):
        if switch not in wires.at and switch not in wires.plugs:
            yield f"the site has no cables of switch {switch}: what depends on it is unknown"
    own = sorted(failed.switches - on_fabric, key=natural)
    if not own:
        return
    yield (
        f"the site doesn't describe cables between switches of its own networks: what is behind {first_names(own)} "
        "is unknown"
    )
    if silent := sum(name not in wires.cabled for name in site.units if name not in failed.nodes):
        yield (
            f"of {silent} of {len(site.units)} nodes and IPU-Machines the site has no cable to its own networks: "
            f"whether they depend on {first_names(own)} is unknown"
        )
