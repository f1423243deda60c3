"""Pods that observe their own ports at the same time share one reading of these, which begins after all have asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig, host_ports, partition, scope
from tests.helpers.waiting import wait_for
from weft.model.agentapi import Tables, TablesQuery
from weft.model.errors import UnknownError
from weft.model.resources import Observed, Status
from weft.testing.fabric import FakeFabric

LONG, KEY = 60.0, 0x101


class Pods:
    """Three pods whose ports aren't settled; the first reading of the master's agent waits until the test lets it
    end.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fabric = FakeFabric(FakeRig().site, FABRIC)
        ports = host_ports(self.fabric._site)  # pyright: ignore[reportPrivateUsage]
        self.members = [ports[2 * n : 2 * n + 2] for n in range(3)]
        self.wanted = [partition(KEY + n, self.members[n]) for n in range(3)]
        monkeypatch.setattr(type(self.fabric.wire), "sweep", lambda _: None)
        for n, one in enumerate(self.wanted):
            assert self.fabric.create(scope(n), [one], {})["partition"].error is None
        self.read: list[tuple[int, ...] | None] = []
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.spoil: Callable[[Tables], Tables] = lambda tables: tables
        master = self.fabric.manager("sm1")
        tables = master.tables

        def slowly(query: TablesQuery) -> Tables:
            self.read.append(query.port_guids)
            self.begun.set()
            assert self.goes_on.wait(LONG)
            return self.spoil(tables(query))

        master.tables = slowly  # type: ignore[method-assign]

    def look(self, pod: int) -> Observed:
        return self.fabric.find(replace(scope(pod), glance=True), [self.wanted[pod]], {})["partition"]

    def together(self, pods: Sequence[int]) -> list[Observed | BaseException]:
        """Observe all; the first one's reading has begun before the others ask."""
        line = self.fabric._looks.line  # pyright: ignore[reportPrivateUsage]
        with ThreadPoolExecutor(len(pods)) as pool:
            looks = [pool.submit(self.look, pods[0])]
            assert self.begun.wait(LONG)
            looks += [pool.submit(self.look, pod) for pod in pods[1:]]
            wait_for(lambda: line.waiting == len(pods) - 1)
            self.goes_on.set()
            return [look.exception(LONG) or look.result() for look in looks]


def test_waiting_observations_are_joined_into_one_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = Pods(monkeypatch)
    seen = pods.together([0, 1, 2])
    first, *others = pods.members
    assert pods.read == [tuple(sorted(first)), tuple(sorted(guid for ports in others for guid in ports))]
    for pod, one in enumerate(seen):
        assert isinstance(one, Observed) and one.status is Status.PENDING and one.on_its_way
        guids = {d.field.split()[-1] for d in one.differences}
        assert guids == {f"0x{guid:016x}" for guid in pods.members[pod]}, "each is judged by its own ports"
    pods.fabric.close()


def test_failed_reading_fails_every_pod_in_it_and_no_later_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading with other ports than were asked for proves nothing."""
    pods = Pods(monkeypatch)
    pods.spoil = lambda tables: tables.model_copy(update={"ports": tables.ports[:1]})
    failed = pods.together([0, 1, 2])
    assert all(isinstance(error, UnknownError) for error in failed)
    assert failed[1] is not failed[2], "each has an error of its own"
    assert len(pods.read) == 2, "nothing is read again for each of them"
    pods.spoil = lambda tables: tables
    assert pods.look(1).status is Status.PENDING
    pods.fabric.close()
    with pytest.raises(UnknownError, match="doesn't use this site"):
        pods.look(2)
