"""One attempt, then the worker hands the owner back: no pod waits for another one's servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import ORDER, QUICK, House
from tests.engine.timehouse import HandClock
from weft.engine.base.database import Database
from weft.engine.hold.settings import LoopSettings
from weft.model.agentapi import Tables
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault

THREADS, PODS = 2, 14
PATIENT = LoopSettings(observe_every=3600.0, pods_at_once=THREADS)
"""As in production, but with fewer threads: servers may take minutes before anything is reported."""


def until(true: Callable[[], bool], seconds: float) -> float:
    """Wait until it is true; returns the seconds that it took. Fails after the limit."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds, f"not within {seconds} s"
        time.sleep(0.05)
    return time.monotonic() - begun


def states(house: House) -> list[PodState]:
    return [p.state for p in house.store.pods.live()]


def test_release_does_not_wait_for_booting_pods(database: Database, database_url: str) -> None:
    """Many more pods boot than there are threads, and never finish; a release still completes."""
    house = House(database, database_url)
    first = house.ready(ORDER.model_copy(update={"name": "first"}))
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    one = ORDER.nodes.model_copy(update={"count": 1})
    for n in range(PODS):
        house.order(ORDER.model_copy(update={"name": f"p{n}", "nodes": one}))
    worker = house.new_worker("w", PATIENT)
    worker.start()
    try:
        until(lambda: states(house).count(PodState.BOOTING) == PODS, 120.0)
        house.release(first)
        until(lambda: house.store.pods.find(str(first.id), None).state is PodState.RELEASED, 120.0)
        assert states(house).count(PodState.BOOTING) == PODS
        begun = time.monotonic()
        worker.stop()
        assert time.monotonic() - begun < 120.0, "it waits for servers"
        assert not worker.busy()
    finally:
        worker.stop()
        house.close()


def test_polling_follows_the_time_that_a_boot_takes(house: House) -> None:
    """The first polls come quickly, later ones in proportion to the time so far, within a bound."""
    loop = LoopSettings()
    ages = (0.0, 1.0, 5.0, 30.0, 3600.0)
    assert [loop.poll(age) for age in ages] == [0.3, 0.3, 1.0, 6.0, 10.0]
    assert [loop.poll(age, boots=True) for age in ages] == [30.0, 30.0, 30.0, 30.0, 60.0]


def test_broken_server_is_not_recreated_at_once(house: House, clock: HandClock) -> None:
    """Three attempts within two seconds meet the same full host three times."""
    house.cloud.plant(Fault.BROKEN, key="server/gpu01", times=1, reason="No valid host was found.")
    house.worker = house.new_worker("patient", replace(QUICK, first_delay=2.0, last_delay=60.0))
    pod = house.order()
    for _ in range(8):
        house.store.wake(pod.id)
        house.worker.run_once()
    made = house.cloud.calls[f"create {Kind.SERVER}"]
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.cloud.calls[f"create {Kind.SERVER}"] == made
    assert house.store.pods.find(str(pod.id), None).state is PodState.BOOTING
    clock.sleep(5.0)
    house.run(pod, PodState.READY)
    assert house.cloud.calls[f"create {Kind.SERVER}"] == made + 1


def test_waiting_time_survives_a_change_of_worker(house: House) -> None:
    """A worker that takes the pod over doesn't wait again: what takes too long is reported at its first visit."""
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    loop = replace(QUICK, patience_servers=300.0)
    pod = house.order()
    house.new_worker("w1", loop).run_once()
    seen = house.store.pods.find(str(pod.id), None)
    assert (seen.state, seen.reason) == (PodState.BOOTING, "")
    house.clock.sleep(301.0)
    house.store.wake(pod.id)
    house.new_worker("w2", loop).run_once()
    seen = house.store.pods.find(str(pod.id), None)
    assert seen.state is PodState.BOOTING and "wait for train-0" in seen.reason and "to settle" in seen.reason


def test_removal_is_requested_once(house: House) -> None:
    """While a server is being deleted each poll is one listing; after very long the request is repeated."""
    asked: list[str] = []
    pod = house.ready()
    real = house.cloud.delete

    class Slow:
        """A cloud that accepts a request and doesn't carry it out; the server is seen being deleted."""

        kinds = house.cloud.kinds
        going = False

        def __getattr__(self, name: str) -> object:
            return getattr(house.cloud, name)

        def delete(self, scope, wanted, ids):  # type: ignore[no-untyped-def]
            if wanted[0].kind is not Kind.SERVER:
                return real(scope, wanted, ids)
            asked.extend(r.key for r in wanted)
            self.going = True
            for thing in house.cloud.things(Kind.SERVER):
                thing.stuck = "deleting"
            from weft.model.resources import Outcome

            return {r.key: Outcome() for r in wanted}

    house.world = replace(house.world, resources={**house.world.resources, "lab": Slow()})  # type: ignore[dict-item]
    house.keeper = type(house.keeper)(house.store, lambda _: house.world)
    worker = house.new_worker("w", replace(QUICK, patience_servers=300.0))
    house.release(pod)
    for _ in range(4):
        house.store.wake(pod.id)
        worker.run_once()
    assert sorted(asked) == sorted(f"server/{n}" for n in pod.nodes)
    house.clock.sleep(301.0)
    house.store.wake(pod.id)
    worker.run_once()
    assert len(asked) == 2 * len(pod.nodes)


def test_release_reads_back_without_holding_its_place(house: House) -> None:
    """Releases that wait for a reading of the fabric leave their few places to others."""
    first, second = (house.ready(ORDER.model_copy(update={"name": name})) for name in ("first", "second"))
    reads_back, goes_on = threading.Event(), threading.Event()
    left = "SELECT count(*) FROM resource WHERE owner_id = %s AND state <> 'absent'"

    def eyes(tables: Tables) -> Tables:
        if sql(house, left, first.id) == [(0,)]:
            reads_back.set()
            assert goes_on.wait(120)
        return tables

    house.fabric.manager("sm1").eyes = eyes
    worker = house.new_worker("w", replace(QUICK, releases_at_once=1))
    worker.start()
    try:
        house.release(first)
        assert reads_back.wait(120)
        house.release(second)
        until(lambda: not house.cloud.things(Kind.SERVER), 120.0)
        assert house.store.pods.find(str(first.id), None).state is PodState.RELEASING
    finally:
        goes_on.set()
        worker.stop()
