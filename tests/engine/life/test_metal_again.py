"""Bare-metal machines redeployed by a tenant or an operator: how soon they are out of the segment."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.engine.house import House
from tests.engine.metalhouse import ORDER, members, ports, visit
from tests.engine.metalhouse import house as house
from weft.engine.base import asking
from weft.engine.base.pulse import Pulse
from weft.engine.nodes.machinekeeper import MachineKeeper
from weft.model.pod import PodState
from weft.testing.cloud import FakeCloud, Fault


def test_redeployed_machine_is_out_of_the_segment_meanwhile(house: House) -> None:
    """A rebuild by Nova: the server keeps its id and its place, and Ironic's agent runs on the machine."""
    pod = house.ready(ORDER)
    again, other = pod.nodes
    machine = house.site.node_by_name[again].machine or ""
    house.cloud.offers.busy[machine] = "Ironic has it in state deploying"
    pod = visit(house, pod, 2)
    assert members(house, pod) == ports(house, (other,))
    assert pod.state is PodState.DEGRADED and "doesn't run the pod's server now" in pod.reason
    assert len(house.cloud.servers) == 2  # nothing of the tenant's is removed because of that
    del house.cloud.offers.busy[machine]
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_pod_is_visited_at_once_when_its_machine_is_redeployed(house: House) -> None:
    """Other READY pods are visited once a minute; by then Ironic's agent may have booted."""
    pod = house.ready(ORDER)
    keeper = MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=0.0)
    keeper.look()
    assert not house.worker.run_once()
    house.cloud.offers.busy[house.site.node_by_name[pod.nodes[0]].machine or ""] = "Ironic has it deploying"
    keeper.look()
    assert house.worker.run_once()
    assert members(house, pod) == ports(house, pod.nodes[1:])
    with house.database.statement() as tx:
        due = tx.rows("wake_busy", nodes=list(pod.nodes[:1]))
    assert not due, "it is known by now"


def test_recently_changed_machines_are_queried_between_listings(house: House) -> None:
    """A listing of thousands takes its time; what is deployed again must be out before it has booted."""

    def look(times: int) -> tuple[int, int]:
        """How often all were listed, and asked which changed."""
        before = [house.cloud.calls[verb] for verb in ("occupants", "changes")]
        for _ in range(times):
            keeper.look()
        listed, asked = (
            house.cloud.calls[v] - n for v, n in zip(("occupants", "changes"), before, strict=True)
        )
        return listed, asked

    keeper = MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=3600.0, briefly=0.0)
    assert look(3) == (1, 0), "no pod is affected"
    pod = house.ready(ORDER)
    assert look(1) == (0, 1) and not house.worker.run_once()
    house.cloud.plant(Fault.UNREACHABLE, verb="changes", times=1)
    house.cloud.offers.busy[house.site.node_by_name[pod.nodes[0]].machine or ""] = "Ironic has it deploying"
    assert look(1) == (0, 1) and not house.worker.run_once()
    assert look(1) == (0, 1) and house.worker.run_once()
    assert members(house, pod) == ports(house, pod.nodes[1:])


@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_unreachable_cloud_does_not_delay_others(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Nor does weft report itself unhealthy: one Ironic is down for an upgrade, and nothing else is."""
    pod, pulse = house.ready(ORDER), Pulse()
    silent = FakeCloud(seed=2, name="aaa", latency=0.0)
    silent.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    world = replace(house.world, clouds={"aaa": silent, **house.world.clouds})
    mine = house.site.node_by_name[pod.nodes[0]]
    other = next(n for n in house.site.nodes if n.machine and n.name not in pod.nodes)
    found = house.site.model_copy(update={"nodes": (other.model_copy(update={"cloud": "aaa"}), mine)})
    house.cloud.offers.busy[mine.machine or ""] = "Ironic has it deploying"
    keeper = MachineKeeper(house.database, lambda: world, lambda: found, pulse)
    goes_on = threading.Event()
    if how == "hangs":
        monkeypatch.setattr(asking, "PATIENCE", 0.05)
        monkeypatch.setattr(silent, "seen_machines", lambda: goes_on.wait(60) and {})
    keeper.look()
    assert house.worker.run_once() and members(house, pod) == ports(house, pod.nodes[1:])
    assert not [said for said in pulse.checks().values() if said != "ok"]
    goes_on.set()


def test_machines_are_listed_by_one_worker_even_without_pods(house: House) -> None:
    """The cleaning of a machine that was never assigned is watched, too."""

    def keeper(every: float) -> MachineKeeper:
        return MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=every)

    before = house.cloud.calls["occupants"]
    for worker in [keeper(3600.0) for _ in range(3)]:
        worker.look()
    assert house.cloud.calls["occupants"] == before + 1


def test_redeployed_machine_keeps_its_state_while_ironic_is_silent(house: House) -> None:
    pod = house.ready(ORDER)
    house.cloud.offers.unreadable.add(house.site.node_by_name[pod.nodes[0]].machine or "")
    pod = visit(house, pod, 2)
    assert pod.state is PodState.DEGRADED and members(house, pod) == ports(house, pod.nodes)


def test_redeployed_machine_is_out_although_nova_is_silent(house: House) -> None:
    """An operator has it rescued during an upgrade of Nova: Ironic's word alone says that the pod's server is off."""
    pod = house.ready(ORDER)
    machine = house.site.node_by_name[pod.nodes[0]].machine or ""
    house.cloud.offers.unreadable.add(machine)
    house.cloud.offers.busy[machine] = "Ironic has it in state rescuing"
    pod = visit(house, pod, 2)
    assert pod.state is PodState.DEGRADED and members(house, pod) == ports(house, pod.nodes[1:])
    house.cloud.offers.unreadable.clear()
    house.cloud.offers.busy.clear()
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)
