"""Readings of nodes before they are released: each guest was destroyed, and nothing is on the hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.engine.occupancy import whole_nodes
from weft.engine.records import PodRecord, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.site import Site
from weft.ports.occupants import Ended, Ending, OnHost

Result = Literal["clean", "not clean", "unknown"]


@dataclass(frozen=True, slots=True)
class HostReading:
    """What was read about one host. `result` and `seen` are as in a receipt's items."""

    node: str
    result: Result
    seen: str


@dataclass(frozen=True, slots=True)
class GuestReading:
    """What Nova's record of actions, or Ironic's of the machine, says about the end of one server."""

    record: ResourceRecord
    result: Result
    seen: str


def read_guests(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, holding: Collection[str]
) -> Iterator[GuestReading]:
    """That Nova lacks a server says nothing about its guest: if nova-compute is down, Nova deletes only its own record.

    Args:
        holding: nodes that the pod still holds; guests of others aren't checked any more.
    """
    groups: dict[tuple[str, str], dict[str, ResourceRecord]] = {}
    for record in records:
        made = record.kind.row.on_host and record.state is RowState.ABSENT
        if made and record.outside_id and _is_held(pod, record, holding):
            owner = pod.project_id if record.resource.owner == "tenant" else ""
            groups.setdefault((record.resource.where, owner), {})[record.outside_id] = record
    for (cloud, project), mine in sorted(groups.items(), key=lambda g: g[0]):
        for server, ending in world.clouds[cloud].endings(project, mine).items():
            yield GuestReading(
                mine[server], _result(ending, mine[server]), f"{ending.by}'s record: {ending.text}"
            )


def read_hosts(
    pod: PodRecord, world: World, site: Site, holding: Collection[str], own: Collection[str]
) -> Iterator[HostReading]:
    """Occupants of the nodes that the pod still holds, according to Nova and Placement.

    On shared nodes only its own servers must be gone.

    Args:
        own: ids of the pod's servers.
    """
    shares = pod.plan.order.nodes.sharing == "shared"
    cloud = pod.plan.cloud
    nodes = whole_nodes(site, cloud, holding)
    seen = world.clouds[cloud].on_hosts([n.nova_host for n in nodes]) if nodes else {}
    for node in nodes:
        one = seen[node.nova_host]
        left = [o for o in one.occupants if not shares or o.id in own]
        if left:
            yield HostReading(node.name, "not clean", f"there is {', '.join(o.text() for o in left)}")
        elif one.unknown:
            yield HostReading(node.name, "unknown", one.unknown)
        else:
            yield HostReading(node.name, "clean", _nothing(one, node.nova_host, shares))


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


def _result(ending: Ending, record: ResourceRecord) -> Result:
    if ending.how in (Ended.DESTROYED, Ended.NEVER_RAN):
        return "clean"
    if ending.how is Ended.NO_RECORD and record.facts.get("host") is None:
        return "clean"  # it was deleted before Nova's scheduler had handed it to a cell, and never seen on a host
    if ending.how in (Ended.UNKNOWN, Ended.NO_RECORD):
        return "unknown"
    # A failed build, or shelving, removed it from its host before Nova deleted it.
    off = record.facts.get("host") is None and record.facts.get("status") in ("ERROR", "SHELVED_OFFLOADED")
    return "clean" if off else "not clean"
