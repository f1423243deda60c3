"""A new site while pods hold nodes: what they hold is read or unknown, never left out, and nothing is assigned by the
old one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from uuid import uuid4

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.engine.life.test_parts import small
from tests.helpers.waiting import PATIENCE, wait_for
from weft.engine.base.database import Database
from weft.engine.book.claimrows import insert_pod
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError
from weft.model.pod import PodState
from weft.model.site import Accelerator, Hca, Node, Site


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def changed_site(site: Site, node: str, **changed: object) -> Site:
    """The site with one node changed."""
    nodes = tuple(n.model_copy(update=changed) if n.name == node else n for n in site.nodes)
    return site.model_copy(update={"nodes": nodes})


def without(site: Site, node: str) -> Site:
    nodes = tuple(n for n in site.nodes if n.name != node)
    links = tuple(k for k in site.links if not any(end.startswith(f"{node}/") for end in (k.a, k.b)))
    return site.model_copy(update={"nodes": nodes, "links": links})


CHANGES: Mapping[str, dict[str, object]] = {
    "role": {"role": "service"},
    "cloud": {"cloud": "other"},
}


def visited(house: House, pod: PodRecord, times: int = 3) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


@pytest.mark.parametrize("what", [*CHANGES, "gone"])
def test_held_node_missing_in_the_site_is_never_clean(house: House, what: str) -> None:
    """The pod says that it isn't read, and there is no clean receipt until the site has it again."""
    pod = house.ready()
    lost = pod.nodes[0]
    changed = (
        changed_site(house.site, lost, **CHANGES[what]) if what in CHANGES else without(house.site, lost)
    )
    house.store.activate_site(changed, "test")  # past the check, as a restored database could have it
    seen = visited(house, pod, 1)
    assert seen.state is PodState.DEGRADED and lost in seen.reason
    house.release(pod)
    assert visited(house, pod).state is PodState.RELEASING
    assert lost in house.store.capacity().holds and house.store.records.receipt(pod.id) is None
    house.store.activate_site(house.site, "test")
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean
    assert {i.subject for i in receipt.receipt.items if i.plane == "host"} == set(pod.nodes)


@pytest.mark.parametrize("what", CHANGES)
def test_site_cannot_change_the_role_of_a_held_node(house: House, what: str) -> None:
    """Its role and cloud stay while a pod holds it; a free node's may change."""
    pod = house.ready()
    other = house.site.clouds["lab"].model_copy(update={"flavors": {}})
    clouds = {**house.site.clouds, "other": other}
    site = house.site.model_copy(update={"clouds": clouds})

    def activate(node: str) -> int:
        document = changed_site(site, node, **CHANGES[what]).model_dump(mode="json")
        return house.service.site.activate(house.operator, document).generation

    with pytest.raises(ConflictError, match=f"{pod.nodes[0]}'s {what}.* release the pod first"):
        activate(pod.nodes[0])
    assert house.store.site().generation == 1
    free = next(n.name for n in site.nodes if n.role == "compute" and n.name not in pod.nodes)
    assert activate(free) == 2


def loses(house: House, node: str) -> Callable[[], object]:
    """An operator's new site without a node that no pod holds."""
    document = without(house.site, node).model_dump(mode="json")
    return lambda: house.service.site.activate(house.operator, document)


def ends_clean(house: House, pod: PodRecord) -> None:
    """Release the pod: the receipt is clean, with an item for each host."""
    house.release(house.run(pod, PodState.READY))
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean
    assert {i.subject for i in receipt.receipt.items if i.plane == "host"} == set(pod.nodes)


def test_order_is_planned_again_by_the_newly_active_site(house: House) -> None:
    """Not by the one that it was planned with: the new one lacks the node that would have been chosen."""
    chosen = house.service.pods.plan(house.request(), ORDER).placement.held[0]
    house.cloud.meanwhile("witness", loses(house, chosen))
    pod = house.order()
    assert house.store.site().generation == 2 and chosen not in pod.nodes
    ends_clean(house, pod)


def test_nodes_are_added_by_the_newly_active_site(house: House) -> None:
    pod = house.ready()
    more = ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": 3})})
    plan = house.service.pods.plan(house.request(), more)
    assert plan.change is not None
    (chosen,) = plan.change.nodes_added
    house.cloud.meanwhile("witness", loses(house, chosen))
    applied = house.service.pods.apply(house.request(), pod.name, more)
    assert house.store.site().generation == 2 and applied.change is not None
    assert applied.change.nodes_added and chosen not in applied.change.nodes_added
    ends_clean(house, house.store.pods.find(str(pod.id), None))


def test_queue_starts_orders_by_the_newly_active_site(house: House) -> None:
    """Its input is discarded, and it is due again at once."""
    pod = house.order(ORDER.model_copy(update={"queue": True}))
    chosen = house.service.pods.plan(
        house.request(), ORDER.model_copy(update={"name": "same"})
    ).placement.held[0]
    house.cloud.meanwhile("witness", loses(house, chosen))
    house.worker.tend_queue()
    assert house.store.pods.find(str(pod.id), None).state is PodState.PENDING
    assert house.store.due().queue == 0.0
    house.worker.tend_queue()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.PLACED and chosen not in pod.nodes
    ends_clean(house, pod)


def waiting_for_locks(url: str) -> int:
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_site_is_checked_against_concurrent_claims(house: House, database_url: str) -> None:
    """The check and the new generation are one transaction: a claim comes before both, or after."""
    node = house.service.pods.plan(house.request(), ORDER).placement.held[0]
    document = without(house.site, node).model_dump(mode="json")
    both = threading.Barrier(2)
    found: list[object] = []

    def send() -> None:
        both.wait(PATIENCE)
        try:
            found.append(house.service.site.activate(house.operator, document).generation)
        except ConflictError as error:
            found.append(str(error))

    sender = threading.Thread(target=send)
    with house.database.transaction() as tx:  # another process, in the middle of a claim
        tx.row("lock_capacity")
        sender.start()
        both.wait(PATIENCE)
        wait_for(lambda: waiting_for_locks(database_url), "the operator waits for the claim")
        plan = house.service.pods.plan(house.request(), ORDER)
        insert_pod(tx, plan.model_copy(update={"pod_id": str(uuid4())}), "team-a", "test")
    sender.join(PATIENCE)
    assert found == [f"nodes: {node} is missing, but pod train holds it: release the pod first"]


def renamed(site: Site, node: str, by: str, host: str | None) -> Site:
    """The site with a node under another name, at the same cables."""
    nodes = tuple(
        n.model_copy(update={"name": by, "host": host}) if n.name == node else n for n in site.nodes
    )

    def end(one: str) -> str:
        return one.replace(f"{node}/", f"{by}/") if one.startswith(f"{node}/") else one

    links = tuple(k.model_copy(update={"a": end(k.a), "b": end(k.b)}) for k in site.links)
    return site.model_copy(update={"nodes": nodes, "links": links})


@pytest.mark.parametrize("kept", ["quarantine", "hold"])
@pytest.mark.parametrize("what", ["host", "adapter"])
def test_kept_node_gets_no_other_name(house: House, kept: str, what: str) -> None:
    """Under it the machine on which a guest may still run, or which wasn't accepted yet, would be assigned."""
    verbs, olga = house.service, house.operator
    if kept == "quarantine":
        verbs.nodes.quarantine(olga, "gpu01", "a guest may run there")
    else:
        verbs.nodes.hold(olga, "gpu01", "burn-in")
    same = renamed(house.site, "gpu01", "alias1", "gpu01" if what == "host" else "alias1")
    with pytest.raises(
        ConflictError, match=f"alias1 has the {what} .* of gpu01, which is .* first .weft node"
    ):
        verbs.site.activate(olga, same.model_dump(mode="json"))
    assert house.store.site().generation == 1
    verbs.site.activate(olga, house.site.model_dump(mode="json"))  # and by its own name it stays
    if kept == "quarantine":
        verbs.nodes.clear(olga, "gpu01")
    else:
        verbs.nodes.accept(olga, "gpu01")
    verbs.site.activate(olga, same.model_dump(mode="json"))


@pytest.mark.parametrize("what", ["host", "adapter", "serial number"])
def test_kept_node_that_left_the_site_returns_by_its_own_name_alone(house: House, what: str) -> None:
    """Whatever the site says in between; until it is cleared, as before, also while it isn't in the site."""
    verbs, olga = house.service, house.operator
    here = changed_site(house.site, "gpu01", serial="SN 1")
    verbs.site.activate(olga, here.model_dump(mode="json"))
    verbs.nodes.quarantine(olga, "gpu01", "a guest may run there")
    gone = without(here, "gpu01")
    for _ in range(2):
        verbs.site.activate(olga, gone.model_dump(mode="json"))
    alias = renamed(here, "gpu01", "alias1", "gpu01" if what == "host" else "alias1")
    if what == "serial number":  # and other adapters
        node = alias.node_by_name["alias1"]
        hcas = tuple(
            h.model_copy(update={"guid": h.guid + 0x10000, "port_guid": h.port_guid + 0x10000})
            for h in node.hcas
        )
        alias = changed_site(alias, "alias1", hcas=hcas, serial="sn 1")
    with pytest.raises(ConflictError, match=f"alias1 has the {what} .* of gpu01, .*weft node clear gpu01"):
        verbs.site.activate(olga, alias.model_dump(mode="json"))
    verbs.site.activate(olga, here.model_dump(mode="json"))
    verbs.site.activate(olga, gone.model_dump(mode="json"))
    verbs.nodes.clear(olga, "gpu01")
    verbs.site.activate(olga, alias.model_dump(mode="json"))


PARTS: Mapping[str, Callable[[Node], dict[str, object]]] = {
    "accelerators": lambda n: {"accelerators": tuple(_moved(a) for a in n.accelerators)},
    "cores or memory": lambda n: {"memory_mib": (n.memory_mib or 1024) * 2},
    "NUMA nodes or sockets": lambda n: {"numa_nodes": n.numa + 1},
    "virtual functions": lambda n: {"hcas": tuple(_with_vf(h) for h in n.hcas)},
}


@pytest.mark.parametrize("what", PARTS)
def test_site_cannot_change_what_parts_are_counted_against(house: House, what: str) -> None:
    """Otherwise parts held by pods would be free under other addresses, and assigned twice."""
    pod = house.run(
        house.order(small("part", nodes={"accelerators": {"type": "h100", "count": 4}})), PodState.READY
    )
    (node,) = pod.nodes
    changed = changed_site(house.site, node, **PARTS[what](house.site.node_by_name[node])).model_dump(
        mode="json"
    )
    with pytest.raises(ConflictError, match=f"{node}'s {what} would change"):
        house.service.site.activate(house.operator, changed)
    for number in range(4):
        house.order(small(f"p{number}"))
    taken = [d for row in house.store.capacity().parts if row.node == node for d in row.part.devices]
    assert len(taken) == len(set(taken)) <= len(house.site.node_by_name[node].accelerators)


def _moved(one: Accelerator) -> Accelerator:
    return one.model_copy(update={"pci": one.pci.replace("0000:", "0001:", 1)})


def _with_vf(one: Hca) -> Hca:
    return one.model_copy(update={"vfs": one.vfs + 1})
