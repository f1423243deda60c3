"""A pod's adapters are in its segment only while the right server is on the right node.

The segment's row lists these adapters for whoever realizes it (the pod's loop, the fabric keeper, a repair). This is
where changes of servers by a tenant, an operator or Nova itself are noticed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.engine.heldpod import HeldPod
from weft.engine.notes import COMING
from weft.engine.occupancy import held_nodes
from weft.engine.ownerrecord import OwnerRecord
from weft.engine.records import PodRecord, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import Membership
from weft.model.kindrow import Home
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Resource
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec, ServerSpec
from weft.planning.fabric.functions import own_ports
from weft.ports.occupants import OnHost

OTHERS = "its host has something that doesn't belong to the pod"
AWAY = "the pod's server isn't on its host"
ONE_AWAY = "a server of the pod isn't on its host, where it has others"
AGAIN = "its machine doesn't run the pod's server now"


@dataclass(frozen=True, slots=True)
class Watched:
    """Result of checking a pod's nodes.

    Attributes:
        cloud: that the nodes are of.
        withheld: node -> why its adapters are out, shown to the tenant, too.
        foreign: those of them with somebody else on them.
        short: shared node that the pod has other servers on -> why not all of them; the others' adapters are in.
        unknown: node -> why it couldn't be determined; its adapters stay as they are.
    """

    cloud: str
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])
    foreign: frozenset[str] = frozenset()
    short: Mapping[str, str] = field(default_factory=dict[str, str])
    unknown: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def problems(self) -> tuple[Problem, ...]:
        def told(kind: ProblemKind, nodes: Mapping[str, str]) -> list[Problem]:
            return [Problem(kind, n, self.cloud, nodes=(n,), detail={"why": w}) for n, w in nodes.items()]

        return (
            *told(ProblemKind.NODE_WITHHELD, self.withheld),
            *told(ProblemKind.SERVER_WITHHELD, self.short),
            *told(ProblemKind.NODE_UNREAD, self.unknown),
        )


def watch_nodes(held: HeldPod, world: World, site: Site, arriving: bool) -> Watched:
    """Check what is on a pod's nodes and record which adapters are in its segment now.

    Args:
        arriving: the pod is being built or repaired: a server that wasn't seen on its node yet may be on its way, and
            must find its own key there.
    """
    pod, records = held.pod, {r.key: r for r in held.resources()}
    shares, follows = pod.plan.order.nodes.sharing == "shared", has_followers(records.values())
    nodes, unknown = held_nodes(site, pod.plan.cloud, pod.held)
    seen = world.clouds[pod.plan.cloud].on_hosts([n.nova_host for n in nodes]) if nodes else {}
    withheld: dict[str, str] = {}
    details: dict[str, str] = {}
    foreign: set[str] = set()
    short: dict[str, str] = {}
    away: list[ResourceRecord] = []
    for node in nodes:
        servers = [r for r in records.values() if r.kind.row.on_host and r.resource.node == node.name]
        try:
            own = [_own_ids(pod, server, records, world) for server in servers]
        except WeftError as error:
            unknown[node.name] = str(error)
            continue
        coming = [arriving or s.generation > pod.ready_generation for s in servers]
        deployed = not follows or all(s.state is RowState.SETTLED for s in servers)
        if shares:
            gone = _away(seen[node.nova_host], servers, own, coming)
            why, detail = _none_there(servers, gone)
            if gone and not why:
                short[node.name] = ONE_AWAY
                away += gone
        else:
            why, detail = _judge(seen[node.nova_host], servers, own, coming)
        if not why and any(coming) and not deployed:
            details[node.name] = COMING
        elif why:
            withheld[node.name], details[node.name] = why, detail
            foreign.update([node.name] if why is OTHERS else [])
        elif seen[node.nova_host].unknown:
            unknown[node.name] = seen[node.nova_host].unknown
    segment = next((r for r in records.values() if r.kind.row.home is Home.FABRIC), None)
    alone = _functions(away, records, site, segment.resource.where) if segment and away else frozenset[str]()
    changed = _members(pod, segment, site, details, unknown, alone) if segment else None
    held.withhold({n.name: details.get(n.name, "") for n in nodes if n.name not in unknown}, changed)
    return Watched(pod.plan.cloud, withheld, frozenset(foreign), short, unknown)


def all_members(owner: OwnerRecord, resource: Resource) -> SegmentSpec:
    """The segment with all adapters that may ever have been in it; a pod's row has only those that are in now."""
    spec = owner.plan.graph.by_key()[resource.key].spec if isinstance(owner, PodRecord) else resource.spec
    assert isinstance(spec, SegmentSpec)
    return spec


def has_outsiders(held: HeldPod) -> bool:
    """Whether a port is in a segment of the pod's, or may be, that must not be."""
    leaving = held.leaving().values()
    for record in (r for r in held.resources() if r.kind.row.home is Home.FABRIC and r.outside_id):
        spec = record.resource.spec
        assert isinstance(spec, SegmentSpec)
        seen = held.world.fabric(record.resource.where).snapshot()
        former = {m.port for ports in leaving for m in ports.get(record.key, ())}
        former = (former | all_members(held.pod, record.resource).ports) - spec.ports
        unread = any(p not in seen.ports or seen.ports[p].unread for p in former)
        if unread or seen.ports_in.get(spec.number, frozenset()) - spec.ports:
            return True
    return False


def has_followers(records: Iterable[ResourceRecord]) -> bool:
    """Whether there is a segment whose members follow the servers that it needs."""
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
    """Why the node's adapters must be out, and what was seen, for operators only; empty: they may be in."""
    others = [o for o in seen.occupants if not any(o.id in ids for ids in own)]
    if others:
        return OTHERS, ", ".join(o.text() for o in others)
    # A spare has no server any more, and no adapters in.
    if all(s.is_nowhere and not s.wanted for s in servers):
        return "", ""
    if any(c and s.state is not RowState.SETTLED for s, c in zip(servers, coming, strict=True)):
        return "", ""
    if seen.busy:  # known, whatever else is not
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
    """Servers that aren't on the host that pods share. Others belong there: the audit tells of those who don't, and it
    is nobody's key, since each function is in a segment by its own identity."""
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
    """As `_judge`: adapters that several servers use are out once all of these are away."""
    if not away or len(away) < sum(s.wanted for s in servers):
        return "", ""
    return AWAY, f"Nova doesn't show server {away[0].outside_id} on it"


def _functions(
    away: Iterable[ResourceRecord], records: Mapping[str, ResourceRecord], site: Site, fabric: str
) -> frozenset[str]:
    """Ports of virtual functions that these servers have of their own on the fabric, if such ports are in segments."""
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
    """The segment with the adapters that are in now; None: as it was.

    Args:
        out: nodes whose adapters are out; `alone`: ports that are, although others of their node may be in.
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
