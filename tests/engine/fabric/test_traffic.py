"""Frames are tested where possible: before READY, before a change is done, before the receipt."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.engine.audit.test_sweep import sweeper
from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet, ports, visits
from tests.engine.house import impatient
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.fabric import Clean, EvidenceItem, SegmentCheck
from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.model.problem import Problem, ProblemKind
from weft.model.specs import SegmentSpec
from weft.planning.shapes.plantext import plan_text
from weft.ports.prober import Tried
from weft.testing.cloud import Fault
from weft.testing.ethernet import FakeEthernet


def nothing() -> SegmentCheck:
    return SegmentCheck((), {"adapters of ib0 that hear each other": 8})


def silence() -> SegmentCheck:
    detail = {"segment": "VLAN 101", "who": "gpu02/mlx5_0"}
    return SegmentCheck((Problem(ProblemKind.NOT_HEARD, "gpu01/mlx5_0", "ib0", detail=detail),))


def untried() -> SegmentCheck:
    why = Problem(
        ProblemKind.UNREAD, "gpu01/mlx5_0", "ib0", detail={"why": "frames of gpu01/mlx5_0 were not tested"}
    )
    return SegmentCheck((), {}, (why,))


@dataclass
class FakeProber:
    """Answers what the test has set, and remembers what it was asked."""

    says: Callable[[], SegmentCheck] = nothing
    left: tuple[EvidenceItem, ...] = (EvidenceItem("frames", "8 former members", "clean", "none was heard"),)
    untried: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    first: Callable[[], SegmentCheck] = nothing
    known: Callable[[SegmentSpec], frozenset[str]] = lambda segment: frozenset(segment.ports)
    begun: list[SegmentSpec] = field(default_factory=list[SegmentSpec])
    tried: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    checked: list[tuple[SegmentSpec, Mapping[str, str]]] = field(
        default_factory=list[tuple[SegmentSpec, Mapping[str, str]]]
    )
    cleaned: list[SegmentSpec] = field(default_factory=list[SegmentSpec])

    def begin(self, segment: SegmentSpec) -> Tried:
        self.begun.append(segment)
        return Tried(self.first(), self.known(segment))

    def check(
        self, segment: SegmentSpec, addresses: Mapping[str, str], tried: Collection[str] = ()
    ) -> SegmentCheck:
        self.checked.append((segment, addresses))
        self.tried.append(frozenset(tried))
        return self.says()

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        self.cleaned.append(segment)
        return Clean(self.left), self.untried

    def troubles(self) -> tuple[str, ...]:
        return self.silent


class ProbedHouse(EthernetHouse):
    prober: FakeProber


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[ProbedHouse]:
    house = ProbedHouse(database, database_url)
    house.site, house.prober = ethernet(house.site), FakeProber()
    house.fake = FakeEthernet(house.site, "ib0")
    resources = {**house.world.resources, "ib0": house.fake}
    house.world = replace(
        house.world, resources=resources, fabrics={"ib0": house.fake}, probers={"ib0": house.prober}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def until_reported(house: ProbedHouse) -> PodRecord:
    """Visit a pod that doesn't become READY until it reports why."""
    pod = visits(house, house.order(), 12)
    for _ in range(200):  # for a moment after the boot nothing is called wrong
        if pod.reason:
            break
        time.sleep(0.01)
        pod = visits(house, pod, 1)
    return pod


def test_pod_is_tested_before_it_is_ready_and_not_again(house: ProbedHouse) -> None:
    """With the addresses of the adapters that Nova has given its servers."""
    pod = house.ready()
    [(segment, addresses)] = house.prober.checked
    assert sorted(segment.ports) == ports(house, pod) and addresses.keys() <= segment.ports
    [verified] = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "verified"]
    assert "8 adapters of ib0 that hear each other" in verified
    visits(house, pod, 3)
    assert len(house.prober.checked) == 1, "not at each visit"


def test_adapters_are_tested_before_guests_have_them(house: ProbedHouse) -> None:
    """Once the segment exists, and before any server is requested, when they are still their hosts'. The result is
    passed to the prober when it tests again, also by another worker."""
    servers: list[int] = []
    house.prober.known = lambda segment: (
        servers.append(len(house.cloud.servers)),
        frozenset(segment.ports),
    )[1]
    pod = house.ready()
    [segment] = house.prober.begun
    assert servers == [0] and sorted(segment.ports) == ports(house, pod)
    assert house.prober.tried == [frozenset(segment.ports)]
    messages = [
        e.message for e in house.store.records.events(pod.id, 0) if "before servers are there" in e.message
    ]
    assert messages == ["before servers are there: 8 adapters of ib0 that hear each other"]


def test_serving_pod_is_not_tested_again_for_a_recreated_server(house: ProbedHouse) -> None:
    pod = house.ready()
    house.cloud.lose(house.cloud.servers[0])
    visits(house, pod, 1)
    house.store.request_repair(pod.id)
    house.prober.first = silence
    visits(house, pod, 6)
    assert len(house.cloud.servers) == 2 and len(house.prober.begun) == 1


def test_only_new_members_of_a_growing_pod_are_tested_first(house: ProbedHouse) -> None:
    """Guests have the others by now; earlier results for these are kept, and those of leaving members dropped."""
    pod = house.ready()
    order = pod.plan.order
    more = order.model_copy(update={"nodes": order.nodes.model_copy(update={"count": 3})})
    house.prober.known = lambda segment: frozenset(segment.ports) - {*house.prober.begun[0].ports}
    house.service.pods.apply(house.request(), str(pod.id), more)
    for _ in range(40):
        pod = visits(house, pod, 1)
        if pod.ready_generation == pod.generation:
            break
    assert len(house.prober.begun) == 2
    assert house.prober.tried[-1] == {*house.prober.checked[-1][0].ports} == {*ports(house, pod)}
    house.service.pods.apply(house.request(), str(pod.id), order)
    for _ in range(40):
        pod = visits(house, pod, 1)
        if pod.ready_generation == pod.generation:
            break
    assert len(house.prober.begun) == 2, "no member is new"
    assert house.prober.tried[-1] == {*ports(house, pod)} and len(pod.nodes) == 2


def test_no_server_is_started_if_members_do_not_hear_each_other(house: ProbedHouse) -> None:
    house.prober.first = silence
    pod = until_reported(house)
    assert "gpu01/mlx5_0 doesn't hear gpu02/mlx5_0 in VLAN 101" in pod.reason
    assert not house.cloud.servers and pod.state is PodState.WIRING
    house.prober.first = nothing
    assert house.run(pod, PodState.READY).reason == ""


def test_untestable_members_do_not_prevent_servers(house: ProbedHouse) -> None:
    house.prober.first, house.prober.known = untried, lambda _: frozenset()
    house.ready()
    assert house.prober.tried == [frozenset()]


def test_silence_keeps_a_pod_from_being_ready(house: ProbedHouse) -> None:
    house.prober.says = silence
    pod = until_reported(house)
    assert pod.state is not PodState.READY
    assert "gpu01/mlx5_0 doesn't hear gpu02/mlx5_0 in VLAN 101" in pod.reason
    house.prober.says = nothing
    assert house.run(pod, PodState.READY).reason == ""


def test_untested_members_are_named_in_the_verification(house: ProbedHouse) -> None:
    house.prober.says = untried
    pod = house.ready()
    [verified] = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "verified"]
    assert "; but unknown: frames of gpu01/mlx5_0 were not tested" in verified


def test_growing_pod_is_tested_again(house: ProbedHouse) -> None:
    pod = house.ready()
    order = pod.plan.order
    more = order.model_copy(update={"nodes": order.nodes.model_copy(update={"count": 3})})
    house.service.pods.apply(house.request(), str(pod.id), more)
    house.prober.says = silence
    for _ in range(12):
        pod = visits(house, pod, 1)
    assert pod.ready_generation < pod.generation, "the change isn't done while a new member isn't heard"
    house.prober.says = nothing
    for _ in range(40):
        pod = visits(house, pod, 1)
        if pod.ready_generation == pod.generation:
            break
    assert pod.ready_generation == pod.generation and pod.state is PodState.READY
    assert len(house.prober.checked[-1][0].members) == 3 * len(ports(house, pod)) // len(pod.nodes)


def test_receipt_contains_tests_after_the_release(house: ProbedHouse) -> None:
    pod = house.ready()
    mine = ports(house, pod)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    [item] = [i for i in signed.receipt.items if i.plane == "frames"]
    assert (item.result, item.seen) == ("clean", "none was heard")
    assert sorted(house.prober.cleaned[-1].ports) == mine


def test_release_waits_while_a_member_is_heard(house: ProbedHouse) -> None:
    pod = house.ready()
    loud = EvidenceItem(
        "frames", "8 former members", "not clean", "gpu01/mlx5_0 hears gpu02/mlx5_0", pod.nodes
    )
    clean, house.prober.left = house.prober.left, (loud,)
    house.release(pod)
    after = visits(house, pod, 8)
    assert after.state is PodState.RELEASING and "gpu01/mlx5_0 hears gpu02/mlx5_0" in after.reason
    house.prober.left = clean
    house.run(pod, PodState.RELEASED)


def test_freed_nodes_are_not_tested_again(house: ProbedHouse) -> None:
    """Another pod may have them by now: it isn't disturbed, and what its adapters hear delays nothing."""
    pod = house.ready()
    bad, good = pod.nodes
    house.cloud.plant(Fault.UNDELETABLE, key=f"server/{bad}", kind=Kind.SERVER, times=None)
    house.release(pod)
    house.new_worker("w2", impatient(0.0)).run_once()
    assert {*house.store.capacity().holds} == {bad}
    for fault in house.cloud.faults:
        fault.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    house.prober.cleaned.clear()
    house.run(pod, PodState.RELEASED)
    theirs = {h.port_id for h in house.site.node_by_name[good].hcas_on("ib0")}
    assert house.prober.cleaned and all(not theirs & s.ports for s in house.prober.cleaned)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    assert f"frames of {good} were not tested: given back before" in {
        u for i in signed.receipt.items for u in i.unread
    }


def test_abandoned_pods_number_is_freed_without_testing_other_pods(house: ProbedHouse) -> None:
    pod = house.ready()
    loud = EvidenceItem(
        "frames", "8 former members", "not clean", "gpu01/mlx5_0 hears gpu02/mlx5_0", pod.nodes
    )
    house.prober.left = (loud,)
    house.release(pod)
    visits(house, pod, 4)
    house.service.pods.abandon(house.operator, str(pod.id), "it can't be helped")
    house.run(pod, PodState.RELEASED, visits=4)
    for node in pod.nodes:
        house.service.nodes.clear(house.operator, node)
    house.prober.cleaned.clear()
    sweeper(house).sweep()
    assert not house.prober.cleaned
    with house.store.database.transaction() as tx:
        assert not tx.rows("numbers_of", owner_id=pod.id)


def test_receipt_names_what_was_not_tested(house: ProbedHouse) -> None:
    """The last item read says so; nothing is made up about frames."""
    pod = house.ready()
    house.prober.left, house.prober.untried = (
        (),
        ("frames of gpu01/mlx5_0 were not tested: agent a: no answer",),
    )
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert not [i for i in signed.receipt.items if i.plane == "frames"]
    assert house.prober.untried[0] in {u for i in signed.receipt.items for u in i.unread}


def test_plan_and_receipt_say_if_there_are_no_agents(house: ProbedHouse) -> None:
    house.world = replace(house.world, probers={})
    pod = house.order()
    assert "Frames are not tested on this fabric" in plan_text(pod.plan)
    house.run(pod, PodState.READY)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert any("not tested" in u for i in signed.receipt.items for u in i.unread)


def test_silent_agents_count_as_problems_of_the_fabric(house: ProbedHouse) -> None:
    """Nothing else would show it: with `warn` every pod goes on getting READY."""

    def problems() -> int:
        FabricKeeper(house.database, lambda: house.world).tend()
        with house.database.transaction() as tx:
            [row] = [r for r in tx.rows("fabrics_seen") if r["fabric"] == "ib0"]
        return row["problems"]

    before = problems()
    house.prober.silent = ("probe agent a can't be asked: no answer",)
    assert problems() == before + 1
