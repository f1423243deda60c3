"""Error counters of ports: what an hour added, resets, silence; and what an agent says of a fabric of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.fabricagent import porterrors
from weft.fabricagent.mad import MadError, MadTimeoutError
from weft.fabricagent.porterrors import WINDOW, History, PortErrorWatch
from weft.fabricagent.wire import Wire
from weft.model.fabric import End, ObservedFabric, ObservedNode
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort

PORT = (1, 3)


def history(*readings: tuple[float, dict[str, int] | None]) -> History:
    """One port's counters over time; None: it didn't answer."""
    made = History()
    for at, counters in readings:
        made.add(at, {} if counters is None else {PORT: counters})
    return made


def test_what_was_there_at_first_is_old() -> None:
    """A sum of years says nothing about now."""
    assert history((0, {"PortRcvErrors": 65_000})).grown(PORT) == {}
    assert history((0, {"PortRcvErrors": 65_000}), (60, {"PortRcvErrors": 65_012})).grown(PORT) == {
        "PortRcvErrors": 12
    }


def test_a_counter_that_appears_has_grown_from_nothing() -> None:
    """Zeros aren't kept."""
    assert history((0, {}), (60, {"SymbolErrorCounter": 4})).grown(PORT) == {"SymbolErrorCounter": 4}


def test_a_reset_takes_nothing_back() -> None:
    """Somebody cleared the counters in between: what was counted before and since are both of this hour."""
    seen = history(
        (0, {"PortRcvErrors": 5}), (60, {"PortRcvErrors": 20}), (120, {}), (180, {"PortRcvErrors": 3})
    )
    assert seen.grown(PORT) == {"PortRcvErrors": 18}


def test_a_silent_port_is_compared_with_what_it_said_last() -> None:
    """What was added while it didn't answer counts once it does."""
    assert history((0, {"LinkDownedCounter": 1}), (60, None), (120, {"LinkDownedCounter": 9})).grown(
        PORT
    ) == {"LinkDownedCounter": 8}
    assert history((0, None), (60, {"LinkDownedCounter": 9})).grown(PORT) == {}


def test_an_hour_later_it_is_forgotten() -> None:
    """The window moves on, and the readings don't pile up."""
    seen = history((0, {}), (60, {"PortRcvErrors": 50}))
    for minute in range(2, 200):
        seen.add(minute * 60, {PORT: {"PortRcvErrors": 50}})
        assert len(seen.readings) <= WINDOW / 60 + 2
    assert seen.grown(PORT) == {}


class FakeWire:
    """Two cabled ports: host 10 on port 3 of switch 1."""

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

    def discover(self, max_age: float) -> Discovery:
        del max_age
        return self.discovery

    def port_errors(self, lid: int, port: int) -> dict[str, int]:
        if (lid, port) not in self.values:
            raise MadTimeoutError("no answer")
        return dict(self.values[lid, port])


@pytest.fixture
def wire() -> FakeWire:
    return FakeWire()


@pytest.fixture
def watch(wire: FakeWire, monkeypatch: pytest.MonkeyPatch) -> PortErrorWatch:
    monkeypatch.setattr(PortErrorWatch, "_go_on", lambda _: None)  # the test says when it reads
    return PortErrorWatch(cast(Wire, cast(Any, wire)))


def test_a_port_that_gets_worse_is_a_problem_and_an_old_sum_is_not(
    wire: FakeWire, watch: PortErrorWatch
) -> None:
    """Shown are both, the growing one first; the sentence names both ends of the cable."""
    wire.values = {(2, 3): {"PortRcvErrors": 500}, (7, 1): {}}
    found, problems = watch.look(0)
    assert [(p.node, p.port, p.counters) for p in found] == [("leaf01", 3, {"PortRcvErrors": 500})]
    assert problems == ()
    wire.values[7, 1] = {"SymbolErrorCounter": 11}
    found, problems = watch.look(porterrors.EVERY)
    assert [p.node for p in found] == ["gpu01 mlx5_0", "leaf01"]
    assert problems == (
        "gpu01 mlx5_0[1] to leaf01[3]: errors grew within the last hour: SymbolErrorCounter by 11; "
        "check cable and adapter",
    )


def test_up_to_the_threshold_is_no_problem(wire: FakeWire, watch: PortErrorWatch) -> None:
    """Ten symbol errors an hour are normal; so are a hundred packets that a key refused."""
    watch.look(0)
    wire.values[7, 1] = {"SymbolErrorCounter": 10, "PortRcvConstraintErrors": 100}
    assert watch.look(60)[1] == ()
    wire.values[7, 1] = {"SymbolErrorCounter": 10, "PortRcvConstraintErrors": 101}
    assert "PortRcvConstraintErrors by 101" in watch.look(120)[1][0]


def test_a_port_that_does_not_answer_is_told_and_hides_no_other(
    wire: FakeWire, watch: PortErrorWatch
) -> None:
    """Unknown isn't fine; nothing readable at all is an error."""
    wire.values = {(2, 3): {"PortRcvErrors": 1}}
    found, problems = watch.look(0)
    assert len(found) == 1
    assert problems == ("error counters of 1 cabled ports can't be read",)
    wire.values = {}
    with pytest.raises(MadError):
        watch.look(60)


def test_asking_often_reads_once_a_minute(wire: FakeWire, watch: PortErrorWatch) -> None:
    """`weft fabric status` in a loop costs the fabric nothing."""
    watch.look(0)
    wire.values[7, 1] = {"LinkDownedCounter": 50}
    assert watch.look(59) == ((), ())
    assert len(watch.look(60)[1]) == 1
