"""The mark of everything that weft creates is read back from what a cloud stored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.mark import Mark, outside_name
from weft.model.owner import Owner, OwnerKind

POD = "1f0c9a3b-0000-4000-8000-000000000001"


def test_mark_is_read_back_from_its_text() -> None:
    """Site, pod and key; similar texts aren't marks."""
    mark = Mark("lab", Owner.pod(POD), "port/gpu01/mlx5_0")
    assert Mark.parse(mark.text()) == mark
    assert mark.tags() == ("weft", "weft-site=lab", f"weft-pod={POD}")
    for text in (
        "",
        "weft",
        mark.text() + " and more",
        mark.text().replace("pod=", "pod=x"),
        "x" + mark.text(),
    ):
        assert Mark.parse(text) is None


@pytest.mark.parametrize("kind", ["site", "network"])
def test_marks_of_other_owners_name_their_kind(kind: OwnerKind) -> None:
    """A pod's mark keeps its old form; marks of unknown kinds are ignored."""
    mark = Mark("lab", Owner(kind, POD), "network/provider")
    assert mark.text() == f"weft site=lab owner={kind}:{POD} key=network/provider"
    assert Mark.parse(mark.text()) == mark and mark.owner != Owner.pod(POD)
    assert mark.tags() == ("weft", "weft-site=lab", f"weft-owner={kind}:{POD}")
    for text in (
        mark.text().replace(kind, "tenant"),
        mark.text().replace(kind, "pod"),
        mark.text().replace(POD, "lab"),
        mark.text().replace("key=", "pod=" + POD + " key="),
    ):
        assert Mark.parse(text) is None


def test_outside_name_begins_with_the_owners_short_id() -> None:
    """For every kind of owner."""
    assert outside_name(POD, "port/gpu01/mlx5_0") == "weft-1f0c9a3b-port-gpu01-mlx5_0"


@given(st.text(max_size=80))
def test_parser_accepts_any_text(text: str) -> None:
    """Descriptions are written by tenants, too; no text raises."""
    mark = Mark.parse(text)
    assert mark is None or mark.text() == text
