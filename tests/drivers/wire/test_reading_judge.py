"""A reading carries its own proof that it was one: what a blind agent sees is unknown."""

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
    """Every port with its default key, the manager's own as full member."""
    assert len(new_judge()[0].all(tables(1, 2, 3), "sm1").ports) == 4


@pytest.mark.parametrize(
    "port", [reading(1, 0x8101), reading(1, 0x7FFF, leaf=()), reading(1, 0x7FFF, leaf=(0x8101,))]
)
def test_table_without_the_default_key_counts_as_unread(port: PortReading) -> None:
    """Neither a host's nor a leaf's: the port counts as one that could not be read."""
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
def test_agent_without_view_is_unknown(blind: Tables, said: str) -> None:
    """No port, not its own, none that the site describes, one twice: each is said."""
    with pytest.raises(UnknownError, match=said):
        new_judge()[0].all(blind, "sm1")


def test_sudden_loss_of_most_ports_is_read_twice() -> None:
    """A second look that agrees, a while later, makes it the truth: a power cut is no blind agent."""
    judge, now = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    for _ in range(2):  # two looks at the same moment are one
        with pytest.raises(UnknownError, match="answered a moment ago"):
            judge.all(tables(1, 2), "sm1")
    now[0] = 2.0
    assert judge.all(tables(1, 2), "sm1")
    assert judge.all(tables(1, 2), "sm1")


def test_doubt_ends_when_the_ports_return() -> None:
    """And the next time it is a doubt again."""
    judge, now = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    with pytest.raises(UnknownError):
        judge.all(tables(1), "sm1")
    judge.all(tables(*range(1, 21)), "sm1")
    now[0] = 10.0
    with pytest.raises(UnknownError):
        judge.all(tables(1), "sm1")


def test_loss_of_a_few_ports_is_believed() -> None:
    """A rack is switched off: those ports are named as not read, the others count."""
    judge, _ = new_judge()
    judge.all(tables(*range(1, 21)), "sm1")
    assert len(judge.all(tables(*range(1, 13)), "sm1").ports) == 13


def test_answers_to_other_questions_are_unknown() -> None:
    """Other ports than asked for, fewer paths than asked for: an empty answer proves nothing."""
    judge, _ = new_judge()
    for ports in ((), (reading(2),), (reading(1), reading(1))):
        with pytest.raises(UnknownError, match="asked for"):
            judge.some(Tables(ports=ports), [1], "sm1")
    probe = PathProbe(source=1, destination=2, path=False)
    assert judge.paths(Paths(paths=(probe,)), [(1, 2)], "sm1")
    for paths in ((), (probe, probe), (PathProbe(source=2, destination=1, path=False),)):
        with pytest.raises(UnknownError, match="asked for"):
            judge.paths(Paths(paths=paths), [(1, 2)], "sm1")
