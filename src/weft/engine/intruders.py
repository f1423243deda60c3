"""Foreign objects on a pod's networks: ports, subnets and shares that a tenant, or others, put there.

What is decided for each, and why: docs/decisions/what-tenants-may-do-to-their-networks.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from weft.engine.records import PodRecord, ResourceRecord, RowState
from weft.engine.takeback import Stray
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.problem import Problem, ProblemKind
from weft.ports.networks import OnNetwork


@dataclass(frozen=True, slots=True)
class Intruder:
    """One thing on one network.

    Attributes:
        network: the network's row.
        closed: the network is one that nothing but the pod's own adapters may be on.
    """

    thing: OnNetwork
    network: ResourceRecord
    closed: bool

    @property
    def improper(self) -> bool:
        """Whether it degrades the pod. (A share is a difference of the network itself.)"""
        return self.closed and self.thing.kind != "share"

    def removable(self, pod: PodRecord) -> str:
        """Why an operator's repair removes it; empty: it doesn't."""
        if pod.wanted == "absent":
            return "it will be removed: the pod is being released, and its network can't be deleted before"
        if self.thing.kind == "share":
            return "it will be removed"
        if self.closed:
            return "it will be removed: only the pod's own may be there"
        return ""

    def problem(self) -> Problem:
        resource = self.network.resource
        return Problem(
            ProblemKind.FOREIGN_ON_NETWORK,
            resource.name,
            resource.where,
            resource.key,
            self.thing.id,
            detail={"thing": self.thing.text()},
        )

    def text(self) -> str:
        return self.problem().text()


def intruders(pod: PodRecord, records: Sequence[ResourceRecord], world: World) -> list[Intruder]:
    """Raises `UnknownError` or `PermanentError` if the cloud can't be asked."""
    networks = {
        r.outside_id: r
        for r in records
        if r.kind.row.network and r.outside_id and r.state is not RowState.ABSENT
    }
    facts = world.clouds.get(pod.plan.cloud)
    if not networks or facts is None:
        return []
    own = {r.outside_id for r in records if r.outside_id}
    joined = {r.outside_id for r in records if r.kind.row.joins_networks and r.outside_id}
    found: list[Intruder] = []
    for thing in facts.on_networks(pod.project_id, [n for n in networks if n]):
        network = networks.get(thing.network)
        of_the_pod = thing.device in joined and thing.owner.startswith("network:")
        if network is not None and thing.id not in own and not of_the_pod:
            found.append(Intruder(thing, network, network.resource.spec.is_closed))
    return found


def clear(world: World, cloud: str, project_id: str, things: Iterable[OnNetwork]) -> dict[str, str]:
    """Remove things, ports before what they stand on; id -> why one could not be."""
    order = {"port": 0, "subnet": 1, "share": 2}
    why: dict[str, str] = {}
    for thing in sorted(things, key=lambda t: (order[t.kind], t.id)):
        try:
            world.clouds[cloud].take_off(project_id, thing)
        except WeftError as error:
            why[thing.id] = str(error)
    return why


def clear_pod(
    pod: PodRecord, records: Sequence[ResourceRecord], world: World, ids: Collection[str]
) -> dict[str, str]:
    """Remove the intruders that still are intruders and may be removed; id -> why one could not be."""
    found = [i.thing for i in intruders(pod, records, world) if i.thing.id in ids and i.removable(pod)]
    return clear(world, pod.plan.cloud, pod.project_id, found)


def clear_strays(world: World, strays: Sequence[Stray]) -> dict[str, str]:
    """Remove what others have put on networks that are going to be removed; id -> why one could not be.

    Tenants are meant to be on a site's networks, with servers that no pod owns: nothing of theirs is removed there.
    """
    own = {s.thing.id for s in strays}
    why: dict[str, str] = {}
    for network in (s.thing for s in strays if s.thing.kind.row.network and not _is_a_sites(s)):
        if not network.project_id or network.where not in world.clouds:
            continue
        on_it = world.clouds[network.where].on_networks(network.project_id, [network.id])
        # Router interfaces of weft's own routers go with these.
        mine = [t for t in on_it if t.id not in own and t.device not in own and t.kind != "subnet"]
        why |= clear(world, network.where, network.project_id, mine)
    return why


def _is_a_sites(stray: Stray) -> bool:
    return stray.ownership.owner is not None and stray.ownership.owner.kind == "site"
