"""Rows of capacity of any shape pass through the API, the client and the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from weft.app.offline import row_view
from weft.app.shown import shown
from weft.cli.capacity import COLUMNS, lines_of
from weft.model.site import AcceleratorCount
from weft.model.views import CapacityView
from weft.planning.queue.capacityrow import CapacityRow, Largest, RowLimit, Soon

AT = datetime(2026, 11, 21, 16, 1, tzinfo=UTC)
ROW = CapacityRow(
    shape="wafers",
    cloud="main",
    place_kind="cabinet",
    place="c1",
    unit="wafers",
    accelerators=AcceleratorCount(type="wse", count=1),
    total=4,
    free=3,
    orders="slices",
    largest=(Largest(6, where="secret place"),),
    soon=(Soon(8, AT.timestamp()),),
    counts=(RowLimit("memory nodes", 5, 2), RowLimit("lanes", free=7), RowLimit("racks", 1, each=4)),
)


def test_capacity_row_of_a_new_shape_reaches_api_and_command_line() -> None:
    """None of the layers knows which shapes there are."""
    row = row_view(ROW)
    assert (row.shape, row.place_kind, row.place, row.free) == ("wafers", "cabinet", "c1", 3)
    assert row.soon[0].at == AT
    (line,) = lines_of(row.model_dump(mode="json"))
    assert {name: line[name] for name in COLUMNS} == {
        "shape": "wafers",
        "accelerators": "1 x wse",
        "cloud": "main",
        "place": "c1",
        "unit": "wafers",
        "free": 3,
        "total": 4,
        "inside": None,
        "orders": "slices",
        "largest": 6,
        "later": "8 from 2026-11-21T16:01Z",
        "where": "secret place",
        "counts": "memory nodes: 2 of 5 free; lanes: 7 free; racks of 4 nodes: 1",
    }


def test_tenants_see_no_location_or_exact_time_of_a_capacity_row() -> None:
    """Where the largest order fits is for operators; times follow from other projects' leases and are rounded."""
    view = CapacityView(at=AT, duration="24h", rows=(row_view(ROW),))
    (row,) = shown(view).rows
    assert "secret" not in row.model_dump_json()
    assert row.soon[0].at == datetime(2026, 11, 21, 16, 15, tzinfo=UTC)
    assert row.model_copy(update={"largest": (), "soon": ()}) == view.rows[0].model_copy(
        update={"largest": (), "soon": ()}
    )
    assert row.largest[0].count == 6
