"""Bare-metal machines are replaced as other nodes are; a cleaning of hours delays no one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.changes.test_change_loop import settle
from tests.engine.hold.test_killed import Fate, FateOfRequests, killed_at
from tests.engine.house import House, impatient
from tests.engine.life.test_metal import by_ironic
from tests.engine.metalhouse import ORDER, members, metal_house, ports, sized, visit
from tests.engine.metalhouse import house as house
from tests.engine.replace.test_repairs import repairs, said
from tests.engine.timehouse import messages
from tests.helpers.amounts import share
from tests.helpers.statements import on_statements
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.specs import PortSpec, ServerSpec
from weft.testing.cloud import Fault


def place(house: House, pod: PodRecord, node: str) -> tuple[str, dict[str, Any]]:
    """The name of the server on a node, and its fixed addresses by subnet."""
    wanted = [r.resource for r in house.store.pods.resources(pod.id) if r.wanted and r.resource.node == node]
    (name,) = (r.name for r in wanted if isinstance(r.spec, ServerSpec))
    return name, {r.spec.subnet: r.spec.address for r in wanted if isinstance(r.spec, PortSpec)}


@pytest.mark.parametrize("by", ["nova", "ironic"])
def test_machine_is_replaced_in_its_place(house: House, by: str) -> None:
    """Out of the segment before it is cleaned; the new one has its name and addresses, and joins once deployed."""
    if by == "ironic":
        house.service.site.activate(house.operator, by_ironic(house.site))
    pod = house.ready(ORDER)
    failed, stays = pod.nodes
    was, kept = place(house, pod, failed), house.cloud.thing(f"server/{stays}").id
    house.service.pods.replace_node(house.operator, "train", Replacement(node=failed))
    now = visit(house, pod, 8)
    (new,) = set(now.nodes) - {stays}
    assert new != failed and now.state is PodState.READY
    assert place(house, now, new) == was and house.cloud.thing(f"server/{stays}").id == kept
    assert members(house, now) == ports(house, now.nodes)
    assert set(house.store.capacity().holds) == set(now.nodes)
    assert [h.node for h in house.service.nodes.holds(house.operator)] == [failed]
    house.release(now)
    house.run(now, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_replacement_gets_the_name_while_the_old_machine_is_cleaned(house: House) -> None:
    """Its guest ended and its ports are gone, as was read back: the new machine has its name and addresses at once. The
    old one stays the pod's until it is clean."""
    pod = house.ready(ORDER)
    failed, stays = pod.nodes
    was = place(house, pod, failed)
    house.cloud.plant(
        Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{failed}", times=None
    )
    house.service.pods.replace_node(house.operator, "train", Replacement(node=failed))
    now = visit(house, pod, 8)
    (new,) = set(now.nodes) - {stays}
    assert place(house, now, new) == was and house.cloud.thing(f"server/{new}")
    assert failed in house.store.capacity().holds and members(house, now) == ports(house, now.nodes)
    house.worker = house.new_worker("impatient", impatient())
    now = visit(house, pod, 4)
    assert set(house.store.capacity().quarantines) == {failed} and place(house, now, new) == was


def test_machine_that_is_kept_too_long_says_why(house: House) -> None:
    """In the pod's reason, and once it is quarantined in the node's: what its removal was answered, not only that it is
    still there, nor what was seen of something else on the node."""
    pod = house.ready(ORDER)
    failed, _ = pod.nodes
    refused = {"verb": "delete", "kind": Kind.MACHINE, "key": f"machine/{failed}", "times": None}
    house.cloud.plant(Fault.REFUSED, **refused, reason="no cleaning is recorded since it was claimed")
    house.service.pods.replace_node(house.operator, "train", Replacement(node=failed))
    now = visit(house, pod, 8)
    assert "no cleaning is recorded" in str(now.reason)
    before = len(messages(house, pod, "error"))
    visit(house, pod, 4)
    assert len(messages(house, pod, "error")) == before, "equal ones in a row are one event"
    house.worker = house.new_worker("impatient", impatient())
    visit(house, pod, 4)
    assert "no cleaning is recorded" in house.service.nodes.show(house.operator, failed).reason


@pytest.mark.parametrize("way", ["server stays", "port stays", "no record", "host unknown"])
def test_place_stays_taken_until_the_machine_is_proved_off(house: House, way: str) -> None:
    """The new machine is not requested with addresses that the old system may still use; after the limit it gets its
    own."""
    pod = house.ready(ORDER)
    failed, stays = pod.nodes
    was = place(house, pod, failed)
    house.cloud.plant(
        Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{failed}", times=None
    )
    match way:
        case "server stays":
            house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.SERVER, times=None)
        case "port stays":
            house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.PORT, times=None)
        case "host unknown":
            host = house.site.node_by_name[failed].nova_host
            house.cloud.offers.unreadable = {*house.cloud.offers.unreadable, host}
        case _:
            house.cloud.plant(Fault.UNREACHABLE, verb="endings", times=None)
    house.service.pods.replace_node(house.operator, "train", Replacement(node=failed))
    now = visit(house, pod, 8)
    (new,) = set(now.nodes) - {stays}
    rows = [r for r in house.store.pods.resources(pod.id) if r.key == f"server/{new}"]
    assert [r.started_at for r in rows] == [None], "nothing was requested for it"
    house.worker = house.new_worker("impatient", impatient())
    now = visit(house, pod, 8)
    assert failed in house.store.capacity().quarantines
    assert place(house, now, new) != was and place(house, now, stays) != place(house, now, new)


@pytest.mark.landing
@pytest.mark.parametrize("at", [Fate, FateOfRequests], ids=["statement", "request"])
def test_replaced_machine_survives_a_worker_killed_at_any_statement(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, at: type[Fate]
) -> None:
    """One server with the pod's one place, in the segment alone, and one machine, whatever was killed."""
    with on_statements(database) as watched, metal_house(watched, database_url, monkeypatch) as house:
        fate = at(house, monkeypatch)
        pod = house.run(house.order(sized(1)), PodState.READY)
        was, died = place(house, pod, pod.nodes[0]), True
        for statement in share(range(1, 200), int(at is Fate)):
            node = house.store.pods.find(str(pod.id), None).nodes[0]
            house.service.pods.replace_node(house.request(), "train", Replacement(node=node))
            died = killed_at(house, fate, statement, False, pod, wakes=8)
            now = settle(house, pod)
            assert place(house, now, now.nodes[0]) == was, f"killed at {statement}"
            assert [t.name for t in house.cloud.things(Kind.SERVER)] == ["train-0"]
            assert members(house, now) == ports(house, now.nodes)
            assert set(house.store.capacity().holds) == set(now.nodes)
            house.service.nodes.accept(house.operator, node)
            if not died:
                break
        assert not died


@pytest.mark.parametrize("visits", [1, 2, 4])
def test_replacement_of_a_machine_stops_while_the_database_is_behind(house: House, visits: int) -> None:
    pod = house.ready(ORDER)
    house.service.pods.replace_node(house.operator, "train", Replacement(node=pod.nodes[0]))
    visit(house, pod, visits)
    house.behind()
    before = {(t.kind, t.id) for t in house.cloud.things()}
    visit(house, pod, 4)
    assert {(t.kind, t.id) for t in house.cloud.things()} == before
    house.service.audits.accept_database(house.operator)
    now = visit(house, pod, 12)
    assert now.state is PodState.READY and members(house, now) == ports(house, now.nodes)
    assert set(house.store.capacity().holds) == set(now.nodes)


def test_pod_of_machines_replaces_one_that_its_project_reports(house: House) -> None:
    made = house.service.pods.order(house.request(), ORDER.model_copy(update={"on_failure": "replace"}))
    pod = house.run(house.store.pods.find(made, None), PodState.READY)
    house.service.pods.report_node(house.request(), "train", pod.nodes[0], "slow")
    repairs(house).tend()
    now = visit(house, pod, 8)
    assert now.generation == 2 and pod.nodes[0] not in now.nodes and not said(house, pod)
