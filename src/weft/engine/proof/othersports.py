"""Other projects' things on the site's own networks: ports, which may be of running servers, and subnets. weft reports
them, and removes neither them nor what they are on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from weft.engine.base.world import World
from weft.engine.proof.owners import Claim
from weft.engine.proof.takeback import Stray
from weft.engine.rows.records import ResourceRecord, RowState
from weft.model.errors import UnknownError, WeftError
from weft.model.resources import Kind
from weft.model.specs import NetworkSpec, SubnetSpec
from weft.ports.existing import NamedPort, NamedSubnet

SHOWN = 5
"""Most things that a sentence names."""
OthersUse = NamedPort | NamedSubnet


@dataclass(frozen=True, slots=True)
class OwnResources:
    """A site's own resources in one cloud, by ids.

    Attributes:
        ids: of all of them.
        ports: those that are known to exist, on the networks in question; a listing that shows none of them may hide
            others' as well.
        subnets: likewise for subnets.
    """

    ids: frozenset[str]
    ports: frozenset[str]
    subnets: frozenset[str]

    @classmethod
    def of(cls, records: Collection[ResourceRecord]) -> OwnResources:
        """From resources' rows: all ids, and the ports and subnets at rest."""
        ids = frozenset(r.outside_id for r in records if r.outside_id)
        return cls(ids, at_rest(records, Kind.PORT), at_rest(records, Kind.SUBNET))


def at_rest(records: Iterable[ResourceRecord], kind: Kind) -> frozenset[str]:
    """Ids of resources of a kind that are known to exist."""
    settled = (r for r in records if r.kind is kind and r.state is RowState.SETTLED)
    return frozenset(r.outside_id for r in settled if r.outside_id)


def seen_on(
    world: World, where: str, networks: Collection[str], known: Collection[str]
) -> Sequence[NamedPort]:
    """Ports of all projects on networks of a site, by the networks' ids.

    Args:
        known: ids of existing ports of weft's own.

    Raises `UnknownError`, also if none of `known` is listed.
    """
    found = world.clouds[where].ports_on(networks)
    _believed(found, known, "ports", "on the site's networks", where)
    return found


def _believed(found: Sequence[OthersUse], known: Collection[str], what: str, on: str, where: str) -> None:
    """Raise `UnknownError` for a listing that has none of weft's own things, if some are known to exist."""
    if known and not {one.id for one in found}.intersection(known):
        said = f"{len(found)} {what}, and none of the {len(known)} of weft's own"
        raise UnknownError(f"list {what} {on}", where, said, "ask again")


def others_on(
    world: World, where: str, networks: Collection[str], own: OwnResources
) -> dict[str, list[OthersUse]]:
    """Id of a network -> other projects' things there that keep it from being deleted, if there are any.

    Raises `UnknownError`.
    """
    return _others(*_seen(world, where, networks, own), own)


def _seen(
    world: World, where: str, networks: Collection[str], own: OwnResources
) -> tuple[Sequence[NamedPort], Sequence[NamedSubnet]]:
    """Ports and subnets of all projects."""
    ports, subnets = seen_on(world, where, networks, own.ports), world.clouds[where].subnets_on(networks)
    _believed(subnets, own.subnets, "subnets", "on the site's networks", where)
    return ports, subnets


def _others(
    ports: Sequence[NamedPort], subnets: Sequence[NamedSubnet], own: OwnResources
) -> dict[str, list[OthersUse]]:
    mine = [p for p in ports if not p.holds or p.id in own.ids or p.device in own.ids]
    found: dict[str, list[OthersUse]] = {}
    for one in (*(p for p in ports if p not in mine), *(s for s in subnets if s.id not in own.ids)):
        found.setdefault(one.network, []).append(one)
    return found


def in_groups(world: World, groups: Mapping[str, str], where: str, known: Collection[str]) -> list[str]:
    """Ports of others, as text, that are in security groups: the hardware's own are in none.

    Args:
        groups: id -> name, in cloud `where`. A project that shares one may have ports in it on networks of its own.
        known: ids of existing ports of weft's own that are in none of these groups; they are asked for as well.

    Raises `UnknownError`, also if none of `known` is listed.
    """
    if not groups:
        return []
    found = world.clouds[where].ports_in(groups, known)
    _believed(found, known, "ports", "in the site's security groups", where)
    return [
        f"{port} in security group {groups[group]}"
        for port in found
        for group in sorted(port.groups & groups.keys())
    ]


def keeping(
    world: World,
    going: Collection[str],
    records: Mapping[str, ResourceRecord],
    there: Mapping[str, str],
) -> Iterator[tuple[str, list[OthersUse]]]:
    """Other projects' things on networks and subnets that would be deleted; if a network is deleted with its subnets,
        only the network is reported.

    Args:
        going: keys of networks and subnets.
        records: of the whole site.
        there: key -> id, of what exists in the clouds now.

    Raises `UnknownError`.
    """
    on = {key: network_key(records[key]) for key in sorted(going)}
    named = {key: net for key, net in on.items() if net in there and (key == net or net not in going)}
    for where in sorted({records[key].resource.where for key in named} & world.clouds.keys()):
        here = [r for r in records.values() if r.resource.where == where and r.key in there]
        nets = {named[r.key] for r in here if r.key in named}
        on_them = [r for r in here if nets.intersection(r.resource.needs)]
        ports, subnets = (
            frozenset(there[r.key] for r in on_them if r.kind is kind) for kind in (Kind.PORT, Kind.SUBNET)
        )
        own = OwnResources(frozenset(there[r.key] for r in here), ports, subnets)
        others = others_on(world, where, {there[key] for key in nets}, own)
        for record in (r for r in here if r.key in named):
            on_it = [o for o in others.get(there[named[record.key]], ()) if _is_in(o, record)]
            if on_it:
                yield record.key, on_it


def network_key(record: ResourceRecord) -> str:
    """A network's own key, or that of a subnet's network; empty for anything else."""
    spec = record.resource.spec
    if isinstance(spec, SubnetSpec):
        return spec.network
    return record.key if isinstance(spec, NetworkSpec) else ""


def _is_in(other: OthersUse, record: ResourceRecord) -> bool:
    spec = record.resource.spec
    if not isinstance(spec, SubnetSpec):
        return True
    addresses = other.addresses if isinstance(other, NamedPort) else ()
    return any(ip_address(a) in ip_network(spec.cidr) for a in addresses)


def listed(things: Sequence[object]) -> str:
    """The first of these things, and how many more, as text."""
    more = f" and {len(things) - SHOWN} more" if things[SHOWN:] else ""
    return ", ".join(map(str, things[:SHOWN])) + more


def held_by_others(world: World, strays: Sequence[Stray]) -> tuple[dict[str, str], dict[str, WeftError]]:
    """Remains of sites that must stay: id -> why, as others use it or that is unknown; and cloud -> why it is
    unknown."""
    sites = [s for s in strays if is_a_sites(s)]
    why, unread = dict[str, str](), dict[str, WeftError]()
    for where in sorted({s.thing.where for s in sites} & world.clouds.keys()):
        here = [s for s in sites if s.thing.where == where]
        try:
            why |= _held_in(world, where, here)
        except WeftError as error:
            unread[where] = error
            why |= {s.thing.id: f"whether others use it is unknown: {error}" for s in here}
    return why, unread


def _held_in(world: World, where: str, strays: Sequence[Stray]) -> dict[str, str]:
    """What stays with a used network: what is on it, and the routers and external networks that its packets need."""

    things = [s.thing for s in strays]
    names = {t.id: t.name for t in things if t.kind is Kind.NETWORK}
    if not names:
        return {}
    # The rest may be on networks that have an owner again.
    on_them = [t for t in things if t.facts.get("network") in names]
    known = (frozenset(t.id for t in on_them if t.kind is kind) for kind in (Kind.PORT, Kind.SUBNET))
    own = OwnResources(frozenset(t.id for t in things), *known)
    ports, subnets = _seen(world, where, names, own)
    why = {
        network: f"others use network {names[network]}: {listed(others)}; remove them first"
        for network, others in _others(ports, subnets, own).items()
    }
    routers = {p.device: why[p.network] for p in ports if p.network in why and p.device in own.ids}
    for port in (p for p in ports if p.device in routers):
        why.setdefault(port.network, routers[port.device])
    stays = {one.id: why[one.network] for one in (*ports, *subnets) if one.network in why}
    return {id_: said for id_, said in (why | routers | stays).items() if id_ in own.ids}


def is_a_sites(stray: Stray) -> bool:
    """Whether it is what a site's owner has left."""
    owner = stray.ownership.owner
    return owner is not None and owner.kind == "site" and stray.ownership.claim is not Claim.COPIED
