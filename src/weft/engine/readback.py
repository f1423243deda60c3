"""What was read back of an owner that is released, and what follows of it for its numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from weft.engine.records import StaleNumber
from weft.model.kinds import Kind
from weft.model.receipt import ReceiptItem
from weft.model.spaces import SEGMENT

OVER = ("clean", "accepted", "kept")
"""Results that hold nothing back."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was read.

    Attributes:
        items: one a thing or place, clean or not.
        unclean: node -> why it can't be given back.
        at: when it was read through; the database's time.
        again: keys of resources that were seen, whatever their rows say: they are to be taken away again.
        stale: numbers that nobody may be given yet, though the pod's segment is gone from where it counts now.
        of_fabric: those of the items that fabrics' drivers have proved.
        of_nodes: node -> those of the items that aren't read again once it was given back.
        ended: id of a server -> what proves that nothing of it runs any more.
        elsewhere: nodes that the pod doesn't hold -> what says that a guest of it may run there.
        stays: a guest of it was never removed, as far as is known: it may be on the pod's networks still.
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

    @property
    def over(self) -> bool:
        """Nothing is left, as far as can be read."""
        return all(i.result in OVER for i in self.items)

    def reason(self) -> str:
        bad = [f"{i.plane} {i.subject}: {i.seen}" for i in self.items if i.result not in OVER]
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        return "; ".join(bad[:3]) + more


def unfree(read: ReadBack, numbers: Iterable[tuple[str, int]]) -> frozenset[tuple[str, int]]:
    """Spaces and numbers of those that may still be in use outside: not to be given to anybody.

    A fabric's number is a network's too, and everything else is the cloud's: what isn't seen gone there keeps them, but
    for data, which is on no network (what lets a server in to it is a kind of its own): its tenant can keep it
    from being deleted for ever. Nodes and guests keep none by being unknown, since what a number was for is read for
    itself; a guest that was never removed may be on its networks' VLANs still, where its host is cut off from Neutron.
    """
    fabric = any(i.result not in OVER for i in read.of_fabric)
    beside = {"database", "guest", "host", *(str(kind) for kind in Kind if kind.row.data)}
    cloud = any(
        i.result not in OVER and i.plane not in beside and i not in read.of_fabric for i in read.items
    )
    return frozenset(
        (space, number)
        for space, number in numbers
        if cloud or (fabric if space.startswith(SEGMENT) else read.stays)
    )
