"""The audit log: entries by ids, the newest first; refused requests can't displace completed ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.engine.base.test_locks import waits_for_a_lock
from tests.engine.house import House
from tests.helpers.waiting import wait_for
from weft.app.verbs import Request
from weft.model.errors import ForbiddenError, NotFoundError
from weft.model.views import AuditLogSearch


def asked(house: House, project: str = "team-a", role: str = "member") -> Request:
    return replace(house.request(project, role), user_agent="weft/1 python", address="192.0.2.7")


def test_entry_names_user_and_project_by_id(house: House) -> None:
    """User and project with their domains, what the client calls itself, from where, and the request."""
    request = asked(house)
    house.service.pods.release(request, house.order().name)
    entry, _ = house.store.records.audit_log(AuditLogSearch())
    caller = request.caller
    assert (entry.user, entry.user_id, entry.user_domain_id) == (caller.user_name, caller.user_id, "default")
    assert (entry.project_id, entry.project_domain_id) == (caller.project_id, "default")
    assert (entry.action, entry.subject, entry.outcome, entry.times) == ("pod release", "train", "done", 1)
    assert (entry.user_agent, entry.address, entry.request_id) == ("weft/1 python", "192.0.2.7", "req-test")


def test_refused_tenant_requests_share_a_row(house: House) -> None:
    """A thousand of them are one row an hour for each user and action; an operator's have a row each."""
    pod, stranger, reader = house.order(), asked(house, "team-b"), asked(house, "team-a", "reader")
    for number in range(30):
        with pytest.raises(NotFoundError):
            house.service.pods.release(stranger, f"guess-{number}")
        with pytest.raises(ForbiddenError):
            house.service.permissions.check(reader, "pods:release", pod.name)
        with pytest.raises(NotFoundError):
            house.service.nodes.quarantine(house.operator, f"nix{number}", "x")
    found = house.store.records.audit_log(AuditLogSearch())
    by_action = {a: [e for e in found if e.action == a] for a in {e.action for e in found}}
    assert len(by_action["pod create"]) == 1
    # Two rows if an hour began in between.
    for action, last in (("pod release", "guess-29"), ("pods:release", pod.name)):
        assert sum(e.times for e in by_action[action]) == 30 and len(by_action[action]) <= 2
        assert by_action[action][0].subject == last
    assert [e.times for e in by_action["node quarantine"]] == [1] * 30


def test_entries_can_be_searched(house: House) -> None:
    """By time, user, project and action, page by page from the newest."""
    house.order()
    with pytest.raises(NotFoundError):
        house.service.pods.release(asked(house, "team-b"), "train")
    house.service.nodes.quarantine(house.operator, "gpu01", "fan")
    house.service.nodes.clear(house.operator, "gpu01")

    def actions(**search: object) -> list[str]:
        return [e.action for e in house.store.records.audit_log(AuditLogSearch.model_validate(search))]

    everything = ["node clear", "node quarantine", "pod release", "pod create"]
    assert actions() == everything
    assert actions(limit=2) == everything[:2]
    entries = house.store.records.audit_log(AuditLogSearch())
    assert actions(before=entries[1].sequence) == everything[2:]
    assert actions(after=entries[1].sequence) == everything[:1]
    assert actions(action="pod create") == ["pod create"]
    assert actions(project=entries[2].project_id) == ["pod release"]
    assert actions(user=entries[0].user_id) == actions(user=entries[0].user) == everything[:2]
    assert actions(since=datetime.now(UTC) - timedelta(hours=1)) == everything
    assert actions(since=datetime.now(UTC) + timedelta(hours=1)) == []


def test_rows_of_an_earlier_version_are_read(house: House, database_url: str) -> None:
    """They have no ids."""
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO audit_log (at, last_at, user_name, project_id, action, subject, address, request_id, outcome)"
            " VALUES (now(), now(), 'alice', 'p', 'pod create', 'train', '', 'req-1', 'done')"
        )
    (entry,) = house.store.records.audit_log(AuditLogSearch(user="alice"))
    assert (entry.user_id, entry.user_domain_id, entry.user_agent) == (None, None, "")


def test_following_the_log_misses_no_entry(house: House) -> None:
    """An entry in progress appears before a later one is visible, or both appear later."""
    house.order()
    with house.database.statement() as tx:
        row = tx._connection.execute("SELECT * FROM audit_log").fetchone()  # pyright: ignore[reportPrivateUsage]
    assert row is not None
    entry = {**row, "counted": False}
    with ThreadPoolExecutor(1) as pool:
        with house.database.transaction() as tx:
            tx.run("insert_audit_log", **entry | {"subject": "first"})
            house.store.records.log(**entry | {"subject": "second"})
            asked = pool.submit(house.store.records.audit_log, AuditLogSearch(after=row["sequence"]))
            wait_for(lambda: asked.done() or waits_for_a_lock(house))
        seen = asked.result()
    last = max((e.sequence for e in seen), default=row["sequence"])
    seen = [*house.store.records.audit_log(AuditLogSearch(after=last)), *seen]
    assert [e.subject for e in seen] == ["second", "first"]
