"""weft behind its doors: the real service, policy and redaction over a real database, with fakes of clouds and
fabrics."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
import pytest
from fastapi import FastAPI

from tests.engine.house import ORDER as ORDERED
from tests.engine.house import House, policy
from weft.api.app import create_app
from weft.app.redact import redacted
from weft.app.service import Service
from weft.engine.base.clock import SystemClock
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.order import LeaseOrder
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Planted
from weft.testing.keystone import FakeIdentity

ORDER: dict[str, Any] = {"name": "train", "nodes": {"count": 2, "flavor": "gpu8", "image": "tiny"}}
"""An order as JSON that the house's cloud can fulfil."""
_START = datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()
_REST = (PodState.READY, PodState.FAILED, PodState.RELEASED)


class DoorClock(SystemClock):
    """A running clock that begins with 2027, so that tests can write dates of leases."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def now(self) -> datetime:
        return datetime.fromtimestamp(_START + time.monotonic() - self._begin, UTC)

    def go_on(self, seconds: float) -> None:
        """Moves the clock forward."""
        self._begin -= seconds


def no_service() -> Service:
    """For an API whose verbs aren't called."""
    return cast(Service, object.__new__(Service))


class DoorsHouse(House):
    """A house whose pods don't change until a test calls `finish`, or within `working`."""

    def __init__(self, database: Database, url: str) -> None:
        self.door_clock = DoorClock()
        super().__init__(database, url, clock=self.door_clock)

    def stand_behind(self, app: FastAPI, identity: FakeIdentity) -> None:
        """Serves this server's requests from now on."""
        app.state.verbs, app.state.identity = redacted(self.service, policy()), identity

    def served(self, identity: FakeIdentity) -> FastAPI:
        """An API server's application for this house."""
        return create_app(self.service, identity)

    def finish(self, name: str, project: str = "id-of-team-a") -> PodRecord:
        """Visits a pod until it is READY, FAILED or RELEASED."""
        pod = self.store.pods.find(name, project)
        for _ in range(60):
            pod = self.store.pods.find(str(pod.id), None)
            if pod.state in _REST and (pod.wanted != "absent" or pod.state is PodState.RELEASED):
                return pod
            self.store.wake(pod.id)
            self.worker.run_once()
        raise AssertionError(f"pod {name} is {pod.state} ({pod.reason})")

    def finish_change(self, name: str, project: str = "id-of-team-a") -> PodRecord:
        """Visits a pod until it is READY and no change is under way."""
        for _ in range(60):
            pod = self.store.pods.find(name, project)
            if pod.changed_at is None and pod.state is PodState.READY:
                return pod
            self.store.wake(pod.id)
            self.worker.run_once()
        raise AssertionError(f"pod {name} is still being changed")

    @contextmanager
    def working(self) -> Generator[None]:
        """Runs a worker's threads for the block, as in a service."""
        worker = self.new_worker("threads")
        worker.start()
        try:
            yield
        finally:
            worker.stop()

    def break_servers(self, reason: str = "No valid host was found on cn-17.") -> Planted:
        """From now on no server boots, until `left` of the returned fault is 0."""
        return self.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason=reason)

    def orphan(self, pod: PodRecord) -> None:
        """Creates a second resource with the mark of one of this pod, an hour old: an audit finds it and may
        remove it."""
        original = self.cloud.thing("network/rdma")
        assert original.mark is not None and original.mark.owner == Owner.pod(str(pod.id))
        self.cloud.add(Kind.NETWORK, original.name, original.project_id, original.mark)
        self.door_clock.go_on(3600)

    def pull_cable(self) -> None:
        """From now on discoveries lack a cable between two switches."""
        seen = self.fabric.topology()
        fewer = seen.model_copy(update={"links": seen.links[:-1]})
        self.fabric.topology = lambda: fewer

    def multiply(self, name: str, times: int, table: str = "pod") -> None:
        """Copies the row of this name, in the table, `times` times under other names."""
        other = {"id": "gen_random_uuid()", "name": "name || number"}
        columns = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_name = %s AND is_generated = 'NEVER' AND is_identity = 'NO'"
        )
        with psycopg.connect(self.database.url) as connection:
            names = [row[0] for row in connection.execute(columns, (table,))]
            values = ", ".join(other.get(column, column) for column in names)
            rows = f"SELECT {values} FROM {table}, generate_series(1, %s) AS number"
            copy = f"INSERT INTO {table} ({', '.join(names)}) {rows}"
            connection.execute(f"{copy} WHERE name = %s".encode(), (times, name))

    def fill(self, but: int = 0, end: datetime | None = None) -> PodRecord:
        """Orders all free nodes but `but` for another project."""
        count = sum(node.role == "compute" for node in self.site.nodes) - but
        order = ORDERED.model_copy(update={"name": "full", "lease": LeaseOrder(end=end)})
        return self.order(order, count=count)


@pytest.fixture
def doors(database: Database, database_url: str) -> Generator[DoorsHouse]:
    """A `DoorsHouse` for one test."""
    house = DoorsHouse(database, database_url)
    yield house
    house.close()
