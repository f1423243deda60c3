"""Readings of nodes before they are released: each guest was destroyed, and nothing is on the hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from weft.engine.bystanders import without_adapters
from weft.engine.occupancy import held_nodes
from weft.engine.records import Change, PodRecord, ResourceRecord
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.site import Site
from weft.model.specs import ServerSpec
from weft.ports.occupants import Ended, Ending, OnHost

Result = Literal["clean", "not clean", "unknown"]
ENDED = "ended"
"""Fact of a server that was replaced, or whose node was given back: the record that says that nothing of it ran any
more by then."""
CLOCKS = timedelta(minutes=5)
"""How far the clocks of Nova and the database may be apart."""
Beside = Callable[[Collection[str]], frozenset[str]]
"""Nodes that several pods share -> ids of all pods' servers there."""
_OVER = (Ended.DESTROYED, Ended.NEVER_RAN)


@dataclass(frozen=True, slots=True)
class HostReading:
    """What was read about one host. `result` and `seen` are as in a receipt's items."""

    node: str
    result: Result
    seen: str


@dataclass(frozen=True, slots=True)
class GuestReading:
    """What Nova's record of actions, or Ironic's of the machine, says about the end of one server.

    Attributes:
        hosts: where it may still run, by Nova's names.
        stays: nothing removed it, as far as is known, or its record is too long to be read; what is only unknown, such
            as a removal without an end, isn't it.
    """

    record: ResourceRecord
    result: Result
    seen: str
    hosts: tuple[str, ...] = ()
    stays: bool = False


def read_guests(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, holding: Collection[str]
) -> Iterator[GuestReading]:
    """That Nova lacks a server says nothing about its guest: if nova-compute is down, Nova deletes only its own record.

    Args:
        holding: nodes that the pod still holds; guests of others aren't checked any more.
    """
    mine = [r for r in records if r.kind.row.on_host and _is_held(pod, r, holding)]
    gone = [one for r in mine for one in (*r.predecessors, r) if one.outside_id and one.is_nowhere]
    for record in gone:
        if ENDED in record.facts:
            yield GuestReading(record, "clean", record.facts[ENDED])
    unproved = [r for r in gone if ENDED not in r.facts]
    for record, ending in read_endings(pod.project_id, unproved, world):
        result = _result(ending, record)
        if result == "clean":
            yield GuestReading(record, result, _said(ending))
        else:
            stays = ending.cut or ending.how in (Ended.NOT_DESTROYED, Ended.LEFT_BEHIND)
            yield GuestReading(record, result, _said(ending), ending.hosts, stays)


def proofs(project_id: str, records: Sequence[ResourceRecord], world: World) -> Mapping[str, str]:
    """Key -> what proves that nothing of its guest runs; of others nothing can be said now.

    To be noted before something else is made in its place: Nova's record may be archived long before the release.
    """
    gone = [r for r in records if r.kind.row.on_host and r.outside_id and ENDED not in r.facts]
    read = read_endings(project_id, gone, world)
    return {r.key: _said(ending) for r, ending in read if ending.how in _OVER}


def ended(record: ResourceRecord, proof: str) -> Change:
    """Its row, with the proof that what it stands for until another one is made doesn't run any more."""
    facts = {**record.facts, ENDED: proof}
    return Change(
        record.key,
        record.state,
        None,
        record.reason,
        record.differences,
        facts,
        record.attempts,
        record.asked,
    )


def read_endings(
    project_id: str, records: Sequence[ResourceRecord], world: World
) -> Iterator[tuple[ResourceRecord, Ending]]:
    """How each of these ended; one question to each cloud and project. Records without an id are left out."""
    groups: dict[tuple[str, str], dict[str, ResourceRecord]] = {}
    for record in records:
        owner = project_id if record.resource.owner == "tenant" else ""
        if record.outside_id:
            groups.setdefault((record.resource.where, owner), {})[record.outside_id] = record
    for (cloud, project), mine in sorted(groups.items(), key=lambda g: g[0]):
        whole = [server for server, one in mine.items() if _has_machine(one)]
        for server, ending in world.clouds[cloud].endings(project, mine, whole).items():
            yield mine[server], ending


def _has_machine(record: ResourceRecord) -> bool:
    spec = record.resource.spec
    return isinstance(spec, ServerSpec) and spec.bare_metal


def read_hosts(
    pod: PodRecord,
    records: Sequence[ResourceRecord],
    world: World,
    site: Site,
    holding: Collection[str],
    maybe: Mapping[str, str],
    beside: Beside,
) -> Iterator[HostReading]:
    """Occupants of the nodes that the pod still holds, according to Nova and Placement.

    On shared nodes only its own servers must be gone: of those that were asked for and never seen, perhaps after one
    that has ended, whatever in its project has their names or was made since then, and isn't another pod's: its tenant
    may have renamed it. They have no record that could be read, either: if nova-compute is down, Nova may have
    forgotten one. A name alone says nothing: tenants choose the names of their servers, and may choose the same.

    On a whole node a server that isn't the pod's and has no adapter holds nothing back: the node isn't given to anybody
    while it is there, and nothing of the pod is in it.

    Args:
        maybe: Nova host -> what says that a guest of the pod may run there, though no listing shows it.
        beside: as in `Reader`.
    """
    servers = [r for r in records if r.kind.row.on_host]
    own = {one.outside_id for r in servers for one in (*r.predecessors, r) if one.outside_id}
    asked = [r for r in servers if r.started_at is not None]
    hosts = {r.resource.node for r in asked if not r.outside_id}
    shares = pod.plan.order.nodes.sharing == "shared"
    cloud = pod.plan.cloud
    nodes, unreadable = held_nodes(site, cloud, holding)
    yield from (HostReading(name, "unknown", why) for name, why in unreadable.items())
    seen = world.clouds[cloud].on_hosts([n.nova_host for n in nodes]) if nodes else {}
    others = {h: [o for o in one.occupants if o.id not in own] for h, one in seen.items()}
    harmless = frozenset[str]() if shares else without_adapters(world.clouds[cloud], pod.project_id, others)
    for node in nodes:
        one = seen[node.nova_host]
        left = [o for o in one.occupants if o.id in own or not (shares or o.id in harmless)]
        if left:
            yield HostReading(node.name, "not clean", f"there is {', '.join(o.text() for o in left)}")
        elif one.occupants and (unlike := _perhaps_its_own(pod, node.name, one, asked, world, beside)):
            yield unlike
        elif one.unknown or node.nova_host in maybe:
            yield HostReading(node.name, "unknown", one.unknown or maybe[node.nova_host])
        elif one.down and node.name in hosts:
            yield HostReading(node.name, "unknown", f"a server may be on it: {one.down}")
        else:
            yield HostReading(
                node.name, "clean", _nothing(one, node.nova_host, bool(shares or one.occupants))
            )


def _perhaps_its_own(
    pod: PodRecord,
    node: str,
    seen: OnHost,
    asked: Sequence[ResourceRecord],
    world: World,
    beside: Beside,
) -> HostReading | None:
    """What may be a server of the pod whose answer was lost, on a node with servers of others."""
    never = [r for r in asked if not r.outside_id or ENDED in r.facts]
    names = {r.resource.name for r in never}
    here = (r.started_at for r in never if r.resource.node == node)
    since = min((at for at in here if at is not None), default=None)
    suspects = [o for o in seen.occupants if since is not None or o.name in names]
    known = beside([node]) if suspects else frozenset[str]()
    if not (others := [o for o in suspects if o.id not in known]):
        return None
    try:
        made = world.clouds[pod.plan.cloud].made_by(pod.project_id, [o.id for o in others])
    except WeftError as error:
        return HostReading(node, "unknown", str(error))
    later = [o for o in others if o.id in made and since is not None and made[o.id] >= since - CLOCKS]
    its = later or [o for o in others if o.id in made and o.name in names]
    if not its:
        return None
    said = "was made in the pod's project after a server of the pod was asked for whose id was never answered"
    if not later:
        said = "in the pod's project has the name of a server of the pod whose id was never answered"
    return HostReading(node, "not clean", f"{', '.join(o.text() for o in its)} {said}")


def _nothing(seen: OnHost, host: str, shares: bool) -> str:
    """What was read of a host without remains of the pod."""
    if seen.by == "Ironic":
        return f"no instance on machine {host} by Ironic"
    if shares:
        return f"no server of the pod on {host} by Nova, and no allocation of one by Placement"
    return f"no server on {host} by Nova, of all projects, and no allocation by Placement"


def _is_held(pod: PodRecord, record: ResourceRecord, holding: Collection[str]) -> bool:
    """Whether remains of it would be on a node that the pod still holds, or on a shared host."""
    node = record.resource.node
    if not record.wanted:  # a released node belongs to others since then; it was checked before that
        return node in holding
    return node not in pod.held or node in holding


def _said(ending: Ending) -> str:
    return f"{ending.by}'s record: {ending.text}"


def _result(ending: Ending, record: ResourceRecord) -> Result:
    if ending.how in _OVER:
        return "clean"
    hostless = record.facts.get("host", "not shown") is None
    if ending.how is Ended.NO_RECORD and hostless:
        return "clean"  # it was deleted before Nova's scheduler had handed it to a cell, and never seen on a host
    if ending.how in (Ended.UNKNOWN, Ended.NO_RECORD, Ended.LEFT_BEHIND):
        return "unknown"
    # A failed build, or shelving, removed it from its host before Nova deleted it. But a build that failed after its
    # guest was started, such as over a conductor that didn't answer, leaves it running, and no host in Nova's row.
    failed = record.facts.get("status") == "ERROR" and not record.facts.get("launched_at")
    off = hostless and (failed or record.facts.get("status") == "SHELVED_OFFLOADED")
    return "clean" if off else "not clean"
