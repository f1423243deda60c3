"""Pods on shared nodes that get more or fewer servers: each part comes and goes by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.changes.test_change_loop import apply, settle
from tests.engine.house import QUICK, House
from tests.engine.life.test_parts import ready, small
from tests.engine.timehouse import HandClock, at_once, look, messages
from weft.app.shown import shown
from weft.engine.rows.records import Change, PodRecord, RowState
from weft.model.errors import InputError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.model.resources import Kind
from weft.model.site import ProjectLimits, QueuePolicy
from weft.ports.occupants import Ended, Ending
from weft.testing.cloud import Fault

READ = "the servers' parts of {} were read back clean and are free"


def on_one(count: int) -> Order:
    return small("train", count, locality={"required": "node"})


def parts(house: House, pod: PodRecord) -> list[tuple[str, bool]]:
    """Node of each part that the pod holds, and whether the part is leaving."""
    rows = [row for row in house.store.capacity().parts if row.pod_id == pod.id]
    return sorted((row.node, row.leaving) for row in rows)


def servers(house: House, pod: PodRecord) -> dict[str, str]:
    """Key of each of its servers -> id."""
    marks = ((t.mark, t.id) for t in house.cloud.servers)
    return {mark.key: id_ for mark, id_ in marks if mark and mark.owner.id == str(pod.id)}


def name(pod: PodRecord, server: str) -> str:
    """A server's name as its tenant sees it."""
    return pod.plan.graph.by_key()[f"server/{server}"].name


def visit(house: House, pod: PodRecord, times: int = 5) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return look(house, pod)


def released(house: House, pod: PodRecord) -> Receipt:
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean, signed
    assert not parts(house, pod)
    return signed.receipt


def test_added_servers_join_the_others(house: House) -> None:
    pod, other = ready(house, "train", 2), ready(house, "other")
    (node,) = pod.nodes
    before = servers(house, pod)
    apply(house, small("train", 4))
    now = settle(house, pod)
    assert servers(house, pod).items() > before.items() and len(servers(house, pod)) == 4
    assert now.nodes == (node,) == other.nodes and parts(house, pod) == [(node, False)] * 4
    assert "DEGRADED" not in " ".join(messages(house, pod, "state"))
    assert house.service.audits.run(house.operator).findings == ()
    assert house.service.pods.apply(house.request(), "train", small("train", 4)).outcome == "unchanged"


def test_removed_server_frees_its_part(house: House) -> None:
    """The others on its host are unchanged and were always READY; its part is free, its name is used again."""
    pod = house.run(house.order(on_one(8)), PodState.READY)
    (node,) = pod.nodes
    before, device = servers(house, pod), pod.plan.placement.nodes[3].part
    apply(house, on_one(7), name(pod, f"{node}/3"))
    assert parts(house, pod) == [(node, False)] * 7 + [(node, True)]
    now = settle(house, pod)
    assert servers(house, pod) == {k: v for k, v in before.items() if not k.endswith("/3")}
    assert now.nodes == (node,) and parts(house, pod) == [(node, False)] * 7
    assert messages(house, pod, "release") == [READ.format(node)]
    assert "DEGRADED" not in " ".join(messages(house, pod, "state"))
    other = ready(house, "other")
    assert device is not None and other.nodes == (node,)
    assert [n.part.devices for n in other.plan.placement.nodes if n.part] == [device.devices]
    with pytest.raises(RefusedError, match="1 additional server for the 7 of the pod"):
        house.service.pods.apply(house.request(), "train", on_one(8))
    assert look(house, pod).generation == 2
    released(house, other)
    apply(house, on_one(8))
    now = settle(house, pod)
    assert now.nodes == (node,) and servers(house, pod).keys() == before.keys()
    assert house.service.audits.run(house.operator).findings == ()
    receipt = released(house, pod)
    assert receipt.given_back == (node,)
    ids = {i.subject.split()[1] for i in receipt.items if i.subject.startswith(name(pod, f"{node}/3"))}
    assert before[f"server/{node}/3"] in ids and len(ids) > 1


def test_node_is_freed_with_its_last_server(house: House) -> None:
    pod = ready(house, "train", 10)
    few, full = sorted(pod.nodes, key=[n.node for n in pod.plan.placement.nodes].count)
    apply(house, small("train", 9), name(pod, f"{few}/0"))
    settle(house, pod)
    apply(house, small("train", 8))
    now = settle(house, pod)
    assert now.nodes == (full,) and house.store.capacity().held == {full}
    assert messages(house, pod, "release") == [READ.format(few), f"{few} was read back clean and is free"]
    assert released(house, pod).given_back == (few, few)


def test_undeletable_server_keeps_only_its_part(house: House, clock: HandClock) -> None:
    """The pod goes on, and so does the other pod there; once the server is gone, its part is freed."""
    pod, other = ready(house, "train", 3), ready(house, "other")
    (node,) = pod.nodes
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{node}/1", times=None)
    house.worker = house.new_worker("w2", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0}))
    apply(house, small("train", 2), name(pod, f"{node}/1"))
    clock.forward(seconds=1)
    settle(house, pod)
    assert parts(house, pod) == [(node, False), (node, False), (node, True)]
    assert house.store.capacity().quarantines.keys() == {node}
    assert visit(house, other).state is PodState.READY
    apply(house, small("train", 4))
    clock.forward(seconds=1)
    now = settle(house, pod)
    assert len(now.nodes) == 2 and len(parts(house, pod)) == 5
    planted.lift()
    house.cloud.thing(f"server/{node}/1").undeletable = False
    for _ in range(5):
        clock.forward(seconds=10)
        visit(house, pod, 1)
    assert len(parts(house, pod)) == 4 and not any(leaves for _, leaves in parts(house, pod))
    released(house, pod)


def test_server_that_reappears_keeps_its_part(house: House) -> None:
    """Seen on the host when the part is read back; the pod's other servers there don't matter."""
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    server = house.cloud.thing(f"server/{node}/2")
    apply(house, small("train", 2), name(pod, f"{node}/2"))
    house.cloud.meanwhile("endings", lambda: house.cloud.bring_back(server))
    settle(house, pod)
    assert parts(house, pod) == [(node, False)] * 2 and f"server/{node}/2" not in servers(house, pod)


def test_part_is_kept_while_the_end_of_its_guest_is_unknown(house: House) -> None:
    """Its host was down: Nova has deleted only its own record, and the guest may still use the accelerator."""
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    server = house.cloud.thing(f"server/{node}/2")
    house.cloud.offers.hosts[node] = "down"
    apply(house, small("train", 2), name(pod, f"{node}/2"))
    visit(house, pod)
    assert (node, True) in parts(house, pod) and f"server/{node}/2" not in servers(house, pod)
    house.cloud.offers.hosts[node] = "up"
    house.cloud.ends(server.id, Ending(Ended.DESTROYED, "destroyed by its host", house.clock.now()))
    settle(house, pod)
    assert parts(house, pod) == [(node, False)] * 2


def test_killed_worker_is_replaced_in_a_change(house: House) -> None:
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    apply(house, small("train", 2), name(pod, f"{node}/0"))
    dead = house.store.claim_owner(pod.id, "dead")
    assert dead is not None
    dead.note([Change(r.key, RowState.DELETING) for r in dead.resources() if r.key == f"server/{node}/0"])
    dead.notes.flush()
    dead.hand_back_unwritten(0.0)
    settle(house, pod)
    assert parts(house, pod) == [(node, False)] * 2 and len(servers(house, pod)) == 2


def test_pod_can_be_changed_again_while_it_changes(house: House) -> None:
    """A leaving server keeps its name and its part until it is gone, whatever is added meanwhile."""
    pod = ready(house, "train", 3)
    for count in (1, 5, 4, 6, 2):
        apply(house, small("train", count))
        visit(house, pod, 1)
        taken = [(r.node, d) for r in house.store.capacity().parts for d in r.part.devices]
        assert len(set(taken)) == len(taken) >= count
    now = settle(house, pod)
    assert now.generation == 6 and len(servers(house, pod)) == 2 == len(parts(house, pod))
    assert servers(house, pod).keys() == {r.key for r in now.plan.graph.resources if r.kind == "server"}
    assert house.service.audits.run(house.operator).findings == ()
    released(house, pod)


def test_release_includes_a_server_that_was_leaving(house: House) -> None:
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    gone = name(pod, f"{node}/1")
    apply(house, small("train", 2), gone)
    receipt = released(house, pod)
    assert not house.store.capacity().held and not house.cloud.servers
    assert any(i.plane == "guest" and i.subject.startswith(gone) for i in receipt.items)


@pytest.mark.parametrize("shared", [True, False])
def test_late_release_does_not_need_novas_record(house: House, shared: bool) -> None:
    """An operator archives Nova's deleted records: they were read when the node, or the part, was freed."""
    few, more = (small("train", n) for n in (2, 3))
    if not shared:
        few, more = (
            o.model_copy(
                update={
                    "nodes": o.nodes.model_copy(
                        update={"sharing": "dedicated", "flavor": "gpu8", "accelerators": None}
                    )
                }
            )
            for o in (few, more)
        )
    pod = house.run(house.order(more), PodState.READY)
    before = {t.id for t in house.cloud.servers}
    apply(house, few)
    settle(house, pod)
    (gone,) = before - {t.id for t in house.cloud.servers}
    house.cloud.ends(gone, Ending(Ended.NO_RECORD, "Nova has no record of its actions"))
    apply(house, more)  # the same node again, or one more server there
    settle(house, pod)
    receipt = released(house, pod)
    assert any(i.plane == "guest" and gone in i.subject for i in receipt.items)


def test_two_pods_on_one_host_change_at_the_same_time(house: House) -> None:
    """Each gives back its own part."""
    one, two = ready(house, "one", 4), ready(house, "two", 4)
    (node,) = {*one.nodes, *two.nodes}
    assert not at_once(*(lambda n=n: apply(house, small(n, 2)) for n in ("one", "two")))
    settle(house, one)
    settle(house, two)
    assert parts(house, one) == [(node, False)] * 2 == parts(house, two)
    assert not at_once(*(lambda n=n: apply(house, small(n, 4)) for n in ("one", "two")))
    settle(house, one)
    settle(house, two)
    taken = [d for r in house.store.capacity().parts for d in r.part.devices]
    assert len(set(taken)) == len(taken) == 8
    assert house.service.audits.run(house.operator).findings == ()


def test_growing_avoids_a_host_with_a_stranger(house: House) -> None:
    """Someone has put a server of their own on the pod's host: further servers go elsewhere."""
    pod = ready(house, "train", 2)
    (node,) = pod.nodes
    house.cloud.add(Kind.SERVER, "secret", "team-b", host=house.site.node_by_name[node].nova_host)
    apply(house, small("train", 3))
    now = settle(house, pod)
    assert len(now.nodes) == 2 and parts(house, pod).count((node, False)) == 2


def test_project_limit_counts_a_shared_node_once(house: House) -> None:
    limits = {"team-a": ProjectLimits(max_nodes=1)}
    site = house.site.model_copy(update={"queue": QueuePolicy(projects=limits)})
    house.store.activate_site(site, "test")
    pod = ready(house, "train", 2)
    apply(house, small("train", 8))
    settle(house, pod)
    with pytest.raises(RefusedError, match="the project has 0 of at most 1 nodes; 2 more are requested"):
        house.service.pods.apply(house.request(), "train", small("train", 9))


def test_tenant_reads_server_names_but_no_accelerators(house: House) -> None:
    """Servers come and go by their names; names of other pods don't appear."""
    pod, other = ready(house, "train", 3), ready(house, "other")
    (node,) = pod.nodes
    plan = shown(house.service.pods.plan(house.request(), small("train", 2), [name(pod, f"{node}/1")]))
    assert plan.change is not None and plan.change.nodes_removed == (node,)
    assert name(pod, f"{node}/1") in {r.name for r in plan.change.removed}
    assert all(n.part is None and n.server is None for n in plan.placement.nodes)
    assert plan.placement.explanation.chosen == "2 servers on 1 node."
    for stranger in (name(other, f"{node}/0"), "train-7", "gpu16"):
        with pytest.raises(InputError):
            house.service.pods.apply(house.request(), "train", small("train", 2), [stranger])
    assert look(house, pod).generation == 1
    apply(house, small("train", 2), name(pod, f"{node}/1"))
    settle(house, pod)
    events = shown(tuple(house.service.pods.events(house.request(), "train", 0)))
    assert READ.format(node) in {e.message for e in events}


@pytest.mark.parametrize("way", ["changed", "repaired"])
def test_never_seen_server_with_a_reused_name_keeps_its_part(house: House, way: str) -> None:
    """The answer to its creation was lost, and only its host lists it; another server has its name."""
    pod = ready(house, "train", 3)
    (node,) = pod.nodes
    if way == "changed":
        apply(house, small("train", 2), name(pod, f"{node}/2"))
        settle(house, pod)
    else:
        house.cloud.lose(house.cloud.thing(f"server/{node}/2"))
        visit(house, pod, 2)
    before = servers(house, pod)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, key="server/*")
    if way == "changed":
        apply(house, small("train", 3))
    else:
        house.store.request_repair(pod.id)
    while len(house.cloud.servers) < 3:
        visit(house, pod, 1)
    (server,) = (s for s in house.cloud.servers if s.id not in before.values())
    assert server.mark is not None and server.mark.key == f"server/{node}/2"
    server.hidden = True
    house.release(pod)
    now = visit(house, pod)
    assert now.state is PodState.RELEASING and f"server {server.id} 'train-2'" in now.reason
    assert house.store.records.receipt(pod.id) is None and parts(house, pod)
    house.cloud.lose(server)
    house.run(pod, PodState.RELEASED)
