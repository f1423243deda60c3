"""QoS settings of a Cumulus Linux switch, from the tree of its applied revision. Pure.

Ports have the profiles `default-global` unless they name others; `qos roce` sets these, and a profile's own
settings take precedence. Sources: Cumulus Linux 5.16 documentation, "Quality of Service" (a DSCP value maps
to an eighth of itself; switch priorities to the traffic class of the same number; ECN is on in class 0, and
in each class that a profile lists unless it says otherwise; a profile's list is complete) and "RDMA over
Converged Ethernet" (both markings trusted, ECN in classes 0 and 3, flow control for 3, priorities other than
3 and 6 lead to class 0); the schema of NVUE's API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.planning.fabric.qos import PortQos, SwitchQos, numbers

DEFAULT = "default-global"
LOSSLESS, LOSSY = ("lossless", "lossless-single-ipool"), "lossy"
"""Modes of RoCE. Others (`lossy-multi-tc`, `dci-1`) have maps of their own, which weft doesn't know."""
MTU = 9216
TRUST = {"l2": {"pcp"}, "l3": {"dscp"}, "both": {"dscp", "pcp"}, "port": set[str]()}
Tree = Mapping[str, Any]


def nvue_qos(tree: Tree) -> SwitchQos:
    """Settings from the tree. Raises AttributeError, TypeError, ValueError or KeyError if it isn't such a
    tree."""
    qos = tree.get("qos") or {}
    interfaces: Tree = tree.get("interface", {})
    ports: dict[str, PortQos] = {}
    members: dict[str, tuple[str, ...]] = {}
    for name, row in interfaces.items():
        mtu = int(((row or {}).get("link") or {}).get("mtu") or MTU)
        if "bond" in (row or {}) or (row or {}).get("type") == "bond":
            members[name] = tuple(sorted(((row or {}).get("bond") or {}).get("member") or ()))
            ports[name] = PortQos(mtu=mtu)
        else:
            ports[name] = _port(qos, (row or {}).get("qos") or {}, mtu)
    for inside in members.values():
        for link in inside:  # a link without configuration isn't in the tree
            ports.setdefault(link, _port(qos, {}, MTU))
    return SwitchQos(ports, members)


def _port(qos: Tree, own: Tree, mtu: int) -> PortQos:
    mapping, pfc, congestion = (_profile(qos, own, kind) for kind in ("mapping", "pfc", "congestion-control"))
    roce = _roce(qos.get("roce") or {})
    dscp = {n: n // 8 for n in range(64)}
    for key, leads in (mapping.get("dscp") or {}).items():
        if (leads or {}).get("switch-priority") is not None:
            dscp |= dict.fromkeys(numbers(key), int(leads["switch-priority"]))
    trust = mapping.get("trust") or ("both" if roce else "l2")
    paused = _priorities(pfc.get("switch-priority"))
    if not pfc and roce in LOSSLESS:
        paused = frozenset({3})
    if "disable" in (pfc.get("rx"), pfc.get("tx")):
        paused = frozenset()
    classes = _classes(_profile(qos, {}, "egress-queue-mapping"), roce)
    marking = _marking(congestion.get("traffic-class") or {}, roce)
    ecn = frozenset(n for n, queue in classes.items() if queue in marking)
    return PortQos(paused, ecn, frozenset(TRUST[trust]), dscp, mtu, tuple(_absent(qos, own)))


def _absent(qos: Tree, own: Tree) -> Iterator[str]:
    """Profiles that the port names but the revision lacks: not the same as having none."""
    for kind in ("mapping", "pfc", "congestion-control"):
        name = (own.get(kind) or {}).get("profile") or DEFAULT
        if name != DEFAULT and name not in (qos.get(kind) or {}):
            yield f"its {kind} profile {str(name)[:40]} isn't there"


def _classes(mapping: Tree, roce: str) -> dict[int, int]:
    """Switch priority -> traffic class."""
    found = {n: n if not roce or n in (3, 6) else 0 for n in range(8)}
    for key, leads in (mapping.get("switch-priority") or {}).items():
        found |= dict.fromkeys(numbers(key), int(leads["traffic-class"]))
    return found


def _marking(listed: Tree, roce: str) -> set[int]:
    """Traffic classes with ECN."""
    said = {
        n: (row or {}).get("ecn", "enable") == "enable" for key, row in listed.items() for n in numbers(key)
    }
    if roce:
        said = {0: True, 3: True} | said
    return {n for n, on in said.items() if on} if said else {0}


def _profile(qos: Tree, own: Tree, kind: str) -> Tree:
    """The port's own profile, or the default of all ports."""
    name = (own.get(kind) or {}).get("profile") or DEFAULT
    return (qos.get(kind) or {}).get(name) or {}


def _roce(roce: Tree) -> str:
    """Mode of RoCE; empty: off. Raises ValueError for an unknown mode."""
    on = roce.get("enable") == "on" or roce.get("state") == "enabled"  # `state` since 5.15
    mode = str(roce.get("mode", LOSSLESS[0])) if on else ""
    if mode and mode not in (*LOSSLESS, LOSSY):
        raise ValueError(f"qos roce mode {mode[:40]} isn't known")
    return mode


def _priorities(listed: Tree | None) -> frozenset[int]:
    return frozenset(n for key in listed or {} for n in numbers(key))
