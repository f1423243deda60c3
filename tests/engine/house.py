"""A whole weft in one process: fake cloud and fabric, real database, verbs and loop, a worker called by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg

from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.verbs import Request
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.clock import DatabaseClock, SystemClock
from weft.engine.base.database import Database
from weft.engine.base.gate import Gate
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.hold.fence import HOLD_SECONDS
from weft.engine.hold.settings import LoopSettings
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.ledger import FabricLedger
from weft.engine.rows.records import PodRecord
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.visit.resourcerules import ResourceRule
from weft.engine.watch.worker import Worker
from weft.model.order import Order
from weft.model.owner import OwnerKind
from weft.model.pod import PodState
from weft.model.site import Site
from weft.ports.clock import Clock
from weft.ports.witness import Witness
from weft.testing.cloud import FakeCloud
from weft.testing.fabric import FakeFabric
from weftlab.layout import Layout
from weftlab.site import make_site, settings

QUICK = LoopSettings(
    observe_every=3600.0,
    first_poll=0.01,
    watch_every=0.0,
    last_poll=0.01,
    first_poll_servers=0.01,
    last_poll_servers=0.01,
    patience=2.0,
    patience_servers=2.0,
    verify_patience=0.1,
    first_delay=0.0,
    last_delay=0.0,
    late=0.0,
    fabric_age=0.0,
)
ORDER = Order.model_validate({"name": "train", "nodes": {"count": 2, "flavor": "gpu8", "image": "tiny"}})


@cache
def small_site() -> Site:
    """The lab's default site: 16 nodes in 4 leaves."""
    chosen = settings(nodes=16)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


@cache
def policy() -> Policy:
    """weft's default policy; no test changes it."""
    return Policy()


class House:
    """One weft on a real database, with a fake cloud, a fake fabric, and a worker that visits when a test says so."""

    def __init__(
        self, database: Database, url: str, loop: LoopSettings = QUICK, clock: Clock | None = None
    ) -> None:
        self.clock = clock or SystemClock()
        self.site = small_site()
        self.cloud = FakeCloud(seed=1, name="lab", latency=0.0, clock=clock)
        self.cloud.offers.images.add("tiny")
        if clock is not None:
            database.clock = clock.now
        self.time = DatabaseClock(database, self.clock)
        self.store = Store(database)
        self.fabric = FakeFabric(
            self.site, "ib0", ledger=FabricLedger(database, "ib0", self.site.fabrics["ib0"].words)
        )
        self.world = World(
            resources={"lab": self.cloud, "ib0": self.fabric},
            fabrics={"ib0": self.fabric},
            clouds={"lab": self.cloud},
        )
        self.keeper = WorldKeeper(self.store, lambda site: self.world)
        self.listener = Listener(url)
        self.pulse = Pulse()
        self.gate = Gate(database, lambda: (self.keeper.site().name, self.world.clouds))
        self.service = self.new_service()
        self.loop = loop
        self.wants: dict[OwnerKind, ResourceRule[Any]] = {}
        self.database = database
        self.worker = self.new_worker("w1")
        self.store.activate_site(self.site, "test")

    def new_service(self, database: Database | None = None) -> Service:
        """Another service. Args: database: its own connections to the house's database."""
        store = Store(database) if database else self.store
        return Service(Desk(store, self.keeper, policy(), self.time, self.listener, self.pulse))

    def new_worker(
        self,
        name: str,
        loop: LoopSettings | None = None,
        database: Database | None = None,
        pulse: Pulse | None = None,
    ) -> Worker:
        """Another worker. Args: database: its own connections to the house's database."""
        loop = loop or self.loop
        reconciler = Reconciler(
            self.keeper.world, self.keeper.site, Signer(self.store), self.time, loop, self.wants
        )
        own = database or self.database
        dispatcher = Dispatcher(Store(own), self.keeper.world)
        return Worker(own, self.listener, reconciler, loop, dispatcher, name, pulse)

    def restart(self) -> None:
        """Start weft again on the same database, as after a restore."""
        self.database.forget()
        self.database.gate.forget()
        self.worker, self.service = self.new_worker("w2"), self.new_service()

    def request(self, project: str = "team-a", role: str = "member") -> Request:
        token = self.cloud.add_user(f"{project}-{role}", project=project, roles=(role,))
        return Request(self.cloud.check(token), "127.0.0.1", "req-test")

    @property
    def operator(self) -> Request:
        return self.request("admin", "admin")

    def order(self, order: Order = ORDER, **nodes: object) -> PodRecord:
        """Order a pod as a member of team-a. Args: nodes: fields of the order's nodes to change."""
        if nodes:
            order = order.model_copy(update={"nodes": order.nodes.model_copy(update=nodes)})
        view = self.service.pods.create(self.request(), order)
        return self.store.pods.find(view.id, None)

    def run(self, pod: PodRecord, until: PodState, visits: int = 40) -> PodRecord:
        """Visit until the pod is in a state; fails if it isn't after so many visits."""
        for _ in range(visits):
            pod = self.store.pods.find(str(pod.id), None)
            if pod.state is until:
                return pod
            self.store.wake(pod.id)
            self.worker.run_once()
        pod = self.store.pods.find(str(pod.id), None)
        assert pod.state is until, f"{pod.state} ({pod.reason}), not {until}, after {visits} visits"
        return pod

    def ready(self, order: Order = ORDER) -> PodRecord:
        return self.run(self.order(order), PodState.READY)

    def release(self, pod: PodRecord) -> None:
        self.service.pods.release(self.request(), str(pod.id))

    def behind(self) -> Callable[[], object]:
        """Close the gate, as if the cloud remembered more than the database has; returns what undoes it."""
        notes, known = self.cloud.witnesses, dict(self.cloud.witnesses)
        notes[self.site.name] = Witness(uuid4(), 99)
        self.gate.look()
        return lambda: notes.update(known)

    def close(self) -> None:
        self.listener.close()


def nothing_lands(database: Database) -> None:
    """Let the time pass in which unanswered requests could still take effect."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE owner SET late_until = now() - interval '1 s' WHERE late_until IS NOT NULL"
        )


def lost_hold(database: Database, owner_id: UUID) -> None:
    """As if a worker had lost its hold on the owner shortly before, with a request under way."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE owner SET late_until = coalesce(released_at, now()) WHERE id = %s", [owner_id]
        )


def stood_still(database: Database) -> None:
    """As if the process had been stopped for longer than a hold lasts: its own clock has gone on."""
    before = database.monotonic
    database.monotonic = lambda: before() + HOLD_SECONDS


def impatient(limit: float = 0.0) -> LoopSettings:
    """Settings under which every state is overdue at once."""
    return replace(QUICK, patience=0.0, patience_servers=0.0, limits=dict.fromkeys(PodState, limit))
