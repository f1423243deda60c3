"""The contract of an IPU-POD's driver, on the fake and on a real openvipu booted with the graph's own cloud-init."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from openvipu.sim.pod import SimulatedPod
from tests.drivers.vipu.bench import STRANGER, Bench, FakeBench, RealBench, simulated_pod
from tests.helpers.waiting import wait_for
from weft.model.errors import OutsideError, TemporaryError, UnknownError
from weft.model.owner import Owner
from weft.model.resources import Marked, Observed, Resource, Status
from weft.testing.seen import there


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[str, SimulatedPod]]:
    with simulated_pod() as made:
        yield made


@pytest.fixture(params=["fake", "openvipu"])
def bench(
    request: pytest.FixtureRequest, machines: tuple[str, SimulatedPod], tmp_path: Path
) -> Iterator[Bench]:
    if request.param == "fake":
        yield FakeBench()
        return
    real = RealBench(tmp_path / "guest", *machines)
    yield real
    real.close()


def keys(bench: Bench) -> set[str]:
    return {r.key for r in bench.wanted}


def test_resources_are_absent_before_the_controller_exists(bench: Bench) -> None:
    """Nothing is found, creating is a temporary error, and deleting succeeds."""
    assert bench.seen() == set()
    with pytest.raises(TemporaryError, match="has not booted yet"):
        bench.driver.create(bench.scope, bench.of("vipu_agent"), {})
    bench.delete_all()
    assert bench.seen() == set()


def test_resources_made_by_cloud_init_are_found_exactly(bench: Bench) -> None:
    """Everything of the graph without a difference; creating it again makes nothing twice."""
    bench.boot()
    for _ in range(2):
        for resource in bench.wanted:
            outcome = bench.driver.create(bench.scope, [resource], {})[resource.key]
            assert outcome.error is None, outcome.error
    found = bench.driver.find(bench.scope, bench.wanted, {})
    assert set(found) == keys(bench)
    assert not any(o.differences or o.status is not Status.SETTLED for o in found.values())


def test_proof_removes_its_own_partition(bench: Bench) -> None:
    """A partition of all IPUs is made as the tenant's user and is gone afterwards; twice."""
    bench.boot()
    for _ in range(2):
        assert "created a partition" in bench.proved()
        assert bench.partitions() == set()


def test_tenants_partitions_prove_the_fabric_works(bench: Bench) -> None:
    """If they leave no room, nothing is disturbed."""
    bench.boot()
    bench.tenant_makes_partition("mine")
    assert bench.proved() == "the tenant's user has partitions of 8 of 8 IPUs: mine"
    assert bench.partitions() == {"mine"}


def test_missing_user_proves_nothing(bench: Bench) -> None:
    """Without the tenant's user the pod isn't ready; create repairs it, with its key."""
    bench.boot()
    bench.driver.delete(bench.scope, bench.of("vipu_user"), {})
    assert bench.seen() == keys(bench) - {"vipu_user"}
    with pytest.raises(OutsideError):
        bench.proved()
    assert bench.driver.create(bench.scope, bench.of("vipu_user"), {})["vipu_user"].error is None
    assert "created a partition" in bench.proved()


def test_removed_allocation_is_restored(bench: Bench) -> None:
    """The difference is found and update repairs it; a cluster can't be changed in place."""
    bench.boot()
    bench.take_allocation()
    user = bench.of("vipu_user")
    assert [d.wanted for d in bench.driver.find(bench.scope, user, {})["vipu_user"].differences] == ["bert"]
    assert bench.driver.update(bench.scope, user, {})["vipu_user"].error is None
    assert not bench.driver.find(bench.scope, user, {})["vipu_user"].differences
    refused = bench.driver.update(bench.scope, bench.of("vipu_cluster"), {})["vipu_cluster"].error
    assert refused is not None and "can't be changed in place" in str(refused)


def test_release_removes_partitions(bench: Bench) -> None:
    """Even one in use. User, allocation, cluster and agents are deleted, and no machine is bound."""
    bench.boot()
    bench.tenant_makes_partition("mine")
    bench.delete_all()
    assert bench.seen() == set() and not bench.machines.unfit()
    bench.delete_all()


def test_lost_controller_is_unknown_and_does_not_block_release(bench: Bench) -> None:
    """While machines are bound to it its contents are unknown; a release frees the machines themselves."""
    bench.boot()
    bench.tenant_makes_partition("mine")
    bench.power_off()
    with pytest.raises(UnknownError):
        bench.driver.find(bench.scope, bench.of("vipu_cluster"), {})
    assert set(bench.driver.find(bench.scope, bench.of("vipu_agent"), {})) == {
        f"vipu_agent/{n}" for n in bench.names
    }
    bench.delete_all()
    assert bench.seen() == set() and not bench.machines.unfit()


def test_silent_machine_is_not_clean(bench: Bench) -> None:
    """Its agent is away: unknown and not absent; once it is back it is released."""
    bench.boot()
    away = bench.names[1]
    bench.agent_gone(away)
    with pytest.raises(UnknownError):
        bench.driver.find(bench.scope, bench.of("vipu_agent"), {})
    with pytest.raises(UnknownError):
        bench.driver.marked(bench.scope.site, ())
    assert "doesn't answer" in bench.machines.unfit()[away]
    bench.power_off()
    agent = [r for r in bench.wanted if r.key == f"vipu_agent/{away}"]
    assert bench.driver.delete(bench.scope, agent, {})[agent[0].key].error is not None
    bench.agent_back(away)
    wait_for(lambda: bench.driver.delete(bench.scope, agent, {})[agent[0].key].error is None)
    assert there(bench.driver.find(bench.scope, agent, {})) == {}


def test_leftovers_are_found_and_released(bench: Bench) -> None:
    """Machines bound to a controller that is gone have its pod's id; another pod can't release them."""
    bench.boot()
    bench.power_off()
    left = bench.driver.marked(bench.scope.site, ())
    assert {(m.id, m.owner) for m in left} == {(n, bench.scope.owner) for n in bench.names}
    other = Owner.pod("00000000-0000-0000-0000-00000000000f")
    wrong = [Marked(m.kind, m.where, m.id, m.name, other, None) for m in left]
    bench.driver.remove_marked(wrong)
    assert len(bench.driver.marked(bench.scope.site, ())) == len(left)
    assert all(o.error is None for o in bench.driver.remove_marked(left).values())
    assert not bench.driver.marked(bench.scope.site, ()) and not bench.machines.unfit()


def test_strangers_machine_is_left_alone(bench: Bench) -> None:
    """It is unfit and unmarked, broken if a pod wants it, and deleting doesn't change its binding."""
    taken = bench.names[0]
    bench.stranger_claims(taken)
    assert STRANGER in bench.machines.unfit()[taken]
    assert not bench.driver.marked(bench.scope.site, ())
    agent = [r for r in bench.wanted if r.key == f"vipu_agent/{taken}"]
    seen = bench.driver.find(bench.scope, agent, {})[agent[0].key]
    assert seen.status is Status.BROKEN and STRANGER in seen.reason
    bench.driver.delete(bench.scope, agent, {})
    assert STRANGER in bench.machines.unfit()[taken]


def agent_of(bench: Bench, machine: str) -> Resource:
    return next(r for r in bench.wanted if r.key == f"vipu_agent/{machine}")


def seen(bench: Bench, machine: str) -> Observed:
    agent = agent_of(bench, machine)
    return bench.driver.find(bench.scope, [agent], {})[agent.key]


def without_cluster(bench: Bench) -> None:
    for key in ("vipu_user", "vipu_allocation", "vipu_cluster"):
        assert bench.driver.delete(bench.scope, bench.of(key), {})[key].error is None


@pytest.mark.parametrize("lost", [False, True])
def test_unbound_machine_with_partitions_is_not_clean(bench: Bench, lost: bool) -> None:
    """An agent forgot its controller with a partition on its machine: found, unfit, and cleared by a release."""
    bench.boot()
    bench.tenant_makes_partition("mine")
    forgetful = bench.names[0]
    bench.agent_forgets(forgetful)
    if lost:
        bench.power_off()
    found = seen(bench, forgetful)
    assert found.there and found.status is Status.BROKEN
    assert "bound to no controller" in found.reason and "still set up" in found.reason
    assert "still set up" in bench.machines.unfit()[forgetful]
    bench.stick(forgetful, True)
    agent = agent_of(bench, forgetful)
    if lost:
        assert bench.driver.delete(bench.scope, [agent], {})[agent.key].error is not None
        assert seen(bench, forgetful).there
    bench.stick(forgetful, False)
    bench.scope = replace(
        bench.scope, waited=60.0
    )  # remove partitions by force, since one machine refuses its controller
    bench.delete_all()
    assert bench.seen() == set() and not bench.machines.unfit() and bench.settings() == set()


def test_agent_that_forgot_its_controller_is_rebound(bench: Bench) -> None:
    """Listed and not bound is missing; create binds it."""
    bench.boot()
    forgetful = bench.names[1]
    bench.agent_forgets(forgetful)
    assert not seen(bench, forgetful).there
    agent = agent_of(bench, forgetful)
    assert bench.driver.create(bench.scope, [agent], {})[agent.key].error is None
    assert seen(bench, forgetful).there
    assert "created a partition" in bench.proved()


def test_agent_forgotten_by_its_controller_is_added_again(bench: Bench) -> None:
    """Bound and not listed is a difference that update repairs."""
    bench.boot()
    without_cluster(bench)
    forgotten, other = bench.names
    bench.controller_forgets(forgotten)
    wait_for(lambda: seen(bench, forgotten).there)
    assert [d.field for d in seen(bench, forgotten).differences] == ["its controller's list"]
    assert not seen(bench, other).differences
    agent = agent_of(bench, forgotten)
    assert bench.driver.update(bench.scope, [agent], {})[agent.key].error is None
    assert seen(bench, forgotten).there and not seen(bench, forgotten).differences
    refused = bench.driver.update(bench.scope, [agent], {})[agent.key].error
    assert refused is not None and "can't be changed in place" in str(refused)


def test_agent_forgotten_by_its_controller_is_released(bench: Bench) -> None:
    """The controller can't release what it doesn't list, so its agent is asked."""
    bench.boot()
    without_cluster(bench)
    forgotten = bench.names[0]
    bench.controller_forgets(forgotten)
    wait_for(lambda: seen(bench, forgotten).there)
    bench.delete_all()
    assert bench.seen() == set() and not bench.machines.unfit()


def test_clearing_a_machine_is_retried(bench: Bench) -> None:
    """A temporary error: bound and listed until clearing works, then released through its controller."""
    bench.boot()
    without_cluster(bench)
    stuck = bench.names[0]
    bench.leave(stuck, "left")
    bench.stick(stuck, True)
    agent = agent_of(bench, stuck)
    assert bench.driver.delete(bench.scope, [agent], {})[agent.key].error is not None
    assert seen(bench, stuck).there and not seen(bench, stuck).differences
    bench.stick(stuck, False)
    bench.delete_all()
    assert bench.seen() == set() and bench.settings() == set()


def test_remains_on_a_machine_do_not_hinder_the_proof(bench: Bench) -> None:
    """A new controller clears its machines before it uses them."""
    for name in bench.names:
        bench.leave(name, "left")
    bench.boot()
    assert "created a partition" in bench.proved()
    assert bench.settings() == set()
