"""Health of nodes, pods and the site: one value from all that is known, and unknown is never healthy."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.engine.house import House, policy
from weft.app.redact import redacted
from weft.engine.nodes.hostwatch import HostWatch
from weft.model.errors import NotFoundError
from weft.model.pod import PodState
from weft.model.views import DrainRequest


def read_hosts(house: House, **states: str) -> None:
    """Read all hosts once, up unless a state is given, and the fabrics' managers."""
    up = {node.nova_host: "up" for node in house.site.nodes}
    house.cloud.hosts = lambda: {**up, **states}  # type: ignore[method-assign]
    HostWatch(house.database, lambda: house.world, lambda: house.site).tend()
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "INSERT INTO fabric_status (fabric, known, problems, read_at) VALUES ('ib0', true, 0, now())"
            " ON CONFLICT (fabric) DO UPDATE SET read_at = now()"
        )
    house.store.worker_lives("w1")


def age(house: House, table: str, column: str, by: timedelta) -> None:
    with psycopg.connect(house.database.url) as connection:
        connection.execute(f"UPDATE {table} SET {column} = {column} - %s".encode(), [by])


def node(house: House, name: str) -> tuple[str, set[str]]:
    """Health and codes of a node: shown alone, and in the list of all, whose equal nodes are worked out once."""
    found = house.service.nodes.health(house.operator, name)
    assert found in house.service.nodes.healths(house.operator)
    return found.health, {one.code for one in found.reasons}


def test_node_that_was_read_as_up_is_ok(house: House) -> None:
    """Before the first reading, and once that is old, it is unknown."""
    assert node(house, "gpu01") == ("unknown", {"HOST_UNREAD", "FABRIC_UNREAD"})
    read_hosts(house)
    assert node(house, "gpu01") == ("ok", set())
    age(house, "host_reading", "at", timedelta(minutes=6))
    assert node(house, "gpu01") == ("unknown", {"HOST_UNREAD"})
    read_hosts(house)
    age(house, "fabric_status", "read_at", timedelta(minutes=11))
    assert node(house, "gpu01") == ("unknown", {"FABRIC_UNREAD"})
    with pytest.raises(NotFoundError):
        house.service.nodes.health(house.operator, "nix")


def test_host_that_is_down_fails_its_node(house: House) -> None:
    """Down for a short time it is a warning; a host that the cloud doesn't list is unknown."""
    read_hosts(house, gpu01="down", gpu02="disabled")
    assert node(house, "gpu01") == ("warning", {"NODE_HOST_DOWN"})
    assert node(house, "gpu02") == ("unknown", {"HOST_UNKNOWN"})
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE host_down SET reported_at = now()")
    assert node(house, "gpu01") == ("failed", {"NODE_HOST_DOWN"})
    age(house, "host_down", "seen_at", timedelta(minutes=6))
    read_hosts(house, gpu01="down")
    assert node(house, "gpu01")[1] == {"NODE_HOST_DOWN"}


def test_acts_of_operators_are_warnings_or_failures(house: House) -> None:
    """All of it is listed, the worst first."""
    read_hosts(house)
    house.service.nodes.hold(house.operator, "gpu01", "burn-in")
    house.service.nodes.drain(house.operator, DrainRequest(target="gpu01", reason="fan"))
    assert node(house, "gpu01") == ("warning", {"HELD", "DRAINED"})
    house.service.nodes.quarantine(house.operator, "gpu01", "dirty")
    found = house.service.nodes.health(house.operator, "gpu01")
    assert (found.health, found.reasons[0].code) == ("failed", "IN_QUARANTINE")


@pytest.mark.parametrize("by", ["type", "rack", "project", "use", "cloud"])
def test_health_counts_of_groups_add_up_to_all_nodes(house: House, by: str) -> None:
    """Each node is in one group, and has one health."""
    house.ready()
    read_hosts(house, gpu01="down", gpu02="disabled")
    house.service.nodes.quarantine(house.operator, "gpu03", "dirty")
    found = house.service.site.health(house.operator, by)  # type: ignore[arg-type]
    nodes = house.service.nodes.healths(house.operator)
    assert len(nodes) == len(house.site.units)
    for count in (*found.groups, found.total):
        assert count.nodes == count.ok + count.warning + count.failed + count.unknown
    for value in ("nodes", "ok", "warning", "failed", "unknown"):
        assert sum(getattr(one, value) for one in found.groups) == getattr(found.total, value)
    assert found.total.nodes == len(nodes)
    assert found.total.unknown == sum(one.health == "unknown" for one in nodes) > 0
    if by == "use":
        assert {one.group: one.nodes for one in found.groups}["busy"] == 2


def test_health_of_a_pod_is_that_of_itself_and_its_nodes(house: House) -> None:
    """Unknown before it serves, without workers, and after a reading is old."""
    ask = lambda: house.service.pods.health(house.request(), "train")  # noqa: E731
    pod = house.order()
    assert (ask().health, ask().nodes) == ("unknown", ())
    house.run(pod, PodState.READY)
    read_hosts(house)
    assert (ask().health, ask().reasons) == ("ok", ())
    assert {one.node for one in ask().nodes} == set(pod.nodes)
    read_hosts(house, **{pod.nodes[0]: "down"})
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE host_down SET reported_at = now()")
    assert ask().health == "failed"
    read_hosts(house)
    age(house, "worker_seen", "seen_at", timedelta(minutes=5))
    assert (ask().health, {one.code for one in ask().reasons}) == ("unknown", {"NO_WORKERS"})


def test_node_that_left_the_site_is_unknown_in_its_pods_health(house: House) -> None:
    """It isn't left out: the pod would seem well."""
    pod = house.ready()
    read_hosts(house)
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE pod SET plan = replace(plan::text, %s, 'gone77')::jsonb", [pod.nodes[0]])
    found = house.service.pods.health(house.request(), "train")
    assert found.health == "unknown"
    (mine,) = [one for one in found.nodes if one.node == "gone77"]
    assert mine.reasons[0].code == "NOT_IN_SITE"


def test_announced_maintenance_is_a_warning_before_it_begins(house: House) -> None:
    """With its time and what operators publish, in the health, the events and the stream; the pod stays as it is."""
    pod = house.ready()
    read_hosts(house)
    until = house.store.database.now() + timedelta(days=3)
    house.service.nodes.drain(
        house.operator, DrainRequest(target=pod.nodes[0], by=until, reason="secret", public="new fans")
    )
    tenant = redacted(house.service, policy())
    found = tenant.pods.health(house.request(), "train")
    assert (found.health, found.state) == ("warning", PodState.READY)
    shown = found.model_dump_json()
    assert "new fans" in shown and "secret" not in shown
    (mine,) = [one for one in found.nodes if one.node == pod.nodes[0]]
    assert mine.reasons[0].code == "DRAINED" and "until" in mine.reasons[0].params
    assert any(e.code == "NODES_DRAINED" for e in tenant.pods.events(house.request(), "train"))


def test_tenant_reads_no_other_partys_words_in_a_pods_health(house: House) -> None:
    """Quarantine and holds without their reasons; that another project reported a node isn't shown at all."""
    pod = house.ready()
    read_hosts(house)
    other, first = pod.nodes[1], pod.nodes[0]
    house.service.nodes.quarantine(house.operator, first, "blood on the fan")
    house.service.nodes.hold(house.operator, other, "burn-in of evil corp")
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "INSERT INTO node_report VALUES (%s, 'team-b', gen_random_uuid(), 'theirs', now(), 'mal', 'smoke')",
            [other],
        )
    assert node(house, other)[1] == {"HELD", "REPORTED"}
    found = redacted(house.service, policy()).pods.health(house.request(), "train")
    text = found.model_dump_json()
    assert found.health == "warning", (
        "quarantine keeps a node from further orders, and leaves the pod as it is"
    )
    assert not any(word in text for word in ("blood", "evil", "smoke", "mal", "REPORTED", "team-b"))
    with pytest.raises(NotFoundError):
        house.service.pods.health(house.request("team-b"), str(pod.id))
