"""Which of a site's own networks exist in a cloud already, read without weft's service: Terraform creates the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from weft.drivers.openstack import OpenStackDriver, OpenStackExisting, Sessions
from weft.drivers.openstack.parts import parts_of
from weft.model.errors import ConflictError, UnknownError
from weft.model.owner import Owner
from weft.model.resources import Graph, Observed
from weft.model.site import Site
from weft.planning.export.terraform import differing, graph_of, unknown_parts
from weft.planning.site.changes import conflicts
from weft.planning.words import some
from weft.ports.existing import Existing, ExistingResources
from weft.ports.resources import Scope

SHOWN = 5
"""Conflicts that an error names."""


def look(site: Site, cloud: str, profile: str) -> tuple[ExistingResources, list[str]]:
    """Resources of the site that exist in a cloud, and how they differ.

    They are recognized as by `weft site plan`: networks by VLAN, subnets by CIDR, ports by MAC address, routers and
    groups by name, in the project of weft's service user; whether weft or someone else created them.
    Their fields are compared: a difference that can be changed in place is a note.

    Raises `ConflictError` if something else is in the way, or differs in what can't be changed, `InputError` without
    credentials, `OutsideError`.
    """
    graph, sessions = graph_of(site, cloud), Sessions(profile)
    try:
        existing = OpenStackExisting(sessions).alike(graph.resources, {})
        ids = _importable(site.name, existing)
        seen = _observed(site, cloud, sessions, graph, ids)
        if found := list(conflicts(graph, existing, ids, seen, None)):
            said = "; ".join(c.what for c in found[:SHOWN])
            rest = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            raise ConflictError(f"{some(len(found), 'thing')} in the way in cloud {cloud}: {said}{rest}")
        there = ExistingResources(ids, parts_of(sessions, graph.resources, ids))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        asked = f"read the existing resources of site {site.name}"
        answer = f"a malformed answer ({type(error).__name__}: {error})"
        raise UnknownError(asked, f"cloud {cloud}", answer, "nothing was written") from error
    finally:
        sessions.close()
    return there, [*differing(graph, seen), *unknown_parts(site, cloud, there)]


def _observed(
    site: Site, cloud: str, sessions: Sessions, graph: Graph, ids: Mapping[str, str]
) -> Mapping[str, Observed]:
    """What would be imported, as read by the driver of `weft site plan`."""
    wanted = [r for r in graph.resources if r.key in ids]
    # Nothing bears such a mark: things are known by their ids.
    scope = Scope(site.name, Owner("site", str(UUID(int=0))), site.name, "")
    driver = OpenStackDriver(cloud, sessions)
    try:
        return driver.find(scope, wanted, ids)
    finally:
        driver.close()


def _importable(site: str, existing: Mapping[str, Sequence[Existing]]) -> dict[str, str]:
    """Key -> id of the single match, if its mark is the site's or it has none."""
    return {
        key: found[0].id
        for key, found in existing.items()
        if len(found) == 1 and found[0].same and found[0].own and _is_sites(site, found[0])
    }


def _is_sites(site: str, one: Existing) -> bool:
    return one.mark is None or (one.mark.site == site and one.mark.owner.kind == "site")
