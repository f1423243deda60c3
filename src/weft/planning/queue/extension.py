"""What conflicts with a longer lease, or with a reservation. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from weft.model.messages import orders
from weft.model.site import Site
from weft.planning.fabric.topology import NO_FABRIC, Topology
from weft.planning.place.filters import carried, closed_leaves
from weft.planning.place.room import clash
from weft.planning.place.sharing import Terms
from weft.planning.queue.book import Book, minute
from weft.planning.queue.keep import Keep


def why_not_longer(site: Site, fabric: str, book: Book, lease: Keep, until: float) -> str | None:
    """Why a lease can't last until then, as the end of a sentence that names no other pods; None: it can.

    Args:
        fabric: fabric that its nodes are on, or IPU-POD.
        lease: the current one.
    """
    taken = book.conflict(lease.nodes, lease.project, lease.end, until, lease.name, bool(lease.parts))
    if taken is not None:
        return orders.BOOKED_BY_OTHERS(start=minute(taken))
    if lease.parts and (why := _parts_taken(site, book, lease, until)):
        return why
    if fabric not in (*site.fabrics, NO_FABRIC):
        return None
    topology = Topology.of(site, fabric)
    others = [
        k.neighbour(k.label, lease.end)
        for k in (*book.leases, *book.bookings, *book.reservations)
        if k.name != lease.name and k.overlaps(lease.end, until)
    ]
    mine: dict[str, int] = {}
    for node in lease.nodes:
        if node in topology.locations:
            leaf = topology.locations[node].leaf
            mine[leaf] = mine.get(leaf, 0) + 1
    if shared := sorted(mine.keys() & closed_leaves(lease.asks, topology, others).keys()):
        return f"leaf {shared[0]} is booked by a project that it must not be shared with"
    if lease.asks.gbps:
        longer = replace(lease, end=until).neighbour(lease.label, lease.end)
        both = carried(topology, (*others, longer))
        for leaf in sorted(mine):
            if both.get(leaf, 0) > topology.uplinks.get(leaf, 0):
                return f"the uplinks of leaf {leaf} are booked by others"
    return None


def _parts_taken(site: Site, book: Book, lease: Keep, until: float) -> str | None:
    """Why it can't keep its parts of shared nodes until then."""
    longer = replace(lease, end=until)
    others = [
        k for k in (*book.leases, *book.bookings) if k.name != lease.name and k.overlaps(lease.end, until)
    ]
    for name in sorted({n for n, _ in lease.parts}):
        mine = [p for n, p in longer.parts_in(lease.end) if n == name]
        theirs = [p for k in others for n, p in k.parts_in(lease.end) if n == name]
        node = site.node_by_name.get(name)
        if node is not None and (what := clash(node, mine, theirs)):
            return f"some of its nodes are booked by others in part: {what} of {name}"
    return None


def closed_to(site: Site, project: str, nodes: Collection[str], others: Iterable[Keep]) -> str | None:
    """Why a project can't have these nodes, because others keep it off their leaves: one sentence, or None."""
    neighbours = [k.neighbour(k.label) for k in others]
    for fabric in sorted(site.fabrics):
        topology = Topology.of(site, fabric)
        closed = closed_leaves(Terms(project), topology, neighbours)
        for node in sorted(nodes):
            if node in topology.locations and (why := closed.get(topology.locations[node].leaf)):
                return f"{node} is unavailable: {why}"
    return None
