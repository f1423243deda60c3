"""Replacements that meet something else, case by case: the table says which test has which, and none is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.engine.changes.test_change_loop import held, members, servers, settle, sized
from tests.engine.house import QUICK, House
from tests.engine.replace.test_replace import places, plan, rows, swap, visit
from tests.engine.timehouse import HandClock, at_once, look
from weft.engine.hold.settings import LoopSettings
from weft.model.change import Replacement
from weft.model.errors import InputError, WeftError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.ports.occupants import Ended, Ending, OnHost
from weft.testing.cloud import Fault

CASES = {
    "during apply": "test_replace_hostile.test_growth_and_replacement_at_once_leave_one_server_in_each_place",
    "during its building": "test_replace.test_node_is_replaced_while_the_pod_is_built",
    "during release": "test_replace.test_pod_is_released_while_a_node_is_replaced",
    "during a drain": "test_repairs.test_drained_node_is_replaced_at_its_time",
    "lease end": "test_replaced_nodes_held.test_pod_whose_lease_is_over_is_not_changed",
    "restored database": "test_replace_hostile.test_replacement_stops_while_the_database_is_behind",
    "two operators at once": "test_replace_hostile.test_two_operators_replace_two_nodes_at_once",
    "two operators, one node": "test_replace.test_second_of_two_concurrent_replacements_is_refused",
    "two operators, two processes": "test_two_operators.test_one_node_replaced_by_two_is_replaced_once",
    "site without the node": "test_two_operators.test_site_without_a_node_and_a_replacement_with_it_exclude_each_other",
    "held while it takes a place": "test_two_operators.test_node_that_is_held_does_not_take_a_place",
    "end of its drain": "test_two_operators.test_drain_ended_at_its_time_leaves_the_node_or_has_replaced_it",
    "abandoned": "test_two_operators.test_replacement_and_abandonment_of_a_release_are_both_refused",
    "two workers": "test_repairs.test_two_workers_replace_a_node_once",
    "comes back before": "test_repairs.test_node_stays_unless_its_failure_is_known_and_its_change_is_wanted",
    "comes back in the middle": (
        "test_replace_hostile.test_guest_of_a_host_that_comes_back_in_the_middle_keeps_its_addresses"
    ),
    "replaced again": "test_replace.test_node_is_replaced_again_while_it_is_being_replaced",
    "last node of a leaf": "test_repairs.test_free_node_is_the_nearest_that_keeps_the_locality",
    "whole leaf dead": "test_repairs.test_replacement_is_never_a_node_whose_adapter_is_not_shown",
    "no capacity": "test_replace.test_replacement_without_capacity_is_refused_and_changes_nothing",
    "quota below use": "test_replace.test_full_quota_does_not_keep_a_node_from_being_replaced",
    "quota in the middle": "test_replace.test_quota_that_is_exhausted_in_the_middle_is_reported_and_tried_again",
    "image or flavor gone": "test_replace_hostile.test_replacement_whose_image_or_flavor_is_gone_is_refused",
    "flavor gone in the middle": "test_replace_hostile.test_image_gone_in_the_middle_is_reported_and_tried_again",
    "port in the way": "test_replace_hostile.test_tenants_own_port_at_the_address_is_reported_and_waited_for",
    "another server deleted meanwhile": (
        "test_replace_hostile.test_done_replacement_names_only_the_server_that_is_missing"
    ),
    "new server breaks": (
        "test_replace_hostile.test_new_server_that_breaks_each_time_names_another_replacement_as_the_way_out"
    ),
    "deleted on purpose": "test_repairs.test_server_that_is_being_deleted_is_not_replaced",
    "old server stays": "test_replace.test_successor_of_a_quarantined_node_gets_addresses_of_its_own",
    "volumes": "test_replace.test_pod_with_volumes_waits_for_an_operators_word",
    "kills": "test_killed.test_replacement_survives_a_worker_killed_at_any_statement",
    "kills without a request": (
        "test_killed.test_replacement_without_a_request_survives_a_worker_killed_at_any_statement"
    ),
    "host shows it for a moment": "test_replace_hostile.test_reading_that_is_not_clean_at_first_is_repeated_soon",
    "a machine's cleaning": "test_metal_replaced.test_replacement_gets_the_name_while_the_old_machine_is_cleaned",
    "a part that stays": "test_parts_replaced.test_part_whose_server_stays_is_kept_and_delays_nothing",
    "random": "test_random_changes.test_random_orders_are_realized_and_released",
}


@pytest.mark.parametrize("case", CASES)
def test_each_hostile_case_names_a_test_that_exists(case: str) -> None:
    module, _, name = CASES[case].partition(".")
    [path] = Path(__file__).parent.parent.glob(f"*/{module}.py")
    found = importlib.import_module(f"tests.engine.{path.parent.name}.{module}")
    assert callable(getattr(found, name))


def test_growth_and_replacement_at_once_leave_one_server_in_each_place(house: House) -> None:
    """Growth during a replacement, and a replacement during growth: each place has one server, as ordered."""
    pod = house.ready(sized(2))
    swap(house, pod.nodes[0])
    visit(house, pod, 1)
    house.service.pods.apply(house.request(), "train", sized(4))
    visit(house, pod, 1)
    swap(house, pod.nodes[1])
    now = settle(house, pod)
    assert not {*pod.nodes} & {*now.nodes} and len(now.nodes) == 4
    assert {name for name, _ in places(house).values()} == {f"train-{n}" for n in range(4)}
    assert members(house, now) == set(now.nodes) == held(house, now)


def test_two_operators_replace_two_nodes_at_once(house: House) -> None:
    """One may read that the pod changed meanwhile; asked again, both nodes are replaced, each once."""
    pod = house.ready(sized(3))

    def ask(node: str) -> Callable[[], object]:
        return lambda: house.service.pods.replace_node(house.operator, str(pod.id), Replacement(node=node))

    errors = at_once(ask(pod.nodes[0]), ask(pod.nodes[1]))
    assert len(errors) <= 1 and all(isinstance(e, WeftError) for e in errors)
    for node in pod.nodes[:2]:
        if node in look(house, pod).nodes:
            ask(node)()
    now = settle(house, pod)
    assert now.generation == 3 and {*pod.nodes} & {*now.nodes} == {pod.nodes[2]}
    assert held(house, now) == set(now.nodes)
    assert {name for name, _ in places(house).values()} == {"train-0", "train-1", "train-2"}


def test_guest_of_a_host_that_comes_back_in_the_middle_keeps_its_addresses(house: House) -> None:
    """Cut off, replaced, and there again before it was proved out: the guest still has its addresses, so nothing is
    requested for the successor until Nova says that the host destroyed it."""
    pod = house.ready(sized(2))
    failed, was = pod.nodes[0], places(house)
    host, guest = house.site.node_by_name[failed].nova_host, servers(house)[f"server/{failed}"]
    house.cloud.offers.hosts[host] = "down"
    new = swap(house, failed)
    visit(house, pod, 3)
    house.cloud.offers.hosts[host] = "up"
    now = visit(house, pod, 3)
    assert rows(house, pod, new) == {"wanted"} and failed in held(house, now)
    assert members(house, now).isdisjoint({failed}), "it is out of the segment from the first visit on"
    house.cloud.ends(guest, Ending(Ended.DESTROYED, "destroyed by its host", house.clock.now()))
    now = settle(house, pod)
    assert places(house)[new] == was[failed] and failed not in held(house, now)


@pytest.mark.parametrize("what", ["image", "flavor"])
def test_replacement_whose_image_or_flavor_is_gone_is_refused(house: House, what: str) -> None:
    """Already when it is planned: the failed node is still better than none."""
    pod = house.ready(sized(2))
    if what == "image":
        house.cloud.offers.images.discard("tiny")
    else:
        house.cloud.offers.flavors.pop("gpu8")
    for ask in (plan, swap):
        with pytest.raises(InputError, match=f"nodes.{what}"):
            ask(house, pod.nodes[0])
    assert look(house, pod).generation == 1 and held(house, pod) == set(pod.nodes)


def test_image_gone_in_the_middle_is_reported_and_tried_again(house: House) -> None:
    pod = house.ready(sized(2))
    planted = house.cloud.plant(
        Fault.REFUSED, verb="create", kind=Kind.SERVER, times=None, reason="image tiny not found"
    )
    new = swap(house, pod.nodes[0])
    now = visit(house, pod, 6)
    assert now.state is PodState.DEGRADED and "image tiny not found" in str(now.reason)
    assert held(house, now) == set(now.nodes), "the old node was proved out all the same"
    planted.lift()
    assert new in settle(house, pod).nodes


def test_tenants_own_port_at_the_address_is_reported_and_waited_for(house: House) -> None:
    """The address is free for a moment, and the tenant takes it for a port of its own: the pod says so, the others go
    on, and the successor has the address once it is free."""
    pod = house.ready(sized(2))
    was, other = places(house), servers(house)[f"server/{pod.nodes[1]}"]
    planted = house.cloud.plant(
        Fault.REFUSED, verb="create", kind=Kind.PORT, times=None, reason="IpAddressAlreadyAllocated"
    )
    new = swap(house, pod.nodes[0])
    now = visit(house, pod, 6)
    assert now.state is PodState.DEGRADED and "IpAddressAlreadyAllocated" in str(now.reason)
    assert servers(house) == {f"server/{pod.nodes[1]}": other}
    planted.lift()
    settle(house, pod)
    assert places(house)[new] == was[pod.nodes[0]]


@pytest.mark.parametrize("visits", [0, 1, 2, 3])
def test_replacement_stops_while_the_database_is_behind(house: House, clock: HandClock, visits: int) -> None:
    """At any point of it nothing outside is changed; once it is accepted, the replacement goes on to its end."""
    pod = house.ready(sized(2))
    new = swap(house, pod.nodes[0])
    visit(house, pod, visits)
    house.behind()
    before = {(t.kind, t.id) for t in house.cloud.things()}
    visit(house, pod, 4)
    assert {(t.kind, t.id) for t in house.cloud.things()} == before
    house.service.audits.accept_database(house.operator)
    now = settle(house, pod)
    assert now.nodes == (new, pod.nodes[1]) and members(house, now) == set(now.nodes) == held(house, now)


@pytest.mark.parametrize("moment", ["serving", "building"])
def test_reading_that_is_not_clean_at_first_is_repeated_soon(
    house: House, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A pod has many visits while a server is shut down, and a host may show it for a moment after it is gone: how many
    there were says nothing of when to read again. Nor does each of them look at the whole pod."""
    pod = house.order(sized(3))
    failed = look(house, pod).nodes[0]
    if moment == "building":
        house.cloud.plant(Fault.BROKEN, key=f"server/{failed}", times=None, reason="No valid host was found.")
    house.run(pod, PodState.FAILED if moment == "building" else PodState.READY)
    house.worker = house.new_worker("patient", LoopSettings())
    host = house.site.node_by_name[failed].nova_host
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{failed}", times=None)
    new = swap(house, failed)
    visit(house, pod)
    looks, on_hosts = list[Collection[str]](), house.cloud.on_hosts

    def counted(hosts: Collection[str]) -> Mapping[str, OnHost]:
        looks.append(hosts)
        return on_hosts(hosts)

    monkeypatch.setattr(house.cloud, "on_hosts", counted)
    for _ in range(8):
        now = visit(house, pod)
        assert "nothing is requested until" in str(now.reason)
    assert len(looks) <= 1, "the nodes of the pod were looked at just before"
    planted.lift()
    house.cloud.thing(f"server/{failed}").undeletable = False
    house.cloud.offers.claims[host] = {"what Placement still has of it"}
    visit(house, pod)
    assert f"server/{failed}" not in servers(house) and failed in held(house, pod)
    with psycopg.connect(house.database.url) as connection:
        asked = "SELECT next_at < now() + interval '10 seconds' FROM owner WHERE id = %s"
        assert connection.execute(asked, [pod.id]).fetchone() == (True,)
    del house.cloud.offers.claims[host]
    visit(house, pod, 3)
    assert f"server/{new}" in servers(house) and failed not in held(house, pod)


def test_done_replacement_names_only_the_server_that_is_missing(house: House) -> None:
    """The tenant deletes another server meanwhile: the pod doesn't go on saying that it waits for the old node."""
    house.worker = house.new_worker("judges at once", replace(QUICK, verify_patience=0.0))
    pod = house.ready(sized(2))
    failed, other = pod.nodes
    new = swap(house, failed)
    house.cloud.lose(house.cloud.thing(f"server/{other}"))
    now = visit(house, pod, 20)
    assert held(house, now) == {new, other} and new in places(house)
    assert (now.state, now.ready_generation) == (PodState.DEGRADED, 1)
    assert "is missing" in str(now.reason) and "is read back clean" not in str(now.reason), str(now.reason)
    house.store.request_repair(pod.id)
    assert settle(house, pod).nodes == (new, other)


def test_new_server_that_breaks_each_time_names_another_replacement_as_the_way_out(house: House) -> None:
    """No retry: the pod serves, and isn't FAILED."""
    pod = house.ready(sized(2))
    planted = house.cloud.plant(Fault.BROKEN, verb="create", kind=Kind.SERVER, times=None)
    new = swap(house, pod.nodes[0])
    now = visit(house, pod, 20)
    assert now.state is PodState.DEGRADED
    assert "check the reason, then replace its node, or release the pod" in str(now.reason), str(now.reason)
    planted.lift()
    last = swap(house, new)
    assert settle(house, pod).nodes == (last, pod.nodes[1])
