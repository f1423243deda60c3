"""Ironic's answers about machines that it deploys without Nova: servers, their ends, machines."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.drivers.openstack.metalrig import AT, SCOPE, SERVER, Rig, new_facts
from tests.drivers.openstack.metalrig import house as house
from tests.drivers.openstack.metalrig import rig as rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.model.errors import OutsideError, UnknownError
from weft.ports.occupants import Ended, OnHost


@pytest.mark.parametrize(
    "lie",
    [
        Reply(404, {"error_message": f"Node {NODE} could not be found."}),
        Reply(404, "<html>no such page</html>", "text/html", own=False),
        Reply(200, {}),
        Reply(200, {"uuid": "another", "provision_state": "available", "instance_uuid": None}),
        Reply(200, {"uuid": NODE, "provision_state": "available"}),
        Reply(503, "", own=False),
    ],
)
def test_answer_without_the_node_does_not_prove_absence(rig: Rig, lie: Reply) -> None:
    server = rig.running()
    rig.ironic.lies = [(f"GET {AT}", lie)]
    with pytest.raises(UnknownError):
        rig.see(server)


def test_without_a_conductor_nothing_is_absent(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.torn_down(NODE)
    rig.ironic.conductors = [{"hostname": "ironic1", "alive": False}]
    with pytest.raises(UnknownError, match="none that is alive"):
        rig.see(server)
    assert "none that is alive" in rig.facts.on_hosts([NODE])[NODE].unknown


def test_removed_mark_is_a_difference_and_restored(rig: Rig) -> None:
    server = rig.running()
    del rig.node["instance_info"]["weft"]
    seen = rig.see(server)
    assert seen.there and [d.field for d in seen.differences] == ["mark"]
    assert rig.update(server) is None
    assert rig.see(server).differences == ()


def test_powered_off_machine_or_lost_port_is_a_difference(rig: Rig) -> None:
    server = rig.running()
    rig.node["power_state"] = "power off"
    rig.ironic.attached[NODE] = ["port-1"]
    assert sorted(d.field for d in rig.see(server).differences) == ["ports", "status"]


def _gone(rig: Rig) -> None:
    rig.ironic.torn_down(NODE)


def _another(rig: Rig) -> None:
    rig.ironic.torn_down(NODE)
    rig.node.update(provision_state="active", instance_uuid="another")


def _unnamed(rig: Rig) -> None:
    rig.node.update(instance_uuid=None)


def _forgotten(rig: Rig) -> None:
    del rig.ironic.nodes[NODE]


@pytest.mark.parametrize(
    ("done", "how"),
    [
        (_gone, Ended.DESTROYED),
        (_another, Ended.UNKNOWN),
        (_unnamed, Ended.NOT_DESTROYED),
        (lambda rig: None, Ended.NOT_DESTROYED),
        (_forgotten, Ended.UNKNOWN),
    ],
)
def test_ending_of_a_server_is_read_from_its_machine(
    rig: Rig, done: Callable[[Rig], None], how: Ended
) -> None:
    server = rig.running()
    done(rig)
    ending = rig.facts.endings(PROJECT, [server])[server]
    assert (ending.how, ending.by) == (how, "Ironic")


@pytest.mark.parametrize(
    ("state", "how"),
    [
        *((s, Ended.NOT_DESTROYED) for s in ("rescue wait", "rescue failed", "unrescue failed", "servicing")),
        *((s, Ended.NOT_DESTROYED) for s in ("deploy failed", "deleting", "error", "a state of tomorrow")),
        *((s, Ended.UNKNOWN) for s in ("enroll", "manageable", "adopting")),
        *((s, Ended.DESTROYED) for s in ("cleaning", "clean failed", "available")),
    ],
)
def test_server_is_destroyed_in_states_only_a_teardown_reaches(rig: Rig, state: str, how: Ended) -> None:
    """In other states its id may have been removed by hand, or the node enrolled again, while it ran."""
    server = rig.running()
    rig.node.update(instance_uuid=None, provision_state=state)
    assert rig.facts.endings(PROJECT, [server])[server].how is how


SECOND = "5c435abb-55d9-5c17-8131-5edcbcd52778"
ANSWERS = {
    "an outage": Reply(503, {"error_message": "busy"}),
    "a node without its instance": Reply(200, {"nodes": [{"uuid": NODE, "provision_state": "available"}]}),
    "a node without its state": Reply(200, {"nodes": [{"uuid": NODE}]}),
    "no nodes": Reply(200, {"error": "proxy"}),
}


@pytest.mark.parametrize("lie", ANSWERS.values(), ids=ANSWERS.keys())
def test_virtual_machine_hosts_are_listed_whatever_ironic_answers(rig: Rig, lie: Reply) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", lie)]
    seen = new_facts(rig, NODE).servers_on_hosts()
    assert seen[NODE].unknown and seen[NODE].by == "Ironic"
    assert [o.id for o in seen["gpu01"].occupants] == ["vm-1"] and not seen["gpu01"].unknown


def test_malformed_node_alone_is_unknown(rig: Rig) -> None:
    rows = [{"uuid": NODE, "provision_state": "available"}, {**rig.node, "uuid": SECOND}]
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": rows}))]
    seen = new_facts(rig, NODE, SECOND).servers_on_hosts()
    assert "without instance_uuid" in seen[NODE].unknown
    assert seen[SECOND] == OnHost(by="Ironic")


def test_image_needs_of_virtual_machine_hosts_are_known_while_ironic_is_away(
    rig: Rig,
) -> None:
    """A flavor that only the site has is for machines, of which nothing is known then."""
    rig.ironic.things["images"] = [
        {"id": "image-t", "name": "picky", "status": "active", "trait:CUSTOM_NVME": "required"}
    ]
    rig.ironic.lies = [
        ("GET /baremetal/.*", Reply(503, {"error_message": "busy"})),
        ("GET /placement/.*", Reply(200, {"resource_providers": []})),
    ]
    facts = new_facts(rig, NODE)
    unfit = facts.unfit(PROJECT, "picky", "gpu")
    assert "busy" in unfit[NODE] and "CUSTOM_NVME" in unfit["gpu01"]
    with pytest.raises(OutsideError, match="busy"):
        facts.unfit(PROJECT, "picky", "metal8")


def test_occupancy_of_machines_is_read_from_ironic_only(rig: Rig) -> None:
    server = rig.running()
    (one,) = rig.facts.on_hosts([NODE])[NODE].occupants
    assert (one.id, one.name) == (server, SERVER.name)
    listed = rig.facts.servers_on_hosts()
    assert NODE in listed
    rig.ironic.torn_down(NODE)
    seen = rig.facts.on_hosts([NODE])[NODE]
    assert (seen.occupants, seen.busy, seen.by) == ((), "Ironic has it in state cleaning", "Ironic")
    assert not any("os-hypervisors/" in line and NODE in line for line in rig.ironic.asked)


def test_machine_missing_in_ironic_is_unknown(rig: Rig) -> None:
    del rig.ironic.nodes[NODE]
    assert "not in Ironic" in rig.facts.on_hosts([NODE])[NODE].unknown


def test_audit_finds_and_removes_a_marked_server(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.things["keypairs"] = []  # the list has another shape than a single key pair
    found = [m for m in rig.driver.marked("lab", []) if m.kind == "server"]
    assert [(m.id, m.owner, m.facts["key"]) for m in found] == [(server, SCOPE.owner, SERVER.key)]
    assert rig.driver.remove_marked(found)[server].error is None
    assert rig.node["provision_state"] == "deleting"


def test_booted_servers_are_read_from_ironic(rig: Rig) -> None:
    server = rig.running()
    early, late = datetime(2026, 11, 22, 19, 0, tzinfo=UTC), datetime(2026, 11, 22, 23, 0, tzinfo=UTC)

    def built(since: datetime) -> set[str]:
        return set(rig.facts.built(since, lambda: [server]))

    assert built(early) == {server} and built(late) == set()
    rig.node["provision_state"] = "deploy failed"
    assert built(early) == {server}
    for state in ("deploying", "rescue", "available"):  # the last: assigned and not deployed yet
        rig.node["provision_state"] = state
        assert built(early) == set()
    rig.node.update(provision_state="active", provision_updated_at=None)
    assert built(early) == set(), "else it would be read every second"
    rig.node.update(instance_uuid="another", provision_updated_at="2026-11-22T20:00:01+00:00")
    assert built(early) == set()


@pytest.mark.parametrize(("others", "more"), [(50, []), (150, [f"GET {AT}"])])
def test_boots_are_read_only_for_awaited_machines(rig: Rig, others: int, more: list[str]) -> None:
    """In one short answer, unless more machines have changed since than it holds."""
    server = rig.running()
    later = {"provision_updated_at": "2026-11-22T21:00:01+00:00"}
    names = [f"other-{i}" for i in range(others)]
    rig.ironic.nodes |= {name: {**rig.node, "uuid": name, **later} for name in names}
    rig.ironic.asked.clear()
    assert rig.facts.built(datetime(2026, 11, 22, 19, 0, tzinfo=UTC), list) == set()
    assert not [line for line in rig.ironic.asked if "baremetal" in line]
    assert rig.facts.built(datetime(2026, 11, 22, 19, 0, tzinfo=UTC), lambda: [server]) == {server}
    assert [line for line in rig.ironic.asked if "baremetal" in line] == [
        "GET /baremetal/v1/nodes",
        *more,
    ]


@pytest.mark.parametrize(("away", "left"), [("compute", True), ("baremetal", False)])
def test_boots_of_one_service_are_reported_while_the_other_is_away(rig: Rig, away: str, left: bool) -> None:
    server, since = rig.running(), datetime(2026, 11, 22, 19, 0, tzinfo=UTC)
    rig.ironic.things["servers"] = [{"id": "vm-1", "status": "ACTIVE"}]
    assert rig.facts.built(since, lambda: [server]) == {server, "vm-1"}
    rig.ironic.lies = [(f"GET /{away}/.*", Reply(503, {"error_message": "busy"}))]
    assert rig.facts.built(since, lambda: [server]) == ({server} if left else {"vm-1"})
    with pytest.raises(OutsideError, match="busy"):
        rig.ironic.lies = [("GET .*", Reply(503, {"error_message": "busy"}))]
        rig.facts.built(since, lambda: [server])
