"""Tenants' networks on the alarms page."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from weft.model.views import NetworkSearch
from weft.web import alarms
from weft.web.alarms import Group


def test_failed_network_beyond_the_first_page_is_an_alarm() -> None:
    """Networks are listed by id in every state, so any number of others may come before one with an alarm."""
    states = ["IN_FORCE"] * (2 * alarms.PAGE + 7) + ["FAILED"]
    rows = [
        SimpleNamespace(id=f"{n:05}", name="n", project_id="p", state=state, reason="", since=None, code="")
        for n, state in enumerate(states)
    ]
    asked: list[str | None] = []

    def listed(request: object, search: NetworkSearch) -> list[Any]:
        asked.append(search.marker)
        return [one for one in rows if one.id > (search.marker or "")][: search.limit]

    visit = SimpleNamespace(verbs=SimpleNamespace(networks=SimpleNamespace(list=listed)))
    found = asyncio.run(alarms._networks(cast(Any, visit), cast(Any, None)))
    assert [one.what for one in found] == ["FAILED"] and len(asked) == 3


def test_count_of_further_alarms_is_a_minimum_if_reading_stopped() -> None:
    one = alarms.Alarm("n", "FAILED")
    assert Group("t", (one,) * 50, further=200).more == "At least 200 further ones."
    assert Group("t", (one,) * 50, further=3).more == "3 further ones."
