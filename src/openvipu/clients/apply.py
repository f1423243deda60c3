"""``vipu-admin apply FILE``: create agents, clusters, allocations and users as listed in a JSON file.

For cloud-init: it is idempotent, waits for a controller and agents that don't respond yet, creates what is missing,
and refuses to change what exists but differs. It removes nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from openvipu.clients.session import CommandError, Session, say
from openvipu.model.errors import BadRequest
from openvipu.proto import admin_pb2 as pb
from openvipu.proto import vipuuser_pb2

FIELDS: dict[str, dict[str, type]] = {
    "agents": {"id": str, "host": str, "port": int},
    "clusters": {
        "id": str,
        "topology": str,
        "cluster_topology": str,
        "num_ipulink_domains": int,
        "agents": list,
    },
    "allocations": {"id": str, "cluster": str, "agents": list},
    "users": {"id": str, "allocations": list, "access_key": str, "admin": bool},
}
"""Fields of the file and their types. Only ``id`` is always required."""

PAUSE = 1.0
"""Seconds between attempts at an agent that doesn't answer."""

CONTROLLER_PAUSE = 0.2
"""Seconds between attempts at the controller itself."""

Entry = dict[str, Any]


def read(path: Path) -> dict[str, list[Entry]]:
    """The file, checked; BadRequest names the entry and the field that is wrong."""
    try:
        body: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"{path} can't be read as JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest(f"{path}: expected an object with {', '.join(FIELDS)}")
    found: dict[str, list[Entry]] = {kind: [] for kind in FIELDS}
    for kind, entries in cast("dict[str, Any]", body).items():
        if kind not in FIELDS or not isinstance(entries, list):
            raise BadRequest(f"{path}: {kind!r} is not one of the lists {', '.join(FIELDS)}")
        listed = cast("list[Any]", entries)
        found[kind] = [_checked(entry, kind, f"{path}: {kind}[{n}]") for n, entry in enumerate(listed)]
    return found


def apply(session: Session, arguments: argparse.Namespace) -> None:
    """Create everything, in order of dependencies."""
    wanted = read(Path(arguments.file))
    ends = time.monotonic() + arguments.wait
    _await_controller(session, ends)
    for entry in wanted["agents"]:
        _make(f"create agent ({entry['id']})", lambda entry=entry: _agent(session, entry, ends))
    for entry in wanted["clusters"]:
        _make(f"create cluster ({entry['id']})", lambda entry=entry: _cluster(session, entry))
    for entry in wanted["allocations"]:
        _make(f"create allocation ({entry['id']})", lambda entry=entry: _allocation(session, entry))
    for entry in wanted["users"]:
        _make(f"create user ({entry['id']})", lambda entry=entry: _user(session, entry))


def _await_controller(session: Session, ends: float) -> None:
    """Wait for the controller, which was started a moment ago at boot and may not listen yet."""
    while True:
        try:
            session.call("apply", session.admin.ListAgents, pb.ListAgentsRequest())
        except CommandError as failure:
            if failure.cause != "controller" or time.monotonic() > ends:
                raise
            time.sleep(CONTROLLER_PAUSE)
        else:
            return


def _checked(entry: Any, kind: str, where: str) -> Entry:
    if not isinstance(entry, dict):
        raise BadRequest(f"{where}: expected an object")
    fields = cast("Entry", entry)
    for name, value in fields.items():
        expected = FIELDS[kind].get(name)
        if expected is None:
            raise BadRequest(f"{where}: {name!r} is not one of {', '.join(FIELDS[kind])}")
        if not isinstance(value, expected) or (
            expected is int and (isinstance(value, bool) or not 0 <= value < 2**32)
        ):
            raise BadRequest(f"{where}: {name} must be a {expected.__name__}")
        if expected is list and not all(isinstance(name, str) for name in cast("list[Any]", value)):
            raise BadRequest(f"{where}: {name} must be a list of names")
    if not fields.get("id"):
        raise BadRequest(f"{where}: id is missing")
    return fields


def _make(what: str, make: Callable[[], bool]) -> None:
    try:
        made = make()
    except CommandError as failure:
        if failure.cause != "exists":
            raise
        made = make()  # created by someone else since it was looked up: compare it now
    say(f"{what}: success." if made else f"{what}: there already.")


def _agent(session: Session, entry: Entry, ends: float) -> bool:
    what = f"create agent ({entry['id']})"
    spec = pb.AgentSpec(host=entry.get("host", ""), port=entry.get("port", 8080))
    listed = session.call(what, session.admin.ListAgents, pb.ListAgentsRequest()).agents
    there = {agent.id: agent.spec for agent in listed}
    if entry["id"] in there:
        return _same(what, there[entry["id"]] == spec)
    while True:
        try:
            session.call(what, session.admin.CreateAgent, pb.CreateAgentRequest(id=entry["id"], spec=spec))
        except CommandError as failure:
            if failure.cause != "agent" or time.monotonic() > ends:
                raise
            time.sleep(PAUSE)
        else:
            return True


def _cluster(session: Session, entry: Entry) -> bool:
    what = f"create cluster ({entry['id']})"
    spec = pb.ClusterSpec(
        topology=entry.get("topology", "mesh"),
        cluster_topology=entry.get("cluster_topology", "none"),
        num_ipulink_domains=entry.get("num_ipulink_domains", 1),
        agent_ids=entry.get("agents", []),
    )
    listed = session.call(what, session.admin.ListClusters, pb.ListClustersRequest()).clusters
    there = {cluster.id: cluster.spec for cluster in listed}
    if entry["id"] in there:
        return _same(what, there[entry["id"]] == spec)
    session.call(what, session.admin.CreateCluster, pb.CreateClusterRequest(id=entry["id"], spec=spec))
    return True


def _allocation(session: Session, entry: Entry) -> bool:
    what = f"create allocation ({entry['id']})"
    listed = session.call(what, session.admin.ListAllocations, pb.ListAllocationsRequest()).allocations
    there: dict[str, vipuuser_pb2.AllocationSpec] = {found.id: found.spec for found in listed}
    agents = entry.get("agents", [])
    if entry["id"] in there:
        return _same(what, set(there[entry["id"]].agent_ids) == set(agents))
    request = pb.CreateAllocationRequest(
        id=entry["id"], cluster_id=entry.get("cluster", ""), agent_ids=agents
    )
    session.call(what, session.admin.CreateAllocation, request)
    return True


def _user(session: Session, entry: Entry) -> bool:
    """A user that is there is left alone if its allocations are the same; keys can't be compared."""
    what = f"create user ({entry['id']})"
    known = session.call(what, session.admin.ListUsers, pb.ListUsersRequest()).users
    there = next((user for user in known if user.id == entry["id"]), None)
    if there is not None:
        return _same(what, set(there.allocation_ids) == set(entry.get("allocations", [])))
    if not entry.get("access_key"):
        raise CommandError(what, "access_key is missing; apply can't return a generated one", 2)
    request = pb.CreateUserRequest(
        id=entry["id"],
        allocation_ids=entry.get("allocations", []),
        admin=entry.get("admin", False),
        access_key=entry["access_key"],
    )
    session.call(what, session.admin.CreateUser, request)
    return True


def _same(what: str, same: bool) -> bool:
    if not same:
        raise CommandError(what, "it is there already and differs from the file; remove it first")
    return False
