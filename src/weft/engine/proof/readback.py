"""What was read back of an owner that is being released, and which of its numbers that keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord, ResourceRecord, StaleNumber
from weft.model.kindrow import Home
from weft.model.kinds import Kind
from weft.model.receipt import ReceiptItem
from weft.model.spaces import SEGMENT

OVER = ("clean", "accepted", "kept")
"""Results that block nothing."""


OFF_THE_WIRE = frozenset(
    str(kind) for kind in Kind if kind.row.home is Home.CLOUD and not kind.row.keeps_node
)
"""Planes of resources that send no frames: whether they are gone decides nothing about a fabric's traffic."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Result of reading an owner back.

    Attributes:
        items: one per resource or place, clean or not.
        unclean: node -> why it can't be freed.
        at: when the reading ended; the database's time.
        again: keys of resources that were seen, whatever their rows say: they must be removed again.
        stale: numbers that can't be assigned yet, though the pod's segment is gone from the active manager.
        of_fabric: the items that fabrics' drivers have proved.
        of_nodes: node -> the items that aren't read again once it was freed.
        ended: id of a server -> proof that nothing of it is running any more.
        elsewhere: nodes that the pod doesn't hold -> why a guest of it may run there.
        stays: a guest was never removed, as far as is known, and may still be on the pod's networks; or some data still
            admits the networks' addresses.
        of_numbers: space and number -> the items about segments and networks that use it.
    """

    items: tuple[ReceiptItem, ...]
    unclean: dict[str, str]
    at: datetime
    again: frozenset[str] = frozenset()
    stale: tuple[StaleNumber, ...] = ()
    of_fabric: tuple[ReceiptItem, ...] = ()
    of_nodes: Mapping[str, tuple[ReceiptItem, ...]] = field(
        default_factory=dict[str, tuple[ReceiptItem, ...]]
    )
    ended: Mapping[str, str] = field(default_factory=dict[str, str])
    elsewhere: Mapping[str, str] = field(default_factory=dict[str, str])
    stays: bool = False
    of_numbers: Mapping[tuple[str, int], tuple[ReceiptItem, ...]] = field(
        default_factory=dict[tuple[str, int], tuple[ReceiptItem, ...]]
    )

    @property
    def over(self) -> bool:
        """Whether nothing is left, as far as can be read."""
        return all(i.result in OVER for i in self.items)

    def reason(self) -> str:
        """The first three things that aren't gone, and how many more; empty: all are."""
        bad = [f"{i.plane} {i.subject}: {i.seen}" for i in self.items if i.result not in OVER]
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        return "; ".join(bad[:3]) + more


def unfree(read: ReadBack, numbers: Iterable[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    """The numbers among these that may still be in use outside, and must not be assigned again.

    A number is free once every segment and network that uses it was read back clean, whatever else is left: groups,
    routers, floating IPs, key pairs and data are on no wire, and their tenant can keep them from being deleted. A
    server that isn't seen gone may still send on its networks' VLANs, where its host is cut off from Neutron; a rule
    that admits addresses to data would admit their next holder. A number that no item mentions is free once nothing is
    left.
    """
    return frozenset(
        (space, number)
        for space, number in numbers
        if any(i.result not in OVER for i in read.of_numbers.get((space, number), ()))
        or ((space, number) not in read.of_numbers and not read.over)
        or (read.stays and not space.startswith(SEGMENT))
    )


def subject_of(record: ResourceRecord) -> str:
    """Its name and id."""
    return f"{record.resource.name} {record.outside_id or '(never created)'}"


def nodes_of(record: ResourceRecord, pod: OwnerRecord | None) -> tuple[str, ...]:
    """Nodes that can't be freed while this resource exists: its own, or none for a shared one."""
    node = record.resource.node
    if not record.kind.row.keeps_node or not node or not isinstance(pod, PodRecord):
        return ()
    return (node,) if node in pod.nodes or not record.wanted else pod.nodes
