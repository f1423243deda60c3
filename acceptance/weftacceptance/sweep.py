"""Removes whatever a run made, before one and after it: a run that was killed leaves things."""

from __future__ import annotations

from collections.abc import Iterator

from weftacceptance.cloud import POD_SERVICE, Caller, Cloud, soon
from weftacceptance.images import images
from weftacceptance.netsteps import drop_network
from weftacceptance.steps import PREFIX, groups, networks, ports, projects, users

_TENANTS = ("team-a", "team-b")


def sweep(cloud: Cloud) -> list[str]:
    """What is left after removing everything with the prefix; empty if nothing is. Raises `LostError`."""
    operator = cloud.caller("operator")
    for caller in map(cloud.caller, _TENANTS):
        for pod in pods(caller):
            caller.ask(POD_SERVICE, "POST", f"/v1/pods/{pod}/release?until=RELEASED&wait=60")
        for network in _named(networks(caller).rows()):
            drop_network(caller, network)
        for port in _named(ports(caller).rows()):
            ports(caller).delete(port)
        for group in _named(groups(caller).rows()):
            groups(caller).delete(group)
        for image in _named(caller.ask("image", "GET", "/v2/images?limit=1000").get("images")):
            images(caller).delete(image)
    for user in _named(users(operator).rows()):
        users(operator).delete(user)
    for project in _named(projects(operator).rows()):
        projects(operator).delete(project)
    for row in operator.ask(POD_SERVICE, "GET", "/v1/reservations").get("reservations"):
        if row["name"].startswith(PREFIX):
            operator.ask(POD_SERVICE, "DELETE", f"/v1/reservations/{row['name']}")
    for row in operator.ask(POD_SERVICE, "GET", "/v1/holds").get("holds"):
        if row["what"].startswith(PREFIX):
            operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{row['node']}/hold?what={row['what']}")
    for row in operator.ask(POD_SERVICE, "GET", "/v1/drains").get("drains"):
        if row["reason"].startswith(PREFIX):
            operator.ask(POD_SERVICE, "DELETE", f"/v1/drains/node:{row['node']}")
    for row in operator.ask(POD_SERVICE, "GET", "/v1/nodes").get("nodes"):
        if row["state"] == "quarantined" and PREFIX in row["reason"]:
            operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{row['name']}/quarantine")
    for row in operator.ask(POD_SERVICE, "GET", "/v1/reports").get("reports"):
        if row["reason"].startswith(PREFIX):
            operator.ask(POD_SERVICE, "DELETE", f"/v1/nodes/{row['node']}/reports")
    soon(lambda: not any(pods(cloud.caller(name)) for name in _TENANTS), 60)
    return list(_left(cloud))


def pods(caller: Caller) -> list[str]:
    """Names of pods of the run that aren't released."""
    rows = caller.ask(POD_SERVICE, "GET", "/v1/pods").get("pods")
    return [one["name"] for one in rows if one["name"].startswith(PREFIX) and one["state"] != "RELEASED"]


def _left(cloud: Cloud) -> Iterator[str]:
    for name in _TENANTS:
        caller = cloud.caller(name)
        yield from (f"pod {one}" for one in pods(caller))
        for kind in (networks, groups, ports):
            yield from (f"{kind(caller).one} {key}" for key in _named(kind(caller).rows()))
    for kind in (users, projects):
        found = kind(cloud.caller("operator"))
        yield from (f"{found.one} {key}" for key in _named(found.rows()))


def _named(rows: list[dict[str, str]]) -> list[str]:
    return [one["id"] for one in rows if (one.get("name") or "").startswith(PREFIX)]
