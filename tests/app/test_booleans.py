"""`true` in place of a number is refused: pydantic would read it as 1."""

from __future__ import annotations

import pytest
from pydantic import Field

from weft.app.explain import validate, validate_rows, validate_written
from weft.app.yamltext import Positions
from weft.model.base import Document
from weft.model.errors import InputErrors


class Row(Document):
    name: str
    count: int = 1
    share: float | None = None
    flag: bool | int = False


class Table(Document):
    rows: tuple[Row, ...]
    sized: int | None = None
    named: dict[str, Row] = Field(default_factory=dict[str, Row])


def test_boolean_in_place_of_a_number_is_named() -> None:
    """Only in JSON: YAML is read as text."""
    rows = [{"name": "a", "flag": True}, {"name": "b", "count": True, "share": False}]
    with pytest.raises(InputErrors) as refused:
        validate(
            Table,
            {"sized": False, "rows": rows, "named": {"c": {"name": "c", "count": False}}},
            Positions(),
            ("site",),
        )
    assert sorted((e.field, e.value) for e in refused.value.errors) == [
        ("site.named.c.count", False),
        ("site.rows[1].count", True),
        ("site.rows[1].share", False),
        ("site.sized", False),
    ]
    assert {e.allowed for e in refused.value.errors} == {"a number, not true or false"}


def test_boolean_in_a_row_is_named_with_its_index() -> None:
    rows = [{"name": "a"}, {"name": "b", "count": True}]
    assert validate_rows(Row, "rows", rows[:1], 10) == ((Row(name="a"),), [], 0)
    found, [error], more = validate_rows(Row, "rows", rows, 10)
    assert (found, error.field, more) == ((), "rows[11].count", 0)


def test_empty_field_that_is_unknown_is_named() -> None:
    """The same field in a known place counts as missing."""
    data = {
        "rows": [{"name": "a", "count": None}, {"name": "b", "cuont": None}],
        "named": {"x": {"nme": None}},
    }
    with pytest.raises(InputErrors) as refused:
        validate_written(Table, data, Positions())
    assert [error.field for error in refused.value.errors] == ["rows[1].cuont", "named.x.nme"]
    assert "did you mean count?" in str(refused.value)
    assert (
        validate_written(Table, {"rows": [{"name": "a", "share": None}]}, Positions()).rows[0].share is None
    )
