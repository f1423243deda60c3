"""Quota required by a graph."""

from __future__ import annotations

from weft.model.resources import Graph


def needed_quota(graph: Graph, vcpus: int, ram: int) -> dict[str, int]:
    """Name of a quota -> how much the graph needs of the tenant's; without zeros.

    Args:
        vcpus: virtual CPUs of the flavor.
        ram: memory of the flavor in MiB.
    """
    needed: dict[str, int] = {}
    for resource in graph.resources:
        if resource.owner == "site":
            continue  # in the project of weft's service user
        row = resource.kind.row
        own = [(row.quota, 1)] if row.quota and resource.spec.is_counted else []
        for name, amount in (*own, *resource.spec.quota(vcpus, ram).items()):
            if amount:
                needed[name] = needed.get(name, 0) + amount
    return needed


def more_quota(graph: Graph, freed: Graph, vcpus: int, ram: int) -> dict[str, int]:
    """Name of a quota that the graph needs -> how much its use grows once `freed` is gone; may be zero or negative.

    Args: `vcpus` and `ram` as for `needed_quota`.
    """
    less = needed_quota(freed, vcpus, ram)
    return {name: amount - less.get(name, 0) for name, amount in needed_quota(graph, vcpus, ram).items()}
