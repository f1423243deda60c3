"""Ports' data and wait counters: rates of three readings, resets, full counters, silent ports, Prometheus' format."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from weft.fabricagent.counters import (
    CLASS_PORT_INFO,
    FULL_32,
    PORT_COUNTERS,
    CounterWatch,
    Grown,
    grown,
)
from weft.fabricagent.mad import MadTimeoutError
from weft.fabricagent.madbatch import Answer, Question
from weft.fabricagent.metrics import metrics
from weft.fabricagent.wire import Wire
from weft.model.agentlinks import Counters
from weft.model.errors import UnknownError
from weft.model.observedfabric import End, ObservedFabric, ObservedNode
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort

LEAF, HOST = (1, 3), (10, 1)


class Fabric:
    """Host 10 (LID 7) on port 3 of switch 1 (LID 2), with counters that the test sets and a clock that it moves."""

    def __init__(self) -> None:
        nodes = (
            ObservedNode(guid=1, name='leaf"01', kind="switch", ports=40),
            ObservedNode(guid=10, name="gpu01 mlx5_0", kind="ca", ports=1),
        )
        link = End(guid=1, port=3), End(guid=10, port=1)
        hosts = {11: HostPort(port_guid=11, port=1, lid=7, peer_guid=1, peer_port=3, peer_lid=2)}
        self.discovery = Discovery(ObservedFabric(nodes=nodes, links=(link,)), hosts, {1: 2}, {})
        self.capabilities = {2: 0x1200, 7: 0x1200}
        self.sent: dict[tuple[int, int], int] = {(2, 3): 0, (7, 1): 0}
        self.wait: dict[tuple[int, int], int] = {(2, 3): 0, (7, 1): 0}
        self.client = SimpleNamespace(batch=self.batch)
        self.now, self.asked = 0.0, 0
        self.watch = CounterWatch(cast(Wire, cast(Any, self)), lambda: self.now)

    def discover(self, max_age: float) -> Discovery:
        del max_age
        return self.discovery

    def batch(self, questions: list[Question], attempts: int, within: float) -> list[Answer]:
        assert attempts == 1 and within > 0
        self.asked += len(questions)
        return [self._answer(q) for q in questions]

    def _answer(self, q: Question) -> Answer:
        end = q.lid, q.port or 0
        if end not in self.sent:
            return MadTimeoutError("no answer")
        if q.attribute == CLASS_PORT_INFO:
            return struct.pack(">BBH", 1, 1, self.capabilities[q.lid]).ljust(192, b"\0")
        sent = self.sent[end]
        if q.attribute == PORT_COUNTERS:
            errors = struct.pack(">HBBHHHHBBxBxxH", 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xAB, 12)
            data = struct.pack(">5I", min(sent, FULL_32), 0, 0, 0, self.wait[end])
            return (bytes(4) + errors + data).ljust(192, b"\0")
        return (bytes(8) + struct.pack(">4Q", sent, 2 * sent, 3, 4)).ljust(192, b"\0")

    def read(self, now: float, sent: int | None = None, wait: int | None = None) -> Counters:
        """Sets the host's counters and reads all at time `now` (seconds)."""
        self.now = now
        self.sent[7, 1] = self.sent[7, 1] if sent is None else sent
        self.wait[7, 1] = self.wait[7, 1] if wait is None else wait
        return self.watch.look(0.0)


@pytest.fixture
def fabric(monkeypatch: pytest.MonkeyPatch) -> Fabric:
    monkeypatch.setattr(CounterWatch, "start", lambda _: None)
    return Fabric()


def host(found: Counters) -> int:
    """Index of the host's port in a reading."""
    return list(zip(found.node, found.port, strict=True)).index(HOST)


def test_first_reading_gives_no_rate(fabric: Fabric) -> None:
    """The sum of years says nothing about now."""
    found = fabric.read(0, sent=10**12)
    assert found.seconds == () and found.sent == (None, None) and found.waiting == (None, None)


def test_rates_are_of_the_last_two_intervals(fabric: Fabric) -> None:
    """Data are in words of four bytes; waiting is the share of ticks in which data couldn't be sent."""
    fabric.read(0, sent=1000, wait=5)
    fabric.read(10, sent=2000, wait=505)
    found = fabric.read(30, sent=4000, wait=5505)
    i = host(found)
    assert found.seconds == (20.0, 10.0)
    assert (found.sent[i], found.received[i]) == (2000 * 4 / 20, 4000 * 4 / 20)
    assert found.waiting[i] == pytest.approx(5000 / 7000)
    assert found.waiting_before[i] == pytest.approx(500 / 1500)
    assert (found.at_least, found.full, found.unread) == ((), (), 0)
    other = 1 - i
    assert (found.sent[other], found.waiting[other]) == (0.0, 0.0), "idle isn't unknown"


@pytest.mark.parametrize(
    ("before", "now", "most", "added"),
    [
        (5, 9, FULL_32, Grown(4)),
        (9, 5, FULL_32, Grown(5, True)),
        (5, FULL_32, FULL_32, Grown(FULL_32 - 5, True)),
        (FULL_32, FULL_32, FULL_32, Grown(None)),
        (FULL_32, 3, FULL_32, Grown(3, True)),
        (FULL_32 - 1, FULL_32 + 9, (1 << 64) - 1, Grown(10)),
    ],
)
def test_growth_across_a_reset_or_a_full_counter_is_a_minimum(
    before: int, now: int, most: int, added: Grown
) -> None:
    assert grown(before, now, most) == added


def test_full_wait_counter_is_named_and_its_share_is_unknown(fabric: Fabric) -> None:
    """It stops at 2^32 - 1: first the share is a minimum, afterwards it is unknown."""
    fabric.read(0, sent=0, wait=FULL_32 - 1000)
    found = fabric.read(10, sent=1000, wait=FULL_32)
    i = host(found)
    assert found.waiting[i] == pytest.approx(0.5) and found.at_least == (i,) and found.full == (i,)
    found = fabric.read(20, sent=2000, wait=FULL_32)
    assert found.waiting[i] is None and found.full == (i,) and found.sent[i] == 400.0
    assert found.waiting_before[i] == pytest.approx(0.5) and found.at_least == (i,), (
        "the earlier share may be more"
    )


def test_port_without_wait_counter_has_no_share(fabric: Fabric) -> None:
    """Zeros of a counter that doesn't exist say nothing."""
    fabric.capabilities[7] = 0x0200
    fabric.read(0, sent=0)
    found = fabric.read(10, sent=1000)
    assert found.waiting[host(found)] is None and found.sent[host(found)] == 400.0


def test_port_without_64_bit_counters_is_read_by_32_bit_ones(fabric: Fabric) -> None:
    """Its data counter stops at the maximum; afterwards the rate is unknown."""
    fabric.capabilities[7] = 0x1000
    fabric.read(0, sent=0)
    found = fabric.read(10, sent=FULL_32 + 5)
    assert found.sent[host(found)] == FULL_32 * 4 / 10 and host(found) in found.at_least
    assert fabric.read(20).sent[host(found)] is None


def test_silent_port_is_counted_and_has_no_rate(fabric: Fabric) -> None:
    fabric.read(0)
    del fabric.sent[2, 3]
    found = fabric.read(10, sent=5)
    assert found.unread == 1 and found.node == (10,)
    fabric.sent[2, 3] = 77
    found = fabric.read(20)
    assert found.unread == 0 and found.sent[1 - host(found)] is None


def test_reading_without_an_answer_is_unknown(fabric: Fabric) -> None:
    """Earlier values aren't reported as current."""
    fabric.read(0)
    fabric.sent = {}
    fabric.now = 10
    with pytest.raises(UnknownError, match="no answer"):
        fabric.watch.look(0.0)


def test_young_reading_is_shared(fabric: Fabric) -> None:
    """However many ask, the fabric is read at most once a second."""
    fabric.read(0)
    asked = fabric.asked
    fabric.read(0.9)
    assert fabric.watch.look(60).age == 0.9 and fabric.asked == asked
    fabric.read(1.0)
    assert fabric.asked > asked


def test_metrics_have_the_usual_names_and_valid_text(fabric: Fabric) -> None:
    """Those of infiniband_exporter; node descriptions are escaped."""
    fabric.read(0, sent=250, wait=9)
    text = metrics(fabric.watch.readings()[0], 1.5).text
    assert text.endswith("\n"), "Prometheus refuses a last line without an end"
    found = {
        (s.name, *sorted(s.labels.items())): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    port = ("guid", "0x000000000000000a"), ("port", "1")
    assert found["infiniband_hca_port_transmit_data_bytes_total", *port] == 1000
    assert found["infiniband_hca_port_receive_data_bytes_total", *port] == 2000
    assert found["infiniband_hca_port_transmit_wait_total", *port] == 9
    assert found["infiniband_hca_port_excessive_buffer_overrun_errors_total", *port] == 0xB
    assert found["infiniband_hca_port_vl15_dropped_total", *port] == 12
    assert found["infiniband_switch_info", ("guid", "0x0000000000000001"), ("switch", 'leaf"01')] == 1
    assert found["infiniband_counters_age_seconds",] == 1.5
    uplinks = [key for key in found if key[0] == "infiniband_hca_uplink_info"]
    assert len(uplinks) == 1 and ("uplink_port", "3") in uplinks[0]
