"""Offers are values: read from an answer and applied to an order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter

from weft.model.offer import (
    BootOffer,
    FieldsOffer,
    LeaseOffer,
    NeighboursOffer,
    Offer,
    OfferedChange,
    OfferedTime,
    ReleaseOffer,
    applied,
    can_apply,
    offered,
)
from weft.model.order import Order

NODES = {"count": 8, "flavor": "gpu8", "image": "tiny"}
END = datetime(2027, 1, 1, tzinfo=UTC)


def order(**more: Any) -> Order:
    return Order.model_validate({"name": "train", "nodes": NODES, **more})


def test_offer_is_applied_to_one_field() -> None:
    """The rest of the order stays."""
    before = order(locality={"required": "node"})
    after = applied(before, offered("locality.required", "node", "leaf"))
    assert after.locality.required == "leaf"
    assert after.model_copy(update={"locality": before.locality}) == before


def test_offer_changes_several_fields_together() -> None:
    """From shared nodes and adapters to bare metal: with one of the changes alone the order would be invalid."""
    shared = order(nodes={**NODES, "sharing": "shared"}, fabric={"hcas": "shared"})
    changes = (
        OfferedChange(field="nodes.kind", was="virtual", becomes="bare_metal"),
        OfferedChange(field="nodes.sharing", was="shared", becomes="dedicated"),
        OfferedChange(field="fabric.hcas", was="shared", becomes="dedicated"),
    )
    with pytest.raises(ValueError, match="only for virtual machines"):
        applied(shared, FieldsOffer(changes=changes[:1]))
    after = applied(shared, FieldsOffer(changes=changes))
    assert (after.nodes.kind, after.nodes.sharing, after.fabric.hcas) == (
        "bare_metal",
        "dedicated",
        "dedicated",
    )


def test_omitted_fields_and_lists_are_applied() -> None:
    ipus = order(ipus={"count": 16, "ipu_pod": "pod1"}, nodes={**NODES, "count": 1})
    assert applied(ipus, offered("ipus.ipu_pod", "pod1", None)).ipus == ipus.ipus.model_copy(  # pyright: ignore[reportOptionalMemberAccess]
        update={"ipu_pod": None}
    )
    apart = OfferedChange(field="locality.apart_from", was=("p2", "p3"), becomes=("p3",))
    before = order(locality={"apart_from": ("p2", "p3")})
    assert applied(before, NeighboursOffer(changes=(apart,))).locality.apart_from == ("p3",)


def test_offered_end_replaces_a_duration() -> None:
    """An order has one or the other."""
    ends = LeaseOffer(changes=(OfferedTime(field="lease.end", was=None, becomes=END),))
    after = applied(order(lease={"duration": "3d"}), ends)
    assert (after.lease.end, after.lease.duration) == (END, None)
    starts = LeaseOffer(changes=(OfferedTime(field="lease.start", was=None, becomes=END),))
    after = applied(order(lease={"duration": "3d"}), starts)
    assert (after.lease.start, after.lease.duration) == (END, "3d")


@pytest.mark.parametrize(
    ("offer", "says"),
    [
        (offered("nodes.count", 9, 4), "nodes.count is 8, not 9"),
        (offered("nodes.colour", 8, 4), "the order has no field nodes.colour"),
        (offered("nodes.count.more", 8, 4), "the order has no field nodes.count.more"),
        (offered("ipus.count", 16, 4), "the order has no field ipus.count"),
        (offered("nodes.count", 8, 0), "greater than or equal to 1"),
        (BootOffer(), "no change of the order does this: nodes.image, nodes.flavor: others"),
        (ReleaseOffer(pod="other"), "no change of the order does this: when pod other is released"),
    ],
)
def test_offer_for_another_order_is_refused(offer: Offer, says: str) -> None:
    """One sentence; the order doesn't change."""
    with pytest.raises(ValueError, match=says):
        applied(order(), offer)


def test_offer_is_read_from_an_answer() -> None:
    """As a client reads it: the message is only for people."""
    offer = offered("nodes.count", 8, 4)
    sent = offer.model_dump(mode="json")
    assert sent == {
        "kind": "fields",
        "changes": [{"field": "nodes.count", "was": 8, "becomes": 4}],
        "message": "nodes.count: 4 instead of 8",
    }
    read: Offer = TypeAdapter[Offer](Offer).validate_python({**sent, "message": "something else"})
    assert (read, read.message) == (offer, "nodes.count: 4 instead of 8")
    assert can_apply(read) and applied(order(), read).nodes.count == 4
