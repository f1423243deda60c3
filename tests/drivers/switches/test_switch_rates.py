"""Rates of switches' ports, from each switch's own answers and their times; quick although one switch hangs."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import cast

from weft.api.threadshares import READ_SECONDS
from weft.drivers.switches.counters import CounterReading, TimedAnswer
from weft.drivers.switches.interface import SwitchDriver
from weft.drivers.switches.possible import FIRST, SOON, SwitchRates
from weft.model.agentlinks import SwitchCable
from weft.model.linkreading import RouteReading
from weft.model.portcounters import PortCounters

ROUTES = RouteReading(
    digest="x",
    tables={},
    names={1: "leaf01", 2: "spine01"},
    ports=(),
    cables=(SwitchCable(a=1, a_port=1, b=2, b_port=1),),
    equal_paths=True,
    port_names={(1, 1): "Ethernet1", (2, 1): "Ethernet1"},
)
LEAF, SPINE = (1, 1), (2, 1)


class Switches:
    """A stand-in for `CounterReading.timed`: each switch's next entry of `answers`."""

    def __init__(self, **answers: list[tuple[float, int | str]]) -> None:
        self.answers, self.now = answers, 0.0

    def read(self) -> dict[str, TimedAnswer]:
        found: dict[str, TimedAnswer] = {}
        for switch, waiting in self.answers.items():
            at, sent = waiting.pop(0)
            found[switch] = at, sent if isinstance(sent, str) else [PortCounters("Ethernet1", 0, sent)]
            self.now = max(self.now, at)
        return found

    def rates(self) -> SwitchRates:
        return SwitchRates(self.read, lambda: self.now, lambda _: None)


def test_rate_is_computed_from_the_times_of_the_switchs_own_answers() -> None:
    """An answer after 20 s counts for 22 s, not for 2 s as the others."""
    switches = Switches(leaf01=[(0.0, 0), (22.0, 2200)], spine01=[(20.0, 0), (22.0, 2200)])
    found = switches.rates().get(ROUTES, 0)
    assert (found.ports[LEAF].sent, found.ports[SPINE].sent) == (100.0, 1100.0)
    assert found.seconds == (22.0,) and found.unread == 0


def test_late_answer_that_is_given_again_is_not_a_rate() -> None:
    """Else the port would seem to carry nothing."""
    switches = Switches(leaf01=[(0.0, 500), (0.0, 500)], spine01=[(0.0, 0), (2.0, 8)])
    found = switches.rates().get(ROUTES, 0)
    assert (found.ports[LEAF].sent, found.ports[SPINE].sent, found.unread) == (None, 4.0, 1)


def test_age_of_rates_is_that_of_the_oldest_answer_used() -> None:
    switches = Switches(leaf01=[(0.0, 0), (5.0, 5)], spine01=[(0.0, 0), (40.0, 40)])
    assert switches.rates().get(ROUTES, 0).age == 35.0


def test_silent_switch_has_no_rate_until_it_has_answered_twice() -> None:
    said = "no answer within 3 s"
    leaf: list[tuple[float, int | str]] = [
        (0.0, 0),
        (2.0, 20),
        (30.0, said),
        (60.0, 600),
        (300.0, 900),
        (302.0, 902),
    ]
    switches = Switches(leaf01=leaf, spine01=[(t, 0) for t, _ in leaf])
    rates = switches.rates()
    assert rates.get(ROUTES, 0).ports[LEAF].sent == 10.0
    switches.now = 30.0
    assert rates.get(ROUTES, 0).ports[LEAF].sent is None
    switches.now = 60.0
    assert rates.get(ROUTES, 0).ports[LEAF].sent == 10.0
    switches.now = 300.0
    assert rates.get(ROUTES, 0).ports[LEAF].sent == 1.0


def test_fabric_with_a_switch_that_hangs_is_read_within_a_request() -> None:
    """The others' rates are known after `READ_SECONDS`, which the API's requests wait."""
    assert 2 * SOON + FIRST < READ_SECONDS
    gate, sent = threading.Event(), [0]

    def counts() -> list[PortCounters]:
        sent[0] += 1000
        return [PortCounters("Ethernet1", 0, sent[0])]

    switches = {
        "leaf01": SimpleNamespace(counters=lambda: gate.wait(60)),
        "spine01": SimpleNamespace(counters=counts),
    }
    reading = CounterReading("eth", cast(dict[str, SwitchDriver], switches))
    try:
        rates = SwitchRates(lambda: reading.timed(0.2), pause=lambda _: time.sleep(1.1))
        began = time.monotonic()
        for _ in range(2):
            found = rates.get(ROUTES, 20)
            assert found.ports[LEAF].sent is None and (found.ports[SPINE].sent or 0) > 0 and found.unread == 1
        assert sent[0] == 2000, "the first request's readings answer the second"
        assert time.monotonic() - began < 60
    finally:
        gate.set()
        reading.close()
