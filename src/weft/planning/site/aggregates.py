"""Whether Nova's host aggregates keep servers of other flavors off pods' hosts. Pure.

Source: Nova's `AggregateTypeAffinityFilter`: a host takes the flavors that the values of `instance_type` of its
aggregates name, separated by commas, and any flavor if none of its aggregates has the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from weft.model.livecheck import LiveCheck
from weft.model.site import Flavor, Node, Site
from weft.model.specs import AggregateSpec

KEY = "instance_type"
FILTER_UNREAD = (
    "whether Nova's scheduler enforces the aggregates can't be read: AggregateTypeAffinityFilter must be among its "
    "enabled_filters (docs/decisions/other-flavors-stay-off-pods-hosts.md)"
)
MOST = 255
"""Most characters of a value of an aggregate's metadata in Nova's schema."""
_SOME = 3
"""Names in one sentence."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A host aggregate of Nova's.

    Attributes:
        flavors: that `instance_type` names; None: it has no such key.
    """

    name: str
    hosts: frozenset[str] = field(default_factory=frozenset[str])
    flavors: frozenset[str] | None = None


def compare_aggregates(site: Site, cloud: str, aggregates: Sequence[Aggregate]) -> LiveCheck:
    """Hosts that any flavor can be scheduled on, flavors of the site that can't be scheduled on a host that has their
    accelerators, and flavors that the site doesn't describe."""
    nodes = virtual_hosts(site, cloud)
    named = {n.name: _named(aggregates, n.nova_host) for n in nodes}
    free = [name for name, flavors in named.items() if flavors is None]
    problems = [*([_unnamed(free)] if free else [])]
    described = site.clouds[cloud].flavors
    for flavor, one in sorted(described.items()):
        lacking = [
            n.name
            for n in nodes
            if _fits(one, n) and (its := named[n.name]) is not None and flavor not in its
        ]
        if lacking:
            problems.append(
                f"no server of flavor {flavor} can be scheduled on {_listed(lacking)}: add it to {KEY}"
            )
    theirs = {f for flavors in named.values() for f in flavors or ()} - described.keys()
    notes = [FILTER_UNREAD] if nodes else []
    if described and theirs:
        notes.insert(
            0, f"{KEY} of pods' hosts also names {_listed(sorted(theirs))}, which the site doesn't describe"
        )
    return LiveCheck(problems=tuple(problems), notes=tuple(notes))


def wanted_aggregates(site: Site, cloud: str) -> dict[str, AggregateSpec]:
    """Machine type -> its aggregate; none where the site keeps hosts free otherwise, or has no flavor for them.

    A machine type is named by its accelerators, such as `h100x8`; `cpu` has none.
    """
    found: dict[str, AggregateSpec] = {}
    if site.clouds[cloud].hosts_kept_free != "aggregate":
        return found
    by_type: dict[str, list[Node]] = {}
    for node in virtual_hosts(site, cloud):
        by_type.setdefault(node.machine_type, []).append(node)
    for name, nodes in sorted(by_type.items()):
        flavors = sorted(f for f, one in site.clouds[cloud].flavors.items() if _fits(one, nodes[0]))
        if flavors:
            hosts = tuple(sorted({n.nova_host for n in nodes}))
            found[name] = AggregateSpec(flavors=tuple(flavors), hosts=hosts)
    return found


def virtual_hosts(site: Site, cloud: str) -> list[Node]:
    """Nodes of a cloud on which Nova schedules servers: bare metal is taken whole."""
    return [n for n in site.nodes if n.role == "compute" and n.cloud == cloud and n.machine is None]


def _named(aggregates: Iterable[Aggregate], host: str) -> frozenset[str] | None:
    """Flavors that the host takes; None: any."""
    found = [a.flavors for a in aggregates if host in a.hosts and a.flavors is not None]
    return frozenset().union(*found) if found else None


def _fits(flavor: Flavor, node: Node) -> bool:
    wanted = flavor.accelerators
    if flavor.bare_metal:
        return False
    return wanted is None or sum(a.type == wanted.type for a in node.accelerators) >= wanted.count


def _unnamed(names: Sequence[str]) -> str:
    which = f"{_listed(names)} {'are' if len(names) > 1 else 'is'}"
    return f"servers of any flavor can be scheduled on pods' hosts: {which} in no host aggregate with {KEY}"


def _listed(names: Sequence[str] | Iterator[str]) -> str:
    some = list(names)
    more = f" and {len(some) - _SOME} more" if len(some) > _SOME else ""
    return f"{', '.join(some[:_SOME])}{more}"
