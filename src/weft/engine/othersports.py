"""Ports of others on the site's own networks. They may be of servers that run: weft names them and removes none."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weft.engine.owners import Claim
from weft.engine.takeback import Stray
from weft.engine.world import World
from weft.model.resources import Kind

SHOWN = 5
"""Ports that a sentence names."""


def ports_on(
    world: World, networks: Mapping[str, str], where: str, own: Collection[str]
) -> dict[str, list[str]]:
    """Id of a network -> ports of others that hold it, for people; networks without any are left out.

    Args:
        networks: id -> name, in cloud `where`.
        own: ids of ports that are the site's.

    Raises `UnknownError`.
    """
    found: dict[str, list[str]] = {}
    for port in world.clouds[where].ports_on(list(networks)):
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
        for id_, ports in (ports_on(world, named, where, own) if named else {}).items():
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
