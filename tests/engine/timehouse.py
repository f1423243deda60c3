"""A house with a clock moved by tests, and short ways to order in time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.engine.house import ORDER, House
from weft.engine.rows.records import PodRecord
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.site import QueuePolicy


class HandClock:
    """A clock that stands still until it is moved; waiting moves it."""

    def __init__(self) -> None:
        self.seconds = datetime(2026, 11, 21, 8, 0, tzinfo=UTC).timestamp()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def forward(self, **span: float) -> datetime:
        self.seconds += timedelta(**span).total_seconds()
        return self.now()


def make(name: str, count: int, **more: Any) -> Order:
    lease = {k: more.pop(k) for k in ("start", "end", "duration") if k in more}
    nodes = {**ORDER.nodes.model_dump(exclude_none=True), "count": count}
    return Order.model_validate({"name": name, "nodes": nodes, "lease": lease, **more})


def queue(house: House, name: str, count: int, **more: Any) -> PodRecord:
    return house.order(make(name, count, queue=True, **more))


def look(house: House, pod: PodRecord) -> PodRecord:
    return house.store.pods.find(str(pod.id), None)


def release(house: House, pod: PodRecord) -> None:
    house.release(pod)
    house.run(pod, PodState.RELEASED)


def policy(house: House, **settings: Any) -> None:
    """Activate the site with these settings of the queue, as an operator does."""
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"queue": QueuePolicy(**settings)}), "test")


def messages(house: House, pod: PodRecord, kind: str) -> list[str]:
    return [e.message for e in house.store.records.events(pod.id, 0) if e.type == kind]


def at_once(*works: Callable[[], object]) -> list[Exception]:
    """Run all of these at the same time, each in a thread of its own; returns what they raised."""
    errors: list[Exception] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def dispatching(house: House, number: int) -> list[Callable[[], object]]:
    """The work of so many workers, each of which processes the queue three times."""
    workers = [house.new_worker(f"w{n}") for n in range(number)]
    return [lambda w=w: [w._dispatcher.run() for _ in range(3)] for w in workers]
