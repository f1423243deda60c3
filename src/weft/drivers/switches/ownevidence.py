"""Interprets a reading of the switches for the VLANs of the site's own networks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from weft.drivers.switches.cabling import switch_of
from weft.drivers.switches.evidence import read_at
from weft.drivers.switches.own import (
    Own,
    check_readable,
    foreign_ports,
    is_in,
    is_needless,
    is_sites,
    listed,
    needless_links,
    own_ports_in,
    why_silent,
)
from weft.drivers.switches.ownedits import port_edit
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY, PortVlans
from weft.model.fabric import Clean, EvidenceItem, SegmentCheck
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Difference, Observed, Status
from weft.model.specs import SegmentSpec


def observe_own(own: Own, seen: EthernetSnapshot, leaving: bool) -> Observed:
    """What is observed of the VLAN. Settled: the switches that need it have it under weft's name, and its ports are as
    described.

    Raises `UnknownError` while a switch that needs it can't be read.

    Args:
        leaving: it is no longer desired; under someone else's name it counts only where weft's ports are in
        it.
    """
    check_readable(own.spec, seen)
    own = replace(own, shared=bool(foreign_ports(own, seen)))
    number, tables = own.number, seen.configured.read
    inside = sorted(f"{s}/{p}" for s, state in seen.states.items() for p in own_ports_in(s, state, own))
    spread = seen.cabling.spread(own.spec.ports)
    having = {s for s, vlans in tables.items() if vlans.get(number) in ("", own.name)}
    ever = own.ever(seen.cabling)
    having = {s for s in having if s in ever or tables[s][number] == own.name}
    foreign = {s for s in spread if tables.get(s, {}).get(number) not in (None, "", own.name)}
    if own.ours and not leaving:
        having |= foreign
    elif own.ours:
        having |= {s for s in foreign if any(switch_of(end) == s for end in inside)}
    if not having and (not inside or foreign):
        if unsaved := _unsaved(own, seen):
            why = f"gone, and {', '.join(unsaved)} would bring it back after a restart: not saved yet"
            return Observed(own.spec.text, Status.PENDING, why)
        return Observed.absent(f"on none of {len(tables)} switches, and none of its ports is in it")
    differences = tuple(_differences(own, seen, having))
    reason = "; ".join(f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences)
    status = Status.PENDING if differences else Status.SETTLED
    return Observed(own.spec.text, status, reason, differences, {"number": number})


def _differences(own: Own, seen: EthernetSnapshot, having: set[str]) -> Iterator[Difference]:
    tables, spread = seen.configured.read, seen.cabling.spread(own.spec.ports)
    for switch in sorted(spread):
        name = tables.get(switch, {}).get(own.number)
        if switch not in having:
            yield Difference(field=f"switch {switch}", wanted=own.spec.named, observed="without it")
        elif name not in ("", own.name):
            yield Difference(field=f"name on {switch}", wanted="weft's", observed=str(name))
    for switch in sorted(having):
        if is_needless(switch, tables[switch].get(own.number), own, seen.cabling):
            yield Difference(field=f"switch {switch}", wanted="without it", observed=own.spec.named)
    for end in (e for s in sorted(spread) for e in needless_links(s, own, seen.cabling)):
        if (now := seen.ends.get(end)) is not None and own.number in now.numbers:
            yield Difference(field=f"link {end}", wanted="without it", observed="the VLAN")
    for switch in _unsaved(own, seen):
        yield Difference(field=f"switch {switch}", wanted="saved", observed="not saved for its next start")
    for member in own.spec.members:
        now = seen.ends.get(member.port)
        how = "no port of its switch" if now is None else _how(now, own.number)
        if now is None or port_edit(now, member.mode, own.number):
            yield Difference(field=f"port {member.port}", wanted=member.mode, observed=how)
    for port in own.spec.former:
        now = seen.ends.get(port)
        if now is not None and is_in(now, own.number):
            yield Difference(field=f"port {port}", wanted="no member", observed=_how(now, own.number))
    for end in sorted(e for ends in spread.values() for e in ends):
        now = seen.ends.get(end)
        if now is None or own.number not in now.tagged or now.untagged == own.number:
            yield Difference(field=f"link {end}", wanted="the VLAN", observed="without it")


def _how(now: PortVlans, number: int) -> str:
    """A port's VLANs, in words."""
    if now.untagged == number:
        return f"access with VLAN {listed(now.tagged)} besides" if now.tagged else "access"
    if number in now.tagged:
        return "trunk"
    return f"in VLAN {now.untagged}" if now.untagged is not None else "no member"


def check_own(spec: SegmentSpec, seen: EthernetSnapshot) -> SegmentCheck:
    """What `observe_own` leaves out: ports in the VLAN that are unknown to weft. They are notes, since they are
    allowed."""
    own, notes = Own(spec, "", ours=True), list[Problem]()
    for end in foreign_ports(own, seen):
        name, node = seen.named(end)
        detail = {"segment": own.spec.named}
        nodes = (node,) if node else ()
        notes.append(Problem(ProblemKind.SEGMENT_LEFT, name, seen.fabric, id=end, nodes=nodes, detail=detail))
    looked = {f"switch ports of the site's networks on {seen.fabric}": len(own.spec.members)}
    return SegmentCheck((), looked, tuple(notes))


def clean_own(spec: SegmentSpec, seen: EthernetSnapshot) -> Clean:
    """Evidence that each of the VLAN's ports was read without it, no switch defines it under weft's name, and no link
    carries it."""
    own = Own(spec, "", ours=True)
    return Clean((_on_switches(own, seen), *_on_ports(own, seen), _on_links(own, seen)))


def _on_switches(own: Own, seen: EthernetSnapshot) -> EvidenceItem:
    ever = own.ever(seen.cabling)
    tables = seen.configured.read
    left = sorted(s for s, vlans in tables.items() if is_sites(vlans.get(own.number, ""), seen.site.name))
    left += sorted(s for s in ever if tables.get(s, {}).get(own.number) == "" and s not in left)
    unsaved, coming = _unsaved(own, seen), seen.coming(own.number)
    said = f"{own.spec.named} is on {', '.join(left)}" if left else f"on none of {', '.join(sorted(tables))}"
    if coming:
        said += f"; a change that is under way on {', '.join(coming)} has it"
    if unsaved:
        said += f"; what was changed on {', '.join(unsaved)} isn't saved for the next start"
    where = {*seen.unread, *seen.write_only, *ever, *map(switch_of, own.ends)}
    silent = tuple(f"{s}: {why}" for s in sorted(where) if (why := why_silent(s, seen)))
    if silent:
        return EvidenceItem("switch", own.spec.named, "unknown", "; ".join(silent), whole=True)
    result = "not clean" if left or unsaved or coming else "clean"
    return EvidenceItem("switch", own.spec.named, result, said, whole=True)


def _on_ports(own: Own, seen: EthernetSnapshot) -> Iterator[EvidenceItem]:
    for end in sorted(own.ends):
        now, switch = seen.ends.get(end), switch_of(end)
        if why := why_silent(switch, seen):
            yield EvidenceItem("switch port", end, "unknown", why)
        elif now is None:
            yield EvidenceItem("switch port", end, "clean", f"switch {switch} has no such port")
        else:
            numbers, level = seen.numbers_at(end), seen.level(end)
            beyond = numbers - now.numbers  # a trunk of every VLAN is judged by `is_in`
            result = "not clean" if is_in(now, own.number) or own.number in beyond else "clean"
            has = "every VLAN" if now.tagged == EVERY else listed(numbers)
            text, unread = read_at(has, "no VLAN", level)
            yield EvidenceItem("switch port", end, result, text, unread=unread, level=level)


def _on_links(own: Own, seen: EthernetSnapshot) -> EvidenceItem:
    ever, names = own.ever(seen.cabling), seen.configured.read

    def was_ours(switch: str) -> bool:
        return switch in ever or is_sites(names.get(switch, {}).get(own.number, ""), seen.site.name)

    dirty = sorted(e for e in seen.carriers.get(own.number, frozenset()) if was_ours(switch_of(e)))
    text = f"{own.spec.named} is on {', '.join(dirty)}" if dirty else f"none carries {own.spec.named}"
    count = len(seen.cabling.uplinks & seen.ends.keys())
    result = "not clean" if dirty else "clean"
    return EvidenceItem(
        "link between switches", f"{count} ends of links of {seen.fabric}", result, text, whole=True
    )


def _unsaved(own: Own, seen: EthernetSnapshot) -> list[str]:
    """Switches where weft has put the VLAN and that would lose weft's last change in a restart."""
    unsaved = {s for s, state in seen.states.items() if state.unsaved}
    return sorted(unsaved & {*own.ever(seen.cabling), *map(switch_of, own.ends)}) if unsaved else []
