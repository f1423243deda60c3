"""Orders with an `Idempotency-Key`: the same order sent again gets the same pod."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

import psycopg
import pytest
from httpx import Client, Response

from tests.helpers.doors import ORDER, DoorsHouse
from weft.engine.rows.orderkeys import digest_of
from weft.engine.watch.retention import Retention
from weft.model.order import Order
from weft.model.pod import PodState
from weft.testing.callers import by

KEY = {"Idempotency-Key": "5b1f1f0e-order-1"}


def send(api: Client, order: dict[str, Any] = ORDER, who: str = "a-member", **headers: str) -> Response:
    return api.post("/v1/pods", json=order, headers={**by(who), **KEY, **headers})


def run(doors: DoorsHouse, statement: LiteralString) -> int:
    """Runs a statement; the number of rows that it found or changed."""
    with psycopg.connect(doors.database.url, autocommit=True) as connection:
        return connection.execute(statement).rowcount


def count(doors: DoorsHouse) -> int:
    """Number of pods, released ones included."""
    return run(doors, "SELECT FROM pod")


def test_repeated_order_with_its_key_is_the_same_pod(api: Client, doors: DoorsHouse) -> None:
    """Without a key the second order is refused: the name is taken."""
    first, second = send(api), send(api)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] == second.json()["id"]
    assert first.headers["location"] == second.headers["location"]
    assert api.post("/v1/pods", json=ORDER).json()["code"] == "POD_EXISTS"
    assert count(doors) == 1


def test_repeated_order_after_the_release_makes_no_second_pod(api: Client, doors: DoorsHouse) -> None:
    """An order that a proxy repeats late doesn't get nodes again."""
    made = send(api).json()["id"]
    doors.finish("train")
    api.post("/v1/pods/train/release")
    doors.finish("train")
    again = send(api)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (202, made, "RELEASED")
    assert count(doors) == 1


def test_key_of_another_order_is_refused(api: Client, doors: DoorsHouse) -> None:
    """The error names the key, and nothing is ordered."""
    send(api)
    other = send(api, {**ORDER, "name": "other"})
    assert other.status_code == 400
    assert [(e["field"], e["value"]) for e in other.json()["errors"]] == [
        ("Idempotency-Key", repr(KEY["Idempotency-Key"]))
    ]
    assert "another order" in other.json()["detail"]
    assert count(doors) == 1


def test_one_key_of_two_projects_or_users_makes_two_pods(api: Client, doors: DoorsHouse) -> None:
    """Another project's or user's order under the same key is a pod of its own and shows nothing of the first."""
    mine, theirs = send(api), send(api, who="b-member")
    assert mine.status_code == theirs.status_code == 202
    assert mine.json()["id"] != theirs.json()["id"]
    assert count(doors) == 2


def test_refused_order_can_be_sent_again_with_its_key(api: Client, doors: DoorsHouse) -> None:
    """The refused order left nothing; once there is capacity, the repetition is placed."""
    full = doors.fill()
    assert [send(api).status_code for _ in range(2)] == [422, 422]
    assert count(doors) == 1
    doors.release(full)
    doors.run(full, PodState.RELEASED)
    assert send(api).status_code == 202
    assert count(doors) == 2


def test_orders_at_once_with_one_key_make_one_pod(api: Client, doors: DoorsHouse) -> None:
    """Those that come while it is being placed are answered with 503 and `Retry-After`, or with the pod."""
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: send(api), range(6)))
    assert {r.status_code for r in found} <= {202, 503}, [r.text for r in found]
    assert all("retry-after" in r.headers for r in found if r.status_code == 503)
    assert len({r.json()["id"] for r in found if r.status_code == 202}) == 1
    assert count(doors) == 1


def test_order_whose_claim_is_not_confirmed_asks_for_patience(api: Client, doors: DoorsHouse) -> None:
    """It may still be refused; nothing else is ordered for it."""
    made = send(api).json()["id"]
    assert run(doors, "UPDATE pod SET token = 0, next_at = now() + interval '100 seconds'") == 1
    waiting = send(api)
    assert (waiting.status_code, waiting.headers["retry-after"]) == (503, "2")
    assert run(doors, "UPDATE pod SET next_at = now()") == 1
    assert send(api).json()["id"] == made


def test_key_older_than_a_day_counts_as_new(api: Client, doors: DoorsHouse) -> None:
    """Also if its row hasn't been removed yet."""
    send(api)
    assert run(doors, "UPDATE order_key SET at = at - interval '25 hours'") == 1
    assert send(api, {**ORDER, "name": "other"}).status_code == 202
    assert count(doors) == 2


@pytest.mark.parametrize("key", [b"", b"a" * 256, b"a\tb", b"\xc3\xb6"])
def test_malformed_key_is_refused(api: Client, doors: DoorsHouse, key: bytes) -> None:
    """Nothing is ordered."""
    found = api.post("/v1/pods", json=ORDER, headers=[(b"Idempotency-Key", key)])
    assert found.status_code == 400
    assert found.json()["errors"][0]["field"] == "Idempotency-Key"
    assert count(doors) == 0


def test_waiting_order_with_a_key_is_answered_with_its_pod(api: Client) -> None:
    """A repeated order with `until` and `wait` waits for the pod that exists."""
    made = send(api).json()["id"]
    again = api.post("/v1/pods?until=PLACED&wait=5", json=ORDER, headers=KEY)
    assert (again.status_code, again.json()["id"]) == (202, made)


def test_queued_order_repeated_with_its_key_has_one_place(api: Client, doors: DoorsHouse) -> None:
    """However often it is sent."""
    waiting = {**ORDER, "queue": True}
    assert send(api, waiting).json()["id"] == send(api, waiting).json()["id"]
    assert count(doors) == 1


def test_keys_are_removed_when_they_expire(api: Client, doors: DoorsHouse) -> None:
    """After a day; after an hour if the order was refused, so that such orders leave few rows."""
    send(api)
    everything = {**ORDER, "nodes": {**ORDER["nodes"], "count": 4000}}
    assert send(api, everything, **{"Idempotency-Key": "refused"}).status_code == 422
    for hours, left in ((0, 2), (2, 1), (25, 0)):
        assert run(doors, "SELECT FROM order_key") >= left
        with psycopg.connect(doors.database.url, autocommit=True) as connection:
            connection.execute(
                "UPDATE order_key SET at = %s - %s * interval '1 hour'", [doors.database.now(), hours]
            )
        Retention(doors.database, lambda: doors.site).run(doors.site.retention)
        assert run(doors, "SELECT FROM order_key") == left


def test_digest_of_an_order_is_the_same_for_a_later_version() -> None:
    """During a rolling upgrade an order may be repeated at a process whose orders have more fields."""

    class Later(Order):
        more: int = 3

    assert digest_of(Order.model_validate(ORDER)) == digest_of(Later.model_validate(ORDER))
    assert digest_of(Order.model_validate(ORDER)) != digest_of(Order.model_validate({**ORDER, "queue": True}))
