"""Rules of clusters, allocations, visibility and a partition's states, tried on values."""

from __future__ import annotations

import pytest

from openvipu.model.errors import BadRequest, Conflict, NoRoom, NotFound
from openvipu.model.partition import (
    Operation,
    ReadyState,
    Requirements,
)
from openvipu.model.site import Allocation
from openvipu.rules import admission, allocations, clusters, lifecycle
from tests.openvipu.test_rules import MESH16, TORUS64, admit, site, whole


def test_user_sees_only_its_own_allocations() -> None:
    """Another's allocation answers like one that doesn't exist; a user without any has no free allocation."""
    state = site(MESH16, Allocation("mine", "c", ("a0", "a1")), Allocation("theirs", "c", ("a2",)))
    found = admission.pools(state, Requirements("p", size=4), {"mine"})
    assert [pool.allocation_id for pool in found] == ["mine"]
    with pytest.raises(NotFound, match="allocation 'theirs' doesn't exist"):
        admission.pools(state, Requirements("p", size=4, allocation_id="theirs"), {"mine"})
    with pytest.raises(NoRoom, match="no free allocation"):
        admission.pools(state, Requirements("p", size=4), ())
    everything = admission.pools(state, Requirements("p", size=4), None)
    assert [pool.words for pool in everything] == ["allocation 'mine'", "allocation 'theirs'", "cluster 'c'"]


def test_allocations_are_disjoint_runs_of_machines() -> None:
    """An allocation by size is an aligned free run; no two allocations share a machine."""
    state = site(TORUS64)
    first = allocations.by_size(state, "one", "c", 16)
    state = state.with_allocation(first)
    second = allocations.by_size(state, "two", "", 16)
    assert first.agent_ids == ("a0", "a1", "a2", "a3")
    assert second.agent_ids == ("a4", "a5", "a6", "a7")
    with pytest.raises(NoRoom, match="no free allocation of 64 IPUs in cluster 'c'"):
        allocations.by_size(state, "three", "c", 64)
    with pytest.raises(NoRoom, match="no free allocation: agent 'a1' is in allocation 'one'"):
        allocations.by_agents(state, "three", "c", ["a1", "a9"])
    with pytest.raises(BadRequest, match="size 6"):
        allocations.by_size(state, "three", "c", 6)
    state, _ = admit(state.with_allocation(second), id="p", size=4, allocation_id="two")
    with pytest.raises(Conflict, match="in use by partition 'p'"):
        allocations.without(state, "two")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mesh", "none", 1, ()), "agent_ids is empty"),
        (("mesh", "none", 1, ("a0", "a0")), "names an agent twice"),
        (("mesh", "none", 1, ("a0", "a1", "a2")), "same power of two"),
        (("mesh", "none", 2, ("a0", "a1")), "cluster_topology none can't join 2"),
        (("ring", "none", 1, ("a0",)), "topology 'ring' is not allowed; use one of mesh, torus"),
        (("mesh", "tree", 1, ("a0",)), "cluster_topology 'tree' is not allowed"),
        (("mesh", "looped", 3, ("a0", "a1")), "same power of two"),
    ],
)
def test_impossible_clusters_are_refused(arguments: tuple, words: str) -> None:
    """Every rule of the cluster refuses in one sentence."""
    state = site(TORUS64).without_cluster("c")
    with pytest.raises(BadRequest, match=words):
        clusters.make(state, "c", *arguments)


def test_cluster_of_two_single_machine_domains_is_allowed() -> None:
    """As in a published command: torus, looped, two domains, two agents."""
    state = site(TORUS64).without_cluster("c")
    cluster = clusters.make(state, "c", "torus", "looped", 2, ("a0", "a1"))
    assert (cluster.ild_size, cluster.domain(1)) == (4, ("a1",))


def test_each_step_of_a_partition_has_its_state_and_counters() -> None:
    """Admitted, recovering, activated, recovering three times, failed, removing."""
    _, partition = admit(site(MESH16, whole(MESH16)), id="p", size=4)
    assert (partition.ready, partition.operation) == (ReadyState.PENDING, Operation.CREATING)
    early = lifecycle.recovering(partition, ("bad",), 5.0)
    assert (early.ready, early.operation, early.retries, early.last_auto_reset) == (
        ReadyState.PENDING,
        Operation.RESETTING,
        1,
        5.0,
    )
    active = lifecycle.activated(early)
    assert (active.ready, active.operation, active.retries, active.errors) == (
        ReadyState.ACTIVE,
        Operation.IDLE,
        0,
        (),
    )
    late = active
    for _ in range(lifecycle.MAX_AUTO_RESETS):
        assert lifecycle.may_retry(late)
        late = lifecycle.recovering(late, ("bad",), 6.0)
    assert late.ready is ReadyState.ERROR
    assert not lifecycle.may_retry(late)
    assert lifecycle.failed(late, ("bad",)).operation is Operation.FAILED
    removing = lifecycle.removing(lifecycle.removing(active, True), False)
    assert removing.force_removal
    with pytest.raises(Conflict, match="is being removed"):
        lifecycle.resetting(removing, False)
    assert [lifecycle.backoff_seconds(1.0, retries) for retries in (1, 2, 3)] == [1.0, 2.0, 4.0]
