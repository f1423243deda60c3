"""Ports of others on the site's own networks. They may be of servers that run: weft names them and removes none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from weft.engine.owners import Claim
from weft.engine.records import ResourceRecord, RowState
from weft.engine.takeback import Stray
from weft.engine.world import World
from weft.model.errors import UnknownError
from weft.model.resources import Kind
from weft.model.specs import NetworkSpec, SubnetSpec
from weft.ports.existing import NamedPort

SHOWN = 5
"""Ports that a sentence names."""


def own_ports(records: Iterable[ResourceRecord]) -> frozenset[str]:
    """Ids of those that are known to be there."""
    at_rest = (r for r in records if r.kind is Kind.PORT and r.state is RowState.SETTLED)
    return frozenset(r.outside_id for r in at_rest if r.outside_id)


def seen_on(
    world: World, where: str, networks: Collection[str], known: Collection[str]
) -> Sequence[NamedPort]:
    """Ports of all projects on networks of a site, by the networks' ids.

    Args:
        known: ids of ports of weft's own that are there.

    Raises `UnknownError`, also if none of `known` is listed: what doesn't show them may hide others' as well.
    """
    found = world.clouds[where].ports_on(networks)
    if known and not {p.id for p in found}.intersection(known):
        said = f"{len(found)} ports, and none of the {len(known)} of weft's own"
        raise UnknownError("list ports on the site's networks", where, said, "ask again")
    return found


def others_on(
    world: World, where: str, networks: Collection[str], own: Collection[str], known: Collection[str]
) -> list[NamedPort]:
    """Ports of others that hold these networks, by the networks' ids.

    Args:
        own: ids of ports and routers that are the site's.
        known: as in `seen_on`.

    Raises `UnknownError`.
    """
    found = seen_on(world, where, networks, known)
    return [port for port in found if port.holds and port.id not in own and port.device not in own]


def ports_on(
    world: World, networks: Mapping[str, str], where: str, own: Collection[str], known: Collection[str]
) -> dict[str, list[str]]:
    """`others_on` for people: id of a network -> its ports; networks without any are left out.

    Args:
        networks: id -> name, in cloud `where`.
    """
    found: dict[str, list[str]] = {}
    for port in others_on(world, where, list(networks), own, known):
        found.setdefault(port.network, []).append(f"{port} on {networks[port.network]}")
    return found


def in_groups(world: World, groups: Mapping[str, str], where: str) -> list[str]:
    """Ports of others, for people, that keep security groups from being deleted: the hardware's own are in none.

    Args:
        groups: id -> name, in cloud `where`. Who shares one may have ports in it on networks of its own.

    Raises `UnknownError`.
    """
    found = world.clouds[where].ports_in(groups) if groups else ()
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
) -> Iterator[tuple[str, list[NamedPort]]]:
    """Ports of others that keep networks and subnets from being deleted; of a network that goes with its subnets, it
    alone is named.

    Args:
        going: keys of networks and subnets.
        records: of the whole site.
        there: key -> id, of what the clouds have now.

    Raises `UnknownError`.
    """
    on = {key: network_key(records[key]) for key in sorted(going)}
    named = {key: net for key, net in on.items() if net in there and (key == net or net not in going)}
    for where in sorted({records[key].resource.where for key in named} & world.clouds.keys()):
        here = [r for r in records.values() if r.resource.where == where and r.key in there]
        nets = {named[r.key] for r in here if r.key in named}
        known = {there[r.key] for r in here if r.kind is Kind.PORT and nets.intersection(r.resource.needs)}
        ids = {there[key] for key in nets}
        ports = others_on(world, where, ids, {there[r.key] for r in here}, known)
        for record in (r for r in here if r.key in named):
            on_it = [p for p in ports if p.network == there[named[record.key]] and _is_in(p, record)]
            if on_it:
                yield record.key, on_it


def network_key(record: ResourceRecord) -> str:
    """Of a network its own, of a subnet that of its network; of all else none."""
    spec = record.resource.spec
    if isinstance(spec, SubnetSpec):
        return spec.network
    return record.key if isinstance(spec, NetworkSpec) else ""


def _is_in(port: NamedPort, record: ResourceRecord) -> bool:
    spec = record.resource.spec
    if not isinstance(spec, SubnetSpec):
        return True
    return any(ip_address(a) in ip_network(spec.cidr) for a in port.addresses)


def listed(ports: Sequence[str]) -> str:
    more = f" and {len(ports) - SHOWN} more" if ports[SHOWN:] else ""
    return ", ".join(ports[:SHOWN]) + more


def held(world: World, strays: Sequence[Stray]) -> dict[str, str]:
    """Id of a network that a site has left, and of its subnets -> why it stays: others have ports there.

    Raises `UnknownError`.
    """
    sites = [s for s in strays if _is_a_sites(s) and s.thing.where in world.clouds]
    own = {s.thing.id for s in strays}
    why: dict[str, str] = {}
    for where in sorted({s.thing.where for s in sites}):
        here = [s for s in sites if s.thing.where == where]
        networks = {s.thing.id: s for s in here if s.thing.kind is Kind.NETWORK}
        named = {id_: s.thing.name for id_, s in networks.items()}
        known = {s.thing.id for s in here if s.thing.kind is Kind.PORT}
        for id_, ports in (ports_on(world, named, where, own, known) if named else {}).items():
            said = f"others have ports there: {listed(ports)}; remove them first"
            why |= {s.thing.id: said for s in here if _belongs(s, networks[id_])}
    return why


def _is_a_sites(stray: Stray) -> bool:
    owner = stray.ownership.owner
    return owner is not None and owner.kind == "site" and stray.ownership.claim is not Claim.COPIED


def _belongs(stray: Stray, network: Stray) -> bool:
    """Whether it is this network or a subnet of it."""
    if stray.thing.kind is Kind.SUBNET and stray.ownership.owner == network.ownership.owner:
        return _network_of(stray) == _network_of(network)
    return stray is network


def _network_of(stray: Stray) -> str:
    """From its key, `network/NAME` or `subnet/NAME/SUBNET`; anybody may have written another."""
    return str(stray.thing.facts.get("key")).partition("/")[2].partition("/")[0]
