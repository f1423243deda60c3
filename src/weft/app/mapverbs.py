"""The verb that follows a pod from its order to the ports of leaf switches, with what was read of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.book.capacity import Capacity
from weft.engine.nodes.drains import pods_on
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.errors import WeftError
from weft.model.fabric import Snapshot
from weft.model.site import Site
from weft.model.specs import SegmentSpec, ServerSpec
from weft.model.views import MapPort, PodMap
from weft.planning.fabric.cables import either, place_of_port, seen_ports

MOST_PORTS = 500
READING_AGE = 30.0
"""Seconds that a reading of the fabric may be old: it is shared with others who look."""
Membered = Literal["in", "not in", "unknown"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was read of a fabric; None: it couldn't be."""

    members: Snapshot | None
    members_unread: str
    cables: Mapping[int, str] | None
    cables_unread: str


class MapVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def map(self, request: Request, name: str) -> PodMap:
        """A pod's order, nodes, servers, ports, membership, leaf ports. What can't be read now is unknown, with why."""
        pod = self._desk.allowed(request, "pods:show", name, self._desk.store.pods.find)
        site, plan = self._desk.store.site().site, pod.placed
        fabric = plan.fabric if plan is not None and plan.fabric in site.fabrics else None
        started = self._desk.clock.monotonic()
        seen = self._read_fabric(site, fabric) if fabric else _Seen(None, "the pod is on no fabric", None, "")
        records = self._desk.store.pods.resources(pod.id)
        ports = list(_ports(pod, records, site, self._desk.store.capacity(), fabric, seen)) if fabric else []
        ports.sort(key=lambda port: (not port.differs, port.node, port.adapter, port.port))
        now = self._desk.clock.monotonic()
        return PodMap(
            pod=pod.name,
            id=str(pod.id),
            project_id=pod.project_id,
            state=str(pod.state),
            generation=pod.generation,
            ordered_at=pod.created_at,
            ordered_by=pod.created_by,
            fabric=fabric,
            segment=plan.allotment.segment if plan is not None else None,
            members_age=max(0.0, now - seen.members.began) if seen.members else None,
            members_unread=seen.members_unread,
            cables_age=now - started if seen.cables is not None else None,
            cables_unread=seen.cables_unread,
            ports=tuple(ports[:MOST_PORTS]),
            further=max(0, len(ports) - MOST_PORTS),
        )

    def _read_fabric(self, site: Site, fabric: str) -> _Seen:
        world = self._desk.keeper.world()
        members, why = _tried(lambda: world.fabric(fabric).snapshot(max_age=READING_AGE))
        observed, silent = _tried(lambda: world.fabric(fabric).topology())
        cables = seen_ports(site, fabric, observed) if observed is not None else None
        partial = (
            f"not all may be shown: {'; '.join(observed.partial)}" if observed and observed.partial else ""
        )
        return _Seen(members, why, cables, silent or partial)


def _tried(read: Callable[[], _T]) -> tuple[_T | None, str]:
    try:
        return read(), ""
    except WeftError as error:
        return None, str(error)


def _ports(
    pod: PodRecord,
    records: list[ResourceRecord],
    site: Site,
    capacity: Capacity,
    fabric: str,
    seen: _Seen,
) -> Iterator[MapPort]:
    """Ports that belong in the pod's segments on the fabric, then others that are in them."""
    held = pods_on(capacity, site.units.keys()).get(pod.id, ())
    live = [r for r in records if r.state is not RowState.ABSENT]
    servers: dict[str, list[ResourceRecord]] = {}
    for record in live:
        if isinstance(record.resource.spec, ServerSpec) and record.resource.node:
            servers.setdefault(record.resource.node, []).append(record)
    for record in live:
        spec = record.resource.spec
        if not isinstance(spec, SegmentSpec) or record.resource.where != fabric:
            continue
        wanted = {member.port: member.physical for member in spec.members} if record.wanted else {}
        inside = _inside(seen.members, spec.number)
        for port in [*wanted, *sorted(inside - wanted.keys())]:
            place = place_of_port(site, fabric, wanted.get(port, (port,)))
            node = place.node
            hold, mine = capacity.holds.get(node), servers.get(node, [])
            server = mine[0] if len(mine) == 1 else None  # on shared nodes a port may be of any of several
            whole = hold is not None and hold.pod.id == pod.id
            state, places = _membership(seen, port, spec.number, port not in wanted.get(port, (port,)))
            yield MapPort(
                node=node,
                held=node in held,
                held_since=hold.since if hold and whole else None,
                server=", ".join(sorted(one.resource.name for one in mine)),
                server_id=(server.outside_id or "") if server else "",
                server_state=str(server.state) if server else "",
                server_since=server.since if server else None,
                adapter=place.adapter,
                port=port,
                wanted=port in wanted,
                seen=state,
                places=places,
                leaf_wanted=place.wanted,
                leaf_seen=_leaf_seen(seen.cables or {}, place.found_by),
            )


def _leaf_seen(cables: Mapping[int, str], found_by: tuple[int, ...] | None) -> str | None:
    """See `MapPort.leaf_seen`."""
    return None if found_by is None else either(cables.get(key, "") for key in found_by)


def _inside(members: Snapshot | None, number: int) -> frozenset[str]:
    return members.ports_in.get(number, frozenset()) if members is not None else frozenset()


def _membership(seen: _Seen, port: str, number: int, is_function: bool) -> tuple[Membered, str]:
    """Whether a port is in a segment, and where that was read or why it is unknown."""
    if seen.members is None:
        return "unknown", seen.members_unread
    one = seen.members.ports.get(port)
    if one is None:
        other = "a virtual function's own port, which readings of this fabric don't list"
        return "unknown", other if is_function else "the reading has no such port"
    if one.unread:
        return "unknown", one.unread
    named = ", ".join(place.name for place in one.places if number in place.numbers)
    return ("in", named) if named else ("not in", ", ".join(place.name for place in one.places))
