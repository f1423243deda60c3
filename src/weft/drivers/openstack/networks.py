"""What is on Neutron's networks, whoever put it there.

A network's owner sees, and may remove, all ports on it, including other projects' (Neutron's policies `get_port` and
`delete_port`: NET_OWNER; `_port_filter_hook` of its database); only the owner can create subnets and shares of it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from weft.drivers.openstack.router import OWNERS
from weft.drivers.openstack.segments import PLACE, SHOWN, read_segments
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project, Sessions
from weft.ports.networks import OnNetwork
from weft.ports.patience import waiting_at_most

FRESH = 15.0
"""Seconds that a listing of segments is cached: a number taken since then is detected at creation."""
EXTERNAL = " (external)"
EVERYBODY = "*"
"""Whom a thing is shared with that is shared with all projects; the site's own never are."""
EVERYBODYS = f"{EVERYBODY}{EXTERNAL}"
"""Whom Neutron itself shares a network with that is made with `router:external`."""
_THE_CLOUDS = "network:"
"""Ports of the cloud's own agents (DHCP, metadata) come and go with the network."""


class OpenStackNetworks:
    """`Networks`. Thread-safe."""

    def __init__(self, sessions: Sessions) -> None:
        self._networks_of = sessions
        self._segments: dict[tuple[str, ...], tuple[float, Mapping[str, frozenset[int]]]] = {}

    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        wanted = tuple(sorted(set(physical_networks)))
        known = self._segments.get(wanted)
        if known is None or time.monotonic() - known[0] > FRESH:
            known = self._segments[wanted] = (time.monotonic(), self._listed_segments(wanted))
        return known[1]

    def on_networks(self, project_id: str, networks: Collection[str]) -> Sequence[OnNetwork]:
        if not networks:
            return []
        project, ids = self._networks_of.project(project_id), sorted(networks)
        return [*self._ports(project, ids), *self._subnets(project, ids), *self._shares(project, ids)]

    def take_off(self, project_id: str, thing: OnNetwork) -> None:
        network = self._networks_of.project(project_id).network
        asked = f"remove {thing.kind} {thing.id} from network {thing.network}"
        if thing.owner in OWNERS:
            path = f"/routers/{thing.device}/remove_router_interface"
            network.ask(asked, "PUT", path, json={"port_id": thing.id}, ok=(404,))
            return
        path = {"port": "/ports", "subnet": "/subnets", "share": "/rbac-policies"}[thing.kind]
        network.ask(asked, "DELETE", f"{path}/{thing.id}", ok=(404,))

    def _listed_segments(self, physical_networks: tuple[str, ...]) -> Mapping[str, frozenset[int]]:
        asked = f"list the networks of all projects on {', '.join(physical_networks)}"
        own, found = self._networks_of.own(), {name: set[int]() for name in physical_networks}
        filters = {PLACE: physical_networks, "fields": ("id", "project_id", *SHOWN)}
        with waiting_at_most(None):  # of all projects, and remembered: no caller's time is enough
            rows = own.network.listing(asked, "/networks", "networks", filters)
        segments = read_segments(own, asked, rows)
        for segment in (one for of_one in segments.values() for one in of_one):
            if segment.number is not None and segment.place in found:
                found[segment.place].add(segment.number)
        return {name: frozenset(numbers) for name, numbers in found.items()}

    @staticmethod
    def _ports(project: Project, networks: list[str]) -> list[OnNetwork]:
        fields = ("id", "name", "network_id", "project_id", "device_owner", "device_id")
        rows = project.network.listing(
            "list ports on the pod's networks",
            "/ports",
            "ports",
            {"fields": fields},
            only={"network_id": networks},
        )
        return [
            OnNetwork(
                "port",
                row["id"],
                row["network_id"],
                row["name"],
                row["project_id"],
                row["device_owner"],
                row["device_id"],
            )
            for row in rows
            if row["device_owner"] in OWNERS or not row["device_owner"].startswith(_THE_CLOUDS)
        ]

    @staticmethod
    def _subnets(project: Project, networks: list[str]) -> list[OnNetwork]:
        fields = ("id", "name", "network_id", "project_id")
        rows = project.network.listing(
            "list subnets on the pod's networks",
            "/subnets",
            "subnets",
            {"fields": fields},
            only={"network_id": networks},
        )
        return [OnNetwork("subnet", r["id"], r["network_id"], r["name"], r["project_id"]) for r in rows]

    @staticmethod
    def _shares(project: Project, networks: list[str]) -> list[OnNetwork]:
        return [
            OnNetwork("share", row["id"], row["object_id"], "", row["target_tenant"])
            for row in shares_of(project, networks)
        ]


def shares_of(project: Project, shared: Collection[str], kind: str = "network") -> list[Json]:
    """Neutron's RBAC policies for these networks, or other things, created by a project."""
    only = {"object_type": kind, "object_id": sorted(shared)}
    asked = f"list shares of {kind}s"
    return project.network.listing(asked, "/rbac-policies", "rbac_policies", only=only)


def shared_projects(project: Project, shared: Collection[str], kind: str) -> dict[str, frozenset[str]]:
    """Id of a thing -> projects that it is shared with; with `EXTERNAL` as an external network alone."""
    found: dict[str, set[str]] = {one: set() for one in shared}
    for share in shares_of(project, shared, kind) if shared else ():
        found.setdefault(share["object_id"], set()).add(_whom(share))
    return {one: frozenset(projects) for one, projects in found.items()}


def _whom(share: Json) -> str:
    return str(share["target_tenant"]) + (EXTERNAL if share.get("action") == "access_as_external" else "")


def set_shares(project: Project, kind: str, thing_id: str, name: str, wanted: Collection[str]) -> None:
    """Share it with exactly these projects. Raises the error: of a network with ports of a project on it, its share
    can't be taken back.
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
    """Fine if it is there already."""
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
