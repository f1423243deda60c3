"""Intruders on a pod's resources: ports, subnets and shares on its networks, and uses of its groups, ports and routers
that weft didn't create.

What is decided for each, and why: docs/decisions/what-tenants-may-do-to-their-networks.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.engine.base.world import World
from weft.engine.proof.takeback import Stray
from weft.engine.rows.records import PodRecord, ResourceRecord, RowState
from weft.model.errors import WeftError
from weft.model.kinds import Kind
from weft.model.problem import Problem, ProblemKind
from weft.model.specs import PortSpec
from weft.model.uses import ROUTER_PORTS, Use
from weft.ports.fences import Fence
from weft.ports.listings import SharedListings
from weft.ports.networks import USED


@dataclass(frozen=True, slots=True)
class Intruder:
    """One use of one resource of a pod.

    Attributes:
        record: the used resource's row.
        closed: it is, or is on, a network that only the pod's own adapters may be on.
    """

    thing: Use
    record: ResourceRecord
    closed: bool

    @property
    def improper(self) -> bool:
        """Whether it degrades the pod. (A share is a difference of the network itself.)"""
        return self.closed and self.thing.kind != "share"

    def removable(self, pod: PodRecord) -> str:
        """Why an operator's repair removes it; empty: it doesn't."""
        ends = self.thing.end
        if pod.wanted == "absent":
            return (
                f"{ends}: the pod is being released, and its {self.thing.of.row.one} can't be deleted before"
            )
        if self.thing.kind == "share":
            return ends
        if self.closed:
            return f"{ends}: only the pod's own may be there"
        return ""

    def problem(self) -> Problem:
        """The use as a problem of the pod."""
        resource, on_network = self.record.resource, self.thing.of.row.network
        return Problem(
            ProblemKind.FOREIGN_ON_NETWORK if on_network else ProblemKind.FOREIGN_USE,
            resource.name if on_network else f"{self.thing.of.row.one} {resource.name}",
            resource.where,
            resource.key,
            self.thing.id,
            detail={"thing": self.thing.text()},
        )

    def text(self) -> str:
        """A sentence with what it is and on what."""
        return self.problem().text()


def intruders(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, listings: SharedListings | None = None
) -> list[Intruder]:
    """The intruders on its networks. Raises `UnknownError` or `PermanentError` if the cloud can't be asked.

    Args:
        listings: shared with others who observe the pod now.
    """
    networks, facts = networks_there(records), world.clouds.get(pod.plan.cloud)
    if not networks or facts is None:
        return []
    return among_uses(records, facts.on_networks(pod.project_id, list(networks), listings))


def networks_there(records: Sequence[ResourceRecord]) -> dict[str, ResourceRecord]:
    """Id -> row, of networks that aren't known to be gone."""
    return _there(records, (r for r in records if r.kind.row.network))


def among_uses(records: Sequence[ResourceRecord], on_networks: Iterable[Use]) -> list[Intruder]:
    """The intruders on an owner's networks, of what was read on these and others."""
    networks = networks_there(records)
    own = {r.outside_id for r in records if r.outside_id}
    joined = {r.outside_id for r in records if r.kind.row.joins_networks and r.outside_id}
    found: list[Intruder] = []
    for thing in on_networks:
        network = networks.get(thing.on)
        of_the_pod = thing.device in joined and thing.owner in ROUTER_PORTS
        if network is not None and thing.id not in own and not of_the_pod:
            found.append(Intruder(thing, network, network.resource.spec.is_closed))
    return found


def users(pod: PodRecord, records: Sequence[ResourceRecord], world: World) -> list[Intruder]:
    """The intruders that use its groups, ports and routers. Raises like `intruders`."""
    used, facts = used_there(records), world.clouds.get(pod.plan.cloud)
    if not used or facts is None:
        return []
    return users_among(records, facts.uses(pod.project_id, used))


def used_there(records: Sequence[ResourceRecord]) -> dict[Kind, list[str]]:
    """Ids, by kind, of groups, ports and routers that aren't known to be gone."""
    return _by_kind((r.kind, i) for i, r in _there(records, (r for r in records if r.kind in USED)).items())


def users_among(records: Sequence[ResourceRecord], uses: Iterable[Use]) -> list[Intruder]:
    """The users of an owner's resources, of the uses of these and others."""
    used = _there(records, (r for r in records if r.kind in USED))
    own = {r.outside_id for r in records if r.outside_id}
    by_key = {r.key: r for r in records}
    found: dict[str, Intruder] = {}
    for use in uses:
        record = used.get(use.on)
        if record is not None and not _is_its_own(use, own):
            # A floating IP of a port that goes through its router is one use: it ends as one.
            found.setdefault(
                use.id if use.kind == "floating_ip" else f"{use.id} {use.on}",
                Intruder(use, record, _is_on_closed(record, by_key)),
            )
    return list(found.values())


def _there(records: Sequence[ResourceRecord], some: Iterable[ResourceRecord]) -> dict[str, ResourceRecord]:
    """Id -> row, of what isn't known to be gone."""
    return {r.outside_id: r for r in some if r.outside_id and r.state is not RowState.ABSENT}


def _by_kind(things: Iterable[tuple[object, str]]) -> dict[Kind, list[str]]:
    found: dict[Kind, list[str]] = {}
    for kind, thing_id in things:
        assert isinstance(kind, Kind)
        found.setdefault(kind, []).append(thing_id)
    return found


def _is_its_own(use: Use, own: Collection[str]) -> bool:
    """Whether it is the pod's own port or floating IP, or the interface of its router on its network."""
    return use.id in own or (use.of.row.joins_networks and use.network in own)


def _is_on_closed(record: ResourceRecord, records: Mapping[str, ResourceRecord]) -> bool:
    spec = record.resource.spec
    network = records.get(spec.network or "") if isinstance(spec, PortSpec) else None
    return network is not None and network.resource.spec.is_closed


def clear(world: World, cloud: str, project_id: str, things: Iterable[Use], fence: Fence) -> dict[str, str]:
    """End uses, dependent ones first; id -> why one could not be ended. Args: fence: called right before each."""
    order = ("floating_ip", "vpn_service", "vpn_endpoint_group", "trunk", "port", "subnet", "share")
    why: dict[str, str] = {}
    for thing in sorted(things, key=lambda t: (order.index(t.kind), not t.of.row.joins_networks, t.id)):
        try:
            fence()
            world.clouds[cloud].take_off(project_id, thing)
        except WeftError as error:
            why[thing.id] = str(error)
    return why


def clear_pod(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, ids: Collection[str], fence: Fence
) -> dict[str, str]:
    """Remove the intruders with these ids that still exist and may be removed; id -> why one could not be. Args: fence:
    as for `clear`."""
    there = [*intruders(pod, records, world), *users(pod, records, world)]
    found = [i.thing for i in there if i.thing.id in ids and i.removable(pod)]
    return clear(world, pod.plan.cloud, pod.project_id, found, fence)


def clear_strays(world: World, strays: Sequence[Stray], fence: Fence) -> dict[str, str]:
    """End other projects' uses of things that are about to be removed; id -> why one could not be. Args: fence: as for
        `clear`.

    Tenants are meant to be on a site's networks, with servers that no pod owns: nothing of theirs is removed there.
    """
    own = {s.thing.id for s in strays}
    things: dict[tuple[str, str], list[tuple[object, str]]] = {}
    for thing in (s.thing for s in strays if not _is_a_sites(s)):
        if thing.project_id and thing.where in world.clouds:
            things.setdefault((thing.where, thing.project_id), []).append((thing.kind, thing.id))
    why: dict[str, str] = {}
    for (where, project_id), here in things.items():
        facts = world.clouds[where]
        networks = [i for kind, i in here if isinstance(kind, Kind) and kind.row.network]
        used = _by_kind((kind, i) for kind, i in here if kind in USED)
        # Router interfaces of weft's own routers go with these, and subnets with their networks.
        on_it = [
            u for u in facts.on_networks(project_id, networks) if u.device not in own and u.kind != "subnet"
        ]
        users = [u for u in facts.uses(project_id, used) if not _is_its_own(u, own)] if used else []
        why |= clear(world, where, project_id, [u for u in (*on_it, *users) if u.id not in own], fence)
    return why


def _is_a_sites(stray: Stray) -> bool:
    return stray.ownership.owner is not None and stray.ownership.owner.kind == "site"
