"""A request can wait for events of the site's resources as for a pod's, instead of polling."""

from __future__ import annotations

import threading

import pytest
from httpx import Client

from tests.helpers.doors import DoorsHouse
from weft.engine.site.siteowner import set_desired
from weft.model.resources import Graph
from weft.testing.callers import by

LONG = 30.0


def applied(doors: DoorsHouse) -> None:
    site = doors.store.site()
    set_desired(doors.database, site.site.name, site.generation, Graph(resources=()), {}, "olga")


def test_events_are_answered_as_soon_as_there_is_one(api: Client, doors: DoorsHouse) -> None:
    applied(doors)
    olga = by("operator")
    last = api.get("/v1/site/events", headers=olga).json()["events"][-1]["sequence"]
    path = f"/v1/site/events?after={last}&wait="
    assert api.get(f"{path}0.05", headers=olga).json() == {"events": []}
    later = threading.Timer(0.2, applied, [doors])
    later.start()
    [event] = api.get(f"{path}{LONG}", headers=olga, timeout=2 * LONG).json()["events"]
    later.join()
    assert event["type"] == "apply" and event["sequence"] > last
    assert api.get(f"{path}{LONG}", headers=olga).json()["events"] == [event], (
        "the event exists already, so there is no wait"
    )


@pytest.mark.parametrize("query", ["wait=61", "wait=-1", "wait=nan", "wait=x"])
def test_wait_has_a_limit(api: Client, doors: DoorsHouse, query: str) -> None:
    applied(doors)
    answer = api.get(f"/v1/site/events?{query}", headers=by("operator"))
    assert (answer.status_code, "wait" in answer.text) == (400, True), answer.text


def test_caller_without_permission_does_not_wait(api: Client, doors: DoorsHouse) -> None:
    applied(doors)
    assert api.get(f"/v1/site/events?wait={LONG}", headers=by("a-member"), timeout=5).status_code == 403
