"""Isolation by links: which links partitions open on the simulated hardware, probed packet by packet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvipu.hardware.fabric import Fault
from openvipu.hardware.protocol import Hardware, HardwareError
from openvipu.hardware.simulated import PodPlan, SimulatedMachine, build_pod
from openvipu.model.errors import Refusal
from openvipu.model.hardware import IpuSetting, Setting
from openvipu.model.partition import Partition
from openvipu.model.site import Cluster
from openvipu.model.state import State
from openvipu.rules import links
from openvipu.rules.board import position_of
from tests.helpers.amounts import examples
from tests.openvipu.test_rules import LOOPED128, MESH16, SWITCHED256, TORUS64, admit, site, whole

PLANS = {
    16: (MESH16, PodPlan(1, 4, torus=False)),
    64: (TORUS64, PodPlan(1, 16, torus=True)),
    128: (LOOPED128, PodPlan(2, 16, torus=True)),
    256: (SWITCHED256, PodPlan(4, 16, torus=True, switched=True)),
}


def build(cluster: Cluster, plan: PodPlan):
    names = list(cluster.agent_ids)
    fabric, machines = build_pod(plan, names, ["10.5.1.1"] * len(names))
    return fabric, {machine.name: machine for machine in machines}


def configure(state: State, partition: Partition, machines: dict[str, SimulatedMachine]) -> list[str]:
    cluster = state.cluster(partition.cluster_id)
    serials = {name: machine.serial for name, machine in machines.items()}
    wanted = links.settings(partition, cluster, serials)
    for name, setting in wanted.items():
        machines[name].configure(setting)
    return [text for name in wanted for text in machines[name].train(partition.id, partition.generation)]


@settings(max_examples=examples(25))
@given(
    st.sampled_from(sorted(PLANS)),
    st.lists(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]), min_size=1, max_size=8),
    st.data(),
)
def test_packets_reach_exactly_the_partition(pod: int, sizes: list[int], data: st.DataObject) -> None:
    """Every IPU reaches every IPU of its partition and no other, whatever partitions there are."""
    cluster, plan = PLANS[pod]
    fabric, machines = build(cluster, plan)
    state = site(cluster, whole(cluster))
    owner: dict[tuple[str, int], str] = {}
    for number, size in enumerate(sizes):
        segments = data.draw(st.sampled_from([1, 2])) if cluster.ilds > 1 and size >= 8 else 0
        try:
            state, partition = admit(state, id=f"p{number}", size=size, segments=0 if size > 64 else segments)
        except Refusal:
            continue
        assert configure(state, partition, machines) == []
        owner |= {
            (machines[ipu.agent_id].serial, position_of(ipu.number)): partition.id for ipu in partition.ipus
        }
    nodes = [(machine.serial, position) for machine in machines.values() for position in range(4)]
    for source in data.draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=6)):
        mine = {node for node in owner if owner[node] == owner.get(source)} | {source}
        assert set(fabric.reach(source)) == mine


def test_idle_machine_passes_no_packets() -> None:
    """Without a partition no packet leaves an IPU, not even to its neighbour on the board."""
    fabric, machines = build(*PLANS[16])
    serial = machines["a0"].serial
    assert fabric.probe((serial, 0), (serial, 1)) is None
    assert fabric.probe((serial, 0), (serial, 0)) == 0


def test_wrapped_ring_links_its_first_and_last_machine() -> None:
    """RINGSWNC over 64 IPUs joins the ends: the first and the last machine are one link apart."""
    fabric, machines = build(*PLANS[64])
    state, partition = admit(site(TORUS64, whole(TORUS64)), id="p", size=64)
    configure(state, partition, machines)
    first, last = machines["a0"].serial, machines["a15"].serial
    assert fabric.probe((first, 0), (last, 2)) == 1


def test_simulated_machine_implements_hardware() -> None:
    _, machines = build(*PLANS[16])
    assert isinstance(machines["a0"], Hardware)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("dead-ipu", "a1", "2"), "a1: IPU 2 doesn't respond"),
        (Fault("bad-cable", "a0", "up0"), "a0: IPU-Link up0 is down"),
        (Fault("bad-cable", "a1", "down0"), "a0: IPU-Link up0 is down"),
    ],
)
def test_faults_are_found_by_training(fault: Fault, words: str) -> None:
    """A dead IPU, and a bad cable at either end."""
    fabric, machines = build(*PLANS[16])
    fabric.faults.add(fault)
    state, partition = admit(site(MESH16, whole(MESH16)), id="p", size=8)
    assert words in configure(state, partition, machines)


def test_machine_refuses_foreign_and_older_settings() -> None:
    """Foreign IPUs, foreign links, older settings and unknown links are refused; repeating is no error."""
    _, machines = build(*PLANS[16])
    one = Setting("p", 5, (IpuSetting(3, 0, 0), IpuSetting(2, 1, 0)), ("l01",), (), 1, 1)
    board = machines["a0"]
    board.configure(one)
    board.configure(one)
    for bad, words in [
        (replace(one, partition_id="q"), "IPU 2 of a0 belongs to partition 'p'"),
        (replace(one, generation=4), "newer setting 5"),
        (replace(one, open_links=("l23",)), "only the links of its own IPUs"),
        (replace(one, open_links=("up0",)), "only the links of its own IPUs"),
        (replace(one, open_links=("gw0",)), "only the links of its own IPUs"),
        (replace(one, open_links=("x",)), "link 'x' is not on this machine"),
        (replace(one, ipus=(IpuSetting(9, 0, 0),)), "IPUs 0 to 3"),
    ]:
        with pytest.raises(HardwareError, match=words):
            board.configure(bad)
    board.clear("p", 4)
    assert len(board.status().settings) == 1
    board.clear("p", 5)
    board.clear("p", 5)
    assert board.status().settings == ()
