"""Which nodes may be chosen at all, and what each filter removed, with examples.

A filter is a name and a function that returns why a node is excluded, or None. They run in a fixed order, and a node
counts for the first that removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.model.placement import FilterReport, Neighbour, Occupancy, PlacementRequest
from weft.model.site import AcceleratorCount, Node, Site
from weft.planning.fabric.topology import NO_FABRIC, Topology
from weft.planning.kept import kept
from weft.planning.place.calendar import FOREVER
from weft.planning.place.marks import marks_of
from weft.planning.place.sharing import Load, Terms, crossing, peak

Reason = Callable[[Node], str | None]
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Filter:
    """A named test of one node: the reason why it is excluded, or None.

    Attributes:
        out: exactly the nodes that are excluded; None: `reason` decides.
    """

    name: str
    reason: Reason | None
    out: Mapping[str, str] | None = None


def filters_for(
    request: PlacementRequest,
    topology: Topology,
    occupancy: Occupancy,
    dedicated: Mapping[str, str],
    maintenance: Mapping[str, str],
) -> tuple[Filter, ...]:
    """The filters of a request after `of_kind`, in the order of their reports: those that change come last."""
    shared = closed_leaves(terms_of(request), topology, occupancy.neighbours)
    no_keys = keys_gone(occupancy, request.fabric)
    locations = topology.locations
    unfit = occupancy.unfit.get(request.boot, {})
    return (
        *([Filter("image", lambda n: unfit.get(n.name))] if unfit else []),
        _among("dedicated", dedicated, lambda n: _dedicated(locations[n.name].leaf, request, dedicated)),
        *_stopped(topology, stops(occupancy, maintenance)),
        _these("segments", no_keys),
        _these("exclude", dict.fromkeys(request.exclude, "the order excludes it")),
        # A node that the pod has parts of may have room for more of its servers.
        _these("stays", {} if request.share else dict.fromkeys(request.near, "is already in the pod")),
        _busy(occupancy, request.share is not None),
        *_reserved(request, occupancy),
        _among("apart", shared, lambda n: shared.get(locations[n.name].leaf)),
    )


def stops(occupancy: Occupancy, maintenance: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    """What keeps nodes from every new order, whatever it asks for: filter -> node -> why, in the order of reports."""
    return {
        "maintenance": maintenance,
        "down": occupancy.down,
        "quarantine": occupancy.quarantined,
        "hold": occupancy.on_hold,
        "drain": occupancy.drained,
        "checks": occupancy.failing,
        "report": occupancy.reported,
    }


_ALWAYS_REPORTED = ("maintenance", "down", "quarantine")


def _stopped(topology: Topology, stopping: Mapping[str, Mapping[str, str]]) -> Iterator[Filter]:
    """The filters of `stops`; of those that few sites use, only what concerns a node here."""
    for name, reasons in stopping.items():
        if name in _ALWAYS_REPORTED or any(node in topology.locations for node in reasons):
            yield _these(name, reasons)


def _reserved(request: PlacementRequest, occupancy: Occupancy) -> Iterator[Filter]:
    """Filters for nodes that are reserved or booked for others; one with booked parts is still available in parts."""
    kept = occupancy.reserved
    if request.share is None and occupancy.shared:
        kept = {**occupancy.shared, **kept}
    if kept:
        yield _these("reserved", kept)


def _these(name: str, reasons: Mapping[str, str]) -> Filter:
    """A filter that removes the nodes that have a reason."""
    return Filter(name, (lambda n: reasons.get(n.name)) if reasons else None, reasons)


def _busy(occupancy: Occupancy, shares: bool) -> Filter:
    """The filter for nodes that others hold; of a shared node, other parts are available."""
    busy, parts = occupancy.busy, occupancy.parts if shares else {}

    def reason(node: Node) -> str | None:
        return f"held by pod {busy[node.name]}" if node.name in busy and node.name not in parts else None

    return Filter("busy", reason if busy else None, None if parts else busy)


@kept
def in_maintenance(site: Site) -> Mapping[str, str]:
    """Node -> why it is in maintenance."""
    return {n.name: n.maintenance for n in site.nodes if n.maintenance is not None}


def _among(name: str, those: Collection[str], reason: Reason) -> Filter:
    """The filter, without a test if there are no such nodes."""
    return Filter(name, reason if those else None)


@kept
def of_kind(
    site: Site,
    fabric: str,
    cloud: str,
    hcas: int,
    accelerators: AcceleratorCount | None,
    bare_metal: bool = False,
    whole: bool = False,
) -> tuple[int, tuple[FilterReport, ...]]:
    """The nodes of the kind that an order asks for, in any state, and the reports of the filters that select them.

    Args:
        whole: whether a server gets whole adapters.
    """
    topology = Topology.of(site, fabric)
    filters = (
        Filter("role", lambda n: None if n.role == "compute" else f"is a {n.role} node"),
        Filter("cloud", lambda n: _cloud(n, cloud)),
        Filter("kind", lambda n: _kind(n, bare_metal)),
        Filter("fabric", lambda n: _hcas(n, fabric, hcas, topology, whole)),
        Filter("accelerators", lambda n: _accelerators(n, accelerators)),
    )
    return run(filters, site, marks_of(site).every)


def keys_gone(occupancy: Occupancy, fabric: str) -> dict[str, str]:
    """Node -> why a port of it on the fabric takes no further P_Key or VLAN; the first such port."""
    return {port.node: port.why for port in reversed(occupancy.full_ports) if port.fabric == fabric}


def run(filters: Sequence[Filter], site: Site, nodes: int) -> tuple[int, tuple[FilterReport, ...]]:
    """The nodes that pass all filters, as marks of `marks_of`, and one report per filter."""
    marks, left = marks_of(site), nodes
    reports: list[FilterReport] = []
    for one in filters:
        reason = one.reason
        if reason is None:
            reports.append(FilterReport(filter=one.name, removed=0, left=left.bit_count()))
            continue
        if one.out is None:
            out = marks.of(
                name for name in marks.in_order(left) if reason(site.node_by_name[name]) is not None
            )
        else:
            out = left & marks.of(one.out)
        left &= ~out
        examples = tuple(f"{name}: {reason(site.node_by_name[name])}" for name in marks.first(out, EXAMPLES))
        removed = out.bit_count()
        reports.append(
            FilterReport(filter=one.name, removed=removed, left=left.bit_count(), examples=examples)
        )
    return left, tuple(reports)


def eligible(
    request: PlacementRequest, site: Site, topology: Topology, occupancy: Occupancy
) -> tuple[tuple[Node, ...], tuple[FilterReport, ...]]:
    """The site's nodes that are eligible for this request, and what each filter removed."""
    marks, reports = eligible_marks(request, site, topology, occupancy)
    return nodes_of(site, marks), reports


def nodes_of(site: Site, marks: int) -> tuple[Node, ...]:
    """The nodes that are marked, in the site's order."""
    return tuple(site.node_by_name[name] for name in marks_of(site).in_order(marks))


def eligible_marks(
    request: PlacementRequest, site: Site, topology: Topology, occupancy: Occupancy
) -> tuple[int, tuple[FilterReport, ...]]:
    """The nodes of `eligible` as marks of `marks_of`."""
    kinds = site_dedicated(site, request.fabric), in_maintenance(site)
    every = filters_for(request, topology, occupancy, *kinds)
    kind, reports = of_kind(
        site,
        request.fabric,
        request.cloud,
        request.hcas_per_node,
        request.accelerators,
        request.bare_metal,
        whole=request.share is None and not request.bare_metal,
    )
    left, more = run(every, site, kind)
    return left, reports + more


def _kind(node: Node, bare_metal: bool) -> str | None:
    if (node.machine is not None) == bare_metal:
        return None
    return "is no bare-metal machine" if bare_metal else "is a bare-metal machine"


def _cloud(node: Node, cloud: str) -> str | None:
    if node.cloud == cloud:
        return None
    return f"belongs to cloud {node.cloud}" if node.cloud else "belongs to no cloud"


def _hcas(node: Node, fabric: str, wanted: int, topology: Topology, whole: bool) -> str | None:
    if whole and wanted and (bond := node.bond_on(fabric)):
        return f"its {bond.name} is a bond of both functions of the NIC: servers get virtual functions of it only"
    if (reason := topology.uncabled.get(node.name)) is not None:
        return reason
    location = topology.locations.get(node.name)
    cabled = len(location.rails) if location else 0
    return None if cabled >= wanted else f"has {cabled} cabled HCAs on {fabric}, {wanted} are needed"


def _accelerators(node: Node, wanted: AcceleratorCount | None) -> str | None:
    if wanted is None:
        return None
    has = sum(1 for a in node.accelerators if a.type == wanted.type)
    return None if has >= wanted.count else f"has {has} of {wanted.count} {wanted.type}"


def dedicated_leaves(site: Site, topology: Topology) -> dict[str, str]:
    """Leaf -> project that the operator has dedicated it to."""
    return {
        leaf: switch.project
        for switch in site.switches
        if switch.project is not None
        and topology.fabric in (switch.fabric, NO_FABRIC)
        and (leaf := topology.rails.get(switch.name)) is not None  # None: no node is connected to it
    }


@kept
def site_dedicated(site: Site, fabric: str) -> Mapping[str, str]:
    """`dedicated_leaves` of one of the site's fabrics, cached."""
    return dedicated_leaves(site, Topology.of(site, fabric))


def _dedicated(leaf: str, request: PlacementRequest, dedicated: Mapping[str, str]) -> str | None:
    owner = dedicated.get(leaf)
    return None if owner in (None, request.project) else f"leaf {leaf} is dedicated to another project"


def terms_of(one: PlacementRequest | Neighbour) -> Terms:
    """What a request or neighbour requires of the leaves that it uses."""
    return Terms(one.project, frozenset(one.apart_from), one.exclusive, one.bisection_gbps)


def closed_leaves(terms: Terms, topology: Topology, neighbours: Iterable[Neighbour]) -> dict[str, str]:
    """Leaf -> why it is closed to an order on these terms."""
    found: dict[str, str] = {}
    for one in neighbours:
        theirs = terms_of(one)
        if not terms.at_odds(theirs):
            continue
        asked = terms.exclusive or one.project in terms.apart_from
        why = f"is used by project {one.project}"
        if not asked:
            why = f"has pod {one.pod} of project {one.project}, which keeps "
            why += "others away" if theirs.exclusive else f"project {terms.project} away"
        for node in one.nodes:
            if node in topology.locations:
                leaf = topology.locations[node].leaf
                found.setdefault(leaf, f"leaf {leaf} {why}")
    return found


def others(request: PlacementRequest, occupancy: Occupancy) -> list[Neighbour]:
    """All holders except the order's own pod, which may already have nodes."""
    own = request.pod, request.project
    return [n for n in occupancy.neighbours if (n.pod, n.project) != own]


def carried(topology: Topology, neighbours: Iterable[Neighbour]) -> dict[str, int]:
    """Leaf -> peak of the Gb/s of its uplinks that are guaranteed to these neighbours."""
    loads: list[Load[str]] = []
    for one in neighbours:
        if not one.bisection_gbps:
            continue
        nodes: dict[str, int] = {}
        for node in one.nodes:
            if node in topology.locations:
                leaf = topology.locations[node].leaf
                nodes[leaf] = nodes.get(leaf, 0) + 1
        end = FOREVER if one.end is None else one.end
        loads.append(Load(one.start, end, crossing(nodes, one.bisection_gbps)))
    return peak(loads, 0.0)
