"""Pods whose ports drifted at the same time are repaired together, a few ports in a request, and none waits long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.drivers.opensm.rigs import FABRIC, host_ports, partition, scope
from tests.helpers.waiting import wait_for
from weft.drivers.wire.repairs import REPAIRED_AT_ONCE, RepairQueue
from weft.model.agentapi import RepairQuery, RepairResult
from weft.model.errors import PermanentError, UnknownError
from weft.model.ids import format_guid
from weft.model.resources import Difference, Observed, Outcome, Status
from weft.ports.fences import JointFence
from weft.testing.fabric import FakeFabric
from weftlab.layout import Layout
from weftlab.site import make_site, settings

LONG, KEY = 60.0, 0x101


class Agent:
    """An agent's repairs; the first waits until the test lets it end.

    Attributes:
        bad: ports for which it refuses a request.
        silent: no request is answered.
        unable: port -> why it isn't repaired.
    """

    def __init__(self) -> None:
        self.sent: list[RepairQuery] = []
        self.bad, self.silent, self.changes = set[int](), False, 0
        self.unable = dict[int, str]()
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(64)
        self.repairs = RepairQueue(self._send, "sm1", self._changed)

    def _send(self, query: RepairQuery) -> RepairResult:
        self.sent.append(query)
        self.begun.set()
        assert self.goes_on.wait(LONG)
        if self.silent:
            raise UnknownError("repair", "fabric agent sm1", "no answer")
        if self.bad & set(query.port_guids):
            raise PermanentError("repair", "fabric agent sm1", "refused", "correct that")
        problems = tuple(
            f"port {format_guid(g)}: {self.unable[g]}" for g in query.port_guids if g in self.unable
        )
        return RepairResult(written=len(query.port_guids) - len(problems), problems=problems)

    def _changed(self) -> None:
        self.changes += 1

    def ask(
        self,
        ports: Sequence[int],
        fence: Callable[[], None] = lambda: None,
        vacant: Sequence[int] = (),
        strays: Sequence[int] = (),
    ) -> Future[None]:
        """Request a repair; it waits in line when this returns."""
        before = self.repairs.line.waiting
        made = self._pool.submit(self.repairs.repair, ports, fence, vacant, strays)
        if self.begun.is_set() and not self.goes_on.is_set():
            wait_for(lambda: self.repairs.line.waiting == before + 1)
        return made

    def first(self) -> Future[None]:
        made = self.ask([1])
        assert self.begun.wait(LONG)
        return made

    @property
    def ports(self) -> list[tuple[int, ...]]:
        return [query.port_guids for query in self.sent]

    def close(self) -> None:
        self.goes_on.set()
        self._pool.shutdown()
        self.repairs.close()


@pytest.fixture
def agent() -> Generator[Agent]:
    agent = Agent()
    yield agent
    agent.close()


def refuse() -> None:
    raise PermanentError("change", "weft", "it isn't mine any more", "nothing")


def test_fifty_drifted_pods_are_a_few_requests_of_the_agent() -> None:
    fabric = FakeFabric(
        make_site(
            settings(nodes=100, computes=100, hcas=1), Layout(Path("/nowhere"), Path("/nowhere"), 23000)
        ),
        FABRIC,
    )
    ports, pods, sent = host_ports(fabric._site), range(50), list[int]()  # pyright: ignore[reportPrivateUsage]
    master, begun, goes_on = fabric.manager("sm1"), threading.Event(), threading.Event()
    repair, line = master.repair, fabric._repairs["sm1"].line  # pyright: ignore[reportPrivateUsage]
    wanted = [partition(KEY + pod, ports[2 * pod : 2 * pod + 2]) for pod in pods]

    def put(pod: int) -> Outcome:
        return fabric.create(scope(pod), [wanted[pod]], {})["partition"]

    def slowly(query: RepairQuery) -> object:
        sent.append(len(query.port_guids))
        begun.set()
        assert goes_on.wait(LONG)
        return repair(query)

    with ThreadPoolExecutor(len(pods)) as threads:
        assert all(made.error is None for made in threads.map(put, pods))
        for pod in pods:
            for guid in ports[2 * pod : 2 * pod + 2]:
                fabric.erase_key(guid, 0x8000 | KEY + pod)
        master.repair = slowly  # type: ignore[method-assign]
        made = [threads.submit(put, pod) for pod in pods]
        assert begun.wait(LONG)
        wait_for(lambda: line.waiting == len(pods) - sent[0] // 2)
        goes_on.set()
        assert all(one.result(LONG).error is None for one in made)
    assert sum(sent) == len(ports) and max(sent) <= REPAIRED_AT_ONCE
    assert len(sent) <= 1 + -(-len(ports) // REPAIRED_AT_ONCE)
    for pod in pods:
        seen = fabric.find(replace(scope(pod), changed=True), [wanted[pod]], {})["partition"]
        assert seen.status is Status.SETTLED
    fabric.close()


def test_pods_are_served_in_the_order_in_which_they_came(agent: Agent) -> None:
    """A pod with many ports isn't overtaken by later ones whose ports would fit first."""
    first = agent.first()
    many = range(100, 100 + REPAIRED_AT_ONCE - 1)
    made = [first, agent.ask([2, 3]), agent.ask(many), agent.ask([4]), agent.ask([5])]
    agent.goes_on.set()
    for one in made:
        one.result(LONG)
    assert agent.ports == [(1,), (2, 3), (*many, 4), (5,)]
    assert agent.changes == 4, "each repair makes earlier readings outdated"


def test_same_ports_and_vacant_keys_take_one_request(agent: Agent) -> None:
    """Ports of no pod get only the room that is left."""
    first, strays = agent.first(), range(500, 500 + REPAIRED_AT_ONCE)
    made = [first, *(agent.ask([10, 20 + n], vacant=[KEY + n], strays=strays) for n in range(3))]
    made.append(agent.ask([], vacant=[KEY]))
    agent.goes_on.set()
    for one in made:
        one.result(LONG)
    [_, query] = agent.sent
    assert query.port_guids == (10, 20, 21, 22, *strays[: REPAIRED_AT_ONCE - 4])
    assert query.vacant_keys == (KEY, KEY + 1, KEY + 2)


def test_each_fence_is_tested_right_before_the_request(agent: Agent) -> None:
    """All are renewed with one question; the ports of a lost owner aren't sent, nor an empty request."""
    renewed: list[int] = []

    class Fence(JointFence):
        lost = False

        def __call__(self) -> None:
            if self.lost:
                refuse()

        def renew(self, fences: Sequence[JointFence]) -> None:
            renewed.append(len(fences))

    lost, first = Fence(), agent.first()
    stale, other = agent.ask([2], lost, [KEY]), agent.ask([3], Fence())
    lost.lost = True
    agent.goes_on.set()
    first.result(LONG)
    other.result(LONG)
    with pytest.raises(PermanentError, match="mine"):
        stale.result(LONG)
    with pytest.raises(PermanentError, match="mine"):
        agent.ask([4], lost).result(LONG)
    assert agent.ports == [(1,), (3,)] and agent.sent[1].vacant_keys == () and renewed == [2]


def test_refused_repair_fails_only_its_own_pod(agent: Agent) -> None:
    first = agent.first()
    made = [agent.ask([n]) for n in (2, 3, 4)]
    agent.bad = {3}
    agent.goes_on.set()
    for one in (first, made[0], made[2]):
        one.result(LONG)
    with pytest.raises(PermanentError, match="refused"):
        made[1].result(LONG)
    assert agent.ports == [(1,), (2, 3, 4), (2,), (3,), (4,)]


def test_unanswered_repair_is_sent_once_and_fails_all_in_it(agent: Agent) -> None:
    first = agent.first()
    made = [agent.ask([n]) for n in (2, 3)]
    agent.silent = True
    agent.goes_on.set()
    for one in (first, *made):
        with pytest.raises(UnknownError, match="no answer"):
            one.result(LONG)
    assert agent.ports == [(1,), (2, 3)] and agent.changes == 2
    agent.silent = False
    agent.ask([2]).result(LONG)


def test_ports_that_cannot_be_repaired_keep_no_other_of_their_pod_waiting(agent: Agent) -> None:
    """They stay drifted, and come first in each reading."""
    agent.goes_on.set()
    drifted = range(1, 3 * REPAIRED_AT_ONCE)
    for _ in range(3):
        agent.ask(drifted).result(LONG)
    assert {guid for ports in agent.ports for guid in ports} == set(drifted)
    assert [len(ports) for ports in agent.ports] == [REPAIRED_AT_ONCE] * 3


def test_closed_line_refuses_what_waits(agent: Agent) -> None:
    first, waiting = agent.first(), agent.ask([2])
    agent.repairs.close()
    agent.goes_on.set()
    first.result(LONG)
    with pytest.raises(UnknownError, match="doesn't use this site"):
        waiting.result(LONG)
    assert agent.ports == [(1,)]


def drifted(*guids: int) -> Observed:
    """An observation in which these ports differ."""
    differences = tuple(
        Difference(field=f"port {format_guid(g)}", wanted="full", observed="no member") for g in guids
    )
    return Observed("0x0101", Status.PENDING, "ports differ", differences)


def test_port_that_the_agent_could_not_repair_is_explained_until_it_could(
    agent: Agent, caplog: pytest.LogCaptureFixture
) -> None:
    agent.goes_on.set()
    agent.unable = {1: "its table differs from what its file asks for"}
    agent.repairs.repair([1, 2], lambda: None)
    said = agent.repairs.explain(drifted(1, 2)).reason
    assert said == (
        f"ports differ; not repaired: port {format_guid(1)}: its table differs from what its file asks for"
    )
    assert f"port {format_guid(1)}: its table differs" in caplog.text
    assert agent.repairs.explain(drifted(2)) == drifted(2)

    agent.unable = dict.fromkeys(range(1, 31), "its table differs")
    agent.repairs.repair(range(1, 31), lambda: None)
    assert agent.repairs.explain(drifted(*range(1, 31))).reason.count("its table differs") == 5
    agent.unable = {1: "its table differs from what its file asks for"}
    agent.repairs.repair([1], lambda: None)

    agent.repairs.repair([2], lambda: None)  # has no result for port 1
    assert agent.repairs.explain(drifted(1)).reason == said
    agent.unable = {}
    agent.repairs.repair([1], lambda: None)
    assert agent.repairs.explain(drifted(1)) == drifted(1)
