"""What a tenant is shown of placements and refusals; see `weft.app.shown`."""

from __future__ import annotations

from weft.app import tenanttext
from weft.model.messages.values import earlier, later
from weft.model.offer import (
    BootOffer,
    FieldsOffer,
    LaterOffer,
    LeaseOffer,
    NewPodOffer,
    Offer,
    OfferedChange,
    OfferedTime,
)
from weft.model.placement import Explanation, FilterReport, Placement, Refusal
from weft.planning.words import first_names, some

OWN_FILTERS = frozenset({"cloud", "fabric", "accelerators", "image", "exclude", "report", "stays", "ipu_pod"})
"""Filters that depend on the order. What others remove is reported as one sum: busy, booked, kept apart, broken or in
maintenance are the same to a tenant."""
TAKEN = "busy"


def why_chosen(placement: Placement) -> Explanation:
    """Chosen nodes and leaves; why others weren't chosen depends on other tenants, and is hidden."""
    return _explanation(placement.explanation, _summary(placement))


def _summary(placement: Placement) -> str:
    """In one sentence: nodes, spares and leaves, or servers and the shared nodes that they are on."""
    number = len(placement.nodes)
    if any(node.part is not None for node in placement.nodes):
        return f"{some(number, 'server')} on {some(len(placement.held), 'node')}."
    leaves = list(dict.fromkeys(node.leaf for node in (*placement.nodes, *placement.spares)))
    spares = [node.node for node in placement.spares]
    spare = f", and {first_names(spares)} spare," if spares else ""
    on = f"{some(len(leaves), 'leaf', 'leaves')} ({first_names(leaves)})"
    return f"{some(number, 'node')}{spare} on {on}."


def why_refused(refusal: Refusal) -> Explanation:
    """A refusal is explained by its reason."""
    chosen = refusal.explanation.chosen
    return _explanation(refusal.explanation, tenanttext.refusal(chosen) if chosen else "")


def _explanation(explanation: Explanation, chosen: str) -> Explanation:
    return Explanation(considered=explanation.considered, filters=_filters(explanation), chosen=chosen)


def _filters(explanation: Explanation) -> tuple[FilterReport, ...]:
    """What the order's own requirements removed, then everything else as one row."""
    rows = explanation.filters
    left = rows[0].left + rows[0].removed if rows else 0
    shown: list[FilterReport] = []
    for row in rows:
        if row.filter in OWN_FILTERS:
            left -= row.removed
            shown.append(FilterReport(filter=row.filter, removed=row.removed, left=left))
    if taken := sum(row.removed for row in rows if row.filter not in OWN_FILTERS):
        shown.append(FilterReport(filter=TAKEN, removed=taken, left=left - taken))
    return tuple(shown)


def offers(refusal: Refusal) -> tuple[Offer, ...]:
    """Offers that the tenant can take itself; the others are merged into one: it would fit later."""
    return tuple(dict.fromkeys(_offer(one) for one in refusal.would_fit))


def _offer(offer: Offer) -> Offer:
    """An offer's text by kind, from the values named here only: others would reveal other tenants."""
    match offer:
        case FieldsOffer():
            changes = (OfferedChange(field=c.field, was=c.was, becomes=c.becomes) for c in offer.changes)
            return FieldsOffer(changes=tuple(changes))
        case NewPodOffer():
            return NewPodOffer(field=offer.field)
        case BootOffer():
            return BootOffer(fields=offer.fields)
        case LeaseOffer():
            return LeaseOffer(changes=tuple(_time(change) for change in offer.changes))
        case _:
            return LaterOffer()


def _time(change: OfferedTime) -> OfferedTime:
    """An offered time, rounded, since it follows from others' leases."""
    rounded = later if change.field == "lease.start" else earlier
    return OfferedTime(field=change.field, was=change.was, becomes=rounded(change.becomes))
