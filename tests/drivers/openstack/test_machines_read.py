"""Ironic's answers about machines: late, lost, empty, in pages, in another shape, without conductors."""

from __future__ import annotations

import pytest

from tests.drivers.openstack.machinerig import Rig
from tests.drivers.openstack.machinerig import house as house
from tests.drivers.openstack.machinerig import rig as rig
from tests.drivers.openstack.tinycloud import Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.drivers.openstack import OpenStackFacts
from weft.model.errors import UnknownError
from weft.model.resources import Status
from weft.ports.occupants import SeenMachine


def test_machine_deleted_by_hand_is_never_clean(rig: Rig) -> None:
    claimed = rig.claim()
    rig.use()
    rig.ironic.nodes.clear()
    seen = rig.see(claimed)
    assert seen.status is Status.BROKEN and "doesn't know" in seen.reason
    assert rig.free(claimed) is not None
    assert rig.facts.hosts()[NODE] == "not in Ironic"


def test_without_a_live_conductor_nothing_is_absent(rig: Rig) -> None:
    """The API then shows what the last conductor wrote."""
    claimed = rig.claim()
    assert rig.free(claimed) is None
    rig.ironic.conductors[0]["alive"] = False
    with pytest.raises(UnknownError, match="none that is alive"):
        rig.see(claimed)


def test_pages_are_followed_to_the_last(rig: Rig) -> None:
    """The machine is on the second of three pages."""
    rig.claim()
    mine = rig.ironic.nodes.pop(NODE)
    other = {**mine, "uuid": "00000000-0000-4000-8000-000000000001", "extra": {}}
    third = {**other, "uuid": "00000000-0000-4000-8000-000000000002"}
    rig.ironic.nodes = {str(n["uuid"]): n for n in (other, mine, third)}
    rig.ironic.max_limit = 1
    assert rig.facts.hosts()[NODE] == "up"
    assert len(rig.driver.marked("lab", [])) == 1


@pytest.mark.parametrize("page", [{"next": "http://x/v1/nodes?marker=a"}, {"next": {"href": "x"}}])
def test_pages_without_an_end_are_unknown(rig: Rig, page: dict[str, object]) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": [], **page}))]
    with pytest.raises(UnknownError, match="without an end"):
        rig.driver.marked("lab", [])


def test_virtual_machine_hosts_are_known_while_ironic_is_away(rig: Rig) -> None:
    rig.ironic.lies = [("GET /baremetal/.*", Reply(503, {"error_message": "busy"}))]
    hosts = rig.facts.hosts()
    assert hosts["gpu01"] == "up" and hosts[NODE].startswith("unknown: ") and "busy" in hosts[NODE]


LIES = {
    "a page of HTML": Reply(200, "<html>We'll be back soon</html>", "text/html", own=False),
    "an empty object": Reply(200, {}),
    "an empty list": Reply(200, []),
    "no content": Reply(204),
    "another node": Reply(200, {"uuid": "other", "provision_state": "available", "extra": {}}),
    "a node without a state": Reply(200, {"uuid": NODE}),
    "a proxy's 404": Reply(404, "<html>no such page</html>", "text/html", own=False),
    "forbidden": Reply(403, {"error_message": "no"}),
    "an error": Reply(503, {"error_message": "busy"}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("what", ["", "/history"])
def test_machine_is_not_freed_by_a_malformed_answer(rig: Rig, lie: Reply, what: str) -> None:
    claimed = rig.claim()
    rig.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}{what}", lie)]
    try:
        error = rig.free(claimed)
        assert error is not None
    except UnknownError:
        pass
    rig.ironic.lies = []
    assert rig.see(claimed).there


@pytest.mark.parametrize(
    "state", ["deploying", "wait call-back", "cleaning", "rescue", "deploy failed", "deleting"]
)
def test_use_of_a_machine_is_the_same_in_both_listings(rig: Rig, state: str) -> None:
    rig.use()
    assert rig.facts.seen_machines()[NODE].use == ""
    rig.node.update(provision_state=state)
    assert rig.facts.seen_machines()[NODE].use == f"Ironic has it in state {state}"


def test_last_changed_machines_are_read_in_one_answer(rig: Rig) -> None:
    """Of three hundred machines, a rebuild of the one that was enrolled last and deployed first."""
    rig.use()
    ids = [f"{n:08x}-0000-4000-8000-000000000001" for n in range(300)]
    for n, id_ in enumerate(ids):
        changed = f"2026-11-01T00:{n // 60:02}:{n % 60:02}+00:00"
        rig.ironic.nodes[id_] = {**rig.node, "uuid": id_, "provision_updated_at": changed}
    free = {
        **rig.node,
        "uuid": "free",
        "instance_uuid": None,
        "provision_updated_at": "2026-11-23T00:00:00+00:00",
    }
    rig.ironic.nodes["free"] = free
    facts = OpenStackFacts(rig.facts._sessions, machines=[NODE, *ids], site="lab")
    assert not [seen for seen in facts.changed_machines().values() if seen.use]
    again = rig.ironic.nodes[ids[7]]
    again.update(provision_state="deploying", provision_updated_at="2026-11-23T00:00:00+00:00")
    rig.ironic.asked.clear()
    seen = facts.changed_machines()
    assert rig.ironic.asked.count("GET /baremetal/v1/nodes") == 1 and len(seen) == 100
    assert {i: one.use for i, one in seen.items() if one.use} == {ids[7]: "Ironic has it in state deploying"}


def test_answer_without_nodes_makes_the_use_of_all_machines_unknown(rig: Rig) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"error": "proxy"}))]
    with pytest.raises(UnknownError):
        rig.facts.seen_machines()
    with pytest.raises(UnknownError):
        rig.facts.changed_machines()


def test_unlisted_machine_is_read_individually(rig: Rig) -> None:
    """The node was deleted or weft may not see it any more, so its server may run or not."""
    rig.use()
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": [{"uuid": "another"}]}))]
    assert rig.facts.seen_machines()[NODE] == SeenMachine(use="Ironic doesn't list it")


@pytest.mark.parametrize("missing", ["instance_uuid", "maintenance", "console_enabled", "owner", "lessee"])
def test_node_with_missing_fields_is_neither_freed_nor_claimed(rig: Rig, missing: str) -> None:
    """Without the field it would look as if there were no server, console or other owner."""
    claimed = rig.claim()
    part = {name: value for name, value in rig.node.items() if name != missing}
    rig.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}", Reply(200, part))]
    assert isinstance(rig.free(claimed), UnknownError)
    rig.ironic.lies = []
    assert rig.see_mark()
    assert rig.free(claimed) is None
    part |= {"extra": {}}
    rig.ironic.lies = [(f"GET /baremetal/v1/nodes/{NODE}", Reply(200, part))]
    with pytest.raises(UnknownError):
        rig.claim()
    assert not rig.see_mark()


@pytest.mark.parametrize(
    "missing",
    [
        "uuid",
        "provision_state",
        "extra",
        "power_state",
        "instance_uuid",
        "maintenance",
        "console_enabled",
    ],
)
def test_malformed_node_is_unfit_without_affecting_others(rig: Rig, missing: str) -> None:
    """Orders of other machines, and of Nova's hosts, continue."""
    odd = {k: v for k, v in rig.node.items() if k != missing} | {"traits": 7, "properties": "none"}
    rig.ironic.nodes["odd"] = {**odd, "uuid": "odd"} if missing != "uuid" else odd
    hosts = OpenStackFacts(rig.facts._sessions, machines=[NODE, "odd"], site="lab").hosts()
    assert hosts[NODE] == "up"
    if missing != "extra":
        assert hosts["odd"] != "up"


def test_conductor_of_another_group_does_not_count(rig: Rig) -> None:
    """It is alive, but what Ironic says of the machine is old."""
    claimed = rig.claim()
    assert rig.free(claimed) is None
    rig.node["conductor_group"] = "hall2"
    with pytest.raises(UnknownError, match="none that is alive in the node's conductor group hall2"):
        rig.see(claimed)
    rig.ironic.conductors.append({"hostname": "ironic2", "alive": True, "conductor_group": "hall2"})
    assert "conductor ironic2 is alive" in rig.see(claimed).reason
