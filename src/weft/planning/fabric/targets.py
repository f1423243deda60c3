"""Nodes, racks, switches and cables by the names that people have for them. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from weft.model.errors import InputError
from weft.model.site import Site
from weft.model.site.devices import plain_port
from weft.planning.fabric.outage import Failed
from weft.planning.fabric.places import nodes_of_racks
from weft.planning.fabric.topology import natural
from weft.planning.fabric.wires import End, wiring
from weft.planning.kept import kept
from weft.planning.words import first_names

Kind = Literal["node", "rack", "switch", "link"]
NEAR = 3
"""Names that are offered instead of an unknown one."""


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a site, and what fails with it."""

    kind: Kind
    name: str
    failed: Failed


def target_of(site: Site, text: str) -> Target:
    """The part of the site that is meant: a node or IPU-Machine, a rack, a switch, or a cable by one of its ends
    (`leaf01:7`, `leaf01/Ethernet7`, `leaf01 port 7`, `gpu1/mlx5_0`).

    Args:
        text: with `node:`, `rack:`, `switch:` or `link:` before a name of several.

    Raises:
        InputError: the site has nothing of that name, or several things.
    """
    kind, _, name = text.partition(":")
    known = _named(site)
    named = bool(name) and (kind in known or kind == "link")
    asked = {kind: known.get(kind, {})} if named else known
    wanted = (name if named else text).strip()
    found = [
        Target(k, wanted, failed)
        for k, failed in ((k, things.get(wanted)) for k, things in asked.items())
        if failed is not None and k in ("node", "rack", "switch")
    ]
    if not named or kind == "link":
        found += [Target("link", wanted, Failed(ends=ends))] if (ends := _cable(site, wanted)) else []
    if len(found) > 1:
        raise InputError("target", text, " or ".join(f"{one.kind}:{wanted}" for one in found))
    if not found:
        raise InputError("target", text, _instead(site, wanted, {kind} if named else {*known, "link"}))
    return found[0]


@kept
def _named(site: Site) -> Mapping[str, Mapping[str, Failed]]:
    """Kind -> name -> what fails with it. A rack fails with its switches."""
    switches = {s.name: s.rack for s in site.switches}
    switches |= {d.name: d.rack for d in site.devices if d.kind == "switch"}
    switches |= {switch: switches.get(switch) for switch, _ in wiring(site).ends}
    units = nodes_of_racks(site)
    racks = {*units, *(r.name for r in site.racks), *(rack for rack in switches.values() if rack)}
    return {
        "node": {name: Failed(nodes=frozenset({name})) for name in site.units},
        "rack": {
            rack: Failed(
                frozenset(units.get(rack, ())), frozenset(s for s, r in switches.items() if r == rack)
            )
            for rack in racks
        },
        "switch": {name: Failed(switches=frozenset({name})) for name in switches},
    }


def _cable(site: Site, text: str) -> frozenset[End]:
    """Ends at switches of the cable or cables with this end; none: there is no such cable."""
    wires = wiring(site)
    if host := wires.of_host.get(text):
        return frozenset(w.a for w in host)
    if interface := [p.ends for switch in wires.plugs.values() for p in switch if text == f"{p[0]}/{p[1]}"]:
        return frozenset(interface[0])
    return frozenset(end for end in _ends(text) if end in wires.ends)


def _ends(text: str) -> Iterator[End]:
    """The ends (switch, port) that a text may name."""
    for between in (" port ", ":", "/"):
        switch, found, port = text.partition(between)
        if found:
            yield switch, plain_port(port)


def _instead(site: Site, wanted: str, kinds: Collection[str]) -> str:
    """What is allowed in place of an unknown name, with the nearest ones."""
    ports = (
        {end for end in _ends(wanted) if end[0] in _named(site)["switch"]} if "link" in kinds else set[End]()
    )
    if ports:
        switch = sorted(ports)[0][0]
        cabled = sorted((port for name, port in wiring(site).ends if name == switch), key=natural)
        there = f"cabled ports of {switch}: {first_names(cabled)}" if cabled else "no cable there in the site"
        return f"a port of {switch} that has a cable in site {site.name}; {there}"
    names = {name for kind, things in _named(site).items() if kind in kinds for name in things}
    names |= {*wiring(site).of_host} if kinds == {"link"} else set[str]()
    near = difflib.get_close_matches(wanted[:255], sorted(names, key=natural), NEAR, cutoff=0.6)
    what = ", ".join(k for k in ("node", "rack", "switch") if k in kinds)
    form = (
        "switch:port or node/adapter" if kinds == {"link"} else what + (" or link" if "link" in kinds else "")
    )
    return f"a {form} of site {site.name}" + (f", such as {', '.join(near)}" if near else "")
