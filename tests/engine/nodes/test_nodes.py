"""Actual occupants of nodes: nothing is assigned, kept or freed by weft's own records alone."""

from __future__ import annotations

import threading
from collections.abc import Generator

import psycopg
import pytest

from tests.engine.house import ORDER, House, impatient
from tests.helpers.capacities import rows_of
from weft.engine.base.database import Database
from weft.engine.base.epoch import note_epoch
from weft.engine.base.gate import ClosedError
from weft.engine.book.occupancy import FOREIGN
from weft.engine.hold.ownerclaims import claim_work
from weft.engine.proof.membership import AWAY, OTHERS
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, RefusedError, UnknownError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

ALL = ORDER.model_copy(update={"name": "all", "nodes": ORDER.nodes.model_copy(update={"count": 16})})


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def stranger(house: House, host: str) -> Thing:
    """Put a stranger's server on a host."""
    return house.cloud.add(Kind.SERVER, "secret-project-x", "team-b", host=host)


def nodes(house: House) -> list[str]:
    return [n.name for n in house.site.nodes if n.role == "compute"]


# -- before nodes are given -------------------------------------------------------------------------------------


def test_node_with_a_strangers_server_is_not_assigned(house: House) -> None:
    """The others are; an order that needs it too is refused with a reason that names no other project."""
    theirs = stranger(house, "gpu03")
    with pytest.raises(RefusedError) as caught:
        house.order(ALL)
    said = str(caught.value.detail)
    assert f"gpu03: {FOREIGN}" in said
    assert not any(word in said for word in ("team-b", "secret", theirs.id))
    pod = house.order(count=15)
    assert "gpu03" not in pod.nodes


def test_allocation_in_placement_alone_blocks_a_node(house: House) -> None:
    """A move under way holds the devices of two hosts, one of them for no server that Nova would show there."""
    house.cloud.offers.claims["gpu01"] = {"a-migration"}
    pod = house.order(count=15)
    assert "gpu01" not in pod.nodes
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "more"}), count=1)


def test_leaked_allocation_is_reported_by_capacity_nodes_and_audit(house: House) -> None:
    """Nova shows nothing on the host, Placement an allocation whose server is gone: nothing calls the node free."""
    house.cloud.offers.leaked["gpu03"] = {"a-consumer"}
    found = house.service.capacity.show(house.operator, None, None, "24h")
    assert {row.free for row in rows_of(found, "nodes")} == {15}
    shown = {n.name: n for n in house.service.nodes.list(house.operator)}
    assert (shown["gpu03"].state, shown["gpu04"].state) == ("busy", "free")
    assert "its host has an allocation of a-consumer (by Placement)" in shown["gpu03"].reason
    reported = {
        f.subject: f.what for f in house.service.audits.run(house.operator).findings if f.kind == "node"
    }
    assert set(reported) == {"gpu03"} and "an allocation of a-consumer (by Placement)" in reported["gpu03"]
    house.cloud.offers.leaked.clear()
    found = house.service.capacity.show(house.operator, None, None, "24h")
    assert {row.free for row in rows_of(found, "nodes")} == {16}


def test_reserved_inventory_is_reported_by_capacity_nodes_and_audit(house: House) -> None:
    """Nova finds no valid host there: nothing calls the node free, and no order is given it. A pod that is there
    stays."""
    pod = house.ready(ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": 1})}))
    (mine,) = pod.nodes
    house.cloud.offers.reserved |= dict.fromkeys(
        ("gpu03", mine), "Placement has reserved 1 of 1 CUSTOM_GPU of p"
    )
    found = house.service.capacity.show(house.operator, None, None, "24h")
    assert {row.free for row in rows_of(found, "nodes")} == {14}
    shown = {n.name: n for n in house.service.nodes.list(house.operator)}
    assert (shown["gpu03"].state, shown["gpu04"].state) == ("busy", "free")
    assert shown["gpu03"].reason == "Placement has reserved 1 of 1 CUSTOM_GPU of p"
    reported = {f.subject: f.what for f in house.service.audits.run(house.operator).findings}
    assert reported == {"gpu03": "not to be assigned: Placement has reserved 1 of 1 CUSTOM_GPU of p"}
    assert "gpu03" not in house.order(ORDER.model_copy(update={"name": "more"}), count=14).nodes
    assert house.run(pod, PodState.READY, visits=1)
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "last"}), count=1)
    house.cloud.offers.reserved.clear()
    assert house.order(ORDER.model_copy(update={"name": "last"}), count=1).nodes == ("gpu03",)


def test_recently_reserved_inventory_is_seen_before_the_claim(house: House) -> None:
    """The listing of all hosts doesn't have it yet: other nodes are chosen."""
    listed = house.cloud.servers_on_hosts()
    house.cloud.servers_on_hosts = lambda: listed  # type: ignore[method-assign]
    house.cloud.offers.reserved["gpu01"] = "Placement has reserved 1 of 1 CUSTOM_GPU of p"
    assert "gpu01" not in house.order(count=15).nodes


def test_nodes_are_listed_without_the_cloud(house: House) -> None:
    """By weft's records; the reason says that what is on the host is unknown."""
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    shown = {n.name: n for n in house.service.nodes.list(house.operator)}
    assert shown["gpu03"].state == "free" and "what is on its host is unknown: " in shown["gpu03"].reason
    planted.lift()


def test_host_of_a_cell_that_is_down_is_not_free(house: House) -> None:
    """Nova leaves it out of its listing: that is not the same as empty."""
    house.cloud.offers.unreadable = {"gpu05", "gpu06"}
    assert not {"gpu05", "gpu06"} & set(house.order(count=14).nodes)


def test_unanswered_cloud_prevents_assignment(house: House) -> None:
    """Neither the listing nor the look at the chosen nodes may fail."""
    for times in (1, None):
        planted = house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=times)
        with pytest.raises(UnknownError):
            house.order()
        planted.lift()
    assert not house.store.pods.live()


def test_stranger_between_listing_and_claim_is_seen(house: House) -> None:
    """The nodes that were chosen are looked at once more, with Placement's word, and others taken."""
    first = house.order()
    house.release(first)
    house.run(first, PodState.RELEASED)
    for node in first.nodes:
        house.cloud.offers.claims[node] = {f"build-{node}"}  # scheduled; Nova shows no host of it yet
    assert not set(house.order().nodes) & set(first.nodes)


def test_queue_waits_for_strangers_to_leave(house: House) -> None:
    """An order that waits is not started on an occupied node, and is once the occupant has gone."""
    theirs = stranger(house, "gpu03")
    order = Order.model_validate({**ALL.model_dump(), "queue": True})
    pod = house.order(order)
    house.worker.tend_queue()
    waiting = house.store.pods.find(str(pod.id), None)
    assert waiting.placed is None and waiting.reason
    house.cloud.offers.claims["gpu04"] = {"a-migration"}
    house.cloud.lose(theirs)
    with house.database.transaction() as tx:
        tx.run("touch_queue", at=house.clock.now())
    house.worker.tend_queue()
    assert house.store.pods.find(str(pod.id), None).placed is None
    house.cloud.offers.claims.clear()
    with house.database.transaction() as tx:
        tx.run("touch_queue", at=house.clock.now())
    house.worker.tend_queue()
    assert len(house.store.pods.find(str(pod.id), None).nodes) == 16


# -- while a pod is there ---------------------------------------------------------------------------------------


def visit(house: House, pod: PodRecord) -> PodRecord:
    house.store.wake(pod.id)
    house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def members(house: House, pod: PodRecord) -> set[str]:
    """Nodes with the pod's key on the wire, as full member, on all their ports."""
    key = 0x8000 | (pod.plan.segment or 0)
    tables = house.fabric.tables()
    return {
        n.name for n in house.site.nodes if n.hcas and all(key in tables[h.port_guid].keys for h in n.hcas)
    }


def keyless(house: House, pod: PodRecord, node: str) -> bool:
    """Whether neither the node's ports nor their leaf ports have the key, in either membership."""
    pkey = pod.plan.segment or 0
    tables = [house.fabric.tables()[h.port_guid] for h in house.site.node_by_name[node].hcas]
    return not any({pkey, 0x8000 | pkey} & (t.keys | (t.leaf_keys or frozenset())) for t in tables)


@pytest.mark.parametrize("host", ["gpu16", None])
def test_server_that_left_its_node_takes_its_p_key_along(house: House, host: str | None) -> None:
    """Resized, unshelved or evacuated to another node, or shelved: its own adapters are out of the partition, the new
    node isn't assigned, and the pod says why; when it is back everything recovers by itself."""
    pod = house.ready()
    left, stays = pod.nodes
    server = house.cloud.thing(f"server/{left}")
    server.fields["host"] = host
    for _ in range(3):
        pod = visit(house, pod)
        assert pod.state is PodState.DEGRADED and f"node {left}: {AWAY}" in pod.reason
    assert members(house, pod) == {stays} and keyless(house, pod, left)
    rest = [n for n in nodes(house) if n not in (*pod.nodes, host)]
    other = house.order(ORDER.model_copy(update={"name": "other"}))
    assert not {left, stays, host} & set(other.nodes)
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "all-the-rest"}), count=len(rest) - 1)
    server.fields["host"] = left
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == {left, stays}


def test_single_node_pod_may_have_no_member(house: House) -> None:
    """Its partition is there and empty as long as its server is elsewhere."""
    pod = house.run(house.order(count=1), PodState.READY)
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    server.fields["host"] = "gpu16"
    for _ in range(2):
        pod = visit(house, pod)
        assert pod.state is PodState.DEGRADED and AWAY in pod.reason and "defect" not in pod.reason
    assert keyless(house, pod, pod.nodes[0])
    server.fields["host"] = pod.nodes[0]
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == set(pod.nodes)


def test_stranger_on_a_pods_node_gets_no_p_key(house: House) -> None:
    """A claim in Placement is enough; the pod's other nodes keep theirs, and the reason names no other project."""
    pod = house.ready()
    node, other = pod.nodes
    house.cloud.offers.claims[node] = {"a-stranger"}
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and OTHERS in pod.reason and "a-stranger" not in pod.reason
    assert members(house, pod) == {other}
    hold = house.store.capacity().holds[node]
    assert "a-stranger" in hold.withheld
    house.cloud.offers.claims.clear()
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == {node, other}


def test_stranger_before_the_partition_gets_no_p_key(house: House) -> None:
    """Between the claim and the first adapter in the partition the nodes are looked at again; the pod waits."""
    pod = house.order()
    theirs = stranger(house, pod.nodes[0])
    pod = visit(house, pod)
    assert pod.state is PodState.WIRING and OTHERS in pod.reason
    assert members(house, pod) == set() and house.cloud.servers == [theirs]
    house.cloud.lose(theirs)
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == set(pod.nodes)


def test_stranger_during_the_boot_takes_the_p_key_away(house: House) -> None:
    """The partition was made with the node; it is taken out again, although the pod's own server never came."""
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    pod = visit(house, house.order())
    node, other = pod.nodes
    assert pod.state is PodState.BOOTING and members(house, pod) == {node, other}
    house.cloud.lose(house.cloud.thing(f"server/{node}"))
    stranger(house, node)
    pod = visit(house, pod)
    assert OTHERS in pod.reason and members(house, pod) == {other}


def test_unknown_occupants_change_no_membership(house: House) -> None:
    """A cell that is down degrades the pod, gives no key and takes none; what was taken before stays taken."""
    pod = house.ready()
    node, other = pod.nodes
    house.cloud.offers.unreadable = {node}
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and "is unknown" in pod.reason
    assert members(house, pod) == {node, other}
    house.cloud.offers.unreadable = set()
    house.cloud.offers.claims[node] = {"a-stranger"}
    assert members(house, visit(house, pod)) == {other}
    house.cloud.offers.claims.clear()
    house.cloud.offers.unreadable = {node}
    assert members(house, visit(house, pod)) == {other}
    house.cloud.offers.unreadable = set()
    assert members(house, house.run(pod, PodState.READY)) == {node, other}


def test_failed_pod_is_watched(house: House) -> None:
    """It never became READY, but one of its servers runs: a stranger on the other node is no member, nor is one that
    the first server left behind."""
    house.cloud.plant(Fault.BROKEN, key="server/gpu01", times=None, reason="No valid host was found.")
    order = ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": 2})})
    pod = house.run(house.order(order), PodState.FAILED)
    assert "gpu01" in pod.nodes
    (other,) = set(pod.nodes) - {"gpu01"}
    stranger(house, "gpu01")
    pod = visit(house, pod)
    assert pod.state is PodState.FAILED and "No valid host" in pod.reason
    assert members(house, pod) == {other}
    house.cloud.thing(f"server/{other}").fields["host"] = "gpu16"
    assert members(house, visit(house, pod)) == set()


def test_repaired_server_regains_its_p_key(house: House) -> None:
    """Once its tenant has deleted it, its adapters are out; once an operator has it recreated, they are in again."""
    pod = house.ready()
    node, other = pod.nodes
    house.cloud.lose(house.cloud.thing(f"server/{node}"))
    pod = visit(house, pod)
    assert members(house, pod) == {other}
    house.store.request_repair(pod.id)
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == {node, other}


def test_audit_names_misplaced_servers(house: House) -> None:
    """On a free node, and on a pod's; for a pod's own server that has moved it names the pod."""
    pod = house.ready()
    assert house.service.audits.run(house.operator).findings == ()
    theirs = stranger(house, pod.nodes[0])
    house.cloud.thing(f"server/{pod.nodes[1]}").fields["host"] = "gpu16"
    found = {f.subject: f.what for f in house.service.audits.run(house.operator).findings if f.kind == "node"}
    assert set(found) == {pod.nodes[0], "gpu16"}
    assert theirs.id in found[pod.nodes[0]] and f"of pod {pod.name}" in found["gpu16"]


# -- before nodes are given back --------------------------------------------------------------------------------


def test_receipt_lists_what_was_read_of_guests_and_hosts(house: House) -> None:
    """One line for each server's end, one for each node: of Nova's record, Nova's hosts and Placement."""
    pod = house.ready()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None
    seen = {(i.plane, i.subject.split()[0]): i for i in receipt.receipt.items if i.plane in ("guest", "host")}
    assert {k for k in seen if k[0] == "host"} == {("host", n) for n in pod.nodes}
    assert len(seen) == 4 and {i.result for i in seen.values()} == {"clean"}


def test_guest_forgotten_only_by_nova_is_not_gone(house: House) -> None:
    """Its nova-compute was down, so it may run on: no receipt, and past the limit quarantine for that node alone.

    That the nova-compute comes back changes nothing: what it did went unseen.
    """
    pod = house.ready()
    dead, other = pod.nodes
    house.cloud.offers.hosts[dead] = "down"
    house.release(pod)
    pod = visit(house, pod)
    assert pod.state is PodState.RELEASING and f"guest {pod.name}-0 " in pod.reason and dead in pod.reason
    assert not [s for s in house.cloud.servers if s.mark]
    house.cloud.offers.hosts[dead] = "up"
    house.worker = house.new_worker("impatient", impatient())
    pod = visit(house, pod)
    capacity = house.store.capacity()
    assert "may run on" in capacity.quarantines[dead].reason or "down" in capacity.quarantines[dead].reason
    assert set(capacity.holds) == {dead} and house.store.records.receipt(pod.id) is None
    assert other in house.order(ORDER.model_copy(update={"name": "next"}), count=15).nodes


def test_stranger_at_a_release_is_named_and_keeps_the_node(house: House) -> None:
    """It isn't weft's to remove; when it is gone the receipt is signed."""
    pod = house.ready()
    kept = pod.nodes[0]
    house.cloud.offers.claims[kept] = {"a-stranger"}
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    for _ in range(2):
        pod = visit(house, pod)
    capacity = house.store.capacity()
    assert pod.state is PodState.RELEASING and set(capacity.holds) == {kept}
    assert "a-stranger" in capacity.quarantines[kept].reason
    house.cloud.offers.claims.clear()
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.quarantined == (kept,)


def test_node_freed_early_is_not_read_again(house: House) -> None:
    """It may be another pod's by then, whose server on it is nothing that the first must wait for."""
    pod = house.ready()
    kept, free = pod.nodes
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{kept}", times=None)
    patient, house.worker = house.worker, house.new_worker("impatient", impatient())
    house.release(pod)
    for _ in range(2):
        visit(house, pod)
    house.worker = patient
    assert set(house.store.capacity().holds) == {kept}
    house.cloud.add(Kind.SERVER, "next", "team-b", host=free)
    planted.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    house.run(pod, PodState.RELEASED)


def test_unreadable_guests_or_hosts_are_not_clean(house: House) -> None:
    """Neither Nova's record nor the hosts: the release goes on until both were read."""
    pod = house.ready()
    for verb in ("endings", "occupants"):
        planted = house.cloud.plant(Fault.UNREACHABLE, verb=verb, times=None)
        house.release(pod)
        pod = visit(house, pod)
        assert pod.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
        planted.lift()
    house.run(pod, PodState.RELEASED)


# -- after a restore of the database ----------------------------------------------------------------------------


def restore_before(house: House, pod: PodRecord) -> None:
    """Leave the database as a dump from before that order: nothing of the pod, and one claim less."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("DELETE FROM node_hold WHERE pod_id = %s", [pod.id])
        for table in ("resource", "number_hold", "event"):
            connection.execute(f"DELETE FROM {table} WHERE owner_id = %s", [pod.id])  # type: ignore[arg-type]
        connection.execute("DELETE FROM pod WHERE id = %s", [pod.id])
        connection.execute("UPDATE epoch SET number = number - 1")


def test_restored_database_places_nothing_before_its_acceptance(house: House) -> None:
    """Neither an order nor the queue; the pods that it knows go on. The nodes of a pod that it doesn't know are given
    again afterwards either, since that pod's servers are seen on them."""
    known = house.ready()
    lost = house.ready(ORDER.model_copy(update={"name": "lost"}))
    restore_before(house, lost)
    with pytest.raises(ConflictError, match="weft audit --accept"):
        house.order(ORDER.model_copy(update={"name": "next"}))
    queued = house.order(Order.model_validate({**ORDER.model_dump(), "name": "queued", "queue": True}))
    house.worker.tend_queue()
    waits = house.store.pods.find(str(queued.id), None)
    assert waits.placed is None and "--accept" in waits.reason
    assert visit(house, known).state is PodState.READY
    report = house.service.audits.accept_database(house.operator)
    assert any(lost.nodes[0] in str(f) or str(lost.id) in str(f) for f in report.findings)
    house.worker.tend_queue()
    placed = house.store.pods.find(str(queued.id), None)
    assert not set(placed.nodes) & {*known.nodes, *lost.nodes}
    assert not set(house.order(ORDER.model_copy(update={"name": "next"})).nodes) & set(lost.nodes)


def test_new_database_with_an_old_cloud_counts_as_restored(house: House) -> None:
    """It has no pods at all; and the one that was there before places nothing beside one that was accepted."""
    house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        rows = connection.execute("SELECT * FROM epoch_mark").fetchall()
        connection.execute("DELETE FROM epoch; DELETE FROM epoch_mark")
    with pytest.raises(ConflictError, match="or is new"):
        house.order(ORDER.model_copy(update={"name": "next"}))
    house.service.audits.accept_database(house.operator)
    house.order(ORDER.model_copy(update={"name": "next"}))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("DELETE FROM epoch_mark")
        connection.execute("INSERT INTO epoch_mark VALUES (%s, %s, %s)", rows[0])
        connection.execute("UPDATE epoch SET number = 99")  # however much it has done since
    with pytest.raises(ConflictError):
        house.order(ORDER.model_copy(update={"name": "fork"}))


def test_missing_note_prevents_creation(house: House) -> None:
    """What can't be noted outside is not begun: the pod waits with nothing in the cloud."""
    house.cloud.plant(Fault.UNREACHABLE, verb="testify", times=1)
    pod = visit(house, house.order())
    assert pod.state is PodState.WIRING and not house.cloud.things()
    house.run(pod, PodState.READY)


def test_outdated_count_of_a_claimed_pod_is_read_again(house: House) -> None:
    """A pod's count comes with it when it is claimed. Others may have been claimed since; only if the database is
    behind its cloud's note, it was restored."""
    house.ready()
    site, facts = house.site.name, house.cloud
    known = facts.witnesses[site]
    house.order(ORDER.model_copy(update={"name": "next"}))
    (held,) = claim_work(house.database, "w", 0.0, 9, 9, threading.Event()).readable
    claims = known.number + 1
    assert held.gate.claims == claims

    def note() -> int:
        held.gate.note_epoch(facts, "lab")
        return facts.witnesses[site].number

    assert note() == claims  # it was behind
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE epoch SET number = number + 1")
        assert note() == claims  # its own claim is known, which is all that it needs
        note_epoch(house.database, facts, site, "lab")  # as another worker does for its own
        assert note() == known.number + 2
        house.order(ORDER.model_copy(update={"name": "third"}))
        connection.execute("UPDATE epoch SET number = number - 2")
        held.gate.claims = None
        with pytest.raises(ClosedError, match="weft audit --accept"):
            note()


def test_node_in_maintenance_may_be_unknown(house: House) -> None:
    """A host that Nova doesn't list is unknown, never foreign; one in maintenance is no finding."""
    del house.cloud.offers.hosts["gpu16"]
    assert [(f.category, f.subject) for f in house.service.audits.run(house.operator).findings] == [
        ("unknown", "gpu16")
    ]
    parked = [
        n.model_copy(update={"maintenance": "it is being rebuilt"}) if n.name == "gpu16" else n
        for n in house.site.nodes
    ]
    house.store.activate_site(house.site.model_copy(update={"nodes": tuple(parked)}), "test")
    assert house.service.audits.run(house.operator).findings == ()
