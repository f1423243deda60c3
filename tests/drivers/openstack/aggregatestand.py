"""Host aggregates of a cloud with weft's driver: the fake one, and Nova's answers over HTTP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tests.drivers.openstack.tinycloud import Reply, TinyCloud
from weft.model.owner import Owner
from weft.model.resources import Kind, Outcome, Resource
from weft.model.specs import AggregateSpec
from weft.ports.existing import ExistingThings
from weft.ports.resources import ResourceDriver, Scope
from weft.testing.cloud import FakeCloud

SITE = Scope("lab", Owner("site", "00000009-0000-4000-8000-00000000000b"), "lab", "")
KEY = "aggregate/lab/h100x8"
NAME = "lab-h100x8"
KNOWN = ("gpu01", "gpu02", "gpu03")


def aggregate(*hosts: str, flavors: tuple[str, ...] = ("gpu1", "gpu8"), key: str = KEY) -> Resource:
    spec = AggregateSpec(flavors=flavors, hosts=tuple(sorted(hosts)))
    return Resource(key=key, name=NAME, where="lab", owner="site", spec=spec)


class Stand(ABC):
    """An administrator's view and changes.

    Attributes:
        ids: of weft's resources, by key.
    """

    driver: ResourceDriver
    existing: ExistingThings
    hosts: tuple[str, ...] = KNOWN

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def done(self, verb: str, wanted: Resource, scope: Scope = SITE) -> Outcome:
        outcome = getattr(self.driver, verb)(scope, [wanted], self.ids)[wanted.key]
        if outcome.id and verb != "delete":
            self.ids[wanted.key] = outcome.id
        return outcome

    def differences(self, wanted: Resource) -> dict[str, tuple[str, str]]:
        """Observed and wanted value by field, except weft's mark."""
        found = self.driver.find(SITE, [wanted], self.ids)[wanted.key]
        return {d.field: (d.observed, d.wanted) for d in found.differences if d.field != "mark"}

    @abstractmethod
    def shown(self) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        """`instance_type` and hosts of each aggregate, by name."""

    @abstractmethod
    def make(self, name: str, flavors: str | None, *hosts: str) -> None: ...

    @abstractmethod
    def put(self, name: str, host: str) -> None: ...


class FakeStand(Stand):
    def __init__(self) -> None:
        super().__init__()
        self.cloud = FakeCloud(latency=0)
        self.driver = self.existing = self.cloud
        self.cloud.offers.hosts = dict.fromkeys(KNOWN, "up")

    def shown(self) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        found: dict[str, tuple[str | None, tuple[str, ...]]] = {}
        for thing in self.cloud.things(Kind.AGGREGATE):
            flavors: Any = thing.fields["flavors"]
            hosts: Any = thing.fields["hosts"]
            found[thing.name] = (None if flavors is None else ",".join(flavors), tuple(hosts))
        return found

    def make(self, name: str, flavors: str | None, *hosts: str) -> None:
        named = None if flavors is None else tuple(flavors.split(","))
        self.cloud.add(Kind.AGGREGATE, name, "service", None, flavors=named, hosts=tuple(hosts))

    def put(self, name: str, host: str) -> None:
        (thing,) = (t for t in self.cloud.things(Kind.AGGREGATE) if t.name == name)
        there: Any = thing.fields["hosts"]
        thing.fields["hosts"] = tuple(sorted({*there, host}))


class NovaAggregates(TinyCloud):
    """Answers as Nova 34 does.

    Attributes:
        zones: host -> availability zone of its aggregate.
        changes: method, path and body of each accepted change.
    """

    zones: Mapping[str, str] = {}
    changes: list[tuple[str, Any]]
    refuse_at: int | None = None
    """Number of the first change that is refused, with all after it."""
    _last = 0

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        _, _, collection, *rest = path.split("/")
        if collection != "os-aggregates" or (method == "GET" and not rest):
            return super().answer(method, path, query, seer, body)
        rows = self.things.setdefault("aggregates", [])
        if method != "GET":
            if self.refuse_at is not None and len(self.changes) >= self.refuse_at:
                return Reply(503, {"computeFault": {"message": "busy", "code": 503}})
            self.changes.append((method, body))
        if not rest:
            return self._created(rows, body["aggregate"]["name"])
        row = next((r for r in rows if str(r["id"]) == rest[0]), None)
        if row is None:
            return _said(404, f"Aggregate {rest[0]} could not be found.")
        if method == "DELETE":
            if row["hosts"]:
                return _said(400, f"Cannot perform action 'delete' on aggregate {row['id']}: not empty.")
            rows.remove(row)
            return Reply(200, {})
        if method == "PUT":
            row["name"] = body["aggregate"]["name"]
        elif rest[1:] == ["action"] and (refused := self._acted_on(row, body)):
            return refused
        return Reply(200, {"aggregate": row})

    def _created(self, rows: list[dict[str, Any]], name: str) -> Reply:
        if any(r["name"] == name for r in rows):
            return _said(409, f"Aggregate {name} already exists.")
        row = self.new(name)
        return Reply(200, {"aggregate": {k: v for k, v in row.items() if k not in ("hosts", "metadata")}})

    def new(self, name: str) -> dict[str, Any]:
        self._last += 1
        uuid = f"00000000-0000-4000-8000-{self._last:012}"
        row = {"id": self._last, "uuid": uuid, "name": name, "availability_zone": None}
        row |= {"hosts": [], "metadata": {}, "created_at": "2026-11-28T00:00:00.000000", "deleted": False}
        self.things.setdefault("aggregates", []).append(row)
        return row

    def _acted_on(self, row: dict[str, Any], body: Any) -> Reply | None:
        [(action, given)] = body.items()
        if action == "set_metadata":
            for key, value in given["metadata"].items():
                assert key != "availability_zone" and (value is None or len(value) <= 255)
                row["metadata"] = {k: v for k, v in {**row["metadata"], key: value}.items() if v is not None}
            return None
        host, hosts = given["host"], row["hosts"]
        if action == "remove_host":
            if host not in hosts:
                return _said(404, f"Cannot remove host {host} in aggregate {row['id']}")
            hosts.remove(host)
            return None
        zone = row["metadata"].get("availability_zone")
        if host not in KNOWN:
            return _said(404, f"Compute host {host} could not be found.")
        if zone and self.zones.get(host, zone) != zone:
            why = f"One or more hosts already in availability zone(s) ['{self.zones[host]}']"
            return _said(409, f"Cannot add host to aggregate {row['id']}. Reason: {why}.")
        if host in hosts:
            return _said(409, f"Aggregate {row['id']} already has host {host}.")
        hosts.append(host)
        return None


def _said(status: int, message: str) -> Reply:
    name = {400: "badRequest", 404: "itemNotFound", 409: "conflictingRequest"}[status]
    return Reply(status, {name: {"code": status, "message": message}})


class NovaStand(Stand):
    def __init__(self, nova: NovaAggregates, driver: ResourceDriver, existing: ExistingThings) -> None:
        super().__init__()
        self.nova, self.driver, self.existing = nova, driver, existing
        nova.changes = []

    def row(self, name: str) -> dict[str, Any]:
        return next(r for r in self.nova.things["aggregates"] if r["name"] == name)

    def shown(self) -> dict[str, tuple[str | None, tuple[str, ...]]]:
        rows = self.nova.things.get("aggregates", [])
        return {r["name"]: (r["metadata"].get("instance_type"), tuple(sorted(r["hosts"]))) for r in rows}

    def make(self, name: str, flavors: str | None, *hosts: str) -> None:
        row = self.nova.new(name)
        row["hosts"] += hosts
        row["metadata"] |= {} if flavors is None else {"instance_type": flavors}

    def put(self, name: str, host: str) -> None:
        self.row(name)["hosts"].append(host)
