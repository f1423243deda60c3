"""Whether links of switches' ports are up, from the answers of each vendor's interface.

A port that is neither up nor down is left out: one that an administrator has disabled says nothing of the adapter.

Sources: Arista eAPI, `show interfaces` (lineProtocolStatus, interfaceStatus); Cumulus Linux 5 documentation, "Switch
Port Attributes" (`nv show interface swp1 link`: oper-status and admin-status, in old versions `state` alone);
openconfig-interfaces 2.4 (oper-status, admin-status); ovs-vswitchd.conf.db(5), table Interface (link_state,
admin_state).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.interface import SwitchDriver
from weft.model.errors import WeftError
from weft.model.linkstates import LinkStates

Links = Mapping[str, bool]
"""Port -> whether its link is up; without ports whose link isn't known."""


def eos_links(interfaces: Mapping[str, Any]) -> Links:
    """Links in `show interfaces`. A port that the switch disabled because of errors is down."""
    found: dict[str, bool] = {}
    for name, row in interfaces.items():
        line, status = row.get("lineProtocolStatus"), row.get("interfaceStatus")
        if line == "up":
            found[name] = True
        elif status in ("notconnect", "errdisabled"):
            found[name] = False
    return found


def nvue_links(interfaces: Mapping[str, Any]) -> Links:
    """Links in the operational tree's interfaces."""
    found: dict[str, bool] = {}
    for name, row in interfaces.items():
        link = cast(dict[str, Any], (row or {}).get("link") or {})
        states = link.get("state")
        named = {str(states)} if isinstance(states, str) else {str(one) for one in states or ()}
        if link.get("oper-status", "up" if named == {"up"} else None) == "up":
            found[name] = True
        elif link.get("oper-status") == "down" and link.get("admin-status") == "up":
            found[name] = False
    return found


def openconfig_links(rows: Iterable[Mapping[str, Any]]) -> Links:
    """Links in `openconfig-interfaces:interfaces`."""
    found: dict[str, bool] = {}
    for row in rows:
        state = row.get("state") or {}
        if state.get("oper-status") == "UP":
            found[str(row["name"])] = True
        elif state.get("oper-status") == "DOWN" and state.get("admin-status") == "UP":
            found[str(row["name"])] = False
    return found


def ovs_links(rows: Iterable[Sequence[Any]], mine: frozenset[str]) -> Links:
    """Links in rows of name, link_state, admin_state; an empty column is an empty set. Args: mine: names of the
    bridge's."""
    found: dict[str, bool] = {}
    for name, link, admin in rows:
        if name in mine and (link == "up" or (link == "down" and admin == "up")):
            found[name] = link == "up"
    return found


def links_of(switch: SwitchDriver) -> Links:
    """Links of one switch; empty if it can't be read for any reason."""
    try:
        found = switch.links()
    except WeftError:
        return {}
    return {} if isinstance(found, str) else found


def states_of(cabling: Cabling, found: Mapping[str, Links]) -> LinkStates:
    """States of hosts' ports: a bond is up while one of its ends is, and down once all are. Args: found: by switch."""
    up, down = set[str](), set[str]()
    for port in cabling.hosts:
        states = [
            found.get(end.partition("/")[0], {}).get(end.partition("/")[2]) for end in cabling.ends(port)
        ]
        if any(states):
            up.add(port)
        elif states and all(one is False for one in states):
            down.add(port)
    return LinkStates(frozenset(up), frozenset(down))
