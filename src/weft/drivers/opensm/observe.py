"""From what was read to what it means: files and tables in, `Observed` out. Pure.

A partition is settled only if the master's file asks for exactly its members, and the tables of every host port
and leaf port show exactly them, all as full members. It is absent only if the master's file doesn't ask for it and no
table has its key, and each of its former members could be read. Anything between is PENDING with the reason; never
BROKEN, because what is broken is taken away and made anew, and a tenant's partition must not be taken away to mend one
port of it. What a standby would do that took over now is said beside it: its file is brought up to date without the
pod's doing (`OpenSm.level`), and until then one silent standby must not stop every order and every release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.model.agentapi import AgentPartitions, PortReading, Tables, WeftPartitionDocument
from weft.model.errors import WeftError
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.mark import Mark
from weft.model.resources import Difference, Observed, PartitionSpec, Status

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """One reading of a fabric.

    Attributes:
        master: name of the ruling manager's agent.
        files: agent -> its file; `unread`: agent -> why there is none.
        tables: every host port, and the vacant leaf ports.
        known_ports: port GUIDs that the site has; another's absence proves nothing and is no fault.
    """

    master: str
    files: Mapping[str, AgentPartitions]
    unread: Mapping[str, WeftError]
    tables: Tables
    known_ports: frozenset[int]


def owned_by(file: AgentPartitions, mark: Mark) -> WeftPartitionDocument | None:
    """The partition in weft's section that bears the mark."""
    return next((d for d in file.weft if d.mark == mark.text()), None)


def observe(spec: PartitionSpec, mark: Mark, seen: Seen) -> Observed:
    """What was seen of one wanted partition."""
    documents = {name: owned_by(file, mark) for name, file in seen.files.items()}
    configured = documents.pop(seen.master)
    of_others = _other_members(spec.pkey, mark, seen)
    on_wire = _on_wire(spec.pkey, seen.tables) - of_others
    if configured is None and not on_wire:
        return _if_absent(spec, seen, [name for name, found in documents.items() if found])
    in_file = _in_files(spec, {seen.master: configured})
    differences = [*in_file, *_on_ports(spec, seen.tables, of_others)]
    reasons = [f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences]
    stale = [f"the file of standby {name} can't be read: {error}" for name, error in seen.unread.items()]
    stale += [
        f"standby: {d.field} is {d.observed}, wanted {d.wanted}; it is brought up to date"
        for d in _in_files(spec, documents)
    ]
    if reasons:
        # The managers' own words explain why the wire is not as the file asks.
        reasons += seen.files[seen.master].problems
    return Observed(
        id=format_pkey(spec.pkey),
        status=Status.PENDING if reasons else Status.SETTLED,
        reason=_listing([*reasons, *stale]),
        differences=tuple(differences),
        facts=_facts(spec, seen),
    )


def _if_absent(spec: PartitionSpec, seen: Seen, standbys: Sequence[str]) -> Observed:
    """Neither the master's file nor the wire shows it: absent, unless something that could show it was not read.

    Standbys that still have it, or could not be asked, are named in the proof; what becomes of the P_Key then is the
    release's business.
    """
    unreadable = {p.port_guid: p.unreachable for p in seen.tables.ports if p.unreachable}
    read = {p.port_guid for p in seen.tables.ports}
    reasons = [] if seen.files[seen.master].digest else [f"the file of {seen.master} is missing"]
    for guid in spec.members:
        if guid in unreadable or (guid not in read and guid in seen.known_ports):
            why = unreadable.get(guid, "not seen on the fabric")
            reasons.append(f"the table of former member {format_guid(guid)} can't be read: {why}")
    vacant = [f"leaf {format_guid(v.switch_guid)} port {v.port}" for v in _vacant(spec.pkey, seen.tables)]
    reasons += [f"vacant {place} still has the key" for place in vacant]
    if not reasons:
        ports = sum(1 for p in seen.tables.ports if not p.unreachable)
        without = ", ".join(n for n in sorted(seen.files) if n not in standbys)
        stale = [f"standby {name} is still told of it" for name in standbys]
        stale += [f"the file of standby {name} can't be read: {error}" for name, error in seen.unread.items()]
        stale += [
            f"the vacant ports of leaf {g} can't be read: {w}" for g, w in seen.tables.unread_leaves.items()
        ]
        proof = f"in no file of {without}, and in no table of {ports} host ports and their leaf ports"
        return Observed.absent("; but ".join([proof, *stale]))
    return Observed(
        id=format_pkey(spec.pkey),
        status=Status.PENDING,
        reason=f"can't be proved absent: {_listing(reasons)}",
        facts=_facts(spec, seen),
    )


def _vacant(pkey: int, tables: Tables):
    return [v for v in tables.vacant if any(k & ~FULL_MEMBER == pkey for k in v.keys)]


def _on_wire(pkey: int, tables: Tables) -> frozenset[int]:
    """Host ports that have the key, themselves or at their leaf, with either membership."""
    keys = {pkey, pkey | FULL_MEMBER}
    return frozenset(p.port_guid for p in tables.ports if keys & {*p.keys, *(p.leaf_keys or ())})


def _other_members(pkey: int, mark: Mark, seen: Seen) -> frozenset[int]:
    """Members of somebody else's partition with the same key, when ours is not there: its ports aren't our remains."""
    if any(owned_by(file, mark) for file in seen.files.values()):
        return frozenset()
    configured = seen.files[seen.master].configured
    return frozenset(int(g, 16) for p in configured if p.pkey == pkey for g in p.members)


def _in_files(spec: PartitionSpec, files: Mapping[str, WeftPartitionDocument | None]) -> Iterator[Difference]:
    for name, document in files.items():
        if document is None:
            yield Difference(field=f"file of {name}", wanted=format_pkey(spec.pkey), observed="without it")
        elif document.pkey != spec.pkey:
            yield Difference(
                field=f"file of {name}", wanted=format_pkey(spec.pkey), observed=format_pkey(document.pkey)
            )
        elif set(document.members) != set(spec.members):
            missing, extra = (
                set(spec.members) - set(document.members),
                set(document.members) - set(spec.members),
            )
            yield Difference(
                field=f"file of {name}",
                wanted=f"{len(spec.members)} members",
                observed=f"without {_guids(missing)}, with {_guids(extra)} besides",
            )


def _on_ports(spec: PartitionSpec, tables: Tables, of_others: frozenset[int]) -> Iterator[Difference]:
    ports = {p.port_guid: p for p in tables.ports}
    for guid in spec.members:
        port = ports.get(guid)
        if port is None or port.unreachable:
            why = port.unreachable if port else "not seen on the fabric"
            yield Difference(field=f"port {format_guid(guid)}", wanted="full", observed=why)
            continue
        yield from _member(spec.pkey, port)
    members = frozenset(spec.members)
    for guid in sorted(_on_wire(spec.pkey, tables) - members - of_others):
        yield Difference(field=f"port {format_guid(guid)}", wanted="no member", observed="has the key")
    if any(g not in ports or ports[g].unreachable for g in spec.members):
        return  # its cable is pulled, and the vacant port is where it belongs
    for vacant in _vacant(spec.pkey, tables):
        field = f"vacant leaf {format_guid(vacant.switch_guid)} port {vacant.port}"
        yield Difference(field=field, wanted="no key", observed="has the key")


def _member(pkey: int, port: PortReading) -> Iterator[Difference]:
    tables = [(f"port {format_guid(port.port_guid)}", port.keys)]
    if port.leaf_keys is not None:
        tables.append((f"{port.leaf}[{port.leaf_port}] of {format_guid(port.port_guid)}", port.leaf_keys))
    for field, keys in tables:
        full, limited = pkey | FULL_MEMBER in keys, pkey in keys
        if not full or limited:
            observed = "full and limited" if full else "limited" if limited else "no member"
            yield Difference(field=field, wanted="full", observed=observed)


def _facts(spec: PartitionSpec, seen: Seen) -> dict[str, object]:
    keys = {spec.pkey, spec.pkey | FULL_MEMBER}
    on_hosts = [format_guid(p.port_guid) for p in seen.tables.ports if keys & set(p.keys)]
    on_leaves = [format_guid(p.port_guid) for p in seen.tables.ports if keys & set(p.leaf_keys or ())]
    return {
        "pkey": format_pkey(spec.pkey),
        "master": seen.master,
        "host_ports": on_hosts,
        "leaf_ports_of": on_leaves,
        "ports_read": sum(1 for p in seen.tables.ports if not p.unreachable),
    }


def _guids(guids: set[int]) -> str:
    names = [format_guid(g) for g in sorted(guids)]
    return (
        ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        or "none"
    )


def _listing(reasons: Sequence[str]) -> str:
    more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
    return "; ".join(dict.fromkeys(reasons[:_SHOWN])) + more
