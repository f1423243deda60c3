"""Interprets a reading for one partition. Pure.

Settled only if UFM lists exactly the desired members and, where an agent reads them, the ports' own tables show
exactly them. Absent only if UFM doesn't list it, no table has its key, and each of its former members could be read.
Anything in between is PENDING with the reason. UFM keeps no partition without members: if the database wants an empty
one, it is settled when it doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.drivers.ufm.partitions import UfmPartition
from weft.drivers.ufm.snapshot import UfmSnapshot
from weft.drivers.wire.items import listing
from weft.model.fabrictypes import Mode
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.mark import Mark
from weft.model.resources import Difference, Observed, Status
from weft.model.subnet import PortTable

_SHOWN = 5


def observe(
    number: int,
    members: Mapping[int, Mode],
    mark: Mark,
    seen: UfmSnapshot,
    leaving: bool = False,
    takes: float = 0.0,
) -> Observed:
    """What was observed of one desired partition.

    Args:
        number, members: as wanted.
        leaving: it is to be removed.
        takes: seconds that UFM has for bringing its partitions into effect (`Observed.on_its_way`).
    """
    partition, owner = seen.listing.partitions.get(number), seen.wanted.get(number)
    if owner is not None and owner != mark:
        # P_Key and ports belong to another partition by now: nothing of this one is left there.
        return Observed.absent(f"{format_pkey(number)} is {owner}'s by now")
    if partition is None and not seen.on_wire(number) and not (owner == mark and not members):
        return _if_absent(number, members, seen)
    listed = list(_listed(members, partition))
    differences = [*listed, *_on_ports(number, members, seen)]
    waits = bool(differences) and (partition is None if leaving else not listed)
    reasons = [f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences]
    empty = "UFM keeps no partition without members" if not members and partition is None else ""
    return Observed(
        id=format_pkey(number),
        status=Status.PENDING if reasons else Status.SETTLED,
        reason=listing(reasons) or empty,
        differences=tuple(differences),
        facts=_facts(number, partition, seen),
        on_its_way=takes if waits else 0.0,
    )


def _if_absent(number: int, members: Mapping[int, Mode], seen: UfmSnapshot) -> Observed:
    reasons = [
        f"former member {format_guid(g)} can't be read: {why}"
        for g in members
        if seen.physical(g) and (why := seen.why_unread(g)) and not seen.down(g)
    ]
    reasons += [f"{place} still has the key" for place in vacant_places(number, seen)]
    if reasons:
        return Observed(
            id=format_pkey(number),
            status=Status.PENDING,
            reason=f"can't be proved absent: {listing(reasons)}",
            facts=_facts(number, None, seen),
        )
    proof = f"not among the {len(seen.listing.partitions)} partitions that UFM lists besides the default one"
    if seen.looked:
        proof += f", and in no table of {seen.ports_read} host ports and their leaf ports"
    return Observed.absent(proof)


def _listed(members: Mapping[int, Mode], partition: UfmPartition | None) -> Iterator[Difference]:
    if partition is None:
        if members:
            yield Difference(field="UFM's partition", wanted=f"{len(members)} members", observed="not there")
        return
    missing, extra = members.keys() - partition.members.keys(), partition.members.keys() - members.keys()
    if missing or extra:
        yield Difference(
            field="UFM's partition",
            wanted=f"{len(members)} members",
            observed=f"without {_guids(missing)}, with {_guids(extra)} besides",
        )
    for guid in sorted(members.keys() & partition.members.keys()):
        if partition.members[guid] is not members[guid]:
            field = f"UFM's member {format_guid(guid)}"
            yield Difference(field=field, wanted=members[guid], observed=partition.members[guid])


def _on_ports(number: int, members: Mapping[int, Mode], seen: UfmSnapshot) -> Iterator[Difference]:
    blind = False
    for guid, mode in sorted(members.items()):
        if not seen.physical(guid):
            continue  # a virtual port: it has no table to read, and may be created later
        if why := seen.why_unread(guid):
            blind = True
            yield Difference(field=f"port {format_guid(guid)}", wanted=mode, observed=why)
        elif seen.looked:
            yield from _member(number, mode, seen.tables[guid])
    if not seen.looked:
        return
    for guid in sorted(seen.on_wire(number) - members.keys()):
        yield Difference(field=f"port {format_guid(guid)}", wanted="no member", observed="has the key")
    if not blind:  # otherwise its cable is disconnected, and the vacant leaf port is its own
        for place in vacant_places(number, seen):
            yield Difference(field=place, wanted="no key", observed="has the key")


def _member(number: int, mode: Mode, table: PortTable) -> Iterator[Difference]:
    sides = [(f"port {format_guid(table.port_guid)}", table.keys)]
    if table.leaf_keys is not None:
        name = f"{table.leaf}[{table.leaf_port}] of {format_guid(table.port_guid)}"
        sides.append((name, table.leaf_keys))
    for field, keys in sides:
        full, limited = number | FULL_MEMBER in keys, number in keys
        if (full, limited) != (mode is Mode.FULL, mode is Mode.LIMITED):
            how = "full and limited" if full and limited else "full" if full else "limited" if limited else ""
            yield Difference(field=field, wanted=mode, observed=how or "no member")


def vacant_places(number: int, seen: UfmSnapshot) -> list[str]:
    """Leaf ports without a cable that still have the key."""
    vacant = seen.looked.vacant if seen.looked else ()
    return [
        f"vacant leaf {format_guid(v.switch_guid)} port {v.port}"
        for v in vacant
        if number in {k & ~FULL_MEMBER for k in v.keys}
    ]


def _facts(number: int, partition: UfmPartition | None, seen: UfmSnapshot) -> dict[str, object]:
    return {
        "pkey": format_pkey(number),
        "master": seen.configured.active,
        "partition": partition.name if partition else "",
        "members": [format_guid(g) for g in sorted(partition.members)] if partition else [],
        "host_ports": [format_guid(g) for g in sorted(seen.on_wire(number))],
        "ports_read": seen.ports_read,
    }


def _guids(guids: set[int]) -> str:
    names = [format_guid(g) for g in sorted(guids)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) + more) or "none"
