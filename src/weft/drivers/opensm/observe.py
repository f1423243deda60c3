"""Interprets readings: files and tables in, `Observed` out. Pure.

A partition is settled only if the master's file asks for exactly its members, and the tables of every host port
and leaf port show exactly these, all as full members. It is absent only if the master's file doesn't ask for it, no
table has its key, and each of its former members could be read. Anything in between is PENDING with the reason; never
BROKEN, because broken resources are deleted and recreated, and a tenant's partition must not be deleted to repair one
port of it. What a standby would do after a takeover is reported separately: its file is brought up to date
independently of pods (`OpenSm.level`), and until then one unreachable standby must not stop every order and release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weft.drivers.opensm.section import DesiredPartition
from weft.drivers.wire.items import keys_on_wire, listing
from weft.drivers.wire.places import Idle, LeafPort, down_at, idle_ports
from weft.model.agentapi import AgentPartitions, PortReading, Tables, VacantPort, WeftPartitionDocument
from weft.model.errors import WeftError
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.mark import Mark
from weft.model.resources import Difference, Observed, Status

_SHOWN = 5


@dataclass(frozen=True)
class IndexedReading:
    """One reading of a fabric, indexed, since many pods are judged by it.

    Attributes:
        master: name of the active manager's agent.
        files: agent -> its file; `unread`: agent -> why it could not be read.
        tables: every host port, and the vacant leaf ports.
        known_ports: port GUIDs of the site; the absence of others proves nothing and is no problem.
        machines: port GUID of machines' adapters -> where they are cabled.
    """

    master: str
    files: Mapping[str, AgentPartitions]
    unread: Mapping[str, WeftError]
    tables: Tables
    known_ports: frozenset[int]
    machines: Mapping[int, LeafPort] = field(default_factory=dict[int, LeafPort])

    @cached_property
    def idle(self) -> Idle:
        """Ports that can have no traffic now."""
        return idle_ports(self.tables)

    @cached_property
    def ports(self) -> Mapping[int, PortReading]:
        """Port GUID -> what was read of the port."""
        return {p.port_guid: p for p in self.tables.ports}

    @cached_property
    def ports_read(self) -> int:
        """Number of ports whose tables were read."""
        return sum(1 for p in self.tables.ports if not p.unreachable)

    @cached_property
    def on_wire(self) -> Mapping[int, frozenset[int]]:
        """P_Key (15 bits) -> host ports that have it, themselves or at their leaf, as full or limited members."""
        return keys_on_wire(self.tables.ports)

    @cached_property
    def vacant(self) -> Mapping[int, tuple[VacantPort, ...]]:
        """P_Key (15 bits) -> vacant leaf ports that still have it."""
        found: dict[int, list[VacantPort]] = {}
        for port in self.tables.vacant:
            for key in {k & ~FULL_MEMBER for k in port.keys}:
                found.setdefault(key, []).append(port)
        return {key: tuple(ports) for key, ports in found.items()}

    @cached_property
    def owned(self) -> Mapping[str, Mapping[str, WeftPartitionDocument]]:
        """Agent -> mark -> the partition in weft's section of its file with that mark."""
        return {n: {d.mark: d for d in reversed(f.weft)} for n, f in self.files.items()}


def observe(
    spec: DesiredPartition, mark: Mark, seen: IndexedReading, leaving: bool = False, takes: float = 0.0
) -> Observed:
    """What was observed of one desired partition.

    Args:
        leaving: it is to be removed.
        takes: seconds that the manager has for bringing its file into effect (`Observed.on_its_way`).
    """
    documents = {name: seen.owned[name].get(mark.text()) for name in seen.files}
    mine = any(documents.values())
    configured = documents.pop(seen.master)
    of_others = frozenset[int]() if mine else _other_members(spec.pkey, seen)
    on_wire = seen.on_wire.get(spec.pkey, frozenset()) - of_others
    if configured is None and not on_wire:
        return _if_absent(spec, seen, [name for name, found in documents.items() if found])
    in_file = list(_in_files(spec, {seen.master: configured}))
    differences = [*in_file, *_on_ports(spec, seen, of_others)]
    reasons = [f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences]
    stale = [f"the file of standby {name} can't be read: {error}" for name, error in seen.unread.items()]
    stale += [
        f"standby: {d.field} is {d.observed}, wanted {d.wanted}; it is brought up to date"
        for d in _in_files(spec, documents)
    ]
    waits = bool(reasons) and (configured is None if leaving else not in_file)
    if reasons:
        # The managers' own messages explain why the fabric differs from the file.
        reasons += seen.files[seen.master].problems
    return Observed(
        id=format_pkey(spec.pkey),
        status=Status.PENDING if reasons else Status.SETTLED,
        reason=listing([*reasons, *stale]),
        differences=tuple(differences),
        facts=_facts(spec, seen),
        on_its_way=takes if waits else 0.0,
    )


def _if_absent(spec: DesiredPartition, seen: IndexedReading, standbys: Sequence[str]) -> Observed:
    """Neither the master's file nor the fabric shows it: absent, unless something that could show it was not read.

    Standbys that still have it, or don't respond, are named in the proof; the release decides about the P_Key then.
    """
    reasons = [] if seen.files[seen.master].digest else [f"the file of {seen.master} is missing"]
    for guid in spec.members:
        port = seen.ports.get(guid)
        if port is None and down_at(guid, seen.machines, seen.idle):
            continue  # what its leaf's port still has is among the vacant ones
        if (port is None and guid in seen.known_ports) or (port is not None and port.unreachable):
            why = port.unreachable if port is not None else "not seen on the fabric"
            reasons.append(f"the table of former member {format_guid(guid)} can't be read: {why}")
    vacant = [f"leaf {format_guid(v.switch_guid)} port {v.port}" for v in seen.vacant.get(spec.pkey, ())]
    reasons += [f"vacant {place} still has the key" for place in vacant]
    if not reasons:
        ports = seen.ports_read
        without = ", ".join(n for n in sorted(seen.files) if n not in standbys)
        stale = [f"standby {name} still has it configured" for name in standbys]
        stale += [f"the file of standby {name} can't be read: {error}" for name, error in seen.unread.items()]
        stale += [
            f"the vacant ports of leaf {g} can't be read: {w}" for g, w in seen.tables.unread_leaves.items()
        ]
        stale += [f"the discovery was partial: {why}" for why in seen.tables.partial]
        proof = f"in no file of {without}, and in no table of {ports} host ports and their leaf ports"
        return Observed.absent("; but ".join([proof, *stale]))
    return Observed(
        id=format_pkey(spec.pkey),
        status=Status.PENDING,
        reason=f"can't be proved absent: {listing(reasons)}",
        facts=_facts(spec, seen),
    )


def _other_members(pkey: int, seen: IndexedReading) -> frozenset[int]:
    """Members of a foreign partition with the same key, if ours is gone: its ports aren't our remains."""
    configured = seen.files[seen.master].configured
    return frozenset(int(g, 16) for p in configured if p.pkey == pkey for g in p.members)


def _in_files(
    spec: DesiredPartition, files: Mapping[str, WeftPartitionDocument | None]
) -> Iterator[Difference]:
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


def _on_ports(
    spec: DesiredPartition, seen: IndexedReading, of_others: frozenset[int]
) -> Iterator[Difference]:
    ports = seen.ports
    for guid in spec.members:
        port = ports.get(guid)
        if port is None or port.unreachable:
            why = port.unreachable if port else "not seen on the fabric"
            yield Difference(field=f"port {format_guid(guid)}", wanted="full", observed=why)
            continue
        yield from _member(spec.pkey, port)
    members = frozenset(spec.members)
    for guid in sorted(seen.on_wire.get(spec.pkey, frozenset()) - members - of_others):
        yield Difference(field=f"port {format_guid(guid)}", wanted="no member", observed="has the key")
    if any(g not in ports or ports[g].unreachable for g in spec.members):
        return  # it is unplugged, and the vacant port is where it belongs
    for vacant in seen.vacant.get(spec.pkey, ()):
        field = f"vacant leaf {format_guid(vacant.switch_guid)} port {vacant.port}"
        yield Difference(field=field, wanted="no key", observed="has the key")


def _member(pkey: int, port: PortReading) -> Iterator[Difference]:
    tables = [(f"port {format_guid(port.port_guid)}", port.keys)]
    if port.leaf_keys is not None:
        tables.append((f"{port.leaf}[{port.leaf_port}] of {format_guid(port.port_guid)}", port.leaf_keys))
    for where, keys in tables:
        full, limited = pkey | FULL_MEMBER in keys, pkey in keys
        if not full or limited:
            observed = "full and limited" if full else "limited" if limited else "no member"
            yield Difference(field=where, wanted="full", observed=observed)


def _facts(spec: DesiredPartition, seen: IndexedReading) -> dict[str, object]:
    keys = {spec.pkey, spec.pkey | FULL_MEMBER}
    ports = [seen.ports[g] for g in sorted(seen.on_wire.get(spec.pkey, ()))]
    on_hosts = [format_guid(p.port_guid) for p in ports if keys & set(p.keys)]
    on_leaves = [format_guid(p.port_guid) for p in ports if keys & set(p.leaf_keys or ())]
    return {
        "pkey": format_pkey(spec.pkey),
        "master": seen.master,
        "host_ports": on_hosts,
        "leaf_ports_of": on_leaves,
        "ports_read": seen.ports_read,
    }


def _guids(guids: set[int]) -> str:
    names = [format_guid(g) for g in sorted(guids)]
    return (
        ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        or "none"
    )
