"""The smallest single changes that would make a refused order fit now, each proved by another decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from weft.model.localityorder import Level, SliceWithin
from weft.model.offer import (
    BootOffer,
    ClearOffer,
    ExclusionsOffer,
    NeighboursOffer,
    Offer,
    OfferedChange,
    ReleaseOffer,
    offered,
)
from weft.model.placement import Occupancy, PlacementRequest

MOST_PODS_TRIED = 50


class Fits(Protocol):
    """Whether a changed request fits a changed occupancy, after the pods that are gone have returned everything."""

    def __call__(self, changed: PlacementRequest, then: Occupancy, gone: Collection[str] = ()) -> bool: ...


def smallest_changes(
    request: PlacementRequest, occupancy: Occupancy, fits: Fits, levels: Sequence[Level]
) -> tuple[Offer, ...]:
    """One offer per change: fewer nodes, a weaker level, smaller slices, fewer HCAs, nothing excluded, a pod's end.

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


def _fewer_nodes(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    size = request.slice
    low, high = 0, request.count // size
    while high - low > 1:
        middle = (low + high) // 2
        if fits(request.model_copy(update={"count": middle * size}), occupancy):
            low = middle
        else:
            high = middle
    return offered("nodes.count", request.count, low * size) if low else None


def _weaker_level(
    request: PlacementRequest, occupancy: Occupancy, fits: Fits, levels: Sequence[Level]
) -> Offer | None:
    for level in levels[levels.index(request.required) + 1 :] if request.required in levels else ():
        if fits(request.model_copy(update={"required": level}), occupancy):
            return offered("locality.required", request.required, level)
    return None


def _smaller_slices(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    """The largest slices that would fit; groups in NVLink domains are of two at least, as in an order."""
    least = 1 if request.slice_within == "leaf" else 2
    for size in range(request.slice - 1, least - 1, -1):
        whole = request.count % size == 0 and request.spare % size == 0
        if whole and fits(request.model_copy(update={"slice": size}), occupancy):
            return offered("locality.slice", request.slice, size)
    return None


def _wider_slices(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    """Slices that stay inside a wider domain."""
    wider: dict[SliceWithin, tuple[SliceWithin, ...]] = {
        "whole_nvlink_domain": ("nvlink_domain", "leaf"),
        "nvlink_domain": ("leaf",),
    }
    for within in wider.get(request.slice_within, ()):
        if fits(request.model_copy(update={"slice_within": within}), occupancy):
            return offered("locality.slice_within", request.slice_within, within)
    return None


def _no_spares(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    for spare in range(request.spare - request.slice, -1, -request.slice):
        if fits(request.model_copy(update={"spare": spare}), occupancy):
            return offered("nodes.spare", request.spare, spare)
    return None


def _less_bandwidth(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    """The most Gb/s of uplinks that could be guaranteed."""
    low, high = -1, request.bisection_gbps
    while high - low > 1:
        middle = (low + high) // 2
        if fits(request.model_copy(update={"bisection_gbps": middle}), occupancy):
            low = middle
        else:
            high = middle
    if low < 0 or not request.bisection_gbps:
        return None
    return offered("fabric.bisection_gbps", request.bisection_gbps, low)


def _beside_others(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    """Sharing leaves with the projects that the order keeps away from."""
    if request.exclusive and fits(request.model_copy(update={"exclusive": False}), occupancy):
        return offered("locality.exclusive", True, False)
    if not request.apart_from or request.exclusive:
        return None
    without = (tuple(p for p in request.apart_from if p != project) for project in request.apart_from)
    for rest in (*without, ()):
        if fits(request.model_copy(update={"apart_from": rest}), occupancy):
            change = OfferedChange(field="locality.apart_from", was=request.apart_from, becomes=rest)
            return NeighboursOffer(changes=(change,))
    return None


def _fewer_hcas(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    for hcas in range(request.hcas_per_node - 1, 0, -1):
        if fits(request.model_copy(update={"hcas_per_node": hcas}), occupancy):
            return offered("fabric.hcas_per_node", request.hcas_per_node, hcas)
    return None


def _another_image(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    unfit = occupancy.unfit.get(request.boot, {})
    if not unfit or not fits(request.model_copy(update={"boot": ""}), occupancy):
        return None
    return BootOffer(nodes=len(unfit))


def _without_exclusions(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    if request.exclude and fits(request.model_copy(update={"exclude": ()}), occupancy):
        return ExclusionsOffer(nodes=len(request.exclude))
    return None


def _without_quarantine(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    if not occupancy.quarantined or not fits(request, occupancy.model_copy(update={"quarantined": {}})):
        return None
    for node in sorted(occupancy.quarantined):
        rest = {n: r for n, r in occupancy.quarantined.items() if n != node}
        if fits(request, occupancy.model_copy(update={"quarantined": rest})):
            return ClearOffer(node=node, reason=occupancy.quarantined[node], nodes=1)
    return ClearOffer(nodes=len(occupancy.quarantined))


def _after_release(request: PlacementRequest, occupancy: Occupancy, fits: Fits) -> Offer | None:
    """The smallest pod whose end would make the order fit."""
    held: dict[str, int] = {}
    for pod in occupancy.busy.values():
        held[pod] = held.get(pod, 0) + 1
    for pod, nodes in sorted(held.items(), key=lambda p: (p[1], p[0]))[:MOST_PODS_TRIED]:
        if fits(request, occupancy, {pod}):
            return ReleaseOffer(pod=pod, nodes=nodes)
    if held and fits(request, occupancy, held.keys()):
        return ReleaseOffer()
    return None
