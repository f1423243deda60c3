"""For a refusal: the smallest single changes that would make the order fit now, each proved by another decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from weft.model.localityorder import Level, SliceWithin
from weft.model.placement import Occupancy, PlacementRequest
from weft.planning.words import some

MOST_PODS_TRIED = 50


class Fits(Protocol):
    """Whether a changed request fits a changed occupancy, after the pods that are gone have returned everything."""

    def __call__(self, changed: PlacementRequest, then: Occupancy, gone: Collection[str] = ()) -> bool: ...


def smallest_changes(
    request: PlacementRequest, occupancy: Occupancy, fits: Fits, levels: Sequence[Level]
) -> tuple[str, ...]:
    """One sentence per change: fewer nodes, a weaker level, smaller slices, fewer HCAs, nothing excluded, a pod's end.

    Args:
        levels: of the fabric, the nearest first.
    """
    found = (
        _fewer_nodes(request, occupancy, fits),
        _weaker_level(request, occupancy, fits, levels),
        _smaller_slices(request, occupancy, fits),
        _wider_slices(request, occupancy, fits),
        _no_spares(request, occupancy, fits),
        _less_bandwidth(request, occupancy, fits),
        _beside_others(request, occupancy, fits),
        _fewer_hcas(request, occupancy, fits),
        _another_image(request, occupancy, fits),
        _without_exclusions(request, occupancy, fits),
        _without_quarantine(request, occupancy, fits),
        _after_release(request, occupancy, fits),
    )
    return tuple(f for f in found if f is not None)


def _fewer_nodes(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    size = request.slice
    low, high = 0, request.count // size
    while high - low > 1:
        middle = (low + high) // 2
        if fits(request.model_copy(update={"count": middle * size}), occupancy):
            low = middle
        else:
            high = middle
    return f"count: {low * size} instead of {request.count}" if low else None


def _weaker_level(
    request: PlacementRequest, occupancy: Occupancy, fits: Fits, levels: Sequence[Level]
) -> str | None:
    for level in levels[levels.index(request.required) + 1 :] if request.required in levels else ():
        if fits(request.model_copy(update={"required": level}), occupancy):
            return f"locality.required: {level} instead of {request.required}"
    return None


def _smaller_slices(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    """The largest slices that would fit; groups in NVLink domains are of two at least, as in an order."""
    least = 1 if request.slice_within == "leaf" else 2
    for size in range(request.slice - 1, least - 1, -1):
        whole = request.count % size == 0 and request.spare % size == 0
        if whole and fits(request.model_copy(update={"slice": size}), occupancy):
            return f"locality.slice: {size} instead of {request.slice}"
    return None


def _wider_slices(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    """Groups in a wider domain."""
    wider: dict[SliceWithin, tuple[SliceWithin, ...]] = {
        "whole_nvlink_domain": ("nvlink_domain", "leaf"),
        "nvlink_domain": ("leaf",),
    }
    for within in wider.get(request.slice_within, ()):
        if fits(request.model_copy(update={"slice_within": within}), occupancy):
            return f"locality.slice_within: {within} instead of {request.slice_within}"
    return None


def _no_spares(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    for spare in range(request.spare - request.slice, -1, -request.slice):
        if fits(request.model_copy(update={"spare": spare}), occupancy):
            return f"nodes.spare: {spare} instead of {request.spare}"
    return None


def _less_bandwidth(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    """The most that could be guaranteed."""
    low, high = -1, request.bisection_gbps
    while high - low > 1:
        middle = (low + high) // 2
        if fits(request.model_copy(update={"bisection_gbps": middle}), occupancy):
            low = middle
        else:
            high = middle
    return (
        f"fabric.bisection_gbps: {low} instead of {request.bisection_gbps}"
        if low >= 0 and request.bisection_gbps
        else None
    )


def _beside_others(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    """Sharing leaves with the projects that the order keeps away from."""
    if request.exclusive and fits(request.model_copy(update={"exclusive": False}), occupancy):
        return "locality.exclusive: false instead of true"
    if not request.apart_from or request.exclusive:
        return None
    for project in request.apart_from:
        rest = tuple(p for p in request.apart_from if p != project)
        if fits(request.model_copy(update={"apart_from": rest}), occupancy):
            return f"locality.apart_from: without {project}"
    if fits(request.model_copy(update={"apart_from": ()}), occupancy):
        return f"locality.apart_from: none instead of {len(request.apart_from)} projects"
    return None


def _fewer_hcas(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    for hcas in range(request.hcas_per_node - 1, 0, -1):
        if fits(request.model_copy(update={"hcas_per_node": hcas}), occupancy):
            return f"fabric.hcas_per_node: {hcas} instead of {request.hcas_per_node}"
    return None


def _another_image(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    unfit = occupancy.unfit.get(request.boot, {})
    if not unfit or not fits(request.model_copy(update={"boot": ""}), occupancy):
        return None
    return f"nodes.image, nodes.flavor: others, which can boot on {len(unfit)} more nodes"


def _without_exclusions(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    if request.exclude and fits(request.model_copy(update={"exclude": ()}), occupancy):
        return f"exclude: none instead of {len(request.exclude)} nodes"
    return None


def _without_quarantine(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    if not occupancy.quarantined or not fits(request, occupancy.model_copy(update={"quarantined": {}})):
        return None
    for node in sorted(occupancy.quarantined):
        rest = {n: r for n, r in occupancy.quarantined.items() if n != node}
        if fits(request, occupancy.model_copy(update={"quarantined": rest})):
            return f"when {node} leaves quarantine ({occupancy.quarantined[node]})"
    return f"when the {len(occupancy.quarantined)} quarantined nodes are cleared"


def _after_release(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> str | None:
    """The smallest pod whose end would make the order fit."""
    held: dict[str, int] = {}
    for pod in occupancy.busy.values():
        held[pod] = held.get(pod, 0) + 1
    for pod, nodes in sorted(held.items(), key=lambda p: (p[1], p[0]))[:MOST_PODS_TRIED]:
        if fits(request, occupancy, {pod}):
            return f"when pod {pod} ({some(nodes, 'node')}) is released"
    if held and fits(request, occupancy, held.keys()):
        return "when several of the current pods are released"
    return None
