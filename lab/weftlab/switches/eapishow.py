"""What an imitated Arista switch shows of its configuration, as eAPI has it in JSON and as text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from weft.drivers.switches.vlans import EVERY, ranges
from weftlab.switches.eapiconfig import Config, Port


def _list(allowed: frozenset[int]) -> str:
    return "ALL" if allowed == EVERY else ranges(allowed) or "NONE"


def show_vlans(config: Config) -> dict[str, Any]:
    """`show vlan`."""
    rows = {
        str(n): {
            "name": v.name,
            "dynamic": False,
            "status": "active" if v.state == "active" else "suspended",
            "interfaces": {p: {"privatePromoted": False} for p, c in config.ports.items() if _is_in(c, n)},
        }
        for n, v in sorted(config.vlans.items())
    }
    return {"sourceDetail": "", "vlans": rows}


def _is_in(port: Port, number: int) -> bool:
    """Whether it is an active member of a VLAN."""
    if port.routed or port.member:
        return False
    return number in port.allowed if port.mode == "trunk" else number == port.access


def show_switchports(config: Config) -> dict[str, Any]:
    """`show interfaces switchport`."""

    def info(port: Port) -> dict[str, Any]:
        return {
            "mode": port.mode,
            "accessVlanId": port.access,
            "trunkingNativeVlanId": port.native,
            "trunkAllowedVlans": _list(port.allowed),
            "macLearning": True,
            "tpid": "0x8100",
        }

    rows = {
        n: {"enabled": not p.routed, "switchportInfo": info(p)}
        for n, p in config.ports.items()
        if not p.member
    }
    return {"switchports": rows}


def show_status(config: Config, members: Mapping[str, str]) -> dict[str, Any]:
    """`show interfaces status`; a link of an aggregation forwards nothing by itself."""
    above = {link: lag for lag, link in members.items()}

    def info(name: str, port: Port) -> dict[str, Any]:
        if port.member:
            lag = above.get(name, "Port-Channel99").replace("Port-Channel", "Po")
            return {"vlanExplanation": f"in {lag}", "interfaceForwardingModel": "dataLink"}
        if port.routed:
            return {"interfaceMode": "routed", "interfaceForwardingModel": "routed"}
        if port.mode == "trunk":
            return {"interfaceMode": "trunk", "interfaceForwardingModel": "bridged"}
        return {"interfaceMode": "bridged", "vlanId": port.access, "interfaceForwardingModel": "bridged"}

    return {"interfaceStatuses": {n: {"vlanInformation": info(n, p)} for n, p in config.ports.items()}}


def show_interfaces(
    config: Config,
    members: Mapping[str, str],
    counted: Mapping[str, Mapping[str, int]],
    unplugged: Collection[str],
    disabled: Collection[str],
) -> dict[str, Any]:
    """`show interfaces`, with counters; `unplugged` ones are not connected."""

    def info(name: str, port: Port) -> dict[str, Any]:
        status = "disabled" if name in disabled else "notconnect" if name in unplugged else "connected"
        line = "up" if status == "connected" else "down"
        row: dict[str, Any] = {"name": name, "mtu": port.qos.mtu}
        row |= {"interfaceStatus": status, "lineProtocolStatus": line}
        if name in counted:
            row["interfaceCounters"] = _counters(counted[name])
        return row | ({"memberInterfaces": {members[name]: {}}} if name in members else {})

    return {"interfaces": {n: info(n, p) for n, p in config.ports.items()}}


def _counters(counted: Mapping[str, int]) -> dict[str, Any]:
    """Counters of a port in the form of `show interfaces`."""
    found: dict[str, Any] = {"linkStatusChanges": 1, "lastClear": 0.0}
    for way, key in (("in", "rx"), ("out", "tx")):
        found |= {
            f"{way}Octets": counted[f"{key}_bytes"],
            f"{way}UcastPkts": counted[f"{key}_packets"],
            f"{way}MulticastPkts": 0,
            f"{way}BroadcastPkts": 0,
            f"{way}Discards": counted[f"{key}_dropped"],
            f"total{way.title()}Errors": counted[f"{key}_errors"],
        }
    return found


def show_neighbours(heard: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """`show lldp neighbors detail`; `heard`: port -> (device, its port)."""

    def info(device: str, port: str) -> dict[str, Any]:
        kind = "macAddress" if port.count(":") == 5 else "interfaceName"
        said = port.replace(":", "") if kind == "macAddress" else port
        dotted = ".".join(said[i : i + 4] for i in range(0, 12, 4)) if kind == "macAddress" else port
        neighbour = {"interfaceIdType": kind, "interfaceId": f'"{dotted}"', "interfaceId_v2": dotted}
        return {"lldpNeighborInfo": [{"systemName": device, "neighborInterfaceInfo": neighbour}]}

    return {"lldpNeighbors": {local: info(*one) for local, one in heard.items()}}


def config_text(config: Config) -> str:
    """The configuration with its defaults, as `show running-config all` writes it."""
    lines = ["! device: lab (vEOS-lab, EOS-4.32.2F)", "!"]
    for number, vlan in sorted(config.vlans.items()):
        lines += [f"vlan {number}", f"   name {vlan.name}", f"   state {vlan.state}", "!"]
    for name, port in config.ports.items():
        lines += [f"interface {name}", f"   switchport access vlan {port.access}"]
        lines += [f"   switchport trunk native vlan {port.native}"]
        listed = "1-4094" if port.allowed == EVERY else ranges(port.allowed) or "none"
        lines += [f"   switchport trunk allowed vlan {listed}", f"   switchport mode {port.mode}"]
        lines += ["   no switchport" if port.routed else "   switchport", *port.qos.lines(), "!"]
    lines += [f"qos map dscp {value} to traffic-class {tc}" for value, tc in sorted(config.dscp.items())]
    return "\n".join([*lines, "end", ""])
