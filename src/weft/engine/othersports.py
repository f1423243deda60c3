"""Ports of others on the site's own networks. They may be of servers that run: weft names them and removes none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from weft.engine.owners import Claim
from weft.engine.records import ResourceRecord, RowState
from weft.engine.takeback import Stray
from weft.engine.world import World
from weft.model.errors import UnknownError
from weft.model.resources import Kind
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


def ports_on(
    world: World, networks: Mapping[str, str], where: str, own: Collection[str], known: Collection[str]
) -> dict[str, list[str]]:
    """Id of a network -> ports of others that hold it, for people; networks without any are left out.

    Args:
        networks: id -> name, in cloud `where`.
        own: ids of ports that are the site's.
        known: as in `seen_on`.

    Raises `UnknownError`.
    """
    found: dict[str, list[str]] = {}
    for port in seen_on(world, where, list(networks), known):
        if port.id not in own and port.holds:
            said = f"{port} of project {port.project_id} on {networks[port.network]}"
            found.setdefault(port.network, []).append(said)
    return found


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
