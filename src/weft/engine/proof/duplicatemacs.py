"""Functions that aren't only where they belong: another port has the MAC address, or another place the fabric's id.

On some fabrics the id of a function's port follows from the MAC address of its Neutron port. Neutron lets the owner of
a network choose the MAC address of a port there, and a server with a whole adapter may give a function of it any id. A
manager of segments that knows only ids would put both into the segment: so such a function is in none until it is
unique.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field

from weft.engine.base.world import World
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.errors import UnknownError, WeftError
from weft.model.problem import Problem, ProblemKind, unread
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec
from weft.planning.fabric.functions import mac_behind, own_ports
from weft.ports.tenantnetworks import TenantPort

_MACHINES = "baremetal"
"""Type of ports of machines (Neutron's `binding:vnic_type`): Ironic has its own with a machine's address."""
_NO_FUNCTION = ("normal", _MACHINES, "direct-physical")
"""Types of ports without a function."""


@dataclass(frozen=True, slots=True)
class DuplicateMac:
    """Someone's port with the MAC address of a pod's port.

    Attributes:
        functional: it may have a function, and so the same id on the fabric; otherwise it is only reported.
    """

    port: TenantPort
    problem: Problem
    functional: bool


@dataclass(frozen=True, slots=True)
class DuplicateMacs:
    """What was found about a pod's members.

    Attributes:
        out: ids of members that aren't unique.
        unknown: ids of members for which that is unknown: they stay as they are.
        problems: what keeps the pod from being READY.
        notes: duplicates that are only reported, where the address isn't the function's identity, as on Ethernet.
    """

    out: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


@dataclass(slots=True)
class _DuplicateSearch:
    out: set[str] = field(default_factory=set[str])
    unknown: set[str] = field(default_factory=set[str])
    problems: list[Problem] = field(default_factory=list[Problem])


def duplicate_macs(
    pod: PodRecord,
    records: Mapping[str, ResourceRecord],
    members: Mapping[str, SegmentSpec],
    world: World,
    site: Site,
    max_age: float = 0.0,
) -> DuplicateMacs:
    """Search for them in the cloud and on the fabrics.

    Args:
        members: fabric -> the pod's segment there, with all members that may be in it.
        max_age: how many seconds ago the reading of a fabric may have begun; 0: it begins now.
    """
    found, ports = _DuplicateSearch(), same_address(pod, records, members, world)
    by_mac = {mac: m.port for spec in members.values() for m in spec.members if (mac := mac_behind(m.port))}
    if isinstance(ports, WeftError):
        found.unknown |= set(by_mac.values())
        found.problems.append(unread(pod.plan.cloud, ports))
        ports = ()
    ports = tuple(one for one in ports if one.functional)
    for one in ports:
        if port := by_mac.get(one.port.mac.lower()):
            found.out.add(port)
            found.problems.append(one.problem)
    notes = tuple(t.problem for t in ports if t.port.mac.lower() not in by_mac)
    for fabric, spec in members.items():
        _on_fabric(fabric, spec, world, site, found, max_age)
    return DuplicateMacs(
        frozenset(found.out), frozenset(found.unknown - found.out), tuple(found.problems), notes
    )


def same_address(
    pod: PodRecord, records: Mapping[str, ResourceRecord], members: Mapping[str, SegmentSpec], world: World
) -> tuple[DuplicateMac, ...] | WeftError:
    """Ports of all projects with the MAC address of a pod's port that weft chose; or why that is unknown.

    One listing.
    """
    macs = addresses(records, members)
    if not macs:
        return ()
    try:
        ports = world.clouds[pod.plan.cloud].ports_at(pod.project_id, macs=macs)
    except WeftError as error:
        return error
    return same_among(pod, records, ports)


def same_among(
    pod: PodRecord, records: Mapping[str, ResourceRecord], ports: Collection[TenantPort]
) -> tuple[DuplicateMac, ...] | UnknownError:
    """As `same_address`, from a listing of the ports with the pod's addresses."""
    own, ids = ports_by_mac(records), {r.outside_id for r in records.values() if r.outside_id}
    there = {r.outside_id for r in own.values() if r.state is RowState.SETTLED}
    if there and not there.intersection(p.id for p in ports):
        asked, said = "list the ports with a pod's addresses", "none of the pod's own is listed"
        return UnknownError(asked, pod.plan.cloud, said)
    others = (p for p in ports if p.id not in ids and not is_ironics(p, own))
    return tuple(duplicate_mac(p, p.mac, own, pod) for p in others if not _is_its_own(p, own, ids))


def addresses(records: Mapping[str, ResourceRecord], members: Mapping[str, SegmentSpec]) -> frozenset[str]:
    """MAC addresses of a pod's ports that weft chose, in lower case."""
    behind = {mac for spec in members.values() for m in spec.members if (mac := mac_behind(m.port))}
    return frozenset(ports_by_mac(records).keys() | behind)


def ports_by_mac(records: Mapping[str, ResourceRecord]) -> dict[str, ResourceRecord]:
    """MAC address in lower case -> the pod's port that has it."""
    ports = ((r, r.resource.spec) for r in records.values() if r.wanted)
    return {spec.mac.lower(): r for r, spec in ports if isinstance(spec, PortSpec) and spec.mac}


def is_ironics(port: TenantPort, own: Mapping[str, ResourceRecord]) -> bool:
    """Whether it is Ironic's own port of the pod's machine, while that is cleaned or inspected: bound to that machine,
    as no project can do itself (ironic 39, `common.neutron.add_ports_to_network`)."""
    record = own.get(port.mac.lower())
    spec = record.resource.spec if record is not None else None
    same = port.vnic_type == _MACHINES and isinstance(spec, PortSpec) and spec.vnic_type == _MACHINES
    return same and isinstance(spec, PortSpec) and bool(spec.host) and port.host == spec.host


def _is_its_own(port: TenantPort, own: Mapping[str, ResourceRecord], ids: Container[str]) -> bool:
    """Whether it may be the pod's, requested without an answer: on the pod's own network each address exists once."""
    record = own.get(port.mac.lower())
    return record is not None and record.outside_id is None and port.network in ids


def duplicate_mac(
    port: TenantPort, mac: str, own: Mapping[str, ResourceRecord], pod: PodRecord, how: str = ""
) -> DuplicateMac:
    """A port as a duplicate. Args: mac: that it shares with the pod's port. how: the way, unless it is its own."""
    record = own.get(mac.lower())
    subject = f"port {record.resource.name}" if record else f"MAC address {mac.lower()}"
    node = record.resource.node if record else None
    thing = f"port {port.id} {port.name!r} of project {port.project_id} on network {port.network}{how}"
    problem = Problem(
        ProblemKind.ADDRESS_TAKEN,
        subject,
        pod.plan.cloud,
        record.key if record else None,
        port.id,
        (node,) if node else (),
        detail={"thing": thing},
    )
    return DuplicateMac(port, problem, port.vnic_type not in _NO_FUNCTION and not how)


def _on_fabric(
    fabric: str, spec: SegmentSpec, world: World, site: Site, found: _DuplicateSearch, max_age: float
) -> None:
    """Ids that are also elsewhere, as the fabric shows."""
    functions = [m for m in spec.members if m.behind]
    if not functions:
        return
    try:
        elsewhere = world.fabric(fabric).snapshot(max_age, patient=True).elsewhere(functions)
    except WeftError:
        found.unknown |= {m.port for m in functions}  # the verdict reports why
        return
    names = own_ports(site, fabric)
    for port, why in elsewhere.items():
        found.out.add(port)
        name = names.get(port, port)
        node = name.partition("/")[0]
        kind, nodes = ProblemKind.FUNCTION_ELSEWHERE, (node,) if node in site.node_by_name else ()
        found.problems.append(
            Problem(kind, f"virtual port {port}", fabric, id=port, nodes=nodes, detail={"why": why})
        )
