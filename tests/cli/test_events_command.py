"""`weft events`: the events of all pods of a project, listed and followed."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.helpers.desk import Desk
from weft.cli import events


def test_events_of_all_pods_are_listed_and_followed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Following continues after the first page; after a restore it says so and shows the latest events."""
    file = desk.pod_file()
    desk.weft("pod", "create", "-f", file)
    desk.house.finish("train")
    found = desk.weft("events", "--json").json
    assert {e["pod"] for e in found} == {"train"} and found[0]["code"] == "POD_STATE"
    assert desk.weft("events", "--newest", "2", "--json").json == found[-2:]
    assert desk.weft("events", "--after", found[-3]["position"], "--json").json == found[-2:]
    assert "READY" in desk.weft("events").out
    everywhere = desk.weft("events", "--all-projects", "-f", "csv", cloud="operator").out
    assert everywhere.splitlines()[0].split(",")[1].strip('"').lower().startswith("project")

    lines: list[str] = []

    def say(text: str) -> None:
        lines.append(text)
        if len(lines) == 2:
            with psycopg.connect(desk.house.database.url) as connection:
                connection.execute("UPDATE event_life SET place = 'another server'")
        if len(lines) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(events, "say", say)
    followed = desk.weft("events", "--follow", "--newest", "2", "-f", "json")
    assert followed.code == 130 and "restored" in followed.err
    shown = [json.loads(line) for line in lines]
    assert [e["sequence"] for e in shown] == [e["sequence"] for e in found[-2:]] * 2


def test_malformed_position_is_refused(desk: Desk) -> None:
    """The error says what is allowed."""
    refused = desk.weft("events", "--after", "17")
    assert refused.code == 2 and "position" in refused.err
