"""Rows of capacity by shape."""

from __future__ import annotations

from weft.model.views import CapacityRowView, CapacityView, CountView


def rows_of(view: CapacityView, shape: str) -> list[CapacityRowView]:
    return [row for row in view.rows if row.shape == shape]


def count_of(row: CapacityRowView, name: str) -> CountView:
    """The row's count with this name."""
    (found,) = [count for count in row.counts if count.name == name]
    return found
