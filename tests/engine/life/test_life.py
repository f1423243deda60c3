"""A pod's life on fakes, with the real database, verbs and loop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping, Sequence

import pytest

from tests.engine.house import ORDER, House, impatient
from weft.engine.base.database import Database
from weft.engine.rows.records import RowState
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, NotFoundError, RefusedError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind, Observed, Resource
from weft.model.views import AuditLogSearch
from weft.ports.resources import Scope
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def test_ordered_pod_becomes_ready(house: House) -> None:
    """From order to READY: servers on their hosts, the P_Key exactly on the members."""
    pod = house.ready()
    kinds = {t.kind for t in house.cloud.things()}
    assert Kind.SERVER in kinds and Kind.NETWORK in kinds
    members = {h.port_guid for n in pod.nodes for h in house.site.node_by_name[n].hcas_on("ib0")}
    key = 0x8000 | (pod.plan.segment or 0)
    with_key = {guid for guid, table in house.fabric.tables().items() if key in table.keys}
    assert with_key == members and len(members) == 4
    assert all(r.state is RowState.SETTLED for r in house.store.pods.resources(pod.id))


def test_release_leaves_nothing_and_proves_it(house: House) -> None:
    """Cloud and fabric are as before; the receipt is signed and verifies; the nodes are free."""
    pod = house.ready()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.cloud.things()
    assert not any((pod.plan.segment or 0) | 0x8000 in t.keys for t in house.fabric.tables().values())
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean
    assert {i.plane for i in receipt.receipt.items} >= {
        "server",
        "port",
        "p_key host",
        "p_key leaf",
        "database",
    }
    assert verify(receipt.model_dump(mode="json"), receipt.public_key).valid
    assert not house.store.capacity().holds


def test_name_can_be_used_once_at_a_time(house: House) -> None:
    """A second pod of that name is refused while the first lives, and possible afterwards."""
    pod = house.order()
    with pytest.raises(ConflictError, match="train"):
        house.order()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.order()


def test_two_pods_have_different_nodes_segments_and_subnets(house: House) -> None:
    """Their P_Keys, VLANs and subnets, too."""
    first = house.ready()
    second = house.ready(ORDER.model_copy(update={"name": "other"}))
    assert not set(first.nodes) & set(second.nodes)
    a, b = first.plan.allotment, second.plan.allotment
    assert first.plan.segment != second.plan.segment and first.plan.vlan != second.plan.vlan
    assert a.rdma_cidr != b.rdma_cidr and a.management_cidr != b.management_cidr


def test_order_of_too_many_nodes_is_refused_with_a_reason(house: House) -> None:
    """Nothing is claimed or created, and the refusal explains itself."""
    with pytest.raises(RefusedError) as caught:
        house.order(count=17)
    assert caught.value.detail["explanation"]
    assert not house.store.capacity().holds and not house.cloud.things()


def test_order_over_quota_is_refused_without_effect(house: House) -> None:
    """The refusal has the numbers."""
    house.cloud.offers.quotas["team-a", "servers"] = 1
    with pytest.raises(RefusedError, match=r"servers: 0 used \+ 2 requested > 1"):
        house.order()
    assert not house.cloud.things() and not house.store.pods.live()


def test_resource_of_a_lost_answer_is_found_again(house: House) -> None:
    """Ports and servers whose creation wasn't answered exist once in the end."""
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.PORT, verb="create")
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, verb="create")
    pod = house.ready()
    names = [t.name for t in house.cloud.things()]
    assert len(names) == len(set(names))
    assert sum(t.kind is Kind.SERVER for t in house.cloud.things()) == 2
    assert any(e.type == "error" for e in house.store.records.events(pod.id, 0))


def test_broken_server_is_recreated(house: House) -> None:
    """One that Nova reports in ERROR; the reason is in the events."""
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, reason="No valid host was found.")
    pod = house.ready()
    assert any("No valid host" in e.message for e in house.store.records.events(pod.id, 0))
    assert sum(t.kind is Kind.SERVER for t in house.cloud.things()) == 2


def test_always_breaking_server_fails_the_pod(house: House) -> None:
    """After a few tries the pod is FAILED, says why, keeps its nodes, and can be released."""
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    assert "No valid host" in pod.reason
    assert set(house.store.capacity().holds) == set(pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)


def test_release_while_building_removes_everything(house: House) -> None:
    """A release requested while a server never boots takes everything back."""
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    pod = house.order()
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.BOOTING
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.cloud.things()


def test_second_release_request_changes_nothing(house: House) -> None:
    """Nor does one after the release has ended."""
    pod = house.ready()
    house.release(pod)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.release(pod)
    assert sum(e.type == "receipt" for e in house.store.records.events(pod.id, 0)) == 1


def test_capacity_is_returned_last(house: House) -> None:
    """While a server can't be deleted its nodes are held; no other pod gets them."""
    pod = house.ready()
    planted = house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    house.release(pod)
    for _ in range(3):
        house.worker.run_once()
    assert set(house.store.capacity().holds) == set(pod.nodes)
    planted.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    house.run(pod, PodState.RELEASED)


def test_unclean_node_is_quarantined_at_the_limit(database: Database, database_url: str) -> None:
    """Past the limit the sick node is quarantined, the other is given back; nothing is released that isn't clean."""
    house = House(database, database_url)
    pod = house.ready()
    sick = pod.nodes[0]
    house.cloud.plant(Fault.UNDELETABLE, key=f"server/{sick}", times=None)
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    for _ in range(2):
        house.store.wake(pod.id)
        house.worker.run_once()
    capacity = house.store.capacity()
    assert sick in capacity.quarantines and "server" in capacity.quarantines[sick].reason
    assert set(capacity.holds) == {sick}
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASING
    house.close()


def test_changed_port_degrades_the_pod(house: House) -> None:
    """The reason has what was seen and what was wanted."""
    pod = house.ready()
    house.cloud.thing(f"server/{pod.nodes[0]}").fields["host"] = "gpu16"
    house.store.wake(pod.id)
    house.worker.run_once()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.DEGRADED and "gpu16" in pod.reason


def test_server_deleted_by_its_tenant_is_not_recreated(house: House) -> None:
    """The pod is DEGRADED; only an operator's repair recreates the server."""
    pod = house.ready()
    house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.DEGRADED
    assert sum(t.kind is Kind.SERVER for t in house.cloud.things()) == 1
    house.store.request_repair(pod.id)
    house.run(pod, PodState.READY)
    assert sum(t.kind is Kind.SERVER for t in house.cloud.things()) == 2


def test_site_cannot_change_the_adapters_of_a_held_node(house: House) -> None:
    """Another adapter in a node of a live pod is refused, and nothing is changed; in a free node it is accepted."""
    pod = house.ready()

    def changed(name: str) -> dict[str, object]:
        document = house.site.model_dump(mode="json")
        node = next(n for n in document["nodes"] if n["name"] == name)
        node["hcas"][0] |= {"guid": "0x0002c903000faced", "port_guid": "0x0002c903000facee"}
        return document

    with pytest.raises(ConflictError, match=f"{pod.nodes[0]}'s host or adapters .* release the pod first"):
        house.service.site.activate(house.operator, changed(pod.nodes[0]))
    assert house.store.site().generation == 1
    free = next(n.name for n in house.site.nodes if n.name.startswith("gpu") and n.name not in pod.nodes)
    assert house.service.site.activate(house.operator, changed(free)).generation == 2


def test_pod_is_invisible_to_another_project(house: House) -> None:
    """By name and by id, with the same sentence as for a pod that doesn't exist."""
    pod = house.order()
    stranger = house.request("team-b")
    for name in (pod.name, str(pod.id)):
        with pytest.raises(NotFoundError, match="there is no pod"):
            house.service.pods.show(stranger, name)
        with pytest.raises(NotFoundError):
            house.service.pods.release(stranger, name)
    assert house.service.pods.list(stranger) == []


def test_audit_log_records_every_change(house: House) -> None:
    """Refused ones, too."""
    house.order()
    with pytest.raises(ConflictError):
        house.order()
    entries = house.store.records.audit_log(AuditLogSearch(action="pod create"))
    assert [e.outcome.split(":")[0] for e in entries] == ["ConflictError", "done"]


Find = Callable[[Scope, Sequence[Resource], Mapping[str, str]], Mapping[str, Observed]]
FOREIGN = Mark("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "server/gpu01")


@pytest.mark.parametrize("mark", [FOREIGN, None])
def test_tenants_marks_do_not_protect_resources(house: House, mark: Mark | None) -> None:
    """Another pod's mark on everything of the pod: no clean receipt before all of it is gone."""
    pod = house.ready()
    for thing in house.cloud.things():
        thing.mark = mark
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.cloud.things()
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean


def test_changed_mark_is_reported_and_restored(house: House) -> None:
    """A description that changed is a difference: the events say so, and the next look has repaired it."""
    pod = house.ready()
    network = house.cloud.thing("network/rdma")
    network.mark = FOREIGN
    house.store.wake(pod.id)
    house.worker.run_once()
    assert network.mark is not None and network.mark.owner.id == str(pod.id)
    assert any("mark is" in e.message for e in house.store.records.events(pod.id, 0))
    assert len(house.cloud.things(Kind.NETWORK)) == 2


def test_no_receipt_while_a_server_remains(house: House) -> None:
    """Whatever the tenant wrote on it: while it is there, there is no receipt."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    for thing in house.cloud.things():
        thing.mark = FOREIGN
    house.release(pod)
    house.run(pod, PodState.RELEASING)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.records.receipt(pod.id) is None and set(pod.nodes) <= set(house.store.capacity().holds)


def test_missing_answer_of_a_driver_is_not_absence(house: House) -> None:
    """The release waits, and says about which resource the driver answered nothing."""
    pod = house.ready()
    honest = house.world.resources["lab"].find
    silent = functools.partial(_without_servers, honest)
    house.cloud.find = silent
    house.release(pod)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    seen = house.store.pods.find(str(pod.id), None)
    assert seen.state is PodState.RELEASING and "returned no result" in seen.reason
    house.cloud.find = honest
    house.run(pod, PodState.RELEASED)


def _without_servers(
    find: Find, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
) -> Mapping[str, Observed]:
    return {key: seen for key, seen in find(scope, wanted, ids).items() if not key.startswith("server/")}
