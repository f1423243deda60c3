"""The mark on everything that weft makes is read back from what a cloud stored."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.mark import Mark, outside_name, short_id_of

POD = "1f0c9a3b-0000-4000-8000-000000000001"


def test_a_mark_is_read_back_from_its_text() -> None:
    """Site, pod and key come back; a text that only looks like one doesn't."""
    mark = Mark("lab", POD, "port/gpu01/mlx5_0")
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


def test_an_outside_name_gives_the_pods_short_id() -> None:
    """A name of ours is known by its form; others are not."""
    name = outside_name(POD, "port/gpu01/mlx5_0")
    assert name == "weft-1f0c9a3b-port-gpu01-mlx5_0"
    assert short_id_of(name) == "1f0c9a3b"
    for other in ("", "weft-demo", "weft-1F0C9A3B-x", "my-weft-1f0c9a3b-x", "weft-1f0c9a3b-"):
        assert short_id_of(other) is None


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_mark_or_none(text: str) -> None:
    """Descriptions are written by tenants too: nothing in them raises."""
    mark = Mark.parse(text)
    assert mark is None or mark.text() == text
