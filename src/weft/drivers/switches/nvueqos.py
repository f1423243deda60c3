"""QoS settings of a Cumulus Linux switch, from the tree of its applied revision. Pure.

Ports have the profiles `default-global` unless they name others; `qos roce` sets these, and what is in a profile counts
for more. Sources: Cumulus Linux 5.x documentation, "Quality of Service" and "RDMA over Converged Ethernet"; the schema
of NVUE's API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.planning.fabric.qos import PortQos, SwitchQos, numbers

DEFAULT = "default-global"
MTU = 9216
TRUST = {"l2": {"pcp"}, "l3": {"dscp"}, "both": {"dscp", "pcp"}, "port": set[str]()}
Tree = Mapping[str, Any]


def nvue_qos(tree: Tree) -> SwitchQos:
    """Raises AttributeError, TypeError, ValueError or KeyError if it isn't such a tree."""
    qos = tree.get("qos") or {}
    interfaces: Tree = tree.get("interface", {})
    ports: dict[str, PortQos] = {}
    members: dict[str, tuple[str, ...]] = {}
    for name, row in interfaces.items():
        mtu = int(((row or {}).get("link") or {}).get("mtu", MTU))
        links = ((row or {}).get("bond") or {}).get("member")
        if links:
            members[name] = tuple(sorted(links))
            ports[name] = PortQos(mtu=mtu)
        else:
            ports[name] = _port(qos, (row or {}).get("qos") or {}, mtu)
    for inside in members.values():
        for link in inside:  # one without configuration isn't in the tree
            ports.setdefault(link, _port(qos, {}, MTU))
    return SwitchQos(ports, members)


def _port(qos: Tree, own: Tree, mtu: int) -> PortQos:
    mapping, pfc, congestion = (_profile(qos, own, kind) for kind in ("mapping", "pfc", "congestion-control"))
    roce = _roce(qos.get("roce") or {})
    dscp = {n: n // 8 for n in range(64)}
    for value, leads in (mapping.get("dscp") or {}).items():
        dscp[int(value)] = int(leads["switch-priority"])
    trust = mapping.get("trust") or ("both" if roce else "l2")
    paused = _priorities(pfc.get("switch-priority"))
    if not pfc and roce.startswith("lossless"):
        paused = frozenset({3})
    if "disable" in (pfc.get("rx"), pfc.get("tx")):
        paused = frozenset()
    classes: Tree = congestion.get("traffic-class") or {}
    marking = {n for key, row in classes.items() for n in numbers(key) if (row or {}).get("ecn") == "enable"}
    if not congestion:
        marking = {0, 3} if roce else {0}
    return PortQos(paused, frozenset(marking), frozenset(TRUST[trust]), dscp, mtu)


def _profile(qos: Tree, own: Tree, kind: str) -> Tree:
    """The port's own, or the one that all ports have."""
    name = (own.get(kind) or {}).get("profile") or DEFAULT
    return (qos.get(kind) or {}).get(name) or {}


def _roce(roce: Tree) -> str:
    """Its mode; empty: off."""
    on = roce.get("enable") == "on" or roce.get("state") == "enabled"  # the latter since 5.15
    return str(roce.get("mode", "lossless")) if on else ""


def _priorities(listed: Tree | None) -> frozenset[int]:
    return frozenset(n for key in listed or {} for n in numbers(key))
