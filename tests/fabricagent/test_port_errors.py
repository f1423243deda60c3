"""Error counters of ports: growth within an hour, resets, silent ports, and how an agent reports them."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.fabricagent import porterrors
from weft.fabricagent.mad import MadClient, MadStatusError, MadTimeoutError
from weft.fabricagent.porterrors import WINDOW, History, PortErrorSummary, PortErrorWatch
from weft.fabricagent.wire import Wire
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort

PORT = (1, 3)


def history(*readings: tuple[float, dict[str, int] | None]) -> History:
    """One port's counters over time; None where it didn't answer."""
    made = History()
    for at, counters in readings:
        made.add(at, {} if counters is None else {PORT: counters})
    return made


def test_first_reading_is_the_baseline() -> None:
    """The sum of years says nothing about now."""
    assert history((0, {"PortRcvErrors": 65_000})).grown(PORT) == {}
    assert history((0, {"PortRcvErrors": 65_000}), (60, {"PortRcvErrors": 65_012})).grown(PORT) == {
        "PortRcvErrors": 12
    }


def test_new_counter_has_grown_from_zero() -> None:
    """Zeros aren't stored."""
    assert history((0, {}), (60, {"SymbolErrorCounter": 4})).grown(PORT) == {"SymbolErrorCounter": 4}


def test_counter_reset_keeps_earlier_growth() -> None:
    """Growth before and after the reset is added up."""
    seen = history(
        (0, {"PortRcvErrors": 5}), (60, {"PortRcvErrors": 20}), (120, {}), (180, {"PortRcvErrors": 3})
    )
    assert seen.grown(PORT) == {"PortRcvErrors": 18}


def test_silent_port_is_compared_with_its_last_reading() -> None:
    """Growth while it was silent counts once it answers."""
    assert history((0, {"LinkDownedCounter": 1}), (60, None), (120, {"LinkDownedCounter": 9})).grown(
        PORT
    ) == {"LinkDownedCounter": 8}
    assert history((0, None), (60, {"LinkDownedCounter": 9})).grown(PORT) == {}


def test_growth_is_forgotten_after_an_hour() -> None:
    """Old readings are dropped."""
    seen = history((0, {}), (60, {"PortRcvErrors": 50}))
    for minute in range(2, 200):
        seen.add(minute * 60, {PORT: {"PortRcvErrors": 50}})
        assert len(seen.readings) <= WINDOW / 60 + 2
    assert seen.grown(PORT) == {}


class FakeWire:
    """Host 10 on port 3 of switch 1: both ports have counters."""

    def __init__(self) -> None:
        nodes = (
            ObservedNode(guid=1, name="leaf01", kind="switch", ports=40),
            ObservedNode(guid=10, name="gpu01 mlx5_0", kind="ca", ports=1),
        )
        fabric = ObservedFabric(nodes=nodes, links=((End(guid=1, port=3), End(guid=10, port=1)),))
        hosts = {11: HostPort(port_guid=11, port=1, lid=7, peer_guid=1, peer_port=3, peer_lid=2)}
        self.discovery = Discovery(fabric, hosts, {1: 2}, {})
        self.values: dict[tuple[int, int], dict[str, int]] = {(2, 3): {}, (7, 1): {}}
        self.client = SimpleNamespace(port_errors=self.port_errors)
        self.asked: list[tuple[int, int]] = []
        self.refusing: set[tuple[int, int]] = set()
        self.meanwhile: Callable[[], None] = lambda: None

    def discover(self, max_age: float) -> Discovery:
        del max_age
        return self.discovery

    def port_errors(self, lid: int, port: int) -> dict[str, int]:
        self.asked.append((lid, port))
        self.meanwhile()
        if (lid, port) in self.refusing:
            raise MadStatusError("not now", 0x1C)
        if (lid, port) not in self.values:
            raise MadTimeoutError("no answer")
        return dict(self.values[lid, port])


class Watch:
    """The watch under test, read at the test's times."""

    def __init__(self, wire: FakeWire) -> None:
        self.watch = PortErrorWatch(cast(Wire, cast(Any, wire)))

    def look(self, now: float) -> PortErrorSummary:
        self.watch.read(now)
        return self.watch.look()


@pytest.fixture
def wire() -> FakeWire:
    return FakeWire()


@pytest.fixture
def watch(wire: FakeWire, monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.setattr(PortErrorWatch, "_go_on", lambda _: None)
    monkeypatch.setattr(porterrors, "BREATH", 0)
    return Watch(wire)


def test_growing_errors_are_a_problem_and_an_old_sum_is_not(wire: FakeWire, watch: Watch) -> None:
    """Both ports are listed, the growing one first; the problem names both ends of the cable."""
    wire.values = {(2, 3): {"PortRcvErrors": 500}, (7, 1): {}}
    found, bad, problems, _ = watch.look(0)
    assert [(p.node, p.port, p.counters) for p in found or ()] == [("leaf01", 3, {"PortRcvErrors": 500})]
    assert (bad, problems) == (0, ())
    wire.values[7, 1] = {"SymbolErrorCounter": 11}
    found, bad, problems, _ = watch.look(60)
    assert [p.node for p in found or ()] == ["gpu01 mlx5_0", "leaf01"]
    assert bad == 1
    assert problems == (
        "gpu01 mlx5_0[1] to leaf01[3]: errors grew within the last hour: SymbolErrorCounter by 11; "
        "check cable and adapter",
    )


def test_growth_up_to_the_threshold_is_not_a_problem(wire: FakeWire, watch: Watch) -> None:
    """Ten symbol errors an hour are normal, and a hundred packets refused for their key."""
    watch.look(0)
    wire.values[7, 1] = {"SymbolErrorCounter": 10, "PortRcvConstraintErrors": 100}
    assert watch.look(60).problems == ()
    wire.values[7, 1] = {"SymbolErrorCounter": 10, "PortRcvConstraintErrors": 101}
    assert "PortRcvConstraintErrors by 101" in watch.look(120).problems[0]


def test_silent_port_is_reported_beside_the_others(wire: FakeWire, watch: Watch) -> None:
    """If no port answers, values read before are unknown, too."""
    wire.values = {(2, 3): {"PortRcvErrors": 1}}
    found, bad, problems, _ = watch.look(0)
    assert (len(found or ()), bad) == (1, 0)
    assert problems == ("error counters of 1 cabled ports can't be read",)
    wire.values = {}
    assert watch.look(60) == PortErrorSummary(
        None, None, ("error counters of ports can't be read: no answer",)
    )


@pytest.mark.parametrize(
    ("counter", "most"),
    [("SymbolErrorCounter", 65_535), ("LinkDownedCounter", 255), ("LocalLinkIntegrityErrors", 15)],
)
def test_full_counter_stays_a_problem(wire: FakeWire, watch: Watch, counter: str, most: int) -> None:
    """It can't grow any more, also after hours or a restart of the agent; one below is an old sum."""
    wire.values[7, 1] = {counter: most - 1}
    assert watch.look(0).bad == 0
    wire.values[7, 1] = {counter: most}
    for hour in range(1, 3):
        watch.look(hour * WINDOW)
    found, bad, problems, _ = watch.look(3 * WINDOW)
    assert [p.grown for p in found or ()] == [{}]
    assert bad == 1
    assert problems == (
        f"gpu01 mlx5_0[1] to leaf01[3]: counter is full: {counter} ({most}), clear it (perfquery -R); "
        "check cable and adapter",
    )
    assert Watch(wire).look(0).problems == problems
    wire.values[7, 1] = {}
    assert watch.look(4 * WINDOW).problems == ()


def test_full_and_growing_counters_are_reported_together(wire: FakeWire, watch: Watch) -> None:
    """Growth up to the full value isn't reported as well."""
    wire.values[7, 1] = {"SymbolErrorCounter": 60_000, "LinkDownedCounter": 1}
    watch.look(0)
    wire.values[7, 1] = {"SymbolErrorCounter": 65_535, "LinkDownedCounter": 21}
    assert (
        "errors grew within the last hour: LinkDownedCounter by 20; counter is full: SymbolErrorCounter (65535), "
        in watch.look(60).problems[0]
    )


def test_bad_ports_are_counted_and_the_worst_listed(
    wire: FakeWire, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is bounded, the count isn't."""
    monkeypatch.setattr(porterrors, "SHOWN", 1)
    wire.values = {(2, 3): {"VL15Dropped": 65_535}, (7, 1): {"PortRcvErrors": 65_535}}
    found, bad, problems, _ = watch.look(0)
    assert (len(found or ()), bad) == (1, 2)
    assert problems[1:] == ("1 more ports have such errors",)


def test_watch_knows_nothing_before_the_first_reading(watch: Watch) -> None:
    """A reading may take longer than a status request may."""
    assert watch.watch.look() == PortErrorSummary(None, None)


def test_status_request_reads_no_port(wire: FakeWire, watch: Watch) -> None:
    """Even if no port answered: `weft fabric status` in a loop doesn't load the fabric."""
    wire.values = {}
    watch.look(0)
    asked = len(wire.asked)
    for _ in range(3):
        watch.watch.look()
    assert len(wire.asked) == asked


def test_status_request_does_not_wait_for_a_reading(wire: FakeWire, watch: Watch) -> None:
    """The last finished reading is reported."""
    wire.values[7, 1] = {"PortRcvErrors": 1}
    before = watch.look(0)
    seen: list[PortErrorSummary] = []

    def meanwhile() -> None:
        asking = threading.Thread(target=lambda: seen.append(watch.watch.look()), daemon=True)
        asking.start()
        asking.join(60)  # would hang if it waited for this reading

    wire.meanwhile = meanwhile
    wire.values[7, 1] = {"PortRcvErrors": 2}
    watch.watch.read(60)
    assert seen == [before, before]
    assert watch.watch.look() != before


def test_silent_port_is_skipped_for_a_while(wire: FakeWire, watch: Watch) -> None:
    """One packet may get lost; after a second timeout it counts as unread without being asked, and is asked later."""
    del wire.values[7, 1]
    asked: list[float] = []
    for minute in range(23):
        wire.asked.clear()
        assert watch.look(minute * 60).problems == ("error counters of 1 cabled ports can't be read",)
        if (7, 1) in wire.asked:
            asked.append(minute)
    assert asked == [0, 1, 11, 21]
    wire.values[7, 1] = {}
    assert watch.look(31 * 60).problems == ()
    assert watch.look(32 * 60).problems == ()


def test_port_that_was_not_read_throughout_the_window_is_unknown(wire: FakeWire, watch: Watch) -> None:
    """Without a reading from the beginning of the hour, its growth isn't known."""
    assert watch.look(0).unread == 0
    answers = wire.values.pop((7, 1))
    assert [watch.look(minute * 60).unread for minute in (1, 2)] == [1, 1]
    wire.values[7, 1] = answers
    assert watch.look(20 * 60).unread == 0, "it was read an hour ago and now"
    late = Watch(wire)
    del wire.values[7, 1]
    late.look(0)
    wire.values[7, 1] = answers
    assert (late.look(60).unread, late.look(2 * 60).unread) == (1, 1)
    assert late.look(WINDOW + 120).unread == 0


def test_refusing_port_is_asked_at_each_reading(wire: FakeWire, watch: Watch) -> None:
    """It answers immediately, with an error status."""
    wire.refusing.add((7, 1))
    for minute in range(4):
        wire.asked.clear()
        assert watch.look(minute * 60).problems == ("error counters of 1 cabled ports can't be read",)
        assert (7, 1) in wire.asked


def test_first_status_starts_reading_port_errors(wire: FakeWire, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once in a thread, and again after each pause; closing the watch ends the thread."""
    monkeypatch.setattr(porterrors, "EVERY", 0.001)
    watch = PortErrorWatch(cast(Wire, cast(Any, wire)))
    many = threading.Event()
    wire.meanwhile = lambda: many.set() if len(wire.asked) > 6 else None
    assert not wire.asked
    watch.look()
    assert many.wait(60)
    assert watch.look().ports == ()
    watch.close()
    (thread,) = (t for t in threading.enumerate() if t.name == "port-errors")
    thread.join(60)
    assert not thread.is_alive()


def test_port_counters_are_read_without_retries() -> None:
    """So that a silent port delays the client by one timeout only; other requests are retried."""
    tries: list[int] = []
    client = object.__new__(MadClient)
    lib = SimpleNamespace(mad_rpc_set_retries=lambda _, n: tries.append(n), mad_rpc=lambda *_: None)
    for name, value in {
        "_lib": lib,
        "_handle": 1,
        "_m_key": 0,
        "_timeout": 500,
        "_attempts": 3,
        "_lock": threading.RLock(),
        "_buffer": ctypes.create_string_buffer(256),
        "_payload": ctypes.create_string_buffer(256),
    }.items():
        setattr(client, name, value)
    with pytest.raises(MadTimeoutError):
        client.port_errors(7, 1)
    with pytest.raises(MadTimeoutError):
        client.node_port(7)
    assert tries == [1, 3]
