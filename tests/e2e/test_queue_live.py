"""The queue on the lab: an order waits, another is released, and the one that waited becomes READY by itself."""

from __future__ import annotations

import pytest

from tests.e2e.people import People, wait_for

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="half a minute of processor; by day the queue is on fakes, and orders on the lab"
    ),
]

QUEUED = """\
name: second
nodes: {count: 1, flavor: gpu8, image: tiny}
queue: true
"""


def test_queued_order_starts_when_another_is_released(people: People) -> None:
    """One node is left beside a reservation: the second order waits for the first one's release, and says so."""
    tenant, operator = people("team-a"), people("operator")
    free = operator.weft("node", "list", "--state", "free", "--json").json
    nodes = [n["name"] for n in free if n["name"].startswith("gpu")]
    aside = [word for node in nodes[1:] for word in ("--node", node)]
    made = operator.weft("reservation", "create", "e2e", "--project", "team-b", *aside)
    assert made.code == 0, made.err
    unknown = operator.weft("reservation", "create", "e2e2", "--project", "unknown", "--node", nodes[0])
    assert (
        unknown.code == 2 and "project_id: 'unknown' is not allowed: projects that weft serves" in unknown.err
    )
    try:
        assert tenant.order("first", 1).code == 0
        capacity = tenant.weft("capacity", "--level", "site", "--json").json
        assert {row["free"] for row in capacity["rows"] if row["place"] == "ib0"} == {0}
        refused = tenant.order("third", 1)
        assert refused.code == 1 and "What would fit" in refused.err
        (tenant.folder / "second.yaml").write_text(QUEUED)
        waiting = tenant.weft("pod", "create", "-f", "second.yaml", "--json")
        assert waiting.code == 0 and waiting.json["state"] == "PENDING", waiting.err
        wait_for(lambda: tenant.weft("pod", "show", "second", "--json").json["position"] == 1)
        assert "Position" in tenant.weft("pod", "list").out
        assert tenant.weft("pod", "release", "first").code == 0
        waited = tenant.weft("pod", "wait", "second", "--until", "READY", "--timeout", "180", "--json")
        assert waited.code == 0, waited.err
        pod = waited.json
        assert {n["node"] for n in pod["placed"]} == {nodes[0]}
        said = [e["type"] for e in tenant.weft("pod", "events", "second", "--json").json]
        assert "queue" in said and "state" in said
    finally:
        assert operator.weft("reservation", "delete", "e2e").code == 0
