"""Whether a reading proves that the agent really saw the fabric; otherwise it is unknown."""

from __future__ import annotations

import pytest

from weft.drivers.wire.readingjudge import EMPTY, ReadingJudge
from weft.model.agentapi import Paths, PortReading, Tables
from weft.model.errors import UnknownError
from weft.model.subnet import PathProbe

OWN = 100


def reading(guid: int, *keys: int, leaf: tuple[int, ...] | None = (0x7FFF,)) -> PortReading:
    return PortReading(port_guid=guid, keys=keys or (0x7FFF,), leaf_keys=leaf)


def tables(*guids: int, own: PortReading | None = None) -> Tables:
    mine = own or reading(OWN, 0xFFFF, leaf=(0xFFFF,))
    return Tables(own_port=OWN, ports=(mine, *map(reading, guids)))


def new_judge(*described: int) -> tuple[ReadingJudge, list[float]]:
    now = [0.0]
    return ReadingJudge("ib0", frozenset(described or range(1, 21)), lambda: now[0]), now


def test_plausible_reading_is_believed() -> None:
    """Every port has the default key, and the manager's own port is a full member."""
    assert len(new_judge()[0].all(tables(1, 2, 3), "sm1").ports) == 4


@pytest.mark.parametrize(
    "port", [reading(1, 0x8101), reading(1, 0x7FFF, leaf=()), reading(1, 0x7FFF, leaf=(0x8101,))]
)
def test_table_without_the_default_key_counts_as_unread(port: PortReading) -> None:
    """A host's or a leaf's: the port couldn't be read."""
    given = tables(2).model_copy(update={"ports": (*tables(2).ports, port)})
    [found] = [p for p in new_judge()[0].all(given, "sm1").ports if p.port_guid == 1]
    assert found.unreachable == EMPTY and found.keys == ()
    [found] = new_judge()[0].some(Tables(ports=(port,)), [1], "sm1").ports
    assert found.unreachable == EMPTY


@pytest.mark.parametrize(
    ("blind", "said"),
    [
        (Tables(ports=(), own_port=OWN), "its own port"),
        (tables(1).model_copy(update={"own_port": None}), "not named"),
        (tables(1, own=reading(OWN, 0x7FFF)), "full member"),
        (tables(), "none of the 20 ports"),
        (tables(101, 102), "none of the 20 ports"),
        (tables(1, 1), "twice"),
    ],
)
def test_implausible_reading_is_unknown_with_the_reason(blind: Tables, said: str) -> None:
    """No ports, not its own port, none that the site describes, one twice."""
    with pytest.raises(UnknownError, match=said):
        new_judge()[0].all(blind, "sm1")


def test_sudden_loss_of_most_ports_is_believed_once_a_second_reading_agrees() -> None:
    """A power cut is real, and a second reading some time later confirms it."""
    judge, now = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    for _ in range(2):  # two readings at the same moment count as one
        with pytest.raises(UnknownError, match="answered a moment ago"):
            judge.all(tables(1, 2), "sm1")
    now[0] = 2.0
    assert judge.all(tables(1, 2), "sm1")
    assert judge.all(tables(1, 2), "sm1")


def test_doubt_ends_when_the_ports_return() -> None:
    """A later loss is doubted again."""
    judge, now = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    with pytest.raises(UnknownError):
        judge.all(tables(1), "sm1")
    judge.all(tables(*range(1, 21)), "sm1")
    now[0] = 10.0
    with pytest.raises(UnknownError):
        judge.all(tables(1), "sm1")


def test_loss_of_a_few_ports_is_believed() -> None:
    """As if a rack were switched off: those ports are unread, the others count."""
    judge, _ = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    assert len(judge.all(tables(*range(1, 13)), "sm1").ports) == 13


def test_answers_to_other_questions_are_unknown() -> None:
    """Other ports or fewer paths than asked for."""
    judge, _ = new_judge()
    for ports in ((), (reading(2),), (reading(1), reading(1))):
        with pytest.raises(UnknownError, match="asked for"):
            judge.some(Tables(ports=ports), [1], "sm1")
    probe = PathProbe(source=1, destination=2, path=False)
    assert judge.paths(Paths(paths=(probe,)), [(1, 2)], "sm1")
    for paths in ((), (probe, probe), (PathProbe(source=2, destination=1, path=False),)):
        with pytest.raises(UnknownError, match="asked for"):
            judge.paths(Paths(paths=paths), [(1, 2)], "sm1")
