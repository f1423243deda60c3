"""Nodes in use by others, from what Nova and Placement report about a host, compared with weft's records."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass

from weft.model.errors import OutsideError, UnknownError
from weft.model.site import Node, Site
from weft.planning.kept import kept
from weft.planning.place.marks import MarkedNodes, marks_of
from weft.ports.occupants import Occupants, OnHost
from weft.ports.patience import waiting_at_most

log = logging.getLogger(__name__)

FOREIGN = "its host has something that isn't weft's"
"""Shown to everyone: only operators may know what it is and whose."""
WITHHELD = "Placement has reserved something of its host"
UNLISTED = "the cloud doesn't report what is on its host"
UNANSWERED = "its host has a server that may be weft's: Nova hasn't answered the order of one there yet"
LISTING_SECONDS = 1.0
"""Seconds to wait for a listing of hosts: lists of nodes are answered even if the cloud isn't."""
ANSWERED_WITHIN = (0.25, 0.5, 1.0, 2.0)
"""Seconds, one after the other, to wait for Nova's answer to be written: Placement knows a server before weft knows its
id, and nothing else there says whose it is."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Servers of weft's pods that belong on a shared node.

    Attributes:
        ids: Nova's.
        unanswered: there are others, whose ids aren't written yet.
    """

    ids: frozenset[str] = frozenset()
    unanswered: bool = False


def whole_nodes(site: Site, cloud: str, names: Collection[str] | None = None) -> list[Node]:
    """Nodes of a cloud that are assigned whole, so that no others may be on them; of these names, if given."""
    if names is None:
        return [n for n in site.nodes if n.role == "compute" and n.cloud == cloud]
    return held_nodes(site, cloud, names)[0]


def held_nodes(site: Site, cloud: str, names: Collection[str]) -> tuple[list[Node], dict[str, str]]:
    """The nodes among what a pod holds; and name -> why for those that this site can't read.

    IPU-Machines are in neither: no server runs on them, and their manager is asked.
    """
    nodes: list[Node] = []
    unreadable: dict[str, str] = {}
    for name in sorted(set(names)):
        node = site.node_by_name.get(name)
        if node is None:
            if name not in site.units:
                unreadable[name] = f"site {site.name} has no {name} any more: what is on it is unknown"
        elif node.role != "compute":
            unreadable[name] = (
                f"{name} is a {node.role} node of site {site.name} by now, and isn't read as one"
            )
        elif node.cloud != cloud:
            unreadable[name] = f"{name} is in cloud {node.cloud} by now, and the pod in {cloud}"
        else:
            nodes.append(node)
    return nodes, unreadable


@kept
def whole_hosts(site: Site, cloud: str) -> Mapping[str, str]:
    """Node -> Nova host, for all of `whole_nodes`."""
    return {n.name: n.nova_host for n in whole_nodes(site, cloud)}


_seen: deque[tuple[Mapping[str, str], Mapping[str, OnHost], Mapping[str, OnHost]]] = deque(maxlen=8)


def on_nodes(hosts: Mapping[str, str], listed: Mapping[str, OnHost]) -> Mapping[str, OnHost]:
    """Node -> what a listing of all hosts shows on it, if anything, or that it is unknown.

    A listing is immutable; the last results are cached, since many orders use the same listing.
    """
    for known_hosts, known, found in tuple(_seen):
        if known is listed and known_hosts is hosts:
            return found
    unlisted = OnHost(unknown=UNLISTED)
    found = MarkedNodes({
        name: one
        for name, host in hosts.items()
        if (one := listed.get(host, unlisted)).occupants or one.unknown or one.withheld
    })  # fmt: skip
    _seen.append((hosts, listed, found))
    return found


def not_free(
    site: Site, seen: Mapping[str, OnHost], held: Mapping[str, str], gone: Container[str]
) -> dict[str, str]:
    """Node -> why it can't be assigned, by a listing that may be slightly stale.

    Args:
        held: nodes that pods hold, whole or in part: these are checked by the pods' own visits.
        gone: servers that weft itself has seen go since.
    """
    reasons: dict[str, str] = {}
    marks = marks_of(site)
    for node in marks.in_order(marks.of(seen) & ~marks.of(held)):
        one = seen[node]
        if one.unknown:
            reasons[node] = UNLISTED
        elif any(o.id not in gone for o in one.occupants):
            reasons[node] = FOREIGN
        elif one.withheld:
            reasons[node] = WITHHELD
    return reasons


def on_free_nodes(
    facts: Occupants, site: Site, cloud: str, held: Container[str], gone: Container[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """For nodes that no pod holds: node -> why its occupants keep it from being assigned; node -> why they are unknown.
    For operators.

    Uses a listing that may be slightly stale, for which it waits `LISTING_SECONDS` at most.
    """
    hosts = whole_hosts(site, cloud)
    try:
        with waiting_at_most(LISTING_SECONDS):
            listed = on_nodes(hosts, facts.servers_on_hosts())
    except OutsideError as error:
        return {}, {name: str(error) for name in hosts if name not in held}
    return _keeping({name: one for name, one in listed.items() if name not in held}, gone)


def on_free_node(facts: Occupants, node: Node, gone: Container[str]) -> tuple[dict[str, str], dict[str, str]]:
    """As `on_free_nodes` for one node, which no pod holds: only its host is asked about."""
    with waiting_at_most(LISTING_SECONDS):
        seen = facts.on_hosts([node.nova_host])
    return _keeping({node.name: seen[node.nova_host]}, gone)


def _keeping(seen: Mapping[str, OnHost], gone: Container[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Node -> why its occupants keep it from being assigned; node -> why they are unknown."""
    found, unknown = dict[str, str](), dict[str, str]()
    for name, one in seen.items():
        if texts := [o.text() for o in one.occupants if o.id not in gone]:
            found[name] = f"its host has {', '.join(texts)}, which no pod is known to have"
        elif one.unknown:
            unknown[name] = one.unknown
        elif one.withheld:
            found[name] = one.withheld
    return found, unknown


def strangers(
    facts: Occupants, site: Site, cloud: str, own: Mapping[str, frozenset[str]], pods: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Node -> what is wrong with its occupants; and node -> why they are unknown. For operators.

    Nodes in maintenance may be off, or not in Nova at all: unknown occupants mean nothing there. Raises
    `UnknownError`.

    Args:
        own: node -> servers that belong on it.
        pods: server -> name of its pod, wherever it belongs.
    """
    nodes = {n.name: n for n in whole_nodes(site, cloud)}
    listed = on_nodes(whole_hosts(site, cloud), facts.servers_on_hosts())
    suspects = [
        name
        for name, one in listed.items()
        if one.unknown or one.withheld or {o.id for o in one.occupants} - own.get(name, set())
    ]
    seen = facts.on_hosts([nodes[name].nova_host for name in suspects])  # the listing may be a little old
    found: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for name in suspects:
        one = seen[nodes[name].nova_host]
        others = [o for o in one.occupants if o.id not in own.get(name, ())]
        texts = [o.text() + (f" of pod {pods[o.id]}" if o.id in pods else "") for o in others]
        if texts:
            found[name] = f"on it, but doesn't belong to the pod that holds it: {', '.join(texts)}"
        elif one.unknown and nodes[name].maintenance is None:
            unknown[name] = one.unknown
        elif one.withheld and not own.get(name) and nodes[name].maintenance is None:
            found[name] = f"not to be assigned: {one.withheld}"  # a pod whose servers are there keeps it
    return found, unknown


def look_before_claim(
    facts: Occupants,
    site: Site,
    cloud: str,
    names: Collection[str],
    servers_on: Callable[[Collection[str]], Mapping[str, Sharing]],
    wait: bool = True,
) -> dict[str, str]:
    """Check free nodes right before they are assigned to a pod; node -> why it can't be.

    Raises `UnknownError` if nothing is known about any of them. Occupants are only logged, for operators.

    Args:
        servers_on: of nodes, servers of pods with parts of them. Asked after the hosts were read, so that servers seen
            there are written, and again while Nova's answer to the request for one of them is on its way.
        wait: whether to wait for that answer, for seconds; otherwise nodes that need it get `UNANSWERED`.
    """
    nodes = whole_nodes(site, cloud, names)
    seen = facts.on_hosts([n.nova_host for n in nodes])
    if nodes and all(seen[n.nova_host].unknown for n in nodes):
        raise UnknownError("check what is on the hosts", f"cloud {cloud}", seen[nodes[0].nova_host].unknown)
    on = {n.name: ids for n in nodes if (ids := {o.id for o in seen[n.nova_host].occupants})}
    sharing = servers_on(on) if on else {}
    for pause in ANSWERED_WITHIN if wait else ():
        if not any(one.unanswered and on[name] - one.ids for name, one in sharing.items()):
            break
        time.sleep(pause)
        sharing = servers_on(on)
    reasons: dict[str, str] = {}
    for node in nodes:
        one, known = seen[node.nova_host], sharing.get(node.name, Sharing())
        others = [o for o in one.occupants if o.id not in known.ids]
        withheld = "" if known.ids else one.withheld  # its servers there may be the reason
        if one.unknown or others or withheld:
            beside = UNANSWERED if known.unanswered else FOREIGN if others else WITHHELD
            reasons[node.name] = UNLISTED if one.unknown else beside
            detail = one.unknown or ", ".join(o.text() for o in others) or withheld
            log.warning("node %s is free in weft's records, but isn't assigned: %s", node.name, detail)
    return reasons
