"""A copy of the database that wasn't made by `weft restore` changes nothing outside before a cloud has confirmed it."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator, Mapping

import psycopg
import pytest

from tests.engine.base.test_restored_database import another, outside, visit
from tests.engine.house import House
from tests.engine.timehouse import look, make
from weft.app.webhookkeeper import WebhookKeeper
from weft.engine.backup.programs import connection_of, program
from weft.engine.base.database import Database
from weft.engine.base.gate import ClosedError, Gate
from weft.model.errors import UnknownError
from weft.model.pod import PodState
from weft.model.site import WebhookPolicy
from weft.model.views import WebhookRequest
from weft.testing.cloud import FakeCloud, Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    made = House(database, database_url)
    yield made
    made.close()


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """URL of a database without tables."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE weft_copied TEMPLATE template0")
        yield postgres.replace("/postgres?", "/weft_copied?")
        connection.execute("DROP DATABASE weft_copied WITH (FORCE)")


def copied(url: str, into: str) -> None:
    """Copy a database with PostgreSQL's own programs, as an operator does by hand."""
    with psycopg.connect(url) as connection:
        major = connection.info.server_version // 10_000
    pg_dump, pg_restore = (program(name, major, "copy", "a test").path for name in ("pg_dump", "pg_restore"))
    arguments, environment = connection_of(url)
    made = subprocess.run(
        [pg_dump, "--format=custom", *arguments], env=environment, capture_output=True, check=True, timeout=60
    )
    arguments, environment = connection_of(into)
    subprocess.run([pg_restore, *arguments], env=environment, input=made.stdout, check=True, timeout=60)


class Heard:
    """A receiver of webhooks that accepts everything."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def post(self, url: str, headers: Mapping[str, str], body: bytes, policy: WebhookPolicy) -> int:
        self.bodies.append(body)
        return 200


def test_copy_beside_silent_clouds_changes_and_reports_nothing_outside(house: House, empty: str) -> None:
    """While the original goes on: it has released a pod of the copy, whose nodes are another's. Once a cloud answers,
    the copy is behind."""
    policy = WebhookPolicy.model_validate({"networks": ["192.0.2.0/24"]})
    house.store.activate_site(house.site.model_copy(update={"webhooks": policy}), "test")
    given = WebhookRequest(name="ops", url="https://192.0.2.7/hook")
    house.service.webhooks.make(house.request(), given)
    old, kept, gone = (house.ready(make(name, n)) for name, n in (("old", 2), ("kept", 1), ("gone", 1)))
    copied(house.database.url, empty)
    house.release(old)
    house.run(old, PodState.RELEASED)
    assert set(another(house, "live", 2).nodes) == set(old.nodes)

    database, heard = Database(empty), Heard()
    copy = House(database, empty)
    copy.cloud, copy.world = house.cloud, house.world
    keeper = WebhookKeeper(copy.store, copy.keeper.site, heard)
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    try:
        before = outside(house)
        for places in (None, (), ("ib0",)):
            assert isinstance(copy.gate.closed(places), UnknownError)
        for pod in (kept, old):
            copy.release(pod)
            visit(copy, pod, 3)
            assert look(copy, pod).state is not PodState.RELEASED, pod.name
            assert copy.store.records.receipt(pod.id) is None, pod.name
        keeper.tend()
        keeper.wait()
        assert heard.bodies == [] and outside(house) == before
        house.release(gone)
        house.run(gone, PodState.RELEASED)

        before = outside(house)
        planted.lift()
        copy.gate.look()
        assert isinstance(copy.gate.closed(()), ClosedError)
        assert "--accept" in visit(copy, kept, 2).reason and outside(house) == before
        house.release(kept)
        house.run(kept, PodState.RELEASED)
    finally:
        keeper._pool.shutdown()  # pyright: ignore[reportPrivateUsage]
        copy.close()
        database.close()


def test_cloud_that_was_read_opens_what_has_nothing_in_a_silent_one(house: House) -> None:
    house.ready()
    far = FakeCloud(seed=2, name="far", latency=0.0)
    far.plant(Fault.UNREACHABLE, verb="witness", times=None)
    gate = Gate(house.database, lambda: (house.site.name, {"lab": house.cloud, "far": far}))
    assert gate.closed(()) is None and gate.closed(("lab", "ib0")) is None
    assert isinstance(gate.closed(("far",)), UnknownError) and isinstance(gate.closed(), UnknownError)
    house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    gate.look()
    assert gate.closed(()) is None, "read over connections that have lasted"
    house.database.losses += 1
    assert isinstance(gate.closed(()), UnknownError)


def test_abandoned_release_ends_although_no_cloud_was_read(house: House) -> None:
    """The cloud may be gone for good; what wasn't seen clean is kept back."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, times=None)
    house.release(pod)
    visit(house, pod, 1)
    house.restart()
    house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.service.pods.abandon(house.operator, str(pod.id), "burnt down")
    house.run(pod, PodState.RELEASED, visits=3)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and not signed.receipt.clean
