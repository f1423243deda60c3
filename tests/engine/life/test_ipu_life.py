"""An IPU pod's life on fakes, with the real database, verbs and loop."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import ORDER, impatient, stood_still
from tests.engine.ipuhouse import POD, IpuHouse, order
from tests.helpers.capacities import rows_of
from weft.app.shown import shown
from weft.engine.base.database import Database
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.store.podkeys import DerivedKeys
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, RefusedError
from weft.model.pod import PodState
from weft.planning.shapes.ipu.init import controller_id
from weft.testing.cloud import SERVICE_PROJECT, Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def test_ipu_pod_works_from_order_to_receipt(house: IpuHouse) -> None:
    """READY only after the tenant's proof; after release no machine is bound, and the receipt has every plane."""
    pod = house.run(house.order(order()), PodState.BOOTING)
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is not PodState.READY
    house.vipu.boot(pod.scope, pod.plan.graph)
    pod = house.run(pod, PodState.READY)
    assert house.vipu.proofs == 1
    owners = {t.mark.key: t.project_id for t in house.cloud.things() if t.mark}
    assert owners["server/controller"] == SERVICE_PROJECT != owners["server/poplar1"]
    house.vipu.make_partition(str(pod.id), "mine")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.cloud.things() and not house.vipu.unfit()
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and signed.receipt.segment == ""
    planes = {i.plane for i in signed.receipt.items}
    assert planes >= {
        "vipu_user",
        "vipu_allocation",
        "vipu_cluster",
        "vipu_agent",
        "server",
        "port",
        "network",
    }
    assert verify(signed.model_dump(mode="json"), signed.public_key).valid
    capacity = house.store.capacity()
    assert not capacity.holds and not capacity.used.spaces


def test_two_ipu_pods_have_different_machines_vlans_and_addresses(house: IpuHouse) -> None:
    """Machines, VLANs, controllers' addresses and places on shared hosts are one pod's."""
    first, second = house.booted(order(count=8)), house.booted(order("other", 8))
    assert not set(first.nodes) & set(second.nodes)
    a, b = first.plan.allotment.numbers, second.plan.allotment.numbers
    assert set(a) == set(b) and all(a[space] != b[space] for space in a)
    with pytest.raises(RefusedError, match="no free run of 1 IPU-Machine"):
        house.order(order("third", 4))


def test_keys_are_never_stored(house: IpuHouse) -> None:
    """Neither rows nor plan nor events contain one; a pod always gets the same key."""
    pod = house.booted()
    keys = [DerivedKeys(house.store).key(str(pod.id), n) for n in ("vipu-admin-key", "vipu-tenant-key")]
    assert keys == [
        DerivedKeys(house.store).key(str(pod.id), n) for n in ("vipu-admin-key", "vipu-tenant-key")
    ]
    assert keys[0] != keys[1] != DerivedKeys(house.store).key("another", "vipu-tenant-key")
    events = [e.message for e in house.store.records.events(pod.id, 0)]
    documents = [r.resource.model_dump_json() for r in house.store.pods.resources(pod.id)]
    text = "".join([*events, *documents, pod.plan.model_dump_json()])
    assert not any(key in text for key in keys)


def test_tenants_plan_hides_the_sites_own_parts(house: IpuHouse) -> None:
    """A tenant's plan has its own machines and networks, and no address or user data on the gateways' side."""
    plan = house.service.pods.plan(house.request(), order())
    text = json.dumps(shown(plan).model_dump(mode="json"))
    gateway = house.site.ipu_pods[POD].gateway
    assert str(gateway.controllers[1]) not in text and gateway.network not in text
    assert not any(str(m.gw_address) in text for m in house.site.ipu_machines)
    assert "openvipu-server" not in text and "10.64.0.17" in text


def test_worker_that_lost_the_pod_proves_nothing(house: IpuHouse) -> None:
    """The pod may be released by then, and its machines another pod's."""
    pod = house.run(house.order(order()), PodState.BOOTING)
    house.vipu.boot(pod.scope, pod.plan.graph)

    def taken_over() -> None:
        stood_still(house.database)
        sql(house, "UPDATE pod SET token = token + 1, held_until = NULL WHERE id = %s", pod.id)

    house.vipu.meanwhile = taken_over
    house.store.wake(pod.id)
    assert house.worker.run_once() and not house.vipu.proofs
    house.vipu.meanwhile = lambda: None
    house.run(pod, PodState.READY)
    assert house.vipu.proofs == 1


def test_lost_controller_degrades_without_delaying_the_release(house: IpuHouse) -> None:
    """Unknown isn't healthy; weft unbinds the machines in the controller's place."""
    pod = house.booted()
    house.vipu.lose_controller(str(pod.id))
    house.store.wake(pod.id)
    house.worker.run_once()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.DEGRADED and pod.reason.startswith("unknown: ")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.vipu.unfit()


def test_unclean_machine_is_kept(house: IpuHouse) -> None:
    """The V-IPU agent of one is away when the release is overdue: that machine is quarantined, and the others are
    freed."""
    pod = house.booted()
    away = pod.nodes[1]
    house.vipu.away.add(away)
    house.worker = house.new_worker("hasty", impatient())
    house.release(pod)
    for _ in range(10):
        house.store.wake(pod.id)
        house.worker.run_once()
    capacity = house.store.capacity()
    assert set(capacity.quarantines) >= {away} and set(capacity.holds) <= set(capacity.quarantines)


def test_unbound_machine_with_a_partition_is_not_clean(house: IpuHouse) -> None:
    """An agent forgot its controller, which is gone, and the machine can't be cleared."""
    pod = house.booted()
    house.vipu.make_partition(str(pod.id), "mine")
    forgetful = pod.nodes[1]
    house.vipu.owners[forgetful] = ""
    house.vipu.stuck.add(forgetful)
    house.vipu.lose_controller(str(pod.id))
    house.worker = house.new_worker("hasty", impatient())
    house.release(pod)
    for _ in range(10):
        house.store.wake(pod.id)
        house.worker.run_once()
    capacity = house.store.capacity()
    assert set(capacity.quarantines) >= {forgetful} and set(capacity.holds) <= set(capacity.quarantines)
    assert house.vipu.settings[forgetful] == {"mine"}


@pytest.mark.parametrize("lost", [False, True])
def test_release_clears_what_a_forgetful_agent_left(house: IpuHouse, lost: bool) -> None:
    """No controller could clear an unbound machine: weft claims it for that; the receipt is true."""
    pod = house.booted()
    house.vipu.make_partition(str(pod.id), "mine")
    house.vipu.owners[pod.nodes[1]] = ""
    if lost:
        house.vipu.lose_controller(str(pod.id))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.vipu.unfit() and not any(house.vipu.settings.values())
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_disagreeing_controller_and_agents_are_reconciled(house: IpuHouse) -> None:
    """An agent that forgot its controller is bound again; one that the controller forgot is listed again."""
    pod = house.booted()
    house.vipu.owners[pod.nodes[0]] = ""
    del house.vipu.controllers[str(pod.id)].has[f"vipu_agent/{pod.nodes[1]}"]
    for _ in range(5):
        house.store.wake(pod.id)
        house.worker.run_once()
    pod = house.run(pod, PodState.READY)
    assert set(house.vipu.owners.values()) == {controller_id(str(pod.id))}
    assert f"vipu_agent/{pod.nodes[1]}" in house.vipu.controllers[str(pod.id)].has


def test_release_reaches_an_agent_that_its_controller_forgot(house: IpuHouse) -> None:
    """The controller's answer isn't enough: its machine is asked, too."""
    pod = house.booted()
    del house.vipu.controllers[str(pod.id)].has[f"vipu_agent/{pod.nodes[1]}"]
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.vipu.unfit()


def test_held_machine_keeps_its_addresses(house: IpuHouse) -> None:
    """Another machine would answer for it at another address; a free machine may move."""
    house.booted(order(count=4))
    one, two, *others = house.site.ipu_machines
    fields = {"gw_address", "gw_mac"}
    swapped = (
        one.model_copy(update=two.model_dump(include=fields)),
        two.model_copy(update=one.model_dump(include=fields)),
    )
    site = house.site.model_copy(update={"ipu_machines": (*swapped, *others)})
    with pytest.raises(ConflictError, match=r"ipum1's .*would change, and pod bert"):
        house.service.site.activate(house.operator, site.model_dump(mode="json"))
    moved = two.model_copy(update={"agent_port": two.agent_port + 1})
    site = house.site.model_copy(update={"ipu_machines": (one, moved, *others)})
    house.service.site.activate(house.operator, site.model_dump(mode="json"))


def test_audit_finds_machines_bound_to_a_released_pod(house: IpuHouse) -> None:
    """A leftover bears the pod's id; repair releases it."""
    pod = house.booted()
    assert not house.service.audits.run(house.operator).findings
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    left = house.site.ipu_machines[2].name
    house.vipu.owners[left] = controller_id(str(pod.id))
    finding = house.service.audits.run(house.operator).findings[0]
    assert (finding.category, finding.kind, finding.where) == ("orphan", "vipu_agent", POD)
    assert left in finding.subject and finding.pod_id == str(pod.id)
    with pytest.raises(RefusedError, match="longest run of them is 2"):
        house.order(order("next"))
    assert all(f.repaired for f in house.service.audits.run(house.operator, repair=True).findings)
    # It is gone again, and is reported for a day: the receipt had said that it was gone.
    assert [(f.category, f.repaired) for f in house.service.audits.run(house.operator).findings] == [
        ("late", True)
    ]


def test_broken_controller_is_recreated(house: IpuHouse) -> None:
    """Nova's ERROR on its virtual machine is not final: it is deleted and recreated."""
    house.cloud.plant(Fault.BROKEN, key="server/controller", reason="No valid host was found.")
    assert house.booted().state is PodState.READY


def test_operators_see_machines_as_nodes(house: IpuHouse) -> None:
    """They are listed, can be quarantined, and a site can't lose one that a pod holds."""
    pod = house.booted(order(count=4))
    rows = {n.name: n for n in house.service.nodes.list(house.operator)}
    assert (rows["ipum1"].state, rows["ipum2"].state, rows["poplar1"].state) == (
        "busy",
        "free",
        "not-compute",
    )
    house.service.nodes.quarantine(house.operator, "ipum2", "cable")
    with pytest.raises(RefusedError):
        house.order(order("wide", 16))
    assert pod.nodes == ("ipum1",)
    smaller = house.site.model_copy(update={"ipu_machines": house.site.ipu_machines[1:]})
    with pytest.raises(ConflictError, match="ipum1 is missing"):
        house.service.site.activate(house.operator, smaller.model_dump(mode="json"))
    machines = tuple(
        m.model_copy(update={"name": "alias2"}) if m.name == "ipum2" else m for m in house.site.ipu_machines
    )
    renamed = house.site.model_copy(update={"ipu_machines": machines})
    with pytest.raises(ConflictError, match=r"alias2 has the BMC .* of ipum2, which is in quarantine"):
        house.service.site.activate(house.operator, renamed.model_dump(mode="json"))


def test_live_ipu_pod_does_not_disturb_node_orders(house: IpuHouse) -> None:
    """It affects neither waiting orders nor the view of capacity."""
    before = rows_of(house.service.capacity.show(house.request()), "nodes")
    house.booted()
    assert rows_of(house.service.capacity.show(house.request()), "nodes") == before
    waiting = house.order(ORDER.model_copy(update={"queue": True}))
    dispatcher = Dispatcher(house.store, house.keeper.world)
    assert dispatcher.run() == ["train"]
    house.run(waiting, PodState.READY)
