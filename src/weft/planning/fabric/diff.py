"""Compares the site's fabric with the discovered one, and adopts the discovered cabling. Pure.

Nodes are matched by node GUID, switches without a GUID in the site by their node description. Cables are compared
port by port. A node that a partial discovery shows only as the end of a cable is matched by that end's GUID; one that
can't be matched, such as a switch without a GUID in the site, is not compared.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from weft.model.ids import format_guid
from weft.model.observedfabric import End, FabricDifference, ObservedFabric, ObservedNode
from weft.model.site import Link, Site
from weft.planning.fabric.nodenames import switch_name
from weft.planning.fabric.topology import natural
from weft.planning.site.check import canonical_links

Port = tuple[str, int]
"""An end of a cable: a switch's name or `node/hca` (or a GUID in hex for what the site doesn't know), and a port."""

Cable = tuple[Port, Port]
"""The ends in natural order."""


@dataclass(frozen=True, slots=True)
class _Match:
    """Names by GUID, which of the site's nodes were found, which nodes aren't the site's, and the GUIDs of cables' ends
    that have neither a name nor a record."""

    name_of: dict[int, str]
    found: frozenset[str]
    unknown: tuple[ObservedNode, ...]
    unclear: frozenset[int]

    def cables(self, observed: ObservedFabric) -> set[Cable]:
        """Cables whose two ends are both identified."""
        return {self.cable(ends) for ends in observed.links if not any(e.guid in self.unclear for e in ends)}

    def cable(self, ends: tuple[End, End]) -> Cable:
        a, b = ((self.name_of.get(e.guid, format_guid(e.guid)), e.port) for e in ends)
        return _cable(a, b)


def fabric_differences(site: Site, fabric: str, observed: ObservedFabric) -> tuple[FabricDifference, ...]:
    """Every difference: nodes first, then names, then cables, each in natural order.

    Nothing counts as missing because a partial discovery doesn't show it.
    """
    match = _match(site, fabric, observed)
    described = {_cable((k.a, k.a_port), (k.b, k.b_port)) for k in links_of(site, fabric)}
    seen = match.cables(observed)
    here = {c for c in described if all(end in match.found for end, _ in c)}
    unknown = {format_guid(n.guid) for n in match.unknown}
    new = {c for c in seen - described if not any(end in unknown for end, _ in c)}
    found = (
        *_missing_nodes(site, fabric, match, described),
        *_unknown_nodes(match, seen, described),
        *_wrong_names(site, fabric, match, observed),
        *_cables(here - seen, new),
    )
    if observed.partial:
        return tuple(d for d in found if d.kind not in ("missing node", "missing cable"))
    return found


def adopt_links(site: Site, fabric: str, observed: ObservedFabric) -> tuple[Link, ...]:
    """The site's links with those of this fabric as they were discovered, in canonical order.

    Only cables between nodes of the site are adopted. Cables of a node that wasn't discovered (perhaps powered off),
    and all that a partial discovery doesn't show, stay as described, unless another cable is on the same port now.
    """
    match = _match(site, fabric, observed)
    known = set(match.name_of.values())
    seen = match.cables(observed)
    cables = {c for c in seen if all(end in known for end, _ in c)}
    used = {port for c in seen for port in c}
    mine = links_of(site, fabric)
    rates: dict[Cable, int | None] = {}
    for link in mine:
        cable = _cable((link.a, link.a_port), (link.b, link.b_port))
        rates[cable] = link.rate_gbps
        gone = bool(observed.partial) or any(end not in match.found for end, _ in cable)
        if gone and not any(port in used for port in cable):
            cables.add(cable)
    others = [k for k in site.links if k not in set(mine)]
    taken = [Link(a=a[0], a_port=a[1], b=b[0], b_port=b[1], rate_gbps=rates.get((a, b))) for a, b in cables]
    return canonical_links([*others, *taken])


def links_of(site: Site, fabric: str) -> tuple[Link, ...]:
    """The described cables of one fabric."""
    ends = _described(site, fabric)
    return tuple(k for k in site.links if k.a in ends or k.b in ends)


def _described(site: Site, fabric: str) -> dict[str, int | None]:
    """Every possible end of a cable on the fabric -> its node GUID."""
    things: dict[str, int | None] = {s.name: s.guid for s in site.switches if s.fabric == fabric}
    return things | {f"{n.name}/{h.name}": h.guid for n in site.nodes for h in n.hcas_on(fabric)}


def _match(site: Site, fabric: str, observed: ObservedFabric) -> _Match:
    described = _described(site, fabric)
    by_guid = {guid: name for name, guid in described.items() if guid is not None}
    by_name = {name for name, guid in described.items() if guid is None}
    name_of = dict(by_guid)
    found: set[str] = set()
    unknown: list[ObservedNode] = []
    for node in sorted(observed.nodes, key=lambda n: n.guid):
        name = by_guid.get(node.guid)
        if name is None and node.kind == "switch" and (said := _named(node, by_name)) is not None:
            name = said
            by_name.discard(name)
        if name is None:
            unknown.append(node)
        else:
            name_of[node.guid] = name
            found.add(name)
    unclear = {e.guid for link in observed.links for e in link} - name_of.keys() - {n.guid for n in unknown}
    return _Match(name_of, frozenset(found), tuple(unknown), frozenset(unclear))


def _named(switch: ObservedNode, names: Container[str]) -> str | None:
    """Which of the names a discovered switch has, by its description or the name in it; None: none of them."""
    return next((n for n in (switch.name, switch_name(switch.name)) if n in names), None)


def _missing_nodes(
    site: Site, fabric: str, match: _Match, described: Iterable[Cable]
) -> list[FabricDifference]:
    cables: dict[str, int] = {}
    for cable in described:
        for end, _ in cable:
            cables[end] = cables.get(end, 0) + 1
    found: list[FabricDifference] = []
    for name, guid in sorted(_described(site, fabric).items(), key=lambda i: natural(i[0])):
        if name in match.found:
            continue
        identity = format_guid(guid) if guid is not None else "no GUID described"
        what = f"{name} ({identity}) was not discovered, with {cables.get(name, 0)} described cables"
        found.append(FabricDifference(kind="missing node", subject=name, described=identity, what=what))
    return found


def _unknown_nodes(
    match: _Match, seen: Iterable[Cable], described: Iterable[Cable]
) -> list[FabricDifference]:
    other_end = {port: other for c in described for port, other in (c, c[::-1])}
    at: dict[str, list[Port]] = {}
    for cable in sorted(seen, key=_cable_order):
        for (end, _), other in (cable, cable[::-1]):
            at.setdefault(end, []).append(other)
    found: list[FabricDifference] = []
    for node in match.unknown:
        guid = format_guid(node.guid)
        where = at.get(guid, [])
        text = f"{node.kind} {guid} ({node.name!r}) is not in the site"
        if where:
            text += f"; it is cabled to {', '.join(map(_text, where[:3]))}" + (" …" if len(where) > 3 else "")
        missing = sorted({other_end[p][0] for p in where if p in other_end} - match.found, key=natural)
        if missing:
            text += f", where {', '.join(missing)} should be: was it replaced?"
        found.append(FabricDifference(kind="unknown node", subject=guid, observed=node.name, what=text))
    return found


def _wrong_names(site: Site, fabric: str, match: _Match, observed: ObservedFabric) -> list[FabricDifference]:
    found: list[FabricDifference] = []
    for node in observed.nodes:
        name = match.name_of.get(node.guid)
        if name is None:
            continue
        host, _, hca = name.partition("/")
        right = _is_named(node.name, host) if hca else name in (node.name, switch_name(node.name))
        if not right:
            wanted = f"{host} {hca}" if hca else name
            what = f"{name} ({format_guid(node.guid)}) has the description {node.name!r}, expected {wanted!r}"
            found.append(
                FabricDifference(
                    kind="wrong name", subject=name, described=wanted, observed=node.name, what=what
                )
            )
    return sorted(found, key=lambda d: natural(d.subject))


def _is_named(description: str, host: str) -> bool:
    """Whether a node description is the host's name, alone or followed by anything (`gpu01 mlx5_0`, `gpu01/…`)."""
    rest = description.removeprefix(host)
    return description.startswith(host) and not (rest[:1].isalnum() or rest[:1] == "_")


def _cables(missing: set[Cable], new: set[Cable]) -> list[FabricDifference]:
    """Cables that aren't as described; one that shares an end with a new one was moved."""
    left = sorted(new, key=_cable_order)
    moved: list[FabricDifference] = []
    lost: list[Cable] = []
    for cable in sorted(missing, key=_cable_order):
        # The adapter's end first: it shows which host was moved.
        kept = sorted(cable, key=lambda p: "/" not in p[0])
        pair = next(((p, c) for p in kept for c in left if p in c), None)
        if pair is None:
            lost.append(cable)
            continue
        port, now = pair
        left.remove(now)
        before = _text(cable[1] if cable[0] == port else cable[0])
        after = _text(now[1] if now[0] == port else now[0])
        what = f"the cable of {_text(port)} goes to {after}, expected {before}"
        moved.append(
            FabricDifference(
                kind="moved cable", subject=_text(port), described=before, observed=after, what=what
            )
        )
    gone = [
        FabricDifference(
            kind="missing cable",
            subject=_text(a),
            described=_text(b),
            what=f"the cable from {_text(a)} to {_text(b)} is missing",
        )
        for a, b in lost
    ]
    extra = [
        FabricDifference(
            kind="unknown cable",
            subject=_text(a),
            observed=_text(b),
            what=f"a cable from {_text(a)} to {_text(b)} is not in the site",
        )
        for a, b in left
    ]
    return [*gone, *moved, *extra]


def _cable(a: Port, b: Port) -> Cable:
    first, second = sorted((a, b), key=_port_order)
    return first, second


def _port_order(port: Port) -> tuple[object, int]:
    return natural(port[0]), port[1]


def _cable_order(cable: Cable) -> tuple[object, ...]:
    return (*_port_order(cable[0]), *_port_order(cable[1]))


def _text(port: Port) -> str:
    return f"{port[0]} port {port[1]}"
