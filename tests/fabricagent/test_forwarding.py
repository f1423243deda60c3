"""Reading forwarding tables: sweeps meanwhile, silent switches, and the routing engine of log and options."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.fabricagent.discovery import Map
from weft.fabricagent.forwarding import LINEAR_FORWARDING_TABLE, RouteReader
from weft.fabricagent.mad import SWITCH_INFO, MadTimeoutError
from weft.fabricagent.madbatch import Answer, Question
from weft.fabricagent.opensm import Log
from weft.fabricagent.routing import configured_engines, engine_problem
from weft.fabricagent.wire import Wire
from weft.model.agentlinks import Routes, RoutesQuery
from weft.model.errors import UnknownError
from weft.model.ids import format_guid
from weft.model.observedfabric import ObservedFabric, ObservedNode
from weft.planning.fabric.ibnetdiscover import Discovery, parse_ibnetdiscover

UP = "Nov 29 11:41:02 274057 [304AC6C0] 0x02 -> SUBNET UP\n"
ROUTED = (
    "Nov 29 11:41:01 951585 [304AC6C0] 0x02 -> osm_ucast_mgr_process: {} tables configured on all switches\n"
)


class FakeFabric:
    """Switches 1 and 2 at LIDs 10 and 20; the table of each begins with its number."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "opensm.log"
        self.log.write_text(ROUTED.format("minhop") + UP)
        nodes = tuple(ObservedNode(guid=g, name=f"leaf{g}", kind="switch", ports=40) for g in (1, 2))
        found = Discovery(ObservedFabric(nodes=nodes, links=()), {}, {1: 10, 2: 20}, {})
        self.map = Map(found, 0.0, {}, {1: 10, 2: 20}, 0, names={1: "leaf1", 2: "leaf2"})
        self.finder = SimpleNamespace(map=self.discover)
        self.client = SimpleNamespace(batch=self.batch)
        self.top, self.silent = {10: 100, 20: 100}, set[int]()
        self.sweeps_while_read = 0
        self.readings, self.discovered = 0, list[float]()
        self.now = 0.0
        self.reader = RouteReader(cast(Wire, cast(Any, self)), Log(self.log), lambda: self.now)

    def discover(self, max_age: float) -> Map:
        self.discovered.append(max_age)
        return self.map

    def sweep(self) -> None:
        with self.log.open("a") as file:
            file.write(UP)

    def batch(self, questions: list[Question], within: float) -> list[Answer]:
        assert within > 0
        self.readings += any(q.attribute == SWITCH_INFO for q in questions)
        if self.sweeps_while_read and questions[0].attribute == LINEAR_FORWARDING_TABLE:
            self.sweeps_while_read -= 1
            self.sweep()
        return [self._answer(q) for q in questions]

    def _answer(self, q: Question) -> Answer:
        if q.lid in self.silent:
            return MadTimeoutError("no answer")
        if q.attribute == SWITCH_INFO:
            return bytes(6) + self.top[q.lid].to_bytes(2, "big") + bytes(56)
        return bytes([q.lid // 10, *range(1, 64)]) if q.modifier == 0 else bytes([q.modifier] * 64)

    def read(self, max_age: float = 0.0, **have: str) -> Routes:
        return self.reader.read(RoutesQuery(max_age=max_age, have=have))


@pytest.fixture
def fabric(tmp_path: Path) -> FakeFabric:
    return FakeFabric(tmp_path)


def test_table_ends_with_the_last_lid_that_the_switch_has(fabric: FakeFabric) -> None:
    """Entries above LinearFDBTop mean nothing (IBA 1.4 §14.2.5.4)."""
    for switch in fabric.read().switches:
        assert switch.table == bytes([switch.guid, *range(1, 64), *[1] * 37])


def test_client_gets_only_tables_that_it_lacks(fabric: FakeFabric) -> None:
    first, second = fabric.read().switches
    again = fabric.read(**{format_guid(1): first.digest, format_guid(2): "older"}).switches
    assert [s.table for s in again] == [None, second.table]
    assert [s.digest for s in again] == [first.digest, second.digest]


def test_reading_is_shared_until_it_is_too_old_or_a_sweep_ended(fabric: FakeFabric) -> None:
    """After a sweep the fabric is discovered again."""
    fabric.read()
    fabric.now = 20.0
    assert fabric.read(30.0).age == 20.0 and fabric.readings == 1
    fabric.sweep()
    assert fabric.read(30.0).age == 0.0 and fabric.readings == 2 and fabric.discovered[-1] == 0.0
    fabric.now = 60.0
    assert fabric.read(30.0).age == 0.0 and fabric.readings == 3


def test_sweep_while_tables_are_read_makes_a_second_reading(fabric: FakeFabric) -> None:
    fabric.sweeps_while_read = 1
    assert fabric.read(30.0).partial == () and fabric.readings == 2
    assert fabric.read(30.0).partial == () and fabric.readings == 2


def test_tables_of_two_sweeps_are_reported_as_partial_and_read_again(fabric: FakeFabric) -> None:
    fabric.sweeps_while_read = 2
    [said] = fabric.read(30.0).partial
    assert "a sweep ended" in said and fabric.readings == 2
    assert fabric.read(30.0).partial == () and fabric.readings == 3


def test_silent_switch_is_named_and_others_are_read(fabric: FakeFabric) -> None:
    fabric.silent = {20}
    found = fabric.read()
    assert [s.guid for s in found.switches] == [1]
    assert found.unread == {format_guid(2): "no answer"}
    fabric.silent = {10, 20}
    with pytest.raises(UnknownError, match="no answer"):
        fabric.read()


def test_lid_mask_is_read_from_the_discovery() -> None:
    """A port with LMC 2 has four LIDs."""
    text = (
        "switchguid=0x1(1)\n"
        'Switch\t8 "S-0000000000000001"\t\t# "leaf1" enhanced port 0 lid 10 lmc 0\n'
        '[3]\t"H-000000000000000a"[1](b) \t\t# "gpu01 mlx5_0" lid 12 4xHDR\n'
        "\ncaguid=0xa\n"
        'Ca\t1 "H-000000000000000a"\t\t# "gpu01 mlx5_0"\n'
        '[1](b) \t"S-0000000000000001"[3]\t\t# lid 12 lmc 2 "leaf1" lid 10 4xHDR\n'
    )
    host = parse_ibnetdiscover(text).hosts[0xB]
    assert (host.lid, host.lmc, host.peer_lid) == (12, 2, 10)


def test_log_names_the_engine_of_the_last_sweep(fabric: FakeFabric) -> None:
    """Other lines name engines that were tried before."""
    log = Log(fabric.log)
    assert (log.engine(), log.sweeps()) == ("minhop", 1)
    with fabric.log.open("a") as file:
        file.write("0x01 -> updn_lid_matrices: disabling UPDN algorithm, no root nodes were found\n")
        file.write(ROUTED.format("torus-2QoS") + UP)
    assert (log.engine(), log.sweeps()) == ("torus-2QoS", 2)


@pytest.mark.parametrize(
    ("option", "words", "engines"),
    [
        ("routing_engine ftree, updn", (), ("ftree", "updn")),
        ("routing_engine (null)", (), ()),
        ("# routing_engine ftree", (), ()),
        ("routing_engine ftree", ("-R", "lash"), ("lash",)),
        ("routing_engine ftree", ("-Rdfsssp",), ("dfsssp",)),
        ("", ("--routing_engine=updn,minhop",), ("updn", "minhop")),
        ("", ("--routing_engine", "dor"), ("dor",)),
    ],
)
def test_configured_engines_are_those_of_file_or_command_line(
    tmp_path: Path, option: str, words: tuple[str, ...], engines: tuple[str, ...]
) -> None:
    """As in OpenSM, the command line overrides the file."""
    options = tmp_path / "opensm.conf"
    options.write_text(f"console off\n{option}\n")
    (tmp_path / "cmdline").write_text("\0".join(("opensm", "-F", "x", *words, "")))
    assert configured_engines(options, tmp_path) == engines
    assert configured_engines(tmp_path / "missing", None) == ()


def test_engine_is_a_problem_only_if_both_are_known_and_differ() -> None:
    assert engine_problem("", ("ftree",)) == engine_problem("minhop", ()) == ""
    assert engine_problem("ftree", ("ftree", "updn")) == ""
    assert "ftree is configured, but updn is in force" in engine_problem("updn", ("ftree", "updn"))
