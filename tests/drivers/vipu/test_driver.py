"""An IPU-POD's driver with a real openvipu that is slow, raced, lost, or changed from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openvipu.hardware.fabric import Fault
from openvipu.proto import admin_pb2, admin_pb2_grpc, vipuuser_pb2
from openvipu.sim.pod import SimulatedPod
from tests.drivers.vipu.bench import RealBench, simulated_pod
from weft.drivers.vipu.channels import MissingError, SlowError
from weft.drivers.vipu.driver import HUNG, VipuDriver
from weft.model.errors import PermanentError, TemporaryError
from weft.ports.resources import PartlyListedError


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[str, SimulatedPod]]:
    with simulated_pod() as made:
        yield made


@pytest.fixture
def bench(machines: tuple[str, SimulatedPod], tmp_path: Path) -> Iterator[RealBench]:
    real = RealBench(tmp_path / "guest", *machines)
    yield real
    real.close()


def ask(bench: RealBench, method: str, request: Any) -> Any:
    """Call a method as an administrator."""
    with bench._channels.admin(bench.scope.owner.id, bench._address) as channel:
        return channel.ask(method, lambda stub: getattr(stub, method), request)


class Between:
    """A stub with other calls in between.

    Attributes:
        calls: method -> what is done with its requests, given the real call.
    """

    def __init__(self, stub: Any, calls: Mapping[str, Callable[..., object]]) -> None:
        self._stub, self._calls = stub, calls

    def __getattr__(self, name: str) -> Any:
        real, call = getattr(self._stub, name), self._calls.get(name)
        return real if call is None else partial(call, real)


@contextmanager
def instead(**calls: Callable[..., object]) -> Iterator[None]:
    """Replace an administrator's requests on their way to the controller."""
    real = admin_pb2_grpc.AdminServiceStub
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin_pb2_grpc, "AdminServiceStub", lambda link: Between(real(link), calls))
        yield


def hung(real: Callable[..., object], request: object, timeout: float, metadata: object) -> object:
    """No answer within the time limit."""
    return real(request, timeout=1e-6, metadata=metadata)


def test_slow_controller_is_not_lost(bench: RealBench) -> None:
    """Its machines stay with it and the request is repeated; after a while it counts as lost."""
    bench.boot()
    bench.tenant_makes_partition("mine")
    user = bench.of("vipu_user")
    with instead(RemoveUser=hung):
        outcome = bench.driver.delete(bench.scope, user, {})["vipu_user"]
        assert isinstance(outcome.error, SlowError)
        assert bench.settings() == {"mine"} and len(bench.machines.unfit()) == 2
        scope = replace(bench.scope, waited=HUNG + 1)
        assert bench.driver.delete(scope, user, {})["vipu_user"].error is None
    assert not bench.settings() and not bench.machines.unfit()


def test_concurrent_creation_is_not_reported_as_an_error(bench: RealBench) -> None:
    """cloud-init creates each resource between weft's look and weft's request: a temporary error, and the next look
    finds it.
    """
    bench.boot()
    with instead(
        ListAgents=lambda *_, **__: admin_pb2.ListAgentsReply(),
        ListClusters=lambda *_, **__: admin_pb2.ListClustersReply(),
        ListAllocations=lambda *_, **__: admin_pb2.ListAllocationsReply(),
        ListUsers=lambda *_, **__: admin_pb2.ListUsersReply(),
    ):
        for resource in bench.wanted:
            error = bench.driver.create(bench.scope, [resource], {})[resource.key].error
            assert isinstance(error, TemporaryError) and "already" in str(error)
    outcomes = bench.driver.create(bench.scope, bench.wanted, {})
    assert not any(o.error for o in outcomes.values())


def test_lost_fence_stops_between_two_machines(bench: RealBench) -> None:
    """The fence is checked before each change, not once for all."""

    class Lost(Exception):  # noqa: N818
        pass

    asked: list[None] = []

    def fence() -> None:
        if asked:
            raise Lost
        asked.append(None)

    bench.boot()
    scope = replace(bench.scope, fence=fence)
    with pytest.raises(Lost):
        bench.driver.delete(scope, list(reversed(bench.wanted)), {})
    assert bench.seen() == {r.key for r in bench.wanted} - {"vipu_user"}
    bench.delete_all()
    asked.clear()
    with pytest.raises(Lost):
        bench.driver.create(scope, bench.of("vipu_agent"), {})
    assert len(bench.machines.unfit()) == 1
    with pytest.raises(Lost):
        driver: Any = bench.driver
        driver.clear_proof(scope, bench.wanted)


def make(bench: RealBench, name: str, size: int) -> None:
    """Create a partition as the tenant."""
    needs = vipuuser_pb2.PartitionRequirements(id=name, size=size)
    with bench._channels.user(bench.scope.owner.id, bench._address, tenant=True) as channel:
        request = vipuuser_pb2.CreatePartitionRequest(requirements=needs)
        channel.ask("create", lambda s: s.CreatePartition, request)


def test_tenants_partition_is_not_mistaken_for_wefts(bench: RealBench) -> None:
    """Whatever its name: it isn't removed, and weft reports its number of IPUs."""
    bench.boot()
    make(bench, "weft-proof", 4)
    assert bench.proved() == "the tenant's user has partitions of 4 of 8 IPUs: weft-proof"
    assert bench.partitions() == {"weft-proof"}


def test_dead_ipu_next_to_the_tenants_partition_is_no_proof(bench: RealBench) -> None:
    """There is no room only because of the dead IPU."""
    bench._pod.plant(Fault("dead-ipu", "ipum2", "3"))
    bench.boot()
    make(bench, "mine", 4)
    with pytest.raises(PermanentError, match="not healthy: IPU 3 of lr75-ipum2"):
        bench.proved()


def test_unordered_users_are_removed(bench: RealBench) -> None:
    """Another user, and the tenant's user as administrator, are differences that are repaired; the tenant's key
    stays.
    """
    bench.boot()
    ask(bench, "RemoveUser", admin_pb2.RemoveUserRequest(id="tenant"))
    key = bench._channels.keys.key(bench.scope.owner.id, "vipu-tenant-key")
    for name in ("tenant", "mallory"):
        ask(bench, "CreateUser", admin_pb2.CreateUserRequest(id=name, admin=True, access_key=key))
    user = bench.of("vipu_user")
    found = bench.driver.find(bench.scope, user, {})["vipu_user"]
    assert {d.field: d.observed for d in found.differences} == {
        "allocations": "",
        "administrator": "yes",
        "other users": "mallory",
    }
    assert bench.driver.update(bench.scope, user, {})["vipu_user"].error is None
    assert not bench.driver.find(bench.scope, user, {})["vipu_user"].differences
    users = ask(bench, "ListUsers", admin_pb2.ListUsersRequest()).users
    assert [(u.id, u.admin) for u in users] == [("admin", True), ("tenant", False)]
    assert "created a partition" in bench.proved()
    with pytest.raises(MissingError):
        ask(bench, "RemoveUser", admin_pb2.RemoveUserRequest(id="mallory"))


def test_silent_machine_hides_no_other(bench: RealBench) -> None:
    """Machines that answered are listed, also in maintenance; one in maintenance may be silent."""
    bench.boot()
    one, two = bench.names
    driver = bench.driver
    assert isinstance(driver, VipuDriver)
    bench.agent_gone(two)
    with pytest.raises(PartlyListedError, match=f"IPU-Machine {two}") as caught:
        driver.marked(bench.scope.site, ())
    assert [m.id for m in caught.value.found] == [one]
    for name in (one, two):
        driver._machines[name] = driver._machines[name].model_copy(update={"maintenance": "a fan"})
    assert [m.id for m in driver.marked(bench.scope.site, ())] == [one]


def test_weft_and_cloud_init_may_create_concurrently(bench: RealBench) -> None:
    """While a slow controller boots both create what is missing, and neither fails because of the other."""
    errors: list[PermanentError] = []

    def make_all(booted: Future[None]) -> None:
        while not booted.done():
            for resource in bench.wanted:
                try:
                    error = bench.driver.create(bench.scope, [resource], {})[resource.key].error
                except TemporaryError:
                    break  # it doesn't listen yet
                if isinstance(error, PermanentError):
                    errors.append(error)
                if error is not None:
                    break  # stop at the first error, as the loop does

    with ThreadPoolExecutor(1) as pool:
        booted = pool.submit(bench.boot)
        make_all(booted)
        booted.result()  # cloud-init's own commands succeeded
    assert not errors
    found = bench.driver.find(bench.scope, bench.wanted, {})
    assert all(o.there and not o.differences for o in found.values())
