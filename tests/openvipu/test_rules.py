"""Rules of shapes, placement and devices, tried on values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvipu.model.errors import BadRequest, NoRoom, Refusal
from openvipu.model.partition import (
    GatewayRouting,
    Partition,
    Requirements,
    Routing,
    Selection,
    SyncType,
)
from openvipu.model.site import Agent, Allocation, Cluster, ClusterTopology, Ipu, Machine, Topology
from openvipu.model.state import Settings, State
from openvipu.rules import admission, devices, placement
from openvipu.rules.shape import resolve
from tests.helpers.amounts import examples

MESH16 = Cluster("c", Topology.MESH, ClusterTopology.NONE, 1, tuple(f"a{i}" for i in range(4)))
TORUS64 = Cluster("c", Topology.TORUS, ClusterTopology.NONE, 1, tuple(f"a{i}" for i in range(16)))
LOOPED128 = Cluster("c", Topology.TORUS, ClusterTopology.LOOPED, 2, tuple(f"a{i}" for i in range(32)))
SWITCHED256 = Cluster("c", Topology.TORUS, ClusterTopology.SWITCHED, 4, tuple(f"a{i}" for i in range(64)))


def machine(name: str) -> Machine:
    chips = tuple(Ipu(number, f"{name}-{number}") for number in range(4))
    return Machine(
        f"serial-{name}", name, "IPU-M2000", "2.6.0", "2.6.0", f"10.5.1.{name[1:]}", 10000, 10001, chips
    )


def site(cluster: Cluster, *granted: Allocation) -> State:
    state = State(Settings("c", "k")).with_cluster(cluster)
    for id_ in cluster.agent_ids:
        state = state.with_agent(Agent(id_, "h", 8080, machine(id_)))
    for allocation in granted:
        state = state.with_allocation(allocation)
    return state


def whole(cluster: Cluster) -> Allocation:
    return Allocation("all", cluster.id, cluster.agent_ids)


def admit(state: State, **wanted: object) -> tuple[State, Partition]:
    requirements = Requirements(**wanted)  # type: ignore[arg-type]
    return admission.admit(state, requirements, admission.pools(state, requirements, None)[0], frozenset())


@pytest.mark.parametrize(
    ("cluster", "size", "routing", "segments", "gateway"),
    [
        (MESH16, 1, Routing.DNC, 1, GatewayRouting.UNDEFINED),
        (MESH16, 16, Routing.DNC, 1, GatewayRouting.UNDEFINED),
        (TORUS64, 16, Routing.DNC, 1, GatewayRouting.UNDEFINED),
        (TORUS64, 32, Routing.SWNC, 1, GatewayRouting.UNDEFINED),
        (TORUS64, 64, Routing.RINGSWNC, 1, GatewayRouting.UNDEFINED),
        (LOOPED128, 128, Routing.RINGSWNC, 2, GatewayRouting.RING),
        (SWITCHED256, 256, Routing.RINGSWNC, 4, GatewayRouting.SWRING),
    ],
)
def test_defaults_follow_size_and_topology(
    cluster: Cluster, size: int, routing: Routing, segments: int, gateway: GatewayRouting
) -> None:
    """Routing, segments and gateway routing are those that were seen on real PODs."""
    shape = resolve(Requirements("p", size=size), cluster)
    assert (shape.routing, shape.segments, shape.gw_routing) == (routing, segments, gateway)
    assert (shape.gcds, shape.replicas, shape.sync_type) == (1, 1, SyncType.POD_NATIVE_DEFAULT)


@pytest.mark.parametrize(
    ("cluster", "wanted", "words"),
    [
        (MESH16, {"size": 3}, "size 3 is not allowed"),
        (MESH16, {"size": 0}, "size 0 is not allowed"),
        (MESH16, {"size": 2**31}, "size 2147483648 is not allowed"),
        (MESH16, {"size": 32}, "size 32 needs 2 IPU-Link domains; cluster 'c' has 1"),
        (MESH16, {"size": 4, "gcds": 8}, "num_gcds 8 is more than the 4 IPUs"),
        (MESH16, {"size": 4, "gcds": 3}, "num_gcds 3 is not allowed"),
        (MESH16, {"size": 4, "gcds": 2, "replicas": 1}, "num_replicas 1 is not allowed"),
        (MESH16, {"size": 4, "routing": Routing.RINGSWNC}, "RINGSWNC needs a whole torus"),
        (MESH16, {"size": 2, "routing": Routing.SWNC}, "SWNC needs 4 IPUs"),
        (MESH16, {"size": 4, "routing": Routing.BTNC}, "BTNC needs 8 IPUs"),
        (TORUS64, {"size": 64, "routing": Routing.DNC}, "DNC reaches 16 IPUs"),
        (
            MESH16,
            {"size": 4, "gw_routing": GatewayRouting.RING},
            "gw_routing_type RING is for several segments",
        ),
        (LOOPED128, {"size": 128, "gw_routing": GatewayRouting.SWRING}, "use RING"),
        (LOOPED128, {"size": 4, "segments": 2}, "a segment of several has at least"),
        (LOOPED128, {"size": 128, "segments": 1}, "puts 128 IPUs in one IPU-Link domain"),
        (MESH16, {"size": 4, "sync_type": SyncType.GS2_INDEPENDENT_RAILS}, "is not supported"),
        (
            MESH16,
            {"size": 4, "reconfigurable": True, "sync_type": SyncType.POD_NATIVE_DEFAULT},
            "c2-compatible",
        ),
        (MESH16, {"size": 4, "ipus": (Selection(0, 0, 0, 0),)}, "cluster_id"),
        (MESH16, {"size": 2, "cluster_id": "c", "ipus": (Selection(0, 0, 0, 0),)}, "size is 2 but 1 ipus"),
    ],
)
def test_impossible_requirements_are_refused_with_the_field(
    cluster: Cluster, wanted: dict, words: str
) -> None:
    """Every rule of the shape refuses in one sentence with field and value."""
    with pytest.raises(BadRequest, match=words):
        resolve(Requirements("p", **wanted), cluster)


def test_reconfigurable_partition_has_a_c2_compatible_sync_type() -> None:
    assert resolve(Requirements("p", size=4, reconfigurable=True), MESH16).sync_type is SyncType.GS2_DEFAULT


def test_reconfigurable_partition_of_n_ipus_has_2n_minus_1_devices() -> None:
    """Of 4 IPUs: four singles, two pairs and one quad, numbered 0 to 6."""
    assert devices.device_table(4, True) == (
        (0, (0,)), (1, (1,)), (2, (2,)), (3, (3,)), (4, (0, 1)), (5, (2, 3)), (6, (0, 1, 2, 3)),
    )  # fmt: skip
    assert [len(devices.device_table(2**k, True)) for k in range(7)] == [2 ** (k + 1) - 1 for k in range(7)]
    assert devices.device_table(4, False) == ((0, (0, 1, 2, 3)),)


def test_routing_ids_count_down_the_ipus_of_a_machine() -> None:
    """Routing id 0 is the IPU with the highest number on the board."""
    _, partition = admit(site(MESH16, whole(MESH16)), id="p", size=4)
    assert [(ipu.routing_id, ipu.number) for ipu in partition.ipus] == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_gcds_share_the_partition_in_routing_order() -> None:
    """Two GCDs of eight IPUs have four devices each, and their id as a text attribute."""
    state, partition = admit(site(MESH16, whole(MESH16)), id="p", size=8, gcds=2)
    first, second = devices.gcds(partition, state.agents)
    assert [device.routing_id for device in first.devices] == [0, 1, 2, 3]
    assert [device.routing_id for device in second.devices] == [4, 5, 6, 7]
    assert [device.ipu_id for device in second.devices] == [0, 1, 2, 3]
    assert {device.ip for device in second.devices} == {"10.5.1.1"}
    assert dict(second.attributes)["GCD Id"] == "1"
    assert devices.gcds(partition, state.agents, 1) == (second,)
    with pytest.raises(BadRequest, match="GCDs 0 to 1"):
        devices.gcds(partition, state.agents, 2)


def test_best_fit_keeps_large_blocks_whole() -> None:
    """A small partition goes next to other small ones, not into a free block of 16."""
    state, first = admit(site(TORUS64, whole(TORUS64)), id="one", size=1)
    state, second = admit(state, id="two", size=2)
    state, third = admit(state, id="three", size=4)
    state, fourth = admit(state, id="four", size=32)
    assert first.agent_ids == second.agent_ids == ("a0",)
    assert third.agent_ids == ("a1",)
    assert fourth.agent_ids == tuple(f"a{i}" for i in range(8, 16))


def test_refusal_for_lack_of_room_counts_used_and_unhealthy_ipus() -> None:
    state, _ = admit(site(MESH16, whole(MESH16)), id="one", size=8)
    pool = admission.pools(state, Requirements("p", size=8), None)[0]
    with pytest.raises(
        NoRoom,
        match=r"no free slot of 8 IPUs in allocation 'all': 8 of its 16 IPUs are in use, 1 are not healthy \(a3\)",
    ):
        admission.admit(state, Requirements("p", size=8), pool, frozenset({("a3", 0)}))
    with pytest.raises(NoRoom, match="no aligned run of that size"):
        small = replace(pool, agent_ids=frozenset({"a1", "a2"}))
        admission.admit(state, Requirements("p", size=8), small, frozenset())


def test_exact_ipus_must_be_adjacent() -> None:
    """IPUs can be chosen if they are a run of neighbours, with openvipu's routing ids or none."""
    state = site(MESH16, whole(MESH16))
    good = tuple(Selection(0, 0, topology_id, 0) for topology_id in (4, 5, 6, 7))
    assert admit(state, id="p", size=4, cluster_id="c", ipus=good)[1].agent_ids == ("a1",)
    numbered = tuple(Selection(0, 0, 4 + place, place) for place in range(4))
    state, _ = admit(state, id="p", size=0, cluster_id="c", ipus=numbered)
    for ipus, words in [
        (tuple(Selection(0, 0, place, 0) for place in (1, 2)), "not a run of"),
        (tuple(Selection(0, 0, 0, 0) for _ in range(2)), "names an IPU twice"),
        (
            (Selection(0, 0, 0, 1), Selection(0, 0, 1, 0)),
            "must have ipulink_domain_routing_id 0 and routing_id 0",
        ),
        ((Selection(7, 0, 0, 0),), "not a run of"),
        (tuple(Selection(0, 0, place, 0) for place in (2, 3, 4, 5)), "not a run of"),
        (tuple(Selection(0, 0, place, 0) for place in (12, 13, 14, 15, 0, 1, 2, 3)), "not a run of"),
        (tuple(Selection(0, 0, place, 0) for place in (14, 15, 16, 17)), "not a run of"),
    ]:
        with pytest.raises(BadRequest, match=words):
            admit(state, id="q", cluster_id="c", ipus=ipus)
    with pytest.raises(NoRoom, match="are not free"):
        admit(state, id="q", cluster_id="c", ipus=good)


requests = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 256]), st.booleans()),
    max_size=60,
)


@settings(max_examples=examples(60))
@given(st.sampled_from([MESH16, TORUS64, LOOPED128, SWITCHED256]), requests)
def test_placement_never_overlaps_and_frees_everything(cluster: Cluster, wishes: list) -> None:
    """Under any sequence of creates and removes slots are disjoint, aligned and connected, and all are freed."""
    empty = site(cluster, whole(cluster))
    state = empty
    for name, size, remove in wishes:
        id_ = f"p{name}"
        if remove:
            state = state.without_partition(id_)
            continue
        try:
            state, partition = admit(state, id=id_, size=size)
        except Refusal:
            continue
        _check_slot(cluster, partition, size)
        sites = [site for entry in state.partitions.values() for site in placement.slot_of(entry)]
        assert len(sites) == len(set(sites))
    for id_ in list(state.partitions):
        state = state.without_partition(id_)
    if cluster.ild_size * cluster.ilds <= 256:
        assert (
            len(admit(state, id="all", size=cluster.ild_size * cluster.ilds)[1].ipus)
            == len(cluster.agent_ids) * 4
        )


def _check_slot(cluster: Cluster, partition: Partition, size: int) -> None:
    assert len(partition.ipus) == size
    width = partition.shape.segment_size
    for segment in range(partition.shape.segments):
        ids = [ipu.topology_id for ipu in partition.ipus if ipu.segment == segment]
        assert ids == list(range(ids[0], ids[0] + width))
        assert ids[0] % width == 0
    assert {ipu.ild for ipu in partition.ipus} <= set(range(cluster.ilds))
    if size < 4:
        assert len(partition.agent_ids) == 1


@settings(max_examples=examples(40))
@given(st.lists(st.sampled_from([1, 2, 4, 8, 16]), max_size=20), st.sampled_from([1, 2, 4, 8, 16]))
def test_free_option_can_be_created_and_a_taken_one_is_refused(sizes: list[int], size: int) -> None:
    """An option that --options calls free can be created by its exact IPUs; a taken one is refused."""
    state = site(MESH16, whole(MESH16))
    for number, entry in enumerate(sizes):
        try:
            state, _ = admit(state, id=f"p{number}", size=entry)
        except NoRoom:
            continue
    found = admission.options(state, Requirements("q", size=size), None, frozenset())
    assert [option.index for option in found] == list(range(16 // size))
    for option in found:
        ipus = tuple(Selection(ipu.ild, ipu.segment, ipu.topology_id, ipu.routing_id) for ipu in option.ipus)
        wanted = Requirements("q", cluster_id="c", ipus=ipus)
        if option.free:
            assert admission.admit(state, wanted, option.pool, frozenset())[1].ipus == option.ipus
        else:
            with pytest.raises(NoRoom):
                admission.admit(state, wanted, option.pool, frozenset())
    preferred = [option for option in found if option.preferred]
    assert len(preferred) == (1 if any(option.free for option in found) else 0)
