"""Orders changed while they wait, also at the moment of their start, and operations on them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import psycopg
import pytest

from tests.engine.changes.test_apply_rows import apply, open_to, rows
from tests.engine.house import House
from tests.engine.timehouse import HandClock, at_once, dispatching, look, make, messages, queue, release
from weft.engine.rows.records import PodRecord
from weft.model.pod import PodState


def in_between(house: House, work: Callable[[], object]) -> None:
    """Do something while the nodes of the next start are checked in the cloud, after the input was gathered. The order
    isn't started as it was, and is due again at once."""
    house.cloud.meanwhile("occupants", lambda: house.cloud.meanwhile("occupants", work))
    assert house.worker.tend_queue() == 0


def started(house: House, pod: PodRecord) -> PodRecord:
    house.worker.tend_queue()
    return house.run(pod, PodState.READY)


def test_order_changed_while_waiting_and_again_while_serving(
    house: House, clock: HandClock, database_url: str
) -> None:
    """It starts with its present generation, and each further change and extension makes the next."""
    first, later = house.ready(make("first", 16)), clock.now() + timedelta(hours=9)
    pod = queue(house, "next", 3, end=later)
    apply(house, make("next", 2, queue=True, end=later))
    apply(house, open_to("9.0.0.0/8", make("next", 2, queue=True, end=later)))
    release(house, first)
    ready = started(house, pod)
    assert (ready.generation, ready.ready_generation, ready.plan.generation) == (3, 3, 3)
    assert {r.generation for r in house.store.pods.resources(pod.id)} == {3}
    found = apply(house, open_to("9.0.0.0/8", make("next", 3, queue=True, end=later)))
    assert (found.outcome, found.pod.generation) == ("changed", 4)
    house.worker.run_once()
    view = house.service.pods.extend(house.request(), "next", later + timedelta(hours=1))
    assert (view.generation, view.lease_end) == (5, later + timedelta(hours=1))
    stored = rows(database_url, "SELECT generation FROM pod_generation ORDER BY generation")
    assert [r["generation"] for r in stored] == [1, 2, 3, 4, 5]


def test_pod_started_by_an_earlier_weft_keeps_its_generation(house: House, database_url: str) -> None:
    """Its plan's number is behind its row's, which counts."""
    first = house.ready(make("first", 16))
    pod = queue(house, "next", 3)
    apply(house, make("next", 2, queue=True))
    release(house, first)
    started(house, pod)
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE pod SET plan = jsonb_set(plan, '{generation}', '1') WHERE name = 'next'")
    assert look(house, pod).plan.generation == 2
    planned = house.service.pods.plan(house.request(), make("next", 3, queue=True))
    assert planned.change is not None and planned.change.generation == 3
    assert apply(house, make("next", 3, queue=True)).pod.generation == 3
    assert len(house.run(pod, PodState.READY).nodes) == 3


@pytest.mark.parametrize("count", [2, 4])
def test_change_during_the_start_is_started(house: House, count: int) -> None:
    """The change is accepted while the dispatcher asks the cloud about the nodes of the former order."""
    pod = queue(house, "next", 3)
    changed = open_to("9.0.0.0/8", make("next", count, queue=True))
    in_between(house, lambda: apply(house, changed))
    ready = started(house, pod)
    assert (ready.generation, ready.plan.generation, len(ready.nodes)) == (2, 2, count)
    assert ready.plan.order == ready.order and ready.order.access == changed.access
    assert set(house.store.capacity().holds) == set(ready.nodes)


def test_extension_during_the_start_lasts(house: House, clock: HandClock) -> None:
    """The lease that its tenant was promised is the one that its pod has."""
    end = clock.now() + timedelta(hours=1)
    pod = queue(house, "next", 2, end=end)
    longer = end + timedelta(hours=5)
    in_between(house, lambda: house.service.pods.extend(house.request(), "next", longer))
    ready = started(house, pod)
    assert (ready.lease_end, ready.plan.order.lease.end) == (longer, longer)
    assert messages(house, pod, "lease")


def test_concurrent_changes_and_starts_agree(house: House) -> None:
    """Four workers start what is being changed: each pod matches its row, whichever was first."""
    for n in range(3):
        pod = queue(house, f"q{n}", 2)
        changed = [make(f"q{n}", count, queue=True) for count in (1, 3)]
        at_once(*dispatching(house, 4), *(partial(apply, house, order) for order in changed))
        ready = started(house, pod)
        assert ready.plan.order == ready.order and len(ready.nodes) == ready.order.nodes.count
        assert ready.plan.generation == ready.generation
        apply(house, make(f"q{n}", ready.order.nodes.count + 1, queue=True))
