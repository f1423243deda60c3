"""Which links carry a pod's VLAN."""

from __future__ import annotations

from weft.drivers.switches.cabling import Cabling

PEERS = ("leaf1/Port-Channel1000", "leaf2/Port-Channel1000", True)
UP1, UP2 = ("leaf1/Ethernet49", "spine1/Ethernet1", False), ("leaf2/Ethernet49", "spine1/Ethernet2", False)
DOWN3 = ("leaf3/Ethernet49", "spine1/Ethernet3", False)


def ends(links: tuple[tuple[str, str, bool], ...], *ports: str) -> set[str]:
    switches = tuple(sorted({e.partition("/")[0] for a, b, _ in links for e in (a, b)}))
    return {e for some in Cabling(switches, frozenset(), links).spread(ports).values() for e in some}


def test_peer_link_carries_what_both_of_its_switches_have() -> None:
    links = (PEERS, UP1, UP2, DOWN3)
    assert ends(links, "leaf1/Ethernet1", "leaf3/Ethernet1") == {*UP1[:2], *DOWN3[:2]}
    assert ends(links, "leaf1/Ethernet1", "leaf2/Ethernet1") == {*PEERS[:2], *UP1[:2], *UP2[:2]}
    assert ends((PEERS,), "leaf1/Ethernet1", "leaf2/Ethernet1") == {*PEERS[:2]}


def test_switch_behind_its_peer_is_reached_over_the_peer_link() -> None:
    """Only one switch of the pair has a cable to the rest; the site's check accepts that."""
    links = (PEERS, UP2, DOWN3)
    assert ends(links, "leaf1/Ethernet1", "leaf3/Ethernet1") == {*PEERS[:2], *UP2[:2], *DOWN3[:2]}
    assert ends(links, "leaf2/Ethernet1", "leaf3/Ethernet1") == {*UP2[:2], *DOWN3[:2]}
