"""Servers on shared nodes: packed, with near devices, never more than there is, and whole nodes stay whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.offers import offers
from tests.planning.place.placesites import build_request, build_site
from weft.model.localityorder import Level
from weft.model.placement import Neighbour, Occupancy, Part, Placement, PlacementRequest, Refusal, Share
from weft.model.site import Accelerator, AcceleratorCount, Node, Site
from weft.planning.place.placement import place
from weft.planning.place.room import nearest


def gpus(node: str = "", switches: int = 4, count: int = 8) -> tuple[Accelerator, ...]:
    """Two NUMA nodes with two PCIe switches each, two accelerators behind each switch."""
    per, half = max(1, count // switches), max(1, count // 2)
    return tuple(
        Accelerator(type="a100", pci=f"0000:{i:02x}:00.0", numa=i // half, switch=f"plx{i // per}")
        for i in range(count)
    )


def site(sizes: list[list[int]] | None = None, **node: Any) -> Site:
    return build_site(sizes or [[2, 2]], node=lambda name: {"accelerators": gpus(name), **node})


def request(count: int, gpus: int = 1, share: Share | None = None, **more: Any) -> PlacementRequest:
    wanted = AcceleratorCount(type="a100", count=gpus)
    return build_request(count, share=share or Share(), accelerators=wanted, **more)


def part(*numbers: int, cores: int = 0, memory_mib: int = 0) -> Part:
    return Part(devices=tuple(f"0000:{i:02x}:00.0" for i in numbers), cores=cores, memory_mib=memory_mib)


def shared(**parts: list[Part]) -> Occupancy:
    return Occupancy(
        busy=dict.fromkeys(parts, "other"), parts={node: tuple(those) for node, those in parts.items()}
    )


def placed(answer: Placement | Refusal) -> list[str]:
    assert isinstance(answer, Placement), answer
    return [n.node for n in answer.nodes]


def numbers(answer: Placement | Refusal) -> list[list[int]]:
    assert isinstance(answer, Placement), answer
    return [[int(d[5:7], 16) for d in n.part.devices] for n in answer.nodes if n.part]


def test_several_servers_of_a_pod_share_a_host() -> None:
    """Four servers of one accelerator are on one node, and the other nodes stay whole."""
    answer = place(request(4), site(), Occupancy())
    assert placed(answer) == ["gpu1"] * 4 and isinstance(answer, Placement)
    assert len({d for n in answer.nodes if n.part for d in n.part.devices}) == 4
    assert answer.level == "node" and answer.held == ("gpu1",)


def test_partly_used_nodes_are_chosen_before_whole_ones() -> None:
    """Although a whole node is first by name."""
    answer = place(request(2), site(), shared(gpu3=[part(0)]))
    assert placed(answer) == ["gpu3"] * 2 and isinstance(answer, Placement)
    assert answer.explanation.chosen == (
        "2 servers on 1 node: gpu3 in part use already, so that whole nodes stay whole."
    )


def test_tightest_node_that_takes_all_is_filled() -> None:
    """Of two partly used nodes, the one that is fuller afterwards."""
    state = shared(gpu1=[part(0)], gpu4=[part(0, 1, 2, 3, 4)])
    assert placed(place(request(3), site(), state)) == ["gpu4"] * 3
    assert placed(place(request(4), site(), state)) == ["gpu1"] * 4


def test_node_is_split_on_an_already_broken_leaf() -> None:
    """gpu3 is held, so the other node of its leaf is split before one of a whole leaf."""
    state = Occupancy(busy={"gpu3": "whole"})
    assert placed(place(request(1), site(), state)) == ["gpu4"]


def test_fewest_whole_nodes_are_split() -> None:
    """Ten on nodes of eight: the three left of a partly used node, and one whole node."""
    state = shared(gpu2=[part(0, 1, 2, 3, 4)])
    found = place(request(10), site(), state)
    assert isinstance(found, Placement) and Counter(placed(found)) == {"gpu2": 3, "gpu1": 7}
    assert "gpu1 whole until now, since those in part use don't have enough room" in found.explanation.chosen
    found = place(request(10), site(), Occupancy())
    assert isinstance(found, Placement) and "since no node is in part use" in found.explanation.chosen


def test_node_held_whole_has_no_part_for_others() -> None:
    everybody = Occupancy(busy={f"gpu{i}": "whole" for i in range(1, 5)})
    refused = place(request(1), site(), everybody)
    assert isinstance(refused, Refusal) and "there is capacity for 0 (removed by: busy 4)" in refused.reason


def test_partly_used_nodes_are_not_assigned_whole() -> None:
    """A shared node is busy for orders of whole nodes."""
    state = shared(gpu1=[part(0)], gpu2=[part(0)], gpu3=[part(0)])
    whole = build_request(1, accelerators=AcceleratorCount(type="a100", count=8))
    assert placed(place(whole, site(), state)) == ["gpu4"]


def test_server_accelerators_share_switch_or_numa_node() -> None:
    """Two behind one switch that has both; four on one NUMA node; the fewest are left behind a switch."""
    assert numbers(place(request(1, 2), site(), shared(gpu1=[part(0)]))) == [[2, 3]]
    assert numbers(place(request(1, 4), site(), shared(gpu1=[part(0)]))) == [[4, 5, 6, 7]]
    assert numbers(place(request(1, 1), site(), shared(gpu1=[part(2)]))) == [[3]]
    assert numbers(place(request(1, 2), site(), shared(gpu1=[part(0), part(2), part(4), part(6)]))) == [
        [1, 3]
    ]


def test_servers_span_numa_nodes_only_if_flavor_allows() -> None:
    """Six of eight accelerators are never on one NUMA node of four."""
    assert numbers(place(request(1, 6), site(), Occupancy())) == [[0, 1, 2, 3, 4, 5]]
    strict = Share(numa=1, affinity="required")
    assert isinstance(place(request(1, 6, strict), site(), Occupancy()), Refusal)
    # three are left on each NUMA node: one server of two on each, although six accelerators are free
    state = shared(
        gpu1=[part(0), part(4)], gpu2=[part(*range(8))], gpu3=[part(*range(8))], gpu4=[part(*range(8))]
    )
    refused = place(request(3, 2, strict), site(), state)
    assert isinstance(refused, Refusal) and offers(refused) == ("nodes.count: 2 instead of 3",)
    assert numbers(place(request(2, 2, strict), site(), state)) == [[2, 3], [6, 7]]


@pytest.mark.parametrize(
    ("share", "fits"), [(Share(cores=24), 4), (Share(memory_mib=300), 3), (Share(cores=25), 3)]
)
def test_cores_and_memory_limit_servers(share: Share, fits: int) -> None:
    """A node with 96 cores and 1,000 MiB: the refusal says how much is left and how many would fit."""
    one = site([[1]], cores=96, memory_mib=1000)
    assert len(placed(place(request(fits, share=share), one, Occupancy()))) == fits
    refused = place(request(fits + 1, share=share), one, Occupancy())
    assert isinstance(refused, Refusal) and offers(refused) == (f"nodes.count: {fits} instead of {fits + 1}",)


@pytest.mark.parametrize("level", ["hall", "building"])
def test_missing_level_means_the_whole_site(level: Level) -> None:
    """Same as for whole nodes."""
    two = site([[1], [1]])
    assert len(placed(place(request(16, required=level), two, Occupancy()))) == 16
    assert isinstance(place(request(16, required="block"), two, Occupancy()), Refusal)


def test_all_servers_fit_the_required_level_or_none() -> None:
    """A server never spans nodes; `node` means one host for all of them."""
    state = shared(**{f"gpu{i}": [part(0, 1, 2, 3, 4)] for i in range(1, 5)})
    assert len(set(placed(place(request(6), site(), state)))) == 2
    refused = place(request(6, required="node", preferred="node"), site(), state)
    assert isinstance(refused, Refusal)
    assert "6 servers with 1 a100 each fit, but at most 3 within one node" in refused.reason
    assert offers(refused) == ("nodes.count: 3 instead of 6", "locality.required: leaf instead of node")


def test_exclusive_pod_keeps_parts_off_its_leaf() -> None:
    """Leaves are closed to servers as to whole nodes."""
    base = shared(gpu1=[part(0)])
    alone = Neighbour(pod="o", project="p2", nodes=("gpu1",), exclusive=True)
    state = base.model_copy(update={"neighbours": (alone,)})
    assert placed(place(request(1), site(), state)) == ["gpu3"]


parts = st.dictionaries(
    st.sampled_from(["gpu1", "gpu2", "gpu3", "gpu4"]),
    st.lists(
        st.tuples(st.sets(st.integers(0, 7), min_size=1, max_size=4), st.integers(0, 40)),
        min_size=1,
        max_size=3,
    ),
)


@given(
    parts,
    st.integers(1, 14),
    st.integers(1, 5),
    st.integers(0, 40),
    st.booleans(),
    st.sampled_from(["node", "leaf", "block", "site"]),
)
@settings(max_examples=examples(100))
def test_parts_never_overlap_and_refusals_are_correct(
    taken: dict[str, list[tuple[set[int], int]]],
    count: int,
    each: int,
    cores: int,
    one_numa: bool,
    required: Level,
) -> None:
    """In any state, compared with counting by hand: inside the level, with as few whole nodes split as possible."""
    here = site(cores=96)
    state: dict[str, list[Part]] = {}
    for node, those in taken.items():
        free = set(range(8))
        for devices, used in those:
            mine = devices & free
            if mine and sum(p.cores for p in state.get(node, [])) + used <= 96:
                free -= mine
                state.setdefault(node, []).append(part(*sorted(mine), cores=used))
    share = Share(cores=0 if one_numa else cores, numa=1 if one_numa else None)
    preferred: Level = "node" if required == "node" else "leaf"
    answer = place(request(count, each, share, required=required, preferred=preferred), here, shared(**state))
    room = {n.name: by_hand(n, state.get(n.name, []), each, share) for n in here.nodes}
    leaf_of = {n: "l0" if n in ("gpu1", "gpu2") else "l1" for n in room}
    names = {"node": lambda n: n, "leaf": leaf_of.__getitem__}.get(required, lambda n: "")
    most = Counter[str]()
    for node, servers in room.items():
        most[names(node)] += servers
    assert isinstance(answer, Placement) is (max(most.values()) >= count)
    if isinstance(answer, Refusal):
        return
    for node, servers in Counter(placed(answer)).items():
        assert servers <= room[node]
        given = [n.part for n in answer.nodes if n.node == node and n.part]
        devices = [d for p in (*given, *state.get(node, [])) for d in p.devices]
        assert len(devices) == len(set(devices)) and all(len(p.devices) == each for p in given)
        assert sum(p.cores for p in (*given, *state.get(node, []))) <= 96
        if one_numa:
            assert all(len({int(d[5:7], 16) // 4 for d in p.devices}) == 1 for p in given)
    assert len({names(n) for n in placed(answer)}) == 1


def by_hand(node: Node, taken: list[Part], each: int, share: Share) -> int:
    free = {a.pci: a.numa for a in node.accelerators}
    for one in taken:
        for device in one.devices:
            del free[device]
    groups = Counter(free.values()).values() if share.numa else [len(free)]
    servers = sum(n // each for n in groups)
    return min(servers, (96 - sum(p.cores for p in taken)) // share.cores) if share.cores else servers


def test_nearest_devices_come_from_the_fewest_groups() -> None:
    """If no NUMA node has them all."""
    free = [a for a in gpus() if a.pci not in ("0000:00:00.0", "0000:01:00.0")]
    assert [int(a.pci[5:7], 16) for a in nearest(free, 5)] == [4, 5, 6, 7, 2]
