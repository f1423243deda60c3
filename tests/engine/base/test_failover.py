"""An asynchronous failover of a real PostgreSQL: the promoted standby lacks the last transactions."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.base.test_restored_database import another, outside, visit
from tests.engine.house import House
from tests.engine.timehouse import look, make
from tests.helpers.replicas import Replicas, replicas
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, WeftError
from weft.model.pod import PodState


@pytest.fixture
def pair(postgres: str) -> Generator[Replicas]:
    with replicas() as made:
        yield made


def test_incomplete_standby_changes_nothing_until_accepted(
    pair: Replicas,
) -> None:
    """In the same processes, which connect to it by themselves. What was lost is the release
    of a pod and the order of the next one; as much is asked of the new primary before any visit."""
    database = Database(pair.url)
    house = House(database, pair.url)
    try:
        old, kept = house.ready(make("old", 2)), house.ready(make("kept", 1))
        pair.level()
        pair.part()
        house.release(old)
        house.run(old, PodState.RELEASED)
        live = another(house, "live", 2)
        assert set(live.nodes) == set(old.nodes)
        before = outside(house)
        pair.fail_over()

        for _ in range(20):  # each connection of the pool finds out by itself
            try:
                house.release(kept)
                house.store.quarantine("gpu09", "smokes")
                break
            except WeftError:
                continue
        assert look(house, kept).wanted == "absent" and look(house, old).state is PodState.READY
        for pod in (old, kept):
            assert "--accept" in visit(house, pod, 2).reason, pod.name
        with pytest.raises(ConflictError, match="--accept"):
            house.order(make("next", 1))
        assert outside(house) == before and house.store.records.receipt(kept.id) is None

        house.service.audits.accept_database(house.operator)
        house.run(kept, PodState.RELEASED)
    finally:
        house.close()
        database.close()


def test_complete_standby_continues_without_acceptance(pair: Replicas) -> None:
    """It is another server, so the note is read again, and found to be known."""
    database = Database(pair.url)
    house = House(database, pair.url)
    try:
        pod = house.ready(make("pod", 1))
        losses = database.losses
        pair.level()
        pair.fail_over()
        for _ in range(20):
            try:
                house.release(pod)
                break
            except WeftError:
                continue
        house.run(pod, PodState.RELEASED)
        assert database.losses > losses
    finally:
        house.close()
        database.close()
