"""QoS settings of a SONiC switch, from the tables of its CONFIG_DB. Pure.

A port takes priorities from DSCP if it has a DSCP map, from the VLAN tag if it has a map for tags, and from
neither without a map. Sources: sonic-buildimage, `sonic-port-qos-map.yang`, `sonic-dscp-tc-map.yang`,
`sonic-tc-queue-map.yang`, `sonic-queue.yang`, `sonic-wred-profile.yang`, `sonic-port.yang`; all as RESTCONF
has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.drivers.switches.sonicmodels import Entry, member, own_name
from weft.planning.fabric.qos import PortQos, SwitchQos, numbers

MTU = 9100
GLOBAL = "global"
GREEN = ("ecn_all", "ecn_green", "ecn_green_yellow", "ecn_green_red")
"""Modes that mark uncoloured packets."""

TABLES = {
    "PORT": "sonic-port:sonic-port",
    "PORTCHANNEL": "sonic-portchannel:sonic-portchannel",
    "PORTCHANNEL_MEMBER": "sonic-portchannel:sonic-portchannel",
    "PORT_QOS_MAP": "sonic-port-qos-map:sonic-port-qos-map",
    "DSCP_TO_TC_MAP": "sonic-dscp-tc-map:sonic-dscp-tc-map",
    "TC_TO_QUEUE_MAP": "sonic-tc-queue-map:sonic-tc-queue-map",
    "QUEUE": "sonic-queue:sonic-queue",
    "WRED_PROFILE": "sonic-wred-profile:sonic-wred-profile",
}
"""Table -> its model."""


def sonic_qos(tables: Mapping[str, Iterable[Entry]]) -> SwitchQos:
    """Args: tables: rows of each table. Raises KeyError, TypeError or ValueError for rows of another shape."""
    maps = {str(r["ifname"]): r for r in tables["PORT_QOS_MAP"]}
    dscp = {str(r["name"]): _inner(r, "DSCP_TO_TC_MAP", "dscp", "tc") for r in tables["DSCP_TO_TC_MAP"]}
    queues = {str(r["name"]): _inner(r, "TC_TO_QUEUE_MAP", "tc", "qindex") for r in tables["TC_TO_QUEUE_MAP"]}
    marking = {str(r["name"]) for r in tables["WRED_PROFILE"] if r.get("ecn") in GREEN}
    marked: dict[str, set[int]] = {}
    for row in tables["QUEUE"]:
        if str(row.get("wred_profile", "")) in marking:
            marked.setdefault(str(row["ifname"]), set()).update(numbers(str(row["qindex"])))
    ports: dict[str, PortQos] = {}
    for row in tables["PORT"]:
        name = own_name(row)
        own = {**maps.get(GLOBAL, {}), **maps.get(name, {})}
        queue = queues.get(str(own.get("tc_to_queue_map", "")), {n: n for n in range(8)})
        ports[name] = PortQos(
            pfc=numbers(str(own["pfc_enable"])) if own.get("pfc_enable") else frozenset(),
            ecn=frozenset(tc for tc, number in queue.items() if number in marked.get(name, ())),
            trust=_trust(own),
            dscp=dscp.get(str(own.get("dscp_to_tc_map", "")), {}),
            mtu=int(row.get("mtu", MTU)),
        )
    members: dict[str, tuple[str, ...]] = {}
    for row in tables["PORTCHANNEL_MEMBER"]:
        lag = str(row["name"])
        members[lag] = (*members.get(lag, ()), member(row))
    for row in tables["PORTCHANNEL"]:
        ports[str(row["name"])] = PortQos(mtu=int(row.get("mtu", MTU)))
        members.setdefault(str(row["name"]), ())
    return SwitchQos(ports, members)


def _inner(row: Entry, table: str, key: str, value: str) -> dict[int, int]:
    return {int(one[key]): int(one[value]) for one in row.get(table, ())}


def _trust(own: Entry) -> frozenset[str]:
    by_dscp = {"dscp"} if own.get("dscp_to_tc_map") else set[str]()
    by_tag = {"pcp"} if own.get("dot1p_to_tc_map") else set[str]()
    # SONiC uses the DSCP map first; the other one is for packets that aren't IP.
    return frozenset(by_dscp or by_tag)
