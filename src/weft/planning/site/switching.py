"""Checks of `manager.switching`: an Ethernet fabric's switches, described port by port. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.site import Site, Switching
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, known, same_port

Path = tuple[str | int, ...]


def check_switching(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with how switches are managed and cabled."""
    for name, fabric in site.fabrics.items():
        switching = fabric.manager.switching
        if switching is None:
            continue
        path = ("fabrics", name, "manager", "switching")
        if fabric.manager.driver != "switches":
            allowed = "nothing: only a manager of driver switches has it"
            yield path, "a description of switches", allowed
            continue
        mine = {s.name for s in site.switches if s.fabric == name}
        yield from _access(switching, mine, name, path)
        yield from _ends(site, name, switching, mine, path)
        yield from _connected(site, name, switching, path)
        if fabric.qos is not None and fabric.qos.policy == "refuse":
            yield from _says_settings(site, name, switching)
        if switching.parking in fabric.segments:
            allowed = (
                f"a VLAN outside of {fabric.segments.first} to {fabric.segments.last}, which are for pods"
            )
            yield (*path, "parking"), switching.parking, allowed
        for i, link in enumerate(site.links):
            if {link.a, link.b} & mine:
                allowed = f"not in the table links: cables of fabric {name} are in manager.switching and switch_port"
                yield ("links", i, "a"), link.a, allowed


def _says_settings(site: Site, fabric: str, switching: Switching) -> Iterator[WrongValue]:
    """Switches that don't report their settings would keep every pod from being READY."""
    silent = [s.name for s in switching.switches if s.interface in ("ovs", "generic")]
    if silent:
        allowed = f"warn: {', '.join(silent[:5])} can't say their settings (interfaces ovs and generic)"
        yield ("fabrics", fabric, "qos", "policy"), "refuse", allowed


def _access(switching: Switching, mine: set[str], fabric: str, path: Path) -> Iterator[WrongValue]:
    names, urls = UniqueValues("a switch's name"), UniqueValues("a switch's address")
    for i, access in enumerate(switching.switches):
        here = (*path, "switches", i)
        if access.interface == "generic" and switching.configured_by == "neutron":
            allowed = "an interface that can be read: where Neutron sets the VLANs, weft only reads them"
            yield (*here, "interface"), access.interface, allowed
        yield from known((*here, "name"), access.name, mine, f"switches of fabric {fabric}")
        yield from names.check(access.name, f"switch {access.name}", (*here, "name"))
        if access.interface != "ovs":  # one database may have several bridges
            yield from urls.check(access.url.rstrip("/"), f"switch {access.name}", (*here, "url"))
    missing = sorted(mine - {a.name for a in switching.switches})
    if missing:
        listed = ", ".join(missing[:5]) + (" …" if len(missing) > 5 else "")
        allowed = f"every switch of fabric {fabric}: {listed} missing"
        yield (*path, "switches"), len(switching.switches), allowed


def _ends(site: Site, fabric: str, switching: Switching, mine: set[str], path: Path) -> Iterator[WrongValue]:
    """Each port has one cable, on a switch of the fabric that has as many ports."""
    taken, hosts = UniqueValues("a switch's port", same_port), dict[str, str]()
    cabled: dict[str, set[str]] = {}
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            if hca.switch_port is not None:
                hosts.setdefault(hca.switch_port, f"{node.name}/{hca.name}")
                taken.first.setdefault(same_port(hca.switch_port), f"{node.name}/{hca.name}")
                cabled.setdefault(hca.switch_port.partition("/")[0], set()).add(hca.switch_port)
    for (on, end), machine in site.machine_by_port.items():
        if on == fabric:
            if same_port(end) in taken.first:
                here = ("ipu_machines", site.ipu_machines.index(machine), "rnic_switch_port")
                yield here, end, f"a port of its own: {taken.first[same_port(end)]} has this one"
            hosts.setdefault(end, f"{machine.name}/rnic")
            taken.first.setdefault(same_port(end), f"{machine.name}/rnic")
            cabled.setdefault(end.partition("/")[0], set()).add(end)
    for i, link in enumerate(switching.links):
        for side, end in (("a", link.a), ("b", link.b)):
            here = (*path, "links", i, side)
            yield from taken.check(end, f"link {link.a} to {link.b}", here)
            yield from _known_switch(here, end, mine, fabric)
            cabled.setdefault(end.partition("/")[0], set()).add(end)
        if link.a.partition("/")[0] == link.b.partition("/")[0]:
            yield (*path, "links", i, "b"), link.b, "the two ends of a link must be on different switches"
    for i, bundle in enumerate(switching.bundles):
        adapters = [hosts[end] for end in bundle.ports if end in hosts]
        if len(adapters) != 1:
            allowed = "with exactly one end that is the switch_port of an adapter; " + (
                f"these are {', '.join(map(str, adapters))}'s" if adapters else "no adapter has any of these"
            )
            yield (*path, "bundles", i, "ports"), ", ".join(bundle.ports), allowed
        for j, end in enumerate(bundle.ports):
            here = (*path, "bundles", i, "ports", j)
            yield from _known_switch(here, end, mine, fabric)
            if end not in hosts:
                yield from taken.check(end, f"bundle of {bundle.ports[0]}", here)
            cabled.setdefault(end.partition("/")[0], set()).add(end)
    yield from _too_many(site, cabled)


def _too_many(site: Site, cabled: dict[str, set[str]]) -> Iterator[WrongValue]:
    for i, switch in enumerate(site.switches):
        used = len(cabled.get(switch.name, ()))
        if used > switch.ports:
            yield (
                ("switches", i, "ports"),
                switch.ports,
                f"at least {used}: that many of its ports are cabled",
            )


def _known_switch(path: Path, end: str, mine: set[str], fabric: str) -> Iterator[WrongValue]:
    if end.partition("/")[0] not in mine:
        yield path, end, f"a port of a switch of fabric {fabric}"


def _connected(site: Site, fabric: str, switching: Switching, path: Path) -> Iterator[WrongValue]:
    """Hosts of all leaves can be in one VLAN: links connect any two leaves."""
    neighbours: dict[str, set[str]] = {}
    for link in switching.links:
        a, b = link.a.partition("/")[0], link.b.partition("/")[0]
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    ports = [h.switch_port for n in site.nodes for h in n.hcas_on(fabric) if h.switch_port is not None]
    ports += [port for on, port in site.machine_by_port if on == fabric]
    leaves = sorted({port.partition("/")[0] for port in ports})
    if not leaves:
        return
    reached, waiting = {leaves[0]}, [leaves[0]]
    while waiting:
        for other in neighbours.get(waiting.pop(), ()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    for leaf in leaves:
        if leaf not in reached:
            yield (*path, "links"), leaf, f"links from {leaf} to {leaves[0]}: a fabric must be connected"
