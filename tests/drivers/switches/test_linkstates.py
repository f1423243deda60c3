"""Whether links of hosts' ports are up: each vendor's answer, missing answers, bonds, and a real Open vSwitch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.drivers.switches.onefront import One
from tests.drivers.switches.rigs import RealSwitches
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.linkstates import eos_links, nvue_links, openconfig_links, ovs_links, states_of
from weft.model.linkstates import LinkStates


def test_each_vendor_says_which_links_are_down(one: One) -> None:
    """A port that an administrator disabled is neither up nor down; a silent switch reports none."""
    first, second, third = one.ports
    one.front.unplugged.add(first)
    one.front.disabled.add(second)
    found = one.fabric.links()
    assert f"leaf1/{first}" in found.down
    assert f"leaf1/{third}" in found.up
    assert f"leaf1/{second}" not in found.up | found.down
    one.front.faults.down = True
    assert one.fabric.links() == LinkStates(frozenset(), frozenset())


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"lineProtocolStatus": "up", "interfaceStatus": "connected"}, True),
        ({"lineProtocolStatus": "down", "interfaceStatus": "notconnect"}, False),
        ({"lineProtocolStatus": "lowerLayerDown", "interfaceStatus": "errdisabled"}, False),
        ({"lineProtocolStatus": "down", "interfaceStatus": "disabled"}, None),
        ({"lineProtocolStatus": "notPresent", "interfaceStatus": "inactive"}, None),
        ({}, None),
    ],
)
def test_eos_link_state_is_up_down_or_unknown(row: dict[str, Any], expected: bool | None) -> None:
    assert eos_links({"Ethernet1": row}).get("Ethernet1") is expected


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ({"oper-status": "up", "admin-status": "up"}, True),
        ({"oper-status": "down", "admin-status": "up"}, False),
        ({"oper-status": "down", "admin-status": "down"}, None),
        ({"oper-status": "down"}, None),
        ({"state": {"up": {}}}, True),
        ({"state": "up"}, True),
        ({"state": {"down": {}}}, None),
        ({}, None),
        (None, None),
    ],
)
def test_nvue_link_state_is_up_down_or_unknown(link: Any, expected: bool | None) -> None:
    assert nvue_links({"swp1": {"link": link}, "swp2": None}).get("swp1") is expected


def test_openconfig_and_ovs_link_states_are_up_down_or_unknown() -> None:
    def row(name: str, oper: str, admin: str) -> dict[str, Any]:
        return {"name": name, "state": {"oper-status": oper, "admin-status": admin}}

    rows = [row("a", "UP", "UP"), row("b", "DOWN", "UP"), row("c", "DOWN", "DOWN"), row("d", "TESTING", "UP")]
    assert openconfig_links([*rows, {"name": "e"}]) == {"a": True, "b": False}
    none: list[Any] = ["set", []]
    table = [
        ["a", "up", "up"],
        ["b", "down", "up"],
        ["c", "down", "down"],
        ["d", none, none],
        ["x", "up", "up"],
    ]
    assert ovs_links(table, frozenset("abcd")) == {"a": True, "b": False}


def test_bond_is_down_once_all_its_ends_are() -> None:
    ends = ("leaf1/1", "leaf2/1")
    cabling = Cabling(("leaf1", "leaf2"), frozenset({"leaf1/1"}), bundles=dict.fromkeys(ends, ends))

    def links(a: bool | None, b: bool | None) -> LinkStates:
        found = {s: {"1": v} for s, v in (("leaf1", a), ("leaf2", b)) if v is not None}
        return states_of(cabling, found)

    one, none = frozenset({"leaf1/1"}), frozenset[str]()
    assert links(False, True) == links(True, None) == LinkStates(one, none)
    assert links(False, False) == LinkStates(none, one)
    assert links(False, None) == links(None, None) == LinkStates(none, none)


@pytest.mark.fabric
def test_open_vswitch_says_which_links_are_down(switch_rigs: Callable[[str], RealSwitches]) -> None:
    """The host's end of a real cable is set down and up again."""
    rig = switch_rigs("ovs")
    port, every = rig.port("host1"), frozenset(rig.ports())
    assert rig.fabric.links() == LinkStates(every, frozenset())

    def becomes(way: str, expected: LinkStates) -> bool:
        rig.lab.ovs.inside("host1", ["ip", "link", "set", "eth0", way])
        deadline = time.monotonic() + 20
        while rig.fabric.links() != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        return rig.fabric.links() == expected

    try:
        assert becomes("down", LinkStates(every - {port}, frozenset({port})))
    finally:
        assert becomes("up", LinkStates(every, frozenset()))
