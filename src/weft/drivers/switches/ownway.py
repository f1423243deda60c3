"""Others' configuration in the way of a VLAN of the site's own networks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.drivers.switches.cabling import switch_of
from weft.drivers.switches.names import read_name
from weft.drivers.switches.own import SHOWN, Own, check_readable, listed
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY, PortVlans
from weft.drivers.switches.wanted import DEFAULT
from weft.model.fabrictypes import Mode
from weft.model.owner import Owner


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Someone else's configuration in the way of the VLAN.

    Attributes:
        what: VLAN or port; `has`: its configuration.
        owner: another owner in this site's weft, to whom the VLAN belongs by its name.
        adoptable: it is the same VLAN, and could become weft's; also under an owner's name, if that owner is
        gone.
    """

    what: str
    has: str
    then: str
    owner: Owner | None = None
    adoptable: bool = False


def in_the_way(own: Own, seen: EthernetSnapshot, ours: Mapping[str, frozenset[int]]) -> Iterator[InTheWay]:
    """What is in the VLAN's way. Once it is weft's, only errors in the site count: others' changes are repaired then.
    Raises `UnknownError`.

    Args:
        ours: port -> VLANs of the site's own networks that weft has put it into, and removes it from.
    """
    check_readable(own.spec, seen)
    for member in own.spec.members:
        if member.port in seen.cabling.member:
            then = "give the hardware another port, in the site"
            yield InTheWay(f"port {member.port}", "an adapter whose pods have it", then)
        elif why := seen.why_unread(member.port):
            yield InTheWay(f"port {member.port}", f"no place: {why}", "correct the site")
    if own.ours:
        return
    yield from _named(own, seen)
    for member in own.spec.members:
        now = seen.ends.get(member.port)
        if now is None:
            continue
        others = _others(now, own.number, member.mode, ours.get(member.port, frozenset()))
        if others:
            then = "take it out of that, or correct the site"
            yield InTheWay(f"port {member.port}", others, then)


def _named(own: Own, seen: EthernetSnapshot) -> Iterator[InTheWay]:
    tables = seen.configured.read
    names: dict[str, list[str]] = {}
    for switch in seen.cabling.spread(own.spec.ports):
        name = tables.get(switch, {}).get(own.number, "")
        if name not in ("", own.name):
            names.setdefault(name, []).append(switch)
    for name, switches in names.items():
        named = read_name(name, seen.site.name)
        has, where = f"the name {name!r}", f" on {', '.join(switches)}"
        if named is None:
            then = "adopt it with --adopt, or remove it"
            yield InTheWay(own.spec.named, has + where, then, adoptable=True)
        elif not named.ours:
            then = "give the network another VLAN, or release that with the other site's weft"
            yield InTheWay(own.spec.named, f"{has}, which is another site's,{where}", then)
        else:
            left = named.owner.kind == "site"
            then = "release that first"
            yield InTheWay(own.spec.named, has + where, then, named.owner, adoptable=left)


def _others(now: PortVlans, number: int, mode: Mode | None, ours: frozenset[int]) -> str:
    """A port's configuration that excludes this VLAN; empty if there is none. Args: ours: VLANs that weft
    removes from it."""
    if mode is Mode.TRUNK:
        return f"{number} as its VLAN without a tag" if now.untagged == number else ""
    if now.untagged not in (None, DEFAULT, number, *ours):
        return f"VLAN {now.untagged}, which isn't this network's"
    if now.tagged == EVERY:
        # Without a VLAN of its own: the default of an Open vSwitch port that was never set.
        return "" if now.untagged is None else "every VLAN, as a trunk"
    tagged = now.tagged - ours
    return f"VLAN {listed(tagged)} with a tag" if tagged else ""


def all_carrying(own: Sequence[Own], seen: EthernetSnapshot) -> Sequence[str]:
    """Ports that carry every VLAN, on switches that have these VLANs: they are in these VLANs without having been put
    into any."""
    known = seen.cabling.uplinks.union(*(one.ends for one in own))
    found: dict[str, list[Own]] = {}
    for end, now in sorted(seen.ends.items()):
        if now.tagged == EVERY and end not in known:
            there = [one for one in own if switch_of(end) in seen.cabling.spread(one.spec.ports)]
            found |= {end: there} if there else {}
    if not found:
        return ()
    named = ", ".join(sorted({one.spec.named for there in found.values() for one in there}))
    ends = ", ".join(list(found)[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    return (f"fabric {seen.fabric}: {ends} carry every VLAN, so what is behind them reaches {named}, too",)
