"""What fits on one shared node, against a slow exact model that tries everything; virtual functions and NUMA nodes."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from weft.model.placement import Part, Share
from weft.model.site import Accelerator, Hca, Node
from weft.planning.place.room import Room, clash, near_words

Affinity = Literal["required", "legacy", "socket", "preferred"]
Left = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int, int]
"""Accelerators, cores by NUMA node; functions by adapter; cores and memory of the node."""


def node(
    gpus: list[int],
    vfs: list[tuple[int, int]] = [],  # noqa: B006
    cores: int | None = None,
    numa: int = 2,
    memory: int | None = None,
    sockets: int | None = None,
) -> Node:
    """Accelerators by NUMA node; adapters as (NUMA node, functions); two accelerators behind each PCIe switch."""
    accelerators = [
        Accelerator(type="a100", pci=f"0000:{16 * i + j:02x}:00.0", numa=i, switch=f"plx{i}{j // 2}")
        for i, count in enumerate(gpus)
        for j in range(count)
    ]
    hcas = [
        Hca(
            name=f"mlx5_{k}",
            fabric="ib0",
            guid=2 * k + 2,
            port_guid=2 * k + 3,
            pci=f"0000:c{k}:00.0",
            numa=at,
            switch=f"plx{at}{k % 2}",
            vfs=count,
        )
        for k, (at, count) in enumerate(vfs)
    ]
    return Node(
        name="gpu1",
        accelerators=tuple(accelerators),
        hcas=tuple(hcas),
        cores=cores,
        memory_mib=memory,
        numa_nodes=numa,
        sockets=sockets,
    )


def room(one: Node, *parts: Part) -> Room:
    return Room.of(one, parts, "a100", "ib0", 0)


def filled(one: Node, each: int, share: Share, *parts: Part) -> list[Part]:
    """Servers, added until no further one fits."""
    left, found = room(one, *parts), list[Part]()
    while (part := left.take(each, share)) is not None:
        found.append(part)
    return found


def most(one: Node, each: int, share: Share) -> int:
    """The greatest number of servers possible, found by trying every way."""
    count, sockets = one.numa, one.sockets or one.numa
    gpus = tuple(sum(a.numa == i for a in one.accelerators) for i in range(count))
    cells = tuple((one.cores if one.cores is not None else 1 << 30) // count for _ in range(count))
    at = [h.numa for h in one.hcas]
    start: Left = (
        gpus,
        cells,
        tuple(h.vfs for h in one.hcas),
        one.cores or 1 << 30,
        one.memory_mib or 1 << 30,
    )

    def near(chosen: tuple[int, ...]) -> set[int]:
        if share.numa is None or share.affinity == "preferred":
            return set(range(count))
        if share.affinity == "socket":
            mine = {c * sockets // count for c in chosen}
            return {c for c in range(count) if c * sockets // count in mine}
        return set(chosen)

    @cache
    def best(left: Left) -> int:
        gpus, cells, functions, cores, memory = left
        if cores < share.cores or memory < share.memory_mib:
            return 0
        found = 0
        for chosen in combinations(range(count), share.numa or 0):
            each_cell = -(-share.cores // len(chosen)) if chosen else 0
            if any(cells[c] < each_cell for c in chosen):
                continue
            able = near(chosen)
            rest = tuple(n - each_cell if i in chosen else n for i, n in enumerate(cells))
            adapters = [k for k, n in enumerate(functions) if n and at[k] in able]
            for taken_gpus in splits([n if i in able else 0 for i, n in enumerate(gpus)], each):
                for taken in combinations(adapters, share.vfs):
                    after: Left = (
                        tuple(a - b for a, b in zip(gpus, taken_gpus, strict=True)),
                        rest,
                        tuple(n - (k in taken) for k, n in enumerate(functions)),
                        cores - share.cores,
                        memory - share.memory_mib,
                    )
                    found = max(found, 1 + best(after))
        return found

    return best(start)


def splits(has: list[int], wanted: int) -> list[tuple[int, ...]]:
    """Every way to take this many of these."""
    if not has:
        return [()] if wanted == 0 else []
    return [
        (n, *rest) for n in range(min(has[0], wanted) + 1) for rest in splits(has[1:], wanted - n)
    ]  # fmt: skip


AFFINITIES: list[Affinity] = ["required", "legacy", "socket", "preferred"]
nodes = st.builds(
    node,
    st.lists(st.integers(0, 4), min_size=2, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=3),
    st.one_of(st.none(), st.integers(1, 24)),
    st.just(2),
    st.one_of(st.none(), st.integers(1, 24)),
    st.one_of(st.none(), st.sampled_from([1, 2])),
)
shares = st.builds(
    Share,
    cores=st.integers(0, 6),
    memory_mib=st.integers(0, 6),
    numa=st.one_of(st.none(), st.sampled_from([1, 2])),
    affinity=st.sampled_from(AFFINITIES),
    vfs=st.integers(0, 2),
)


@given(nodes, st.integers(1, 3), shares)
@settings(max_examples=examples(400))
def test_as_many_servers_fit_as_possible_without_overlap(one: Node, each: int, share: Share) -> None:
    """On two NUMA nodes the number is exact for every policy, and all servers fit at the same time."""
    parts = filled(one, each, share)
    assert len(parts) == room(one).count(each, share)
    if share.memory_mib == 0 or share.numa is None:  # the model counts memory for the whole node only
        assert len(parts) == most(one, each, share)
    for i, part in enumerate(parts):
        assert clash(one, [part], parts[:i]) is None
        assert len(part.devices) == each and len({vf.split("/")[0] for vf in part.vfs}) == share.vfs
        on = {a.numa for a in one.accelerators if a.pci in part.devices}
        on |= {h.numa for h in one.hcas if any(vf.startswith(h.name) for vf in part.vfs)}
        if share.numa and share.affinity in ("required", "legacy"):
            assert on <= set(part.numa)
    assert room(one, *parts).take(each, share) is None


@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.integers(1, 24),
    st.integers(1, 3),
    st.integers(0, 6),
    st.integers(2, 3),
)
@settings(max_examples=examples(200))
def test_servers_over_several_numa_nodes_never_exceed_the_optimum(
    gpus: list[int], cores: int, each: int, wanted: int, numa: int
) -> None:
    """The choice is greedy there: never more than possible, and one server wherever one fits."""
    one = node(gpus, cores=4 * cores, numa=4)
    share = Share(cores=wanted, numa=numa)
    parts, could = filled(one, each, share), most(one, each, share)
    assert (could > 0) is bool(parts) and len(parts) <= could
    assert all(clash(one, [p], [q for q in parts if q is not p]) is None for p in parts)


def test_function_prefers_same_switch_then_numa_node() -> None:
    # NUMA node 1 has two accelerators behind each of two switches: mlx5_2 is behind the first, mlx5_1 behind the second
    one = node([0, 4], [(0, 3), (1, 1), (1, 1)])
    parts = filled(one, 1, Share(vfs=1))
    got = [(p.devices[0], p.vfs[0]) for p in parts]
    assert got == [
        ("0000:10:00.0", "mlx5_2/0"),
        ("0000:11:00.0", "mlx5_1/0"),
        ("0000:12:00.0", "mlx5_0/0"),
        ("0000:13:00.0", "mlx5_0/1"),
    ]
    assert [near_words(one, p) for p in parts] == [
        "behind the same PCIe switch",
        "on the same NUMA node",
        "not on the same NUMA node",
        "not on the same NUMA node",
    ]


def test_bound_function_is_located_by_its_pci_slot() -> None:
    """A function counted at mlx5_0 is bound behind mlx5_1: mlx5_0 has both left, and mlx5_1 none."""
    one = node([2, 2], [(0, 2), (1, 1)])
    hcas = tuple(h.model_copy(update={"vf_pci": f"0000:d{i}:00.1"}) for i, h in enumerate(one.hcas))
    one = one.model_copy(update={"hcas": hcas})
    held = Part(devices=("0000:00:00.0",), vfs=("mlx5_0/0",))
    strict = Share(numa=1, vfs=1)
    assert [p.vfs for p in filled(one, 1, strict, held)] == [("mlx5_0/1",), ("mlx5_1/0",)]
    bound = held.model_copy(update={"slots": {"mlx5_0/0": "0000:d1:00.1"}})
    parts = filled(one, 1, strict, bound)
    assert [p.vfs for p in parts] == [("mlx5_0/1",)] and parts[0].devices == ("0000:01:00.0",)


def test_numa_node_cores_limit_servers() -> None:
    """48 cores on two NUMA nodes hold two servers of 16 on one NUMA node each, not three."""
    one = node([4, 4], cores=48)
    assert len(filled(one, 1, Share(cores=16, numa=1))) == 2
    assert len(filled(one, 1, Share(cores=16))) == 3
    assert len(filled(one, 1, Share(cores=16, numa=2))) == 3


def test_dedicated_cores_are_counted_separately() -> None:
    own = Share(cores=8, numa=1, dedicated=True)
    assert len(filled(node([4, 4], cores=32), 1, own)) == 4
    apart = node([4, 4], cores=32).model_copy(update={"dedicated_cores": 16})
    parts = filled(apart, 1, own)
    assert len(parts) == 2 and len(filled(apart, 1, Share(cores=8), *parts)) == 4


def test_parts_one_after_the_other_share_the_same_cores() -> None:
    """Each of two successive parts uses the same half of the cores, and its own devices."""
    one = node([4, 4], cores=32)
    first = Part(devices=("0000:00:00.0",), cores=16, start=0.0, end=10.0)
    then = Part(devices=("0000:01:00.0",), cores=16, start=10.0, end=20.0)
    assert room(one, first, then).pool.cores == 16 and len(room(one, first, then).devices) == 6
    assert room(one, first, then.model_copy(update={"start": 9.0})).pool.cores == 0
