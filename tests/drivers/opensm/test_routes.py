"""Forwarding tables from the switches: complete, equal to ibtracert's, sent once, and never guessed."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pytest

from tests.drivers.opensm.rigs import FakeRig, RealRig, Rig, host_ports, until
from weft.drivers.wire.agents import NoSuchCallError
from weft.model.agentlinks import RoutesQuery
from weft.model.errors import UnknownError
from weft.model.linkreading import RouteReading
from weft.planning.fabric.forwarding import Fate, Forwarding
from weft.testing.fabric import FakeFabric


def followed(reading: RouteReading) -> Forwarding:
    return Forwarding(reading.tables, reading.ports, reading.cables)


def fates(found: Forwarding) -> dict[Fate, int]:
    """How many of all paths between hosts don't arrive, by reason."""
    pairs = np.array(list(itertools.permutations(range(len(found.ports)), 2)), np.int32)
    return found.follow(pairs[:, 0], pairs[:, 1]).lost()


def test_every_path_between_hosts_arrives(rig: Rig) -> None:
    """All switches of the site are read, and each path ends at its target's leaf port."""
    reading = rig.driver.routes(0).routes
    assert {reading.names[g] for g in reading.tables} == {s.name for s in rig.site.switches}
    assert (reading.unread, reading.partial, reading.engine) == ({}, (), "minhop")
    found = followed(reading)
    assert {p.port_guid for p in reading.ports} >= set(host_ports(rig.site))
    assert fates(found) == {}
    one, other = host_ports(rig.site)[0], host_ports(rig.site)[-1]
    path = found.path(one, other)
    assert len(path) == 4 and path[0][1] == 1, "host, leaf, spine, leaf"
    assert found.other_end(found.link_of(*path[-1]) or 0)[0] == found.ports[found.of_port[other]].node_guid


def test_tables_are_sent_again_only_where_they_changed(rig: Rig) -> None:
    """A second reading without changes is the same object, so that what was computed from it stays valid."""
    first = rig.driver.routes(0)
    second = rig.driver.routes(0)
    assert second.routes is first.routes and second.age < 60
    assert rig.driver.routes(60).routes is first.routes


@pytest.mark.fabric
def test_paths_equal_those_of_ibtracert(real: RealRig) -> None:
    """Random pairs, each hop with both ports, against the program of infiniband-diags."""
    found = followed(real.driver.routes(0).routes)
    chance = random.Random(4)
    guids = host_ports(real.site)
    for source, target in (chance.sample(guids, 2) for _ in range(12)):
        text = real.faults.ask("ibtracert", "-G", f"{source:#x}", f"{target:#x}")
        hops = re.findall(r"^\[(\d+)\] -> \S+ port \{0x([0-9a-f]+)\}\[(\d+)\]", text, re.MULTILINE)
        shown = [(int(out), int(into)) for out, _, into in hops]
        links = [found.link_of(g, p) for g, p in found.path(source, target)[1:]]
        first = found.link_of_host(source)
        ours = [
            (found.end_of(link)[1], found.other_end(link)[1]) for link in (first, *links) if link is not None
        ]
        assert ours == shown and len(ours) > 1


@pytest.mark.fabric
def test_cut_cable_between_two_readings_moves_its_paths(real: RealRig) -> None:
    """The agent notices the sweep without waiting for the reading's age; no path uses the cable afterwards."""
    before = followed(real.driver.routes(0).routes)
    leaf, spine = (next(s for s in real.site.switches if s.level == level) for level in ("leaf", "spine"))
    link = next(k for k in real.site.links if {k.a, k.b} == {leaf.name, spine.name})
    port = link.a_port if link.a == leaf.name else link.b_port
    assert before.link_of(leaf.guid or 0, port) is not None
    real.faults.unlink(leaf.name, port)
    try:

        def moved() -> bool:
            now = followed(real.another_driver().routes(3600).routes)
            return now.link_of(leaf.guid or 0, port) is None and not fates(now)

        until("the paths moved", moved)
    finally:
        real.faults.relink(leaf.name, port)
        until(
            "the cable is back", lambda: followed(real.driver.routes(0).routes).link_of(leaf.guid or 0, port)
        )


@pytest.mark.fabric
def test_engine_that_fell_back_is_reported(real: RealRig) -> None:
    """OpenSM still says SUBNET UP; with the configured engine in use nothing is reported."""
    options = real.faults.partitions_file("sm1").with_name("opensm.conf")
    text = options.read_text()
    try:
        options.write_text(f"{text}routing_engine torus-2QoS,minhop\n")

        def said() -> list[str]:
            [manager] = [m for m in real.driver.status().managers if m.name == "sm1"]
            return [p for p in manager.problems if "routing engine" in p]

        [problem] = said()
        assert problem.startswith("routing engine torus-2QoS is configured, but minhop is in force")
        reading = real.driver.routes(0).routes
        assert (reading.engine, reading.configured) == ("minhop", ("torus-2QoS", "minhop"))
        options.write_text(f"{text}routing_engine minhop\n")
        assert said() == []
    finally:
        options.write_text(text)


def fake() -> tuple[FakeRig, FakeFabric]:
    rig = FakeRig()
    assert isinstance(rig.driver, FakeFabric)
    return rig, rig.driver


def test_silent_switch_makes_its_paths_unknown() -> None:
    """Its tables aren't guessed from its neighbours', and other paths are followed."""
    rig, fabric = fake()
    fabric.manager("sm1").forwarding.silent.add("leaf02")
    reading = rig.driver.routes(0).routes
    leaf = rig.site.switch_by_name["leaf02"]
    assert dict(reading.unread) == {leaf.guid: "no answer"}
    found = followed(reading)
    lost = fates(found)
    assert set(lost) == {Fate.UNREAD} and lost[Fate.UNREAD] > 0
    same = [p.port_guid for p in reading.ports if p.switch_guid != leaf.guid][:2]
    assert len(found.path(*same)) == 2


@pytest.mark.parametrize(
    ("out", "fate"), [(255, Fate.NO_ROUTE), (0, Fate.DEAD_END), (33, Fate.DEAD_END), (None, Fate.LOOP)]
)
def test_path_that_does_not_arrive_is_counted_and_uses_no_link(out: int | None, fate: Fate) -> None:
    """No route, the switch itself, a port without a cable, and a loop between leaf and spine."""
    rig, fabric = fake()
    reading = rig.driver.routes(0).routes
    good = followed(reading)
    source, target = host_ports(rig.site)[0], host_ports(rig.site)[-1]
    path = good.path(source, target)
    lid = good.ports[good.of_port[target]].lid
    spine = path[2][0]
    if out is None:
        out = good.other_end(good.link_of(*path[1]) or 0)[1]  # back to the leaf before it
    fabric.manager("sm1").forwarding.overridden[reading.names[spine], lid] = out
    found = followed(rig.driver.routes(0).routes)
    assert found.path(source, target) == []
    assert set(fates(found)) == {fate}


def test_each_lid_of_a_port_is_followed() -> None:
    """With an LMC of 1 a port has two LIDs, whose paths may differ."""
    rig, fabric = fake()
    fabric.manager("sm1").forwarding.lmc = 1
    found = followed(rig.driver.routes(0).routes)
    assert found.many_lids and fates(found) == {}
    source, target = (found.of_port[g] for g in (host_ports(rig.site)[0], host_ports(rig.site)[-1]))
    lids = np.array(found.lids(target), np.int32)
    ends = [np.full(2, x, np.int32) for x in (source, target)]
    hops = found.follow(*ends, lids)
    first, second = ({int(x) for x in hops.link[hops.path == i]} for i in range(2))
    assert len(first) == len(second) == 4 and first != second


def test_table_of_another_digest_is_refused() -> None:
    """An agent that names one table and sends another proves nothing."""
    rig, fabric = fake()
    forwarding = fabric.manager("sm1").forwarding
    real_answer = forwarding.answer(RoutesQuery())
    broken = real_answer.switches[0].model_copy(update={"digest": "0" * 64})
    forwarding.answer = lambda query: real_answer.model_copy(update={"switches": (broken,)})
    with pytest.raises(UnknownError, match="isn't the one it names"):
        rig.driver.routes(0)


def test_agent_without_this_path_is_to_be_upgraded() -> None:
    """An older agent answers 404; everything else works."""
    rig, fabric = fake()

    def missing(query: RoutesQuery) -> None:
        raise NoSuchCallError("POST routes", "sm1", "there is no POST /v1/routes here", "upgrade the agent")

    fabric.manager("sm1").forwarding.answer = missing  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(UnknownError, match=r"older than weft.*upgrade the agent"):
        rig.driver.routes(0)
    assert rig.driver.status().known


@pytest.mark.fabric
def test_switch_that_loses_datagrams_is_unread_within_bounded_time(real: RealRig) -> None:
    """After three time-outs in a row it isn't asked further; the other switches are read meanwhile."""
    real.driver.routes(0)
    spine = next(s for s in real.site.switches if s.level == "spine")
    real.faults.lose(spine.name, 100, 0x19, port=0)
    try:
        reading = real.driver.routes(0).routes
        assert set(reading.unread) == {spine.guid}
        assert len(reading.tables) == len(real.site.switches) - 1
        assert set(fates(followed(reading))) == {Fate.UNREAD}
    finally:
        real.faults.lose(spine.name, 0, 0x19, port=0)
    until("it is read again", lambda: not real.driver.routes(0).routes.unread)
