"""VLANs of the site's own networks on switches: where weft has put them, and which other ports are in them. Pure.
Unlike a pod's VLAN, which has exactly the members that weft gives it, such a VLAN may be on ports unknown to weft, of
the cloud's own hosts or of routers. Those are left as they are. weft sets the ports that the site file names, the links
on the paths between their switches, and the VLAN itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.names import read_name
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY, PortVlans, SwitchState
from weft.model.errors import PermanentError, UnknownError
from weft.model.specs import SegmentSpec

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Own:
    """A desired VLAN of the site's own.

    Attributes:
        name: its name on switches that store names.
        ours: it was created or adopted, whatever its name and its ports are by now.
        shared: ports unknown to weft are in it: it stays on the switches and links on the paths between them.
    """

    spec: SegmentSpec
    name: str
    ours: bool
    shared: bool = False

    @property
    def number(self) -> int:
        """The VLAN's number."""
        return self.spec.number

    @property
    def ends(self) -> frozenset[str]:
        """Ports that weft may set for it, without those of links."""
        return self.spec.ports | frozenset(self.spec.former)

    def ever(self, cabling: Cabling) -> Mapping[str, frozenset[str]]:
        """Switch -> ends of links where weft may have put it in its lifetime, as in `Cabling.spread`."""
        known = [end for end in self.ends if switch_of(end) in cabling.switches]
        return cabling.spread(known) if known else {}


def in_use(own: Own, of: str, foreign: Sequence[str]) -> PermanentError:
    """The error that says why the VLAN isn't removed: others' ports are in it."""
    listed = ", ".join(foreign[:SHOWN]) + (" …" if foreign[SHOWN:] else "")
    said = f"ports that aren't weft's are in it: {listed}"
    return PermanentError(
        f"remove {own.spec.named}", of, said, "take them out of it, or name them in the network's trunks"
    )


def own_ports_in(switch: str, state: SwitchState, own: Own) -> list[str]:
    """The VLAN's own ports on a switch that are in it; ports that carry every VLAN count."""
    ports = (e.partition("/")[2] for e in own.ends if switch_of(e) == switch)
    return sorted(p for p in ports if p in state.ports and is_in(state.ports[p], own.number))


def is_in(now: PortVlans, number: int) -> bool:
    """Whether a port is explicitly in a VLAN, not only as a trunk of every VLAN."""
    return now.untagged == number or (number in now.tagged and now.tagged != EVERY)


def foreign_on(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> list[str]:
    """Ports in the VLAN on a switch that are neither its own nor ends of links."""
    ends = {f"{switch}/{p}": now for p, now in state.ports.items()}
    known = own.ends | cabling.uplinks
    return sorted(e for e, now in ends.items() if e not in known and is_in(now, own.number))


def foreign_ports(own: Own, seen: EthernetSnapshot) -> list[str]:
    """Ports in the VLAN that are unknown to weft, on all switches where weft has put it."""
    ever = own.ever(seen.cabling)
    where = [
        s
        for s, state in sorted(seen.states.items())
        if s in ever or state.vlans.get(own.number) == own.name != ""
    ]
    return [end for s in where for end in foreign_on(s, seen.states[s], own, seen.cabling)]


def is_needless(switch: str, there: str | None, own: Own, cabling: Cabling) -> bool:
    """Whether a switch no longer needs the VLAN. Args: there: its name on the switch; None: the switch doesn't have
    it."""
    if own.shared or switch in cabling.spread(own.spec.ports):
        return False
    return there == own.name or (there == "" and switch in own.ever(cabling))


def needless_links(switch: str, own: Own, cabling: Cabling) -> list[str]:
    """Ends of links that no longer need the VLAN, on a switch that does."""
    if own.shared:
        return []
    needed = cabling.spread(own.spec.ports).get(switch, frozenset[str]())
    return sorted(own.ever(cabling).get(switch, frozenset[str]()) - needed)


def concerned(own: Own, seen: EthernetSnapshot) -> frozenset[str]:
    """Switches where the VLAN may have to be changed: where weft has put it, and those that have it under its name."""
    named = {s for s, state in seen.states.items() if state.vlans.get(own.number) == own.name != ""}
    there = {*map(switch_of, own.ends), *own.ever(seen.cabling), *named}
    return frozenset(there & {*seen.cabling.switches})


def check_readable(spec: SegmentSpec, seen: EthernetSnapshot) -> None:
    """Raises `UnknownError` unless every switch on which weft has set it was read."""
    own = Own(spec, "", ours=True)
    needed = {switch_of(end) for end in own.ends} | own.ever(seen.cabling).keys()
    for switch in sorted(needed):
        if why := why_silent(switch, seen):
            raise UnknownError(f"look for {spec.named}", f"switch {switch}", why)


def why_silent(switch: str, seen: EthernetSnapshot) -> str:
    """Why a switch's state isn't known; empty if it was read."""
    if switch in seen.unread:
        return seen.unread[switch]
    if switch in seen.write_only:
        return "it can't be read back"
    return "" if switch in seen.states else f"the site has no such switch on fabric {seen.fabric}"


def is_sites(name: str, site: str) -> bool:
    """Whether a VLAN's name is one of this site's own networks'."""
    named = read_name(name, site)
    return named is not None and named.ours and named.owner.kind == "site"


def listed(numbers: frozenset[int]) -> str:
    """VLANs as text, at most `SHOWN` of them."""
    return ", ".join(map(str, sorted(numbers)[:SHOWN])) + (" …" if len(numbers) > SHOWN else "")
