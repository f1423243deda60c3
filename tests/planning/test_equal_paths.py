"""Fabrics without forwarding tables: each pair uses every link of every shortest path."""

from __future__ import annotations

import numpy as np
import pytest

from weft.model.agentlinks import RoutedPort, SwitchCable
from weft.model.errors import InputError
from weft.planning.fabric import equalpaths
from weft.planning.fabric.equalpaths import EqualPaths
from weft.planning.fabric.forwarding import Fate


def host(number: int, leaf: int) -> RoutedPort:
    return RoutedPort(
        port_guid=100 + number, lid=0, node_guid=200 + number, port=1, switch_guid=leaf, switch_port=number
    )


def cable(a: int, a_port: int, b: int, b_port: int) -> SwitchCable:
    return SwitchCable(a=a, a_port=a_port, b=b, b_port=b_port)


HOSTS = (host(1, 1), host(2, 1), host(3, 2), host(4, 9))
CABLES = (cable(1, 11, 5, 1), cable(1, 12, 5, 2), cable(1, 13, 6, 1), cable(2, 11, 5, 3), cable(2, 13, 6, 2))
"""Leaves 1, 2; spines 5, 6; two cables between 1 and 5. Leaf 9 has no uplink."""


def ends(source: int, target: int) -> tuple[set[tuple[int, int]], Fate]:
    """The ports that send on the paths between two hosts, and the result."""
    paths = EqualPaths(HOSTS, CABLES)
    pair = (np.array([paths.of_port[100 + n]], np.int32) for n in (source, target))
    found = paths.follow(*pair)
    assert set(found.path.tolist()) <= {0} and len(found.link) == len(set(found.link.tolist()))
    return {paths.end_of(int(link)) for link in found.link}, Fate(int(found.fate[0]))


def test_pair_of_adapters_has_every_link_of_every_shortest_path() -> None:
    up, back = ends(1, 3), ends(3, 1)
    assert up == ({(201, 1), (1, 11), (1, 12), (1, 13), (5, 3), (6, 2), (2, 3)}, Fate.ARRIVES)
    assert back == ({(203, 1), (2, 11), (2, 13), (5, 1), (5, 2), (6, 1), (1, 1)}, Fate.ARRIVES)


def test_hosts_of_one_leaf_use_no_uplink() -> None:
    assert ends(1, 2) == ({(201, 1), (1, 2)}, Fate.ARRIVES)


def test_pair_without_a_path_is_lost_and_uses_no_link() -> None:
    assert ends(1, 4) == (set(), Fate.NO_ROUTE)
    assert ends(4, 1) == (set(), Fate.NO_ROUTE)


def test_equally_long_ways_round_a_ring_are_both_used() -> None:
    ring = EqualPaths(
        (host(1, 1), host(3, 3)), (cable(1, 8, 2, 8), cable(2, 9, 3, 9), cable(3, 8, 4, 8), cable(4, 9, 1, 9))
    )
    found = ring.follow(np.array([0], np.int32), np.array([1], np.int32))
    assert {ring.end_of(int(k)) for k in found.link} == {(201, 1), (1, 8), (1, 9), (2, 9), (4, 8), (3, 3)}


def test_many_pairs_have_the_same_links_as_each_pair_alone() -> None:
    paths = EqualPaths(HOSTS, CABLES)
    sources, targets = np.array([0, 2, 0, 3, 1], np.int32), np.array([2, 0, 1, 0, 2], np.int32)
    together = paths.follow(sources, targets)
    for number, (a, b) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
        alone, fate = ends(a + 1, b + 1)
        found = {paths.end_of(int(k)) for k in together.link[together.path == number]}
        assert (found, Fate(int(together.fate[number]))) == (alone, fate)
    nothing = paths.follow(np.zeros(0, np.int32), np.zeros(0, np.int32))
    assert not len(nothing.link) and not len(nothing.fate)


def test_more_links_than_fit_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equalpaths, "MOST_LINKS", 6)
    paths = EqualPaths(HOSTS, CABLES)
    with pytest.raises(InputError, match="another pattern"):
        paths.follow(np.array([0], np.int32), np.array([2], np.int32))
    assert len(paths.follow(np.array([0], np.int32), np.array([1], np.int32)).link) == 2
