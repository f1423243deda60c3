"""A mapping with many versions, compared with a dictionary that is copied for each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.planning.overlay import FEW, Overlay

CHANGES = st.lists(
    st.dictionaries(st.integers(0, 3 * FEW), st.none() | st.integers(1, 9), max_size=FEW), max_size=12
)


@given(st.dictionaries(st.integers(0, 3 * FEW), st.integers(1, 9)), CHANGES)
def test_every_version_equals_a_copied_dictionary(
    base: dict[int, int], changes: list[dict[int, int | None]]
) -> None:
    versions, wanted = [Overlay(base)], [dict(base)]
    for change in changes:
        versions.append(versions[-1].with_changes(change))
        copied = {**wanted[-1], **change}
        wanted.append({key: value for key, value in copied.items() if value is not None})
    for version, copy in zip(versions, wanted, strict=True):
        assert version == copy and len(version) == len(copy)
        assert sorted(version) == sorted(copy) and sorted(version.values()) == sorted(copy.values())
        for key in range(3 * FEW + 1):
            assert version.get(key) == copy.get(key) and (key in version) == (key in copy)


def test_key_that_was_removed_is_missing() -> None:
    left = Overlay({"a": 1, "b": 2}).with_changes({"a": None})
    assert "a" not in left and list(left.items()) == [("b", 2)]
    assert left.with_changes({"a": 3})["a"] == 3
