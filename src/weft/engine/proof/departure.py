"""Reads nodes before they are freed: each guest was destroyed, and nothing is left on the hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from weft.engine.base.world import World
from weft.engine.book.occupancy import held_nodes
from weft.engine.proof.bystanders import without_adapters
from weft.engine.rows.records import Change, PodRecord, ResourceRecord
from weft.model.errors import WeftError
from weft.model.site import Site
from weft.model.specs import ServerSpec
from weft.planning.shapes.resolve import shape_of
from weft.ports.occupants import Ended, Ending, OnHost

Result = Literal["clean", "not clean", "unknown"]
ENDED = "ended"
"""Fact of a server that was replaced, or whose node was freed: the record that nothing of it was running any more by
then."""
CLOCKS = timedelta(minutes=5)
"""Greatest difference between the clocks of Nova and the database."""
Beside = Callable[[Collection[str]], frozenset[str]]
"""Shared nodes -> ids of all pods' servers on them."""
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
        stays: nothing removed it, as far as is known, or its record is too long to be read. False where the end is only
            unknown, as for a removal that hasn't finished.
    """

    record: ResourceRecord
    result: Result
    seen: str
    hosts: tuple[str, ...] = ()
    stays: bool = False


def read_guests(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, holding: Collection[str]
) -> Iterator[GuestReading]:
    """Read how guests ended: Nova's lack of a server proves nothing, as with nova-compute down it deletes only its row.

    Args:
        holding: nodes that the pod still holds; guests on others aren't checked any more.
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
    """Key -> proof that its guest isn't running, where there is one.

    Noted before a successor is created: Nova's record may be archived long before the release.
    """
    gone = [r for r in records if r.kind.row.on_host and r.outside_id and ENDED not in r.facts]
    read = read_endings(project_id, gone, world)
    return {r.key: _said(ending) for r, ending in read if ending.how in _OVER}


def ended(record: ResourceRecord, proof: str) -> Change:
    """Add to a row the proof that its server isn't running any more; it counts until a successor is created."""
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
    """How each of these servers ended, by one request per cloud and project. Records without an id are left out."""
    groups: dict[tuple[str, str], dict[str, ResourceRecord]] = {}
    for record in records:
        owner = project_id if record.resource.owner == "tenant" else ""
        if record.outside_id:
            groups.setdefault((record.resource.where, owner), {})[record.outside_id] = record
    for (cloud, project), mine in sorted(groups.items(), key=lambda g: g[0]):
        whole = {server: machine for server, one in mine.items() if (machine := _machine(one))}
        for server, ending in world.clouds[cloud].endings(project, mine, whole).items():
            yield mine[server], _believed(ending, mine[server])


def _believed(ending: Ending, record: ResourceRecord) -> Ending:
    """Nova's record, unless it contradicts what weft itself saw: a guest that was launched ran on some host."""
    launched = record.facts.get("launched_at")
    if ending.how is not Ended.NEVER_RAN or not launched:
        return ending
    said = f"{ending.text}, but Nova showed that it was launched at {launched}"
    return replace(ending, how=Ended.UNKNOWN, text=said, cut=True)


def _machine(record: ResourceRecord) -> str | None:
    """Machine of a bare-metal server, or None."""
    spec = record.resource.spec
    return spec.host if isinstance(spec, ServerSpec) and spec.bare_metal else None


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

    On shared nodes only the pod's own servers must be gone. Some were requested and never seen, perhaps as successors
    of one that ended, and Nova may have forgotten their record while nova-compute was down. So whatever in the pod's
    project has their names, or was created since, and isn't another pod's counts as one of them: its tenant may have
    renamed it. A name alone proves nothing, as tenants choose the names of their servers.

    On a whole node a server that isn't the pod's and has no adapter delays nothing: the node isn't assigned while that
    server is there, and nothing of the pod is in it.

    Args:
        maybe: Nova host -> why a guest of the pod may run there, though no listing shows it.
        beside: as in `ReleaseReader`.
    """
    servers = [r for r in records if r.kind.row.on_host]
    own = {one.outside_id for r in servers for one in (*r.predecessors, r) if one.outside_id}
    asked = [r for r in servers if r.started_at is not None]
    hosts = {r.resource.node for r in asked if not r.outside_id}
    shares = shape_of(pod.plan.order).shares_nodes
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
    """Servers, on a node with servers of others, that may be the pod's because an answer was lost."""
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
    """The text for a host without remains of the pod."""
    if seen.by == "Ironic":
        return f"no instance on machine {host} by Ironic"
    if shares:
        return f"no server of the pod on {host} by Nova, and no allocation of one by Placement"
    return f"no server on {host} by Nova, of all projects, and no allocation by Placement"


def _is_held(pod: PodRecord, record: ResourceRecord, holding: Collection[str]) -> bool:
    """Whether its remains would be on a node that the pod still holds, or on a shared host."""
    node = record.resource.node
    if not record.wanted:  # a node that was freed belongs to others since; it was checked before that
        return node in holding
    return node not in pod.held or node in holding


def _said(ending: Ending) -> str:
    return f"{ending.by}'s record: {ending.text}"


def _result(ending: Ending, record: ResourceRecord) -> Result:
    if ending.how in _OVER:
        return "clean"
    hostless, launched = record.facts.get("host", "not shown") is None, record.facts.get("launched_at")
    if ending.how is Ended.NO_RECORD and hostless and not launched:
        return "clean"  # deleted before Nova's scheduler handed it to a cell, and never seen on a host
    if ending.how in (Ended.UNKNOWN, Ended.NO_RECORD, Ended.LEFT_BEHIND):
        return "unknown"
    # A failed build, or shelving, removed it from its host before Nova deleted it. But a build that failed after its
    # guest was started, as when a conductor didn't answer, leaves the guest running and no host in Nova's row.
    failed = record.facts.get("status") == "ERROR" and not launched
    off = hostless and (failed or record.facts.get("status") == "SHELVED_OFFLOADED")
    return "clean" if off else "not clean"
