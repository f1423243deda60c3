"""Which ports have no P_Key entry left for a pod's key."""

from __future__ import annotations

from dataclasses import replace

from tests.planning.place.placesites import build_site
from weft.model.fabric import TightPort
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.ids import DEFAULT_PKEY
from weft.model.placement import FullPort
from weft.model.site import Site
from weft.model.subnet import Partition
from weft.planning.fabric.portkeys import crowded, full

DEFAULT = Partition(DEFAULT_PKEY, "Default", everybody=True)
POD, OTHER = 100, 101
"""Keys inside of weft's range (2 to 126)."""


def partitions(*more: Partition) -> dict[int, Partition]:
    return {p.pkey: p for p in (DEFAULT, *more)}


def named(pkey: int, *guids: int, everybody: bool = False) -> Partition:
    return Partition(pkey, "x", dict.fromkeys(guids, Mode.LIMITED), everybody)


def port(site: Site, node: str) -> int:
    return site.node_by_name[node].hcas[0].port_guid


def is_full(one: TightPort, entries: int, *pods: int) -> FullPort | None:
    return full(replace(one, entries=entries), FabricKind.INFINIBAND.row, pods)


def test_ports_with_only_a_pods_key_are_not_crowded() -> None:
    """The default key and one key of weft's range fit any table, so the table's size isn't read."""
    site = build_site([[3]])
    assert crowded(site, "ib0", partitions()) == []
    assert crowded(site, "ib0", partitions(named(POD, port(site, "gpu1")))) == []


def test_foreign_and_leftover_keys_count() -> None:
    """A key outside weft's range, or a second one inside it, makes a port a candidate."""
    site = build_site([[3]])
    found = crowded(
        site,
        "ib0",
        partitions(
            named(0x2001, port(site, "gpu1"), 0xDEAD),
            named(POD, port(site, "gpu2")),
            named(OTHER, port(site, "gpu2"), port(site, "gpu3")),
        ),
    )
    assert [(p.node, sorted(p.numbers)) for p in found] == [
        ("gpu1", [0x2001, DEFAULT_PKEY]),
        ("gpu2", [POD, OTHER, DEFAULT_PKEY]),
    ]


def test_partition_with_all_ports_counts_in_every_table() -> None:
    """Its member is ALL instead of named ports."""
    site = build_site([[2]])
    found = crowded(site, "ib0", partitions(named(0x2001, everybody=True)))
    assert [p.node for p in found] == ["gpu1", "gpu2"]


def test_port_is_full_when_no_entry_is_left() -> None:
    """Keys of the given pods don't count, since they are freed first."""
    site = build_site([[1]])
    mine = port(site, "gpu1")
    (one,) = crowded(site, "ib0", partitions(named(0x2001, mine), named(POD, mine), named(OTHER, mine)))
    assert is_full(one, 5) is None
    found = is_full(one, 4)
    assert found is not None and (found.node, found.fabric) == ("gpu1", "ib0")
    assert found.why == (
        f"port mlx5_0 (0x{mine:016x}) has no entry left for a P_Key: 4 of 4 are taken, "
        "by 0x65, 0x2001, 0x7fff and others"
    )
    assert is_full(one, 4, POD) is None
    assert is_full(one, 3, POD) is not None
    assert is_full(one, 2, POD, OTHER) is not None


def test_only_compute_nodes_are_examined() -> None:
    """The port of a subnet manager may be full."""
    site = build_site([[2]], lambda name: {"role": "subnet-manager"} if name == "gpu1" else {})
    found = crowded(site, "ib0", partitions(named(0x2001, everybody=True)))
    assert [p.node for p in found] == ["gpu2"]
