"""A plan, or a refusal, as text for people. Equal plans give equal text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC

from weft.model.kinds import every_kind
from weft.model.placement import Candidate, Explanation, PlacedNode, Placement, Refusal
from weft.model.plan import Plan
from weft.model.resources import Resource
from weft.model.specs import NetworkSpec, ServerSpec
from weft.planning.shapes.access import access_notes
from weft.planning.shapes.graph import MANAGEMENT_NETWORK
from weft.planning.shapes.resolve import shape_of
from weft.planning.shapes.storage import storage_words
from weft.planning.words import first_names, some

MOST_NODES = 40
"""Nodes that are listed individually; larger pods are listed by leaf."""
MOST_SERVERS = 16
"""Servers that are listed with their ports; of a larger pod half as many, and the others are counted."""
MOST_LEAVES = 8
"""Leaves that a candidate is shown with."""


def plan_text(plan: Plan) -> str:
    """The plan: nodes, reasons, numbers, resources and counts; of a large pod only as much as a person can read."""
    sections = [
        [f"Plan of pod {plan.order.name} (project {plan.project}) on site {plan.site}. Nothing was changed."],
        list(_nodes(plan)),
        list(_explanation(plan.placement.explanation)),
        list(_numbers(plan)),
        [f"Limit: {said}" for said in plan.limits],
        list(_storage(plan)),
        list(_resources(plan)),
        list(shape_of(plan.order).limits(plan)),
        [f"Note: {said}" for said in notes(plan)],
        [f"Would be created: {counts(plan.graph.resources)}."],
    ]
    return "\n\n".join("\n".join(s) for s in sections if s) + "\n"


def refusal_text(name: str, refusal: Refusal) -> str:
    """Why an order can't be served, and what would."""
    sections = [[f"Pod {name} is refused: {refusal.reason.rstrip('.')}."]]
    if refusal.explanation.filters or refusal.explanation.compared:
        same = refusal.explanation.chosen == refusal.reason
        said = refusal.explanation.model_copy(update={"chosen": ""} if same else {})
        sections.append(list(_explanation(said)))
    if refusal.would_fit:
        sections.append(["What would fit:", *(f"  {offer.message}" for offer in refusal.would_fit)])
    return "\n\n".join("\n".join(s) for s in sections if s) + "\n"


def notes(plan: Plan) -> Iterator[str]:
    """What to know before ordering it, one sentence each."""
    if plan.change is None:
        yield from access_notes(plan.order)
    if plan.names_taken:
        names = first_names(plan.names_taken)
        yield f"the project has servers of these names already: {names}; nodes.names gives others"


def counts(resources: Iterable[Resource]) -> str:
    """`1 partition, 2 networks, 4 servers`, in order of creation."""
    number = Counter(r.kind for r in resources)
    return ", ".join(some(number[k], k.row.one, k.row.many) for k in every_kind() if number[k])


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Columns side by side, the first row being the header; no space at the ends of lines."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        (indent + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True))).rstrip() for row in rows
    ]


def _nodes(plan: Plan) -> Iterator[str]:
    shape, placement = shape_of(plan.order), plan.placement
    yield shape.headline(plan)
    if plan.order.lease.end is not None:
        yield f"Released automatically at {plan.order.lease.end.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC."
    if len(placement.nodes) > MOST_NODES:
        yield from _by_leaf(placement)
        return
    nvlink = any(n.nvlink_domain for n in (*placement.nodes, *placement.spares))
    rows = [[*shape.columns, *(("NVLink domain",) if nvlink else ())]]
    numbered = [(str(i), n) for i, n in enumerate(placement.nodes, 1)]
    for number, n in (*numbered, *(("spare", n) for n in placement.spares)):
        domain = (n.nvlink_domain or "-",) if nvlink else ()
        rows.append([number, n.node, n.rack or "-", n.leaf, n.block, *domain])
    yield from table(rows)
    yield from _rails(placement)


def _rails(placement: Placement) -> Iterator[str]:
    """Which switches count as one leaf."""
    for leaf, switches in placement.rails.items():
        if leaf in {n.leaf for n in (*placement.nodes, *placement.spares)}:
            yield f"  Leaf {leaf} is {len(switches)} rails: {', '.join(switches)}"


def _by_leaf(placement: Placement) -> Iterator[str]:
    """How many nodes each leaf has, and the first and last by name."""
    spare = Counter(n.leaf for n in placement.spares)
    leaves: dict[tuple[str, str], list[PlacedNode]] = {}
    for node in (*placement.nodes, *placement.spares):
        leaves.setdefault((node.leaf, node.block), []).append(node)
    nvlink = any(n.nvlink_domain for here in leaves.values() for n in here)
    rows = [["leaf", "block", "rack", "nodes", *(("NVLink domains",) if nvlink else ()), "from … to"]]
    for (leaf, block), here in leaves.items():
        racks = sorted({n.rack or "-" for n in here})
        more = f" ({spare[leaf]} spare)" if spare[leaf] else ""
        ends = here[0].node if len(here) == 1 else f"{here[0].node} … {here[-1].node}"
        domains = {n.nvlink_domain for n in here} - {None}
        rows.append([
            leaf, block, racks[0] if len(racks) == 1 else f"{len(racks)} racks", f"{len(here)}{more}",
            *((str(len(domains)),) if nvlink else ()), ends,
        ])  # fmt: skip
    yield from table(rows)
    yield from _rails(placement)
    yield "  Each node by name: --json."


def _explanation(explanation: Explanation) -> Iterator[str]:
    if explanation.chosen:
        yield f"Why: {explanation.chosen}"
    if explanation.compared:
        yield "Compared:"
        rows = [["leaves", "blocks", "left over", "verdict"]]
        rows += [[_leaves(c), str(c.blocks), str(c.leftover), c.why] for c in explanation.compared]
        yield from table(rows)
    removing = [f for f in explanation.filters if f.removed]
    if removing:
        yield f"Removed, of {explanation.considered} nodes:"
        rows = [["filter", "removed", "left", "for example"]]
        rows += [[f.filter, str(f.removed), str(f.left), "; ".join(f.examples)] for f in removing]
        yield from table(rows)
    elif explanation.filters:
        yield f"No filter removed any of the {explanation.considered} nodes."


def _leaves(candidate: Candidate) -> str:
    shown, more = ", ".join(candidate.leaves[:MOST_LEAVES]), len(candidate.leaves) - MOST_LEAVES
    return f"{shown} and {more} more" if more > 0 else shown


def _numbers(plan: Plan) -> Iterator[str]:
    network = plan.graph.by_key()[MANAGEMENT_NETWORK].spec
    assert isinstance(network, NetworkSpec)
    where = "self-service" if plan.vlan is None else f"VLAN {plan.vlan} on {network.physical_network}"
    management = f"{where}, {plan.allotment.management_cidr}"
    yield "Numbers:"
    yield from table([*shape_of(plan.order).numbers(plan), ["management", management]])


def _storage(plan: Plan) -> Iterator[str]:
    """What servers mount, and who else may mount it."""
    if not plan.order.storage:
        return
    yield "Storage:"
    yield from table(
        [
            ["mount", "what", "for whom, and how long"],
            *([e.mount, *storage_words(e)] for e in plan.order.storage),
        ]
    )


def _resources(plan: Plan) -> Iterator[str]:
    """A tree: networks with what is in them, then each server with its ports and its floating IP."""
    resources = plan.graph.by_key()
    servers = [r for r in plan.graph.resources if isinstance(r.spec, ServerSpec)]
    # Ports in the order of the server's devices.
    children = {
        r.key: [resources[k] for k in r.spec.ports] for r in servers if isinstance(r.spec, ServerSpec)
    }
    hung = {port.key for ports in children.values() for port in ports}
    roots: list[Resource] = []
    for r in plan.graph.resources:
        parent = r.spec.inside()
        if r.key not in hung:
            (children.setdefault(parent, []) if parent else roots).append(r)
    # Servers stand last, and in the order of the placement, which is that of their numbers.
    order = {n.node: i for i, n in enumerate(plan.placement.nodes)}
    roots.sort(key=lambda r: order.get(r.node, -1) if isinstance(r.spec, ServerSpec) else -1)
    beyond = 0
    if len(servers) > MOST_SERVERS:
        beyond = len(servers) - MOST_SERVERS // 2
        roots = roots[:-beyond]
    yield "Resources:"
    lines: list[list[str]] = []
    for root in roots:
        _branch(root, children, "", lines)
    yield from table([["key", "name", "where", "what"], *lines])
    if beyond:
        yield f"  … and {beyond} more servers with their ports. Each by name: --json."


def _branch(r: Resource, children: dict[str, list[Resource]], indent: str, lines: list[list[str]]) -> None:
    lines.append([indent + r.key, r.name, r.where, r.spec.summary()])
    for child in children.get(r.key, ()):
        _branch(child, children, indent + "  ", lines)
