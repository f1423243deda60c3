"""Neutron's networks of all projects: their segments, what uses them and other resources, and their
shares."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from weft.drivers.openstack.neutron import default_group
from weft.drivers.openstack.onnetworks import shares_of
from weft.drivers.openstack.segments import PLACE, SHOWN, read_segments
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.drivers.openstack.uses import USES, end_use, on_networks
from weft.model.kinds import Kind
from weft.model.uses import EVERYBODY, Use
from weft.ports.listings import SharedListings
from weft.ports.patience import waiting_at_most

FRESH = 15.0
"""Seconds for which a listing of segments is cached: a number that was taken since then is detected at creation."""
EXTERNAL = " (external)"
EVERYBODYS = f"{EVERYBODY}{EXTERNAL}"
"""The target of the share that Neutron itself makes for a network with `router:external`."""


class OpenStackNetworks:
    """`CloudNetworks`. Thread-safe."""

    def __init__(self, sessions: Sessions) -> None:
        self._networks_of = sessions
        self._segments: dict[tuple[str, ...], tuple[float, Mapping[str, frozenset[int]]]] = {}

    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        wanted = tuple(sorted(set(physical_networks)))
        known = self._segments.get(wanted)
        if known is None or time.monotonic() - known[0] > FRESH:
            known = self._segments[wanted] = (time.monotonic(), self._listed_segments(wanted))
        return known[1]

    def on_networks(
        self, project_id: str, networks: Collection[str], listings: SharedListings | None = None
    ) -> Sequence[Use]:
        return on_networks(self._networks_of.project(project_id), networks, listings)

    def uses(self, project_id: str, things: Mapping[Kind, Collection[str]]) -> Sequence[Use]:
        project, own = self._networks_of.project(project_id), self._networks_of.own()
        used = [(kind, ids) for kind, ids in things.items() if ids]
        found = [use for kind, ids in used for use in USES[kind](project, ids)]
        if used:
            default_group(own, project_id)  # proves that other projects' resources are shown
        return found

    def take_off(self, project_id: str, use: Use) -> None:
        sessions, theirs = self._networks_of, use.project_id
        if use.kind != "share" and theirs != project_id and theirs in sessions.served():
            end_use(sessions.project(project_id), sessions.project(theirs), use)
        else:
            end_use(sessions.project(project_id), None, use)

    def _listed_segments(self, physical_networks: tuple[str, ...]) -> Mapping[str, frozenset[int]]:
        asked = f"list the networks of all projects on {', '.join(physical_networks)}"
        own, found = self._networks_of.own(), {name: set[int]() for name in physical_networks}
        filters = {PLACE: physical_networks, "fields": ("id", "project_id", *SHOWN)}
        with waiting_at_most(
            None
        ):  # of all projects, and cached: a single caller's time limit would be too short
            rows = own.network.listing(asked, "/networks", "networks", filters)
        segments = read_segments(own, asked, rows)
        for segment in (one for of_one in segments.values() for one in of_one):
            if segment.number is not None and segment.place in found:
                found[segment.place].add(segment.number)
        return {name: frozenset(numbers) for name, numbers in found.items()}


def shared_projects(
    project: Project, shared: Collection[str], kind: str, listings: SharedListings | None = None
) -> dict[str, frozenset[str]]:
    """Id of a resource -> projects that it is shared with; with `EXTERNAL` only as an external network."""
    found: dict[str, set[str]] = {one: set() for one in shared}
    for share in shares_of(project, shared, kind, listings) if shared else ():
        found.setdefault(share["object_id"], set()).add(_whom(share))
    return {one: frozenset(projects) for one, projects in found.items()}


def _whom(share: Json) -> str:
    return str(share["target_tenant"]) + (EXTERNAL if share.get("action") == "access_as_external" else "")


def set_shares(project: Project, kind: str, thing_id: str, name: str, wanted: Collection[str]) -> None:
    """Share a resource with exactly these projects. Raises the error: the share of a network with ports of that project
    can't be removed.
    """
    there = shares_of(project, [thing_id], kind)
    for target in sorted(set(wanted) - {_whom(s) for s in there}):
        if not target.endswith(EXTERNAL):  # Neutron makes that one with `router:external`
            add_share(project, kind, thing_id, name, target)
    for share in there:
        if _whom(share) not in wanted:
            asked = f"remove the share of {kind} {name} with project {share['target_tenant']}"
            project.network.ask(asked, "DELETE", f"/rbac-policies/{share['id']}", ok=(404,))


def add_share(project: Project, kind: str, thing_id: str, name: str, target: str) -> None:
    """Share a resource with one project; no error if the share exists."""
    policy = {
        "object_type": kind,
        "object_id": thing_id,
        "action": "access_as_shared",
        "target_tenant": target,
    }
    asked = f"share {kind} {name} with project {target}"
    answer = project.network.ask(asked, "POST", "/rbac-policies", json={"rbac_policy": policy}, ok=(409,))
    if answer.status == 409 and answer.error_type != "DuplicateRbacPolicy":
        raise project.network.error(asked, answer)
