"""Counters of switches' ports: each vendor's answer, missing counters, silence, resets, and real frames."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tests.drivers.switches.onefront import One
from tests.drivers.switches.rigs import RealSwitches, scope, vlan
from tests.helpers.prometheus import checked
from weft.app.monitoringverbs import SwitchCollector
from weft.drivers.switches.counters import (
    CounterReading,
    eos_counters,
    nvue_counters,
    openconfig_counters,
    ovs_counters,
)
from weft.drivers.switches.interface import SwitchDriver
from weft.model.errors import UnknownError
from weft.model.portcounters import PortCounters, count
from weftlab.switches.front import Answer, Request

PLAYED = {
    "rx_bytes": 1 << 63,
    "tx_bytes": 2,
    "rx_packets": 3,
    "tx_packets": 4,
    "rx_errors": 5,
    "tx_errors": 6,
    "rx_dropped": 7,
    "tx_dropped": 8,
}


def port_of(one: One) -> PortCounters:
    """The first port, as the fabric's driver has it."""
    ports = one.fabric.port_counters()["leaf1"]
    assert not isinstance(ports, str), ports
    return next(p for p in ports if p.port == one.ports[0])


def test_each_vendor_answers_with_its_counters(one: One) -> None:
    """A counter that the vendor doesn't have is absent, not 0; a reset shows as the switch's lower values."""
    one.front.counted[one.ports[0]] = PLAYED
    assert port_of(one) == PortCounters(one.ports[0], 1 << 63, 2, 3, 4, 5, 6, 7, 8)
    one.front.counted[one.ports[0]] = {}
    assert port_of(one).receive_bytes == 0


@pytest.mark.parametrize("kind", ["eos", "sonic"])
def test_switch_without_a_port_that_counts_is_unknown(request: pytest.FixtureRequest, kind: str) -> None:
    """Its port names are unknown to weft, so they aren't left out silently."""
    one: One = request.getfixturevalue(kind)

    def instead(request: Request, answer: Answer) -> Answer:
        text = json.dumps(answer.body).replace("Ethernet", "Port")
        return Answer(answer.status, json.loads(text))

    one.front.faults.instead = instead
    assert "no port with counters is in it" in str(one.fabric.port_counters()["leaf1"])


def test_ports_by_sonics_standard_names_are_counted() -> None:
    rows = [{"name": "Eth1/1/2", "state": {"counters": {"in-octets": "7"}}}]
    assert openconfig_counters(rows) == [PortCounters("Eth1/1/2", 7)]


def test_cumulus_counts_pauses_and_marks_where_roce_is_configured(one: One) -> None:
    one.front.roce = dict.fromkeys(one.ports, (11, 12, 13))
    found = port_of(one)
    counts = one.front.__class__.__name__ == "Nvue"
    known = (found.pfc_receive, found.pfc_transmit, found.ecn_marked)
    assert known == ((11, 12, 13) if counts else (None, None, None))
    del one.front.roce[sorted(one.ports)[1]]  # one port without them doesn't end the reading
    ports = one.fabric.port_counters()["leaf1"]
    assert not isinstance(ports, str)
    marked = {p.port for p in ports if p.ecn_marked is not None}
    assert marked == (one.front.roce.keys() if counts else set())


def test_silent_switch_is_down_and_has_no_series(one: One) -> None:
    """The other switch has its series; Prometheus' own checker reads the text."""

    def text() -> str:
        registry = CollectorRegistry()
        registry.register(SwitchCollector({"eth": one.fabric}))
        return generate_latest(registry).decode()

    assert 'weft_switch_up{fabric="eth",switch="leaf1"} 1.0' in text()
    checked("promtool", "check", "metrics", given=text())
    one.front.faults.down = True
    down = text()
    assert 'weft_switch_up{fabric="eth",switch="leaf1"} 0.0' in down
    assert 'weft_switch_up{fabric="eth",switch="spine1"} 1.0' in down
    assert 'switch="leaf1",port' not in down.replace('",switch="leaf1"} ', "")
    one.front.faults.down = False
    assert 'weft_switch_up{fabric="eth",switch="leaf1"} 1.0' in text()


def test_switch_that_hangs_delays_no_other_and_is_asked_once() -> None:
    gate, asked = threading.Event(), list[int]()

    def hangs() -> list[PortCounters]:
        asked.append(1)
        gate.wait(30)
        return [PortCounters("Ethernet1", 1)]

    def fails() -> list[PortCounters]:
        raise UnknownError("read", "switch c", "no")

    switches = {
        "a": SimpleNamespace(counters=hangs),
        "b": SimpleNamespace(counters=lambda: [PortCounters("Ethernet1", 2)]),
        "c": SimpleNamespace(counters=fails),
        "d": SimpleNamespace(counters=lambda: "nothing to read"),
    }
    reading = CounterReading("eth", cast(dict[str, SwitchDriver], switches), within=0.3)
    try:
        for _ in range(3):
            began = time.monotonic()
            found = reading.get()
            assert time.monotonic() - began < 5
            assert isinstance(found["a"], str) and "no answer within" in found["a"]
            assert found["b"] == [PortCounters("Ethernet1", 2)]
            assert isinstance(found["c"], str) and found["d"] == "nothing to read"
        assert asked == [1]
        gate.set()
        time.sleep(0.05)
        assert reading.get()["a"] == [PortCounters("Ethernet1", 1)] and asked == [1, 1]
    finally:
        gate.set()
        reading.close()


def reading_of(within: float, *counters: Callable[[], object], clock: Callable[[], float]) -> CounterReading:
    """A reading of switches s0, s1, …"""
    switches = {f"s{i}": SimpleNamespace(counters=one) for i, one in enumerate(counters)}
    return CounterReading("eth", cast(dict[str, SwitchDriver], switches), within, clock)


def counted() -> list[PortCounters]:
    return [PortCounters("Ethernet1", 1)]


def test_many_switches_that_hang_delay_no_other() -> None:
    gate = threading.Event()
    reading = reading_of(0.5, *[lambda: gate.wait(30)] * 40, counted, clock=time.monotonic)
    try:
        for _ in range(2):
            found = reading.get()
            assert found["s40"] == counted()
            assert sum(isinstance(one, str) for one in found.values()) == 40
    finally:
        gate.set()
        reading.close()


def test_late_answer_is_not_given_once_it_is_old() -> None:
    """After an hour without a caller the answer from then isn't used."""
    gate, now, asked = threading.Event(), [0.0], list[int]()

    def late() -> list[PortCounters]:
        asked.append(1)
        gate.wait(30)
        return [PortCounters("Ethernet1", len(asked))]

    reading = reading_of(0.3, late, clock=lambda: now[0])
    try:
        assert isinstance(reading.get()["s0"], str)
        gate.set()
        time.sleep(0.1)
        now[0] += 30
        gate.clear()
        assert reading.get()["s0"] == [PortCounters("Ethernet1", 1)], (
            "the late answer, and the switch is asked again"
        )
        assert asked == [1, 1]
        gate.set()
        time.sleep(0.1)
        now[0] += 3600
        gate.clear()
        assert isinstance(reading.get()["s0"], str)
        gate.set()
        assert reading.get()["s0"] == [PortCounters("Ethernet1", 3)]
    finally:
        gate.set()
        reading.close()


def test_answers_have_the_times_at_which_they_came() -> None:
    """A late answer has its own time, not that of the reading that returns it."""
    gate, now = threading.Event(), [100.0]

    def late() -> list[PortCounters]:
        gate.wait(30)
        return counted()

    reading = reading_of(30, late, counted, clock=lambda: now[0])
    try:
        assert isinstance(reading.timed(0.2)["s0"][1], str)
        gate.set()
        time.sleep(0.1)
        gate.clear()
        now[0] = 140.0
        found = reading.timed(0.2)
        assert found == {"s0": (100.0, counted()), "s1": (140.0, counted())}
    finally:
        gate.set()
        reading.close()


def test_unforeseen_error_of_one_switch_affects_no_other() -> None:
    def breaks() -> list[PortCounters]:
        raise RecursionError("too deep")

    reading = reading_of(5, breaks, counted, clock=time.monotonic)
    for _ in range(2):
        found = reading.get()
        assert isinstance(found["s0"], str) and "too deep" in found["s0"]
        assert found["s1"] == counted()
    reading.close()
    assert all(isinstance(one, str) for one in reading.get().values()), "after the site was replaced"


def test_fabrics_are_asked_at_the_same_time() -> None:
    """Each has a silent switch, and all together take as long as one."""
    both = threading.Barrier(3)

    def port_counters() -> dict[str, str]:
        both.wait(10)  # breaks unless all three are asked at once
        return {"leaf": "no answer"}

    fabrics = {name: SimpleNamespace(port_counters=port_counters) for name in ("a", "b", "c")}
    registry = CollectorRegistry()
    registry.register(SwitchCollector(cast(Any, fabrics)))
    assert generate_latest(registry).decode().count('switch="leaf"} 0.0') == 3


@pytest.mark.parametrize(
    ("given", "known"),
    [(5, 5), ("5", 5), (0, 0), (-1, None), (1 << 64, None), ("9" * 21, None), (True, None), (1.5, None), (None, None),
     ("5 Bytes", None), ("", None), ({}, None), ("٣", None)],
)  # fmt: skip
def test_invalid_counters_are_absent(given: Any, known: int | None) -> None:
    assert count(given) == known


def test_answers_of_another_shape_have_no_counters() -> None:
    assert (
        eos_counters(
            {"Vlan1": {"interfaceCounters": {}}, "Ethernet1": {}, "Ethernet2": {"interfaceCounters": 5}}
        )
        == []
    )
    assert eos_counters({"Ethernet1": {"interfaceCounters": {"inUcastPkts": 1}}}) == [
        PortCounters("Ethernet1")
    ]
    assert openconfig_counters([{"name": "Vlan7", "state": {"counters": {}}}, {"name": "Ethernet0"}]) == []
    assert nvue_counters("swp1", {}, {"tx-stats": None}) == PortCounters("swp1")
    assert ovs_counters("p1", {"rx_bytes": 7}) == PortCounters("p1", 7)


@pytest.mark.fabric
def test_real_frames_are_counted_by_every_interface(switch_rigs: Callable[[str], RealSwitches]) -> None:
    """Four vendors' interfaces in one fabric: what hosts send is what their leaves' ports received."""
    rig = switch_rigs("mixed")
    before = rig.fabric.port_counters()
    assert before.keys() == {"leaf1", "leaf2", "spine1", "spine2"}
    assert not [s for s, ports in before.items() if isinstance(ports, str)]
    wanted = vlan(0x101, [rig.port("host1"), rig.port("host2")])
    assert rig.driver.create(scope(1), [wanted], {})["partition"].error is None
    rig.hosts.await_reach({("host1", "host2")}, seconds=40)
    switch, _, name = rig.port("host1").partition("/")

    def received() -> int:
        ports = rig.fabric.port_counters()[switch]
        return next(p.receive_bytes or 0 for p in ports if not isinstance(p, str) and p.port == name)

    first = next(p.receive_bytes or 0 for p in before[switch] if not isinstance(p, str) and p.port == name)
    deadline = time.monotonic() + 20  # Open vSwitch writes its counters every 5 s
    while received() <= first and time.monotonic() < deadline:
        time.sleep(0.5)
    assert received() > first
    routes, rates = rig.fabric.routes(0).routes, rig.fabric.rates(0)
    ends = {end: (routes.names[end[0]], name) for end, name in routes.port_names.items()}
    silent = {ends[end] for end, rate in rates.ports.items() if end in ends and rate.sent is None}
    assert silent == {("leaf1", "Port-Channel5")} and rates.unread == 1, "a bond has no counters of its own"
    assert rates.seconds[0] >= 2 and {switch for switch, _ in ends.values()} == set(before)
    assert {p.port_guid for p in routes.ports} == {h.port_guid for n in rig.site.nodes for h in n.hcas}
