"""A pod's adapters are in its segment only while the right server is on the right node.

The segment's row lists these adapters for everything that applies it: the pod's loop, the fabric keeper, a repair. This
is where changes of servers by a tenant, an operator or Nova itself are noticed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.engine.base.world import World
from weft.engine.book.occupancy import held_nodes
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.notes import COMING
from weft.engine.proof.bystanders import Beside, beside, kept_adapters
from weft.engine.proof.duplicatemacs import DuplicateMacs, duplicate_macs
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.errors import WeftError
from weft.model.fabric import Membership
from weft.model.kindrow import Home
from weft.model.messages import problems
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec, ServerSpec
from weft.planning.fabric.functions import own_ports
from weft.planning.shapes.resolve import shape_of
from weft.ports.occupants import OnHost

log = logging.getLogger(__name__)

OTHERS = problems.OTHERS_ON_HOST()
BESIDE = problems.OTHERS_WITHOUT_ADAPTER()
SOME = problems.OTHERS_WITH_ADAPTERS()
AWAY = problems.SERVER_ELSEWHERE()
ONE_AWAY = problems.ONE_SERVER_ELSEWHERE()
AGAIN = problems.MACHINE_ELSEWHERE()


@dataclass(frozen=True, slots=True)
class WatchedNodes:
    """Result of checking a pod's nodes.

    Attributes:
        cloud: the nodes' cloud.
        withheld: node -> why its adapters are out; shown to the tenant, too.
        foreign: nodes among these with occupants that aren't the pod's.
        short: node with only some of its adapters in -> why: a server of a shared node is away, or something else is on
            a node whose server doesn't have all of its adapters.
        beside: node -> harmless occupants, shown to the tenant, too; its adapters are in.
        unknown: node -> why it couldn't be determined; its adapters stay as they are.
        duplicates: functions that aren't only where they belong.
    """

    cloud: str
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    foreign: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict[str, str])
    beside: Mapping[str, str] = field(default_factory=dict[str, str])
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])
    duplicates: DuplicateMacs = field(default_factory=DuplicateMacs)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Problems that keep no pod from being READY."""
        return (*self._problems_of(ProblemKind.NODE_BESIDE, self.beside), *self.duplicates.notes)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What keeps the pod from being READY."""
        return (
            *self._problems_of(ProblemKind.NODE_WITHHELD, self.withheld),
            *self._problems_of(ProblemKind.SERVER_WITHHELD, self.short),
            *self._problems_of(ProblemKind.NODE_UNREAD, self.unknown),
            *self.duplicates.problems,
        )

    def _problems_of(self, kind: ProblemKind, nodes: Mapping[str, str]) -> list[Problem]:
        return [Problem(kind, n, self.cloud, nodes=(n,), detail={"why": w}) for n, w in nodes.items()]


def watch_nodes(
    held: HeldPod, world: World, site: Site, arriving: bool, max_age: float = 0.0
) -> WatchedNodes:
    """Check what is on a pod's nodes and record which adapters are in its segment now.

    Args:
        arriving: the pod is being built or repaired: a server that wasn't seen on its node yet may be on its way, and
            must find its own key there.
        max_age: how many seconds ago the reading of a fabric may have begun; 0: it begins now.
    """
    pod, records = held.pod, {r.key: r for r in held.resources()}
    shares, follows = shape_of(pod.plan.order).shares_nodes, has_followers(records.values())
    nodes, unknown = held_nodes(site, pod.plan.cloud, pod.held)
    seen = world.clouds[pod.plan.cloud].on_hosts([n.nova_host for n in nodes]) if nodes else {}
    found = _NodeChecks(unknown=unknown)
    for node in nodes:
        servers = [r for r in records.values() if r.kind.row.on_host and r.resource.node == node.name]
        try:
            own = [_own_ids(pod, server, records, world) for server in servers]
        except WeftError as error:
            unknown[node.name] = error.message
            continue
        coming = [arriving or s.generation > pod.ready_generation for s in servers]
        deployed = not follows or all(s.state is RowState.SETTLED for s in servers)
        if shares:
            gone = _away(seen[node.nova_host], servers, own, coming)
            why, detail = _none_there(servers, gone)
            if gone and not why:
                found.short[node.name] = ONE_AWAY
                found.away += gone
        else:
            why, detail = _judge(seen[node.nova_host], servers, own, coming)
        if not why and any(coming) and not deployed:
            found.details[node.name] = COMING
        elif why:
            found.withheld[node.name], found.details[node.name] = why, detail
            if why is OTHERS:
                found.foreign.append(beside(node, seen[node.nova_host], servers, own))
        elif seen[node.nova_host].unknown:
            unknown[node.name] = seen[node.nova_host].unknown
    segment = next((r for r in records.values() if r.kind.row.home is Home.FABRIC), None)
    fabric = segment.resource.where if segment else ""
    out = _bystanders(found, pod, world, fabric, records)
    if segment and found.away:
        out |= _functions(found.away, records, site, fabric)
    single = duplicate_macs(pod, records, members_of(pod, records.values()), world, site, max_age)
    if segment:
        was = segment.resource.spec
        assert isinstance(was, SegmentSpec)
        out |= single.out | (single.unknown - was.ports)  # an unknown port stays as it is
    changed = _members(pod, segment, site, found.details, unknown, out) if segment else None
    held.nodes.withhold(
        {n.name: found.details.get(n.name, "") for n in nodes if n.name not in unknown}, changed
    )
    foreign = frozenset(one.node.name for one in found.foreign)
    return WatchedNodes(pod.plan.cloud, found.withheld, foreign, found.short, found.beside, unknown, single)


@dataclass(slots=True)
class _NodeChecks:
    """What was found so far; as in `WatchedNodes`, and `details`: node whose adapters are out -> why, for operators."""

    unknown: dict[str, str]
    withheld: dict[str, str] = field(default_factory=dict[str, str])
    details: dict[str, str] = field(default_factory=dict[str, str])
    short: dict[str, str] = field(default_factory=dict[str, str])
    beside: dict[str, str] = field(default_factory=dict[str, str])
    foreign: list[Beside] = field(default_factory=list[Beside])
    away: list[ResourceRecord] = field(default_factory=list[ResourceRecord])


def _bystanders(
    found: _NodeChecks, pod: PodRecord, world: World, fabric: str, records: Mapping[str, ResourceRecord]
) -> frozenset[str]:
    """Drop reasons of nodes whose other occupants have no adapter of the fabric; returns ports of theirs that are
    out."""
    if not found.foreign:
        return frozenset()
    facts = world.clouds[pod.plan.cloud]
    kept = kept_adapters(facts, pod.project_id, fabric, found.foreign, records)
    out: set[str] = set()
    for one in (f for f in found.foreign if f.node.name in kept):
        name = one.node.name
        rest = {h.port_id for h in one.node.hcas_on(fabric)} - kept[name] if fabric else set[str]()
        if rest and not kept[name]:
            continue
        del found.withheld[name]
        seen = found.details.pop(name)
        out |= rest
        (found.short if rest else found.beside)[name] = SOME if rest else BESIDE
        said = f"node {name}: {SOME if rest else BESIDE}"
        if said not in pod.reason:  # once, not at each visit
            log.warning("pod %s (%s): %s: %s", pod.name, pod.id, said, seen)
    found.foreign = [one for one in found.foreign if one.node.name in found.withheld]
    return frozenset(out)


def members_of(pod: PodRecord, records: Iterable[ResourceRecord]) -> dict[str, SegmentSpec]:
    """Fabric -> the pod's segment there, with all members that may be in it."""
    made = (r.resource for r in records if r.kind.row.home is Home.FABRIC)
    return {r.where: all_members(pod, r) for r in made}


def all_members(owner: OwnerRecord, resource: Resource) -> SegmentSpec:
    """The segment with all adapters that may ever have been in it; a pod's row has only those that are in now."""
    spec = owner.plan.graph.by_key()[resource.key].spec if isinstance(owner, PodRecord) else resource.spec
    assert isinstance(spec, SegmentSpec)
    return spec


def has_outsiders(held: HeldPod) -> bool:
    """Whether a port is, or may be, in a segment of the pod that must not be."""
    leaving = held.nodes.leaving().values()
    for record in (r for r in held.resources() if r.kind.row.home is Home.FABRIC and r.outside_id):
        spec = record.resource.spec_as(SegmentSpec)
        seen = held.world.fabric(record.resource.where).snapshot()
        former = {m.port for ports in leaving for m in ports.get(record.key, ())}
        former = (former | all_members(held.pod, record.resource).ports) - spec.ports
        unread = any(p not in seen.ports or seen.ports[p].unread for p in former)
        if unread or seen.ports_in.get(spec.number, frozenset()) - spec.ports:
            return True
    return False


def has_followers(records: Iterable[ResourceRecord]) -> bool:
    """Whether a segment's members follow the servers that it needs."""
    return any(r.kind.row.home is Home.FABRIC and r.resource.needs for r in records)


def _own_ids(
    pod: PodRecord, server: ResourceRecord, records: Mapping[str, ResourceRecord], world: World
) -> set[str]:
    """Ids of the pod's own server; if its creation wasn't answered, it is searched for. Raises `UnknownError`."""
    own = {server.outside_id} if server.outside_id else set[str]()
    if server.state is RowState.CREATING:
        ids = {r.key: r.outside_id for r in records.values() if r.outside_id}
        resource = server.resource
        found = world.driver(resource.where).find(pod.scope, [resource], ids).get(server.key)
        own |= {found.id} if found is not None and found.there else set()
    return own


def _judge(
    seen: OnHost, servers: Sequence[ResourceRecord], own: Sequence[set[str]], coming: Sequence[bool]
) -> tuple[str, str]:
    """Why the node's adapters must be out, and what was observed, for operators only; empty: they may be in."""
    others = [o for o in seen.occupants if not any(o.id in ids for ids in own)]
    if others:
        return OTHERS, ", ".join(o.text() for o in others)
    # A node that became a spare has no server, and no adapters in.
    if all(s.is_nowhere and not s.wanted for s in servers):
        return "", ""
    if any(c and s.state is not RowState.SETTLED for s, c in zip(servers, coming, strict=True)):
        return "", ""
    if seen.busy:  # known, whatever else is unknown
        return AGAIN, seen.busy
    if seen.unknown or any(o.runs for o in seen.occupants):
        return "", ""
    return (
        AWAY,
        f"{'Ironic' if seen.by == 'Ironic' else 'Nova'} doesn't show server {servers[0].outside_id} on it",
    )


def _away(
    seen: OnHost, servers: Sequence[ResourceRecord], own: Sequence[set[str]], coming: Sequence[bool]
) -> list[ResourceRecord]:
    """Servers that aren't on the shared host. Other occupants may belong there: the audit reports those that don't, and
    they can't use anyone's key, since each function is in a segment by its own identity."""
    there = {o.id for o in seen.occupants if o.nova}
    return [
        server
        for server, ids, is_coming in zip(servers, own, coming, strict=True)
        if server.wanted
        and not seen.unknown
        and not ids & there
        and (server.state is RowState.SETTLED or not is_coming)
    ]


def _none_there(servers: Sequence[ResourceRecord], away: Sequence[ResourceRecord]) -> tuple[str, str]:
    """As `_judge`: adapters that several servers share are out once all of these servers are away."""
    if not away or len(away) < sum(s.wanted for s in servers):
        return "", ""
    return AWAY, f"Nova doesn't show server {away[0].outside_id} on it"


def _functions(
    away: Iterable[ResourceRecord], records: Mapping[str, ResourceRecord], site: Site, fabric: str
) -> frozenset[str]:
    """Ports of virtual functions that these servers have on the fabric, if such ports are members of segments."""
    names = {
        f"{server.resource.node}/{spec.function}"
        for server in away
        if isinstance(server.resource.spec, ServerSpec)
        for key in server.resource.spec.ports
        if key in records and isinstance(spec := records[key].resource.spec, PortSpec)
    }
    return frozenset(port for port, name in own_ports(site, fabric).items() if name in names)


def _members(
    pod: PodRecord,
    record: ResourceRecord,
    site: Site,
    out: Mapping[str, str],
    unknown: Mapping[str, str],
    alone: Collection[str],
) -> Resource | None:
    """The segment with the adapters that should be in it now; None if that is unchanged.

    Args:
        out: nodes whose adapters are out.
        alone: ports that are out, although others of their node may be in.
    """
    was = record.resource.spec
    assert isinstance(was, SegmentSpec)

    def inside(member: Membership) -> bool:
        port = (record.resource.where, member.physical[0])
        owner = site.port_by_id.get(port)
        name = owner[0].name if owner else ""
        unread = name in unknown if owner else bool(unknown) and port not in site.machine_by_port
        return member.port in was.ports if unread else name not in out and member.port not in alone

    members = tuple(m for m in all_members(pod, record.resource).members if inside(m))
    if members == was.members:
        return None
    return record.resource.model_copy(update={"spec": was.model_copy(update={"members": members})})
