"""Applying an order: what is claimed, written and refused before the loop has done anything."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import IPv4Network
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.engine.house import ORDER, House
from tests.engine.timehouse import HandClock, at_once, look, make, messages, policy, queue
from weft.engine.book.holdrows import NodeHold
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, ForbiddenError, InputError, NotFoundError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.site import ProjectLimits
from weft.model.views import Applied


def apply(house: House, order: Order, **more: Any) -> Applied:
    return house.service.pods.apply(more.pop("request", None) or house.request(), order.name, order, **more)


def sized(count: int, order: Order = ORDER, **nodes: Any) -> Order:
    return order.model_copy(update={"nodes": order.nodes.model_copy(update={"count": count, **nodes})})


def open_to(cidr: str, order: Order = ORDER) -> Order:
    access = order.access.model_copy(update={"ssh_from": (IPv4Network(cidr),)})
    return order.model_copy(update={"access": access})


def rows(url: str, query: str) -> list[dict[str, Any]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:  # type: ignore[arg-type]
        return connection.execute(query).fetchall()  # type: ignore[arg-type]


def holds(house: House, pod: PodRecord) -> dict[str, NodeHold]:
    return {n: r for n, r in house.store.capacity().holds.items() if r.pod.id == pod.id}


@pytest.mark.parametrize("queued", [False, True])
def test_other_member_applies_a_file_with_the_same_key_pair(house: House, queued: bool) -> None:
    """Key pairs belong to users: the pod's own isn't created again, one with another name is."""
    alice, bob = house.request("team-a"), house.request("team-a", "manager")
    key = f"ssh-ed25519 {'A' * 68} alice@desk"
    house.cloud.offers.key_pairs[alice.caller.user_id, "train key"] = key
    if queued:
        house.order(make("full", 16))
    order = make("train", 2, access={"key_pair": "train key"}, queue=queued)
    assert apply(house, order, request=alice).outcome == "created"
    assert apply(house, order, request=bob).outcome == "unchanged"
    more = make("train", 2, access={"key_pair": "train key", "ssh_from": ["10.9.0.0/16"]}, queue=queued)
    assert apply(house, more, request=bob).outcome == "changed"
    with pytest.raises(InputError, match="no such key pair"):
        apply(house, make("train", 2, access={"key_pair": "other"}, queue=queued), request=bob)
    stored = house.store.pods.find("train", "team-a").order.access
    assert (stored.key_pair, stored.ssh_key) == (None, f"ssh-ed25519 {'A' * 68} key pair train key")


def test_second_apply_changes_nothing(house: House) -> None:
    """The first claims; the second reports that there is nothing to do, and writes nothing."""
    first = apply(house, ORDER)
    assert (first.outcome, first.pod.generation) == ("created", 1)
    pod = house.store.pods.find(first.pod.id, None)
    before = (house.store.records.events(pod.id, 0), pod.token, pod.woken)
    again = apply(house, ORDER)
    assert again.outcome == "unchanged"
    assert again.change is not None
    assert again.change.nothing
    pod = house.store.pods.find(first.pod.id, None)
    assert (house.store.records.events(pod.id, 0), pod.token, pod.woken) == before


def test_growing_claims_nodes_with_the_rows(house: House) -> None:
    """Node, rows and generation in one transaction; earlier rows are unchanged except the partition's."""
    pod = house.ready()
    before = {r.key: r for r in house.store.pods.resources(pod.id)}
    found = apply(house, sized(3))
    assert found.outcome == "changed"
    assert found.change is not None
    (new,) = found.change.nodes_added
    now = look(house, pod)
    assert (now.generation, now.order.nodes.count, now.state) == (2, 3, PodState.READY)
    assert now.changed_at is not None
    assert holds(house, pod).keys() == {*pod.nodes, new}
    after = {r.key: r for r in house.store.pods.resources(pod.id)}
    assert {k for k in before if before[k] != after[k]} == {"partition"}
    assert {r.generation for k, r in after.items() if new in k or k == "partition"} == {2}
    assert after["partition"].state == "pending"
    assert after[f"server/{new}"].state == "wanted"
    assert all(r.wanted for r in after.values())


def test_shrinking_keeps_nodes_and_rows_until_they_are_gone(house: House) -> None:
    """Nothing is freed and no row is removed before it is seen gone: rows say since when they aren't wanted."""
    pod = house.ready(sized(3))
    gone = pod.nodes[1]
    found = apply(house, sized(2), remove=[gone])
    assert found.change is not None
    assert found.change.nodes_removed == (gone,)
    held = holds(house, pod)
    assert held.keys() == set(pod.nodes)
    assert {n: r.leaving for n, r in held.items()} == {n: 2 if n == gone else None for n in pod.nodes}
    unwanted = {r.key for r in house.store.pods.resources(pod.id) if not r.wanted}
    assert unwanted == {k for k in (r.key for r in house.store.pods.resources(pod.id)) if f"/{gone}" in k}
    assert look(house, pod).nodes == (pod.nodes[0], pod.nodes[2])
    with pytest.raises(RefusedError):
        house.order(make("other", 14))


def test_leaving_node_is_not_assigned_again(house: House) -> None:
    """A pod that shrinks and grows at once gets another node: the old one was not seen clean yet."""
    pod = house.ready(sized(3))
    gone = pod.nodes[2]
    apply(house, sized(2), remove=[gone])
    found = apply(house, sized(3))
    assert found.change is not None
    assert gone not in found.change.nodes_added
    assert look(house, pod).generation == 3
    numbers = look(house, pod).plan.allotment.hosts
    assert len(set(numbers.values())) == len(numbers) == 4


def test_history_records_every_generation(house: House, database_url: str) -> None:
    """Each generation with its order, the first one included."""
    pod = house.ready()
    apply(house, sized(3))
    apply(house, open_to("9.0.0.0/8", sized(3)))
    found = rows(database_url, "SELECT * FROM pod_generation ORDER BY generation")
    assert [(r["generation"], r["by"], r["ordered"]["nodes"]["count"]) for r in found] == [
        (1, "team-a-member", 2),
        (2, "team-a-member", 3),
        (3, "team-a-member", 3),
    ]
    assert found[2]["what"] == "access.ssh_from none -> 9.0.0.0/8"
    assert messages(house, pod, "change")[0].startswith(
        "generation 2 by team-a-member: nodes.count 2 -> 3; nodes added: "
    )


def test_change_without_capacity_is_refused_without_effect(house: House) -> None:
    """All nodes are assigned: the reason says so, and rows, holds and generation are as before."""
    pod = house.ready()
    house.order(make("other", 14))
    before = (house.store.pods.resources(pod.id), holds(house, pod))
    with pytest.raises(RefusedError, match="1 additional node for the 2 of the pod"):
        apply(house, sized(3))
    assert (house.store.pods.resources(pod.id), holds(house, pod)) == before
    assert look(house, pod).generation == 1


def test_growing_respects_bookings_of_others(house: House, clock: HandClock) -> None:
    """A growing pod doesn't get a node that is booked from before the end of its lease."""
    pod = house.ready(make("run", 2, duration="4h"))
    house.order(make("later", 14, start=clock.now() + timedelta(hours=1), duration="1h"))
    with pytest.raises(RefusedError):
        apply(house, make("run", 3, duration="4h"))
    short = apply(house, make("run", 3, duration="1h"))
    assert short.pod.lease_end == pod.placed_at + timedelta(hours=1) if pod.placed_at else None


def test_project_limit_counts_the_changed_pod_once(house: House) -> None:
    """A pod of two may become three where three are allowed, but not four."""
    house.ready()
    policy(house, projects={"team-a": ProjectLimits(max_nodes=3)})
    with pytest.raises(RefusedError, match="of at most 3 nodes"):
        apply(house, sized(4))
    assert apply(house, sized(3)).outcome == "changed"


def test_quotas_count_only_what_a_change_adds(house: House) -> None:
    """A project whose instances are all the pod's own can't grow it, but can change its access."""
    house.ready()
    house.cloud.offers.quotas["team-a", "servers"] = 2
    with pytest.raises(RefusedError, match="quotas would be exceeded: servers: 2 used"):
        apply(house, sized(3))
    assert apply(house, open_to("9.0.0.0/8")).outcome == "changed"


def test_occupied_free_node_is_skipped_when_growing(house: House) -> None:
    """An occupied host isn't chosen for growth either."""
    pod = house.ready(sized(3))
    free = next(n.name for n in house.site.nodes if n.name not in pod.nodes and n.role == "compute")
    host = house.site.node_by_name[free].nova_host
    house.cloud.offers.claims[host] = {"stranger"}
    found = apply(house, sized(4))
    assert found.change is not None
    assert free not in found.change.nodes_added


@pytest.mark.parametrize(
    ("parts", "fields"),
    [
        ({"nodes": {"image": "tiny2"}}, ["nodes.image"]),
        (
            {"access": {"user_data": "#cloud-config"}, "fabric": {"hcas_per_node": 1}},
            ["access.user_data", "fabric.hcas_per_node"],
        ),
    ],
)
def test_impossible_change_is_refused_as_a_whole(
    house: House, parts: dict[str, Any], fields: list[str]
) -> None:
    """Every field has its reason, and the possible part isn't begun either."""
    pod = house.ready()
    document = {
        **ORDER.model_dump(mode="json", exclude_none=True),
        **{k: v for k, v in parts.items() if k != "nodes"},
    }
    document["nodes"] = {"count": 3, "flavor": "gpu8", "image": "tiny", **parts.get("nodes", {})}
    with pytest.raises(InputError) as caught:
        apply(house, Order.model_validate(document))
    assert [e.field for e in caught.value.errors] == fields  # type: ignore[attr-defined]
    assert look(house, pod).generation == 1
    planned = house.service.pods.plan(house.request(), Order.model_validate(document))
    assert planned.change is not None
    assert [i.field for i in planned.change.impossible] == fields
    assert planned.change.nodes_added


def test_second_of_two_concurrent_changes_conflicts(house: House) -> None:
    """Both start from generation 1: one becomes generation 2, the other's conflict says so."""
    pod = house.ready()
    tenant = house.request()

    def ask(count: int) -> Any:
        return lambda: house.service.pods.apply(tenant, "train", sized(count), generation=1)

    errors = at_once(ask(3), ask(4))
    assert len(errors) == 1
    assert isinstance(errors[0], ConflictError)
    assert "was changed to generation 2 in the meantime" in str(errors[0])
    assert look(house, pod).generation == 2
    assert len(holds(house, pod)) == look(house, pod).order.nodes.count


@pytest.mark.parametrize("count", [2, 16])
def test_second_of_two_concurrent_creations_is_a_change(house: House, count: int) -> None:
    """The same PUT means the same pod, even with capacity for only one; another order is a change of it."""
    house.cloud.meanwhile("facts", lambda: apply(house, sized(count)))
    assert apply(house, sized(count)).outcome == "unchanged"
    assert len(house.store.pods.live()) == 1
    house.release(house.store.pods.find("train", "team-a"))
    house.run(house.store.pods.find("train", "team-a"), PodState.RELEASED)
    house.cloud.meanwhile("facts", lambda: apply(house, ORDER))
    assert apply(house, sized(3)).outcome == "changed"
    house.release(house.store.pods.find("train", "team-a"))
    house.run(house.store.pods.find("train", "team-a"), PodState.RELEASED)
    house.cloud.meanwhile("facts", lambda: apply(house, ORDER))
    with pytest.raises(ConflictError, match="already exists"):
        apply(house, ORDER, exists=False)


def test_concurrent_growth_never_shares_a_node(house: House) -> None:
    """Two pods that grow into the same free nodes, many times: each node is one pod's, each row has its generation."""
    one, other = house.ready(make("one", 2)), house.ready(make("other", 2))
    works = [
        lambda n=name, c=count: apply(house, make(n, c)) for count in (8, 9) for name in ("one", "other")
    ]
    at_once(*works)
    held = {name: holds(house, pod).keys() for name, pod in (("one", one), ("other", other))}
    assert not held["one"] & held["other"]
    for pod in (one, other):
        now = look(house, pod)
        assert len(now.nodes) == now.order.nodes.count
        assert set(held[pod.name]) >= set(now.nodes)


def test_pod_being_released_cannot_be_changed(house: House) -> None:
    """Afterwards the name makes a new pod."""
    pod = house.ready()
    house.release(pod)
    with pytest.raises(ConflictError, match="is being released: apply again afterwards"):
        apply(house, sized(3))
    house.run(pod, PodState.RELEASED)
    found = apply(house, sized(3))
    assert found.outcome == "created"
    assert found.pod.id != str(pod.id)


def test_apply_by_name_finds_only_own_pods(house: House) -> None:
    """An operator who applies a file in its own project never changes a tenant's pod of that name; by id it may."""
    pod = house.ready()
    made = apply(house, ORDER, request=house.operator)
    assert (made.outcome, made.pod.project_id) == ("created", "admin")
    changed = house.service.pods.apply(house.operator, str(pod.id), open_to("9.0.0.0/8"))
    assert (changed.outcome, changed.pod.project_id) == ("changed", "team-a")
    with pytest.raises(NotFoundError):
        house.service.pods.apply(house.request("team-b"), str(pod.id), ORDER)
    with pytest.raises(ForbiddenError):
        apply(house, ORDER, request=house.request(role="reader"))
    with pytest.raises(InputError, match="a pod's name can't be changed"):
        house.service.pods.apply(house.operator, str(pod.id), ORDER.model_copy(update={"name": "else"}))


def test_apply_changes_the_lease(house: House, clock: HandClock) -> None:
    """Later and sooner ends, but not in the past; what an extension set stays until a file changes it."""
    pod = house.ready(make("run", 1, duration="2h"))
    begun = pod.placed_at
    assert begun is not None
    assert apply(house, make("run", 1, duration="5h")).pod.lease_end == begun + timedelta(hours=5)
    assert apply(house, make("run", 1, duration="5h")).outcome == "unchanged"
    assert apply(house, make("run", 1, end=begun + timedelta(hours=5))).outcome == "unchanged"
    assert apply(house, make("run", 1, duration="3h")).pod.lease_end == begun + timedelta(hours=3)
    house.service.pods.extend(house.request(), "run", begun + timedelta(hours=4))
    assert look(house, pod).order.lease.end == begun + timedelta(hours=4)
    clock.forward(hours=1)
    with pytest.raises(InputError, match=r"lease.duration: '30m' is not allowed: a time in the future"):
        apply(house, make("run", 1, duration="30m"))
    assert apply(house, make("run", 1)).pod.lease_end is None
    assert look(house, pod).changed_at is None


def test_waiting_order_keeps_its_place_if_it_asks_for_no_more(house: House) -> None:
    """A smaller order keeps its place; a larger one goes last; only the queue is touched."""
    house.ready(make("run", 16))
    first, second = queue(house, "first", 4), queue(house, "second", 4)
    house.worker.tend_queue()
    assert [look(house, p).position for p in (first, second)] == [1, 2]
    assert apply(house, make("first", 3, queue=True)).outcome == "changed"
    house.worker.tend_queue()
    assert [look(house, p).position for p in (first, second)] == [1, 2]
    assert apply(house, make("first", 3, queue=True)).outcome == "unchanged"
    apply(house, make("first", 5, queue=True))
    house.worker.tend_queue()
    assert [look(house, p).position for p in (first, second)] == [2, 1]
    assert look(house, first).generation == 3
    assert look(house, first).order.nodes.count == 5
    with pytest.raises(InputError, match="queue: False"):
        apply(house, make("first", 6))


def test_booked_start_is_rebooked_or_the_order_stays(house: House, clock: HandClock) -> None:
    """A change to more nodes than are free then is refused, and the booking stays."""
    at = clock.now() + timedelta(hours=2)
    pod = house.order(make("later", 4, start=at, duration="1h"))
    house.order(make("also", 10, start=at, duration="1h"))
    assert apply(house, make("later", 6, start=at, duration="1h")).outcome == "changed"
    booking = next(r for r in house.store.capacity().bookings if r.pod.id == pod.id)
    assert len(booking.nodes) == 6
    with pytest.raises(RefusedError):
        apply(house, make("later", 7, start=at, duration="1h"))
    booking = next(r for r in house.store.capacity().bookings if r.pod.id == pod.id)
    assert (len(booking.nodes), look(house, pod).generation) == (6, 2)


def test_audit_log_records_each_apply(house: House, database_url: str) -> None:
    """Applied and refused ones, with user and pod."""
    pod = house.store.pods.find(apply(house, ORDER).pod.id, None)
    with pytest.raises(InputError):
        apply(house, sized(2), remove=list(look(house, pod).nodes))
    found = rows(database_url, "SELECT action, subject, outcome FROM audit_log ORDER BY sequence")
    assert [(r["action"], r["subject"]) for r in found] == [("pod apply", "train")] * 2
    assert found[0]["outcome"] == "done"
    assert found[1]["outcome"].startswith("InputError")
