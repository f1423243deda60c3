"""What is computed from a site is computed once."""

from __future__ import annotations

from tests.helpers.smallsite import small_site
from weft.model.site import Site
from weft.planning.kept import SITES, Latest, kept


def test_cached_result_is_computed_once_per_site() -> None:
    """For this object and the other arguments; an equal site is another key; the oldest is forgotten."""
    made: list[tuple[str, str]] = []

    @kept
    def named(site: Site, word: str) -> str:
        made.append((site.name, word))
        return f"{site.name} {word}"

    one = small_site()
    other = one.model_copy(update={"name": "other"})
    assert [named(one, "a"), named(one, "a"), named(one, "b"), named(other, "a")] == [
        f"{one.name} a",
        f"{one.name} a",
        f"{one.name} b",
        "other a",
    ]
    assert made == [(one.name, "a"), (one.name, "b"), ("other", "a")]
    for _ in range(SITES):
        named(one.model_copy(), "a")
    named(one, "a")
    assert len(made) == 4 + SITES


def test_result_is_kept_for_identical_and_equal_inputs() -> None:
    """Large inputs are compared by identity, others by value; of three results the oldest is forgotten."""
    kept_before, made = Latest[int](2), list[int]()

    def number(same: tuple[object, ...], *equal: object) -> int:
        return kept_before.of(same, equal, lambda: made.append(0) or len(made))

    one, twin = ["a"], ["a"]
    assert [number((one,), 1), number((one,), 1), number((twin,), 1), number((one,), 1)] == [1, 1, 2, 1]
    assert [number((one,), 2), number((one, twin), 2), number((one,), 1)] == [3, 4, 5]
