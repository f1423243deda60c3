"""Removes everything that a run made, before a run and after it: a killed run leaves things behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from weftacceptance.cloud import NO_SERVICE, POD_SERVICE, Caller, Cloud, Json, soon
from weftacceptance.images import images
from weftacceptance.netsteps import drop_network
from weftacceptance.steps import PREFIX, groups, networks, ports, projects, users
from weftacceptance.storage import SHARES, VOLUMES

_TENANTS = ("team-a", "team-b")


class _Thing(NamedTuple):
    """Something that a run left. `remove` requests its removal; only another look shows whether it is gone."""

    kind: str
    key: str
    remove: Callable[[], object]


def sweep(cloud: Cloud) -> list[str]:
    """What is left after removing everything with the prefix. Raises `LostError`."""
    for look in _looks(cloud):
        for thing in look():
            thing.remove()
    soon(lambda: not any(pods(cloud.caller(name)) for name in _TENANTS), 60)
    return [f"{thing.kind} {thing.key}" for look in _looks(cloud) for thing in look()]


def pods(caller: Caller) -> list[str]:
    """Names of the run's pods that aren't released."""
    rows = caller.ask(POD_SERVICE, "GET", "/v1/pods").get("pods")
    return [one["name"] for one in rows if one["name"].startswith(PREFIX) and one["state"] != "RELEASED"]


def _looks(cloud: Cloud) -> Iterator[Callable[[], Iterator[_Thing]]]:
    """For each kind, a function that lists what is left, in the order in which it can be removed."""
    for name in _TENANTS:
        yield partial(_of_project, cloud.caller(name))
    yield partial(_of_operators, cloud.caller("operator"))


def _of_project(caller: Caller) -> Iterator[_Thing]:
    for pod in pods(caller):
        path = f"/v1/pods/{pod}/release?until=RELEASED&wait=60"
        yield _Thing("pod", pod, partial(caller.ask, POD_SERVICE, "POST", path))
    for key in _named(networks(caller).rows()):
        yield _Thing("network", key, partial(drop_network, caller, key))
    for kind in (ports, groups):
        for key in _named(kind(caller).rows()):
            yield _Thing(kind(caller).one, key, partial(kind(caller).delete, key))
    for kind, service, path in (("share", SHARES, "/shares"), ("volume", VOLUMES, "/volumes")):
        got = caller.ask(service, "GET", path)
        for key in [] if got.status == NO_SERVICE else _named(got.get(path[1:])):
            yield _Thing(kind, key, partial(caller.ask, service, "DELETE", f"{path}/{key}"))
    for key in _named(caller.ask("image", "GET", "/v2/images?limit=1000").get("images")):
        yield _Thing("image", key, partial(images(caller).delete, key))
    for row in caller.ask("compute", "GET", "/os-keypairs").get("keypairs"):
        if (name := row["keypair"]["name"]).startswith(PREFIX):
            yield _Thing("key pair", name, partial(caller.ask, "compute", "DELETE", f"/os-keypairs/{name}"))


def _of_operators(caller: Caller) -> Iterator[_Thing]:
    for kind in (users, projects):
        for key in _named(kind(caller).rows()):
            yield _Thing(kind(caller).one, key, partial(kind(caller).delete, key))

    def rows(kind: str) -> list[Json]:
        return caller.ask(POD_SERVICE, "GET", f"/v1/{kind}").get(kind)

    def thing(kind: str, key: str, path: str) -> _Thing:
        return _Thing(kind, key, partial(caller.ask, POD_SERVICE, "DELETE", path))

    for row in rows("reservations"):
        if row["name"].startswith(PREFIX):
            yield thing("reservation", row["name"], f"/v1/reservations/{row['name']}")
    for row in rows("holds"):
        # A node that was replaced in one of the run's pods is held for repair.
        if row["what"].startswith(PREFIX) or PREFIX in row["why"]:
            path = f"/v1/nodes/{row['node']}/hold?what={row['what']}&without_test=acceptance"
            yield thing("hold", row["node"], path)
    for row in rows("drains"):
        if row["reason"].startswith(PREFIX):
            yield thing("drain", row["node"], f"/v1/drains/node:{row['node']}")
    for row in rows("nodes"):
        if row["state"] == "quarantined" and PREFIX in row["reason"]:
            yield thing("quarantine", row["name"], f"/v1/nodes/{row['name']}/quarantine")
        if row["failed_checks"] and _planted(caller, row["name"]):
            yield thing("planted failure", row["name"], f"/v1/nodes/{row['name']}/checks")
    for row in rows("reports"):
        if row["reason"].startswith(PREFIX):
            yield thing("report", row["node"], f"/v1/nodes/{row['node']}/reports")


def _planted(caller: Caller, node: str) -> bool:
    """Whether a node's last report of checks was made by the run."""
    document = caller.ask(POD_SERVICE, "GET", f"/v1/nodes/{node}/checks").get("document") or {}
    return document.get("program") == PREFIX + "check"


def _named(rows: list[dict[str, str]]) -> list[str]:
    return [one["id"] for one in rows if (one.get("name") or "").startswith(PREFIX)]
