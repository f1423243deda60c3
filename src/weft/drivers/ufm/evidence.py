"""Evidence about a partition in one reading: exact while a pod lives, gone when it is released. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from weft.drivers.ufm.functions import still_up, unproved
from weft.drivers.ufm.partitions import members_of
from weft.drivers.ufm.snapshot import UfmSnapshot
from weft.drivers.wire.items import UNREAD_SHOWN, Plane, identity_items, wire_items
from weft.model.fabric import EvidenceItem
from weft.model.fabrictypes import Level, Mode
from weft.model.ids import DEFAULT_PKEY, format_guid, format_pkey
from weft.model.problem import Problem, ProblemKind
from weft.model.specs import SegmentSpec
from weft.planning.fabric.check import check_tables, nodes_of_port, port_name

MEMBER, OTHERS = "ufm port", "ufm elsewhere"
"""Planes if no agent reads the ports themselves: UFM's view of them."""


def problems(number: int, members: Mapping[int, Mode], seen: UfmSnapshot) -> list[Problem]:
    """What is wrong with a partition in UFM's list, and in the ports' own tables or UFM's inventory. Paths are queried
    elsewhere."""
    found = list(_by_list(number, members, seen))
    physical = {g: m for g, m in members.items() if seen.physical(g)}
    if seen.looked:
        full = [g for g, m in physical.items() if m is Mode.FULL]
        holders = seen.on_wire(number) - physical.keys() | set(full)
        wire = check_tables(seen.site, seen.fabric, number, full, seen.tables, holders)
        said = {(p.kind, p.id) for p in found}
        return [*found, *(p for p in wire if (p.kind, p.id) not in said)]
    for guid in sorted(physical):
        if why := seen.why_unread(guid):
            kind = ProblemKind.PORT_UNREAD if guid in seen.inventory else ProblemKind.PORT_LOST
            found.append(_problem(kind, guid, seen, why=why))
    return found


def _by_list(number: int, members: Mapping[int, Mode], seen: UfmSnapshot) -> Iterator[Problem]:
    partition, mine = seen.listing.partitions.get(number), seen.site.fabrics[seen.fabric].segments
    listed = partition.members if partition else {}
    open_to_all = seen.listing.default_membership is Mode.FULL
    for guid, mode in sorted(members.items()):
        if listed.get(guid) is not mode:
            how = f", a {listed[guid]} one only" if guid in listed else ""
            wrong = {"segment": format_pkey(number), "mode": str(mode), "limited": how}
            yield _problem(ProblemKind.NOT_MEMBER, guid, seen, **wrong)
        others = sorted(k for k in seen.listing.of_port.get(guid, ()) if k in mine and k != number)
        if others:
            listing = ", ".join(map(format_pkey, others))
            yield _problem(ProblemKind.OTHER_SEGMENTS, guid, seen, segments=listing)
        if open_to_all and not seen.looked:
            yield _problem(ProblemKind.FAILED_OPEN, guid, seen)
    for guid in sorted(listed.keys() - members.keys()):
        yield _problem(ProblemKind.SEGMENT_LEFT, guid, seen, segment=format_pkey(number))


def clean_items(segment: SegmentSpec, seen: UfmSnapshot, alone: str) -> Iterator[EvidenceItem]:
    """Evidence on every plane.

    Args:
        alone: UFM's answer when it was asked for this partition alone.
    """
    number, members = segment.number, members_of(segment)
    up, unseen = still_up(segment, seen), unproved(segment, seen)
    partition = seen.listing.partitions.get(number)
    there = partition is not None or alone != "not there"
    said = "lists it" if partition else "doesn't list it"
    yield EvidenceItem(
        Plane.PARTITION,
        format_pkey(number),
        "not clean" if there else "clean",
        f"UFM of {seen.fabric} {said} among {len(seen.listing.partitions)} partitions and the default one; asked for"
        f" it alone: {alone}",
        whole=True,
    )
    listed = partition.members if partition else {}
    for guid, (why, behind) in sorted(unseen.items()):
        nodes = tuple(sorted({n for p in behind for n in nodes_of_port(seen.site, p)}))
        yield EvidenceItem(MEMBER, f"{seen.named(guid)} {format_guid(guid)}", "unknown", why, nodes)
    rest = [g for g in members if g not in unseen]
    if seen.looked:
        yield from wire_items(seen.looked.wire, number, [g for g in rest if seen.physical(g)])
        for guid in rest:
            if not seen.physical(guid):
                yield _member(guid, guid in listed, seen, up.get(guid, ()))
        return
    for guid in rest:
        yield from identity_items(seen.site, seen.where, guid, "UFM's inventory: ")
        yield _member(guid, guid in listed, seen, up.get(guid, ()))
    yield _elsewhere(number, members, seen)


def _member(guid: int, left: bool, seen: UfmSnapshot, up: Collection[int]) -> EvidenceItem:
    """Evidence on a former member, as UFM shows it. A port that isn't shown as active may still have the key in its
    table.

    Args:
        up: ports behind which its function is still up; empty: it isn't.
    """
    subject, nodes = f"{seen.named(guid)} {format_guid(guid)}", seen.nodes_of(guid)
    down = seen.down(guid) if seen.physical(guid) else ""
    if seen.physical(guid) and not down and (why := seen.why_unread(guid)):
        return EvidenceItem(MEMBER, subject, "unknown", why, nodes)
    listed = ", ".join(format_pkey(k) for k in sorted(seen.listing.of_port.get(guid, ()))) or "no partition"
    unread = "the site has no agent on" if seen.physical(guid) else "a virtual port's can't be, on"
    detail = f"UFM lists it in {listed}; its own table was not read: {unread} {seen.fabric}"
    if down:
        detail += f"; {down}, and its table is rewritten when it comes up"
    if not seen.physical(guid):
        where = ", ".join(port_name(seen.site, v.physical) for v in seen.virtual.get(guid, ()))
        detail += (
            f"; UFM shows it behind {where}" if where else "; UFM shows no virtual port with it any more"
        )
    if up:
        nodes = tuple(sorted({n for p in up for n in nodes_of_port(seen.site, p)}))
        detail += (
            f", ACTIVE: a server may still be running on {', '.join(nodes)}, or its host has not taken the GUID off the"
            " function; stop it, or set another GUID"
        )
    result = "not clean" if left or up else "clean"
    return EvidenceItem(MEMBER, subject, result, detail, nodes, level=Level.CONFIGURATION)


def _elsewhere(number: int, members: Mapping[int, Mode], seen: UfmSnapshot) -> EvidenceItem:
    partition = seen.listing.partitions.get(number)
    dirty = sorted((partition.members.keys() if partition else set[int]()) - members.keys())
    unread = [(g, why) for g in sorted(seen.described - members.keys()) if (why := seen.why_unread(g))]
    names = ", ".join(seen.named(g) for g in dirty[:5])
    detail = (
        f"UFM lists {names} in {format_pkey(number)}" if dirty else f"UFM lists none in {format_pkey(number)}"
    )
    more = [f"and {len(unread) - UNREAD_SHOWN} more ports"] if len(unread) > UNREAD_SHOWN else []
    return EvidenceItem(
        OTHERS,
        f"{len(seen.described - members.keys())} other host ports of {seen.fabric}",
        "not clean" if dirty else "clean",
        detail,
        tuple(sorted({n for g in dirty for n in seen.nodes_of(g)})),
        (*(f"{seen.named(g)}: {why}" for g, why in unread[:UNREAD_SHOWN]), *more),
        whole=True,
    )


def default_problem(membership: Mode | None) -> str:
    """What is wrong with an open default partition; empty: it is limited, or this version doesn't say."""
    if membership is not Mode.FULL:
        return ""
    return (
        f"every port is a full member of the default partition {format_pkey(DEFAULT_PKEY)}, which joins all tenants:"
        " set default_membership = limited in UFM's gv.cfg"
    )


def _problem(kind: ProblemKind, guid: int, seen: UfmSnapshot, **detail: str) -> Problem:
    return Problem(
        kind, seen.named(guid), seen.fabric, id=format_guid(guid), nodes=seen.nodes_of(guid), detail=detail
    )
