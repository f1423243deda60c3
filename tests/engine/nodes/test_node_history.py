"""A node's history: written with the thing itself, read by pages, kept when the node leaves the site."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine.changes.test_change_loop import settle
from tests.engine.house import House
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.queue.test_spares import spared
from tests.engine.replace.test_replace import swap
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.engine.base.database import Database
from weft.engine.watch.retention import Retention, RetentionSettings
from weft.model.errors import ForbiddenError, NotFoundError, RefusedError
from weft.model.messages import CODES
from weft.model.pod import PodState
from weft.model.site import RetentionPolicy
from weft.model.views import DrainRequest


def noted(house: House, node: str) -> list[tuple[str, str]]:
    """Code and user of each entry, the oldest first."""
    found = house.service.nodes.history(house.operator, node).entries
    return [(entry.code, entry.by) for entry in reversed(found)]


def codes(house: House, node: str) -> list[str]:
    return [code for code, _ in noted(house, node)]


def test_operators_acts_are_recorded_with_their_names(house: House) -> None:
    """Who cleared a quarantine, too; what changes nothing is no entry."""
    verbs, operator = house.service, house.operator
    user = operator.caller.user_name
    verbs.nodes.hold(operator, "gpu03", "burn-in")
    verbs.nodes.hold(operator, "gpu03", "burn-in")
    verbs.nodes.drain(operator, DrainRequest(target="gpu03", reason="fan"))
    verbs.nodes.drain(operator, DrainRequest(target="gpu03", reason="fan"))
    verbs.nodes.quarantine(operator, "gpu03", "smokes")
    verbs.nodes.quarantine(operator, "gpu03", "smokes")
    verbs.nodes.clear(operator, "gpu03")
    verbs.nodes.undrain(operator, "gpu03")
    verbs.nodes.accept(operator, "gpu03")
    done = ("HELD", "DRAINED", "QUARANTINED", "CLEARED", "UNDRAINED", "ACCEPTED")
    assert noted(house, "gpu03") == [(f"NODE_{code}", user) for code in done]
    texts = [str(entry.message) for entry in verbs.nodes.history(operator, "gpu03").entries]
    assert texts == [
        *("accepted for burn-in", "no longer drained", "cleared from quarantine: smokes"),
        *("quarantined: smokes", "drained: fan", "held for burn-in"),
    ]
    assert not codes(house, "gpu04")
    with pytest.raises(NotFoundError):
        verbs.nodes.history(operator, "nix")
    with pytest.raises(ForbiddenError):
        verbs.nodes.history(house.request(), "gpu03")


def test_pod_of_a_node_is_recorded_from_claim_to_release(house: House) -> None:
    """The spare, the replacement at both nodes, and the hold."""
    pod = house.ready(spared("train", 2, 1))
    failed, spare = pod.nodes[0], pod.plan.placement.spares[0].node
    swap(house, failed)
    settle(house, pod)
    asked = house.request().caller.user_name
    assert noted(house, failed) == [
        ("NODE_GIVEN", ""),
        ("NODE_LEAVING", ""),
        ("NODE_REPLACED_BY", asked),
        ("NODE_HELD", ""),
        ("NODE_FREED", ""),
    ]
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert noted(house, spare) == [
        ("NODE_KEPT_AS_SPARE", ""),
        ("NODE_SPARE_USED", ""),
        ("NODE_REPLACES", asked),
        ("NODE_FREED", ""),
    ]
    entries = house.service.nodes.history(house.operator, failed).entries
    assert {e.pod for e in entries if e.type != "hold"} == {"train"}
    assert str(entries[2].message) == f"replaced by {spare} in pod train of project {pod.project_id}"


def test_history_says_that_a_node_was_freed_unclean(house: House) -> None:
    """Its pod ends while the node is in quarantine because of that pod."""
    pod = house.ready()
    node = pod.nodes[0]
    house.release(pod)
    with house.store.database.transaction() as tx:
        tx.run("quarantine", node=node, reason="a guest may run", at=tx.now(), pod_id=pod.id, by="")
    house.run(pod, PodState.RELEASED)
    assert codes(house, node) == ["NODE_GIVEN", "NODE_QUARANTINED", "NODE_FREED_UNCLEAN"]


def test_broken_server_is_one_entry_until_something_else_happens(house: House) -> None:
    """What a tenant does to its server must not fill the table."""
    pod = house.ready()
    node = pod.nodes[0]
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        for state in ("broken", "settled", "broken"):
            connection.execute(
                "UPDATE resource SET state = %s, reason = %s WHERE owner_id = %s AND kind = 'server'",
                [state, Jsonb("status is ERROR"), pod.id],
            )
    (last, first) = house.service.nodes.history(house.operator, node).entries
    assert (first.type, last.type, last.code) == ("pod", "failure", "NODE_SERVER_BROKEN")
    assert str(last.message).endswith("failed on it: status is ERROR")


def test_slots_on_a_shared_host_are_in_its_history(database: Database, database_url: str) -> None:
    """A Poplar server has pods by its slots; a machine is held whole."""
    house = IpuHouse(database, database_url)
    try:
        pod = house.booted(ipus("ml", 4))
        hosts = [space[5:] for space in pod.plan.allotment.numbers if space.startswith("host/")]
        assert hosts
        house.release(pod)
        house.run(pod, PodState.RELEASED)
        for node in (*hosts, pod.nodes[0]):
            found = [e.code for e in house.service.nodes.history(house.operator, node).entries]
            assert found == ["NODE_FREED", "NODE_GIVEN"], node
    finally:
        house.close()


def test_refused_claim_is_in_no_history(database: Database, database_url: str) -> None:
    """Orders that are refused after they claimed nodes and slots: their senders can't fill the table."""
    house = IpuHouse(database, database_url)
    try:
        house.cloud.offers.quotas["team-a", "servers"] = 0
        for wanted in (ipus("ml", 4), spared("train", 2, 1)):
            with pytest.raises(RefusedError, match="servers"):
                house.order(wanted)
        with psycopg.connect(house.database.url) as connection:
            assert connection.execute("SELECT node, message FROM node_history").fetchall() == []
    finally:
        house.close()


def test_program_reads_a_history_without_tenants(house: House, tmp_path: Path) -> None:
    """A role with the rule, and without details:show, sees neither pods, projects nor users."""
    pod = house.ready(spared("train", 2, 1))
    house.service.nodes.quarantine(house.operator, pod.nodes[0], "smells of team-a")
    swap(house, pod.nodes[0])
    file = tmp_path / "policy.yaml"
    file.write_text("nodes:history: rule:operator or role:acceptor\n")
    rules = Policy(file)
    service = Service(Desk(house.store, house.keeper, rules, house.time, house.listener, house.pulse))
    found = redacted(service, rules).nodes.history(house.request("tests", "acceptor"), pod.nodes[0])
    text = found.model_dump_json()
    for hidden in ("train", "team-a", pod.project_id, "admin", house.request().caller.user_name):
        assert hidden not in text, hidden
    assert [str(entry.message) for entry in found.entries] == [
        *("held", "replaced in its pod"),
        *("its pod leaves it: it is held until it is read back clean", "quarantined", "given to a pod"),
    ]


def test_page_of_a_history_of_100_000_entries_is_read_by_the_index(house: House) -> None:
    """Each page by the index; retention removes old ones; a node that left the site still has its own."""
    made = """INSERT INTO node_history (node, at, type, message)
        SELECT 'gone' || n %% 50, %s - n * interval '1 minute', 'hold', node_message('NODE_HELD', '{"what": "x"}')
        FROM generate_series(1, 100000) n"""
    ask = "EXPLAIN SELECT at FROM node_history WHERE node = 'gone1' AND sequence < 5000 ORDER BY sequence DESC LIMIT 9"
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(made, [house.database.now()])
        connection.execute("ANALYZE node_history")
        plan = str(connection.execute(ask).fetchall())
    assert "node_history_pkey" in plan and "Sort" not in plan and "Filter" not in plan, plan
    verbs, operator = house.service, house.operator
    first = verbs.nodes.history(operator, "gone1", limit=1000)
    second = verbs.nodes.history(operator, "gone1", first.next, 1000)
    numbers = [e.sequence for e in (*first.entries, *second.entries)]
    assert len(set(numbers)) == 2000 and numbers == sorted(numbers, reverse=True)
    assert not first.in_site
    retention = Retention(house.database, lambda: house.site, RetentionSettings(batch=50_000, pause=0.0))
    removed, _, failed = retention.run(RetentionPolicy(node_history="1d"))
    assert not failed and removed["entries of nodes' histories"] == 100_000 - 24 * 60
    assert len(verbs.nodes.history(operator, "gone1").entries) < 30


def test_codes_in_sql_are_known() -> None:
    """Each code that a migration or a query writes is in the table of messages, with the values it is given."""
    text = "".join(path.read_text() for path in Path("src/weft/engine").rglob("*.sql"))
    found = set(re.findall(r"'(NODE_[A-Z_]+)'", text))
    assert found <= set(CODES) and len(found) >= 12
