"""Nodes as operators see them, made from what the database counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from uuid import uuid4

from bench.sites import regular_site
from weft.app.show import node_view, node_views
from weft.engine.book.capacity import Capacity
from weft.engine.book.holdrows import Holder, NodeHold, Quarantined
from weft.model.plan import UsedNumbers
from weft.model.views import NodeView

AT = datetime(2027, 1, 1, tzinfo=UTC)


class CountedRows(list[NodeHold]):
    """Counts how often it is iterated."""

    passes = 0

    def __iter__(self) -> Iterator[NodeHold]:
        self.passes += 1
        return super().__iter__()


def test_shared_nodes_are_listed_in_one_pass() -> None:
    """Tenants order any number of parts: the list must not be searched again for each node."""
    site = regular_site(60)
    rows = CountedRows(_hold(f"gpu{n}", f"pod{n}-{part}") for n in range(20) for part in (2, 1))
    capacity = Capacity(holds={}, quarantines={}, used=UsedNumbers(), shared=rows)
    views = node_views(site, capacity)
    assert rows.passes == 1
    assert [view.state for view in views].count("busy") == 20
    assert views[3].reason == "shared by pod3-1, pod3-2" and views[20].reason == ""
    assert node_view(site, "gpu3", capacity) == views[3] and rows.passes == 2


def test_node_views_are_valid_documents() -> None:
    """They are made without validation, which took most of the time for a site of 16,000 nodes."""
    site = regular_site(2)
    held = {"gpu0": _hold("gpu0", "train")}
    quarantine = {"gpu1": Quarantined("gpu1", "dirty", AT, None, 7)}
    views = node_views(site, Capacity(holds=held, quarantines=quarantine, used=UsedNumbers()))
    for view in views:
        again = NodeView.model_validate(view.model_dump())
        assert again == view and again.model_fields_set == view.model_fields_set
        assert NodeView.model_validate_json(view.model_dump_json()) == view
    assert [view.state for view in views] == ["busy", "quarantined"]


def _hold(node: str, pod: str) -> NodeHold:
    return NodeHold(node, Holder(uuid4(), pod, "p"), AT)
